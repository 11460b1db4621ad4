//! What happens next, drawn from the dice: mostly a call that somebody waits with, otherwise something new.

use domain::order::{Order, Status};
use domain::payment::Method;

use crate::choice::{Act, Back, Choice, Delivery, Firing, Paying};
use crate::functions::ENVIRONMENTS;
use crate::run::Sim;
use crate::weather::Deed;

/// Everybody who is at it at the same time.
const ACTORS: usize = 6;

impl Sim {
    pub(crate) async fn draw(&mut self) -> Choice {
        let waiting = self.turns.actors();
        if !waiting.is_empty() && self.dice.chance(70) {
            return self.draw_call(&waiting);
        }
        if self.dice.chance(self.weather.passing * 3) {
            return self.draw_time();
        }
        if !self.actors.is_empty() && self.dice.chance(self.weather.deaths * 3) {
            let which = self.dice.below(self.actors.len());
            return Choice::Dies { actor: self.actors[which].id };
        }
        if self.wire.late() > 0 && self.dice.chance(self.weather.arrivals) {
            return Choice::Arrives { which: self.dice.below(8) };
        }
        match self.actors.len() {
            ACTORS.. if !waiting.is_empty() => self.draw_call(&waiting),
            ACTORS.. => self.draw_time(),
            _ => self.draw_deed().await,
        }
    }

    /// Whoever is slow waits until nobody else does, or until its time comes: it meets what has changed since its last call.
    fn draw_call(&mut self, waiting: &[u64]) -> Choice {
        if self.dice.chance(2) {
            self.slow.pop_first();
        }
        // What it decides now, it decides by what it was told.
        if let Some(refused) = self.refused.take()
            && self.dice.chance(self.weather.slowness * 5)
        {
            self.slow.insert(refused);
        }
        let quick: Vec<u64> = waiting.iter().filter(|actor| !self.slow.contains(actor)).copied().collect();
        let of = if quick.is_empty() { waiting } else { &quick };
        let actor = of[self.dice.below(of.len())];
        if self.dice.chance(self.weather.slowness) {
            self.slow.insert(actor);
        }
        Choice::Call { actor, nth: self.dice.below(4), fault: self.weather.fault(&mut self.dice) }
    }

    fn draw_time(&mut self) -> Choice {
        Choice::Passes { ms: self.weather.times[self.dice.below(self.weather.times.len())] }
    }

    async fn draw_deed(&mut self) -> Choice {
        if self.dice.chance(self.weather.impatience)
            && let Some(act) = self.asked_again()
        {
            return Choice::Begin(act);
        }
        let deed = match self.weather.deed(&mut self.dice) {
            // Nobody can do anything with an order or a payment that is not there.
            Deed::AtTheProvider if self.payments.is_empty() => Deed::Pay,
            deed => deed,
        };
        let deed = match deed {
            Deed::Look | Deed::Cancel | Deed::Refund | Deed::Pay if self.orders.is_empty() => Deed::Press,
            deed => deed,
        };
        Choice::Begin(match deed {
            Deed::Press => self.draw_press(),
            Deed::Look => {
                let (buyer, back) = self.some_order();
                Act::Look { buyer, back }
            }
            Deed::Cancel => {
                // Of a few, whoever gave up has units; of many, hardly anybody cancels.
                let (buyer, back) = match self.weather.eager {
                    0 => self.some_order(),
                    _ => self.order_that(|order| order.status == Status::PendingPayment),
                };
                Act::Cancel { buyer, back }
            }
            Deed::Refund => {
                let (buyer, back) = self.order_that(|order| order.status == Status::Paid);
                Act::Refund { buyer, back }
            }
            Deed::Pay => {
                let (buyer, back) = self.order_that(|order| order.status == Status::PendingPayment);
                let method = Method::ALL[self.dice.below(Method::ALL.len())];
                let points = if method != Method::Points && self.dice.chance(25) { 40 } else { 0 };
                Act::Pay { buyer, back, method, points }
            }
            Deed::AtTheProvider => self.draw_payment(),
            Deed::Notice => Act::Notice { which: self.dice.below(4), twice: self.dice.chance(15) },
            Deed::Messages => {
                let fate = match self.dice.below(20) {
                    0..3 => Delivery::Twice,
                    3 => Delivery::NotDeleted,
                    4 => Delivery::Lost,
                    _ => Delivery::Once,
                };
                Act::Messages { most: 1 + self.dice.below(3), fate, newer: self.dice.chance(2) }
            }
            Deed::Stream => Act::Stream { most: 1 + self.dice.below(6) },
            Deed::Deadline => {
                let fate = [Firing::Due, Firing::Due, Firing::Due, Firing::Early, Firing::Twice, Firing::Never];
                Act::Deadline { which: self.dice.below(4), fate: fate[self.dice.below(fate.len())] }
            }
            Deed::Reconcile => Act::Reconcile,
            // The same restock may be asked for twice.
            Deed::Restock => Act::Restock { quantity: 1, key: format!("restock-{}", self.dice.below(3)) },
            Deed::Pause => Act::Pause,
            Deed::Resume => Act::Resume,
            Deed::CatchUp => return Choice::CatchesUp { writes: 1 + self.dice.below(20) },
        })
    }

