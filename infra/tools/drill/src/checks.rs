//! What must be true of the snapshot when everything has settled.

use std::collections::{BTreeMap, BTreeSet};

use domain::bucket::MovementKind;
use domain::order::{Order, Reason, Status};
use serde_json::{Value, json};
use testkit::check::Check;

use crate::snapshot::{Money, Snapshot};

/// Runs all checks.
pub(crate) fn check(snapshot: &Snapshot, accepted: &BTreeSet<String>, units: u32) -> Vec<Check> {
    vec![
        audit(snapshot, units),
        buckets_add_up(snapshot, units),
        sold_is_paid(snapshot),
        accepted_orders_ended(snapshot, accepted),
        no_accepted_order_failed(snapshot, accepted),
        one_live_order(snapshot),
        claims_are_of_paid_orders(snapshot),
        nothing_held(snapshot),
        queues_empty(snapshot),
        dead_letters(snapshot),
        no_deadline_left(snapshot),
        every_payment_pays_or_is_refunded(snapshot),
        every_refund_is_made_once(snapshot),
        money_log(snapshot),
        nothing_open(snapshot),
        stock_ledger(snapshot),
        what_is_free_is_on_sale(snapshot),
    ]
}

fn audit(snapshot: &Snapshot, units: u32) -> Check {
    let figure = |name: &str| snapshot.audit.get(name).cloned().unwrap_or(Value::Null);
    let mut wrong = Vec::new();
    for (name, expected) in [("total", json!(units)), ("drift", json!(0)), ("findings", json!([]))] {
        if figure(name) != expected {
            wrong.push(format!("{name} is {} and must be {expected}", figure(name)));
        }
    }
    Check::never("the operator's audit finds nothing: no drift, no findings", wrong)
}

fn buckets_add_up(snapshot: &Snapshot, units: u32) -> Check {
    let mut wrong: Vec<String> = Vec::new();
    let mut total = 0;
    for (number, bucket) in &snapshot.buckets {
        total += bucket.cap;
        if !bucket.adds_up() {
            wrong.push(format!("bucket {number}: {bucket:?}"));
        }
    }
    if total != units {
        wrong.push(format!("the buckets have {total} units"));
    }
    Check::never(format!("free + held + sold is the capacity, in each of {} buckets", snapshot.buckets.len()), wrong)
}

/// Nothing is oversold: every sold unit belongs to one paid order, and every paid order has its units.
fn sold_is_paid(snapshot: &Snapshot) -> Check {
    let sold: BTreeMap<&str, (u32, u32)> = snapshot
        .buckets
        .iter()
        .flat_map(|(number, bucket)| bucket.sold().map(|(order, units)| (order.as_str(), (*number, units))))
        .collect();
    let paid: BTreeMap<&str, (u32, u32)> =
        with_status(snapshot, Status::Paid).map(|order| (order.id.as_str(), (order.bucket, order.quantity))).collect();
    let mut wrong: Vec<String> = Vec::new();
    for (order, at) in &sold {
        match paid.get(order) {
            Some(paid_at) if paid_at == at => {}
            Some(paid_at) => wrong.push(format!("order {order}: (bucket, units) sold {at:?}, ordered {paid_at:?}")),
            None => wrong.push(format!("order {order} is not paid and has units: (bucket, units) {at:?}")),
        }
    }
    let without = paid.keys().filter(|order| !sold.contains_key(*order));
    wrong.extend(without.map(|order| format!("order {order} is paid and has no units")));
    Check::in_the_end(format!("nothing is oversold: each of {} paid orders has its units", paid.len()), wrong)
}

fn with_status(snapshot: &Snapshot, status: Status) -> impl Iterator<Item = &Order> {
    snapshot.orders.iter().filter(move |order| order.status == status)
}

fn accepted_orders_ended(snapshot: &Snapshot, accepted: &BTreeSet<String>) -> Check {
    let known: BTreeSet<&str> = snapshot.orders.iter().map(|order| order.id.as_str()).collect();
    let lost = accepted.iter().filter(|order| !known.contains(order.as_str()));
    let mut wrong: Vec<String> = lost.map(|order| format!("order {order} was accepted and does not exist")).collect();
    for order in &snapshot.orders {
        match order.status {
            Status::Paid | Status::Closed | Status::Failed | Status::Refunded => {}
            Status::PendingPayment | Status::Refunding => {
                wrong.push(format!("order {} is {}", order.id, order.status.as_str()));
            }
        }
    }
    let says = format!("each of {} accepted orders exists, and all {} have ended", accepted.len(), known.len());
    Check::in_the_end(says, wrong)
}

