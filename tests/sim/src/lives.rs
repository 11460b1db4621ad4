//! The exhaustive part: one order's life, from the press to its end, with every fault at every one of its calls, and with all pairs of the
//! two that a caller cannot tell apart.
//!
//! Whoever calls tries again, as its event source or its buyer would, and time passes in between: a message is delivered again, a notice sent
//! again, a button pressed again. Then comes the calm in which everything must be right.

use domain::order::Status;
use domain::payment::Method;
use local_cloud::wire::{Fault, Loss};

use crate::choice::{Act, Delivery, Firing, Paying};
use crate::run::Sim;

/// How often something is tried again.
const TRIES: u64 = 4;
/// The one whose life it is.
const BUYER: usize = 0;

/// What befalls a call in the middle of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// A fault, of which the caller hears or not.
    Fault(Fault),
    /// The caller dies before the call.
    DiesBefore,
    /// The caller dies after it, and hears nothing.
    DiesAfter,
}

/// Every blow.
pub const BLOWS: [Blow; 9] = [
    Blow::Fault(Fault::NotApplied(Loss::Io)),
    Blow::Fault(Fault::AppliedButLost(Loss::Io)),
    Blow::Fault(Fault::AppliedButServerError),
    Blow::Fault(Fault::Throttled),
    Blow::Fault(Fault::ServerError),
    Blow::Fault(Fault::TransactionConflict),
    Blow::Fault(Fault::Late),
    Blow::DiesBefore,
    Blow::DiesAfter,
];

/// Those whose pairs are tried: the call was carried out or it was not, and the caller cannot tell. The others leave the same behind.
pub const PAIRED: [Blow; 2] = [Blow::Fault(Fault::NotApplied(Loss::Io)), Blow::Fault(Fault::AppliedButLost(Loss::Io))];

/// How a life goes, if nothing befalls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Pressed, ordered, paid, told, refunded.
    Refunded,
    /// Pressed, ordered, a payment opened, its deadline come, paid late all the same.
    PaidLate,
    /// Pressed, ordered, paid with points and money, never told: its deadline finds the money.
    FoundPaid,
    /// Pressed, ordered, cancelled, pressed again, timed out.
    ClosedTwice,
    /// Pressed, the message lost, sent again by reconcile, ordered, the deadline lost, closed by reconcile.
    Repaired,
    /// Pressed, ordered, paid with points, refunded.
    PaidWithPoints,
    /// Pressed while the sale is paused and resumed and units are added, ordered, its payment failed.
    Operated,
}

impl Life {
    pub const ALL: [Self; 7] = [
        Self::Refunded,
        Self::PaidLate,
        Self::FoundPaid,
        Self::ClosedTwice,
        Self::Repaired,
        Self::PaidWithPoints,
        Self::Operated,
    ];

    /// Those that are lived with all pairs of faults: between them they make every call about one order that is not reconcile's. The calm after
    /// each of them is.
    pub const IN_PAIRS: [Self; 4] = [Self::Refunded, Self::PaidLate, Self::FoundPaid, Self::ClosedTwice];