    /// What a buyer has asked for and has no answer to yet, again: it may come to another function that is running.
    fn asked_again(&mut self) -> Option<Act> {
        let asked: Vec<&Act> = self.actors.iter().filter_map(|actor| self.asked.get(&actor.id)).collect();
        let act = (*asked.get(self.dice.below(asked.len()))?).clone();
        Some(match act {
            Act::Press { buyer, key, quantity, .. } => self.press_of(buyer, key, quantity),
            act => act,
        })
    }

    /// A buyer of the crowd, or one who was accepted lately and presses again; with the key of before, a new one, or none.
    fn draw_press(&mut self) -> Act {
        // Who got no clear answer tries the same again, mostly at once.
        if self.dice.chance(40)
            && let Some((buyer, mut key, mut quantity)) = self.unsure.pop()
        {
            // Or less, as something new.
            if quantity > 1 && self.dice.chance(80) {
                quantity -= 1;
                key = key.map(|key| format!("{key}-less"));
            }
            return self.press_of(buyer, key, quantity);
        }
        let buyer = match self.lately.last() {
            Some(buyer) if self.dice.chance(15) => *buyer,
            _ if self.weather.eager > 0 && self.dice.chance(80) => self.dice.below(self.weather.eager),
            _ => self.dice.below(self.weather.buyers),
        };
        let tries = if buyer < self.weather.eager { 12 } else { 3 };
        let key = match self.dice.below(3) {
            0 => None,
            1 => Some(format!("key-{buyer}")),
            _ => Some(format!("key-{buyer}-{}", self.dice.below(tries))),
        };
        let quantity = if self.dice.chance(self.weather.pairs) { 2 } else { 1 };
        self.press_of(buyer, key, quantity)
    }

    /// A press at some running function, by somebody who looked at the shop just before, or did not.
    fn press_of(&mut self, buyer: usize, key: Option<String>, quantity: u32) -> Act {
        let environment = self.dice.below(ENVIRONMENTS);
        Act::Press { buyer, key, quantity, environment, informed: self.dice.chance(50) }
    }

    /// One of the latest orders, mostly: they are the ones that still wait.
    fn some_order(&mut self) -> (usize, Back) {
        let latest = if self.dice.chance(80) { 5 } else { self.lately.len() };
        let buyer = self.lately.iter().rev().nth(self.dice.below(latest)).copied();
        (buyer.unwrap_or(0), usize::from(self.dice.chance(10)))
    }

    /// An order like this, mostly: most orders are not, and nothing comes of asking for it.
    fn order_that(&mut self, is_like_this: impl Fn(&Order) -> bool) -> (usize, Back) {
        let like_this: Vec<(usize, Back)> =
            self.watch.orders().filter(|order| is_like_this(order)).filter_map(|order| self.place_of(order)).collect();
        match like_this.get(self.dice.below(like_this.len())) {
            Some(place) if self.dice.chance(80) => *place,
            _ => self.some_order(),
        }
    }

    /// Whose order it is, and which of theirs, if it was accepted.
    fn place_of(&self, order: &Order) -> Option<(usize, Back)> {
        let mut buyers = self.orders.iter();
        buyers.find_map(|(buyer, orders)| Some((*buyer, orders.iter().rev().position(|id| *id == order.id)?)))
    }

    fn draw_payment(&mut self) -> Act {
        let (mut buyer, _) = self.order_that(|order| order.payment.is_some());
        if !self.payments.contains_key(&buyer) {
            let which = self.dice.below(self.payments.len());
            buyer = self.payments.keys().nth(which).copied().unwrap_or(0);
        }
        let what = match self.dice.below(12) {
            0 => Paying::Failed,
            1 => Paying::ToldAgain,
            2..6 => Paying::PaidLate,
            _ => Paying::Paid,
        };
        Act::AtTheProvider { buyer, back: usize::from(self.dice.chance(25)), what }
    }
}
