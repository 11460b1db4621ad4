//! The whole life of a payment at each provider, with the sandbox on the other side.

use domain::shop_data::{Metadata, ShopData};

use super::*;
use crate::sandbox::{Asked, Happened, Refund, RefundState, Refusal, Reply};
use crate::{
    HttpAnswer, HttpCall, Outcome, Paid, PaymentStatus, ProviderCloseAnswer, ProviderError, Refunding, Start, Subject,
};

/// The sandbox's reading of a call, and its answer.
fn ask(kind: ProviderKind, call: &HttpCall, reply: Reply<'_>) -> (Asked, HttpAnswer) {
    let sandbox = sandbox();
    let asked = sandbox.read(kind, call, now()).unwrap_or_else(|answer| panic!("{kind}: {answer:?}"));
    let answer = sandbox.answer(kind, &asked, reply, now(), &nonce());
    (asked, answer)
}

/// How much a query tells to have been refunded of a payment that was refunded: WeChat Pay and the toy do not tell it.
fn told(kind: ProviderKind) -> Option<i64> {
    matches!(kind, ProviderKind::Alipay | ProviderKind::Stripe).then(|| money(kind).amount)
}

fn money(kind: ProviderKind) -> Paid {
    let payment = paid_payment(kind);
    Paid { transaction: payment.transaction, amount: 6999, currency: currency(kind), paid_at: Some(now()) }
}

#[test]
fn a_payment_is_started_with_what_the_order_says() {
    for kind in ProviderKind::ALL {
        let (provider, request) = (provider(kind), request(kind));
        let Start::Call(call) = provider.create(&request, now(), &nonce()).unwrap() else { panic!("{kind}") };
        let payment = paid_payment(kind);
        let (asked, answer) = ask(kind, &call, Reply::Created(&payment, "https://pay.example/x"));
        let Asked::Create { payment: seen, expires_at, .. } = asked else { panic!("{kind}: {asked:?}") };
        assert_eq!((seen.number.as_str(), seen.order_type.as_str(), seen.amount), (NUMBER, "2", 6999), "{kind}");
        assert_eq!(seen.currency, currency(kind).as_str(), "{kind}");
        assert!(seen.title.starts_with("手机 A"), "{kind}: {}", seen.title);
        let after_deadline = match kind {
            ProviderKind::Stripe => SignedDuration::from_mins(31),
            ProviderKind::WechatV2 => SignedDuration::from_secs(330),
            _ => SignedDuration::ZERO,
        };
        assert_eq!(expires_at, Some(request.expires_at + after_deadline), "{kind}");

        let created = provider.interpret_create(&answer, now()).unwrap();
        let link = Some("https://pay.example/x".to_owned());
        if kind == ProviderKind::Stripe {
            assert_eq!((created.pay_url, created.payment), (link, Some("cs_test_a1b2".to_owned())));
        } else {
            assert_eq!((created.qr_code, created.payment), (link, None), "{kind}");
        }
    }
}

#[test]
fn alipays_link_opens_a_page() {
    let request = PaymentRequest { way: Some(Way::Page), ..request(ProviderKind::Alipay) };
    let Start::Ready(created) = provider(ProviderKind::Alipay).create(&request, now(), &nonce()).unwrap() else {
        panic!()
    };
    let browser = HttpCall {
        method: crate::Method::Get,
        url: created.pay_url.unwrap(),
        headers: Default::default(),
        body: Vec::new(),
        client_certificate: false,
    };
    let Ok(Asked::Create { payment, way, .. }) = sandbox().read(ProviderKind::Alipay, &browser, now()) else {
        panic!()
    };
    assert_eq!((way, payment.amount, payment.return_url.as_str()), (Way::Page, 6999, request.return_url.as_str()));
    let back = sandbox().return_url(ProviderKind::Alipay, &paid_payment(ProviderKind::Alipay), now());
    let about = provider(ProviderKind::Alipay).read_return(back.split_once('?').unwrap().1);
    assert_eq!(about, Ok(Subject::FlashSale(request.number)));
}

