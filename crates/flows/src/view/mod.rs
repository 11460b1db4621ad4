//! What buyers and operators see.
//!
//! | file | what it shows |
//! |---|---|
//! | `availability` | an item to buyers: in stock, low, or sold out |
//! | `orders` | a buyer's own orders |
//! | `live` | a sale's figures to an operator who watches it |
//! | `audit` | the proof that free + held + sold = total |

pub mod audit;
pub mod availability;
pub mod live;
pub mod orders;
