//! Notices that must not be accepted, each with the reason.

use super::*;
use crate::sandbox::Happened;
use crate::shared::crypto::{ContentKey, Secret, SigningKey, hmac_sha256_hex};
use crate::shared::form::{self, Fields};
use crate::shared::xml;
use crate::wechat_v2::{SignType, sign};
use crate::wechat_v3::platform_text;
use crate::{Headers, HttpCall, MAX_NOTICE, NoticeError, Outcome, Subject};

fn genuine(kind: ProviderKind) -> HttpCall {
    sandbox().notice(kind, &paid_payment(kind), Happened::Paid, now(), &nonce()).unwrap()
}

fn verdict(kind: ProviderKind, headers: &Headers, body: &[u8]) -> Result<crate::Notice, NoticeError> {
    provider(kind).notice(headers, body, now())
}

fn with(headers: &Headers, name: &str, value: &str) -> Headers {
    headers.iter().map(|(other, old)| (other, if other == name { value } else { old })).collect()
}

fn without(headers: &Headers, name: &str) -> Headers {
    headers.iter().filter(|(other, _)| *other != name).collect()
}

#[test]
fn an_oversized_body_is_refused() {
    for kind in ProviderKind::ALL {
        let body = vec![b'x'; MAX_NOTICE + 1];
        assert_eq!(verdict(kind, &genuine(kind).headers, &body), Err(NoticeError::TooLarge), "{kind}");
        assert!(verdict(kind, &genuine(kind).headers, b"").is_err(), "{kind}: empty");
    }
}

#[test]
fn a_stale_notice_is_refused_and_a_small_clock_skew_is_not() {
    for kind in [ProviderKind::WechatV3, ProviderKind::Stripe] {
        let call = genuine(kind);
        let at = |seconds| provider(kind).notice(&call.headers, &call.body, now() + SignedDuration::from_secs(seconds));
        assert!(at(299).is_ok() && at(-299).is_ok(), "{kind}");
        assert_eq!(at(300), Err(NoticeError::Stale(300)), "{kind}");
        assert_eq!(at(-300), Err(NoticeError::Stale(-300)), "{kind}");
        assert_eq!(at(86_400), Err(NoticeError::Stale(86_400)), "{kind}");
    }
}

#[test]
fn wechat_v3_headers_are_checked() {
    let call = genuine(ProviderKind::WechatV3);
    let see = |headers: &Headers| verdict(ProviderKind::WechatV3, headers, &call.body).unwrap_err();
    for name in ["Wechatpay-Timestamp", "Wechatpay-Nonce", "Wechatpay-Serial", "Wechatpay-Signature"] {
        assert_eq!(see(&without(&call.headers, name)), NoticeError::Malformed(name));
        let mut twice = call.headers.clone();
        twice.push(name.to_lowercase(), "x");
        assert_eq!(see(&twice), NoticeError::Malformed(name), "twice");
        let long = with(&call.headers, name, &"1".repeat(5_000));
        assert_eq!(see(&long), NoticeError::Malformed(name), "too long");
    }
    let probe = with(&call.headers, "Wechatpay-Signature", "WECHATPAY/SIGNTEST/c2lnbmF0dXJl");
    assert_eq!(see(&probe), NoticeError::Probe);
    let serial = with(&call.headers, "Wechatpay-Serial", "PUB_KEY_ID_2");
    assert_eq!(see(&serial), NoticeError::UnknownKey("PUB_KEY_ID_2".to_owned()));
    for (name, value) in [
        ("Wechatpay-Nonce", "another"),
        ("Wechatpay-Timestamp", "1794355501"),
        ("Wechatpay-Timestamp", "+1794355500"),
        ("Wechatpay-Signature", ""),
        ("Wechatpay-Signature", "AAAA"),
        ("Wechatpay-Signature", "not base64!"),
    ] {
        assert_eq!(see(&with(&call.headers, name, value)), NoticeError::BadSignature, "{name} {value}");
    }
    for time in ["", "x", "99999999999999999999", "1794355500.0"] {
        let error = see(&with(&call.headers, "Wechatpay-Timestamp", time));
        assert_eq!(error, NoticeError::Malformed("Wechatpay-Timestamp"), "{time}");
    }
    let extreme = see(&with(&call.headers, "Wechatpay-Timestamp", &i64::MIN.to_string()));
    assert!(matches!(extreme, NoticeError::Stale(_)));
}

