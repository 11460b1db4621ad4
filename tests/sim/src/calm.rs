//! The calm after the storm: faults stop, everybody finishes, time passes and queues drain. Then everything must be right.

use domain::claim::{Claim, ClaimState};
use domain::ids::OrderId;
use domain::order::Status;
use domain::sale::SaleChange;
use local_cloud::wire::Fault;
use testkit::books::Books;
use testkit::scheduler::act;
use testkit::world::names;

use crate::actors::name;
use crate::run::{POINTS, Sim};

/// Polls of actors who wait for nothing, before that is an error.
const PATIENCE: usize = 1_000;
/// Rounds in which everything must have come right, and how long each is, in seconds: WeChat Pay v2 closes nothing within five
/// minutes, and a refund is tried again after up to an hour.
const ROUNDS: [u64; 12] = [400, 400, 400, 400, 3_700, 3_700, 3_700, 3_700, 3_700, 3_700, 3_700, 3_700];

impl Sim {
    pub(crate) async fn calm(&mut self) -> Result<(), String> {
        self.note("calm".into());
        self.everybody_finishes().await?;
        // What the storm's own readers of the stream have left out would be left out for good.
        self.observer.has_streamed_to(self.position.clone());
        let all = tables();
        let mut last = None;
        for pause_s in ROUNDS {
            self.observer.pass(pause_s.max(self.until_the_next_notice().await));
            let late = self.wire.late();
            let found = self.observer.reconcile().await;
            for (kind, _) in reconcile::repairs(&found).into_iter().filter(|(_, times)| *times > 0) {
                self.mark(format!("metric ReconcileRepairs {kind}"));
            }
            let arrived = self.observer.consume().await
                + self.observer.deadlines().await
                + self.observer.stream().await
                + self.observer.notices().await;
            self.observer.settle_down().await;
            self.watch.check(&self.observer, &all).await?;
            let is_quiet = found.found_nothing()
                && found.refunds_open == 0
                && arrived == 0
                && late == 0
                && self.until_the_next_notice().await == 0;
            // Some calls wander until everything that they were about has been put right without them.
            self.late_calls_arrive(0).await?;
            last = (!is_quiet).then_some(found);
            if is_quiet {
                break;
            }
        }
        match last {
            Some(found) => Err(format!("reconcile finds something again and again: {found:?}")),
            None => self.everything_came_right().await,
        }
    }

    /// Seconds until a provider sends its next notice; 0 if it has none.
    async fn until_the_next_notice(&self) -> u64 {
        let next_ms = self.observer.cloud.sandbox.next_notice_ms().await.unwrap();
        next_ms.map_or(0, |at_ms| u64::try_from((at_ms - self.observer.clock.now_ms()) / 1_000).unwrap_or(0) + 1)
    }

    async fn everybody_finishes(&mut self) -> Result<(), String> {
        let mut patience = PATIENCE;
        while !self.actors.is_empty() {
            self.poll_all()?;
            match self.turns.actors().first() {
                Some(actor) => self.call(*actor, 0, Fault::None).await?,
                None if patience == 0 => {
                    let who: Vec<&str> = self.actors.iter().map(|actor| actor.environment.0.name()).collect();
                    return Err(format!("somebody waits for nothing: {who:?}"));
                }
                None => patience -= 1,
            }
        }
        self.late_calls_arrive(self.wire.late() / 2).await
    }

    async fn late_calls_arrive(&mut self, left: usize) -> Result<(), String> {
        while self.wire.late() > left {
            self.arrives(0).await?;
        }
        act(0);
        Ok(())
    }

    async fn everything_came_right(&mut self) -> Result<(), String> {
        if let Some(order) = self.orders.values().flatten().find(|order| self.watch.order(order).is_none()) {
            return Err(format!("order {order} was accepted, and there is no such order"));
        }
        let failed = |order: &&OrderId| self.watch.order(order).is_some_and(|order| order.status == Status::Failed);
        if let Some(order) = self.orders.values().flatten().find(failed) {
            return Err(format!("order {order} was accepted, and failed"));
        }
        let books = self.observer.books(&self.offer).await;
        self.count_ends(&books);
        let ended = books.orders.values().filter(|order| order.status != Status::Failed);
        let ended: Vec<OrderId> = ended.map(|order| order.id.clone()).collect();
        self.observer.books_agree(&self.offer, &ended).await?;
        self.points_agree(&books)?;
        self.claims_agree(&books)?;
        movements_are_known(&books)?;
        let total = u32::try_from(self.observer.item(&self.offer).await.layout.total()).unwrap();
        let stocked = self.weather.stocks.iter().sum::<u32>() + u32::try_from(self.restocks.len()).unwrap();
        let delivered = stocked - u32::try_from(self.restocks.len() - self.restocked.len()).unwrap();
        if !(delivered..=stocked).contains(&total) {
            return Err(format!("there are {total} units: {stocked} were delivered, {delivered} of them for sure"));
        }
        let paid = books.orders.values().filter(|order| order.status == Status::Paid);
        let sold: u32 = paid.map(|order| order.quantity).sum();
        let figures = self.observer.figures(&self.offer).await;
        if figures != (total - sold, 0, sold) {
            return Err(format!("{sold} of {total} units are paid for: (free, held, sold) = {figures:?}"));
        }
        self.everything_can_be_sold(&books).await
    }

