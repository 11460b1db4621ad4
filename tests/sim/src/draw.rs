//! Draws the next step: mostly a pending call that proceeds, otherwise something new.

use domain::order::{Order, Status};
use domain::payment::Method;

use crate::choice::{Action, Choice, DeadlineDelivery, Delivery, NthLatest, ProviderEvent};
use crate::conditions::Activity;
use crate::functions::ENVIRONMENTS;
use crate::run::{Sim, SoldOut};

/// The most actors at the same time.
const MAX_ACTORS: usize = 6;

impl Sim {
    pub(crate) async fn draw(&mut self) -> Choice {
        let waiting = self.calls.actors();
        if !waiting.is_empty() && self.rng.chance(70) {
            return self.draw_call(&waiting);
        }
        if self.rng.chance(self.conditions.time_steps * 3) {
            return self.draw_time();
        }
        if !self.actors.is_empty() && self.rng.chance(self.conditions.crashes * 3) {
            let which = self.rng.below(self.actors.len());
            return Choice::Crash { actor: self.actors[which].id };
        }
        if self.wire.late() > 0 && self.rng.chance(self.conditions.late_arrivals) {
            return Choice::LateCallArrives { which: self.rng.below(8) };
        }
        match self.actors.len() {
            MAX_ACTORS.. if !waiting.is_empty() => self.draw_call(&waiting),
            MAX_ACTORS.. => self.draw_time(),
            _ => self.draw_activity().await,
        }
    }

    /// A slow actor waits while others proceed, so that it acts on what has changed since its last call.
    fn draw_call(&mut self, waiting: &[u64]) -> Choice {
        if self.rng.chance(2) {
            self.slow.pop_first();
        }
        // An actor whose condition failed decides by the row that it was shown, which may change before its next
        // call.
        if let Some(refused) = self.refused.take()
            && self.rng.chance(self.conditions.slowness * 5)
        {
            self.slow.insert(refused);
        }
        let quick: Vec<u64> = waiting.iter().filter(|actor| !self.slow.contains(actor)).copied().collect();
        let of = if quick.is_empty() { waiting } else { &quick };
        let actor = of[self.rng.below(of.len())];
        if self.rng.chance(self.conditions.slowness) {
            self.slow.insert(actor);
        }
        Choice::Call { actor, nth: self.rng.below(4), fault: self.conditions.fault(&mut self.rng) }
    }

    fn draw_time(&mut self) -> Choice {
        Choice::TimePasses { ms: self.conditions.time_step_ms[self.rng.below(self.conditions.time_step_ms.len())] }
    }

