//! What must be true when everything has settled. Pure: from the books to sentences.

use std::collections::{BTreeMap, BTreeSet};

use domain::bucket::MovementKind;
use domain::order::{Order, Reason, Status};
use testkit::check::Check;
use serde_json::{Value, json};

use crate::books::{Books, Money};

/// All of them.
pub(crate) fn check(books: &Books, accepted: &BTreeSet<String>, units: u32) -> Vec<Check> {
    vec![
        audit(books, units),
        buckets_add_up(books, units),
        sold_is_paid(books),
        accepted_orders_ended(books, accepted),
        no_accepted_order_failed(books, accepted),
        one_live_order(books),
        claims_are_of_paid_orders(books),
        nothing_held(books),
        queues_empty(books),
        dead_letters(books),
        no_deadline_left(books),
        money_has_its_place(books),
        money_goes_back_once(books),
        money_log(books),
        nothing_open(books),
        stock_ledger(books),
        what_is_free_is_on_sale(books),
    ]
}

fn audit(books: &Books, units: u32) -> Check {
    let figure = |name: &str| books.audit.get(name).cloned().unwrap_or(Value::Null);
    let mut wrong = Vec::new();
    for (name, expected) in [("total", json!(units)), ("drift", json!(0)), ("findings", json!([]))] {
        if figure(name) != expected {
            wrong.push(format!("{name} is {}, and must be {expected}", figure(name)));
        }
    }
    Check::never("the operator's audit finds nothing: no drift, no findings", wrong)
}

fn buckets_add_up(books: &Books, units: u32) -> Check {
    let mut wrong: Vec<String> = Vec::new();
    let mut total = 0;
    for (number, bucket) in &books.buckets {
        total += bucket.cap;
        if !bucket.adds_up() {
            wrong.push(format!("bucket {number}: {bucket:?}"));
        }
    }
    if total != units {
        wrong.push(format!("the buckets have {total} units"));
    }
    Check::never(format!("free + held + sold is what was laid out, in each of {} buckets", books.buckets.len()), wrong)
}

/// Nothing is oversold: each unit that is sold is sold to one order, which is paid; and the other way round.
fn sold_is_paid(books: &Books) -> Check {
    let sold: BTreeMap<&str, (u32, u32)> = books
        .buckets
        .iter()
        .flat_map(|(number, bucket)| bucket.sold_to.iter().map(|(order, units)| (order.as_str(), (*number, *units))))
        .collect();
    let paid: BTreeMap<&str, (u32, u32)> =
        with_status(books, Status::Paid).map(|order| (order.id.as_str(), (order.bucket, order.quantity))).collect();
    let mut wrong: Vec<String> = Vec::new();
    for (order, at) in &sold {
        match paid.get(order) {
            Some(paid_at) if paid_at == at => {}
            Some(paid_at) => wrong.push(format!("order {order}: (bucket, units) sold {at:?}, ordered {paid_at:?}")),
            None => wrong.push(format!("order {order} is not paid, and has units: (bucket, units) {at:?}")),
        }
    }
    let without = paid.keys().filter(|order| !sold.contains_key(*order));
    wrong.extend(without.map(|order| format!("order {order} is paid, and has no units")));
    Check::in_the_end(format!("nothing is oversold: {} orders are paid, and their units are theirs", paid.len()), wrong)
}

fn with_status(books: &Books, status: Status) -> impl Iterator<Item = &Order> {
    books.orders.iter().filter(move |order| order.status == status)
}

fn accepted_orders_ended(books: &Books, accepted: &BTreeSet<String>) -> Check {
    let known: BTreeSet<&str> = books.orders.iter().map(|order| order.id.as_str()).collect();
    let lost = accepted.iter().filter(|order| !known.contains(order.as_str()));
    let mut wrong: Vec<String> = lost.map(|order| format!("order {order} was accepted, and there is none")).collect();
    for order in &books.orders {
        match order.status {
            Status::Paid | Status::Closed | Status::Failed | Status::Refunded => {}
            Status::PendingPayment | Status::Refunding => {
                wrong.push(format!("order {} is {}", order.id, order.status.as_str()));
            }
        }
    }
    let says = format!("each of {} accepted orders is known, and all {} have ended", accepted.len(), known.len());
    Check::in_the_end(says, wrong)
}

