//! DynamoDB, SQS and EventBridge Scheduler behind plain functions: table and key layout, every expression, and
//! classified errors.
//!
//! There is no trait over the database: tests run this same code, through the same SDK, on a real engine. Every
//! write has a condition that makes it idempotent, and a failed condition returns the row that it met. Two kinds of
//! rows are written without one: stock movements in the ledger, whose key names all that is in them, and tickets and
//! connections of WebSockets, of which a lost one costs a reconnect.

mod accounts;
mod availability;
mod claims;
mod config;
mod connections;
pub mod dead_letters;
mod error;
mod ledger;
mod matters;
mod messages;
mod money_log;
mod orders;
mod payments;
mod retention;
mod rows;
mod sale_copies;
mod sales;
mod schedules;
mod stock;
mod walks;

pub use accounts::{Account, Credited};
pub use availability::{Closed, PageRow};
pub use claims::{ClaimWrite, NewClaim};
pub use config::{Deadlines, MissingSetting, Names, sdk_config, timeouts};
pub use error::StoreError;
pub use ledger::StockEntry;
pub use money_log::OpenEntries;
pub use orders::{OrderChange, OrderSummary, Placed, PointsPaid, Revival};
pub use payments::Opened;
pub use retention::LedgerRows;
pub use rows::{Rows, UnreadableRow};
pub use sales::{SaleRows, SaleWrite};
pub use stock::{Hold, Moved};
pub use walks::{Cursor, Lease, Walk};

/// The clients and the names of what they talk to. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    dynamodb: aws_sdk_dynamodb::Client,
    sqs: aws_sdk_sqs::Client,
    scheduler: aws_sdk_scheduler::Client,
    names: std::sync::Arc<Names>,
}

impl Store {
    pub fn new(config: &aws_config::SdkConfig, names: Names) -> Self {
        Self {
            dynamodb: aws_sdk_dynamodb::Client::new(config),
            sqs: aws_sdk_sqs::Client::new(config),
            scheduler: aws_sdk_scheduler::Client::new(config),
            names: std::sync::Arc::new(names),
        }
    }

    /// How many copies each page of open buckets has.
    pub fn page_copies(&self) -> u32 {
        self.names.page_copies
    }
}
