//! The settling phase of a run, and the checks after it. Faults stop, all actors finish, time passes and queues
//! drain. Then every record must agree and every unit must be sellable.

use domain::bucket::MovementKind;
use domain::claim::{Claim, ClaimState};
use domain::ids::OrderId;
use domain::order::Status;
use domain::sale::SaleChange;
use local_cloud::wire::Fault;
use testkit::records::Records;
use testkit::scheduler::set_actor;
use testkit::world::names;

use crate::actors::name;
use crate::run::{POINTS, Sim};

/// How often actors without a pending call are polled before that is an error.
const MAX_IDLE_POLLS: usize = 1_000;
/// The lengths of the rounds in which everything must settle, in seconds. WeChat Pay v2 closes no payment within five
/// minutes, and a refund is retried after up to an hour.
const ROUNDS_S: [u64; 12] = [400, 400, 400, 400, 3_700, 3_700, 3_700, 3_700, 3_700, 3_700, 3_700, 3_700];

impl Sim {
    pub(crate) async fn settle_and_check(&mut self) -> Result<(), String> {
        self.note("settling: no more faults".into());
        self.restore_row_version().await;
        self.finish_actors().await?;
        // The settling phase continues where the simulated reader stopped: records that it skipped stay skipped.
        self.observer.set_stream_position(self.position.clone());
        let all = tables();
        let mut last = None;
        for pause_s in ROUNDS_S {
            self.observer.pass(pause_s.max(self.until_the_next_notice().await));
            let late = self.wire.late();
            let found = self.observer.reconcile().await;
            for (kind, _) in reconcile::repairs(&found).into_iter().filter(|(_, times)| *times > 0) {
                self.mark(format!("metric ReconcileRepairs {kind}"));
            }
            let arrived = self.observer.consume().await
                + self.observer.deadlines().await
                + self.observer.stream().await
                + self.observer.deliver_notices().await;
            self.observer.settle_down().await;
            self.safety.check(&self.observer, &all).await?;
            let is_quiet = found.found_nothing()
                && found.refunds_open == Some(0)
                && !found.walk_skipped
                && arrived == 0
                && late == 0
                // An order whose payment is confirmed and not made waits for a while after its deadline.
                && self.observer.figures(&self.offer).await.1 == 0
                && self.until_the_next_notice().await == 0;
            // Some calls arrive only after everything has been repaired without them.
            self.late_calls_arrive(0).await?;
            last = (!is_quiet).then_some(found);
            if is_quiet {
                break;
            }
        }
        match last {
            Some(found) => Err(format!("it does not settle, reconcile still repairs: {found:?}")),
            None => self.check_settled().await,
        }
    }

    /// Seconds until a provider sends its next notice; 0 if it has none.
    async fn until_the_next_notice(&self) -> u64 {
        let next_ms = self.observer.cloud.sandbox.next_notice_ms().await.unwrap();
        next_ms.map_or(0, |at_ms| u64::try_from((at_ms - self.observer.clock.now_ms()) / 1_000).unwrap_or(0) + 1)
    }

    async fn finish_actors(&mut self) -> Result<(), String> {
        let mut idle_polls = 0;
        while !self.actors.is_empty() {
            self.poll_all()?;
            match self.calls.actors().first() {
                Some(actor) => self.call(*actor, 0, Fault::None).await?,
                None if idle_polls == MAX_IDLE_POLLS => {
                    let who: Vec<&str> = self.actors.iter().map(|actor| actor.environment.0.name()).collect();
                    return Err(format!("these functions wait, and not for a call: {who:?}"));
                }
                None => idle_polls += 1,
            }
        }
        self.late_calls_arrive(self.wire.late() / 2).await
    }

    async fn late_calls_arrive(&mut self, left: usize) -> Result<(), String> {
        while self.wire.late() > left {
            self.late_call_arrives(0).await?;
        }
        set_actor(0);
        Ok(())
    }

    async fn check_settled(&mut self) -> Result<(), String> {
        if let Some(order) = self.orders.values().flatten().find(|order| self.safety.order(order).is_none()) {
            return Err(format!("order {order} was accepted but does not exist"));
        }
        let failed = |order: &&OrderId| self.safety.order(order).is_some_and(|order| order.status == Status::Failed);
        if let Some(order) = self.orders.values().flatten().find(failed) {
            return Err(format!("order {order} was accepted but is FAILED"));
        }
        for (id, quantity) in &self.quantities {
            if let Some(order) = self.safety.order(id).filter(|order| order.quantity != *quantity) {
                return Err(format!("order {id} was answered with {quantity} units, but has {}", order.quantity));
            }
        }
        let records = self.observer.records(&self.offer).await;
        self.count_ends(&records);
        let ended = records.orders.values().filter(|order| order.status != Status::Failed);
        let ended: Vec<OrderId> = ended.map(|order| order.id.clone()).collect();
        self.observer.records_agree(&self.offer, &ended).await?;
        self.points_agree(&records)?;
        self.claims_agree(&records)?;
        movements_agree(&records)?;
        let total = u32::try_from(self.observer.item(&self.offer).await.layout.total()).unwrap();
        let stocked = self.conditions.stocks.iter().sum::<u32>() + u32::try_from(self.restocks.len()).unwrap();
        let delivered = stocked - u32::try_from(self.restocks.len() - self.restocked.len()).unwrap();
        if !(delivered..=stocked).contains(&total) {
            return Err(format!("there are {total} units, and there must be {delivered} to {stocked}"));
        }
        let paid = records.orders.values().filter(|order| order.status == Status::Paid);
        let sold: u32 = paid.map(|order| order.quantity).sum();
        let figures = self.observer.figures(&self.offer).await;
        if figures != (total - sold, 0, sold) {
            return Err(format!("{sold} of {total} units are paid for, but (free, held, sold) = {figures:?}"));
        }
        self.check_everything_can_be_sold(&records).await
    }