/// A notice with this content, correctly encrypted and signed with WeChat Pay's keys.
fn v3_signed(content: &serde_json::Value, event_type: &str, algorithm: &str) -> (Headers, Vec<u8>) {
    let keys: serde_json::Value = serde_json::from_str(include_str!("keys.json")).unwrap();
    let content_key = ContentKey::parse("", keys["apiV3Key"].as_str().unwrap()).unwrap();
    let ciphertext = content_key.seal("abcdefghijkl", "transaction", content.to_string().as_bytes());
    let body = serde_json::json!({
        "id": "1", "event_type": event_type,
        "resource": {
            "algorithm": algorithm, "ciphertext": ciphertext, "associated_data": "transaction", "nonce": "abcdefghijkl",
        },
    });
    let body = body.to_string().into_bytes();
    let key = SigningKey::parse("", keys["wechat"]["private"].as_str().unwrap()).unwrap();
    let signature = key.sign(&platform_text("1794355500", "n", &body));
    let headers = [
        ("Wechatpay-Timestamp", "1794355500"),
        ("Wechatpay-Nonce", "n"),
        ("Wechatpay-Serial", keys["wechatSerial"].as_str().unwrap()),
        ("Wechatpay-Signature", &signature),
    ];
    (headers.into(), body)
}

#[test]
fn wechat_v3_contents_are_checked() {
    let content = |name: &str, value: serde_json::Value| {
        let mut content = serde_json::json!({
            "appid": "wx0123456789abcdef", "mchid": "1900000001", "out_trade_no": NUMBER, "transaction_id": "42",
            "trade_state": "SUCCESS", "attach": "2", "amount": {"total": 6999, "currency": "CNY"},
        });
        content[name] = value;
        content
    };
    let see = |name: &str, value: serde_json::Value| {
        let (headers, body) = v3_signed(&content(name, value), "TRANSACTION.SUCCESS", "AEAD_AES_256_GCM");
        verdict(ProviderKind::WechatV3, &headers, &body)
    };
    assert!(see("bank_type", "CFT".into()).is_ok());
    assert_eq!(see("mchid", "1900000002".into()), Err(NoticeError::NotUs("mchid")));
    assert_eq!(see("appid", "wx2".into()), Err(NoticeError::NotUs("appid")));
    assert_eq!(see("out_trade_no", "x".into()), Err(NoticeError::Malformed("out_trade_no")));
    assert_eq!(see("attach", "3".into()), Err(NoticeError::Malformed("out_trade_no")));
    for amount in [serde_json::json!(null), serde_json::json!({"total": 0}), serde_json::json!({"total": -6999})] {
        assert_eq!(see("amount", amount), Err(NoticeError::Malformed("amount")));
    }
    for amount in [serde_json::json!({"total": 69.99}), serde_json::json!({"total": "6999"}), "6999".into()] {
        assert_eq!(see("amount", amount), Err(NoticeError::Malformed("resource")));
    }
    assert_eq!(see("transaction_id", "".into()), Err(NoticeError::Malformed("amount")));
    assert_eq!(see("trade_state", "NOTPAY".into()).unwrap().outcome, Outcome::Other("NOTPAY".to_owned()));
    assert_eq!(see("trade_state", "PAYERROR".into()).unwrap().outcome, Outcome::Failed);
    let ordinary = see("attach", "1".into()).unwrap();
    assert_eq!(ordinary.subject, Subject::Ordinary(NUMBER.to_owned()));

    let good = content("attach", "2".into());
    let (headers, body) = v3_signed(&good, "TRANSACTION.SUCCESS", "AEAD_SM4_GCM");
    assert_eq!(verdict(ProviderKind::WechatV3, &headers, &body), Err(NoticeError::Malformed("resource.algorithm")));
    let (headers, body) = v3_signed(&good, "PAYSCORE.USER_PAID", "AEAD_AES_256_GCM");
    assert_eq!(
        verdict(ProviderKind::WechatV3, &headers, &body),
        Err(NoticeError::NotOurs("PAYSCORE.USER_PAID".to_owned()))
    );
}

