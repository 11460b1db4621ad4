//! What each provider says no to, and what it takes twice.

use std::time::Duration;

use payments::{
    HttpCall, PaymentRequest, PaymentStatus, ProviderCloseAnswer, ProviderError, ProviderKind, RefundRequest, Refunding,
};
use sandbox::Action;

use crate::merchant::{AMOUNT, Merchant};

fn code(error: &ProviderError) -> &str {
    match error {
        ProviderError::Refused { code, .. } => code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn creating_again_gives_the_same_payment() {
    for kind in ProviderKind::ALL {
        let merchant = Merchant::new().await;
        let first = merchant.create(kind).await;
        let second = merchant.create(kind).await;
        assert_eq!(first.created, second.created, "{kind}");
        assert_eq!(merchant.cloud.sandbox.payments().await.expect("payments").len(), 1, "{kind}");
    }
}

#[tokio::test]
async fn a_number_means_one_payment_for_ever() {
    for (kind, closed, paid, other) in [
        (ProviderKind::Alipay, "ACQ.TRADE_HAS_CLOSE", "ACQ.TRADE_HAS_SUCCESS", "ACQ.CONTEXT_INCONSISTENT"),
        (ProviderKind::WechatV3, "ORDER_CLOSED", "ORDERPAID", "OUT_TRADE_NO_USED"),
        (ProviderKind::WechatV2, "ORDERCLOSED", "ORDERPAID", "OUT_TRADE_NO_USED"),
    ] {
        let merchant = Merchant::new().await;
        let started = merchant.create(kind).await;
        let dearer = PaymentRequest { amount: AMOUNT + 1, ..started.request.clone() };
        assert_eq!(code(&merchant.try_create(kind, &dearer).await.unwrap_err()), other, "{kind}");
        merchant.cloud.sandbox.open(started.link()).await.expect("a page");
        merchant.pass(Duration::from_secs(5 * 60));
        assert_eq!(merchant.close(&started).await, Ok(ProviderCloseAnswer::Closed), "{kind}");
        assert_eq!(code(&merchant.try_create(kind, &started.request).await.unwrap_err()), closed, "{kind}");
        // Another try has another number.
        let second = merchant.request(kind, 1, 1);
        merchant.try_create(kind, &second).await.expect("another payment");
        merchant.cloud.sandbox.pay(&second.number.to_string()).await.expect("paid");
        assert_eq!(code(&merchant.try_create(kind, &second).await.unwrap_err()), paid, "{kind}");
    }
}

#[tokio::test]
async fn a_payment_does_not_begin_after_its_end() {
    for kind in ProviderKind::ALL {
        let merchant = Merchant::new().await;
        merchant.pass(Duration::from_secs(60 * 60));
        let error = merchant.try_create(kind, &merchant.request(kind, 1, 0)).await.unwrap_err();
        assert!(matches!(error, ProviderError::Refused { .. }), "{kind}: {error:?}");
        assert!(merchant.cloud.sandbox.payments().await.expect("payments").is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn stripe_goes_by_the_idempotency_key() {
    let merchant = Merchant::new().await;
    let started = merchant.create(ProviderKind::Stripe).await;
    let provider = merchant.provider(ProviderKind::Stripe);
    let payments::Start::Call(call) =
        provider.create(&started.request, merchant.now(), &payments::Nonce::new([0; 16])).expect("a call")
    else {
        panic!("a call")
    };
    let replayed = merchant.send(&call).await.expect("an answer");
    assert_eq!((replayed.status, replayed.headers.one("Idempotent-Replayed")), (200, Some("true")));
    let text = String::from_utf8(call.body.clone()).expect("a form");
    let altered = HttpCall { body: text.replace("6999", "7000").into_bytes(), ..call.clone() };
    let refused = merchant.send(&altered).await.expect("an answer");
    assert_eq!(refused.status, 400);
    assert!(String::from_utf8_lossy(&refused.body).contains("idempotency_error"));
    let headers = call.headers.iter().filter(|(name, _)| *name != "Idempotency-Key").collect();
    let keyless = HttpCall { headers, ..call };
    assert_eq!(merchant.send(&keyless).await.expect("an answer").status, 200);
    assert_eq!(merchant.cloud.sandbox.payments().await.expect("payments").len(), 2, "without a key, a second session");
}

#[tokio::test]
async fn stripe_forgets_an_idempotency_key_after_a_day() {
    let merchant = Merchant::new().await;
    let started = merchant.create(ProviderKind::Stripe).await;
    let paid = merchant.cloud.sandbox.pay(&started.number()).await.expect("paid");
    let whole = merchant.refund_request(&started, &paid.transaction.expect("a transaction"), "R-1");
    let part = RefundRequest { amount: 3000, ..whole };
    for (after, refunds) in [(Duration::ZERO, 1), (Duration::from_secs(24 * 3600), 1), (Duration::from_secs(1), 2)] {
        merchant.pass(after);
        assert_eq!(merchant.refund(ProviderKind::Stripe, &part).await, Ok(Refunding::Refunded));
        let books = merchant.cloud.sandbox.money().await.expect("the books");
        assert_eq!(books.iter().filter(|entry| entry.refund.is_some()).count(), refunds, "{after:?}");
    }
}

#[tokio::test]
async fn wechat_v2_closes_no_payment_in_its_first_five_minutes() {
    let merchant = Merchant::new().await;
    let started = merchant.create(ProviderKind::WechatV2).await;
    assert!(matches!(merchant.close(&started).await, Ok(ProviderCloseAnswer::Unclear(_))));
    merchant.pass(Duration::from_millis(299_999));
    assert!(matches!(merchant.close(&started).await, Ok(ProviderCloseAnswer::Unclear(_))));
    assert_eq!(merchant.query(&started).await, Ok(PaymentStatus::NotPaid));
    merchant.pass(Duration::from_millis(1));
    assert_eq!(merchant.close(&started).await, Ok(ProviderCloseAnswer::Closed));
}

#[tokio::test]
async fn what_was_never_started_is_missing() {
    for kind in [ProviderKind::Alipay, ProviderKind::WechatV3, ProviderKind::WechatV2] {
        let merchant = Merchant::new().await;
        let started = merchant.create_for(kind, 1).await;
        let other = crate::merchant::Started { request: merchant.request(kind, 2, 0), ..started };
        assert_eq!(merchant.query(&other).await, Ok(PaymentStatus::Missing), "{kind}");
        assert_eq!(merchant.close(&other).await, Ok(ProviderCloseAnswer::NothingThere), "{kind}");
    }
}

#[tokio::test]
async fn money_goes_back_once_for_a_number_and_never_more_than_was_paid() {
    for (kind, too_much, all, used) in [
        (
            ProviderKind::Alipay,
            "ACQ.REFUND_AMT_NOT_EQUAL_TOTAL",
            Some("ACQ.TRADE_HAS_CLOSE"),
            Some("ACQ.DISCORDANT_REPEAT_REQUEST"),
        ),
        (ProviderKind::WechatV3, "INVALID_REQUEST", Some("INVALID_REQUEST"), Some("INVALID_REQUEST")),
        (ProviderKind::WechatV2, "INVALID_REQUEST", Some("ERROR"), Some("REFUND_FEE_MISMATCH")),
        (ProviderKind::Stripe, "amount_too_large", None, None),
    ] {
        let merchant = Merchant::new().await;
        let started = merchant.create(kind).await;
        let paid = merchant.cloud.sandbox.pay(&started.number()).await.expect("paid");
        let transaction = paid.transaction.expect("a transaction");
        let part = |number: &str, amount: i64| RefundRequest {
            amount,
            ..merchant.refund_request(&started, &transaction, number)
        };
        for _ in 0..3 {
            merchant.refund(kind, &part("R-1", 4000)).await.expect("a refund");
        }
        let error = merchant.refund(kind, &part("R-2", 3000)).await.unwrap_err();
        assert_eq!(code(&error), too_much, "{kind}");
        let error = merchant.refund(kind, &part("R-1", 2000)).await.unwrap_err();
        assert_eq!(code(&error), used.unwrap_or("idempotency_error"), "{kind}");
        merchant.refund(kind, &part("R-3", 2999)).await.expect("the rest");
        match (merchant.refund(kind, &part("R-4", 1)).await, all) {
            (Err(error), Some(all)) => assert_eq!(code(&error), all, "{kind}"),
            // Stripe says so too: nothing is left to refund.
            (result, _) => assert_eq!(result, Ok(Refunding::Refunded), "{kind}"),
        }
        let books = merchant.cloud.sandbox.money().await.expect("the books");
        let back: i64 = books.iter().filter(|entry| entry.refund.is_some()).map(|entry| entry.amount).sum();
        assert_eq!((books.len(), back), (3, AMOUNT), "{kind}");
    }
}

#[tokio::test]
async fn what_was_not_paid_is_not_refunded() {
    for kind in ProviderKind::ALL {
        let merchant = Merchant::new().await;
        let started = merchant.create(kind).await;
        let unknown = merchant.refund_request(&started, "4200000000000000000000000000", "R-1");
        assert!(matches!(merchant.refund(kind, &unknown).await, Err(ProviderError::Refused { .. })), "{kind}");
        // Alipay's trade has a number before it is paid.
        let own = merchant.cloud.sandbox.payment(&started.number()).await.expect("a payment").id;
        if kind == ProviderKind::Alipay {
            let early = merchant.refund_request(&started, &own, "R-1");
            assert_eq!(code(&merchant.refund(kind, &early).await.unwrap_err()), "ACQ.TRADE_STATUS_ERROR");
        }
        assert!(merchant.cloud.sandbox.money().await.expect("the books").is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn the_same_number_at_two_providers_is_two_payments() {
    let merchant = Merchant::new().await;
    let alipay = merchant.create(ProviderKind::Alipay).await;
    let wechat = merchant.create(ProviderKind::WechatV3).await;
    assert_eq!(alipay.number(), wechat.number());
    let sandbox = &merchant.cloud.sandbox;
    let paid = sandbox.act(Some(ProviderKind::Alipay), &alipay.number(), Action::Pay).await.expect("paid");
    assert_eq!(paid.provider, "alipay");
    assert_eq!(merchant.query(&wechat).await, Ok(PaymentStatus::NotPaid));
    assert_eq!(sandbox.pay(&alipay.number()).await.expect("the latest").provider, "wechat");
    assert_eq!(sandbox.payment(&paid.id).await.expect("by its own number").provider, "alipay");
    let error = sandbox.pay("nobody's").await.unwrap_err();
    assert!(error.to_string().starts_with("there is no payment nobody's"), "{error}");
}