/// An accepted purchase always becomes an order. Only a purchase without a 202 may end as FAILED.
fn no_accepted_order_failed(snapshot: &Snapshot, accepted: &BTreeSet<String>) -> Check {
    let failed = with_status(snapshot, Status::Failed).filter(|order| accepted.contains(order.id.as_str()));
    let why = |order: &Order| order.reason.map_or("no reason", Reason::as_str);
    let wrong = failed.map(|order| format!("order {} was accepted and failed: {}", order.id, why(order))).collect();
    Check::never("no accepted order failed", wrong)
}

fn one_live_order(snapshot: &Snapshot) -> Check {
    let mut live: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for order in snapshot.orders.iter().filter(|order| order.status.is_live()) {
        live.entry(order.buyer_name.as_str()).or_default().push(order.id.as_str());
    }
    let doubled = live.iter().filter(|(_, orders)| orders.len() > 1);
    let wrong = doubled.map(|(buyer, orders)| format!("{buyer} has {}", orders.join(", "))).collect();
    Check::never("no buyer has two live orders", wrong)
}

/// A buyer who has paid cannot buy again, and every other buyer can.
fn claims_are_of_paid_orders(snapshot: &Snapshot) -> Check {
    let paid: BTreeSet<String> = with_status(snapshot, Status::Paid).map(|order| order.id.to_string()).collect();
    let unclaimed = paid.difference(&snapshot.claimed).map(|order| format!("order {order} is paid and has no claim"));
    let left = snapshot.claimed.difference(&paid).map(|order| format!("order {order} is not paid and has a claim"));
    Check::in_the_end(
        "a buyer who has paid cannot buy again, and every other buyer can",
        unclaimed.chain(left).collect(),
    )
}

fn nothing_held(snapshot: &Snapshot) -> Check {
    let holders =
        snapshot.buckets.iter().flat_map(|(number, bucket)| bucket.holders.keys().map(move |id| (number, id)));
    let wrong = holders.map(|(bucket, order)| format!("bucket {bucket} holds units of order {order}")).collect();
    Check::in_the_end("no unit is held", wrong)
}

fn not_empty(counts: &BTreeMap<String, u64>) -> Vec<String> {
    counts.iter().filter(|(_, count)| **count > 0).map(|(name, count)| format!("{name}: {count}")).collect()
}

fn queues_empty(snapshot: &Snapshot) -> Check {
    Check::in_the_end("no message waits or is in flight", not_empty(&snapshot.waiting))
}

fn dead_letters(snapshot: &Snapshot) -> Check {
    Check::never("there are no dead letters", not_empty(&snapshot.dead_letters))
}

fn no_deadline_left(snapshot: &Snapshot) -> Check {
    let wrong = snapshot.deadlines.iter().map(|order| format!("order {order} still has a schedule")).collect();
    Check::in_the_end("no payment deadline is left over", wrong)
}

/// The payments and refunds of one transaction, according to the provider.
#[derive(Default)]
struct Moved<'a> {
    order: &'a str,
    paid: Vec<i64>,
    refunded: Vec<i64>,
}

fn moved(money: &[Money]) -> BTreeMap<&str, Moved<'_>> {
    let mut transactions: BTreeMap<&str, Moved<'_>> = BTreeMap::new();
    for entry in money {
        let moved = transactions.entry(&entry.transaction).or_default();
        moved.order = entry.order();
        if entry.is_refund { &mut moved.refunded } else { &mut moved.paid }.push(entry.amount);
    }
    transactions
}

/// Every payment at a provider belongs to a paid order or was refunded, and every paid order has its payment.
fn every_payment_pays_or_is_refunded(snapshot: &Snapshot) -> Check {
    let orders: BTreeMap<&str, &Order> = snapshot.orders.iter().map(|order| (order.id.as_str(), order)).collect();
    let transactions = moved(&snapshot.money);
    let mut wrong = Vec::new();
    for (transaction, moved) in &transactions {
        let order = orders.get(moved.order);
        let paid_it = order.and_then(|order| order.paid.as_ref()).is_some_and(|paid| paid.transaction == *transaction);
        let is_paid = order.is_some_and(|order| order.status == Status::Paid);
        let status = order.map_or("missing", |order| order.status.as_str());
        let name = format!("transaction {transaction} of order {}, which is {status},", moved.order);
        match (paid_it && is_paid, moved.refunded.is_empty()) {
            (true, true) | (false, false) => {}
            (true, false) => wrong.push(format!("{name} paid for it and was refunded")),
            (false, true) => wrong.push(format!("{name} paid for nothing and was not refunded")),
        }
    }
    for order in with_status(snapshot, Status::Paid) {
        let paid = order.paid.as_ref().map(|paid| paid.transaction.as_str()).unwrap_or_default();
        match transactions.get(paid) {
            Some(moved) if moved.paid == [order.amount] && moved.order == order.id.as_str() => {}
            Some(moved) => {
                wrong.push(format!("order {} costs {}, and {:?} was paid", order.id, order.amount, moved.paid))
            }
            None => wrong.push(format!("order {} is paid, and no provider has a payment for it", order.id)),
        }
    }
    let says = format!("each of {} payments at the providers pays for an order or was refunded", transactions.len());
    Check::in_the_end(says, wrong)
}

