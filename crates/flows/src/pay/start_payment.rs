//! A buyer asks how to pay: a link or a QR code of a provider, or points.
//!
//! | stopped after | left behind | repaired by |
//! |---|---|---|
//! | another open payment is closed | an order without a payment, or with one marked as closing | (1) |
//! | the payment is open in the order (its points are frozen with it) | the provider may not know it yet | (2) |
//! | the provider was asked | its answer is not kept | (2); it answers a repeated request with the same payment |
//! | the answer is kept | nothing | |
//!
//! (1) The buyer asks again; else the order's own close.
//!
//! (2) The buyer asks again and gets the same payment; else the order's own close, which closes it at the provider.
//!
//! Amount, currency and number come from the order, never from the buyer. The payment is in the order before the
//! provider hears of it, so a close knows of everything that can be paid.

use domain::Timestamp;
use domain::ids::{OrderId, PaymentNumber};
use domain::money::Currency;
use domain::order::{Order, Status};
use domain::payment::{Attempt, Link, MAX_ATTEMPTS, Method, OpenPayment, PaidWith, money_beside};
use payments::{PaymentRequest, ProviderError, ProviderKind, ReturnPage};
use providers::{Providers, Trouble};
use store::{Opened, OrderChange, PointsPaid, StoreError};

use crate::error::FlowError;
use crate::pay::close_at_provider::{ProviderClose, close_at_provider};
use crate::pay::settle::{Settled, settle};
use crate::{CAS_ATTEMPTS, Context, finish};

/// What a buyer asks for.
#[derive(Clone, Debug)]
pub struct StartPayment {
    pub order: OrderId,
    pub method: Method,
    /// Points beside the money; the whole price in points, if the method is points.
    pub points: i64,
    pub client_ip: String,
    /// Where this system is reached from outside, without a trailing slash.
    pub public_url: String,
}

/// A payment that the buyer can make now, or has made with points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    pub number: PaymentNumber,
    pub link: Link,
    /// Money to pay, in minor units.
    pub amount: i64,
    pub currency: Currency,
    /// Points beside the money.
    pub points: i64,
    pub expires_at: Timestamp,
    /// Whether it is paid already: points need no further step.
    pub paid: bool,
}

/// Why no payment was started.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    #[error("there is no such order")]
    UnknownOrder,
    /// The order does not wait for payment.
    #[error("the order is {}", .0.as_str())]
    WrongStatus(Status),
    #[error("the payment deadline has passed")]
    TooLate,
    /// Another payment of the order turned out to be made; `newly_with` is its method, if this run settled it.
    #[error("the order was paid in the meantime")]
    Paid { newly_with: Option<Method> },
    /// The provider is not configured here; these methods are.
    #[error("the payment method is not configured")]
    NotConfigured(Vec<Method>),
    /// The provider cannot take such a payment. It was not asked; the explanation is this system's own.
    #[error("{0}")]
    Unsupported(String),
    /// The provider refused. Its explanation may mention settings and keys: it is for the log, never for the buyer.
    #[error("the provider refused: {0}")]
    Refused(String),
    #[error("the order cannot be paid with so many points")]
    WrongPoints,
    #[error("the buyer has too few points")]
    PointsShort,
    /// Another payment is open, and its provider does not close it before this moment.
    #[error("another payment is open until {0}")]
    OtherOpenUntil(Timestamp),
    #[error("the order's payment was changed too often")]
    TooMany,
    #[error(transparent)]
    FlowError(#[from] FlowError),
}

impl From<StoreError> for NotStarted {
    fn from(error: StoreError) -> Self {
        Self::FlowError(error.into())
    }
}

