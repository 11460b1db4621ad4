//! More buyers than units press at once, at the real binaries over HTTP: exactly what there is is sold, once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use hdrhistogram::Histogram;
use local_cloud::clock::Clock;
use local_cloud::run::{LocalCloud, Options as CloudOptions};
use local_cloud::wire::Wire;
use seckill_tests::http::{Api, User, sale_form};
use seckill_tests::progress;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::load::{float, histogram, percentile_ms, record};
use crate::report::Section;
use crate::{Options, Problem};

/// Every so many-th buyer presses again after being accepted, and must be refused.
const PRESSES_AGAIN: usize = 10;
/// How often a buyer comes back who was told to come again later.
const TRIES: u32 = 200;
const COME_BACK_AFTER: Duration = Duration::from_millis(50);
/// Unpaid orders must not run out while the crowd is still there.
const PAYMENT_WINDOW_S: u32 = 86_400;
/// How often it is looked whether the orders have been made.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The crowd, and what has come of it so far.
struct Crowd {
    buyers: Vec<User>,
    press: Value,
    next: AtomicUsize,
    accepted: AtomicU32,
    refused: AtomicU32,
    sent_back: AtomicU32,
}

/// What one of the clients saw.
struct Seen {
    /// Orders, and when the buyer knew of them, in milliseconds since 1970.
    orders: Vec<(String, i64)>,
    accepted_us: Histogram<u64>,
    refused_us: Histogram<u64>,
    first_refusal: Option<Instant>,
    last_acceptance: Option<Instant>,
    second_presses: u64,
}

enum Verdict {
    Accepted(String),
    SoldOut,
    Duplicate,
}

pub(crate) async fn measure(options: &Options) -> Result<Section, Problem> {
    let directory = tempfile::tempdir()?;
    let cloud = LocalCloud::start(&cloud_options(options, directory.path())?).await?;
    let operator = Api::new(cloud.base_url()).user("operator", "seckill/admin").await;
    let now = domain::Timestamp::from_millisecond(Clock::wall().now_ms())?;
    let sale = operator.open_sale(&sale_form(now, options.units, 1, PAYMENT_WINDOW_S)).await?;
    let crowd = Arc::new(gather(&cloud, options, &sale).await?);

    let at_most = Duration::from_secs(options.give_up_minutes.saturating_mul(60));
    let selling = sell(&cloud, &operator, &crowd, &sale, options);
    let sold = tokio::time::timeout(at_most, selling).await;
    let section = match sold {
        Ok(section) => section?,
        Err(_) => return Err(gave_up(&crowd, options).into()),
    };
    cloud.stop().await;
    Ok(section)
}

fn gave_up(crowd: &Crowd, options: &Options) -> String {
    format!(
        "gave up on the crowd after {} minutes: {} of {} buyers had pressed, {} were accepted and {} refused; \
         make the crowd smaller (--buyers, --units) or wait longer (--give-up-minutes)",
        options.give_up_minutes,
        crowd.next.load(Ordering::Relaxed).min(crowd.buyers.len()),
        crowd.buyers.len(),
        crowd.accepted.load(Ordering::Relaxed),
        crowd.refused.load(Ordering::Relaxed),
    )
}

fn cloud_options(options: &Options, directory: &Path) -> Result<CloudOptions, Problem> {
    Ok(CloudOptions {
        template: options.template.clone(),
        port: 0,
        data_dir: directory.join("data"),
        binaries: options.binaries()?,
        no_demo: true,
        ..CloudOptions::default()
    })
}

