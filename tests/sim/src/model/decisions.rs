//! What the deployed code decides, asked with the model's few values.

use std::sync::LazyLock;

use domain::Timestamp;
use domain::claim::{Answered, BuyerClaims, Claim as RealClaim, ClaimState, Press, ClaimStanding};
use domain::ids::{Buyer, BuyerKey, IdempotencyKey, ItemId, OrderId};
use domain::message::{OrderMessage, VERSION};
use domain::order::{Order as RealOrder, Status};
use domain::repair::{self, HolderVerdict};

use super::tables::{BUCKETS, Claim, Id, No, Order, Tables, buyer};

/// Long after anything was pressed, and long before anything must be paid.
const NOW_S: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn real_id(order: Id) -> OrderId {
    let buyer = Buyer::parse(format!("buyer-{}", buyer(order))).unwrap();
    OrderId::new(at(1_000), &BuyerKey::of(&buyer, ""), u32::from(order))
}

fn real_claim(claim: Claim) -> RealClaim {
    RealClaim {
        order: real_id(claim.order),
        quantity: 1,
        bucket: u32::from(claim.bucket),
        state: claim.state,
        previous_buckets: (0..u32::from(BUCKETS as No)).filter(|bucket| claim.left & 1 << bucket != 0).collect(),
    }
}

fn real_order(order: Order) -> RealOrder {
    let message = OrderMessage {
        version: VERSION,
        order_id: real_id(0),
        buyer: Buyer::parse("a").unwrap(),
        sale_id: "s".parse().unwrap(),
        item_id: "i".parse().unwrap(),
        quantity: 1,
        bucket: u32::from(order.bucket),
        trace: None,
    };
    RealOrder { status: order.status(), pay_by: at(2 * NOW_S), ..RealOrder::of(&message, at(1_000)) }
}

/// What reconcile does about a holder, by its order.
pub fn by_order(bucket: No, order: Order) -> HolderVerdict {
    static VERDICTS: LazyLock<Vec<((u8, bool), HolderVerdict)>> = LazyLock::new(|| {
        let each = Status::ALL.into_iter().flat_map(|status| [true, false].map(|here| (status, here)));
        each.map(|(status, here)| {
            let order = real_order(Order::new(status, if here { 0 } else { 1 }));
            ((status as u8, here), repair::verdict(&order.id, 0, Some(&order), None, at(NOW_S)))
        })
        .collect()
    });
    let asked = (order.status, order.bucket == bucket);
    VERDICTS.iter().find(|(known, _)| *known == asked).unwrap().1
}

/// What reconcile does about a holder that has no order, by its buyer's claim.
pub fn by_claim(id: Id, bucket: No, claim: Option<Claim>) -> HolderVerdict {
    let claim = claim.map(real_claim);
    repair::verdict(&real_id(id), u32::from(bucket), None, claim.as_ref(), at(NOW_S))
}

/// What a buyer's claims say to a press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    Free,
    Same(Id),
    GoOn(Claim),
    Duplicate,
}

/// Both answers there are: to a press at once, and to one that takes a try for abandoned.
pub fn standing(tables: &Tables, row: usize, keyed: bool) -> [Stand; 2] {
    let item = ItemId::parse("i").unwrap();
    let key = IdempotencyKey::parse("k").unwrap();
    let claim = tables.claims[row];
    let answered = |order| Answered { order: real_id(order), item: item.clone(), quantity: 1 };
    let claims = BuyerClaims {
        claims: claim.map(|claim| (item.clone(), real_claim(claim))).into_iter().collect(),
        keys: tables.keys[row].map(|order| (key.clone(), answered(order))).into_iter().collect(),
    };
    [1_001, NOW_S].map(|now| {
        let press = Press { item: &item, quantity: 1, key: keyed.then_some(&key), now: at(now) };
        match claims.standing(&press) {
            ClaimStanding::Free => Stand::Free,
            ClaimStanding::Same(_) => Stand::Same(tables.keys[row].unwrap()),
            ClaimStanding::GoOn(_) => Stand::GoOn(claim.unwrap()),
            ClaimStanding::Duplicate(_) => Stand::Duplicate,
            ClaimStanding::Mismatch => panic!("everybody asks for the same"),
        }
    })
}

/// Whether a claim's order has been taken by order-consumer.
pub fn is_taken(claim: Claim) -> bool {
    claim.state != ClaimState::Held
}
