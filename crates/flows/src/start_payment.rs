//! A buyer asks how to pay: a link or a QR code of a provider, or points.
//!
//! | stopped after | what is left | who repairs it |
//! |---|---|---|
//! | another open payment is closed | the order waits, with no payment, or with one that is marked as closing | the buyer asks again; else the order's own close |
//! | the payment is open in the order (its points are frozen with it) | the provider may not know it yet | the buyer asks again and gets the same; else the order's own close, which closes it at the provider |
//! | the provider was asked | its answer is not kept | the same: the provider answers a repeated request with the same payment |
//! | the answer is kept | nothing undone | |
//!
//! Amount, currency and number come from the order, never from the buyer. The payment is in the order before the provider hears of it: whatever
//! can be paid is known to whoever closes the order.

use domain::Timestamp;
use domain::ids::{OrderId, PaymentNumber};
use domain::money::Currency;
use domain::order::{Order, Status};
use domain::payment::{Attempt, Link, MAX_ATTEMPTS, Method, OpenPayment, PaidWith, money_beside};
use payments::{Kind, PaymentRequest, ProviderError, ReturnPage};
use providers::{Providers, Trouble};
use store::{Opened, OrderChange, PointsPaid, Store, StoreError};

use crate::close_at_provider::{ProviderClose, close_at_provider};
use crate::settle::{self, Settled};
use crate::undone::FlowError;

/// How often the order is looked at again because it changed meanwhile.
const ROUNDS: u32 = 5;

/// What a buyer asks for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The order.
    pub order: OrderId,
    /// How it is to be paid.
    pub method: Method,
    /// Points beside the money; all of it, if the method is points.
    pub points: i64,
    /// The buyer's address.
    pub client_ip: String,
    /// Where this system is reached from outside, without a slash at its end.
    pub public_url: String,
    /// When.
    pub now: Timestamp,
}

/// A payment that the buyer can make now, or has made with points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its number.
    pub number: PaymentNumber,
    /// How to get there.
    pub link: Link,
    /// Money to pay, in minor units.
    pub amount: i64,
    /// The currency.
    pub currency: Currency,
    /// Points beside it.
    pub points: i64,
    /// Until when.
    pub expires_at: Timestamp,
    /// Whether it is paid with that: points need nothing more.
    pub paid: bool,
}

/// Why there is no payment.
#[derive(Debug)]
pub enum NotStarted {
    /// There is no such order.
    UnknownOrder,
    /// The order does not wait for payment.
    WrongStatus(Status),
    /// Its deadline has passed.
    TooLate,
    /// It was paid just now.
    Paid,
    /// The provider is not configured here; these methods are.
    NotConfigured(Vec<Method>),
    /// Such a payment is not even sent to the provider, in this system's own words.
    Unsupported(String),
    /// The provider said no. Its words may speak of settings and keys: they are for the log, never for the buyer.
    Refused(String),
    /// So many points cannot be used for this order.
    WrongPoints,
    /// The buyer has too few points.
    PointsShort,
    /// Another payment is open, and its provider does not close it before this moment.
    OtherOpenUntil(Timestamp),
    /// The order's payment was changed too often.
    TooMany,
    /// Not possible right now.
    FlowError(FlowError),
}

impl From<FlowError> for NotStarted {
    fn from(error: FlowError) -> Self {
        Self::FlowError(error)
    }
}

impl From<StoreError> for NotStarted {
    fn from(error: StoreError) -> Self {
        Self::FlowError(error.into())
    }
}