#[test]
fn a_query_tells_the_status() {
    for kind in ProviderKind::ALL {
        let provider = provider(kind);
        let paid = paid_payment(kind);
        let unpaid = |state| Payment { state, paid_at: None, ..paid.clone() };
        let refunded = Payment { state: State::Refunded, ..paid.clone() };
        let reference = reference(&paid);
        let call = provider.query(&reference, now(), &nonce()).unwrap();
        let status = |reply: Reply<'_>| provider.interpret_query(&reference, &ask(kind, &call, reply).1, now());
        assert_eq!(status(Reply::PaymentStatus(&unpaid(State::NotPaid))), Ok(PaymentStatus::NotPaid), "{kind}");
        assert_eq!(status(Reply::PaymentStatus(&paid)), Ok(PaymentStatus::Paid(money(kind))), "{kind}");
        assert_eq!(
            status(Reply::PaymentStatus(&refunded)),
            Ok(PaymentStatus::Refunded(money(kind), told(kind))),
            "{kind}"
        );
        assert_eq!(status(Reply::PaymentStatus(&unpaid(State::Closed))), Ok(PaymentStatus::Closed), "{kind}");
        let missing = status(Reply::Missing).unwrap();
        if kind == ProviderKind::Stripe {
            assert!(matches!(&missing, PaymentStatus::Unknown(why) if why.contains("another account")), "{missing:?}");
        } else {
            assert_eq!(missing, PaymentStatus::Missing, "{kind}");
        }
        assert!(matches!(status(Reply::Trouble), Err(ProviderError::Unavailable(_))), "{kind}");
        let other = Payment { number: OTHER_NUMBER.to_owned(), ..paid.clone() };
        assert!(matches!(status(Reply::PaymentStatus(&other)), Err(ProviderError::Untrusted(_))), "{kind}");
    }
}

#[test]
fn a_close_is_clean_or_leads_to_a_query() {
    for kind in ProviderKind::ALL {
        let provider = provider(kind);
        assert_eq!(provider.closable_after().as_mins(), if kind == ProviderKind::WechatV2 { 5 } else { 0 });
        let closed = Payment { state: State::Closed, paid_at: None, ..paid_payment(kind) };
        let reference = reference(&closed);
        let call = provider.close(&reference, now(), &nonce()).unwrap();
        let close = |reply: Reply<'_>| provider.interpret_close(&reference, &ask(kind, &call, reply).1, now());
        assert_eq!(close(Reply::Closed(&closed)), Ok(ProviderCloseAnswer::Closed), "{kind}");
        let missing = close(Reply::Missing).unwrap();
        if kind == ProviderKind::Stripe {
            // Stripe never forgets a session, so the key must be of another account, and the buyer may still pay.
            let ProviderCloseAnswer::Unclear(why) = &missing else { panic!("{missing:?}") };
            assert!(why.contains("another account"), "{why}");
        } else {
            assert_eq!(missing, ProviderCloseAnswer::NothingThere, "{kind}");
        }
        let paid = close(Reply::AlreadyPaid(&paid_payment(kind))).unwrap();
        assert!(matches!(paid, ProviderCloseAnswer::AlreadyPaid | ProviderCloseAnswer::Unclear(_)), "{kind}: {paid:?}");
        assert!(matches!(close(Reply::Trouble), Err(ProviderError::Unavailable(_))), "{kind}");
    }
}