/// Starts a payment, or returns the one that is open.
pub async fn start_payment(context: Context<'_>, asked: &StartPayment) -> Result<Started, NotStarted> {
    let Context { store, providers, now } = context;
    let kind = ProviderKind::of(asked.method);
    if let Some(kind) = kind {
        check_configured(providers, kind, now).await?;
    }
    for _ in 0..CAS_ATTEMPTS {
        let order = store.order(&asked.order).await?.ok_or(NotStarted::UnknownOrder)?;
        if order.status != Status::PendingPayment {
            return Err(NotStarted::WrongStatus(order.status));
        }
        if order.pay_by <= now {
            return Err(NotStarted::TooLate);
        }
        let attempt = attempt(&order, asked)?;
        if let Some(payment) = &order.payment {
            let is_same = order.attempts.get(usize::from(payment.attempt)) == Some(&attempt) && !payment.closing;
            if let (true, Some(kind)) = (is_same, kind) {
                let open = Open { order: &order, payment, attempt: &attempt, kind };
                return present(context, open, &asked.public_url).await;
            }
            close_other(context, &order, payment).await?;
            continue;
        }
        let Some(kind) = kind else {
            match pay_with_points(context, &order).await? {
                Some(started) => return Ok(started),
                None => continue,
            }
        };
        let payment = new_payment(&order, &asked.client_ip, now)?;
        match store.open_payment(&order, &attempt, &payment, now).await? {
            Opened::Open(order) => {
                let open = Open { order: &order, payment: &payment, attempt: &attempt, kind };
                return present(context, open, &asked.public_url).await;
            }
            Opened::PointsShort => return Err(NotStarted::PointsShort),
            Opened::Refused => {}
        }
    }
    Err(FlowError::Busy.into())
}

/// The methods that are configured here. Points always are.
pub async fn methods(providers: &Providers, now: Timestamp) -> Result<Vec<Method>, FlowError> {
    let kinds = providers.configured(now).await.map_err(|trouble| trouble_of(Method::Points, trouble))?;
    Ok(kinds.into_iter().map(ProviderKind::method).chain([Method::Points]).collect())
}

async fn check_configured(providers: &Providers, kind: ProviderKind, now: Timestamp) -> Result<(), NotStarted> {
    match providers.get(kind, now).await {
        Ok(_) => Ok(()),
        Err(Trouble::NotConfigured(_)) => Err(NotStarted::NotConfigured(methods(providers, now).await?)),
        Err(trouble) => Err(trouble_of(kind.method(), trouble).into()),
    }
}

fn attempt(order: &Order, asked: &StartPayment) -> Result<Attempt, NotStarted> {
    if asked.method == Method::Points {
        let price = order.points_price.ok_or(NotStarted::WrongPoints)?;
        let all = asked.points == 0 || asked.points == price;
        return if all {
            Ok(Attempt { method: asked.method, amount: 0, points: price })
        } else {
            Err(NotStarted::WrongPoints)
        };
    }
    let amount = money_beside(order.amount, order.points_price, asked.points).ok_or(NotStarted::WrongPoints)?;
    Ok(Attempt { method: asked.method, amount, points: asked.points })
}

fn new_payment(order: &Order, client_ip: &str, now: Timestamp) -> Result<OpenPayment, NotStarted> {
    let attempt = u8::try_from(order.attempts.len()).map_err(|_| NotStarted::TooMany)?;
    if usize::from(attempt) >= MAX_ATTEMPTS {
        return Err(NotStarted::TooMany);
    }
    Ok(OpenPayment { attempt, started_at: now, client_ip: client_ip.to_owned(), link: None, closing: false })
}

/// An order's open payment at a provider.
#[derive(Clone, Copy)]
struct Open<'a> {
    order: &'a Order,
    payment: &'a OpenPayment,
    attempt: &'a Attempt,
    kind: ProviderKind,
}