    async fn draw_activity(&mut self) -> Choice {
        if self.rng.chance(self.conditions.impatience)
            && let Some(act) = self.draw_repeat()
        {
            return Choice::Start(act);
        }
        if !self.sold_out.is_empty()
            && self.rng.chance(40)
            && let Some(act) = self.draw_return().await
        {
            return Choice::Start(act);
        }
        let activity = match self.conditions.activity(&mut self.rng) {
            // These activities need an order or a payment.
            Activity::AtProvider if self.payments.is_empty() => Activity::Pay,
            activity => activity,
        };
        let activity = match activity {
            Activity::ViewOrder | Activity::Cancel | Activity::Refund | Activity::Pay if self.orders.is_empty() => {
                Activity::Press
            }
            activity => activity,
        };
        Choice::Start(match activity {
            Activity::Press => self.draw_press(),
            Activity::ViewOrder => {
                let (buyer, nth_latest) = self.some_order();
                Action::ViewOrder { buyer, nth_latest }
            }
            Activity::Cancel => {
                // With eager buyers, cancels must hit orders that hold units; otherwise most cancels are refused.
                let (buyer, nth_latest) = match self.conditions.eager {
                    0 => self.some_order(),
                    _ => self.order_that(|order| order.status == Status::PendingPayment),
                };
                Action::Cancel { buyer, nth_latest }
            }
            Activity::Refund => {
                let (buyer, nth_latest) = self.order_that(|order| order.status == Status::Paid);
                Action::Refund { buyer, nth_latest }
            }
            Activity::Pay => {
                let (buyer, nth_latest) = self.order_that(|order| order.status == Status::PendingPayment);
                let method = Method::ALL[self.rng.below(Method::ALL.len())];
                let points = if method != Method::Points && self.rng.chance(25) { 40 } else { 0 };
                Action::Pay { buyer, nth_latest, method, points }
            }
            Activity::AtProvider => self.draw_payment(),
            Activity::Notice => Action::Notice { which: self.rng.below(4), twice: self.rng.chance(15) },
            Activity::Messages => {
                let delivery = match self.rng.below(20) {
                    0..3 => Delivery::Twice,
                    3 => Delivery::NotDeleted,
                    4 => Delivery::Lost,
                    _ => Delivery::Once,
                };
                Action::Messages { max: 1 + self.rng.below(3), delivery, newer: self.rng.chance(2) }
            }
            Activity::Stream => Action::Stream { max: 1 + self.rng.below(6) },
            Activity::Deadline => {
                let delivery = [
                    DeadlineDelivery::Due,
                    DeadlineDelivery::Due,
                    DeadlineDelivery::Due,
                    DeadlineDelivery::Early,
                    DeadlineDelivery::Twice,
                    DeadlineDelivery::Never,
                ];
                Action::Deadline { which: self.rng.below(4), delivery: delivery[self.rng.below(delivery.len())] }
            }
            Activity::Reconcile => Action::Reconcile,
            // Few keys, so the same restock is requested several times.
            Activity::Restock => Action::Restock { quantity: 1, key: format!("restock-{}", self.rng.below(3)) },
            Activity::Pause => Action::Pause,
            Activity::Resume => Action::Resume,
            Activity::Edit => Action::Edit { name: format!("sale {}", self.rng.below(1_000_000)) },
            Activity::NewerRow => Action::NewerRow { table: self.rng.below(3), row: self.rng.below(64) },
            Activity::CatchUp => return Choice::ReplicaCatchesUp { writes: 1 + self.rng.below(20) },
        })
    }

    /// Repeats a request that has no answer yet. It may reach another running function.
    fn draw_repeat(&mut self) -> Option<Action> {
        let asked: Vec<&Action> = self.actors.iter().filter_map(|actor| self.requests.get(&actor.id)).collect();
        let act = (*asked.get(self.rng.below(asked.len()))?).clone();
        Some(match act {
            Action::Press { buyer, key, quantity, .. } => self.press_of(buyer, key, quantity),
            act => act,
        })
    }

    /// A buyer who was told SOLD_OUT presses again because the storefront shows a newer version. The press often
    /// reaches the same function, which may not have seen that version yet.
    async fn draw_return(&mut self) -> Option<Action> {
        let shown = self.shown_version().await;
        let which = self.sold_out.iter().rposition(|refused| refused.version < shown)?;
        let SoldOut { buyer, key, quantity, environment, .. } = self.sold_out.remove(which);
        let environment = if self.rng.chance(80) { environment } else { self.rng.below(ENVIRONMENTS) };
        Some(Action::Press { buyer, key, quantity, environment, informed: true })
    }

