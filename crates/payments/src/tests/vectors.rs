//! Requests and notices compared with ones that other software has signed: `vectors.json` was made with Python's
//! `cryptography` (OpenSSL), `hashlib` and `hmac`, from the providers' documentation.

use std::collections::BTreeMap;

use super::*;
use crate::{Headers, HttpAnswer, HttpCall, Method, Notice, NoticeError, Outcome, Start, Subject};

fn vector(name: &str) -> String {
    let all: BTreeMap<String, String> = serde_json::from_str(include_str!("vectors.json")).unwrap();
    all[name].clone()
}

/// A provider at its production address.
fn production(kind: ProviderKind) -> Box<Provider> {
    let mut settings: serde_json::Value = serde_json::from_str(&keys().settings(kind, "https://x.example")).unwrap();
    settings.as_object_mut().unwrap().retain(|name, _| name != "gateway" && name != "baseUrl");
    Provider::from_json(kind, &settings.to_string()).unwrap()
}

fn created_call(kind: ProviderKind) -> HttpCall {
    match production(kind).create(&request(kind), now(), &nonce()).unwrap() {
        Start::Call(call) => call,
        Start::Ready(_) => panic!("{kind} must be called"),
    }
}

fn headers(call: &HttpCall) -> Vec<(&str, &str)> {
    call.headers.iter().collect()
}

#[test]
fn alipay_precreate() {
    let call = created_call(ProviderKind::Alipay);
    let sign: String = form_urlencoded::byte_serialize(vector("alipay_precreate_sign").as_bytes()).collect();
    assert_eq!(
        call.url,
        format!(
            "https://openapi.alipay.com/gateway.do?app_id=wx0123456789abcdef&charset=utf-8&format=JSON\
             &method=alipay.trade.precreate&notify_url=https%3A%2F%2Fshop.example%2Fpayments%2Falipay%2Fnotify\
             &sign={sign}&sign_type=RSA2&timestamp=2026-11-11+08%3A05%3A00&version=1.0"
        )
    );
    assert_eq!(headers(&call), [("Content-Type", "application/x-www-form-urlencoded;charset=utf-8")]);
    let fields: Vec<_> = form_urlencoded::parse(&call.body).into_owned().collect();
    let content = concat!(
        r#"{"out_trade_no":"01K9PZ0000ABCDEFGHJKMNPQRS000001","passback_params":"2","subject":"手机 A B","#,
        r#""time_expire":"2026-11-11 08:20:00","total_amount":"69.99"}"#
    );
    assert_eq!(fields, [("biz_content".to_owned(), content.to_owned())]);
}

#[test]
fn alipay_page_is_a_link() {
    let request = PaymentRequest { way: None, ..request(ProviderKind::Alipay) };
    let Start::Ready(created) = production(ProviderKind::Alipay).create(&request, now(), &nonce()).unwrap() else {
        panic!("nothing to call")
    };
    assert_eq!(created.pay_url, Some(vector("alipay_page")));
    assert_eq!((created.qr_code, created.payment), (None, None));
}

#[test]
fn alipay_answer_with_escaped_slashes() {
    let answer = HttpAnswer::new(200, "application/json", vector("alipay_answer"));
    let created = production(ProviderKind::Alipay).interpret_create(&answer, now()).unwrap();
    assert_eq!(created.qr_code.as_deref(), Some("https://qr.alipay.com/bax03431ljhokirwl38f00a7"));
}

#[test]
fn wechat_v3_requests() {
    let call = created_call(ProviderKind::WechatV3);
    let authorization = |signature: &str| {
        format!(
            "WECHATPAY2-SHA256-RSA2048 mchid=\"1900000001\",nonce_str=\"00112233445566778899aabbccddeeff\",\
             timestamp=\"1794355500\",serial_no=\"3775B6A45ACD588826D15E583A95F5DD20C2E1F4\",signature=\"{signature}\""
        )
    };
    assert_eq!(call.url, "https://api.mch.weixin.qq.com/v3/pay/transactions/native");
    assert_eq!(String::from_utf8_lossy(&call.body), vector("v3_create_body"));
    assert_eq!(
        headers(&call),
        [
            ("Accept", "application/json"),
            ("Authorization", authorization(&vector("v3_create_signature")).as_str()),
            ("Content-Type", "application/json"),
            ("User-Agent", "seckill-payments/1"),
            ("Wechatpay-Serial", "PUB_KEY_ID_0119000000012026111100000000000000"),
        ]
    );
    let query = production(ProviderKind::WechatV3)
        .query(&reference(&paid_payment(ProviderKind::WechatV3)), now(), &nonce())
        .unwrap();
    assert_eq!(query.headers.one("Authorization"), Some(authorization(&vector("v3_query_signature")).as_str()));
    assert!(query.body.is_empty() && query.method == Method::Get);
}

