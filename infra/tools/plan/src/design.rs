//! Three designs for selling from stock, and what each of them writes for a purchase.

use bench::costs::Costs;

use crate::facts::TRANSACTION_FACTOR;

/// A design for selling from stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Design {
    /// One row with the number of units left, and a conditional decrement.
    Counter,
    /// One transaction over that row, the buyer's claim and the order.
    Transaction,
    /// Units in many rows, each with its holders: this system.
    Buckets,
}

/// The write units of a purchase in a design.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Writes {
    /// For the buyer's claim, whose key is the buyer and never hot.
    pub claim: f64,
    /// For the stock.
    pub hold: f64,
    /// From the accepted request to the order.
    pub order: f64,
    /// Whether a purchase is refused as sold out without a write.
    pub refuses_from_memory: bool,
}

impl Design {
    /// The write units. Those of buckets are counted in this code. The figures of the other two designs are lower
    /// bounds: neither can be retried safely, and neither writes a ledger or gives units back.
    pub fn writes(self, costs: &Costs) -> Writes {
        match self {
            Self::Counter => Writes { claim: 0.0, hold: 1.0, order: 1.0, refuses_from_memory: false },
            Self::Transaction => {
                Writes { claim: 0.0, hold: 3.0 * TRANSACTION_FACTOR, order: 0.0, refuses_from_memory: false }
            }
            Self::Buckets => {
                let writes = f64::from(costs.press.of("UpdateItem").max(1));
                let each = costs.press.write_units / writes;
                let order = costs.order.write_units + costs.movement.write_units;
                let refuses_from_memory = costs.refusal.write_units == 0.0;
                Writes { claim: costs.press.write_units - each, hold: each, order, refuses_from_memory }
            }
        }
    }
}
