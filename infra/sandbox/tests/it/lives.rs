//! A payment's life with each provider: what the merchant asks, what the buyer does, what the provider tells.

use std::time::Duration;

use payments::sandbox::State;
use payments::{Outcome, PaymentRequest, PaymentStatus, ProviderCloseAnswer, ProviderKind, Refunding, Subject, Way};
use sandbox::SandboxError;

use crate::merchant::{AMOUNT, Merchant, Started, currency};

#[tokio::test]
async fn a_payment_is_made_told_queried_and_refunded() {
    for kind in ProviderKind::ALL {
        let merchant = Merchant::new().await;
        let started = merchant.create(kind).await;
        let seen = merchant.cloud.sandbox.open(started.link()).await.expect("a page");
        assert_eq!((seen.number.as_str(), seen.amount), (started.number().as_str(), AMOUNT), "{kind}");
        assert_eq!(seen.state, State::NotPaid);
        assert_eq!(merchant.query(&started).await, Ok(PaymentStatus::NotPaid), "{kind}");

        let paid = merchant.cloud.sandbox.pay(&started.number()).await.expect("paid");
        assert_eq!(paid.state, State::Paid);
        let notices = merchant.take_notices().await;
        assert_eq!(notices.len(), 1, "{kind}: {notices:?}");
        assert_eq!(notices[0].outcome, Outcome::Paid, "{kind}");
        assert_eq!(notices[0].subject, Subject::FlashSale(started.request.number.clone()), "{kind}");
        assert_eq!((notices[0].amount, &notices[0].currency), (AMOUNT, &currency(kind)), "{kind}");
        let transaction = notices[0].transaction.clone().expect("a transaction");
        assert_eq!(Some(&transaction), paid.transaction.as_ref());
        let Ok(PaymentStatus::Paid(money)) = merchant.query(&started).await else { panic!("{kind}") };
        assert_eq!((money.transaction.as_str(), money.amount), (transaction.as_str(), AMOUNT));
        assert!(
            !matches!(
                merchant.close(&started).await,
                Ok(ProviderCloseAnswer::Closed | ProviderCloseAnswer::NothingThere)
            ),
            "{kind}"
        );

        let refund = merchant.refund_request(&started, &transaction, "R-1");
        assert!(!matches!(merchant.query_refund(kind, &refund).await, Ok(Refunding::Refunded)), "{kind}: not yet");
        let first = merchant.refund(kind, &refund).await.expect("a refund");
        assert!(matches!(first, Refunding::Refunded | Refunding::Processing), "{kind}");
        assert_eq!(merchant.query_refund(kind, &refund).await, Ok(Refunding::Refunded), "{kind}");
        assert!(matches!(merchant.query(&started).await, Ok(PaymentStatus::Refunded(..))), "{kind}");
        let told: Vec<Outcome> = merchant.take_notices().await.into_iter().map(|notice| notice.outcome).collect();
        assert_eq!(told, [Outcome::Refunded], "{kind}");

        let books = merchant.cloud.sandbox.money().await.expect("the books");
        let lines: Vec<_> = books.iter().map(|entry| (entry.refund.as_deref(), entry.amount)).collect();
        assert_eq!(lines, [(None, AMOUNT), (Some("R-1"), AMOUNT)], "{kind}");
        assert!(books.iter().all(|entry| entry.transaction == transaction && entry.number == started.number()));
        assert!(books.iter().all(|entry| entry.provider == kind.as_str() && entry.currency == currency(kind).as_str()));
    }
}

#[tokio::test]
async fn a_payment_that_was_closed_takes_no_money_but_late() {
    for kind in ProviderKind::ALL {
        let merchant = Merchant::new().await;
        let started = merchant.create(kind).await;
        merchant.cloud.sandbox.open(started.link()).await.expect("a page");
        merchant.pass(Duration::from_secs(5 * 60));
        assert_eq!(merchant.close(&started).await, Ok(ProviderCloseAnswer::Closed), "{kind}");
        assert_eq!(merchant.query(&started).await, Ok(PaymentStatus::Closed), "{kind}");
        let error = merchant.cloud.sandbox.pay(&started.number()).await.expect_err("closed");
        assert!(error.to_string().contains("was closed: start another, or use pay-late"), "{error}");
        assert!(merchant.cloud.sandbox.fail(&started.number()).await.is_err());
        let told: Vec<Outcome> = merchant.take_notices().await.into_iter().map(|notice| notice.outcome).collect();
        let tells = matches!(kind, ProviderKind::Alipay | ProviderKind::Stripe);
        assert_eq!(told, if tells { vec![Outcome::Closed] } else { vec![] }, "{kind}");
        // ProviderCloseAnswer again is no surprise.
        let again = merchant.close(&started).await.expect("an answer");
        assert!(matches!(again, ProviderCloseAnswer::Closed | ProviderCloseAnswer::Unclear(_)), "{kind}: {again:?}");

        merchant.cloud.sandbox.pay_late(&started.number()).await.expect("late money");
        assert_eq!(merchant.take_notices().await[0].outcome, Outcome::Paid, "{kind}");
        assert!(matches!(merchant.query(&started).await, Ok(PaymentStatus::Paid(_))), "{kind}");
        let twice = merchant.cloud.sandbox.pay_late(&started.number()).await.expect_err("once only");
        assert!(matches!(twice, SandboxError::WrongState { .. }), "{twice}");
        assert_eq!(merchant.cloud.sandbox.money().await.expect("the books").len(), 1, "{kind}");
    }
}

