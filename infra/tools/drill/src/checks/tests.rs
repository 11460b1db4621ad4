//! A correct snapshot passes. Each fault in a snapshot fails exactly the checks that are about it.

use domain::Timestamp;
use domain::availability::Page;
use domain::bucket::Bucket;
use domain::ids::{Buyer, BuyerKey, OrderId};
use domain::message::{OrderMessage, VERSION};
use domain::money::Currency;
use domain::payment::{Method, PaidWith};

use super::*;
use crate::snapshot::Entry;

const PRICE: i64 = 69_900;

fn order(name: &str, status: Status) -> Order {
    let buyer = Buyer::parse(name).unwrap();
    let paid = matches!(status, Status::Paid | Status::Refunding | Status::Refunded);
    let with = PaidWith::of(Method::Wechat, 0, &format!("t-{name}"), PRICE);
    let message = OrderMessage {
        version: VERSION,
        order_id: OrderId::new(Timestamp::UNIX_EPOCH, &BuyerKey::of(&buyer, ""), 1),
        buyer,
        sale_id: "s".parse().unwrap(),
        item_id: "phone".parse().unwrap(),
        quantity: 1,
        bucket: 0,
        shop_data: Default::default(),
        trace: None,
    };
    Order {
        amount: PRICE,
        currency: Currency::parse("CNY").unwrap(),
        status,
        paid: paid.then_some(with),
        ..Order::of(&message, Timestamp::UNIX_EPOCH)
    }
}

fn moved(order: &Order, is_refund: bool) -> Money {
    let transaction = format!("t-{}", order.buyer_name);
    Money { payment: format!("{}0", order.id), transaction, is_refund, amount: PRICE }
}

fn entry(order: &Order, name: &str) -> Entry {
    Entry { order: order.id.to_string(), name: name.to_owned(), is_open: false, is_done: name.starts_with("REFUND#") }
}

/// Three orders of one unit each: one is paid, one was closed, and one was refunded.
fn snapshot() -> Snapshot {
    let (paid, closed, refunded) =
        (order("ann", Status::Paid), order("bob", Status::Closed), order("cem", Status::Refunded));
    let bucket =
        Bucket { cap: 3, free: 2, sold: 1, holders: BTreeMap::new(), sold_to: BTreeMap::from([(paid.id.clone(), 1)]) };
    let ledger = vec![
        entry(&paid, "STOCK#DEDUCT#0#1"),
        entry(&paid, "STOCK#CONFIRM#0#2"),
        entry(&paid, "PAY#wechat#t-ann"),
        entry(&closed, "STOCK#DEDUCT#0#3"),
        entry(&closed, "STOCK#ROLLBACK#0#4"),
        entry(&refunded, "STOCK#DEDUCT#0#5"),
        entry(&refunded, "STOCK#CONFIRM#0#6"),
        entry(&refunded, "STOCK#REFUND#0#7"),
        entry(&refunded, "PAY#wechat#t-cem"),
        entry(&refunded, "REFUND#wechat#t-cem"),
    ];
    Snapshot {
        audit: json!({ "total": 3, "drift": 0, "findings": [] }),
        buckets: vec![(0, bucket)],
        pages: vec![(0, Page { open: BTreeSet::from([0]), version: 1 })],
        claimed: BTreeSet::from([paid.id.to_string()]),
        ledger,
        money: vec![moved(&paid, false), moved(&refunded, false), moved(&refunded, true)],
        waiting: BTreeMap::from([("OrdersQueue".to_owned(), 0)]),
        dead_letters: BTreeMap::from([("OrdersDeadLetters".to_owned(), 0)]),
        deadlines: Vec::new(),
        orders: vec![paid, closed, refunded],
    }
}

fn wrong(snapshot: &Snapshot, accepted: &[String]) -> Vec<(String, Vec<String>)> {
    let accepted: BTreeSet<String> = accepted.iter().cloned().collect();
    let failed = check(snapshot, &accepted, 3).into_iter().filter(|check| !check.wrong.is_empty());
    failed.map(|check| (check.says, check.wrong)).collect()
}