#[test]
fn alipay_fields_are_checked() {
    let keys: serde_json::Value = serde_json::from_str(include_str!("keys.json")).unwrap();
    let key = SigningKey::parse("", keys["alipay"]["private"].as_str().unwrap()).unwrap();
    let base = form::read(&genuine(ProviderKind::Alipay).body).unwrap();
    let see = |changes: &[(&str, Option<&str>)], sign_again: bool| {
        let mut fields: Fields = base.clone();
        for (name, value) in changes {
            match value {
                Some(value) => fields.insert((*name).to_owned(), (*value).to_owned()),
                None => fields.remove(*name),
            };
        }
        if sign_again {
            let sign = key.sign(form::signed_text(&fields, &["sign", "sign_type"]).as_bytes());
            fields.insert("sign".to_owned(), sign);
        }
        verdict(ProviderKind::Alipay, &Headers::default(), form::write(&fields).as_bytes())
    };
    for (name, value) in [
        ("total_amount", "0.01"),
        ("out_trade_no", OTHER_NUMBER),
        ("app_id", "2"),
        ("trade_status", "TRADE_FINISHED"),
        ("sign", "AAAA"),
        ("new", "field"),
    ] {
        assert_eq!(see(&[(name, Some(value))], false), Err(NoticeError::BadSignature), "{name}");
    }
    assert_eq!(see(&[("app_id", Some("2"))], true), Err(NoticeError::NotUs("app_id")));
    assert_eq!(see(&[("seller_id", Some("2"))], true), Err(NoticeError::NotUs("seller_id")));
    assert_eq!(see(&[("sign_type", Some("RSA"))], true), Err(NoticeError::Malformed("sign_type")));
    assert_eq!(see(&[("charset", Some("GBK"))], true), Err(NoticeError::Malformed("charset")));
    assert_eq!(see(&[("sign", None)], false), Err(NoticeError::Malformed("sign")));
    assert!(see(&[("seller_id", None)], true).is_ok(), "Alipay leaves it out of some notices");
    for name in ["app_id", "trade_no", "trade_status", "total_amount", "out_trade_no"] {
        assert_eq!(see(&[(name, None)], true), Err(NoticeError::Malformed(name)));
    }
    for amount in ["69.999", "-1.00", "1e3", "6,999.00", "69.99 "] {
        assert_eq!(
            see(&[("total_amount", Some(amount))], true),
            Err(NoticeError::Malformed("total_amount")),
            "{amount}"
        );
    }
    let partly = see(&[("refund_fee", Some("1.00"))], true).unwrap();
    let told = (partly.outcome, partly.amount);
    assert_eq!(told, (Outcome::PartlyRefunded, 100), "a partial refund is not a payment");
    for nothing in ["0.00", "0"] {
        let paid = see(&[("refund_fee", Some(nothing))], true).unwrap();
        assert_eq!((&paid.outcome, paid.amount), (&Outcome::Paid, 6999), "a refund of {nothing} is none");
        let closed = see(&[("refund_fee", Some(nothing)), ("trade_status", Some("TRADE_CLOSED"))], true).unwrap();
        assert_eq!(closed.outcome, Outcome::Closed, "a refund of {nothing} is none");
    }
    let back = see(&[("refund_fee", Some("69.99")), ("trade_status", Some("TRADE_CLOSED"))], true).unwrap();
    assert_eq!((back.outcome, back.amount), (Outcome::Refunded, 6999));
    let unreadable = see(&[("refund_fee", Some("x")), ("trade_status", Some("TRADE_CLOSED"))], true);
    assert_eq!(unreadable, Err(NoticeError::Malformed("refund_fee")));
    let waiting = see(&[("trade_status", Some("WAIT_BUYER_PAY"))], true).unwrap();
    assert_eq!((waiting.outcome.clone(), waiting.paid()), (Outcome::Other("WAIT_BUYER_PAY".to_owned()), None));
    let added = see(&[("refund_fee", Some(""))], false).unwrap();
    assert_eq!(added.outcome, Outcome::Paid, "the signature does not cover an empty field, so it must not count");
}

