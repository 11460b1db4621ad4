//! What running functions read again and again: pages of open buckets, and the sale.
//!
//! Every running function reads the same few keys, so the number of functions decides whether a key becomes hot. How
//! often a function reads comes from the code; what one read costs is counted there ([`bench::costs`]).

use bench::costs::Costs;
use flows::buy::bucket_picker::{CHANGING_FRESH_FOR_MS, FRESH_FOR_MS, SHORTENED_BY};
use flows::sale::sales;

use crate::facts::PARTITION_READS;

/// A key should not use more than half of what its partition allows: other keys may be on it.
pub const KEY_READS: f64 = PARTITION_READS / 2.0;
/// Functions choose a copy at random, so one copy has a few more readers than another.
const UNEVEN: f64 = 1.15;
/// The most copies that the template allows.
pub(crate) const MOST_COPIES: u32 = 64;
/// Read units of one read of a sale with up to a dozen items.
const SALE_UNITS: f64 = 0.5;

/// The copies of pages to deploy with, and what is read then, in read units per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reads {
    pub copies: u32,
    /// On the busiest key of a page, while there are open buckets. Functions are spread over the pages.
    pub page_while_selling: f64,
    /// On the busiest key of a page when everything is sold: every function then reads all pages.
    pub page_when_sold_out: f64,
    /// On the busiest key of the sale, which has as many copies.
    pub sale: f64,
    /// From the table of pages and copies in total, in the busier of the two phases.
    pub table: f64,
}

impl Reads {
    /// The fewest copies that keep every key below [`KEY_READS`], if so many functions run.
    pub(crate) fn of(functions: f64, pages: u32, costs: &Costs) -> Self {
        let with = |copies| Self::with(functions, pages, copies, costs);
        let is_enough = |reads: &Self| reads.busiest_key() <= KEY_READS;
        (0..=MOST_COPIES).map(with).find(is_enough).unwrap_or_else(|| with(MOST_COPIES))
    }

    fn with(functions: f64, pages: u32, copies: u32, costs: &Costs) -> Self {
        let each = costs.refresh.read_units;
        // Without copies all functions read the page itself.
        let rows = f64::from(copies.max(1)) / if copies > 1 { UNEVEN } else { 1.0 };
        let selling = functions * reads_per_second(CHANGING_FRESH_FOR_MS) * each;
        let sold_out = functions * reads_per_second(FRESH_FOR_MS) * each;
        let of_sale = functions * reads_per_second(sales::FRESH_FOR_MS) * SALE_UNITS;
        Self {
            copies,
            page_while_selling: selling / f64::from(pages) / rows,
            page_when_sold_out: sold_out / rows,
            sale: of_sale / rows,
            table: selling.max(sold_out * f64::from(pages)) + if copies > 0 { of_sale } else { 0.0 },
        }
    }

    pub(crate) fn busiest_key(&self) -> f64 {
        self.page_while_selling.max(self.page_when_sold_out).max(self.sale)
    }
}

/// Read units per second of one running function, for pages and the sale.
pub(crate) fn of_one_function(is_sold_out: bool, pages: u32, costs: &Costs) -> f64 {
    let of_pages = match is_sold_out {
        true => reads_per_second(FRESH_FOR_MS) * f64::from(pages),
        false => reads_per_second(CHANGING_FRESH_FOR_MS),
    };
    of_pages * costs.refresh.read_units + reads_per_second(sales::FRESH_FOR_MS) * SALE_UNITS
}

/// How often something is read that is used for this long, shortened at random.
fn reads_per_second(fresh_for_ms: i64) -> f64 {
    let float = |value: i64| figures::float(u64::try_from(value).unwrap_or(1));
    let mean_ms = float(fresh_for_ms) * (1.0 - 0.5 / float(SHORTENED_BY));
    1_000.0 / mean_ms
}