/// Puts a fault into a correct snapshot. Exactly the checks whose texts contain one of `says` must fail, and each of
/// them must mention `names`.
fn fails(spoil: impl FnOnce(&mut Snapshot), says: &[&str], names: &str) {
    let mut snapshot = snapshot();
    spoil(&mut snapshot);
    let failed = wrong(&snapshot, &[]);
    assert_eq!(failed.len(), says.len(), "{failed:?}");
    for says in says {
        let (_, wrong) =
            failed.iter().find(|(said, _)| said.contains(says)).unwrap_or_else(|| panic!("{says}: {failed:?}"));
        assert!(wrong.iter().any(|line| line.contains(names)), "{names}: {wrong:?}");
    }
}

#[test]
fn a_correct_snapshot_passes() {
    let snapshot = snapshot();
    let all: Vec<String> = snapshot.orders.iter().map(|order| order.id.to_string()).collect();
    assert_eq!(wrong(&snapshot, &all), []);
}

#[test]
fn stock_that_does_not_add_up_is_found() {
    fails(
        |snapshot| snapshot.audit = json!({ "total": 3, "drift": 1, "findings": [] }),
        &["operator's audit"],
        "drift is 1",
    );
    fails(|snapshot| snapshot.audit = json!({}), &["operator's audit"], "findings");
    fails(|snapshot| snapshot.buckets[0].1.cap = 4, &["free + held + sold"], "bucket 0");
    let another = order("dee", Status::Paid).id;
    let oversold = |snapshot: &mut Snapshot| {
        snapshot.buckets[0].1.sold_to.insert(another.clone(), 1);
        (snapshot.buckets[0].1.sold, snapshot.buckets[0].1.free) = (2, 1);
    };
    fails(oversold, &["nothing is oversold"], another.as_str());
    let nothing = |snapshot: &mut Snapshot| {
        snapshot.buckets[0].1.sold_to.clear();
        (snapshot.buckets[0].1.sold, snapshot.buckets[0].1.free) = (0, 3);
    };
    fails(nothing, &["nothing is oversold"], "is paid and has no units");
    fails(|snapshot| snapshot.orders[0].bucket = 7, &["nothing is oversold"], "ordered (7, 1)");
    let held = |snapshot: &mut Snapshot| {
        snapshot.buckets[0].1.holders.insert(another.clone(), 1);
        snapshot.buckets[0].1.free = 1;
    };
    fails(held, &["no unit is held"], another.as_str());
    fails(|snapshot| snapshot.pages.clear(), &["can be bought"], "not on its page");
    let behind = |snapshot: &mut Snapshot| {
        snapshot.pages[0].1.open.insert(1);
        snapshot.buckets.push((1, Bucket { cap: 0, free: 0, sold: 0, ..snapshot.buckets[0].1.clone() }));
        snapshot.buckets[1].1.sold_to.clear();
    };
    fails(behind, &["can be bought"], "bucket 1 has no free units");
}

#[test]
fn lost_unfinished_and_duplicate_orders_are_found() {
    let lost = order("eva", Status::Paid).id.to_string();
    let failed = wrong(&snapshot(), std::slice::from_ref(&lost));
    assert_eq!((failed.len(), failed[0].1.len()), (1, 1), "{failed:?}");
    assert!(failed[0].0.contains("accepted orders") && failed[0].1[0].contains(&lost), "{failed:?}");

    let pending = order("eva", Status::PendingPayment);
    let id = pending.id.to_string();
    fails(|snapshot| snapshot.orders.push(pending), &["have ended"], &format!("{id} is PENDING_PAYMENT"));
    let refunding = order("eva", Status::Refunding);
    fails(|snapshot| snapshot.orders.push(refunding), &["have ended"], "is REFUNDING");

    let doubled = |snapshot: &mut Snapshot| {
        let mut second = order("dee", Status::PendingPayment);
        second.buyer_name = snapshot.orders[0].buyer_name.clone();
        snapshot.orders.push(second);
    };
    fails(doubled, &["have ended", "two live orders"], order("dee", Status::Paid).id.as_str());
    fails(|snapshot| snapshot.deadlines.push("01X".into()), &["deadline"], "01X");
    fails(|snapshot| snapshot.claimed.clear(), &["cannot buy again"], "is paid and has no claim");
    fails(|snapshot| snapshot.claimed.extend(["01X".to_owned()]), &["cannot buy again"], "01X is not paid");
}