#[test]
fn wechat_v2_fields_are_checked() {
    let key = Secret::new("192006250b4c09247ec02edce69f6a2d");
    let base = xml::read("xml", &genuine(ProviderKind::WechatV2).body).unwrap();
    let see = |name: &str, value: &str, sign_again: bool| {
        let mut fields = base.clone();
        fields.insert(name.to_owned(), value.to_owned());
        if sign_again {
            fields.insert("sign".to_owned(), sign(&fields, &key, SignType::HmacSha256));
        }
        verdict(ProviderKind::WechatV2, &Headers::default(), xml::write("xml", &fields).as_bytes())
    };
    assert!(see("is_subscribe", "N", true).is_ok());
    for (name, value) in [("total_fee", "1"), ("out_trade_no", OTHER_NUMBER), ("sign", ""), ("new", "field")] {
        assert_eq!(see(name, value, false), Err(NoticeError::BadSignature), "{name}");
    }
    for (name, value, error) in [
        ("mch_id", "2", NoticeError::NotUs("mch_id")),
        ("appid", "2", NoticeError::NotUs("appid")),
        ("return_code", "FAIL", NoticeError::Malformed("return_code")),
        ("result_code", "", NoticeError::Malformed("result_code")),
        ("result_code", "MAYBE", NoticeError::Malformed("result_code")),
        ("sign_type", "MD5", NoticeError::Malformed("sign_type")),
        ("total_fee", "69.99", NoticeError::Malformed("total_fee")),
        ("total_fee", "-1", NoticeError::Malformed("total_fee")),
        ("total_fee", "+1", NoticeError::Malformed("total_fee")),
        ("total_fee", "99999999999999999999", NoticeError::Malformed("total_fee")),
        ("transaction_id", "", NoticeError::Malformed("total_fee")),
        ("trade_state", "NOTPAY", NoticeError::Malformed("trade_state")),
        ("out_trade_no", "a b", NoticeError::Malformed("out_trade_no")),
    ] {
        assert_eq!(see(name, value, true), Err(error), "{name} {value}");
    }
    assert_eq!(see("result_code", "FAIL", true).unwrap().outcome, Outcome::Failed);
}

