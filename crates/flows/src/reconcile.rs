//! Every minute: whatever a crash left between two steps is finished, and the totals are proved.
//!
//! Reconcile walks the buckets of every sale that is looked after. Each holder that is old enough leads to its order and
//! its claim, and [`domain::repair::verdict`] says what to do. Then it goes through the entries of the pay and refund log that are marked
//! open: money that nobody has decided about, and refunds that are not done. All it does are the other flows' own steps, so it can run
//! twice, at the same time as they, or stop anywhere. A second run finds nothing to do.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use domain::Timestamp;
use domain::availability::{Page, PageNo, buckets_on, pages};
use domain::bucket::{Bucket, BucketNo};
use domain::ids::{Buyer, Offer, OrderId, SaleId};
use domain::message::{OrderMessage, VERSION};
use domain::order::{Order, Reason};
use domain::payment::{Method, OpenEntry};
use domain::repair::{GRACE, HolderVerdict, is_due, verdict};
use domain::sale::{Item, Phase, Sale, SaleWithItems};
use futures::stream::{self, StreamExt};
use jiff::SignedDuration;
use providers::Providers;
use store::{Store, StoreError};

use crate::audit::Totals;
use crate::close::{self, Cause, CloseOutcome};
use crate::place_order;
use crate::refund;
use crate::settle::{self, Settled, settle};
use crate::stock;
use crate::undone::FlowError;

/// Holders worked on at the same time.
const AT_ONCE: usize = 8;
/// A sale that is over and has nothing held for this long needs no more looking after. Longer than any request in flight.
const SETTLED_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// Time for money that is marked open, in one run.
const MONEY_FOR: Duration = Duration::from_secs(90);
/// Orders whose provider gave no answer, in one run, after which the other orders of that provider are left for the next: each costs seconds.
const PATIENCE: u32 = 16;
/// Time for laying out what preheats left undone, in one run.
const LAY_OUT_FOR: Duration = Duration::from_secs(60);

/// What one run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sales looked at.
    pub sales: u32,
    /// Holders looked at.
    pub holders: u64,
    /// Messages sent again.
    pub sent_again: u32,
    /// Orders closed whose schedule was lost.
    pub closed: u32,
    /// Closed or failed orders finished.
    pub finished: u32,
    /// Paid orders whose units are counted as sold now.
    pub confirmed: u32,
    /// Purchases that had lost their claim.
    pub failed: u32,
    /// Late holds returned.
    pub released: u32,
    /// Money that had arrived, decided about.
    pub settled_money: u32,
    /// Refunds done.
    pub refunded: u32,
    /// Refunds that are not done yet.
    pub refunds_open: u32,
    /// Buckets laid out.
    pub laid_out: u32,
    /// Buckets put right on their page.
    pub pages_mended: u32,
    /// Sales that need no more looking after.
    pub settled: u32,
    /// Units too few or too many, over all items, without their signs.
    pub drift: u64,
    /// What is wrong, in words.
    pub findings: Vec<String>,
    /// Steps that did not work this time.
    pub errors: Vec<String>,
}

impl Report {
    /// Whether anything had to be done.
    pub fn found_nothing(&self) -> bool {
        let quiet = Report {
            sales: self.sales,
            holders: self.holders,
            settled: self.settled,
            refunds_open: self.refunds_open,
            ..Report::default()
        };
        *self == quiet
    }

    fn count(&mut self, verdict: HolderVerdict) {
        match verdict {
            HolderVerdict::Leave => {}
            HolderVerdict::SendAgain => self.sent_again += 1,
            HolderVerdict::Close => self.closed += 1,
            HolderVerdict::FinishClose => self.finished += 1,
            HolderVerdict::Confirm => self.confirmed += 1,
            HolderVerdict::Fail => self.failed += 1,
            HolderVerdict::Release => self.released += 1,
        }
    }
}

