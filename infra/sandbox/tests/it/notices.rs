//! Notices come again until they are accepted, on the provider's own schedule.

use std::time::Duration;

use payments::{Outcome, ProviderKind};

use crate::merchant::Merchant;

/// Seconds after the payment at which each try comes, if all are refused.
async fn tries(kind: ProviderKind) -> Vec<u64> {
    let merchant = Merchant::new().await;
    let started = merchant.create(kind).await;
    merchant.cloud.sandbox.pay(&started.number()).await.expect("paid");
    let start_ms = merchant.cloud.clock.now_ms();
    let mut tries = Vec::new();
    let mut told = Vec::new();
    loop {
        let due = merchant.due().await;
        assert_eq!(due.len(), 1, "{kind}");
        // Signed anew, or it would be refused as stale; the same notice all the same.
        told.push((due[0].id, merchant.read(&due[0]).transaction));
        tries.push(u64::try_from((merchant.cloud.clock.now_ms() - start_ms) / 1000).expect("ahead"));
        merchant.cloud.sandbox.delivered(due[0].id, false).await.expect("noted");
        let Some(next_ms) = merchant.cloud.sandbox.next_notice_ms().await.expect("a time") else { break };
        let wait_ms = u64::try_from(next_ms - merchant.cloud.clock.now_ms()).expect("ahead");
        merchant.pass(Duration::from_millis(wait_ms - 1));
        assert!(merchant.due().await.is_empty(), "{kind}: not a moment earlier");
        merchant.pass(Duration::from_millis(1));
    }
    assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "{kind}: {told:?}");
    tries
}

#[tokio::test]
async fn a_refused_notice_comes_again_on_the_providers_schedule() {
    let minutes = |all: &[u64]| all.iter().map(|minutes| minutes * 60).collect::<Vec<_>>();
    assert_eq!(tries(ProviderKind::Alipay).await, minutes(&[0, 4, 14, 24, 84, 204, 564, 1464]));
    for kind in [ProviderKind::WechatV3, ProviderKind::WechatV2] {
        let all = tries(kind).await;
        assert_eq!(all[..6], [0, 15, 30, 60, 240, 840], "{kind}");
        assert_eq!((all.len(), all.last()), (16, Some(&86_640)), "{kind}");
    }
    let stripe = tries(ProviderKind::Stripe).await;
    assert_eq!(stripe[..3], minutes(&[0, 5, 35]));
    assert!(stripe.last().is_some_and(|last| *last < 3 * 24 * 3600));
}

#[tokio::test]
async fn an_accepted_notice_is_done_until_it_is_sent_again() {
    for kind in ProviderKind::ALL {
        let merchant = Merchant::new().await;
        let started = merchant.create(kind).await;
        let early = merchant.cloud.sandbox.notify_again(&started.number()).await.expect_err("nothing to say");
        assert!(early.to_string().contains("pay it first"), "{early}");
        merchant.cloud.sandbox.pay(&started.number()).await.expect("paid");
        let first = merchant.take_notices().await;
        merchant.pass(Duration::from_secs(4 * 24 * 3600));
        assert!(merchant.due().await.is_empty(), "{kind}");
        merchant.cloud.sandbox.notify_again(&started.number()).await.expect("once more");
        let second = merchant.take_notices().await;
        assert_eq!(first[0].transaction, second[0].transaction, "{kind}");
        assert_eq!(second[0].outcome, Outcome::Paid);
        assert!(merchant.cloud.sandbox.delivered(1, true).await.is_err(), "{kind}: it is not due");
    }
}

#[tokio::test]
async fn a_notice_tells_what_happened_then() {
    for kind in ProviderKind::ALL {
        let merchant = Merchant::new().await;
        let started = merchant.create(kind).await;
        let paid = merchant.cloud.sandbox.pay(&started.number()).await.expect("paid");
        let refund = merchant.refund_request(&started, &paid.transaction.expect("a transaction"), "R-1");
        merchant.refund(kind, &refund).await.expect("a refund");
        let told: Vec<Outcome> = merchant.take_notices().await.into_iter().map(|notice| notice.outcome).collect();
        assert_eq!(told, [Outcome::Paid, Outcome::Refunded], "{kind}");
    }
}

#[tokio::test]
async fn each_notice_goes_where_it_was_asked_to() {
    let merchant = Merchant::new().await;
    for (order, kind) in (1..).zip(ProviderKind::ALL) {
        let started = merchant.create_for(kind, order).await;
        merchant.cloud.sandbox.pay(&started.number()).await.expect("paid");
    }
    let urls: Vec<String> = merchant.due().await.into_iter().map(|due| due.call.url).collect();
    let expected = [
        "http://shop.example/payments/alipay/notify",
        "http://shop.example/payments/wechat/notify",
        "http://shop.example/payments/wechat-v2/notify",
        // Stripe is not told: it is where the sandbox is.
        "http://localhost/payments/stripe/notify",
    ];
    assert_eq!(urls, expected);
}