/// Whoever was told that an order is accepted gets it: only a purchase that nobody was told of may come to nothing.
fn no_accepted_order_failed(books: &Books, accepted: &BTreeSet<String>) -> Check {
    let failed = with_status(books, Status::Failed).filter(|order| accepted.contains(order.id.as_str()));
    let why = |order: &Order| order.reason.map_or("nobody knows why", Reason::as_str);
    let wrong = failed.map(|order| format!("order {} was accepted, and failed: {}", order.id, why(order))).collect();
    Check::never("no accepted order failed", wrong)
}

fn one_live_order(books: &Books) -> Check {
    let mut live: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for order in books.orders.iter().filter(|order| order.status.is_live()) {
        live.entry(order.buyer_name.as_str()).or_default().push(order.id.as_str());
    }
    let doubled = live.iter().filter(|(_, orders)| orders.len() > 1);
    let wrong = doubled.map(|(buyer, orders)| format!("{buyer} has {}", orders.join(", "))).collect();
    Check::never("nobody has two live orders", wrong)
}

/// Who has paid cannot buy again, and nobody else is kept from it.
fn claims_are_of_paid_orders(books: &Books) -> Check {
    let paid: BTreeSet<String> = with_status(books, Status::Paid).map(|order| order.id.to_string()).collect();
    let unclaimed = paid.difference(&books.claimed).map(|order| format!("order {order} is paid, and has no claim"));
    let left = books.claimed.difference(&paid).map(|order| format!("order {order} is not paid, and has a claim"));
    Check::in_the_end("who has paid cannot buy again, and everybody else can", unclaimed.chain(left).collect())
}

fn nothing_held(books: &Books) -> Check {
    let holders = books.buckets.iter().flat_map(|(number, bucket)| bucket.holders.keys().map(move |id| (number, id)));
    let wrong = holders.map(|(bucket, order)| format!("bucket {bucket} holds units of order {order}")).collect();
    Check::in_the_end("no unit is held by anybody", wrong)
}

fn not_empty(counts: &BTreeMap<String, u64>) -> Vec<String> {
    counts.iter().filter(|(_, count)| **count > 0).map(|(name, count)| format!("{name}: {count}")).collect()
}

fn queues_empty(books: &Books) -> Check {
    Check::in_the_end("no message waits or is under way", not_empty(&books.waiting))
}

fn dead_letters(books: &Books) -> Check {
    Check::never("no message was given up", not_empty(&books.dead_letters))
}

fn no_deadline_left(books: &Books) -> Check {
    let wrong = books.deadlines.iter().map(|order| format!("order {order} has one")).collect();
    Check::in_the_end("no payment deadline is left over", wrong)
}

/// What became of the money of one transaction, by the provider's books.
#[derive(Default)]
struct Moved<'a> {
    order: &'a str,
    came: Vec<i64>,
    went_back: Vec<i64>,
}

fn moved(money: &[Money]) -> BTreeMap<&str, Moved<'_>> {
    let mut transactions: BTreeMap<&str, Moved<'_>> = BTreeMap::new();
    for entry in money {
        let moved = transactions.entry(&entry.transaction).or_default();
        moved.order = entry.order();
        if entry.is_refund { &mut moved.went_back } else { &mut moved.came }.push(entry.amount);
    }
    transactions
}

/// Every payment at a provider is of a paid order, or went back; every paid order has its payment.
fn money_has_its_place(books: &Books) -> Check {
    let orders: BTreeMap<&str, &Order> = books.orders.iter().map(|order| (order.id.as_str(), order)).collect();
    let transactions = moved(&books.money);
    let mut wrong = Vec::new();
    for (transaction, moved) in &transactions {
        let order = orders.get(moved.order);
        let paid_it = order.and_then(|order| order.paid.as_ref()).is_some_and(|paid| paid.transaction == *transaction);
        let is_paid = order.is_some_and(|order| order.status == Status::Paid);
        let status = order.map_or("not there", |order| order.status.as_str());
        let name = format!("transaction {transaction} of order {}, which is {status},", moved.order);
        match (paid_it && is_paid, moved.went_back.is_empty()) {
            (true, true) | (false, false) => {}
            (true, false) => wrong.push(format!("{name} paid for it, and went back")),
            (false, true) => wrong.push(format!("{name} is for nothing, and did not go back")),
        }
    }
    for order in with_status(books, Status::Paid) {
        let paid = order.paid.as_ref().map(|paid| paid.transaction.as_str()).unwrap_or_default();
        match transactions.get(paid) {
            Some(moved) if moved.came == [order.amount] && moved.order == order.id.as_str() => {}
            Some(moved) => wrong.push(format!("order {} costs {}, paid were {:?}", order.id, order.amount, moved.came)),
            None => wrong.push(format!("order {} is paid, and no provider has its money", order.id)),
        }
    }
    let says = format!("each of {} payments at the providers pays for an order, or went back", transactions.len());
    Check::in_the_end(says, wrong)
}