/// Starts a payment, or gives the one that is open.
pub async fn start_payment(store: &Store, providers: &Providers, ask: &Ask) -> Result<Started, NotStarted> {
    let kind = Kind::of(ask.method);
    if let Some(kind) = kind {
        check_configured(providers, kind, ask.now).await?;
    }
    for _ in 0..ROUNDS {
        let order = store.order(&ask.order).await?.ok_or(NotStarted::UnknownOrder)?;
        if order.status != Status::PendingPayment {
            return Err(NotStarted::WrongStatus(order.status));
        }
        if order.pay_by <= ask.now {
            return Err(NotStarted::TooLate);
        }
        let attempt = attempt(&order, ask)?;
        if let Some(open) = &order.payment {
            let is_same = order.attempts.get(usize::from(open.attempt)) == Some(&attempt) && !open.closing;
            if let (true, Some(kind)) = (is_same, kind) {
                return present(store, providers, &order, open, &attempt, kind, ask).await;
            }
            close_other(store, providers, &order, open, ask.now).await?;
            continue;
        }
        let Some(kind) = kind else {
            match pay_with_points(store, &order, ask).await? {
                Some(started) => return Ok(started),
                None => continue,
            }
        };
        let payment = open_payment(&order, ask)?;
        match store.open_payment(&order, &attempt, &payment, ask.now).await? {
            Opened::Open(order) => return present(store, providers, &order, &payment, &attempt, kind, ask).await,
            Opened::PointsShort => return Err(NotStarted::PointsShort),
            Opened::Refused => {}
        }
    }
    Err(FlowError::Busy.into())
}

/// The methods that are configured here. Points always are.
pub async fn methods(providers: &Providers, now: Timestamp) -> Result<Vec<Method>, FlowError> {
    let kinds = providers.configured(now).await.map_err(|trouble| trouble_of(Method::Points, trouble))?;
    Ok(kinds.into_iter().map(Kind::method).chain([Method::Points]).collect())
}

async fn check_configured(providers: &Providers, kind: Kind, now: Timestamp) -> Result<(), NotStarted> {
    match providers.get(kind, now).await {
        Ok(_) => Ok(()),
        Err(Trouble::NotConfigured(_)) => Err(NotStarted::NotConfigured(methods(providers, now).await?)),
        Err(trouble) => Err(trouble_of(kind.method(), trouble).into()),
    }
}

fn attempt(order: &Order, ask: &Ask) -> Result<Attempt, NotStarted> {
    if ask.method == Method::Points {
        let price = order.points_price.ok_or(NotStarted::WrongPoints)?;
        let all = ask.points == 0 || ask.points == price;
        return if all {
            Ok(Attempt { method: ask.method, amount: 0, points: price })
        } else {
            Err(NotStarted::WrongPoints)
        };
    }
    let amount = money_beside(order.amount, order.points_price, ask.points).ok_or(NotStarted::WrongPoints)?;
    Ok(Attempt { method: ask.method, amount, points: ask.points })
}

fn open_payment(order: &Order, ask: &Ask) -> Result<OpenPayment, NotStarted> {
    let attempt = u8::try_from(order.attempts.len()).map_err(|_| NotStarted::TooMany)?;
    if usize::from(attempt) >= MAX_ATTEMPTS {
        return Err(NotStarted::TooMany);
    }
    Ok(OpenPayment { attempt, started_at: ask.now, client_ip: ask.client_ip.clone(), link: None, closing: false })
}

/// Shows the open payment, asking the provider for it if its answer is not known.
async fn present(
    store: &Store,
    providers: &Providers,
    order: &Order,
    payment: &OpenPayment,
    attempt: &Attempt,
    kind: Kind,
    ask: &Ask,
) -> Result<Started, NotStarted> {
    let request = request(order, payment, attempt, kind, ask)?;
    let link = match &payment.link {
        Some(link) => link.clone(),
        None => match providers.create(kind, &request, ask.now).await {
            Ok(created) => {
                let link = Link { pay_url: created.pay_url, qr_code: created.qr_code, reference: created.payment };
                match store.keep_link(&order.id, payment.attempt, &link).await? {
                    OrderChange::Made(_) => {}
                    // Closed, or paid, in the same moment: the link leads nowhere any more.
                    OrderChange::Refused(_) => return Err(FlowError::Busy.into()),
                }
                link
            }
            Err(Trouble::Provider(error @ (ProviderError::Refused { .. } | ProviderError::Unsupported(_)))) => {
                // The provider will not have it. What was opened for it is taken off, as if the buyer had changed the method.
                close_other(store, providers, order, payment, ask.now).await?;
                return Err(match error {
                    ProviderError::Unsupported(why) => NotStarted::Unsupported(format!("{}: {why}", ask.method)),
                    refused => NotStarted::Refused(refused.to_string()),
                });
            }
            Err(trouble) => return Err(trouble_of(ask.method, trouble).into()),
        },
    };
    Ok(Started {
        number: request.number,
        link,
        amount: attempt.amount,
        currency: order.currency.clone(),
        points: attempt.points,
        expires_at: order.pay_by,
        paid: false,
    })
}

