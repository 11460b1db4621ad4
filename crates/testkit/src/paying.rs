//! Payments in a test: buyers who pay in the providers' sandbox, and the delivery of its notices.

use std::sync::Arc;

use domain::ids::{Buyer, BuyerKey, IdempotencyKey, Offer, OrderId};
use domain::payment::{Arrived, Method};
use edge::{Body, Request};
use flows::Context;
use flows::pay::start_payment::{NotStarted, StartPayment, Started, start_payment};
use payments::{Notice, ProviderKind, Subject};
use sandbox::{DueNotice, is_accepted};
use telemetry::Sink;

use crate::world::{SALT, World};

/// The methods that are paid at a provider: all but points.
pub const PROVIDERS: [Method; ProviderKind::ALL.len()] = {
    let mut methods = [Method::Points; ProviderKind::ALL.len()];
    let mut at = 0;
    while at < methods.len() {
        methods[at] = ProviderKind::ALL[at].method();
        at += 1;
    }
    methods
};

impl World {
    /// A new order of `buyer` that waits for its payment.
    pub async fn unpaid_order(&self, offer: &Offer, buyer: &str) -> OrderId {
        let order = self.buys(offer, buyer).await;
        self.consume().await;
        order
    }

    pub async fn try_start_payment(&self, order: &OrderId, method: Method, points: i64) -> Result<Started, NotStarted> {
        let asked = StartPayment {
            order: order.clone(),
            method,
            points,
            client_ip: "203.0.113.7".into(),
            public_url: "https://shop.example".into(),
        };
        let (store, providers) = (self.store_of("shop"), self.providers_of("shop"));
        start_payment(Context::new(&store, &providers, self.now()), &asked).await
    }

    pub async fn start_payment(&self, order: &OrderId, method: Method, points: i64) -> Started {
        self.try_start_payment(order, method, points).await.unwrap()
    }

    /// The buyer follows the link, or reads the QR code, and pays.
    pub async fn pay(&self, started: &Started) {
        self.open_link(started).await;
        self.cloud.sandbox.pay(&started.number.to_string()).await.unwrap();
    }

    /// The same, although the payment was closed at the provider before.
    pub async fn pay_late(&self, started: &Started) {
        self.cloud.sandbox.pay_late(&started.number.to_string()).await.unwrap();
    }

    /// The buyer follows the link or reads the QR code.
    pub async fn open_link(&self, started: &Started) {
        let link = started.link.pay_url.as_ref().or(started.link.qr_code.as_ref()).unwrap();
        self.cloud.sandbox.open(link).await.unwrap();
    }

    /// Delivers every notice that is due. Returns how many there were.
    pub async fn deliver_notices(&self) -> usize {
        let mut delivered = 0;
        loop {
            let due = self.cloud.sandbox.due_notices().await.unwrap();
            if due.is_empty() {
                return delivered;
            }
            for notice in due {
                let accepted = self.deliver_notice(&notice).await;
                self.cloud.sandbox.delivered(notice.id, accepted).await.unwrap();
                delivered += 1;
            }
        }
    }

    /// Delivers one notice to payment-notify. Returns whether it was accepted.
    pub async fn deliver_notice(&self, due: &DueNotice) -> bool {
        let now = self.now();
        let (store, providers) = (self.store_of("payment-notify"), self.providers_of("payment-notify"));
        let app = payment_notify::App {
            metrics: Sink::to(|_| ()),
            ..payment_notify::App::new(store, providers, Arc::new(move || now))
        };
        let (parts, body) = payment_notify::handle(&app, notice_request(due)).await.into_parts();
        is_accepted(due.kind, parts.status.as_u16(), &body)
    }

    /// Credits points to a buyer, once for each amount.
    pub async fn give_points(&self, buyer: &str, points: i64) {
        let buyer = Buyer::parse(buyer).unwrap();
        let key = BuyerKey::of(&buyer, SALT);
        let name = IdempotencyKey::parse(format!("gift-{points}")).unwrap();
        self.store.credit_points(&buyer, &key, points, &name, self.now()).await.unwrap();
    }

    /// A buyer's points: (balance, frozen).
    pub async fn points_of(&self, buyer: &str) -> (i64, i64) {
        let account = self.store.account(&BuyerKey::of(&Buyer::parse(buyer).unwrap(), SALT)).await.unwrap();
        (account.balance, account.frozen.values().sum())
    }

    /// Lets time pass and delivers everything in flight: messages, deadlines, notices, and retries of refunds.
    pub async fn settle_fully(&self) {
        self.pass(1_000);
        for _ in 0..3 {
            self.settle_down().await;
            self.deliver_notices().await;
            self.pass(300);
            self.reconcile().await;
        }
    }
}

/// A notice as the HTTP request that payment-notify receives.
pub fn notice_request(due: &DueNotice) -> Request {
    let mut request = hyper::Request::post(&due.call.url);
    for (name, value) in due.call.headers.iter() {
        request = request.header(name, value);
    }
    request.body(Body::Binary(due.call.body.clone())).unwrap()
}

/// The payment that a notice reports.
pub fn arrived(notice: &Notice) -> Arrived {
    let Subject::FlashSale(number) = &notice.subject else { panic!("{notice:?}") };
    let paid = notice.paid().unwrap();
    Arrived {
        order: number.order().clone(),
        attempt: number.attempt(),
        method: notice.provider.method(),
        transaction: paid.transaction,
        amount: paid.amount,
        currency: paid.currency,
        refunded: None,
    }
}