    /// How its orders stand at the end, in the order of their presses.
    pub fn ends(self) -> &'static [&'static str] {
        match self {
            Self::Refunded | Self::PaidWithPoints => &["REFUNDED"],
            Self::PaidLate | Self::FoundPaid => &["PAID"],
            Self::ClosedTwice => &["CLOSED Cancelled", "CLOSED TimedOut"],
            Self::Repaired => &["CLOSED TimedOut"],
            Self::Operated => &["CLOSED PaymentFailed"],
        }
    }

    fn acts(self) -> Vec<Act> {
        let press = |key: &str| Act::Press { buyer: BUYER, key: Some(key.into()), quantity: 1, environment: 0, informed: true };
        let messages = Act::Messages { most: 3, fate: Delivery::Once, newer: false };
        let stream = Act::Stream { most: 10 };
        let pay = |method, points| Act::Pay { buyer: BUYER, back: 0, method, points };
        let at_the_provider = |what| Act::AtTheProvider { buyer: BUYER, back: 0, what };
        let notice = Act::Notice { which: 0, twice: false };
        let deadline = |which| Act::Deadline { which, fate: Firing::Due };
        match self {
            Self::Refunded => vec![
                press("key"),
                messages,
                pay(Method::Alipay, 0),
                at_the_provider(Paying::Paid),
                notice.clone(),
                Act::Refund { buyer: BUYER, back: 0 },
                notice,
                stream,
            ],
            Self::PaidLate => vec![
                press("key"),
                messages,
                pay(Method::Wechat, 0),
                deadline(0),
                at_the_provider(Paying::PaidLate),
                notice,
                stream,
            ],
            Self::FoundPaid => {
                vec![
                    press("key"),
                    messages,
                    pay(Method::Stripe, 40),
                    at_the_provider(Paying::Paid),
                    deadline(0),
                    stream,
                ]
            }
            Self::ClosedTwice => vec![
                press("key"),
                messages.clone(),
                Act::Cancel { buyer: BUYER, back: 0 },
                press("another-key"),
                messages,
                // The cancelled order's is still there, and comes first.
                deadline(1),
                stream,
            ],
            Self::Repaired => vec![
                press("key"),
                Act::Messages { most: 3, fate: Delivery::Lost, newer: false },
                Act::Reconcile,
                messages,
                Act::Deadline { which: 0, fate: Firing::Never },
                Act::Reconcile,
                stream,
            ],
            Self::PaidWithPoints => vec![
                press("key"),
                messages,
                pay(Method::Points, 0),
                Act::Refund { buyer: BUYER, back: 0 },
                Act::Reconcile,
                stream,
            ],
            Self::Operated => vec![
                Act::Pause,
                Act::Resume,
                Act::Restock { quantity: 1, key: "restock".into() },
                press("key"),
                messages,
                pay(Method::Stripe, 0),
                at_the_provider(Paying::Failed),
                notice,
                stream,
            ],
        }
    }
}

/// How a life went.
#[derive(Debug)]
pub struct Lived {
    /// Calls that it took.
    pub calls: usize,
    /// How its orders stood before the calm.
    pub ends: Vec<String>,
    /// What happened, in words.
    pub history: Vec<String>,
    /// What was violated, with the history.
    pub violation: Option<String>,
}

/// Lives a life in which the calls at these places meet these blows.
pub async fn live(life: Life, blows: &[(usize, Blow)]) -> Lived {
    let mut sim = Sim::quiet().await;
    let mut calls = 0;
    let mut violation = sim.live(life, blows, &mut calls).await.err();
    let ends = sim.watch.orders().map(|order| match order.reason.filter(|_| order.status == Status::Closed) {
        Some(reason) => format!("{} {reason:?}", order.status.as_str()),
        None => order.status.as_str().to_owned(),
    });
    let ends = ends.collect();
    if violation.is_none() {
        violation = sim.calm().await.err();
    }
    let history = sim.history().to_vec();
    let violation = violation.map(|why| format!("{life:?} with {blows:?}: {why}\n  {}", history.join("\n  ")));
    Lived { calls, ends, history, violation }
}

impl Sim {
    async fn live(&mut self, life: Life, blows: &[(usize, Blow)], calls: &mut usize) -> Result<(), String> {
        let mut id = 0;
        for act in life.acts() {
            match act {
                // So that a second order is later than the first.
                Act::Press { .. } => self.pass(1_000),
                Act::Deadline { .. } => self.pass(61_000),
                // Past what is too young to be looked at, and past a deadline's margin.
                Act::Reconcile => self.pass(181_000),
                _ => {}
            }
            for _ in 0..TRIES {
                id += 1;
                self.note(format!("{id}: {act}"));
                let before = *calls;
                self.begin(id, &act).await?;
                let undisturbed = self.finish(id, blows, calls).await?;
                if undisturbed || *calls == before {
                    break;
                }
                // Until a message is visible again, and a notice due.
                self.pass(181_000);
            }
        }
        Ok(())
    }

    /// Lets an actor finish. False: something befell it.
    async fn finish(&mut self, id: u64, blows: &[(usize, Blow)], calls: &mut usize) -> Result<bool, String> {
        let mut undisturbed = true;
        while self.is_acting(id) {
            if !self.turns.is_waiting(id) {
                return Err("somebody waits for nothing".into());
            }
            let blow = blows.iter().find(|(at, _)| at == calls).map(|(_, blow)| *blow);
            *calls += 1;
            undisturbed &= blow.is_none();
            match blow {
                None => self.call(id, 0, Fault::None).await?,
                Some(Blow::Fault(fault)) => self.call(id, 0, fault).await?,
                Some(Blow::DiesBefore) => self.dies(id, "dies"),
                Some(Blow::DiesAfter) => {
                    self.call(id, 0, Fault::AppliedThenStops).await?;
                    self.dies(id, "dies");
                }
            }
        }
        Ok(undisturbed)
    }
}