/// The buyers with their tokens, which are made before anything is measured.
async fn gather(cloud: &LocalCloud, options: &Options, sale: &str) -> Result<Crowd, Problem> {
    eprintln!("  crowd: {} tokens …", options.buyers);
    let api = &Api::new(cloud.base_url());
    let users =
        stream::iter(0..options.buyers).map(|number| async move { api.user(&format!("buyer-{number}"), "").await });
    Ok(Crowd {
        buyers: users.buffer_unordered(64).collect().await,
        press: json!({ "saleId": sale, "itemId": "phone", "quantity": 1 }),
        next: AtomicUsize::new(0),
        accepted: AtomicU32::new(0),
        refused: AtomicU32::new(0),
        sent_back: AtomicU32::new(0),
    })
}

async fn sell(
    cloud: &LocalCloud,
    operator: &User,
    crowd: &Arc<Crowd>,
    sale: &str,
    options: &Options,
) -> Result<Section, Problem> {
    let (began, began_ms) = (Instant::now(), Clock::wall().now_ms());
    let mut clients = JoinSet::new();
    for _ in 0..options.clients {
        clients.spawn(client(Arc::clone(crowd)));
    }
    let (seen, progress) = (all_seen(&mut clients), progress(cloud, crowd));
    let seen = tokio::select! {
        seen = seen => seen?,
        problem = progress => return Err(problem),
    };
    let pressed = began.elapsed();
    let audit = until_ordered(cloud, crowd, operator, sale, options.to_sell()).await?;
    check(&seen, &audit, options)?;

    let made_ms = orders_made(cloud).await?;
    let mut lag_us = histogram()?;
    for (order, known_ms) in &seen.orders {
        let made_ms = made_ms.get(order).ok_or_else(|| format!("order {order} has no payment deadline"))?;
        record(&mut lag_us, Duration::from_millis(u64::try_from(made_ms - known_ms).unwrap_or(0)));
    }
    let last_made_ms = made_ms.values().copied().max().unwrap_or(began_ms);
    let persisted_s = Duration::from_millis(u64::try_from(last_made_ms - began_ms)?).as_secs_f64();

    let mut section = Section::new(format!(
        "A crowd at the real binaries over HTTP: {} buyers, {} units, {} at a time",
        options.buyers, options.units, options.clients
    ));
    section.add("orders in the end, each of another buyer", float(u64::try_from(seen.orders.len())?), "orders");
    for (name, figure) in [("units left over", "free"), ("units that do not add up (drift)", "drift")] {
        section.add(name, audit.get(figure).and_then(Value::as_f64).unwrap_or(f64::NAN), "units");
    }
    section.add("second presses of accepted buyers, all refused", float(seen.second_presses), "presses");
    let accepting_s = seen.last_acceptance.map_or(pressed, |last| last - began).as_secs_f64();
    section.add("accepted, until the last unit", f64::from(options.to_sell()) / accepting_s, "/s");
    section.add(
        "orders persisted, from the first press to the last order",
        f64::from(options.to_sell()) / persisted_s,
        "/s",
    );
    if let Some(first_refusal) = seen.first_refusal {
        let refusing_s = (began + pressed - first_refusal).as_secs_f64();
        section.add("refused, from the first to the last", float(seen.refused_us.len()) / refusing_s, "/s");
    }
    for (what, latency_us) in [("202", &seen.accepted_us), ("SOLD_OUT", &seen.refused_us)] {
        section.add(format!("press → {what}, half within"), percentile_ms(latency_us, 50.0), "ms");
        section.add(format!("press → {what}, 99 % within"), percentile_ms(latency_us, 99.0), "ms");
    }
    section.add("202 → order with its deadline, half within", percentile_ms(&lag_us, 50.0), "ms");
    section.add("202 → order with its deadline, 99 % within", percentile_ms(&lag_us, 99.0), "ms");
    section.add("told to come back (429, 503)", f64::from(crowd.sent_back.load(Ordering::Relaxed)), "presses");
    section.add("from the first press to the last answer", pressed.as_secs_f64(), "s");
    Ok(section)
}

