//! What can happen, one thing at a time. A run is a list of these: drawn from a seed, or what is left of such a list when it is
//! shortened. Each is written so that it means the same, or nothing, when others before it are left out.

use std::fmt;

use domain::payment::Method;
use local_cloud::wire::Fault;

/// A thing that happens, and its place in the run that was drawn first: whoever begins to act has it as a name.
#[derive(Clone, Debug)]
pub struct Step {
    pub id: u64,
    pub choice: Choice,
}

#[derive(Clone, Debug)]
pub enum Choice {
    /// Somebody begins to act.
    Begin(Act),
    /// One of the calls that an actor waits with is carried out, and this befalls it.
    Call { actor: u64, nth: usize, fault: Fault },
    /// An actor's process dies: between two of its calls, and with its memory.
    Dies { actor: u64 },
    /// A call arrives whose caller has given up.
    Arrives { which: usize },
    /// The tables' copy catches up.
    CatchesUp { writes: usize },
    /// Time passes.
    Passes { ms: u64 },
}

/// Which of a buyer's orders or payments: 0 is the latest, 1 the one before.
pub type Back = usize;

#[derive(Clone, Debug)]
pub enum Act {
    /// A buyer presses, at one of the running functions.
    Press {
        buyer: usize,
        key: Option<String>,
        quantity: u32,
        environment: usize,
        /// Whether the press carries the version of the availability that the shop shows at this moment.
        informed: bool,
    },
    /// The buyer looks at an order that was accepted.
    Look {
        buyer: usize,
        back: Back,
    },
    Cancel {
        buyer: usize,
        back: Back,
    },
    Pay {
        buyer: usize,
        back: Back,
        method: Method,
        points: i64,
    },
    Refund {
        buyer: usize,
        back: Back,
    },
    /// Something happens to a payment at its provider.
    AtTheProvider {
        buyer: usize,
        back: Back,
        what: Paying,
    },
    /// A provider sends a notice that is due.
    Notice {
        which: usize,
        twice: bool,
    },
    /// Messages arrive at order-consumer.
    Messages {
        most: usize,
        fate: Delivery,
        newer: bool,
    },
    /// Records of the stock's stream arrive at `availability`.
    Stream {
        most: usize,
    },
    /// A payment deadline.
    Deadline {
        which: usize,
        fate: Firing,
    },
    Reconcile,
    Restock {
        quantity: u32,
        key: String,
    },
    Pause,
    Resume,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paying {
    Paid,
    PaidLate,
    Failed,
    ToldAgain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    Once,
    Twice,
    /// Handled, but not deleted: it comes again.
    NotDeleted,
    /// Taken by a function that never began: it comes again when nobody has deleted it for long enough.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firing {
    Due,
    Early,
    Twice,
    /// It never comes.
    Never,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id;
        match &self.choice {
            Choice::Begin(act) => write!(f, "{id}: {act}"),
            Choice::Call { actor, fault, .. } => write!(f, "{id}: {actor} goes on: {fault:?}"),
            Choice::Dies { actor } => write!(f, "{id}: {actor} dies"),
            Choice::Arrives { which } => write!(f, "{id}: a late call arrives ({which})"),
            Choice::CatchesUp { writes } => write!(f, "{id}: the copy catches up by {writes} writes"),
            Choice::Passes { ms } => write!(f, "{id}: {ms} ms pass"),
        }
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Press { buyer, key, quantity, environment, informed } => {
                let key = key.as_deref().unwrap_or("no key");
                let informed = if *informed { ", having looked" } else { "" };
                write!(f, "buyer {buyer} presses for {quantity} with {key} at seckill {environment}{informed}")
            }
            Act::Look { buyer, back } => write!(f, "buyer {buyer} looks at order -{back}"),
            Act::Cancel { buyer, back } => write!(f, "buyer {buyer} cancels order -{back}"),
            Act::Pay { buyer, back, method, points } => {
                write!(f, "buyer {buyer} wants to pay order -{back} by {} and {points} points", method.as_str())
            }
            Act::Refund { buyer, back } => write!(f, "buyer {buyer} wants order -{back} refunded"),
            Act::AtTheProvider { buyer, back, what } => write!(f, "payment -{back} of buyer {buyer}: {what:?}"),
            Act::Notice { which, twice } => {
                write!(f, "notice {which} comes{}", if *twice { " twice" } else { "" })
            }
            Act::Messages { most, fate, newer } => {
                let newer = if *newer { " of a newer version" } else { "" };
                write!(f, "up to {most} messages{newer} arrive: {fate:?}")
            }
            Act::Stream { most } => write!(f, "up to {most} stream records arrive"),
            Act::Deadline { which, fate } => write!(f, "deadline {which} comes: {fate:?}"),
            Act::Reconcile => f.write_str("reconcile runs"),
            Act::Restock { quantity, key } => write!(f, "restock of {quantity} ({key})"),
            Act::Pause => f.write_str("the sale is paused"),
            Act::Resume => f.write_str("the sale is resumed"),
        }
    }
}