/// Runs once. An error at one holder, item or sale does not keep the others from being looked at.
pub async fn reconcile(store: &Store, providers: &Providers, now: Timestamp) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let providers = &Patient { providers, silences: Default::default() };
    let lay_out_until = Instant::now() + LAY_OUT_FOR;
    for id in store.watched_sales().await? {
        report.sales += 1;
        if let Err(error) = sale(store, providers, &id, lay_out_until, now, &mut report).await {
            report.errors.push(format!("sale {id}: {error}"));
        }
    }
    report.errors.extend(providers.left_for_the_next_run());
    // Last, and for a while only: a provider that does not answer keeps nobody from having their sale looked after.
    if let Err(error) = money(store, providers.providers, now, Instant::now() + MONEY_FOR, &mut report).await {
        report.errors.push(format!("open payments and refunds: {error}"));
    }
    Ok(report)
}

/// Money that is marked open. What is not reached before `until` is looked at in the next run: what was tried in vain is not due
/// then.
async fn money(
    store: &Store,
    providers: &Providers,
    now: Timestamp,
    until: Instant,
    report: &mut Report,
) -> Result<(), StoreError> {
    for entry in store.open_entries().await? {
        if Instant::now() > until {
            report.errors.push("not all open payments and refunds could be looked at in this run".to_owned());
            break;
        }
        match entry {
            OpenEntry::Pay(entry) if now.duration_since(entry.at) < GRACE => {}
            OpenEntry::Pay(entry) => match settle(store, providers, &entry.arrived(), now).await {
                Ok(Settled::Wrong(_) | Settled::Unknown) => {
                    let transaction = &entry.with.transaction;
                    report.findings.push(format!("order {}: transaction {transaction} is for nothing", entry.order));
                }
                Ok(_) => report.settled_money += 1,
                Err(error) => report.errors.push(format!("order {}: {error}", entry.order)),
            },
            OpenEntry::Refund(entry) if !entry.is_due(now) => report.refunds_open += 1,
            OpenEntry::Refund(entry) => match refund::go_on(store, providers, &entry, now).await {
                Ok(true) => report.refunded += 1,
                Ok(false) => report.refunds_open += 1,
                Err(error) => {
                    report.refunds_open += 1;
                    report.errors.push(format!("refund of order {}: {error}", entry.order));
                }
            },
        }
    }
    Ok(())
}

async fn sale(
    store: &Store,
    providers: &Patient<'_>,
    id: &SaleId,
    lay_out_until: Instant,
    now: Timestamp,
    report: &mut Report,
) -> Result<(), StoreError> {
    let Some(SaleWithItems { sale, items }) = store.sale(id).await? else { return Ok(()) };
    let errors_before = report.errors.len();
    let mut held = 0;
    for item in items.values() {
        let offer = Offer { sale: id.clone(), item: item.id.clone() };
        match reconcile_item(store, providers, &offer, item, lay_out_until, now, report).await {
            Ok(item_held) => held += item_held,
            Err(error) => report.errors.push(format!("item {offer}: {error}")),
        }
    }
    if held == 0 && report.errors.len() == errors_before && is_over(&sale, now) {
        store.unwatch_sale(&sale).await?;
        report.settled += 1;
    }
    Ok(())
}

fn is_over(sale: &Sale, now: Timestamp) -> bool {
    let since = match sale.phase(now) {
        Phase::Ended => sale.ends_at.max(sale.changed_at),
        Phase::Closed => sale.changed_at,
        Phase::Draft | Phase::Scheduled | Phase::Open | Phase::Paused => return false,
    };
    now.duration_since(since) >= SETTLED_AFTER
}

/// Walks an item's buckets, page by page. Returns how many units are held.
async fn reconcile_item(
    store: &Store,
    providers: &Patient<'_>,
    offer: &Offer,
    item: &Item,
    lay_out_until: Instant,
    now: Timestamp,
    report: &mut Report,
) -> Result<u64, StoreError> {
    let buckets = item.layout.buckets();
    let laid_out = stock::lay_out_missing(store, offer, item, lay_out_until).await?;
    report.laid_out += laid_out - item.laid_out;
    let item = &Item { laid_out, ..item.clone() };
    let mut totals = Totals::default();
    for page in 0..pages(buckets) {
        let on_page = buckets_on(page, buckets);
        // Before its buckets: whatever opens after this turns the page, and it is not mended by what was seen earlier.
        let told = store.pages(offer, &[page]).await?.pop().map(|(_, told)| told);
        let read = store.buckets(offer, on_page.clone()).await?;
        totals.add(item, on_page.start, on_page.end, &read);
        holders(store, providers, offer, &read, now, report).await?;
        mend_page(store, offer, (page, on_page), told, &read, report).await?;
    }
    let audit = totals.audit(item);
    report.drift += audit.drift.unsigned_abs();
    report.findings.extend(audit.findings.into_iter().map(|finding| format!("{offer}: {finding}")));
    Ok(totals.held())
}