    fn count_ends(&self, books: &Books) {
        for order in books.orders.values() {
            self.mark(format!("end {}", order.status.as_str()));
        }
        for entry in books.ledger.values().flatten().filter(|entry| *entry == "STOCK#REVIVE") {
            self.mark(format!("end {entry}"));
        }
    }

    /// A claim without stock, whose buyer never came back, keeps nobody from anything: the next press goes on with it, as is tried in the
    /// end. Any other is a paid order's.
    fn claims_agree(&self, books: &Books) -> Result<(), String> {
        let is_paid = |order: &OrderId| books.orders.get(order).is_some_and(|order| order.status == Status::Paid);
        let stuck = |claim: &&Claim| claim.state != ClaimState::Held && !is_paid(&claim.order);
        match books.claims.values().flat_map(|claims| claims.values()).find(stuck) {
            Some(claim) => Err(format!("a claim is still there: {claim:?}")),
            None => Ok(()),
        }
    }

    /// Whoever has left a try unfinished can buy, while there is something; then others can buy all of the rest.
    async fn everything_can_be_sold(&self, books: &Books) -> Result<(), String> {
        let (store, now) = (&self.observer.store, self.observer.now());
        flows::sale::set_up::change(store, &self.offer.sale, SaleChange::Resume, now).await.unwrap();
        let seckill = self.observer.environment();
        for buyer in (0..self.weather.buyers).map(name) {
            let asked = self.observer.asks(&self.offer, &buyer, 1, None);
            let claim = books.claims.get(&asked.buyer_key).and_then(|claims| claims.get(&self.offer.item));
            let is_left = claim.is_some_and(|claim| claim.state == ClaimState::Held);
            if !is_left || self.observer.figures(&self.offer).await.0 == 0 {
                continue;
            }
            // A try for more than there is comes to its end first.
            let first = seckill.purchase(&asked).await;
            if first.is_err()
                && let Err(refusal) = seckill.purchase(&self.observer.asks(&self.offer, &buyer, 1, None)).await
            {
                return Err(format!("{buyer} has {claim:?}, and cannot buy: {first:?}, then {refusal:?}"));
            }
        }
        let (free, ..) = self.observer.figures(&self.offer).await;
        for unit in 0..free {
            let asked = self.observer.asks(&self.offer, &format!("late buyer {unit}"), 1, None);
            if let Err(refusal) = seckill.purchase(&asked).await {
                return Err(format!("unit {unit} of {free} cannot be sold any more: {refusal:?}"));
            }
        }
        Ok(())
    }

    /// A buyer's points are those given, less those that paid for an order.
    fn points_agree(&self, books: &Books) -> Result<(), String> {
        for (buyer, has) in &books.accounts {
            let paid = books.orders.values().filter(|order| order.status == Status::Paid && order.id.buyer() == *buyer);
            let spent: i64 = paid.filter_map(|order| order.paid.as_ref()).map(|paid| paid.points).sum();
            if *has != (POINTS - spent, 0) {
                return Err(format!("{buyer} has spent {spent} of {POINTS} points and has {has:?}"));
            }
        }
        Ok(())
    }
}

/// Whatever happened to an order's units is in the ledger: they were taken, and then they came back or were sold.
fn movements_are_known(books: &Books) -> Result<(), String> {
    for order in books.orders.values() {
        let known = books.ledger.get(order.id.as_str()).map_or(&[][..], Vec::as_slice);
        let after: &[&str] = match order.status {
            Status::Closed => &["STOCK#ROLLBACK"],
            Status::Paid => &["STOCK#CONFIRM", "STOCK#REVIVE"],
            // Units that were not counted as sold when the money went back are simply released.
            Status::Refunded => &["STOCK#REFUND", "STOCK#ROLLBACK"],
            Status::PendingPayment | Status::Refunding | Status::Failed => continue,
        };
        let is_known = |movement: &&str| known.iter().any(|entry| entry == movement);
        if !is_known(&"STOCK#DEDUCT") || !after.iter().any(is_known) {
            return Err(format!("order {} is {}, and the ledger has {known:?}", order.id, order.status.as_str()));
        }
    }
    Ok(())
}

fn tables() -> Vec<String> {
    let names = names();
    vec![names.sales, names.stock, names.orders, names.accounts]
}
