//! What an operator sets up: sales, their items and their stock.
//!
//! | file | what it does |
//! |---|---|
//! | `set_up` | creates, edits, pauses and closes a sale |
//! | `stock` | lays out an item's units in buckets, and adds to them |
//! | `stock_moved` | the stream of stock changes: pages of open buckets, ledger |
//! | `sales` | a short-lived cache of sales for buyers' requests |

pub mod sales;
pub mod set_up;
pub mod stock;
pub mod stock_moved;