fn money_goes_back_once(books: &Books) -> Check {
    let transactions = moved(&books.money);
    let mut wrong = Vec::new();
    for (transaction, Moved { order, came, went_back }) in &transactions {
        let good = came.len() == 1 && (went_back.is_empty() || went_back == came);
        if !good {
            wrong.push(format!("transaction {transaction} of order {order}: came {came:?}, went back {went_back:?}"));
        }
    }
    let refunds = transactions.values().filter(|moved| !moved.went_back.is_empty()).count();
    Check::never(format!("no payment was taken twice, and each of {refunds} refunds was made once and in full"), wrong)
}

/// The shop's own log of money says what the providers' books say.
fn money_log(books: &Books) -> Check {
    let transaction_of = |name: &str| name.rsplit_once('#').map_or("", |(_, transaction)| transaction).to_owned();
    let logged = |prefix: &str, done: bool| -> BTreeSet<String> {
        let entries = books.ledger.iter().filter(|entry| entry.name.starts_with(prefix) && (!done || entry.is_done));
        entries.map(|entry| transaction_of(&entry.name)).collect()
    };
    let booked = |is_refund: bool| -> BTreeSet<String> {
        let entries = books.money.iter().filter(|entry| entry.is_refund == is_refund);
        entries.map(|entry| entry.transaction.clone()).collect()
    };
    let mut wrong = Vec::new();
    for (what, logged, booked) in
        [("payment", logged("PAY#", false), booked(false)), ("refund", logged("REFUND#", true), booked(true))]
    {
        let not_logged = booked.difference(&logged);
        wrong.extend(not_logged.map(|one| format!("the {what} of transaction {one} is not in the log")));
        let not_booked = logged.difference(&booked);
        wrong.extend(not_booked.map(|one| format!("the {what} of transaction {one} is in the log only")));
    }
    Check::in_the_end("the pay and refund log says what the providers' books say", wrong)
}

fn nothing_open(books: &Books) -> Check {
    let open = books.ledger.iter().filter(|entry| entry.is_open);
    let wrong = open.map(|entry| format!("order {}: {}", entry.order, entry.name)).collect();
    Check::in_the_end("no entry of the ledger is open", wrong)
}

/// The stock's ledger, which is written from the stream, tells what became of each order's units.
fn stock_ledger(books: &Books) -> Check {
    let mut entries: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for entry in &books.ledger {
        entries.entry(entry.order.as_str()).or_default().insert(entry.name.as_str());
    }
    let none = BTreeSet::new();
    let mut wrong = Vec::new();
    for order in &books.orders {
        let its = entries.get(order.id.as_str()).unwrap_or(&none);
        let has = |kind: MovementKind| its.contains(kind.entry());
        let sold = has(MovementKind::Revive) || (has(MovementKind::Deduct) && has(MovementKind::Confirm));
        let complete = match order.status {
            Status::Paid => sold,
            Status::Refunded => sold && has(MovementKind::Refund),
            Status::Closed => has(MovementKind::Deduct) && has(MovementKind::RollBack),
            // Its units were never its own, or are on their way.
            Status::Failed | Status::PendingPayment | Status::Refunding => true,
        };
        if !complete {
            wrong.push(format!("order {} is {}, and the ledger has {its:?}", order.id, order.status.as_str()));
        }
    }
    Check::in_the_end("the stock ledger tells every order's story", wrong)
}

fn what_is_free_is_on_sale(books: &Books) -> Check {
    let open: BTreeSet<u32> = books.pages.iter().flat_map(|(_, page)| page.open.iter().copied()).collect();
    let mut wrong = Vec::new();
    let mut free = 0;
    for (number, bucket) in &books.buckets {
        free += bucket.free;
        match (bucket.free > 0, open.contains(number)) {
            (true, true) | (false, false) => {}
            (true, false) => wrong.push(format!("bucket {number} has {} free, and is not on its page", bucket.free)),
            (false, true) => wrong.push(format!("bucket {number} has nothing, and is on its page")),
        }
    }
    Check::in_the_end(format!("all {free} units that are free can be bought"), wrong)
}

#[cfg(test)]
mod tests;
