//! What happened: answers by code, latency by route, and both for each second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use figures::Latency;

/// How many unexpected answers are described. The rest are only counted.
const MAX_UNEXPECTED: usize = 20;

/// A kind of request whose latency is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Route {
    /// `GET /sales/{saleId}`.
    Sale,
    /// `POST /seckill`, accepted.
    Accepted,
    /// `POST /seckill`, refused with SOLD_OUT.
    SoldOut,
    /// `POST /seckill`, any other answer.
    OtherAnswer,
    /// `GET /orders/{orderId}`.
    Order,
    /// `POST /orders/{orderId}/payments`.
    Payment,
}

impl Route {
    pub(crate) const ALL: [Self; 6] =
        [Self::Sale, Self::Accepted, Self::SoldOut, Self::OtherAnswer, Self::Order, Self::Payment];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sale => "GET /sales/{saleId}",
            Self::Accepted => "POST /seckill → 202",
            Self::SoldOut => "POST /seckill → SOLD_OUT",
            Self::OtherAnswer => "POST /seckill → other",
            Self::Order => "GET /orders/{orderId}",
            Self::Payment => "POST /orders/{orderId}/payments",
        }
    }
}

/// The answers within one second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Second {
    pub(crate) accepted: u32,
    pub(crate) sold_out: u32,
    pub(crate) other: u32,
    pub(crate) latency: Latency,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Buyers who have arrived.
    pub(crate) arrived: u32,
    /// Answers to purchase requests, by code.
    pub(crate) answers: BTreeMap<String, u64>,
    /// Latency by route.
    pub(crate) times: BTreeMap<Route, Latency>,
    pub(crate) seconds: Vec<Second>,
    /// Accepted orders with the number of their buyer.
    pub(crate) orders: BTreeMap<String, u32>,
    /// Orders that were answered to more than one buyer.
    pub(crate) doubles: Vec<String>,
    /// Second purchases of buyers with an order, and those of them that were not refused.
    pub(crate) second_purchases: u64,
    pub(crate) wrong_second_purchases: Vec<String>,
    /// Orders that their buyer has seen with `GET /orders/{orderId}`.
    pub(crate) made: BTreeSet<String>,
    /// The time from the purchase request to the order, by the server's clock.
    pub(crate) lag: Latency,
    pub(crate) paid: BTreeSet<String>,
    /// Payments that the provider did not answer. Their orders may be paid.
    pub(crate) unclear_payments: u64,
    /// Buyers without a definite answer. They may have an order.
    pub(crate) unclear: u64,
    /// Buyers who started late because too many others were active.
    pub(crate) late: u64,
    /// Answers that no client would expect: how many, and descriptions of the first ones.
    pub(crate) unexpected: (u64, Vec<String>),
    /// When the last purchase was accepted, and when the first was refused with SOLD_OUT.
    pub(crate) last_accepted: Option<Duration>,
    pub(crate) first_sold_out: Option<Duration>,
}

/// The counts, shared by the tasks of all buyers.
#[derive(Debug)]
pub(crate) struct SharedCounts {
    pub(crate) began: Instant,
    counts: Mutex<Counts>,
}

impl SharedCounts {
    pub(crate) fn new(began: Instant) -> Self {
        Self { began, counts: Mutex::default() }
    }

    /// A task that panics while it holds the lock leaves the counts intact.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an answer to a purchase request.
    pub(crate) fn purchase(&self, route: Route, answer: &str, took: Duration) {
        let after = self.began.elapsed();
        let mut counts = self.lock();
        *counts.answers.entry(answer.to_owned()).or_default() += 1;
        counts.times.entry(route).or_default().record(took);
        let second = usize::try_from(after.as_secs()).unwrap_or(usize::MAX);
        // The length is bounded, because the run ends after --give-up-minutes.
        if counts.seconds.len() <= second {
            counts.seconds.resize_with(second + 1, Second::default);
        }
        if let Some(second) = counts.seconds.get_mut(second) {
            second.latency.record(took);
            match route {
                Route::Accepted => second.accepted += 1,
                Route::SoldOut => second.sold_out += 1,
                _ => second.other += 1,
            }
        }
        match route {
            Route::Accepted => counts.last_accepted = Some(after),
            Route::SoldOut => {
                counts.first_sold_out.get_or_insert(after);
            }
            _ => {}
        }
    }

    /// Records the latency of any other request.
    pub(crate) fn time(&self, route: Route, took: Duration) {
        self.lock().times.entry(route).or_default().record(took);
    }

    /// Records that a buyer has this order. The same buyer may receive it in several answers.
    pub(crate) fn has_order(&self, order: &str, buyer: u32) {
        let mut counts = self.lock();
        match counts.orders.insert(order.to_owned(), buyer) {
            Some(other) if other != buyer => {
                counts.doubles.push(format!("order {order} was given to buyers {other} and {buyer}"));
            }
            _ => {}
        }
    }

    pub(crate) fn unexpected(&self, what: String) {
        let mut counts = self.lock();
        counts.unexpected.0 += 1;
        if counts.unexpected.1.len() < MAX_UNEXPECTED {
            counts.unexpected.1.push(what);
        }
    }
}

impl Counts {
    pub(crate) fn answered(&self, answer: &str) -> u64 {
        self.answers.get(answer).copied().unwrap_or(0)
    }

    pub(crate) fn purchase_requests(&self) -> u64 {
        self.answers.values().sum()
    }
}