/// One of those who press at the same time: takes the next buyer until there is none.
async fn client(crowd: Arc<Crowd>) -> Result<Seen, Problem> {
    let clock = Clock::wall();
    let mut seen = Seen::nothing()?;
    loop {
        let number = crowd.next.fetch_add(1, Ordering::Relaxed);
        let Some(buyer) = crowd.buyers.get(number) else { return Ok(seen) };
        let (verdict, took) = press(&crowd, buyer).await?;
        match verdict {
            Verdict::Accepted(order) => {
                seen.orders.push((order, clock.now_ms()));
                seen.last_acceptance = Some(Instant::now());
                record(&mut seen.accepted_us, took);
                crowd.accepted.fetch_add(1, Ordering::Relaxed);
                if number.is_multiple_of(PRESSES_AGAIN) {
                    seen.second_presses += 1;
                    // When the last unit is gone the gate refuses everybody, without a look at who is asking.
                    if let (Verdict::Accepted(order), _) = press(&crowd, buyer).await? {
                        return Err(format!("buyer {number} has an order and was accepted again with {order}").into());
                    }
                }
            }
            Verdict::SoldOut => {
                seen.first_refusal.get_or_insert_with(Instant::now);
                record(&mut seen.refused_us, took);
                crowd.refused.fetch_add(1, Ordering::Relaxed);
            }
            Verdict::Duplicate => return Err(format!("buyer {number} pressed once and is told of an order").into()),
        }
    }
}

/// Presses until there is an answer that is not "later". Gives how long that answer took.
async fn press(crowd: &Crowd, buyer: &User) -> Result<(Verdict, Duration), Problem> {
    for _ in 0..TRIES {
        let began = Instant::now();
        let answer = buyer.post("/seckill", &crowd.press).await;
        let took = began.elapsed();
        let verdict = match (answer.status, answer.code()) {
            (202, _) => {
                let order = answer.body.get("orderId").and_then(Value::as_str);
                Verdict::Accepted(order.ok_or("a 202 without an order id")?.to_owned())
            }
            (409, "SOLD_OUT") => Verdict::SoldOut,
            (409, "DUPLICATE_ORDER") => Verdict::Duplicate,
            (429 | 503, _) => {
                crowd.sent_back.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(COME_BACK_AFTER).await;
                continue;
            }
            _ => return Err(format!("an answer that nobody expects: {answer:?}").into()),
        };
        return Ok((verdict, took));
    }
    Err(format!("a buyer was told {TRIES} times to come back later").into())
}

async fn all_seen(clients: &mut JoinSet<Result<Seen, Problem>>) -> Result<Seen, Problem> {
    let mut all = Seen::nothing()?;
    while let Some(one) = clients.join_next().await {
        let one = one??;
        all.orders.extend(one.orders);
        all.accepted_us.add(one.accepted_us)?;
        all.refused_us.add(one.refused_us)?;
        all.first_refusal = [all.first_refusal, one.first_refusal].into_iter().flatten().min();
        all.last_acceptance = all.last_acceptance.max(one.last_acceptance);
        all.second_presses += one.second_presses;
    }
    Ok(all)
}

impl Seen {
    fn nothing() -> Result<Self, Problem> {
        Ok(Self {
            orders: Vec::new(),
            accepted_us: histogram()?,
            refused_us: histogram()?,
            first_refusal: None,
            last_acceptance: None,
            second_presses: 0,
        })
    }
}

/// Messages that have not become orders yet.
async fn waiting(cloud: &LocalCloud) -> Result<i64, Problem> {
    let mut waiting = 0;
    for queue in &cloud.stack().queues {
        let counts = cloud.cloud().sqs.counts(&queue.name).await?;
        waiting += counts.visible + counts.in_flight;
    }
    Ok(waiting)
}

/// Tells how far it is: every second to a person, every ten to a file. Only ends with a problem.
async fn progress(cloud: &LocalCloud, crowd: &Crowd) -> Problem {
    loop {
        tokio::time::sleep(progress::every()).await;
        if let Err(problem) = tell(cloud, crowd).await {
            return problem;
        }
    }
}

