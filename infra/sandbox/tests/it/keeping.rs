//! What was answered survives the end of the process.

use std::time::Duration;

use local_cloud::clock::Clock;
use payments::{Outcome, PaymentStatus, ProviderKind};
use sandbox::{CloudWithSandbox, IN_PROCESS_URL};

use crate::merchant::{Merchant, START_MS};

#[tokio::test]
async fn keys_payments_money_and_notices_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = Clock::driven(START_MS);
    let open = || CloudWithSandbox::open(directory.path(), clock.clone()).expect("engines");
    let first = Merchant::of(open()).await;
    let settings = first.cloud.sandbox.settings(IN_PROCESS_URL).await.expect("settings");
    let (mut started, mut paid) = (Vec::new(), Vec::new());
    for (order, kind) in (1..).zip(ProviderKind::ALL) {
        let payment = first.create_for(kind, order).await;
        paid.push(first.cloud.sandbox.pay(&payment.number()).await.expect("paid"));
        started.push(payment);
    }
    let refused = first.due().await;
    first.cloud.sandbox.delivered(refused[0].id, false).await.expect("noted");
    let books = first.cloud.sandbox.money().await.expect("the books");
    drop(first);

    let second = Merchant::of(open()).await;
    assert_eq!(second.cloud.sandbox.settings(IN_PROCESS_URL).await.expect("settings"), settings);
    assert_eq!(second.cloud.sandbox.money().await.expect("the books"), books);
    for payment in &started {
        assert!(matches!(second.query(payment).await, Ok(PaymentStatus::Paid(_))), "{}", payment.kind);
        let again = second.create_for(payment.kind, 9).await;
        assert_ne!(again.created, payment.created, "{}", payment.kind);
    }
    assert_eq!(second.due().await.len(), refused.len() - 1, "the refused one waits");
    clock.advance(Duration::from_secs(4 * 60));
    let told = second.take_notices().await;
    assert_eq!(told.len(), refused.len());
    assert!(told.iter().all(|notice| notice.outcome == Outcome::Paid));

    // Another directory has keys of its own.
    let elsewhere = tempfile::tempdir().expect("a directory");
    let other = CloudWithSandbox::open(elsewhere.path(), clock.clone()).expect("engines");
    assert_ne!(other.sandbox.settings(IN_PROCESS_URL).await.expect("settings"), settings);
}

#[tokio::test]
async fn the_same_calls_make_the_same_numbers() {
    let run = || async {
        let merchant = Merchant::new().await;
        let mut seen = Vec::new();
        for (order, kind) in (1..).zip(ProviderKind::ALL) {
            let started = merchant.create_for(kind, order).await;
            let paid = merchant.cloud.sandbox.pay(&started.number()).await.expect("paid");
            seen.push((started.created, paid.id, paid.transaction));
        }
        let notices: Vec<_> = merchant.take_notices().await.into_iter().map(|notice| notice.transaction).collect();
        (seen, notices)
    };
    assert_eq!(run().await, run().await);
}