#[test]
fn stripe_headers_and_events_are_checked() {
    let call = genuine(ProviderKind::Stripe);
    let signature = call.headers.one("Stripe-Signature").unwrap().to_owned();
    let (time, v1) = signature.split_once(',').unwrap();
    let see = |header: &str| verdict(ProviderKind::Stripe, &[("Stripe-Signature", header)].into(), &call.body);
    assert!(see(&format!("{time},v1={},{v1}", "0".repeat(64))).is_ok(), "any of several may match");
    let malformed = NoticeError::Malformed("Stripe-Signature");
    for header in ["", v1, "t=x,v1=y", &format!("{time},{time},{v1}")] {
        assert_eq!(see(header), Err(malformed.clone()), "{header}");
    }
    assert_eq!(verdict(ProviderKind::Stripe, &Headers::default(), &call.body), Err(malformed));
    let many = format!("{time}{},{v1}", ",v1=0".repeat(8));
    for header in [
        time,
        &format!("{time},v1="),
        &format!("{time},{}", v1.replace("v1", "v0")),
        &many,
        &signature.to_uppercase().replacen("T=", "t=", 1),
    ] {
        assert_eq!(see(header), Err(NoticeError::BadSignature), "{header}");
    }

    let signed = |body: &str| {
        let secret = "whsec_0123456789abcdef0123456789abcdef";
        let v1 = hmac_sha256_hex(secret, &[b"1794355500.", body.as_bytes()]);
        verdict(ProviderKind::Stripe, &[("Stripe-Signature", format!("t=1794355500,v1={v1}"))].into(), body.as_bytes())
    };
    let text = String::from_utf8(call.body.clone()).unwrap();
    assert!(signed(&text).is_ok());
    let unpaid = signed(&text.replace("\"payment_status\":\"paid\"", "\"payment_status\":\"unpaid\"")).unwrap();
    assert_eq!(unpaid.outcome, Outcome::Other("unpaid".to_owned()), "a bank transfer in progress");
    let invoice = signed(&text.replace("checkout.session.completed", "invoice.paid"));
    assert_eq!(invoice, Err(NoticeError::NotOurs("invoice.paid".to_owned())));
    let others = signed(&text.replace("\"metadata\":{", "\"metadata\":{},\"x\":{"));
    assert_eq!(others, Err(NoticeError::NotOurs("checkout.session.completed".to_owned())));
    let mixed = signed(&text.replacen(NUMBER, OTHER_NUMBER, 1));
    assert_eq!(mixed, Err(NoticeError::Malformed("client_reference_id")));
    let own = text.replace("\"orderType\":\"2\"", "\"orderType\":\"1\"");
    let reference = format!("\"client_reference_id\":\"{NUMBER}\"");
    for theirs in ["\"client_reference_id\":\"cart-17\"", "\"client_reference_id\":null"] {
        let ordinary = signed(&own.replace(&reference, theirs)).unwrap();
        assert_eq!(
            ordinary.subject,
            Subject::Ordinary(NUMBER.to_owned()),
            "the shop may put anything there for its own orders"
        );
        let ours = signed(&text.replace(&reference, theirs));
        assert_eq!(ours, Err(NoticeError::Malformed("client_reference_id")), "{theirs}");
    }
    let connected = signed(&text.replacen('{', "{\"account\":\"acct_1\",", 1));
    assert_eq!(connected, Err(NoticeError::NotUs("account")));
    for (from, to, error) in [
        ("\"payment_intent\":\"pi_3\"", "\"payment_intent\":null", "payment_intent"),
        ("6999", "-6999", "amount_total"),
        ("6999", "69.99", "data.object"),
        ("\"usd\"", "\"dollars\"", "amount_total"),
        ("\"orderType\":\"2\"", "\"orderType\":\"9\"", "metadata.order"),
    ] {
        assert_eq!(signed(&text.replace(from, to)), Err(NoticeError::Malformed(error)), "{to}");
    }
    assert_eq!(signed("[]"), Err(NoticeError::Malformed("body")));
}

#[test]
fn a_signed_answer_about_a_refund_is_not_a_notice_of_wechat_v2() {
    let kind = ProviderKind::WechatV2;
    let key = Secret::new("192006250b4c09247ec02edce69f6a2d".to_owned());
    let payment = paid_payment(kind);
    for number in ["out_refund_no", "out_refund_no_0"] {
        let body = sandbox().notice(kind, &payment, Happened::Paid, now(), &nonce()).unwrap().body;
        let mut fields = xml::read("xml", &body).unwrap();
        fields.remove("sign");
        fields.insert(number.to_owned(), "R-1".to_owned());
        let signed = sign(&fields, &key, SignType::HmacSha256);
        fields.insert("sign".to_owned(), signed);
        let answer = xml::write("xml", &fields);
        let refused = verdict(kind, &Headers::default(), answer.as_bytes());
        assert_eq!(refused, Err(NoticeError::Malformed("out_refund_no")), "{number}");
    }
}