async fn tell(cloud: &LocalCloud, crowd: &Crowd) -> Result<(), Problem> {
    let waiting = waiting(cloud).await?;
    let (accepted, refused) = (crowd.accepted.load(Ordering::Relaxed), crowd.refused.load(Ordering::Relaxed));
    let buyers = crowd.buyers.len();
    progress::show(&format!(
        "  crowd: {accepted} accepted and {refused} refused of {buyers}; {waiting} messages waiting"
    ));
    Ok(())
}

/// Waits until every message has become an order; gives the audit of the item.
async fn until_ordered(
    cloud: &LocalCloud,
    crowd: &Crowd,
    operator: &User,
    sale: &str,
    orders: u32,
) -> Result<Value, Problem> {
    loop {
        let mut told = Instant::now();
        while waiting(cloud).await? > 0 {
            if told.elapsed() > Duration::from_secs(1) {
                tell(cloud, crowd).await?;
                told = Instant::now();
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let answer = operator.get(&format!("/admin/sales/{sale}/audit")).await;
        let audit = answer.body.pointer("/items/0").ok_or_else(|| format!("no audit: {answer:?}"))?;
        if total_orders(audit) >= u64::from(orders) {
            progress::end();
            return Ok(audit.clone());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn total_orders(audit: &Value) -> u64 {
    let orders = audit.get("orders").and_then(Value::as_object);
    orders.map_or(0, |orders| orders.values().filter_map(Value::as_u64).sum())
}

/// Exactly what there was, each unit to another buyer, and nothing out of place.
fn check(seen: &Seen, audit: &Value, options: &Options) -> Result<(), Problem> {
    let units = options.units;
    let sold = options.to_sell();
    let figure = |name: &str| audit.get(name).cloned().unwrap_or_default();
    let expected = [
        ("total", json!(units)),
        ("free", json!(units - sold)),
        ("held", json!(sold)),
        ("sold", json!(0)),
        ("drift", json!(0)),
        ("findings", json!([])),
    ];
    let mut wrong: Vec<String> = Vec::new();
    for (name, value) in expected {
        if figure(name) != value {
            wrong.push(format!("{name} is {}, and must be {value}", figure(name)));
        }
    }
    let pending = audit.pointer("/orders/PENDING_PAYMENT").and_then(Value::as_u64);
    if pending != Some(u64::from(sold)) || total_orders(audit) != u64::from(sold) {
        wrong.push(format!("the orders are {}, and must be {sold}, all pending", figure("orders")));
    }
    let different: BTreeSet<&str> = seen.orders.iter().map(|(order, _)| order.as_str()).collect();
    if seen.orders.len() != usize::try_from(sold)? || different.len() != seen.orders.len() {
        wrong.push(format!(
            "{} presses were accepted with {} different orders, and {sold} must be",
            seen.orders.len(),
            different.len()
        ));
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("the crowd did not get what there is: {}", wrong.join("; ")).into())
    }
}

/// When each order was complete, by its id. Its payment deadline is the last thing made for it, and the schedule has
/// the order's name and its time of creation: no buyer needs to ask for it.
async fn orders_made(cloud: &LocalCloud) -> Result<BTreeMap<String, i64>, Problem> {
    let client = aws_sdk_scheduler::Client::new(&Wire::new(cloud.cloud().clone()).sdk_config());
    let mut made = BTreeMap::new();
    for group in &cloud.stack().schedule_groups {
        let mut pages = client.list_schedules().group_name(group).into_paginator().send();
        while let Some(page) = pages.try_next().await? {
            for schedule in page.schedules {
                let at = schedule.creation_date.ok_or("a schedule without its time of creation")?.to_millis()?;
                made.insert(schedule.name.unwrap_or_default(), at);
            }
        }
    }
    Ok(made)
}
