//! What happened: counted by answer, timed by route, second by second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use figures::Latency;

/// Surprises that are told in words; all are counted.
const SURPRISES: usize = 20;

/// Where a request goes, as far as it is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Route {
    /// `GET /sales/{saleId}`.
    Sale,
    /// `POST /seckill`, accepted.
    Accepted,
    /// `POST /seckill`, refused because everything is sold.
    SoldOut,
    /// `POST /seckill`, any other answer.
    OtherPress,
    /// `GET /orders/{orderId}`.
    Order,
    /// `POST /orders/{orderId}/payments`.
    Payment,
}

impl Route {
    /// All of them.
    pub(crate) const ALL: [Self; 6] =
        [Self::Sale, Self::Accepted, Self::SoldOut, Self::OtherPress, Self::Order, Self::Payment];

    /// For people.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sale => "GET /sales/{saleId}",
            Self::Accepted => "POST /seckill → 202",
            Self::SoldOut => "POST /seckill → SOLD_OUT",
            Self::OtherPress => "POST /seckill → other",
            Self::Order => "GET /orders/{orderId}",
            Self::Payment => "POST /orders/{orderId}/payments",
        }
    }
}

/// One second of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Second {
    pub(crate) accepted: u32,
    pub(crate) sold_out: u32,
    pub(crate) other: u32,
    pub(crate) press: Latency,
}

/// All that is counted.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Buyers who have come.
    pub(crate) come: u32,
    /// Presses by answer.
    pub(crate) answers: BTreeMap<String, u64>,
    /// Times by route.
    pub(crate) times: BTreeMap<Route, Latency>,
    pub(crate) seconds: Vec<Second>,
    /// Accepted orders, with the buyer's number.
    pub(crate) orders: BTreeMap<String, u32>,
    /// Orders that two buyers were told of, or one that was accepted twice.
    pub(crate) doubles: Vec<String>,
    /// Second presses of buyers with an order, and those that were not refused as they must be.
    pub(crate) second_presses: u64,
    pub(crate) wrong_second_presses: Vec<String>,
    /// Orders whose buyer has seen them made.
    pub(crate) made: BTreeSet<String>,
    /// From the press to the order, by the server's clock.
    pub(crate) lag: Latency,
    /// Orders that were paid.
    pub(crate) paid: BTreeSet<String>,
    /// Payments whose provider did not answer: their orders may be paid.
    pub(crate) unclear_payments: u64,
    /// Buyers who were never told clearly: an order of theirs may exist.
    pub(crate) unclear: u64,
    /// Buyers who could not begin at their time, because too many were at it.
    pub(crate) late: u64,
    /// Answers that no client could expect.
    pub(crate) surprises: (u64, Vec<String>),
    /// When the last unit went, and the first buyer heard that there is none.
    pub(crate) last_accepted: Option<Duration>,
    pub(crate) first_sold_out: Option<Duration>,
}

/// The counts, shared by everybody.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) began: Instant,
    counts: Mutex<Counts>,
}

impl Tally {
    pub(crate) fn new(began: Instant) -> Self {
        Self { began, counts: Mutex::default() }
    }

    /// A panic of one who counts breaks no count.
    pub(crate) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer to a press.
    pub(crate) fn press(&self, route: Route, answer: &str, took: Duration) {
        let after = self.began.elapsed();
        let mut counts = self.counts();
        *counts.answers.entry(answer.to_owned()).or_default() += 1;
        counts.times.entry(route).or_default().record(took);
        let second = usize::try_from(after.as_secs()).unwrap_or(usize::MAX);
        // Bounded by the time after which everything is given up.
        if counts.seconds.len() <= second {
            counts.seconds.resize_with(second + 1, Second::default);
        }
        if let Some(second) = counts.seconds.get_mut(second) {
            second.press.record(took);
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

    /// Another answer, that is timed and no more.
    pub(crate) fn time(&self, route: Route, took: Duration) {
        self.counts().times.entry(route).or_default().record(took);
    }

    /// A buyer has this order. The same buyer may be told of it more than once.
    pub(crate) fn has_order(&self, order: &str, buyer: u32) {
        let mut counts = self.counts();
        match counts.orders.insert(order.to_owned(), buyer) {
            Some(other) if other != buyer => {
                counts.doubles.push(format!("order {order} was given to buyers {other} and {buyer}"));
            }
            _ => {}
        }
    }

    pub(crate) fn surprise(&self, what: String) {
        let mut counts = self.counts();
        counts.surprises.0 += 1;
        if counts.surprises.1.len() < SURPRISES {
            counts.surprises.1.push(what);
        }
    }
}

impl Counts {
    pub(crate) fn answered(&self, answer: &str) -> u64 {
        self.answers.get(answer).copied().unwrap_or(0)
    }

    pub(crate) fn presses(&self) -> u64 {
        self.answers.values().sum()
    }
}
