//! Money in the tests' world: buyers who pay in the sandbox, its notices, and whether the shop's books agree with the providers'.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::claim::ClaimState;
use domain::ids::{Buyer, BuyerKey, IdempotencyKey, Offer, OrderId};
use domain::order::{Order, Status};
use domain::payment::{Arrived, Method, OpenEntry};
use edge::Body;
use flows::start_payment::{Ask, NotStarted, Started, start_payment};
use local_cloud::sandbox::{DueNotice, is_accepted};
use payments::{Notice, Subject};
use telemetry::Sink;

use crate::world::{SALT, World};

/// The methods that are a provider's.
pub const PROVIDERS: [Method; 4] = [Method::Alipay, Method::Wechat, Method::WechatV2, Method::Stripe];

impl World {
    /// An order of `buyer`'s that waits for its payment.
    pub async fn waiting(&self, offer: &Offer, buyer: &str) -> OrderId {
        let order = self.buys(offer, buyer).await;
        self.consume().await;
        order
    }

    pub async fn asks_to_pay(&self, order: &OrderId, method: Method, points: i64) -> Result<Started, NotStarted> {
        let ask = Ask {
            order: order.clone(),
            method,
            points,
            client_ip: "203.0.113.7".into(),
            public_url: "https://shop.example".into(),
            now: self.now(),
        };
        start_payment(&self.store, &self.providers, &ask).await
    }

    pub async fn starts(&self, order: &OrderId, method: Method, points: i64) -> Started {
        self.asks_to_pay(order, method, points).await.unwrap()
    }

    /// The buyer follows the link, or reads the QR code, and pays.
    pub async fn pays(&self, started: &Started) {
        self.opens(started).await;
        self.cloud.sandbox.pay(&started.number.to_string()).await.unwrap();
    }

    /// The same, although the payment was closed.
    pub async fn pays_late(&self, started: &Started) {
        self.cloud.sandbox.pay_late(&started.number.to_string()).await.unwrap();
    }

    /// The buyer follows the link or reads the QR code.
    pub async fn opens(&self, started: &Started) {
        let link = started.link.pay_url.as_ref().or(started.link.qr_code.as_ref()).unwrap();
        self.cloud.sandbox.open(link).await.unwrap();
    }

    /// Every notice that is due is delivered. Returns how many there were.
    pub async fn notices(&self) -> usize {
        let mut delivered = 0;
        loop {
            let due = self.cloud.sandbox.due_notices().await.unwrap();
            if due.is_empty() {
                return delivered;
            }
            for notice in due {
                let accepted = self.take(&notice).await;
                self.cloud.sandbox.delivered(notice.id, accepted).await.unwrap();
                delivered += 1;
            }
        }
    }

    /// A notice, at the door of payment-notify. Whether it was accepted.
    pub async fn take(&self, due: &DueNotice) -> bool {
        let now = self.now();
        let app = payment_notify::App {
            metrics: Sink::to(|_| ()),
            ..payment_notify::App::new(self.store.clone(), self.providers.clone(), Arc::new(move || now))
        };
        let mut request = hyper::Request::post(&due.call.url);
        for (name, value) in due.call.headers.iter() {
            request = request.header(name, value);
        }
        let request = request.body(Body::Binary(due.call.body.clone())).unwrap();
        let (parts, body) = payment_notify::handle(&app, request).await.into_parts();
        is_accepted(due.kind, parts.status.as_u16(), &body)
    }

