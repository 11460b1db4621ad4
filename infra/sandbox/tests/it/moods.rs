//! Providers that are not well, and calls that go wrong on the way.

use local_cloud::engine::Service;
use local_cloud::wire::{Call, Fault, Loss, Wire};
use payments::{PaymentStatus, ProviderCloseAnswer, ProviderError, ProviderKind};
use sandbox::Mood;

use crate::merchant::{Merchant, driven};

#[tokio::test]
async fn a_provider_can_be_down_speak_rubbish_or_sign_wrongly() {
    for kind in ProviderKind::ALL {
        let merchant = Merchant::new().await;
        let started = merchant.create(kind).await;
        let sandbox = &merchant.cloud.sandbox;
        sandbox.open(started.link()).await.expect("a page");
        sandbox.set_mood(kind, Mood::Down, Some(2));
        for _ in 0..2 {
            assert!(matches!(merchant.query(&started).await, Err(ProviderError::Unavailable(_))), "{kind}");
        }
        assert_eq!(merchant.query(&started).await, Ok(PaymentStatus::NotPaid), "{kind}");
        for mood in [Mood::Rubbish, Mood::WrongSignature] {
            sandbox.set_mood(kind, mood, None);
            let answer = merchant.query(&started).await;
            assert!(matches!(answer, Err(ProviderError::Untrusted(_))), "{kind} {mood:?}: {answer:?}");
        }
        sandbox.set_mood(kind, Mood::Well, None);
        assert_eq!(merchant.query(&started).await, Ok(PaymentStatus::NotPaid), "{kind}");
    }
}

#[tokio::test]
async fn a_wrong_signature_hides_what_was_done() {
    for kind in [ProviderKind::Alipay, ProviderKind::WechatV3] {
        let merchant = Merchant::new().await;
        let started = merchant.create(kind).await;
        merchant.cloud.sandbox.open(started.link()).await.expect("a page");
        merchant.cloud.sandbox.set_mood(kind, Mood::WrongSignature, Some(1));
        assert!(merchant.close(&started).await.is_err(), "{kind}");
        assert_eq!(merchant.query(&started).await, Ok(PaymentStatus::Closed), "{kind}");
    }
}

#[tokio::test]
async fn a_slow_provider_never_answers_and_the_others_do() {
    let merchant = Merchant::new().await;
    let started = merchant.create(ProviderKind::WechatV3).await;
    merchant.cloud.sandbox.set_mood(ProviderKind::WechatV3, Mood::Slow, None);
    let mut closing = Box::pin(merchant.close(&started));
    for _ in 0..10 {
        assert!(futures::poll!(&mut closing).is_pending());
        tokio::task::yield_now().await;
    }
    drop(closing);
    merchant.create(ProviderKind::Stripe).await;
    merchant.cloud.sandbox.set_mood(ProviderKind::WechatV3, Mood::Well, None);
    assert_eq!(merchant.query(&started).await, Ok(PaymentStatus::NotPaid));
}

#[tokio::test]
async fn faults_apply_to_calls_to_providers_as_to_any_other() {
    for (fault, done) in [
        (Fault::NotApplied(Loss::Io), false),
        (Fault::AppliedButLost(Loss::Timeout), true),
        (Fault::AppliedButServerError, true),
        (Fault::Throttled, false),
        (Fault::ServerError, false),
    ] {
        for kind in ProviderKind::ALL {
            let wire = Wire::new(driven()).with_faults(move |call: &Call| {
                let closes = call.service == Service::Outside && call.operation == "Close";
                if closes && call.resource().as_deref() == Some(kind.as_str()) { fault } else { Fault::None }
            });
            let merchant = Merchant::over(wire).await;
            let started = merchant.create(kind).await;
            merchant.cloud.sandbox.open(started.link()).await.expect("a page");
            merchant.pass(std::time::Duration::from_secs(300));
            let closing = merchant.close(&started).await;
            assert!(matches!(closing, Err(ProviderError::Unavailable(_))), "{kind} {fault:?}: {closing:?}");
            let standing = merchant.query(&started).await;
            assert_eq!(
                standing,
                Ok(if done { PaymentStatus::Closed } else { PaymentStatus::NotPaid }),
                "{kind} {fault:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_call_can_arrive_after_its_caller_has_given_up() {
    let wire = Wire::new(driven())
        .with_faults(|call: &Call| if call.operation == "Close" { Fault::Late } else { Fault::None });
    let merchant = Merchant::over(wire).await;
    let started = merchant.create(ProviderKind::Stripe).await;
    assert!(merchant.close(&started).await.is_err());
    assert_eq!(merchant.query(&started).await, Ok(PaymentStatus::NotPaid));
    merchant.wire.arrive(0).await;
    assert_eq!(merchant.query(&started).await, Ok(PaymentStatus::Closed));
}

#[tokio::test]
async fn every_call_has_a_name_that_a_test_can_match() {
    for kind in ProviderKind::ALL {
        let merchant = Merchant::new().await;
        let started = merchant.create(kind).await;
        let paid = merchant.cloud.sandbox.pay(&started.number()).await.expect("paid");
        merchant.query(&started).await.expect("a standing");
        let closing = merchant.close(&started).await.expect("an answer");
        assert_ne!(closing, ProviderCloseAnswer::Closed);
        let refund = merchant.refund_request(&started, &paid.transaction.expect("a transaction"), "R-1");
        merchant.refund(kind, &refund).await.expect("a refund");
        merchant.query_refund(kind, &refund).await.expect("a refund");
        let calls = merchant.wire.calls();
        let names: Vec<&str> = calls.iter().map(|call| call.operation.as_str()).collect();
        assert_eq!(names, ["Create", "Query", "Close", "Refund", "QueryRefund"], "{kind}");
        let provider = (Service::Outside, Some(kind.as_str()));
        assert!(calls.iter().all(|call| (call.service, call.resource.as_deref()) == provider), "{kind}");
    }
}