/// Shows the open payment. If its link is not known, the provider is asked for it.
async fn present(context: Context<'_>, open: Open<'_>, public_url: &str) -> Result<Started, NotStarted> {
    let Context { store, providers, now } = context;
    let Open { order, payment, attempt, kind } = open;
    let request = request(open, public_url)?;
    let link = match &payment.link {
        Some(link) => link.clone(),
        None => match providers.create(kind, &request, now).await {
            Ok(created) => {
                let link = Link { pay_url: created.pay_url, qr_code: created.qr_code, reference: created.payment };
                match store.keep_link(&order.id, payment.attempt, &link).await? {
                    OrderChange::Made(_) => {}
                    // The payment was closed, or the order paid, at the same moment: the link is useless.
                    OrderChange::Refused(_) => return Err(FlowError::Busy.into()),
                }
                link
            }
            Err(Trouble::Provider(error @ (ProviderError::Refused { .. } | ProviderError::Unsupported(_)))) => {
                // The provider does not accept it. The payment is removed, as if the buyer had changed the method.
                close_other(context, order, payment).await?;
                return Err(match error {
                    ProviderError::Unsupported(why) => NotStarted::Unsupported(format!("{}: {why}", attempt.method)),
                    refused => NotStarted::Refused(refused.to_string()),
                });
            }
            Err(trouble @ Trouble::Provider(ProviderError::Spent(_))) => {
                // The provider repeats this answer for a day. Nobody has a link to this payment, so it is removed, and
                // the buyer's next request is a new attempt under a new number.
                close_other(context, order, payment).await?;
                return Err(trouble_of(attempt.method, trouble).into());
            }
            Err(trouble) => return Err(trouble_of(attempt.method, trouble).into()),
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

fn request(open: Open<'_>, public_url: &str) -> Result<PaymentRequest, NotStarted> {
    let Open { order, payment, attempt, kind } = open;
    let number = PaymentNumber::new(order.id.clone(), payment.attempt).ok_or(NotStarted::TooMany)?;
    // A provider that signs the return address signs only what it adds itself, so the address must have no query.
    let return_url = match kind.return_page() {
        ReturnPage::Signed => format!("{public_url}/payments/{kind}/return"),
        ReturnPage::Plain | ReturnPage::MarkedIfPaid(_) => {
            format!("{public_url}/payments/{kind}/return?payment={number}")
        }
    };
    Ok(PaymentRequest {
        number,
        title: order.item_name.clone(),
        amount: attempt.amount,
        currency: order.currency.clone(),
        expires_at: order.pay_by,
        notify_url: format!("{public_url}/payments/{kind}/notify"),
        return_url,
        client_ip: payment.client_ip.clone(),
        way: None,
        shop_data: order.shop_data.clone(),
    })
}

/// The buyer changes the method: the payment that is open is closed, unless it was made.
async fn close_other(context: Context<'_>, order: &Order, open: &OpenPayment) -> Result<(), NotStarted> {
    match close_at_provider(context, order, open).await? {
        ProviderClose::Changed => Ok(()),
        ProviderClose::Closed => {
            context.store.drop_payment(order, open).await?;
            Ok(())
        }
        ProviderClose::NotBefore(moment) => Err(NotStarted::OtherOpenUntil(moment)),
        ProviderClose::Refunded(arrived) => match settle(context, &arrived).await? {
            Settled::Returned { .. } | Settled::Paid(_) | Settled::AlreadyPaid(_) | Settled::Revived(_) => Ok(()),
            Settled::Wrong(_) | Settled::Unknown => Err(FlowError::unexpected_payment(&arrived).into()),
        },
        ProviderClose::Paid(arrived) => match settle(context, &arrived).await? {
            Settled::Paid(order) | Settled::AlreadyPaid(order) | Settled::Revived(order) => {
                let newly_with = order.paid.filter(|_| context.is_this_run(order.paid_at)).map(|with| with.method);
                Err(NotStarted::Paid { newly_with })
            }
            Settled::Returned { .. } => Ok(()),
            Settled::Wrong(_) | Settled::Unknown => Err(FlowError::unexpected_payment(&arrived).into()),
        },
    }
}

/// Pays an order with points alone. `None`: the order changed in between.
async fn pay_with_points(context: Context<'_>, order: &Order) -> Result<Option<Started>, NotStarted> {
    let Context { store, now, .. } = context;
    let points = order.points_price.ok_or(NotStarted::WrongPoints)?;
    let number = PaymentNumber::new(order.id.clone(), 0).ok_or(NotStarted::TooMany)?;
    let with = PaidWith { points, ..PaidWith::of(Method::Points, 0, &number.to_string(), 0) };
    match store.pay_with_points(order, &with, now).await? {
        PointsPaid::Refused => return Ok(None),
        PointsPaid::PointsShort => return Err(NotStarted::PointsShort),
        PointsPaid::Paid => {}
    }
    let paid = Order { paid: Some(with), paid_at: Some(now), ..order.clone() };
    if let Err(error) = finish::paid(store, &paid, now).await {
        // The order stays paid: reconcile, led by the holder, counts the units as sold.
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
