//! Scripted runs: one order from the press to its end, with every disturbance at every call, and with all pairs of
//! the two faults that a caller cannot tell apart.
//!
//! A disturbed action is retried, as its event source or its buyer would do, with time passing in between: a message
//! is delivered again, a notice is sent again, a button is pressed again. Then the run settles and everything is
//! checked.

use domain::order::Status;
use domain::payment::Method;
use local_cloud::wire::{Fault, Loss};

use crate::choice::{Action, DeadlineDelivery, Delivery, ProviderEvent};
use crate::run::Sim;

/// How often an action is attempted.
const ATTEMPTS: u64 = 4;
const BUYER: usize = 0;

/// What can happen to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    Fault(Fault),
    /// The caller crashes before the call.
    CrashBefore,
    /// The call is carried out, and the caller crashes before the answer.
    CrashAfter,
}

pub const DISTURBANCES: [Disturbance; 9] = [
    Disturbance::Fault(Fault::NotApplied(Loss::Io)),
    Disturbance::Fault(Fault::AppliedButLost(Loss::Io)),
    Disturbance::Fault(Fault::AppliedButServerError),
    Disturbance::Fault(Fault::Throttled),
    Disturbance::Fault(Fault::ServerError),
    Disturbance::Fault(Fault::TransactionConflict),
    Disturbance::Fault(Fault::Late),
    Disturbance::CrashBefore,
    Disturbance::CrashAfter,
];

/// The disturbances whose pairs are played: the call was carried out or was not, and the caller cannot tell. All
/// others leave one of these two states behind.
pub const PAIRED_DISTURBANCES: [Disturbance; 2] =
    [Disturbance::Fault(Fault::NotApplied(Loss::Io)), Disturbance::Fault(Fault::AppliedButLost(Loss::Io))];

/// A scripted run, named after how it ends without disturbances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Pressed, ordered, paid, notified, refunded.
    Refunded,
    /// Pressed, ordered, payment opened, closed by the deadline, paid late.
    PaidLate,
    /// Pressed, ordered, paid with points and money; the notice is lost, and the deadline finds the payment.
    FoundPaid,
    /// Pressed, ordered, cancelled, pressed again, timed out.
    ClosedTwice,
    /// Pressed; the message is lost and reconcile sends it again; ordered; the deadline is lost and reconcile closes.
    Repaired,
    /// Pressed, ordered, paid with points, refunded.
    PaidWithPoints,
    /// The operator pauses, resumes and restocks; then pressed, ordered, and the payment fails.
    Operated,
}

impl Scenario {
    pub const ALL: [Self; 7] = [
        Self::Refunded,
        Self::PaidLate,
        Self::FoundPaid,
        Self::ClosedTwice,
        Self::Repaired,
        Self::PaidWithPoints,
        Self::Operated,
    ];

    /// The scenarios that are played with all pairs of faults. Together they make every call about one order, except
    /// reconcile's, which run in the settling phase.
    pub const IN_PAIRS: [Self; 4] = [Self::Refunded, Self::PaidLate, Self::FoundPaid, Self::ClosedTwice];

    /// The expected status of each order before settling, in the order of their presses.
    pub fn expected_ends(self) -> &'static [&'static str] {
        match self {
            Self::Refunded | Self::PaidWithPoints => &["REFUNDED"],
            Self::PaidLate | Self::FoundPaid => &["PAID"],
            Self::ClosedTwice => &["CLOSED Cancelled", "CLOSED TimedOut"],
            Self::Repaired => &["CLOSED TimedOut"],
            Self::Operated => &["CLOSED PaymentFailed"],
        }
    }

    fn actions(self) -> Vec<Action> {
        let press = |key: &str| {
            let key = Some(key.to_owned());
            Action::Press { buyer: BUYER, key, quantity: 1, environment: 0, informed: true }
        };
        let messages = Action::Messages { max: 3, delivery: Delivery::Once, newer: false };
        let stream = Action::Stream { max: 10 };
        let pay = |method, points| Action::Pay { buyer: BUYER, nth_latest: 0, method, points };
        let at_provider = |what| Action::AtProvider { buyer: BUYER, nth_latest: 0, what };
        let notice = Action::Notice { which: 0, twice: false };
        let deadline = |which| Action::Deadline { which, delivery: DeadlineDelivery::Due };
        match self {
            Self::Refunded => vec![
                press("key"),
                messages,
                pay(Method::Alipay, 0),
                at_provider(ProviderEvent::Paid),
                notice.clone(),
                Action::Refund { buyer: BUYER, nth_latest: 0 },
                notice,
                stream,
            ],
            Self::PaidLate => vec![
                press("key"),
                messages,
                pay(Method::Wechat, 0),
                deadline(0),
                at_provider(ProviderEvent::PaidLate),
                notice,
                stream,
            ],
            Self::FoundPaid => {
                vec![
                    press("key"),
                    messages,
                    pay(Method::Stripe, 40),
                    at_provider(ProviderEvent::Paid),
                    deadline(0),
                    stream,
                ]
            }
            Self::ClosedTwice => vec![
                press("key"),
                messages.clone(),
                Action::Cancel { buyer: BUYER, nth_latest: 0 },
                press("another-key"),
                messages,
                // The deadline of the cancelled order still exists and is number 0.
                deadline(1),
                stream,
            ],
            Self::Repaired => vec![
                press("key"),
                Action::Messages { max: 3, delivery: Delivery::Lost, newer: false },
                Action::Reconcile,
                messages,
                Action::Deadline { which: 0, delivery: DeadlineDelivery::Never },
                Action::Reconcile,
                stream,
            ],
            Self::PaidWithPoints => vec![
                press("key"),
                messages,
                pay(Method::Points, 0),
                Action::Refund { buyer: BUYER, nth_latest: 0 },
                Action::Reconcile,
                stream,
            ],
            Self::Operated => vec![
                Action::Pause,
                Action::Resume,
                Action::Restock { quantity: 1, key: "restock".into() },
                press("key"),
                messages,
                pay(Method::Stripe, 0),
                at_provider(ProviderEvent::Failed),
                notice,
                stream,
            ],
        }
    }
}