#[test]
fn a_refund_is_made_and_queried() {
    for kind in ProviderKind::ALL {
        let (provider, request, payment) = (provider(kind), refund(kind), paid_payment(kind));
        let call = provider.refund(&request, now(), &nonce()).unwrap();
        assert_eq!(call.client_certificate, kind == ProviderKind::WechatV2);
        let made = Refund {
            transaction: payment.transaction.clone(),
            refund: "R-1".to_owned(),
            amount: 6999,
            notify_url: None,
            state: RefundState::Done,
        };
        let (asked, answer) = ask(kind, &call, Reply::Refunded(&payment, &made, true));
        assert_eq!(asked, Asked::Refund(made.clone()), "{kind}");
        let first = provider.interpret_refund(&request, &answer, now()).unwrap();
        let later = if kind == ProviderKind::WechatV2 { Refunding::Processing } else { Refunding::Refunded };
        assert_eq!(first, later, "{kind}");

        let call = provider.query_refund(&request, now(), &nonce()).unwrap();
        let refunding = |reply: Reply<'_>| provider.interpret_query_refund(&request, &ask(kind, &call, reply).1, now());
        assert_eq!(refunding(Reply::Refunded(&payment, &made, false)), Ok(Refunding::Refunded), "{kind}");
        assert_ne!(refunding(Reply::NoRefund), Ok(Refunding::Refunded), "{kind}");
        let other = Refund { refund: "R-2".to_owned(), ..made };
        assert_ne!(refunding(Reply::Refunded(&payment, &other, false)), Ok(Refunding::Refunded), "{kind}");
        assert!(matches!(refunding(Reply::Trouble), Err(ProviderError::Unavailable(_))), "{kind}");
    }
    for kind in [ProviderKind::WechatV3, ProviderKind::WechatV2] {
        let request = RefundRequest { notify_url: Some("https://shop.example/n".to_owned()), ..refund(kind) };
        let call = provider(kind).refund(&request, now(), &nonce()).unwrap();
        let asked = sandbox().read(kind, &call, now()).unwrap();
        assert!(
            matches!(asked, Asked::Refund(Refund { notify_url, .. }) if notify_url == request.notify_url),
            "{kind}"
        );
    }
    let too_much = RefundRequest { amount: 7000, ..refund(ProviderKind::Stripe) };
    assert!(matches!(
        provider(ProviderKind::Stripe).refund(&too_much, now(), &nonce()),
        Err(ProviderError::Unsupported(_))
    ));
}

#[test]
fn alipay_reports_moved_money_only_for_the_first_request() {
    let (provider, request) = (provider(ProviderKind::Alipay), refund(ProviderKind::Alipay));
    let payment = paid_payment(ProviderKind::Alipay);
    let call = provider.refund(&request, now(), &nonce()).unwrap();
    let Asked::Refund(made) = sandbox().read(ProviderKind::Alipay, &call, now()).unwrap() else { panic!() };
    let (_, again) = ask(ProviderKind::Alipay, &call, Reply::Refunded(&payment, &made, false));
    assert_eq!(provider.interpret_refund(&request, &again, now()), Ok(Refunding::Processing));
}

#[test]
fn a_payment_that_stripe_has_refunded_in_full_counts_as_refunded() {
    let provider = provider(ProviderKind::Stripe);
    let said = |request: &RefundRequest| {
        let call = provider.refund(request, now(), &nonce()).unwrap();
        let refusal = Refusal { status: 400, code: "charge_already_refunded", message: "x" };
        provider.interpret_refund(request, &ask(ProviderKind::Stripe, &call, Reply::Refused(refusal)).1, now())
    };
    let whole = refund(ProviderKind::Stripe);
    assert_eq!(said(&whole), Ok(Refunding::Refunded));
    let part = RefundRequest { amount: 1, ..whole };
    assert_eq!(said(&part), Ok(Refunding::Refunded), "nothing is left to refund");
}

