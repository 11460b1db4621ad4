//! The waiting line of a sale: who may press now.
//!
//! Every buyer has a [`Place`] on an axis of 64-bit numbers, and one public number, `through`, says how far the line
//! has come. It only grows. A buyer whose place it has passed is *in turn*, for as long as a turn lasts:
//!
//! ```text
//! through(now - turn) < place <= through(now)
//! ```
//!
//! Nothing is issued to a buyer when the turn comes, and nothing has to be cleaned up when somebody leaves: each
//! function and each page computes the answer from the [`Receipt`] and the [`Line`].
//!
//! | module | what it decides |
//! |---|---|
//! | `place` | where a buyer stands: in random order for those who join before the opening, by arrival for the others |
//! | `receipt` | what proves a buyer's place to every function, and is worthless to anybody else |
//! | `state` | whose turn it is, positions and estimated waits |
//! | `pace` | how far the line moves: as far as the free units allow |

mod pace;
mod place;
mod receipt;
mod state;

pub use pace::{Demand, Stock, demand, next_step};
pub use place::{Cohort, Commitment, Place, Seed};
pub use receipt::{BadReceipt, Receipt, ReceiptKey};
pub use state::{Joined, Line, LinePhase, MAX_STEPS, Step, Turn};
