//! Whether the sale was correct: what buyers were told against what the API's own audit says. Pure: from figures to sentences.

use testkit::check::Check;
use serde_json::Value;

use crate::tally::Counts;

/// The audit of the item, as the API gives it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) total: i64,
    pub(crate) free: i64,
    pub(crate) held: i64,
    pub(crate) sold: i64,
    pub(crate) paid: i64,
    pub(crate) orders: i64,
    pub(crate) drift: i64,
    pub(crate) findings: Vec<String>,
}

impl Audit {
    pub(crate) fn read(item: &Value) -> Option<Self> {
        let figure = |name: &str| item.get(name)?.as_i64();
        let orders = item.get("orders")?.as_object()?;
        let findings = item.get("findings")?.as_array()?.iter().map(ToString::to_string).collect();
        Some(Self {
            total: figure("total")?,
            free: figure("free")?,
            held: figure("held")?,
            sold: figure("sold")?,
            paid: orders.get("PAID")?.as_i64()?,
            orders: orders.values().filter_map(Value::as_i64).sum(),
            drift: figure("drift")?,
            findings,
        })
    }
}

/// Everything that must be true, of a sale that nobody else pressed at between the two audits.
pub(crate) fn checks(before: &Audit, after: &Audit, counts: &Counts) -> Vec<Check> {
    let accepted = i64::try_from(counts.orders.len()).unwrap_or(i64::MAX);
    let unclear = i64::try_from(counts.unclear).unwrap_or(i64::MAX);
    // A buyer who never got a clear answer may have an order or not.
    let may_be = accepted..=accepted.saturating_add(unclear);
    let orders = after.orders - before.orders;
    let units = after.held + after.sold - before.held - before.sold;
    let unless = |ok: bool, wrong: String| if ok { Vec::new() } else { vec![wrong] };
    let mut drift = unless(after.drift == 0, format!("drift is {}", after.drift));
    drift.extend(after.findings.iter().cloned());
    let sum = after.free + after.held + after.sold;
    let unmade: Vec<String> = counts
        .orders
        .keys()
        .filter(|order| !counts.made.contains(*order))
        .map(|order| format!("order {order}"))
        .collect();
    let was_sold_out = counts.first_sold_out.is_some();
    let (told, more) = (&counts.surprises.1, counts.surprises.0);
    let mut surprises = told.clone();
    if usize::try_from(more).is_ok_and(|more| more > told.len()) {
        surprises.push(format!("{more} in all"));
    }
    let paid = i64::try_from(counts.paid.len()).unwrap_or(i64::MAX);
    let may_be_paid = paid..=paid.saturating_add(i64::try_from(counts.unclear_payments).unwrap_or(i64::MAX));
    let (paid_now, sold_now) = (after.paid - before.paid, after.sold - before.sold);
    vec![
        Check::never(
            format!("units sold are orders: {accepted} presses were accepted"),
            unless(
                may_be.contains(&orders) && may_be.contains(&units),
                format!("there are {orders} more orders, of {units} units"),
            ),
        ),
        Check::never("each order was given to one buyer", counts.doubles.clone()),
        Check::never(
            format!("{} second presses were refused", counts.second_presses),
            counts.wrong_second_presses.clone(),
        ),
        Check::never("every buyer who was told of an order has seen it made", unmade),
        Check::never(
            format!("free + held + sold = total = {}", after.total),
            unless(sum == after.total, format!("{} + {} + {} = {sum}", after.free, after.held, after.sold)),
        ),
        Check::never("the audit finds nothing: no drift", drift),
        Check::never(
            format!("{paid} orders were paid, and so many units are sold"),
            unless(
                may_be_paid.contains(&paid_now) && sold_now == paid_now,
                format!("{paid_now} are paid and {sold_now} sold"),
            ),
        ),
        Check::never(
            "sold out was said only when nothing was left",
            unless(!was_sold_out || after.free == 0, format!("{} units are free", after.free)),
        ),
        Check::never("every answer was one that a client can expect", surprises),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn sold(units: i64, orders: i64) -> Audit {
        Audit { total: 10, free: 10 - units, held: units, orders, ..Audit::default() }
    }

    fn counts(orders: &[&str]) -> Counts {
        Counts {
            orders: orders.iter().zip(0..).map(|(order, buyer)| ((*order).to_owned(), buyer)).collect(),
            made: orders.iter().map(|order| (*order).to_owned()).collect(),
            ..Counts::default()
        }
    }

    fn wrong(after: &Audit, counts: &Counts) -> Vec<String> {
        let failed = checks(&sold(0, 0), after, counts).into_iter().filter(|check| !check.wrong.is_empty());
        failed.map(|check| check.says).collect()
    }

    #[test]
    fn a_correct_sale_passes_and_each_fault_is_found() {
        let right = counts(&["A", "B", "C"]);
        assert_eq!(wrong(&sold(3, 3), &right), [""; 0]);
        let found = |after: &Audit, counts: &Counts, words: &str| {
            let wrong = wrong(after, counts);
            assert!(wrong.iter().any(|says| says.contains(words)), "{words}: {wrong:?}");
        };
        found(&sold(4, 4), &right, "units sold are orders");
        found(&sold(2, 3), &right, "units sold are orders");
        found(&sold(3, 4), &right, "units sold are orders");
        found(&Audit { drift: 1, free: 6, ..sold(3, 3) }, &right, "no drift");
        found(&Audit { free: 6, ..sold(3, 3) }, &right, "free + held + sold");
        found(&Audit { findings: vec!["bucket 1".into()], ..sold(3, 3) }, &right, "no drift");
        found(&Audit { paid: 1, ..sold(3, 3) }, &right, "orders were paid");
        let mut unmade = counts(&["A", "B", "C"]);
        unmade.made.remove("B");
        found(&sold(3, 3), &unmade, "has seen it made");
        let mut early = counts(&["A", "B", "C"]);
        early.first_sold_out = Some(Duration::from_secs(1));
        found(&sold(3, 3), &early, "sold out was said");
        let mut odd = counts(&["A", "B", "C"]);
        odd.surprises = (3, vec!["500".into()]);
        found(&sold(3, 3), &odd, "client can expect");
        odd.doubles.push("A".into());
        odd.wrong_second_presses.push("A".into());
        found(&sold(3, 3), &odd, "given to one buyer");
        found(&sold(3, 3), &odd, "second presses");
    }

    #[test]
    fn a_press_that_was_never_answered_may_have_worked_or_not() {
        let mut lost = counts(&["A"]);
        lost.unclear = 1;
        assert_eq!(wrong(&sold(1, 1), &lost), [""; 0]);
        assert_eq!(wrong(&sold(2, 2), &lost), [""; 0]);
        assert!(!wrong(&sold(3, 3), &lost).is_empty());
    }

    #[test]
    fn a_payment_that_was_never_answered_may_have_worked_or_not() {
        let paid = |units: i64| Audit { paid: units, sold: units, held: 2 - units, ..sold(2, 2) };
        let mut lost = counts(&["A", "B"]);
        lost.paid.insert("A".into());
        lost.unclear_payments = 1;
        assert_eq!(wrong(&paid(1), &lost), [""; 0]);
        assert_eq!(wrong(&paid(2), &lost), [""; 0]);
        assert!(!wrong(&paid(0), &lost).is_empty());
        assert!(!wrong(&Audit { sold: 1, held: 1, ..paid(2) }, &lost).is_empty());
        lost.unclear_payments = 0;
        assert!(!wrong(&paid(2), &lost).is_empty());
    }

    #[test]
    fn an_audit_that_lacks_a_figure_is_none() {
        let mut item = json!({
            "total": 3, "free": 1, "held": 1, "sold": 1, "drift": 0, "findings": ["x"],
            "orders": { "PENDING_PAYMENT": 1, "PAID": 1, "CLOSED": 2 },
        });
        let audit = Audit::read(&item).unwrap();
        assert_eq!((audit.orders, audit.paid, audit.findings.len()), (4, 1, 1));
        item.as_object_mut().unwrap().remove("drift");
        assert_eq!(Audit::read(&item), None);
    }
}