#[test]
fn an_accepted_order_that_failed_is_found() {
    let failed = order("eva", Status::Failed);
    let id = failed.id.to_string();
    let mut snapshot = snapshot();
    snapshot.orders.push(failed);
    assert_eq!(wrong(&snapshot, &[]), [], "it was never accepted");
    let found = wrong(&snapshot, std::slice::from_ref(&id));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0.contains("no accepted order failed") && found[0].1[0].contains(&id), "{found:?}");
}

#[test]
fn remaining_messages_and_dead_letters_are_found() {
    fails(|snapshot| *snapshot.waiting.get_mut("OrdersQueue").unwrap() = 2, &["no message waits"], "OrdersQueue: 2");
    fails(
        |snapshot| *snapshot.dead_letters.get_mut("OrdersDeadLetters").unwrap() = 1,
        &["no dead letters"],
        "OrdersDeadLetters: 1",
    );
}

#[test]
fn payments_without_an_order_and_double_payments_are_found() {
    let stray = moved(&order("bob", Status::Closed), false);
    let log = |snapshot: &mut Snapshot| snapshot.ledger.push(entry(&order("bob", Status::Closed), "PAY#wechat#t-bob"));
    let kept = |snapshot: &mut Snapshot| {
        snapshot.money.push(stray.clone());
        log(snapshot);
    };
    fails(kept, &["payments at the providers"], "paid for nothing");
    fails(|snapshot| snapshot.money.push(snapshot.money[2].clone()), &["once and in full"], "t-cem");
    fails(
        |snapshot| snapshot.money.push(snapshot.money[0].clone()),
        &["payments at the providers", "once and in full"],
        "",
    );
    fails(|snapshot| snapshot.money[2].amount = 1, &["once and in full"], "t-cem");
    let both = |snapshot: &mut Snapshot| {
        snapshot.money.push(Money { is_refund: true, ..snapshot.money[0].clone() });
        snapshot.ledger.push(entry(&snapshot.orders[0], "REFUND#wechat#t-ann"));
    };
    fails(both, &["payments at the providers"], "paid for it and was refunded");
    let unpaid = |snapshot: &mut Snapshot| {
        snapshot.money.remove(0);
        snapshot.ledger.retain(|entry| entry.name != "PAY#wechat#t-ann");
    };
    fails(unpaid, &["payments at the providers"], "no provider has a payment for it");
    fails(|snapshot| snapshot.orders[0].amount = 5, &["payments at the providers"], "costs 5");
}

#[test]
fn an_incomplete_ledger_is_found() {
    fails(|snapshot| snapshot.ledger[9].is_done = false, &["payment and refund log"], "refund of transaction t-cem");
    fails(
        |snapshot| snapshot.ledger.push(entry(&snapshot.orders[0], "PAY#wechat#t-x")),
        &["payment and refund log"],
        "in the log only",
    );
    fails(|snapshot| snapshot.ledger[2].is_open = true, &["is open"], "PAY#wechat#t-ann");
    for (row, names) in [(1, "is PAID"), (4, "is CLOSED"), (7, "is REFUNDED")] {
        fails(|snapshot| drop(snapshot.ledger.remove(row)), &["stock ledger"], names);
    }
}

#[test]
fn a_failed_check_lists_some_findings_and_counts_the_rest() {
    let check = Check::never("all is well", (0..12).map(|number| format!("order {number}")).collect());
    let line = check.line();
    assert!(line.starts_with("  WRONG all is well\n          order 0\n") && line.ends_with("and 2 more"), "{line}");
    assert_eq!(Check::never("all is well", Vec::new()).line(), "  ok    all is well");
}