#[tokio::test]
async fn a_payment_expires_by_the_clock() {
    for kind in ProviderKind::ALL {
        let merchant = Merchant::new().await;
        let started = merchant.create(kind).await;
        let page = merchant.cloud.sandbox.open(started.link()).await.expect("a page");
        let ends_ms = page.expires_at.as_millisecond() - merchant.cloud.clock.now_ms();
        let ends = Duration::from_millis(u64::try_from(ends_ms).expect("in the future"));
        merchant.pass(ends - Duration::from_millis(1));
        assert_eq!(merchant.query(&started).await, Ok(PaymentStatus::NotPaid), "{kind}");
        merchant.pass(Duration::from_millis(1));
        let error = merchant.cloud.sandbox.pay(&started.number()).await.expect_err("expired");
        assert!(error.to_string().contains("has expired"), "{error}");
        assert_eq!(merchant.query(&started).await, Ok(PaymentStatus::Closed), "{kind}");
        let told = merchant.take_notices().await.len();
        assert_eq!(told, usize::from(matches!(kind, ProviderKind::Alipay | ProviderKind::Stripe)), "{kind}");
        merchant.cloud.sandbox.pay_late(&started.number()).await.expect("late money");
    }
}

#[tokio::test]
async fn a_payment_that_fails_is_told_where_the_provider_tells_it() {
    for kind in ProviderKind::ALL {
        let merchant = Merchant::new().await;
        let started = merchant.create(kind).await;
        merchant.cloud.sandbox.fail(&started.number()).await.expect("failed");
        let told: Vec<Outcome> = merchant.take_notices().await.into_iter().map(|notice| notice.outcome).collect();
        let tells = matches!(kind, ProviderKind::WechatV2 | ProviderKind::Stripe);
        assert_eq!(told, if tells { vec![Outcome::Failed] } else { vec![] }, "{kind}");
        // At Stripe it is over; the others let the buyer try again.
        let again = merchant.cloud.sandbox.pay(&started.number()).await;
        assert_eq!(again.is_ok(), kind != ProviderKind::Stripe, "{kind}");
        assert_eq!(merchant.cloud.sandbox.money().await.expect("the books").len(), usize::from(again.is_ok()));
    }
}

#[tokio::test]
async fn alipay_knows_a_code_once_it_was_read_and_a_page_once_it_was_opened() {
    let merchant = Merchant::new().await;
    let code = merchant.create(ProviderKind::Alipay).await;
    assert_eq!(merchant.query(&code).await, Ok(PaymentStatus::Missing));
    assert_eq!(merchant.close(&code).await, Ok(ProviderCloseAnswer::NothingThere));
    // The code is good all the same, until its time is over: that is what late money is made of.
    merchant.cloud.sandbox.open(code.link()).await.expect("a page");
    assert_eq!(merchant.query(&code).await, Ok(PaymentStatus::NotPaid));

    let request = PaymentRequest { way: Some(Way::Page), ..merchant.request(ProviderKind::Alipay, 2, 0) };
    let created = merchant.try_create(ProviderKind::Alipay, &request).await.expect("a link");
    let page = Started { kind: ProviderKind::Alipay, request, created };
    let unknown = merchant.cloud.sandbox.pay(&page.number()).await.expect_err("nobody opened it");
    assert!(matches!(&unknown, SandboxError::Unknown(_)) && unknown.to_string().contains("link is opened"));
    let seen = merchant.cloud.sandbox.open(page.link()).await.expect("a page");
    assert_eq!(merchant.query(&page).await, Ok(PaymentStatus::NotPaid));
    let paid = merchant.cloud.sandbox.pay(&page.number()).await.expect("paid");
    assert_eq!((&paid.id, paid.state), (&seen.id, State::Paid));
    // The browser goes back with a signature.
    let back = paid.return_url.expect("a return URL");
    let (address, query) = back.split_once('?').expect("a query");
    assert_eq!(address, page.request.return_url);
    let about = merchant.provider(ProviderKind::Alipay).read_return(query);
    assert_eq!(about, Ok(Subject::FlashSale(page.request.number.clone())));
    // The same link opens the same payment.
    let again = merchant.cloud.sandbox.open(page.link()).await.expect("the page again");
    assert_eq!((again.id, again.state), (seen.id, State::Paid));
    let forged = merchant.cloud.sandbox.open(&page.link().replace("69.99", "0.01")).await.expect_err("altered");
    assert!(forged.to_string().contains("isv.invalid-signature"), "{forged}");
}