/// The providers, and how silent each of them was in this run.
struct Patient<'a> {
    providers: &'a Providers,
    silences: Mutex<BTreeMap<Method, Silence>>,
}

/// A provider that does not answer.
#[derive(Debug, Default)]
struct Silence {
    /// Orders that it gave no answer for.
    asked: u32,
    /// Orders that it was not asked for any more.
    left: u32,
}

impl Patient<'_> {
    /// Whether it is worth asking the provider of an order's open payment, if it has one. An order that it is not worth it for is
    /// noted as left for the next run.
    fn is_asked_for(&self, order: Option<&Order>) -> bool {
        let open = order.and_then(|order| order.attempts.get(usize::from(order.payment.as_ref()?.attempt)));
        let Some(attempt) = open else { return true };
        let mut silences = self.silences.lock().unwrap_or_else(PoisonError::into_inner);
        match silences.get_mut(&attempt.method) {
            Some(silence) if silence.asked >= PATIENCE => {
                silence.left += 1;
                false
            }
            _ => true,
        }
    }

    /// A no is an answer: it comes at once, and says nothing of the other orders.
    fn note(&self, error: &FlowError) {
        if let FlowError::Provider { method, trouble } = error
            && trouble.may_pass()
        {
            self.silences.lock().unwrap_or_else(PoisonError::into_inner).entry(*method).or_default().asked += 1;
        }
    }

    /// A line for each provider that orders were left for the next run because of.
    fn left_for_the_next_run(&self) -> Vec<String> {
        let silences = self.silences.lock().unwrap_or_else(PoisonError::into_inner);
        let left = silences.iter().map(|(method, silence)| (method, silence.left)).filter(|(_, left)| *left > 0);
        left.map(|(method, left)| format!("{method} does not answer: {left} orders are left for the next run"))
            .collect()
    }
}

/// A holder that is old enough to be looked at.
struct Holder {
    bucket: BucketNo,
    order: OrderId,
    quantity: u32,
}

