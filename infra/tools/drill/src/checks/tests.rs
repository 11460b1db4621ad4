//! Books that are in order pass; each thing that can be wrong with them is found, and only that.

use domain::Timestamp;
use domain::availability::Page;
use domain::bucket::Bucket;
use domain::ids::{Buyer, BuyerKey, OrderId};
use domain::message::{OrderMessage, VERSION};
use domain::money::Currency;
use domain::payment::{Method, PaidWith};

use super::*;
use crate::books::Entry;

const PRICE: i64 = 69_900;

fn order(name: &str, status: Status) -> Order {
    let buyer = Buyer::parse(name).unwrap();
    let paid = matches!(status, Status::Paid | Status::Refunding | Status::Refunded);
    let with =
        PaidWith { method: Method::Wechat, attempt: 0, transaction: format!("t-{name}"), amount: PRICE, points: 0 };
    let message = OrderMessage {
        version: VERSION,
        order_id: OrderId::new(Timestamp::UNIX_EPOCH, &BuyerKey::of(&buyer, ""), 1),
        buyer,
        sale_id: "s".parse().unwrap(),
        item_id: "phone".parse().unwrap(),
        quantity: 1,
        bucket: 0,
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

/// Of three units one is paid for, one was refunded, and one was not paid; one of each three is free again.
fn books() -> Books {
    let (paid, closed, refunded) =
        (order("ann", Status::Paid), order("bob", Status::Closed), order("cem", Status::Refunded));
    let bucket =
        Bucket { cap: 3, free: 2, sold: 1, holders: BTreeMap::new(), sold_to: BTreeMap::from([(paid.id.clone(), 1)]) };
    let ledger = vec![
        entry(&paid, "STOCK#DEDUCT"),
        entry(&paid, "STOCK#CONFIRM"),
        entry(&paid, "PAY#wechat#t-ann"),
        entry(&closed, "STOCK#DEDUCT"),
        entry(&closed, "STOCK#ROLLBACK"),
        entry(&refunded, "STOCK#DEDUCT"),
        entry(&refunded, "STOCK#CONFIRM"),
        entry(&refunded, "STOCK#REFUND"),
        entry(&refunded, "PAY#wechat#t-cem"),
        entry(&refunded, "REFUND#wechat#t-cem"),
    ];
    Books {
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

fn wrong(books: &Books, accepted: &[String]) -> Vec<(String, Vec<String>)> {
    let accepted: BTreeSet<String> = accepted.iter().cloned().collect();
    let failed = check(books, &accepted, 3).into_iter().filter(|check| !check.wrong.is_empty());
    failed.map(|check| (check.says, check.wrong)).collect()
}

/// Spoils books that are in order. The checks that then fail are exactly those that say one of `says`, and each names `names`.
fn fails(spoil: impl FnOnce(&mut Books), says: &[&str], names: &str) {
    let mut books = books();
    spoil(&mut books);
    let failed = wrong(&books, &[]);
    assert_eq!(failed.len(), says.len(), "{failed:?}");
    for says in says {
        let (_, wrong) =
            failed.iter().find(|(said, _)| said.contains(says)).unwrap_or_else(|| panic!("{says}: {failed:?}"));
        assert!(wrong.iter().any(|line| line.contains(names)), "{names}: {wrong:?}");
    }
}

#[test]
fn books_in_order_pass() {
    let books = books();
    let all: Vec<String> = books.orders.iter().map(|order| order.id.to_string()).collect();
    assert_eq!(wrong(&books, &all), []);
}

#[test]
fn stock_that_does_not_add_up_is_found() {
    fails(|books| books.audit = json!({ "total": 3, "drift": 1, "findings": [] }), &["operator's audit"], "drift is 1");
    fails(|books| books.audit = json!({}), &["operator's audit"], "findings");
    fails(|books| books.buckets[0].1.cap = 4, &["free + held + sold"], "bucket 0");
    let another = order("dee", Status::Paid).id;
    let oversold = |books: &mut Books| {
        books.buckets[0].1.sold_to.insert(another.clone(), 1);
        (books.buckets[0].1.sold, books.buckets[0].1.free) = (2, 1);
    };
    fails(oversold, &["nothing is oversold"], another.as_str());
    let nothing = |books: &mut Books| {
        books.buckets[0].1.sold_to.clear();
        (books.buckets[0].1.sold, books.buckets[0].1.free) = (0, 3);
    };
    fails(nothing, &["nothing is oversold"], "is paid, and has no units");
    fails(|books| books.orders[0].bucket = 7, &["nothing is oversold"], "ordered (7, 1)");
    let held = |books: &mut Books| {
        books.buckets[0].1.holders.insert(another.clone(), 1);
        books.buckets[0].1.free = 1;
    };
    fails(held, &["no unit is held"], another.as_str());
    fails(|books| books.pages.clear(), &["can be bought"], "not on its page");
    let behind = |books: &mut Books| {
        books.pages[0].1.open.insert(1);
        books.buckets.push((1, Bucket { cap: 0, free: 0, sold: 0, ..books.buckets[0].1.clone() }));
        books.buckets[1].1.sold_to.clear();
    };
    fails(behind, &["can be bought"], "bucket 1 has nothing");
}

#[test]
fn orders_that_are_lost_stuck_or_doubled_are_found() {
    let lost = order("eva", Status::Paid).id.to_string();
    let failed = wrong(&books(), std::slice::from_ref(&lost));
    assert_eq!((failed.len(), failed[0].1.len()), (1, 1), "{failed:?}");
    assert!(failed[0].0.contains("accepted orders") && failed[0].1[0].contains(&lost), "{failed:?}");

    let pending = order("eva", Status::PendingPayment);
    let id = pending.id.to_string();
    fails(|books| books.orders.push(pending), &["have ended"], &format!("{id} is PENDING_PAYMENT"));
    let refunding = order("eva", Status::Refunding);
    fails(|books| books.orders.push(refunding), &["have ended"], "is REFUNDING");

    let doubled = |books: &mut Books| {
        let mut second = order("dee", Status::PendingPayment);
        second.buyer_name = books.orders[0].buyer_name.clone();
        books.orders.push(second);
    };
    fails(doubled, &["have ended", "two live orders"], order("dee", Status::Paid).id.as_str());
    fails(|books| books.deadlines.push("01X".into()), &["deadline"], "01X");
    fails(|books| books.claimed.clear(), &["cannot buy again"], "is paid, and has no claim");
    fails(|books| books.claimed.extend(["01X".to_owned()]), &["cannot buy again"], "01X is not paid");
}

#[test]
fn an_accepted_order_that_failed_is_found() {
    let failed = order("eva", Status::Failed);
    let id = failed.id.to_string();
    let mut books = books();
    books.orders.push(failed);
    assert_eq!(wrong(&books, &[]), [], "nobody was told that it is accepted");
    let found = wrong(&books, std::slice::from_ref(&id));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].0.contains("no accepted order failed") && found[0].1[0].contains(&id), "{found:?}");
}

#[test]
fn messages_that_are_left_are_found() {
    fails(|books| *books.waiting.get_mut("OrdersQueue").unwrap() = 2, &["no message waits"], "OrdersQueue: 2");
    fails(|books| *books.dead_letters.get_mut("OrdersDeadLetters").unwrap() = 1, &["given up"], "OrdersDeadLetters: 1");
}

#[test]
fn money_that_is_nobodys_or_moved_twice_is_found() {
    let stray = moved(&order("bob", Status::Closed), false);
    let log = |books: &mut Books| books.ledger.push(entry(&order("bob", Status::Closed), "PAY#wechat#t-bob"));
    let kept = |books: &mut Books| {
        books.money.push(stray.clone());
        log(books);
    };
    fails(kept, &["payments at the providers"], "is for nothing");
    fails(|books| books.money.push(books.money[2].clone()), &["once and in full"], "t-cem");
    fails(|books| books.money.push(books.money[0].clone()), &["payments at the providers", "once and in full"], "");
    fails(|books| books.money[2].amount = 1, &["once and in full"], "t-cem");
    let both = |books: &mut Books| {
        books.money.push(Money { is_refund: true, ..books.money[0].clone() });
        books.ledger.push(entry(&books.orders[0], "REFUND#wechat#t-ann"));
    };
    fails(both, &["payments at the providers"], "paid for it, and went back");
    let unpaid = |books: &mut Books| {
        books.money.remove(0);
        books.ledger.retain(|entry| entry.name != "PAY#wechat#t-ann");
    };
    fails(unpaid, &["payments at the providers"], "no provider has its money");
    fails(|books| books.orders[0].amount = 5, &["payments at the providers"], "costs 5");
}

#[test]
fn a_ledger_that_is_not_complete_is_found() {
    fails(|books| books.ledger[9].is_done = false, &["pay and refund log"], "refund of transaction t-cem");
    fails(
        |books| books.ledger.push(entry(&books.orders[0], "PAY#wechat#t-x")),
        &["pay and refund log"],
        "in the log only",
    );
    fails(|books| books.ledger[2].is_open = true, &["is open"], "PAY#wechat#t-ann");
    for (row, names) in [(1, "is PAID"), (4, "is CLOSED"), (7, "is REFUNDED")] {
        fails(|books| drop(books.ledger.remove(row)), &["stock ledger"], names);
    }
}

#[test]
fn a_failed_check_names_some_and_counts_the_rest() {
    let check = Check::never("all is well", (0..12).map(|number| format!("order {number}")).collect());
    let line = check.line();
    assert!(line.starts_with("  WRONG all is well\n          order 0\n") && line.ends_with("and 2 more"), "{line}");
    assert_eq!(Check::never("all is well", Vec::new()).line(), "  ok    all is well");
}