#[test]
fn wechat_v2_request() {
    let call = created_call(ProviderKind::WechatV2);
    assert_eq!(call.url, "https://api.mch.weixin.qq.com/pay/unifiedorder");
    assert_eq!(headers(&call), [("Content-Type", "text/xml; charset=utf-8")]);
    assert_eq!(
        String::from_utf8_lossy(&call.body),
        format!(
            "<xml><appid>wx0123456789abcdef</appid><attach>2</attach><body>手机 A&amp;B</body>\
             <fee_type>CNY</fee_type>\
             <mch_id>1900000001</mch_id><nonce_str>00112233445566778899aabbccddeeff</nonce_str>\
             <notify_url>https://shop.example/payments/wechat-v2/notify</notify_url>\
             <out_trade_no>{NUMBER}</out_trade_no>\
             <product_id>{NUMBER}</product_id><sign>{}</sign><sign_type>HMAC-SHA256</sign_type>\
             <spbill_create_ip>203.0.113.7</spbill_create_ip><time_expire>20261111082530</time_expire>\
             <total_fee>6999</total_fee><trade_type>NATIVE</trade_type></xml>",
            vector("v2_create_sign")
        )
    );
}

#[test]
fn stripe_request() {
    let call = created_call(ProviderKind::Stripe);
    assert_eq!(call.url, "https://api.stripe.com/v1/checkout/sessions");
    assert_eq!(
        headers(&call),
        [
            ("Authorization", "Bearer sk_test_0123456789abcdef"),
            ("Stripe-Version", "2024-06-20"),
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Idempotency-Key", "create-01K9PZ0000ABCDEFGHJKMNPQRS000001"),
        ]
    );
    let fields: Vec<_> = form_urlencoded::parse(&call.body).into_owned().collect();
    let expected = [
        ("mode", "payment"),
        ("client_reference_id", NUMBER),
        ("line_items[0][quantity]", "1"),
        ("line_items[0][price_data][currency]", "usd"),
        ("line_items[0][price_data][unit_amount]", "6999"),
        ("line_items[0][price_data][product_data][name]", "手机 A&B"),
        ("metadata[order]", NUMBER),
        ("metadata[orderType]", "2"),
        ("payment_intent_data[metadata][order]", NUMBER),
        ("payment_intent_data[metadata][orderType]", "2"),
        ("success_url", "https://shop.example/payments/stripe/return?session_id={CHECKOUT_SESSION_ID}"),
        ("cancel_url", "https://shop.example/payments/stripe/return"),
        // 15 minutes to the deadline, and 31 more.
        ("expires_at", "1794358260"),
        ("payment_method_types[0]", "card"),
    ];
    assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let later = production(ProviderKind::Stripe).create(
        &request(ProviderKind::Stripe),
        now() + SignedDuration::from_mins(14),
        &nonce(),
    );
    assert_eq!(
        later.unwrap(),
        Start::Call(call),
        "the same number makes the same request, or Stripe refuses the idempotency key"
    );
}

/// The notice that every provider's vector reports.
fn expected(kind: ProviderKind, transaction: &str) -> Notice {
    Notice {
        provider: kind,
        subject: Subject::FlashSale(PaymentNumber::parse(NUMBER).unwrap()),
        transaction: Some(transaction.to_owned()),
        amount: 6999,
        currency: currency(kind),
        happened_at: Some(now()),
        outcome: Outcome::Paid,
    }
}