async fn holders(
    store: &Store,
    providers: &Patient<'_>,
    offer: &Offer,
    read: &[(BucketNo, Bucket)],
    now: Timestamp,
    report: &mut Report,
) -> Result<(), StoreError> {
    let due: Vec<Holder> = read
        .iter()
        .flat_map(|(number, bucket)| bucket.holders.iter().map(move |(order, quantity)| (*number, order, *quantity)))
        .filter(|(_, order, _)| is_due(order, now))
        .map(|(bucket, order, quantity)| Holder { bucket, order: order.clone(), quantity })
        .collect();
    report.holders += u64::try_from(due.len()).unwrap_or(u64::MAX);
    let orders = store.orders(due.iter().map(|holder| &holder.order).collect::<BTreeSet<_>>()).await?;
    let done: Vec<(OrderId, Result<HolderVerdict, FlowError>)> = stream::iter(due)
        .map(|holder| {
            let order = orders.get(&holder.order);
            async move { (holder.order.clone(), put_right(store, providers, offer, &holder, order, now).await) }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    for (order, result) in done {
        match result {
            Ok(HolderVerdict::Leave) => {}
            Ok(verdict) => {
                let trace = orders.get(&order).and_then(|order| order.trace.as_deref());
                tracing::info!(order_id = %order, trace, ?verdict, "reconciled");
                report.count(verdict);
            }
            Err(error) => report.errors.push(format!("order {order}: {error}")),
        }
    }
    Ok(())
}

async fn put_right(
    store: &Store,
    providers: &Patient<'_>,
    offer: &Offer,
    holder: &Holder,
    order: Option<&Order>,
    now: Timestamp,
) -> Result<HolderVerdict, FlowError> {
    let Holder { bucket, order: id, quantity } = holder;
    // Most holders belong to orders that are waiting for their payment, and are told by the order alone.
    let (claims, buyer) = match order {
        Some(_) => Default::default(),
        None => store.claims(&id.buyer(), &offer.sale).await?,
    };
    let claim = claims.claims.get(&offer.item);
    let verdict = verdict(id, *bucket, order, claim, now);
    // Without any trace of the buyer's name the failed order goes by the short one: it must be recorded all the same, because the
    // record is what makes returning the units right.
    let named = buyer.or_else(|| order.map(|order| order.buyer_name.clone()));
    let buyer = match named {
        Some(buyer) => buyer,
        None => Buyer::parse(id.buyer().as_str())
            .map_err(|error| StoreError::Permanent { operation: "reconcile", detail: error.to_string() })?,
    };
    let message = || OrderMessage {
        version: VERSION,
        order_id: id.clone(),
        buyer: buyer.clone(),
        sale_id: offer.sale.clone(),
        item_id: offer.item.clone(),
        quantity: *quantity,
        bucket: *bucket,
        trace: None,
    };
    match verdict {
        HolderVerdict::Leave => {}
        HolderVerdict::SendAgain => store.send_order(&message()).await?,
        HolderVerdict::Close => {
            if !providers.is_asked_for(order) {
                return Ok(HolderVerdict::Leave);
            }
            let closing = close::close(store, providers.providers, id, Cause::Deadline, now).await;
            return Ok(match closing.inspect_err(|error| providers.note(error))? {
                CloseOutcome::Closed(_) => HolderVerdict::Close,
                // Its provider says so, and it is settled by that.
                CloseOutcome::Paid(_) => HolderVerdict::Confirm,
                // Somebody else was first, or its provider does not close it yet: what is left of it is looked at again in a minute.
                CloseOutcome::Before(_)
                | CloseOutcome::NotDue(_)
                | CloseOutcome::NotBefore(..)
                | CloseOutcome::Refused(_)
                | CloseOutcome::Unknown => HolderVerdict::Leave,
            });
        }
        HolderVerdict::FinishClose => {
            if let Some(order) = order {
                close::finish(store, order).await?;
            }
        }
        HolderVerdict::Confirm => {
            if let Some(order) = order {
                settle::finish(store, order, now).await?;
            }
        }
        HolderVerdict::Fail => {
            place_order::fail(store, &message(), Reason::ClaimLost, now).await?;
        }
        HolderVerdict::Release => {
            store.release(offer, *bucket, id, *quantity).await?;
        }
    }
    Ok(verdict)
}

/// Puts a page right that does not tell what its buckets are, as they were seen after it. The stream may be behind: what it will say is not
/// wrong yet, and saying it first does no harm. A page that has turned meanwhile is not closed on: the next run looks again.
async fn mend_page(
    store: &Store,
    offer: &Offer,
    (page, on_page): (PageNo, Range<BucketNo>),
    told: Option<Page>,
    read: &[(BucketNo, Bucket)],
    report: &mut Report,
) -> Result<(), StoreError> {
    let open: BTreeSet<BucketNo> =
        read.iter().filter(|(_, bucket)| bucket.free > 0).map(|(number, _)| *number).collect();
    let (told_open, version) = match told {
        Some(told) => (told.open, told.version),
        None => (on_page.collect(), 0),
    };
    let closed: BTreeSet<BucketNo> = &told_open - &open;
    // Of a page that nothing was told of, everything counts as open. The first thing told ends that: tell all of it.
    let opened = if version == 0 && !closed.is_empty() { open } else { &open - &told_open };
    let mut mended = opened.len();
    if version > 0 || opened.is_empty() {
        let is_closed = closed.is_empty() || store.close_on_page(offer, page, &closed, version).await?.is_none();
        mended += if is_closed { closed.len() } else { 0 };
    }
    store.open_on_page(offer, page, &opened).await?;
    report.pages_mended += u32::try_from(mended).unwrap_or(u32::MAX);
    Ok(())
}
