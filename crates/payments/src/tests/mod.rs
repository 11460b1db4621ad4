//! Tests over all providers: vectors that other software has made, the whole life of a payment against the sandbox, and
//! notices that were forged, altered or replayed. A toy provider takes part in all tests that loop over
//! `ProviderKind::ALL`.

mod bad_notices;
mod life;
mod mutations;
mod refund_notices;
mod statuses;
pub(crate) mod toy;
mod vectors;

use domain::ids::PaymentNumber;
use domain::money::Currency;
use jiff::{SignedDuration, Timestamp};

use crate::sandbox::{Keys, Payment, Sandbox, State};
use crate::{Nonce, PaymentRef, PaymentRequest, Provider, ProviderKind, RefundNumber, RefundRequest, Way};

const NUMBER: &str = "01K9PZ0000ABCDEFGHJKMNPQRS000001";
const OTHER_NUMBER: &str = "01K9PZ0000ABCDEFGHJKMNPQRS000002";

/// 2026-11-11 08:05:00 in China.
fn now() -> Timestamp {
    Timestamp::from_second(1_794_355_500).unwrap()
}

fn nonce() -> Nonce {
    Nonce::new([0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff])
}

/// Fixed keys, so that signatures can be compared with those that other software has made.
fn keys() -> Keys {
    serde_json::from_str(include_str!("keys.json")).unwrap()
}

fn sandbox() -> Sandbox {
    Sandbox::new(&keys()).unwrap()
}

fn provider(kind: ProviderKind) -> Box<Provider> {
    Provider::from_json(kind, &keys().settings(kind, "http://127.0.0.1:3000/_sandbox")).unwrap()
}

fn currency(kind: ProviderKind) -> Currency {
    Currency::parse(if kind == ProviderKind::Stripe { "USD" } else { "CNY" }).unwrap()
}

fn request(kind: ProviderKind) -> PaymentRequest {
    PaymentRequest {
        number: PaymentNumber::parse(NUMBER).unwrap(),
        title: "手机 A&B".to_owned(),
        amount: 6999,
        currency: currency(kind),
        expires_at: now() + SignedDuration::from_mins(15),
        notify_url: format!("https://shop.example/payments/{kind}/notify"),
        return_url: format!("https://shop.example/payments/{kind}/return"),
        client_ip: "203.0.113.7".to_owned(),
        way: (kind == ProviderKind::Alipay).then_some(Way::Qr),
        shop_data: Default::default(),
    }
}

fn reference(payment: &Payment) -> PaymentRef {
    PaymentRef { number: PaymentNumber::parse(NUMBER).unwrap(), payment: Some(payment.id.clone()), transaction: None }
}

fn refund(kind: ProviderKind) -> RefundRequest {
    RefundRequest {
        number: PaymentNumber::parse(NUMBER).unwrap(),
        transaction: paid_payment(kind).transaction,
        refund: RefundNumber::parse("R-1").unwrap(),
        attempt: 0,
        amount: 6999,
        total: 6999,
        currency: currency(kind),
        reason: "sold out".to_owned(),
        notify_url: None,
    }
}

fn paid_payment(kind: ProviderKind) -> Payment {
    Payment {
        id: "cs_test_a1b2".to_owned(),
        transaction: if kind == ProviderKind::Stripe { "pi_3" } else { "4200000001202611110000000001" }.to_owned(),
        number: NUMBER.to_owned(),
        order_type: "2".to_owned(),
        title: "手机 A B".to_owned(),
        amount: 6999,
        currency: currency(kind).to_string(),
        notify_url: format!("https://shop.example/payments/{kind}/notify"),
        return_url: format!("https://shop.example/payments/{kind}/return"),
        state: State::Paid,
        paid_at: Some(now()),
        refunded: 0,
    }
}
