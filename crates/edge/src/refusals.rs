//! How the refusals of each flow are answered: one total match per flow.

use flows::buy::purchase::Refusal;
use flows::pay::start_payment::NotStarted;
use flows::sale::set_up::SetUpError;

use crate::problem::{Code, Problem};

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::UnknownSale => Problem::unknown_sale(),
            Refusal::UnknownItem => Problem::unknown_item(),
            Refusal::NotStarted => {
                Problem::new(Code::NotStarted, "the sale has not started yet: try again after its start")
            }
            Refusal::Ended => Problem::new(Code::Ended, "the sale has ended"),
            Refusal::Paused => Problem::new(Code::Paused, "the sale is paused: try again later"),
            Refusal::LimitExceeded { limit } => Problem {
                limit: Some(limit),
                ..Problem::new(Code::LimitExceeded, format!("the limit for this item is {limit} per buyer"))
            },
            Refusal::SoldOut { available: 0 } => {
                Problem::new(Code::SoldOut, "no units are free: one may become free when an order is closed")
            }
            Refusal::SoldOut { available } => Problem {
                available: Some(available),
                ..Problem::new(Code::SoldOut, format!("fewer units are free: try a quantity of {available}"))
            },
            Refusal::Duplicate(order) => {
                Problem::new(Code::DuplicateOrder, "you already have an order for this item").about(order)
            }
            Refusal::Mismatch => Problem::new(
                Code::IdempotencyMismatch,
                "this Idempotency-Key was used for another request: use a new key for a new request",
            ),
            Refusal::RateLimited { retry_after_ms } => Problem {
                retry_after_s: Some(whole_seconds(retry_after_ms)),
                ..Problem::new(Code::RateLimited, "too many requests: wait before the next one")
            },
            Refusal::Busy => Problem::new(Code::Unavailable, "too many buyers at the same time: try again in a moment"),
            Refusal::Unavailable(error) => Problem::from(error),
        }
    }
}

impl From<SetUpError> for Problem {
    fn from(error: SetUpError) -> Self {
        match error {
            SetUpError::UnknownSale => Problem::unknown_sale(),
            SetUpError::UnknownItem => Problem::unknown_item(),
            SetUpError::Invalid(errors) => Problem::fields(errors),
            SetUpError::WrongState(why) => Problem::new(Code::WrongState, why),
            SetUpError::Mismatch => Problem::new(
                Code::IdempotencyMismatch,
                "this Idempotency-Key was used for a restock with another quantity: use a new key for a new restock",
            ),
            SetUpError::Stale { version } => Problem::new(
                Code::StaleVersion,
                format!("the sale is at version {version}: read it again, and send the version that you have read"),
            ),
            SetUpError::Changed => {
                Problem::new(Code::WrongState, "another operator changed the sale at the same time: try again")
            }
            SetUpError::Unavailable(error) => Problem::from(error),
        }
    }
}

impl From<NotStarted> for Problem {
    fn from(refusal: NotStarted) -> Self {
        match refusal {
            NotStarted::UnknownOrder => Problem::unknown_order(),
            NotStarted::WrongStatus(status) => {
                let detail = format!("the order is {} and cannot be paid", status.as_str());
                Problem::new(Code::WrongState, detail)
            }
            NotStarted::TooLate => Problem::new(
                Code::WrongState,
                "the payment deadline of this order has passed: buy again if units are left",
            ),
            NotStarted::Paid { .. } => {
                Problem::new(Code::WrongState, "the order has just been paid: no further payment is needed")
            }
            NotStarted::NotConfigured(methods) => {
                let names: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
                Problem::invalid("method", format!("is not available in this shop: use one of {}", names.join(", ")))
            }
            NotStarted::Unsupported(why) => {
                let detail = format!("the payment provider does not accept this payment ({why}): use another method");
                Problem::new(Code::WrongState, detail)
            }
            NotStarted::Refused(_) => {
                Problem::new(Code::WrongState, "the payment provider does not accept this payment: use another method")
            }
            NotStarted::WrongPoints => Problem::invalid(
                "points",
                "must be the full price in points for the method points, less than that for any other method, and \
                 left out for an order without a price in points",
            ),
            NotStarted::PointsShort => {
                Problem::new(Code::WrongState, "you do not have enough points: use fewer points or another method")
            }
            NotStarted::OtherOpenUntil(moment) => {
                let detail =
                    format!("another payment of this order is open: complete it, or change the method after {moment}");
                Problem::new(Code::WrongState, detail)
            }
            NotStarted::TooMany => Problem::new(
                Code::WrongState,
                "this order has used all its payment attempts: cancel the order and buy again",
            ),
            NotStarted::FlowError(error) => Problem::from(error),
        }
    }
}