#[derive(Debug)]
pub struct Played {
    pub calls: usize,
    /// The status of each order before settling.
    pub ends: Vec<String>,
    pub history: Vec<String>,
    /// The violation, with the history.
    pub violation: Option<String>,
}

/// Plays a scenario in which the calls with these numbers are disturbed.
pub async fn play(scenario: Scenario, disturbances: &[(usize, Disturbance)]) -> Played {
    let mut sim = Sim::scripted().await;
    let mut calls = 0;
    let mut violation = sim.play(scenario, disturbances, &mut calls).await.err();
    let ends = sim.safety.orders().map(|order| match order.reason.filter(|_| order.status == Status::Closed) {
        Some(reason) => format!("{} {reason:?}", order.status.as_str()),
        None => order.status.as_str().to_owned(),
    });
    let ends = ends.collect();
    if violation.is_none() {
        violation = sim.settle_and_check().await.err();
    }
    let history = sim.history().to_vec();
    let violation =
        violation.map(|why| format!("{scenario:?} with {disturbances:?}: {why}\n  {}", history.join("\n  ")));
    Played { calls, ends, history, violation }
}

impl Sim {
    async fn play(
        &mut self,
        scenario: Scenario,
        disturbances: &[(usize, Disturbance)],
        calls: &mut usize,
    ) -> Result<(), String> {
        let mut id = 0;
        for action in scenario.actions() {
            match action {
                // So that a second order is younger than the first.
                Action::Press { .. } => self.pass(1_000),
                Action::Deadline { .. } => self.pass(61_000),
                // Longer than reconcile leaves young holders alone, and longer than the margin after a deadline.
                Action::Reconcile => self.pass(181_000),
                _ => {}
            }
            for _ in 0..ATTEMPTS {
                id += 1;
                self.note(format!("{id}: {action}"));
                let before = *calls;
                self.begin(id, &action).await?;
                let undisturbed = self.finish(id, disturbances, calls).await?;
                if undisturbed || *calls == before {
                    break;
                }
                // Until a message is visible again and a notice is due again.
                self.pass(181_000);
            }
        }
        Ok(())
    }

    /// Lets an actor finish. Returns false if it was disturbed.
    async fn finish(
        &mut self,
        id: u64,
        disturbances: &[(usize, Disturbance)],
        calls: &mut usize,
    ) -> Result<bool, String> {
        let mut undisturbed = true;
        while self.is_acting(id) {
            if !self.calls.is_waiting(id) {
                return Err(format!("actor {id} waits, and not for a call"));
            }
            let disturbance = disturbances.iter().find(|(at, _)| at == calls).map(|(_, disturbance)| *disturbance);
            *calls += 1;
            undisturbed &= disturbance.is_none();
            match disturbance {
                None => self.call(id, 0, Fault::None).await?,
                Some(Disturbance::Fault(fault)) => self.call(id, 0, fault).await?,
                Some(Disturbance::CrashBefore) => self.crash(id, "crashes"),
                Some(Disturbance::CrashAfter) => {
                    self.call(id, 0, Fault::AppliedThenStops).await?;
                    self.crash(id, "crashes");
                }
            }
        }
        Ok(undisturbed)
    }
}
