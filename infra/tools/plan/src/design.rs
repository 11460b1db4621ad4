//! Three ways to sell from stock, and what each writes for a press.

use bench::costs::Costs;

use crate::facts::TRANSACTION_FACTOR;

/// A way to sell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// One item with the number of units left, and a conditional decrement.
    Counter,
    /// One transaction of that item, the buyer's claim and the order.
    Transaction,
    /// Units in many items, each with its holders: this system.
    Buckets,
}

/// What a design writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Writes {
    /// Units for the buyer's claim, which lies by buyer and is never hot.
    pub claim: f64,
    /// Units for the stock.
    pub hold: f64,
    /// Units from the accepted press to the order.
    pub order: f64,
    /// Whether "sold out" is known without a write.
    pub has_gate: bool,
}

impl Design {
    /// What it writes; of buckets, as counted in this very code. The other two are the least that such a design can do: neither can be
    /// repeated safely, and nothing is written for a ledger or for giving units back.
    pub fn writes(self, costs: &Costs) -> Writes {
        match self {
            Self::Counter => Writes { claim: 0.0, hold: 1.0, order: 1.0, has_gate: false },
            Self::Transaction => Writes { claim: 0.0, hold: 3.0 * TRANSACTION_FACTOR, order: 0.0, has_gate: false },
            Self::Buckets => {
                let writes = f64::from(costs.press.of("UpdateItem").max(1));
                let each = costs.press.write_units / writes;
                let order = costs.order.write_units + costs.movement.write_units;
                // The gate is there if a refusal writes nothing.
                let has_gate = costs.refusal.write_units == 0.0;
                Writes { claim: costs.press.write_units - each, hold: each, order, has_gate }
            }
        }
    }
}