    /// A press of any buyer, or of one who was just accepted; with the previous key, a new one, or none.
    fn draw_press(&mut self) -> Action {
        // A buyer without a clear answer usually retries at once.
        if self.rng.chance(40)
            && let Some((buyer, mut key, mut quantity)) = self.unanswered.pop()
        {
            // Or asks for less, which is a new request.
            if quantity > 1 && self.rng.chance(80) {
                quantity -= 1;
                key = key.map(|key| format!("{key}-less"));
            }
            return self.press_of(buyer, key, quantity);
        }
        let buyer = match self.recent_buyers.last() {
            Some(buyer) if self.rng.chance(15) => *buyer,
            _ if self.conditions.eager > 0 && self.rng.chance(80) => self.rng.below(self.conditions.eager),
            _ => self.rng.below(self.conditions.buyers),
        };
        let tries = if buyer < self.conditions.eager { 12 } else { 3 };
        let key = match self.rng.below(3) {
            0 => None,
            1 => Some(format!("key-{buyer}")),
            _ => Some(format!("key-{buyer}-{}", self.rng.below(tries))),
        };
        let quantity = if self.rng.chance(self.conditions.double_quantity) { 2 } else { 1 };
        self.press_of(buyer, key, quantity)
    }

    /// A press that reaches any running function, by a buyer who has just looked at the storefront or has not.
    fn press_of(&mut self, buyer: usize, key: Option<String>, quantity: u32) -> Action {
        let environment = self.rng.below(ENVIRONMENTS);
        Action::Press { buyer, key, quantity, environment, informed: self.rng.chance(50) }
    }

    /// An order, mostly one of the latest: those are still waiting.
    fn some_order(&mut self) -> (usize, NthLatest) {
        let latest = if self.rng.chance(80) { 5 } else { self.recent_buyers.len() };
        let buyer = self.recent_buyers.iter().rev().nth(self.rng.below(latest)).copied();
        (buyer.unwrap_or(0), usize::from(self.rng.chance(10)))
    }

    /// Mostly an order that fits: requests about the others are refused.
    fn order_that(&mut self, fits: impl Fn(&Order) -> bool) -> (usize, NthLatest) {
        let fitting: Vec<(usize, NthLatest)> =
            self.safety.orders().filter(|order| fits(order)).filter_map(|order| self.place_of(order)).collect();
        match fitting.get(self.rng.below(fitting.len())) {
            Some(place) if self.rng.chance(80) => *place,
            _ => self.some_order(),
        }
    }

    /// The buyer of an accepted order, and which of the buyer's orders it is.
    fn place_of(&self, order: &Order) -> Option<(usize, NthLatest)> {
        let mut buyers = self.orders.iter();
        buyers.find_map(|(buyer, orders)| Some((*buyer, orders.iter().rev().position(|id| *id == order.id)?)))
    }

    fn draw_payment(&mut self) -> Action {
        let what = match self.rng.below(20) {
            0 => ProviderEvent::Failed,
            1 => ProviderEvent::NotifiedAgain,
            2..6 => ProviderEvent::PaidLate,
            6 => ProviderEvent::Confirmed,
            7 => ProviderEvent::RefundedInConsole,
            8 => ProviderEvent::PartlyRefundedInConsole,
            9 => ProviderEvent::RefundFailed,
            10 => ProviderEvent::Disputed,
            11 => ProviderEvent::RefundsFail,
            12 => ProviderEvent::ServerError,
            _ => ProviderEvent::Paid,
        };
        let (mut buyer, _) = match what {
            ProviderEvent::RefundedInConsole | ProviderEvent::PartlyRefundedInConsole | ProviderEvent::Disputed => {
                self.order_that(|order| order.payment.is_some() || order.status == Status::Paid)
            }
            ProviderEvent::RefundFailed => {
                let elsewhere = |order: &Order| order.paid.as_ref().is_some_and(|with| with.refunded > 0);
                self.order_that(|order| {
                    matches!(order.status, Status::Refunding | Status::Refunded) || elsewhere(order)
                })
            }
            _ => self.order_that(|order| order.payment.is_some()),
        };
        if !self.payments.contains_key(&buyer) {
            let which = self.rng.below(self.payments.len());
            buyer = self.payments.keys().nth(which).copied().unwrap_or(0);
        }
        Action::AtProvider { buyer, nth_latest: usize::from(self.rng.chance(25)), what }
    }
}
