//! The steps of a run. A run is a list of them: drawn from a seed, or a part of such a list while a failing run is
//! shortened. So each step is written in such a way that it means the same, or nothing, when earlier steps are left
//! out.

use std::fmt;

use domain::payment::Method;
use local_cloud::wire::Fault;

/// A step and its place in the run as it was drawn. An actor that the step starts has this number as its name.
#[derive(Clone, Debug)]
pub struct Step {
    pub id: u64,
    pub choice: Choice,
}

#[derive(Clone, Debug)]
pub enum Choice {
    Start(Action),
    /// One of an actor's pending calls proceeds, and meets this fault.
    Call {
        actor: u64,
        nth: usize,
        fault: Fault,
    },
    /// An actor's process ends between two of its calls, and its memory is lost.
    Crash {
        actor: u64,
    },
    /// A call whose caller has given up reaches its service.
    LateCallArrives {
        which: usize,
    },
    /// The replica that serves stale reads applies some more writes.
    ReplicaCatchesUp {
        writes: usize,
    },
    TimePasses {
        ms: u64,
    },
}

/// Which of a buyer's orders or payments: 0 is the latest, 1 the one before.
pub type NthLatest = usize;

#[derive(Clone, Debug)]
pub enum Action {
    /// A buyer presses the button; the request reaches one of the running functions.
    Press {
        buyer: usize,
        key: Option<String>,
        quantity: u32,
        environment: usize,
        /// Whether the press carries the availability version that the storefront shows at this moment.
        informed: bool,
    },
    /// A buyer views an accepted order.
    ViewOrder {
        buyer: usize,
        nth_latest: NthLatest,
    },
    Cancel {
        buyer: usize,
        nth_latest: NthLatest,
    },
    Pay {
        buyer: usize,
        nth_latest: NthLatest,
        method: Method,
        points: i64,
    },
    Refund {
        buyer: usize,
        nth_latest: NthLatest,
    },
    AtProvider {
        buyer: usize,
        nth_latest: NthLatest,
        what: ProviderEvent,
    },
    Notice {
        which: usize,
        twice: bool,
    },
    /// Messages are delivered to order-consumer. `newer`: one of them is of a newer version.
    Messages {
        max: usize,
        delivery: Delivery,
        newer: bool,
    },
    /// Records of the stock's stream are delivered to `availability`.
    Stream {
        max: usize,
    },
    /// A payment deadline fires.
    Deadline {
        which: usize,
        delivery: DeadlineDelivery,
    },
    Reconcile,
    Restock {
        quantity: u32,
        key: String,
    },
    Pause,
    Resume,
    /// An operator reads the sale, and saves it under another name.
    Edit {
        name: String,
    },
    /// A newer release writes a row, which this one cannot read; or writes it back as this one knows it.
    NewerRow {
        table: usize,
        row: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderEvent {
    Paid,
    PaidLate,
    Failed,
    NotifiedAgain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Once,
    Twice,
    /// Handled but not deleted, so it is delivered again.
    NotDeleted,
    /// Received but never handled, so it is delivered again after the visibility timeout.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadlineDelivery {
    Due,
    Early,
    Twice,
    /// The schedule is lost.
    Never,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id;
        match &self.choice {
            Choice::Start(act) => write!(f, "{id}: {act}"),
            Choice::Call { actor, fault, .. } => write!(f, "{id}: {actor} proceeds: {fault:?}"),
            Choice::Crash { actor } => write!(f, "{id}: {actor} crashes"),
            Choice::LateCallArrives { which } => write!(f, "{id}: a late call arrives ({which})"),
            Choice::ReplicaCatchesUp { writes } => write!(f, "{id}: the replica applies {writes} writes"),
            Choice::TimePasses { ms } => write!(f, "{id}: {ms} ms pass"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Press { buyer, key, quantity, environment, informed } => {
                let key = key.as_deref().unwrap_or("no key");
                let informed = if *informed { ", having seen the storefront" } else { "" };
                write!(f, "buyer {buyer} presses for {quantity} with {key} at seckill {environment}{informed}")
            }
            Action::ViewOrder { buyer, nth_latest } => write!(f, "buyer {buyer} views order -{nth_latest}"),
            Action::Cancel { buyer, nth_latest } => write!(f, "buyer {buyer} cancels order -{nth_latest}"),
            Action::Pay { buyer, nth_latest, method, points } => {
                write!(f, "buyer {buyer} pays order -{nth_latest} by {} and {points} points", method.as_str())
            }
            Action::Refund { buyer, nth_latest } => write!(f, "buyer {buyer} asks for a refund of order -{nth_latest}"),
            Action::AtProvider { buyer, nth_latest, what } => {
                write!(f, "payment -{nth_latest} of buyer {buyer}: {what:?}")
            }
            Action::Notice { which, twice } => {
                write!(f, "notice {which} is delivered{}", if *twice { " twice" } else { "" })
            }
            Action::Messages { max, delivery, newer } => {
                let newer = if *newer { " of a newer version" } else { "" };
                write!(f, "up to {max} messages{newer} are delivered: {delivery:?}")
            }
            Action::Stream { max } => write!(f, "up to {max} stream records are delivered"),
            Action::Deadline { which, delivery } => write!(f, "deadline {which} fires: {delivery:?}"),
            Action::Reconcile => f.write_str("reconcile starts"),
            Action::Restock { quantity, key } => write!(f, "restock of {quantity} ({key})"),
            Action::Pause => f.write_str("the sale is paused"),
            Action::Resume => f.write_str("the sale is resumed"),
            Action::Edit { name } => write!(f, "an operator edits the sale: {name}"),
            Action::NewerRow { table, row } => write!(f, "row {row} of table {table} has another version"),
        }
    }
}