#[test]
fn every_notice_is_understood() {
    let outcome_of = |kind: ProviderKind, happened: Happened| {
        let payment = paid_payment(kind);
        let call = sandbox().notice(kind, &payment, happened, now(), &nonce())?;
        assert_eq!(call.url, payment.notify_url);
        let notice = provider(kind).notice(&call.headers, &call.body, now()).unwrap();
        assert_eq!(notice.subject, Subject::FlashSale(PaymentNumber::parse(NUMBER).unwrap()));
        assert_eq!((notice.amount, &notice.currency), (6999, &currency(kind)), "{kind} {happened:?}");
        assert_eq!(notice.paid(), (happened == Happened::Paid).then(|| money(kind)), "{kind} {happened:?}");
        Some(notice.outcome)
    };
    for kind in ProviderKind::ALL {
        assert_eq!(outcome_of(kind, Happened::Paid), Some(Outcome::Paid));
        let failed = matches!(kind, ProviderKind::WechatV2 | ProviderKind::Stripe).then_some(Outcome::Failed);
        assert_eq!(outcome_of(kind, Happened::Failed), failed, "{kind}");
        let closed = matches!(kind, ProviderKind::Alipay | ProviderKind::Stripe).then_some(Outcome::Closed);
        assert_eq!(outcome_of(kind, Happened::Closed), closed, "{kind}");
        assert_eq!(outcome_of(kind, Happened::Refunded), Some(Outcome::Refunded), "{kind}");
    }
}