fn request(
    order: &Order,
    payment: &OpenPayment,
    attempt: &Attempt,
    kind: Kind,
    ask: &Ask,
) -> Result<PaymentRequest, NotStarted> {
    let number = PaymentNumber::new(order.id.clone(), payment.attempt).ok_or(NotStarted::TooMany)?;
    let base = &ask.public_url;
    // A provider that signs the return address signs only what it adds itself, so the address must have no query.
    let return_url = match kind.return_page() {
        ReturnPage::Signed => format!("{base}/payments/{kind}/return"),
        ReturnPage::Plain | ReturnPage::MarkedIfPaid(_) => format!("{base}/payments/{kind}/return?payment={number}"),
    };
    Ok(PaymentRequest {
        number,
        title: order.item_name.clone(),
        amount: attempt.amount,
        currency: order.currency.clone(),
        expires_at: order.pay_by,
        notify_url: format!("{base}/payments/{kind}/notify"),
        return_url,
        client_ip: payment.client_ip.clone(),
        way: None,
    })
}

/// The buyer changes the method: the first payment is closed, unless it was made.
async fn close_other(
    store: &Store,
    providers: &Providers,
    order: &Order,
    open: &OpenPayment,
    now: Timestamp,
) -> Result<(), NotStarted> {
    match close_at_provider(store, providers, order, open, now).await? {
        ProviderClose::Changed => Ok(()),
        ProviderClose::Closed => {
            store.drop_payment(order, open).await?;
            Ok(())
        }
        ProviderClose::NotBefore(moment) => Err(NotStarted::OtherOpenUntil(moment)),
        ProviderClose::Paid(arrived) => match settle::settle(store, providers, &arrived, now).await? {
            Settled::Paid(_) | Settled::Before(_) | Settled::Revived(_) => Err(NotStarted::Paid),
            Settled::Returned(_) => Ok(()),
            Settled::Wrong(_) | Settled::Unknown => {
                let what = format!("{} {} were paid as {}", arrived.amount, arrived.currency, arrived.transaction);
                Err(FlowError::Unclear { method: arrived.method, what }.into())
            }
        },
    }
}

/// `None`: the order changed meanwhile.
async fn pay_with_points(store: &Store, order: &Order, ask: &Ask) -> Result<Option<Started>, NotStarted> {
    let points = order.points_price.ok_or(NotStarted::WrongPoints)?;
    let number = PaymentNumber::new(order.id.clone(), 0).ok_or(NotStarted::TooMany)?;
    let with = PaidWith { method: Method::Points, attempt: 0, transaction: number.to_string(), amount: 0, points };
    match store.pay_with_points(order, &with, ask.now).await? {
        PointsPaid::Refused => return Ok(None),
        PointsPaid::PointsShort => return Err(NotStarted::PointsShort),
        PointsPaid::Paid => {}
    }
    let paid = Order { paid: Some(with), paid_at: Some(ask.now), ..order.clone() };
    if let Err(error) = settle::finish(store, &paid, ask.now).await {
        // Paid is paid: reconcile, led by the holder, counts the units as sold.
        tracing::warn!(order_id = %order.id, %error, "a paid order's units are not counted as sold yet");
    }
    Ok(Some(Started {
        number,
        link: Link::default(),
        amount: 0,
        currency: order.currency.clone(),
        points,
        expires_at: order.pay_by,
        paid: true,
    }))
}

fn trouble_of(method: Method, trouble: Trouble) -> FlowError {
    FlowError::Provider { method, trouble }
}