    /// Gives a buyer points.
    pub async fn points(&self, buyer: &str, points: i64) {
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

    /// Time passes, and everything that is on its way arrives: deadlines, notices, refunds that are tried again.
    pub async fn quiet_down(&self) {
        self.pass(1_000);
        for _ in 0..3 {
            self.settle_down().await;
            self.notices().await;
            self.pass(300);
            self.reconcile().await;
        }
    }

    /// Whether the shop's books agree with the providers', with the stock and with the claims. To be asked when all is quiet.
    pub async fn books_agree(&self, offer: &Offer, orders: &[OrderId]) -> Result<(), String> {
        let mut sold = BTreeMap::new();
        for bucket in self.buckets(offer).await {
            if !bucket.adds_up() || !bucket.holders.is_empty() {
                return Err(format!("a bucket is not quiet: {bucket:?}"));
            }
            sold.extend(bucket.sold_to);
        }
        for id in orders {
            self.order_ended_well(offer, id, sold.remove(id)).await?;
        }
        if !sold.is_empty() {
            return Err(format!("sold to nobody: {sold:?}"));
        }
        let open: Vec<OpenEntry> = self.store.open_entries().await.map_err(|error| error.to_string())?;
        if !open.is_empty() {
            return Err(format!("something is still to be done: {open:?}"));
        }
        Ok(())
    }

    /// The same of one order, of which its bucket says that so many units were sold to it.
    pub async fn order_ended_well(&self, offer: &Offer, id: &OrderId, sold: Option<u32>) -> Result<(), String> {
        let order = self.order(id).await.ok_or("there is no order")?;
        self.order_agrees(offer, &order, sold).await.map_err(|why| format!("{why}: {order:?}"))
    }

    async fn order_agrees(&self, offer: &Offer, order: &Order, sold: Option<u32>) -> Result<(), String> {
        let is_paid = order.status == Status::Paid;
        if !matches!(order.status, Status::Paid | Status::Closed | Status::Refunded) {
            return Err("the order has not ended".into());
        }
        if sold != is_paid.then_some(order.quantity) {
            return Err(format!("its bucket says that {sold:?} were sold to it"));
        }
        let (claims, _) = self.store.claims(&order.id.buyer(), &offer.sale).await.unwrap();
        let claim = claims.claims.get(&offer.item).filter(|claim| claim.order == order.id);
        if claim.is_some() != is_paid || claim.is_some_and(|claim| claim.state == ClaimState::Held) {
            return Err(format!("its claim is {claim:?}"));
        }
        self.money_agrees(order).await
    }

    /// Money taken is money kept or refunded, each payment at most once, and both are in the log.
    async fn money_agrees(&self, order: &Order) -> Result<(), String> {
        let entries = self.store.entries(&order.id).await.unwrap();
        let names: Vec<String> = entries.iter().map(|entry| entry["entry"].as_s().unwrap().clone()).collect();
        let mut kept = 0;
        let mut refunds: BTreeMap<String, usize> = BTreeMap::new();
        for money in self.cloud.sandbox.money().await.unwrap() {
            if !money.number.starts_with(order.id.as_str()) {
                continue;
            }
            let log = if money.refund.is_some() { "REFUND" } else { "PAY" };
            let name = format!("{log}#{}#{}", money.provider, money.transaction);
            if !names.contains(&name) {
                return Err(format!("{name} is not in the log: {names:?}"));
            }
            match money.refund {
                None => kept += money.amount,
                Some(_) => {
                    kept -= money.amount;
                    *refunds.entry(money.transaction).or_default() += 1;
                }
            }
        }
        let due = order.paid.as_ref().filter(|_| order.status == Status::Paid).map_or(0, |paid| paid.amount);
        if kept != due {
            return Err(format!("{kept} were kept and {due} are due"));
        }
        match refunds.into_iter().find(|(_, times)| *times > 1) {
            Some((transaction, times)) => Err(format!("{transaction} was refunded {times} times")),
            None => Ok(()),
        }
    }
}

/// Money that a notice tells of.
pub fn arrived(notice: &Notice) -> Arrived {
    let Subject::FlashSale(number) = &notice.subject else { panic!("{notice:?}") };
    let paid = notice.paid().unwrap();
    Arrived {
        order: number.order().clone(),
        attempt: number.attempt(),
        method: flows::method(notice.provider),
        transaction: paid.transaction,
        amount: paid.amount,
        currency: paid.currency,
    }
}