#[test]
fn answers_to_notices_are_the_providers_own() {
    let texts = |kind: ProviderKind| {
        let answer = provider(kind).success_answer();
        (answer.status, String::from_utf8(answer.body).unwrap())
    };
    assert_eq!(texts(ProviderKind::Alipay), (200, "success".to_owned()));
    assert_eq!(texts(ProviderKind::WechatV3), (204, String::new()));
    let xml = "<xml><return_code><![CDATA[SUCCESS]]></return_code><return_msg><![CDATA[OK]]></return_msg></xml>";
    assert_eq!(texts(ProviderKind::WechatV2), (200, xml.to_owned()));
    assert_eq!(texts(ProviderKind::Stripe).0, 200);
    for kind in ProviderKind::ALL {
        let provider = provider(kind);
        let forged = provider.failure_answer(&crate::NoticeError::BadSignature);
        assert!((400..500).contains(&forged.status), "{kind}");
        assert_eq!(provider.try_again_answer().status, 503, "{kind}");
        let other = provider.failure_answer(&crate::NoticeError::NotOurs("invoice.paid".to_owned()));
        assert_eq!(other, provider.success_answer(), "{kind}");
        let body = String::from_utf8(forged.body).unwrap();
        assert!(!body.contains("success") && !body.contains("SUCCESS"), "{kind}: {body}");
    }
    let v3 = provider(ProviderKind::WechatV3).failure_answer(&crate::NoticeError::BadSignature);
    assert_eq!(String::from_utf8(v3.body).unwrap(), r#"{"code":"FAIL","message":"refused"}"#);
}

#[test]
fn an_unsupported_payment_is_never_sent() {
    let refused = |kind: ProviderKind, amount: i64, code: &str, way: Option<Way>| {
        let request = PaymentRequest { amount, currency: Currency::parse(code).unwrap(), way, ..request(kind) };
        match provider(kind).create(&request, now(), &nonce()) {
            Err(ProviderError::Unsupported(why)) => why,
            other => panic!("{kind} {amount} {code}: {other:?}"),
        }
    };
    for kind in [ProviderKind::Alipay, ProviderKind::WechatV3, ProviderKind::WechatV2] {
        assert!(refused(kind, 100, "USD", None).contains("takes CNY, not USD"));
        refused(kind, 0, "CNY", None);
        refused(kind, -1, "CNY", None);
        refused(kind, i64::MAX, "CNY", None);
    }
    refused(ProviderKind::WechatV3, 100, "CNY", Some(Way::Page));
    refused(ProviderKind::WechatV2, 100, "CNY", Some(Way::Page));
    refused(ProviderKind::Stripe, 100, "USD", Some(Way::Qr));
    refused(ProviderKind::Stripe, 100_000_000, "USD", None);
    refused(ProviderKind::Stripe, 101, "KWD", None);
    refused(ProviderKind::Stripe, 100, "ISK", None);
    let yen =
        PaymentRequest { currency: Currency::parse("JPY").unwrap(), amount: 500, ..request(ProviderKind::Stripe) };
    let Ok(Start::Call(call)) = provider(ProviderKind::Stripe).create(&yen, now(), &nonce()) else { panic!() };
    assert!(String::from_utf8_lossy(&call.body).contains("%5Bunit_amount%5D=500&"), "yen have no decimals");
    let long = PaymentRequest { expires_at: now() + SignedDuration::from_hours(24), ..request(ProviderKind::Stripe) };
    assert!(provider(ProviderKind::Stripe).create(&long, now(), &nonce()).is_err());
    let lost = PaymentRef { number: PaymentNumber::parse(NUMBER).unwrap(), payment: None, transaction: None };
    assert!(provider(ProviderKind::Stripe).query(&lost, now(), &nonce()).is_err());
}

#[test]
fn an_altered_request_is_refused_by_the_provider() {
    for kind in [ProviderKind::Alipay, ProviderKind::WechatV3, ProviderKind::WechatV2] {
        let Start::Call(call) = provider(kind).create(&request(kind), now(), &nonce()).unwrap() else { panic!() };
        let cheaper = String::from_utf8(call.body.clone()).unwrap().replace("6999", "1").replace("69.99", "0.01");
        let altered = HttpCall { body: cheaper.into_bytes(), ..call };
        let answer = sandbox().read(kind, &altered, now()).unwrap_err();
        let refused = provider(kind).interpret_create(&answer, now()).unwrap_err();
        assert!(matches!(refused, ProviderError::Refused { .. }), "{kind}: {refused:?}");
    }
    let stranger = keys().settings(ProviderKind::Stripe, "http://127.0.0.1").replace("sk_test_0", "sk_test_1");
    let stranger = Provider::from_json(ProviderKind::Stripe, &stranger).unwrap();
    let Start::Call(call) = stranger.create(&request(ProviderKind::Stripe), now(), &nonce()).unwrap() else { panic!() };
    assert_eq!(sandbox().read(ProviderKind::Stripe, &call, now()).unwrap_err().status, 401);
}

#[test]
fn nothing_follows_from_an_unsigned_refusal() {
    let missing = HttpAnswer::new(404, "application/json", r#"{"code":"ORDER_NOT_EXIST","message":"x"}"#);
    let payment = reference(&paid_payment(ProviderKind::WechatV3));
    let v3 = provider(ProviderKind::WechatV3);
    assert!(v3.interpret_query(&payment, &missing, now()).is_err());
    assert!(v3.interpret_close(&payment, &missing, now()).is_err());
    let closed = HttpAnswer { status: 204, ..HttpAnswer::default() };
    assert!(v3.interpret_close(&payment, &closed, now()).is_err());
    let body = r#"{"alipay_trade_close_response":{"code":"40004","sub_code":"ACQ.TRADE_NOT_EXIST"}}"#;
    let missing = HttpAnswer::new(200, "application/json", body);
    assert!(provider(ProviderKind::Alipay).interpret_close(&payment, &missing, now()).is_err());
    let body = "<xml><return_code>SUCCESS</return_code><result_code>FAIL</result_code>\
                <err_code>ORDERNOTEXIST</err_code></xml>";
    let missing = HttpAnswer::new(200, "text/xml", body);
    assert!(provider(ProviderKind::WechatV2).interpret_close(&payment, &missing, now()).is_err());
}

#[test]
fn settings_are_checked_and_never_printed() {
    let keys = keys();
    for kind in ProviderKind::ALL {
        let good = keys.settings(kind, "https://pay.example");
        let shown = format!("{:?}", Provider::from_json(kind, &good).unwrap());
        for secret in ["BEGIN", "0123456789abcdef0123456789abcdef", "192006250b4c09247ec02edce69f6a2d", "sk_test"] {
            assert!(!shown.contains(secret), "{kind}: {shown}");
        }
        assert!(Provider::from_json(kind, "{}").unwrap_err().to_string().contains("missing field"), "{kind}");
        assert!(Provider::from_json(kind, &good.replace("https://", "http://")).is_err(), "{kind}: without TLS");
        assert!(Provider::from_json(kind, &good.replacen('{', "{\"typo\":1,", 1)).is_err(), "{kind}: unknown field");
    }
    let broken = keys.settings(ProviderKind::Alipay, "https://pay.example").replace("MII", "XXX");
    let error = Provider::from_json(ProviderKind::Alipay, &broken).unwrap_err().to_string();
    assert!(error.starts_with("privateKey must be an RSA private key"), "{error}");
    let bare: String = keys.settings(ProviderKind::Alipay, "https://pay.example").replace("\\n", "");
    let bare = ["PRIVATE", "PUBLIC"].iter().fold(bare, |text, kind| {
        text.replace(&format!("-----BEGIN {kind} KEY-----"), "").replace(&format!("-----END {kind} KEY-----"), "")
    });
    assert!(Provider::from_json(ProviderKind::Alipay, &bare).is_ok(), "bare base64, as Alipay provides it");
    assert!(format!("{keys:?}").len() < 60);
}

#[test]
fn generated_keys_work() {
    let keys = Keys::generate().unwrap();
    let kept: Keys = serde_json::from_str(&serde_json::to_string(&keys).unwrap()).unwrap();
    let sandbox = Sandbox::new(&kept).unwrap();
    for kind in ProviderKind::ALL {
        let provider = Provider::from_json(kind, &keys.settings(kind, "http://localhost:3000/_sandbox/")).unwrap();
        let call = sandbox.notice(kind, &paid_payment(kind), Happened::Paid, now(), &nonce()).unwrap();
        assert!(provider.notice(&call.headers, &call.body, now()).is_ok(), "{kind}");
        let stranger = super::provider(kind).notice(&call.headers, &call.body, now());
        assert!(stranger.is_err(), "{kind}: other keys");
    }
}

#[test]
fn a_refusal_keeps_the_providers_words() {
    for kind in ProviderKind::ALL {
        let (provider, request) = (provider(kind), request(kind));
        let Start::Call(call) = provider.create(&request, now(), &nonce()).unwrap() else { panic!("{kind}") };
        let refusal = Refusal { status: 400, code: "ORDER_CLOSED", message: "订单已关闭" };
        let (_, answer) = ask(kind, &call, Reply::Refused(refusal));
        let words = ProviderError::Refused { code: "ORDER_CLOSED".to_owned(), message: "订单已关闭".to_owned() };
        assert_eq!(provider.interpret_create(&answer, now()), Err(words), "{kind}");
    }
}

#[test]
fn stripe_shows_the_shop_s_data_and_the_system_s_own_is_not_replaced() {
    let pairs = [("order", "x"), ("orderType", "1"), ("reference", "hidden"), ("from", "app & web")];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let shop_data = ShopData {
        reference: Some("cart-7".parse().unwrap()),
        metadata: Metadata::parse(pairs.into_iter().collect()).unwrap(),
    };
    let request = PaymentRequest { shop_data, ..request(ProviderKind::Stripe) };
    let provider = provider(ProviderKind::Stripe);
    let Ok(Start::Call(call)) = provider.create(&request, now(), &nonce()) else { panic!("no call") };
    let fields: Vec<(String, String)> = form_urlencoded::parse(&call.body).into_owned().collect();
    let of = |name: &str| fields.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>();
    for place in ["metadata", "payment_intent_data[metadata]"] {
        assert_eq!(of(&format!("{place}[order]")), [request.number.to_string()]);
        assert_eq!(of(&format!("{place}[orderType]")), ["2"]);
        assert_eq!(of(&format!("{place}[shop_reference]")), ["cart-7"]);
        assert_eq!(of(&format!("{place}[shop_order]")), ["x"]);
        assert_eq!(of(&format!("{place}[shop_from]")), ["app & web"]);
    }
}