    fn count_ends(&self, records: &Records) {
        for order in records.orders.values() {
            self.mark(format!("end {}", order.status.as_str()));
        }
        if records.ledger.values().flatten().any(|entry| MovementKind::Revive.has_entry(entry)) {
            self.mark(format!("end {}", MovementKind::Revive.entry()));
        }
    }

    /// Every claim belongs to a paid order. The exception is a claim without units whose buyer never returned: the
    /// buyer's next press resumes it, which the last check tries.
    fn claims_agree(&self, records: &Records) -> Result<(), String> {
        let is_paid = |order: &OrderId| records.orders.get(order).is_some_and(|order| order.status == Status::Paid);
        let stuck = |claim: &&Claim| claim.state != ClaimState::Held && !is_paid(&claim.order);
        match records.claims.values().flat_map(|claims| claims.values()).find(stuck) {
            Some(claim) => Err(format!("a claim is left over: {claim:?}")),
            None => Ok(()),
        }
    }

    /// Buyers with an unfinished attempt can buy while units are free; then new buyers can buy all remaining units.
    async fn check_everything_can_be_sold(&self, records: &Records) -> Result<(), String> {
        let (store, now) = (&self.observer.store, self.observer.now());
        flows::sale::set_up::change(store, &self.offer.sale, SaleChange::Resume, now).await.unwrap();
        let seckill = self.observer.environment();
        for buyer in (0..self.conditions.buyers).map(name) {
            let asked = self.observer.asks(&self.offer, &buyer, 1, None);
            let claim = records.claims.get(&asked.buyer_key).and_then(|claims| claims.get(&self.offer.item));
            let is_unfinished = claim.is_some_and(|claim| claim.state == ClaimState::Held);
            if !is_unfinished || self.observer.figures(&self.offer).await.0 == 0 {
                continue;
            }
            // An attempt for more units than are free is withdrawn first, so the buyer has to press twice.
            let first = seckill.purchase(&asked).await;
            if first.is_err()
                && let Err(refusal) = seckill.purchase(&self.observer.asks(&self.offer, &buyer, 1, None)).await
            {
                return Err(format!("{buyer} has {claim:?} and cannot buy: {first:?}, then {refusal:?}"));
            }
        }
        let (free, ..) = self.observer.figures(&self.offer).await;
        for unit in 0..free {
            let asked = self.observer.asks(&self.offer, &format!("late buyer {unit}"), 1, None);
            if let Err(refusal) = seckill.purchase(&asked).await {
                return Err(format!("unit {unit} of {free} free units cannot be sold: {refusal:?}"));
            }
        }
        Ok(())
    }

    /// A buyer has the points that were given, less those that paid for an order.
    fn points_agree(&self, records: &Records) -> Result<(), String> {
        for (buyer, has) in &records.accounts {
            let paid =
                records.orders.values().filter(|order| order.status == Status::Paid && order.id.buyer() == *buyer);
            let spent: i64 = paid.filter_map(|order| order.paid.as_ref()).map(|paid| paid.points).sum();
            if *has != (POINTS - spent, 0) {
                return Err(format!("{buyer} has spent {spent} of {POINTS} points, and (balance, frozen) = {has:?}"));
            }
        }
        Ok(())
    }
}

/// The ledger has every movement of every order's units, once: what was held was returned or sold, what was sold and
/// not refunded is paid for, and every order that had units has the movement that its end asks for.
fn movements_agree(records: &Records) -> Result<(), String> {
    for (id, entries) in &records.ledger {
        let count = |kind: MovementKind| entries.iter().filter(|entry| kind.has_entry(entry)).count();
        let held = count(MovementKind::Deduct);
        let sold = count(MovementKind::Confirm) + count(MovementKind::Revive);
        let order = OrderId::parse(id).ok().and_then(|id| records.orders.get(&id));
        let paid = order.is_some_and(|order| order.status == Status::Paid);
        if held != count(MovementKind::RollBack) + count(MovementKind::Confirm)
            || sold != count(MovementKind::Refund) + usize::from(paid)
        {
            return Err(format!("the movements of order {id} do not add up: {entries:?}"));
        }
    }
    for order in records.orders.values() {
        let known = records.ledger.get(order.id.as_str()).map_or(&[][..], Vec::as_slice);
        let after: &[MovementKind] = match order.status {
            Status::Closed => &[MovementKind::RollBack],
            Status::Paid => &[MovementKind::Confirm, MovementKind::Revive],
            // Units that were refunded before they were counted as sold are simply released.
            Status::Refunded => &[MovementKind::Refund, MovementKind::RollBack],
            Status::PendingPayment | Status::Refunding | Status::Failed => continue,
        };
        let is_known = |movement: &MovementKind| known.iter().any(|entry| movement.has_entry(entry));
        if !is_known(&MovementKind::Deduct) || !after.iter().any(is_known) {
            return Err(format!("order {} is {}, but the ledger has {known:?}", order.id, order.status.as_str()));
        }
    }
    Ok(())
}

fn tables() -> Vec<String> {
    let names = names();
    vec![names.sales, names.stock, names.orders, names.accounts]
}
