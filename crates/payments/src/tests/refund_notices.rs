//! WeChat Pay v2's notices of refunds, which are encrypted but not signed.

use std::collections::BTreeMap;

use super::*;
use crate::sandbox::Happened;
use crate::shared::crypto::{Secret, from_base64, to_base64};
use crate::shared::xml;
use crate::wechat_v2::{open_with_digest, seal_with_digest};
use crate::{Headers, Notice, NoticeError, Outcome, Subject};

const KIND: ProviderKind = ProviderKind::WechatV2;

fn key() -> Secret {
    Secret::new("192006250b4c09247ec02edce69f6a2d")
}

/// A genuine notice: its fields, and the fields of its encrypted content.
fn genuine() -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let call = sandbox().notice(KIND, &paid_payment(KIND), Happened::Refunded, now(), &nonce()).unwrap();
    let outer = xml::read("xml", &call.body).unwrap();
    let inner = xml::read("root", &open_with_digest(&key(), &outer["req_info"]).unwrap()).unwrap();
    (outer, inner)
}

fn read(outer: &BTreeMap<String, String>) -> Result<Notice, NoticeError> {
    provider(KIND).notice(&Headers::default(), xml::write("xml", outer).as_bytes(), now())
}

/// The verdict on a notice with one field of its content changed.
fn inside(name: &str, value: &str) -> Result<Notice, NoticeError> {
    let (mut outer, mut inner) = genuine();
    inner.insert(name.to_owned(), value.to_owned());
    outer.insert("req_info".to_owned(), seal_with_digest(&key(), xml::write("root", &inner).as_bytes()).unwrap());
    read(&outer)
}

/// The verdict on a notice with one field around the content changed.
fn around(name: &str, value: &str) -> Result<Notice, NoticeError> {
    let (mut outer, _) = genuine();
    outer.insert(name.to_owned(), value.to_owned());
    read(&outer)
}

#[test]
fn the_notice_tells_the_result_of_the_refund() {
    for (status, outcome) in [
        ("SUCCESS", Outcome::Refunded),
        ("CHANGE", Outcome::RefundFailed),
        ("REFUNDCLOSE", Outcome::RefundFailed),
        ("NEW", Outcome::Other("NEW".to_owned())),
    ] {
        let notice = inside("refund_status", status).unwrap();
        assert_eq!((notice.outcome.clone(), notice.paid()), (outcome, None), "{status}");
    }
    let notice = inside("refund_fee", "1").unwrap();
    assert_eq!((notice.amount, notice.currency), (1, currency(KIND)), "the refunded amount, not the paid one");
    assert_eq!(notice.happened_at, Some(now()));
    assert_eq!(inside("out_trade_no", "A-17").unwrap().subject, Subject::Ordinary("A-17".to_owned()));
}

#[test]
fn an_incomplete_notice_is_refused() {
    for (name, value, error) in [
        ("refund_status", "", "refund_status"),
        ("refund_fee", "", "refund_fee"),
        ("refund_fee", "0", "refund_fee"),
        ("refund_fee", "-1", "refund_fee"),
        ("refund_fee", "69.99", "refund_fee"),
        ("transaction_id", "", "transaction_id"),
        ("out_trade_no", "a b", "out_trade_no"),
    ] {
        assert_eq!(inside(name, value), Err(NoticeError::Malformed(error)), "{name} {value}");
    }
    assert_eq!(around("mch_id", "2"), Err(NoticeError::NotUs("mch_id")));
    assert_eq!(around("appid", "2"), Err(NoticeError::NotUs("appid")));
    assert_eq!(around("return_code", "FAIL"), Err(NoticeError::Malformed("return_code")));
    let sealed = |content: &str| seal_with_digest(&key(), content.as_bytes()).unwrap();
    for content in ["", "<root></root", "<xml><refund_status>SUCCESS</refund_status></xml>"] {
        assert_eq!(around("req_info", &sealed(content)), Err(NoticeError::Malformed("req_info")), "{content}");
    }
    assert_eq!(around("req_info", &sealed("<root></root>")), Err(NoticeError::Malformed("refund_status")));
}

#[test]
fn a_notice_cannot_be_made_without_the_key() {
    let content = xml::write("root", &genuine().1);
    let stranger = Secret::new("292006250b4c09247ec02edce69f6a2d");
    let forged = seal_with_digest(&stranger, content.as_bytes()).unwrap();
    assert_eq!(around("req_info", &forged), Err(NoticeError::BadSignature));
    let signed_instead = to_base64(content.as_bytes());
    for sealed in ["x", "AAAA", "not base64!", &signed_instead, &signed_instead.repeat(2)] {
        assert_eq!(around("req_info", sealed), Err(NoticeError::BadSignature), "{sealed}");
    }
    let (outer, _) = genuine();
    let bytes = from_base64(&outer["req_info"]).unwrap();
    for at in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        assert!(around("req_info", &to_base64(&altered)).is_err(), "byte {at}");
    }
}
