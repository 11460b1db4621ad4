//! From the press of the button to the order.
//!
//! | file | what it does |
//! |---|---|
//! | `purchase` | the press: checks, claim, hold, message |
//! | `hold` | the purchase's second step: finds a bucket and holds the units in it |
//! | `bucket_picker` | which bucket to try, and whether any is open, from memory |
//! | `limits` | the sale's rate limits |
//! | `place_order` | the message becomes an order |

pub mod bucket_picker;
mod hold;
pub mod limits;
pub mod place_order;
pub mod purchase;