#[test]
fn notices_signed_by_other_software_are_accepted() {
    let none = Headers::default();
    let alipay = provider(ProviderKind::Alipay).notice(&none, vector("alipay_notice").as_bytes(), now());
    assert_eq!(alipay, Ok(expected(ProviderKind::Alipay, "2026111122001400000000000001")));

    let headers: Headers = [
        ("wechatpay-timestamp", "1794355500"),
        ("wechatpay-nonce", nonce().as_str()),
        ("wechatpay-serial", "PUB_KEY_ID_0119000000012026111100000000000000"),
        ("wechatpay-signature", &vector("v3_notice_signature")),
    ]
    .into();
    let v3 = provider(ProviderKind::WechatV3).notice(&headers, vector("v3_notice_body").as_bytes(), now());
    assert_eq!(v3, Ok(expected(ProviderKind::WechatV3, "4200000001202611110000000001")));

    let paid = expected(ProviderKind::WechatV2, "1004400740201409030005092168");
    let hmac = provider(ProviderKind::WechatV2);
    assert_eq!(hmac.notice(&none, vector("v2_notice_hmac").as_bytes(), now()), Ok(paid.clone()));
    let settings = keys().settings(ProviderKind::WechatV2, "https://x.example").replace("HMAC-SHA256", "MD5");
    let md5 = Provider::from_json(ProviderKind::WechatV2, &settings).unwrap();
    assert_eq!(md5.notice(&none, vector("v2_notice_md5").as_bytes(), now()), Ok(paid));
    for (side, other) in [(&hmac, "v2_notice_md5"), (&md5, "v2_notice_hmac")] {
        assert_eq!(side.notice(&none, vector(other).as_bytes(), now()), Err(NoticeError::BadSignature));
    }

    let refunded = hmac.notice(&none, vector("v2_refund_notice").as_bytes(), now());
    let expected_refund = expected(ProviderKind::WechatV2, "1004400740201409030005092168");
    assert_eq!(refunded, Ok(Notice { outcome: Outcome::Refunded, ..expected_refund }));

    let headers: Headers = [("Stripe-Signature", vector("stripe_signature"))].into();
    let stripe = provider(ProviderKind::Stripe).notice(&headers, vector("stripe_event").as_bytes(), now());
    assert_eq!(stripe, Ok(expected(ProviderKind::Stripe, "pi_3")));
}

#[test]
fn the_return_page_is_verified_and_is_not_a_notice() {
    let alipay = provider(ProviderKind::Alipay);
    let about = Subject::FlashSale(PaymentNumber::parse(NUMBER).unwrap());
    assert_eq!(alipay.read_return(&vector("alipay_return")), Ok(about));
    let altered = vector("alipay_return").replace("69.99", "0.01");
    assert_eq!(alipay.read_return(&altered), Err(NoticeError::BadSignature));
    let as_notice = alipay.notice(&Headers::default(), vector("alipay_return").as_bytes(), now());
    assert_eq!(as_notice, Err(NoticeError::Malformed("trade_status")));
    assert!(provider(ProviderKind::Stripe).read_return("session_id=cs_1").is_err());
}

#[test]
fn a_platform_certificate_serves_as_its_key() {
    let with = |serial: &str| {
        let mut settings: serde_json::Value =
            serde_json::from_str(&keys().settings(ProviderKind::WechatV3, "https://x.example")).unwrap();
        settings["platformKeys"] = serde_json::json!({serial: include_str!("platform.pem")});
        Provider::from_json(ProviderKind::WechatV3, &settings.to_string())
    };
    let serial = "5157F09EFDC096DE15EBE81A47057A7232F1B8E1";
    let provider = with(serial).unwrap();
    let headers: Headers = [
        ("Wechatpay-Timestamp", "1794355500"),
        ("Wechatpay-Nonce", nonce().as_str()),
        ("Wechatpay-Serial", serial),
        ("Wechatpay-Signature", &vector("v3_notice_signature")),
    ]
    .into();
    assert!(provider.notice(&headers, vector("v3_notice_body").as_bytes(), now()).is_ok());
    assert!(!format!("{provider:?}").contains("BEGIN"));
    let typed = with(&serial.to_lowercase()).unwrap();
    assert!(typed.notice(&headers, vector("v3_notice_body").as_bytes(), now()).is_ok(), "the serial in lower case");
    let wrong = with("5157F09EFDC096DE15EBE81A47057A7232F1B8E2").unwrap_err();
    assert!(wrong.to_string().contains("another serial number"), "{wrong}");
}