/// Rounds up to whole seconds, at least one: `Retry-After` has no fractions.
fn whole_seconds(ms: i64) -> u32 {
    u32::try_from(ms.saturating_add(999).max(1_000) / 1_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Timestamp;
    use domain::ids::{Buyer, BuyerKey, OrderId};
    use domain::order::Status;
    use domain::payment::Method;
    use domain::sale::FieldError;
    use flows::FlowError;
    use store::StoreError;

    #[test]
    fn each_refusal_has_its_code() {
        let order = OrderId::new(Timestamp::UNIX_EPOCH, &BuyerKey::of(&Buyer::parse("a").unwrap(), ""), 1);
        let cases = [
            (Refusal::UnknownSale, Code::UnknownSale),
            (Refusal::UnknownItem, Code::UnknownItem),
            (Refusal::NotStarted, Code::NotStarted),
            (Refusal::Ended, Code::Ended),
            (Refusal::Paused, Code::Paused),
            (Refusal::LimitExceeded { limit: 2 }, Code::LimitExceeded),
            (Refusal::SoldOut { available: 0 }, Code::SoldOut),
            (Refusal::Duplicate(order.clone()), Code::DuplicateOrder),
            (Refusal::Mismatch, Code::IdempotencyMismatch),
            (Refusal::RateLimited { retry_after_ms: 1 }, Code::RateLimited),
            (Refusal::Busy, Code::Unavailable),
            (Refusal::Unavailable(StoreError::Throttled { operation: "x" }), Code::Unavailable),
        ];
        for (refusal, code) in cases {
            let text = refusal.to_string();
            assert_eq!(Problem::from(refusal).code, code, "{text}");
        }
        assert_eq!(Problem::from(Refusal::Duplicate(order.clone())).order_id, Some(order));
        assert_eq!(Problem::from(Refusal::SoldOut { available: 0 }).available, None);
        assert_eq!(Problem::from(Refusal::SoldOut { available: 3 }).available, Some(3));
    }

    #[test]
    fn a_client_is_never_asked_to_retry_too_early() {
        for (ms, seconds) in [(-5, 1), (1, 1), (1_000, 1), (1_001, 2), (60_000, 60)] {
            let problem = Problem::from(Refusal::RateLimited { retry_after_ms: ms });
            assert_eq!(problem.retry_after_s, Some(seconds), "{ms} ms");
        }
        assert_eq!(Problem::from(Refusal::Busy).retry_after_s, Some(1));
    }

    #[test]
    fn each_refused_payment_has_its_code_and_says_what_to_do() {
        let cases = [
            (NotStarted::UnknownOrder, Code::UnknownOrder, "no order"),
            (NotStarted::WrongStatus(Status::Closed), Code::WrongState, "is CLOSED"),
            (NotStarted::TooLate, Code::WrongState, "buy again"),
            (NotStarted::Paid { newly_with: None }, Code::WrongState, "just been paid"),
            (NotStarted::NotConfigured(vec![Method::Stripe, Method::Points]), Code::Invalid, "one of stripe, points"),
            (NotStarted::Unsupported("alipay: too much".into()), Code::WrongState, "alipay: too much"),
            (NotStarted::Refused("Invalid API Key provided: sk_1".into()), Code::WrongState, "use another method"),
            (NotStarted::WrongPoints, Code::Invalid, "points: must be the full price"),
            (NotStarted::PointsShort, Code::WrongState, "not have enough points"),
            (NotStarted::OtherOpenUntil(Timestamp::UNIX_EPOCH), Code::WrongState, "after 1970-01-01T00:00:00Z"),
            (NotStarted::TooMany, Code::WrongState, "cancel the order"),
            (NotStarted::FlowError(FlowError::Busy), Code::Unavailable, "try again"),
        ];
        for (refusal, code, words) in cases {
            let problem = Problem::from(refusal);
            assert_eq!(problem.code, code, "{words}");
            assert!(problem.detail.contains(words), "{}", problem.detail);
        }
        let refused = Problem::from(NotStarted::Refused("Invalid API Key provided: sk_1".into()));
        assert_eq!(refused.detail, "the payment provider does not accept this payment: use another method");
        let field = |refusal| Problem::from(refusal).errors[0].field.clone();
        assert_eq!(field(NotStarted::NotConfigured(vec![Method::Points])), "method");
        assert_eq!(field(NotStarted::WrongPoints), "points");
    }

    #[test]
    fn an_invalid_sale_names_its_fields() {
        let errors = vec![FieldError { field: "items[0].price".into(), why: "must be 1 or more".into() }];
        let problem = Problem::from(SetUpError::Invalid(errors.clone()));
        assert_eq!((problem.code, problem.errors), (Code::Invalid, errors));
        assert_eq!(Problem::from(SetUpError::WrongState("pause it first")).detail, "pause it first");
        assert_eq!(Problem::from(SetUpError::Changed).code, Code::WrongState);
        assert_eq!(Problem::from(SetUpError::Mismatch).code, Code::IdempotencyMismatch);
    }
}
