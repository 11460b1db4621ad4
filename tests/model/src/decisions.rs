//! Calls the deployed code's decisions with the values of the model.

use std::sync::LazyLock;

use domain::Timestamp;
use domain::claim::{Answered, BuyerClaims, Claim as RealClaim, ClaimStanding, ClaimState, Press};
use domain::ids::{Buyer, BuyerKey, IdempotencyKey, ItemId, OrderId};
use domain::message::{OrderMessage, VERSION};
use domain::order::{Order as RealOrder, Status};
use domain::repair::{self, HolderVerdict};

use super::tables::{BUCKETS, BucketNo, Claim, Order, OrderNo, Tables, buyer};

/// Long after every press, and long before every payment deadline.
const NOW_S: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn real_id(order: OrderNo) -> OrderId {
    let buyer = Buyer::parse(format!("buyer-{}", buyer(order))).unwrap();
    OrderId::new(at(1_000), &BuyerKey::of(&buyer, ""), u32::from(order))
}

fn real_claim(claim: Claim) -> RealClaim {
    RealClaim {
        order: real_id(claim.order),
        quantity: 1,
        bucket: u32::from(claim.bucket),
        state: claim.state,
        previous_buckets: (0..u32::from(BUCKETS as BucketNo))
            .filter(|bucket| claim.previous & 1 << bucket != 0)
            .collect(),
        shop_data: Default::default(),
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
        shop_data: Default::default(),
        trace: None,
    };
    RealOrder { status: order.status(), pay_by: at(2 * NOW_S), ..RealOrder::of(&message, at(1_000)) }
}

/// What reconcile does about a holder whose order exists.
pub fn by_order(bucket: BucketNo, order: Order) -> HolderVerdict {
    static VERDICTS: LazyLock<Vec<((u8, bool), HolderVerdict)>> = LazyLock::new(|| {
        let each = Status::ALL.into_iter().flat_map(|status| [true, false].map(|here| (status, here)));
        each.map(|(status, here)| {
            let order = real_order(Order::new(status, if here { 0 } else { 1 }));
            ((status as u8, here), repair::holder_verdict(&order.id, 0, Some(&order), None, at(NOW_S)))
        })
        .collect()
    });
    let asked = (order.status, order.bucket == bucket);
    VERDICTS.iter().find(|(known, _)| *known == asked).unwrap().1
}

/// What reconcile does about a holder without an order, by the buyer's claim.
pub fn by_claim(id: OrderNo, bucket: BucketNo, claim: Option<Claim>) -> HolderVerdict {
    let claim = claim.map(real_claim);
    repair::holder_verdict(&real_id(id), u32::from(bucket), None, claim.as_ref(), at(NOW_S))
}

/// What a press finds in its buyer's claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Free,
    Same(OrderNo),
    Resume(Claim),
    Duplicate,
}

/// The two possible answers: to a press at once, and to one that is late enough to take an attempt for abandoned.
pub fn standing(tables: &Tables, row: usize, keyed: bool) -> [Standing; 2] {
    let item = ItemId::parse("i").unwrap();
    let key = IdempotencyKey::parse("k").unwrap();
    let claim = tables.claims[row];
    let answered =
        |order| Answered { order: real_id(order), item: item.clone(), quantity: 1, shop_data: None, got: None };
    let claims = BuyerClaims {
        claims: claim.map(|claim| (item.clone(), real_claim(claim))).into_iter().collect(),
        keys: tables.keys[row].map(|order| (key.clone(), answered(order))).into_iter().collect(),
        ..BuyerClaims::default()
    };
    [1_001, NOW_S].map(|now| {
        let press = Press {
            item: &item,
            quantity: 1,
            shop_data: &Default::default(),
            key: keyed.then_some(&key),
            now: at(now),
        };
        match claims.standing(&press) {
            ClaimStanding::Free => Standing::Free,
            ClaimStanding::Same(_) => Standing::Same(tables.keys[row].unwrap()),
            ClaimStanding::Resume(_) => Standing::Resume(claim.unwrap()),
            ClaimStanding::Duplicate(_) => Standing::Duplicate,
            ClaimStanding::Mismatch => panic!("all presses of the model ask for the same quantity"),
        }
    })
}

/// Whether a claim is no longer HELD, so that its order cannot be withdrawn.
pub fn is_taken(claim: Claim) -> bool {
    claim.state != ClaimState::Held
}