fn every_refund_is_made_once(snapshot: &Snapshot) -> Check {
    let transactions = moved(&snapshot.money);
    let mut wrong = Vec::new();
    for (transaction, Moved { order, paid, refunded }) in &transactions {
        let good = paid.len() == 1 && (refunded.is_empty() || refunded == paid);
        if !good {
            wrong.push(format!("transaction {transaction} of order {order}: paid {paid:?}, refunded {refunded:?}"));
        }
    }
    let refunds = transactions.values().filter(|moved| !moved.refunded.is_empty()).count();
    Check::never(format!("no payment was taken twice, and each of {refunds} refunds was made once and in full"), wrong)
}

/// The shop's own log of payments and refunds agrees with the providers' accounts.
fn money_log(snapshot: &Snapshot) -> Check {
    let transaction_of = |name: &str| name.rsplit_once('#').map_or("", |(_, transaction)| transaction).to_owned();
    let logged = |prefix: &str, done: bool| -> BTreeSet<String> {
        let entries = snapshot.ledger.iter().filter(|entry| entry.name.starts_with(prefix) && (!done || entry.is_done));
        entries.map(|entry| transaction_of(&entry.name)).collect()
    };
    let at_provider = |is_refund: bool| -> BTreeSet<String> {
        let entries = snapshot.money.iter().filter(|entry| entry.is_refund == is_refund);
        entries.map(|entry| entry.transaction.clone()).collect()
    };
    let mut wrong = Vec::new();
    for (what, logged, at_provider) in
        [("payment", logged("PAY#", false), at_provider(false)), ("refund", logged("REFUND#", true), at_provider(true))]
    {
        let not_logged = at_provider.difference(&logged);
        wrong.extend(not_logged.map(|one| format!("the {what} of transaction {one} is not in the log")));
        let not_at_provider = logged.difference(&at_provider);
        wrong.extend(not_at_provider.map(|one| format!("the {what} of transaction {one} is in the log only")));
    }
    Check::in_the_end("the payment and refund log agrees with the providers", wrong)
}

fn nothing_open(snapshot: &Snapshot) -> Check {
    let open = snapshot.ledger.iter().filter(|entry| entry.is_open);
    let wrong = open.map(|entry| format!("order {}: {}", entry.order, entry.name)).collect();
    Check::in_the_end("no entry of the ledger is open", wrong)
}

/// The stock ledger, which is written from the stream, contains every movement of each order's units.
fn stock_ledger(snapshot: &Snapshot) -> Check {
    let mut entries: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for entry in &snapshot.ledger {
        entries.entry(entry.order.as_str()).or_default().insert(entry.name.as_str());
    }
    let none = BTreeSet::new();
    let mut wrong = Vec::new();
    for order in &snapshot.orders {
        let its = entries.get(order.id.as_str()).unwrap_or(&none);
        let has = |kind: MovementKind| its.iter().any(|name| kind.has_entry(name));
        let sold = has(MovementKind::Revive) || (has(MovementKind::Deduct) && has(MovementKind::Confirm));
        let complete = match order.status {
            Status::Paid => sold,
            Status::Refunded => sold && has(MovementKind::Refund),
            Status::Closed => has(MovementKind::Deduct) && has(MovementKind::RollBack),
            // A failed order may never have had units. The other two are reported by another check.
            Status::Failed | Status::PendingPayment | Status::Refunding => true,
        };
        if !complete {
            wrong.push(format!("order {} is {}, and the ledger contains {its:?}", order.id, order.status.as_str()));
        }
    }
    Check::in_the_end("the stock ledger contains every movement of every order", wrong)
}

fn what_is_free_is_on_sale(snapshot: &Snapshot) -> Check {
    let open: BTreeSet<u32> = snapshot.pages.iter().flat_map(|(_, page)| page.open.iter().copied()).collect();
    let mut wrong = Vec::new();
    let mut free = 0;
    for (number, bucket) in &snapshot.buckets {
        free += bucket.free;
        match (bucket.free > 0, open.contains(number)) {
            (true, true) | (false, false) => {}
            (true, false) => {
                wrong.push(format!("bucket {number} has {} free units and is not on its page", bucket.free))
            }
            (false, true) => wrong.push(format!("bucket {number} has no free units and is on its page")),
        }
    }
    Check::in_the_end(format!("all {free} free units can be bought"), wrong)
}

#[cfg(test)]
mod tests;
