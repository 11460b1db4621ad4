//! Statuses of a payment that the sandbox does not produce.

use super::*;
use crate::sandbox::Reply;
use crate::shared::crypto::{Secret, SigningKey};
use crate::shared::xml;
use crate::wechat_v2::{SignType, sign};
use crate::wechat_v3::platform_text;
use crate::{Headers, HttpAnswer, PaymentStatus, ProviderError};

/// The sandbox's answer about a payment that is not paid.
fn not_paid(kind: ProviderKind) -> HttpAnswer {
    let payment = Payment { state: State::NotPaid, paid_at: None, ..paid_payment(kind) };
    let call = provider(kind).query(&reference(&payment), now(), &nonce()).unwrap();
    let asked = sandbox().read(kind, &call, now()).unwrap();
    sandbox().answer(kind, &asked, Reply::PaymentStatus(&payment), now(), &nonce())
}

fn status(kind: ProviderKind, answer: &HttpAnswer) -> Result<PaymentStatus, ProviderError> {
    provider(kind).interpret_query(&reference(&paid_payment(kind)), answer, now())
}

/// A signed answer of WeChat Pay with this trade state.
fn wechat(kind: ProviderKind, trade_state: &str) -> HttpAnswer {
    let answer = not_paid(kind);
    if kind == ProviderKind::WechatV2 {
        let mut fields = xml::read("xml", &answer.body).unwrap();
        fields.insert("trade_state".to_owned(), trade_state.to_owned());
        let key = Secret::new("192006250b4c09247ec02edce69f6a2d");
        fields.insert("sign".to_owned(), sign(&fields, &key, SignType::HmacSha256));
        return HttpAnswer::new(200, "text/xml", xml::write("xml", &fields));
    }
    let body = String::from_utf8(answer.body).unwrap().replace("NOTPAY", trade_state);
    let keys: serde_json::Value = serde_json::from_str(include_str!("keys.json")).unwrap();
    let key = SigningKey::parse("", keys["wechat"]["private"].as_str().unwrap()).unwrap();
    let signature = key.sign(&platform_text("1794355500", nonce().as_str(), body.as_bytes()));
    let change = |(name, value): (&str, &str)| {
        (name.to_owned(), if name == "Wechatpay-Signature" { signature.clone() } else { value.to_owned() })
    };
    let headers: Headers = answer.headers.iter().map(change).collect();
    HttpAnswer { headers, body: body.into_bytes(), ..answer }
}

#[test]
fn every_trade_state_of_wechat_pay_has_a_status() {
    for kind in [ProviderKind::WechatV3, ProviderKind::WechatV2] {
        for (trade_state, expected) in [
            ("NOTPAY", PaymentStatus::NotPaid),
            ("PAYERROR", PaymentStatus::NotPaid),
            ("USERPAYING", PaymentStatus::Processing),
            ("ACCEPT", PaymentStatus::Processing),
            ("CLOSED", PaymentStatus::Closed),
            ("REVOKED", PaymentStatus::Closed),
            ("SOMETHING", PaymentStatus::Unknown("SOMETHING".to_owned())),
        ] {
            assert_eq!(status(kind, &wechat(kind, trade_state)), Ok(expected), "{kind}");
        }
        let said = status(kind, &wechat(kind, "SUCCESS"));
        assert!(matches!(said, Err(ProviderError::Untrusted(_))), "{kind}: paid, but without an amount: {said:?}");
    }
}

#[test]
fn a_completed_unpaid_session_is_processing_or_closed() {
    let answer = not_paid(ProviderKind::Stripe);
    let with = |payment_intent: serde_json::Value| {
        let mut session: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        session["status"] = "complete".into();
        session["payment_intent"] = payment_intent;
        status(ProviderKind::Stripe, &HttpAnswer::new(200, "application/json", session.to_string())).unwrap()
    };
    let intent = |status: &str| serde_json::json!({"id": "pi_3", "status": status, "latest_charge": "ch_1"});
    for status in ["processing", "requires_action", "requires_confirmation", "requires_capture", "succeeded", "new"] {
        assert_eq!(with(intent(status)), PaymentStatus::Processing, "{status}: money may still come");
    }
    for status in ["requires_payment_method", "canceled"] {
        assert_eq!(with(intent(status)), PaymentStatus::Closed, "{status}");
    }
    assert_eq!(with("pi_3".into()), PaymentStatus::Processing, "the answer names no status");
    assert_eq!(with(serde_json::json!({"id": "pi_3"})), PaymentStatus::Processing, "the answer names no status");
}
