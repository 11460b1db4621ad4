//! How many purchases per second the system accepts and refuses over HTTP, with more buyers than units, on each host.
//!
//! First everything is sold, then the remaining buyers are refused again and again, so that the two rates are measured
//! separately. Every request goes through the gateway, which verifies its token, while other functions create the
//! orders. The measurement fails if more or less than the stock is sold.

use std::path::Path;
use std::time::{Duration, Instant};

use figures::{Latency, float, number};
use futures::stream::{self, StreamExt as _};
use local_cloud::clock::Clock;
use seckill_local::{HostKind, Options as CloudOptions, SeckillLocal};
use serde_json::Value;
use tempfile::TempDir;
use testkit::http::{Api, User, sale_form};

use crate::buyers::{Buyers, PurchaseResults};
use crate::cpu::{Cpu, each_ms};
use crate::order_audit::{check, order_times, wait_for_orders};
use crate::report::Section;
use crate::{Options, Problem};

/// Long enough that no unpaid order times out during a measurement.
const PAYMENT_WINDOW_S: u32 = 86_400;
/// Buyers of the warm-up sale. Each of them buys twice.
const WARM_UP: u32 = 200;
/// Purchases in each of the sales of different size.
const SCALING_PURCHASES: u32 = 1_000;
const SCALING_UNITS: [u32; 3] = [1_000, 10_000, 100_000];
/// Requests for tokens at the same time.
const TOKENS_AT_ONCE: usize = 64;

/// A local cloud with an operator.
struct Setup {
    cloud: SeckillLocal,
    operator: User,
    clients: u32,
    _directory: TempDir,
}

/// The result of a sale.
struct Sold {
    sale: String,
    seen: PurchaseResults,
    audit: Value,
    /// From the first request to the last order.
    persisted: Duration,
    /// From the 202 to the order with its deadline.
    lag: Latency,
    /// Until the last order was there.
    cpu: Cpu,
}

/// Purchases on one host.
pub(crate) async fn measure(options: &Options, host: HostKind) -> Result<Section, Problem> {
    with_time_limit(options, purchases(options, host)).await
}

/// The same purchases in sales of very different size.
pub(crate) async fn measure_scaling(options: &Options) -> Result<Section, Problem> {
    with_time_limit(options, scaling(options)).await
}

async fn with_time_limit(
    options: &Options,
    work: impl Future<Output = Result<Section, Problem>>,
) -> Result<Section, Problem> {
    let at_most = Duration::from_secs(options.give_up_minutes.saturating_mul(60));
    match tokio::time::timeout(at_most, work).await {
        Ok(section) => section,
        Err(_) => Err(format!(
            "the purchases were not finished after {} minutes: use fewer --buyers and --units, or a longer \
             --give-up-minutes",
            options.give_up_minutes
        )
        .into()),
    }
}

async fn purchases(options: &Options, host: HostKind) -> Result<Section, Problem> {
    let setup = Setup::open(options, host).await?;
    let duplicates = setup.warm_up().await?;
    let buyers = setup.buyers("buyer", 0..options.buyers).await;
    let to_sell = options.units.min(options.buyers);
    let (first, rest) = buyers.split_at(usize::try_from(to_sell)?);
    let sold = setup.sell(first, options.units).await?;
    let lasting = Duration::from_secs(options.seconds);
    let refusing = Buyers::lasting(rest, &sold.sale, lasting).purchase_all(&setup.cloud, setup.clients).await?;
    if !refusing.orders.is_empty() || refusing.duplicates > 0 {
        let (more, duplicates) = (refusing.orders.len(), refusing.duplicates);
        return Err(format!(
            "after everything was sold, {more} purchases were accepted and {duplicates} were duplicates"
        )
        .into());
    }
    let mut section = Section::new(format!(
        "Purchases over HTTP, functions {}: {} buyers, {} units, {} at a time",
        where_run(host),
        options.buyers,
        options.units,
        options.clients
    ));
    section.add("orders, each of a different buyer", float(u64::try_from(sold.seen.orders.len())?), "orders");
    for (name, figure) in [("units left", "free"), ("drift", "drift")] {
        section.add(name, sold.audit.get(figure).and_then(Value::as_f64).unwrap_or(f64::NAN), "units");
    }
    section.add("second purchases, all refused as duplicates", float(duplicates), "purchases");
    add_sale_figures(&mut section, &sold, to_sell, host);
    let answers = refusing.refused_in.count();
    if answers > 0 {
        section.add("refused when everything is sold", float(answers) / refusing.took.as_secs_f64(), "/s");
        section.add("… CPU time per refusal, everything but the load", each_ms(refusing.cpu.system, answers), "ms");
        section.add("… CPU time of the load per refusal", each_ms(refusing.cpu.load, answers), "ms");
        if host == HostKind::Processes {
            section.add("… CPU time of the function per refusal", each_ms(refusing.cpu.function, answers), "ms");
        }
        section.add("request → SOLD_OUT, p50", refusing.refused_in.percentile_ms(50.0), "ms");
        section.add("request → SOLD_OUT, p99", refusing.refused_in.percentile_ms(99.0), "ms");
    }
    section.add("retries after 429 or 503", f64::from(sold.seen.retries + refusing.retries), "requests");
    setup.cloud.stop().await;
    Ok(section)
}

/// The figures of a sale that was sold.
fn add_sale_figures(section: &mut Section, sold: &Sold, to_sell: u32, host: HostKind) {
    let sold_count = u64::from(to_sell);
    section.add("accepted", f64::from(to_sell) / sold.seen.took.as_secs_f64(), "/s");
    section.add(
        "orders persisted, from the first request to the last order",
        f64::from(to_sell) / sold.persisted.as_secs_f64(),
        "/s",
    );
    section.add("… CPU time per order, everything but the load", each_ms(sold.cpu.system, sold_count), "ms");
    section.add("… CPU time of the load per order", each_ms(sold.cpu.load, sold_count), "ms");
    if host == HostKind::Processes {
        section.add("… CPU time of the function per purchase", each_ms(sold.cpu.function, sold_count), "ms");
    }
    section.add("request → 202, p50", sold.seen.accepted_in.percentile_ms(50.0), "ms");
    section.add("request → 202, p99", sold.seen.accepted_in.percentile_ms(99.0), "ms");
    section.add("202 → order with its deadline, p50", sold.lag.percentile_ms(50.0), "ms");
    section.add("202 → order with its deadline, p99", sold.lag.percentile_ms(99.0), "ms");
}

async fn scaling(options: &Options) -> Result<Section, Problem> {
    let mut section = Section::new(format!(
        "{SCALING_PURCHASES} purchases in sales of different size, {} at a time",
        options.clients
    ));
    let setup = Setup::open(options, HostKind::InProcess).await?;
    setup.warm_up().await?;
    for units in SCALING_UNITS {
        let of = number(f64::from(units));
        let buyers = setup.buyers(&format!("of-{units}"), 0..SCALING_PURCHASES).await;
        let sold = setup.sell(&buyers, units).await?;
        let name = |what: &str| format!("{what}, of {of} units");
        section.add(name("orders persisted"), f64::from(SCALING_PURCHASES) / sold.persisted.as_secs_f64(), "/s");
        let cpu_ms = each_ms(sold.cpu.system, u64::from(SCALING_PURCHASES));
        section.add(name("… CPU time per order, everything but the load"), cpu_ms, "ms");
        section.add(name("request → 202, p99"), sold.seen.accepted_in.percentile_ms(99.0), "ms");
    }
    setup.cloud.stop().await;
    Ok(section)
}

impl Setup {
    async fn open(options: &Options, host: HostKind) -> Result<Self, Problem> {
        let directory = tempfile::tempdir()?;
        let cloud = SeckillLocal::start(&cloud_options(options, host, directory.path())?).await?;
        let operator = Api::new(cloud.base_url()).user("operator", "seckill/admin").await;
        Ok(Self { cloud, operator, clients: options.clients, _directory: directory })
    }

    async fn open_sale(&self, units: u32) -> Result<String, Problem> {
        let now = domain::Timestamp::from_millisecond(Clock::wall().now_ms())?;
        Ok(self.operator.open_sale(&sale_form(now, units, 1, PAYMENT_WINDOW_S)).await?)
    }

    /// Gets a token for each buyer, before anything is measured.
    async fn buyers(&self, name: &str, numbers: std::ops::Range<u32>) -> Vec<User> {
        eprintln!("  requesting {} tokens …", numbers.len());
        let api = &Api::new(self.cloud.base_url());
        let users = stream::iter(numbers).map(|number| async move { api.user(&format!("{name}-{number}"), "").await });
        users.buffer_unordered(TOKENS_AT_ONCE).collect().await
    }

    /// Lets every environment process its first requests before anything is measured. Also checks that a second
    /// purchase of each buyer is refused.
    async fn warm_up(&self) -> Result<u64, Problem> {
        let sale = self.open_sale(2 * WARM_UP).await?;
        let buyers = self.buyers("first", 0..WARM_UP).await;
        let once = Buyers::new(&buyers, &sale).purchase_all(&self.cloud, self.clients).await?;
        let again = Buyers::new(&buyers, &sale).purchase_all(&self.cloud, self.clients).await?;
        if (once.orders.len(), again.duplicates) != (usize::try_from(WARM_UP)?, u64::from(WARM_UP)) {
            return Err(format!(
                "{WARM_UP} buyers bought twice: {} were accepted, then {} refused as duplicates and {} accepted",
                once.orders.len(),
                again.duplicates,
                again.orders.len()
            )
            .into());
        }
        wait_for_orders(&self.cloud, &self.operator, &sale, WARM_UP).await?;
        Ok(again.duplicates)
    }

    /// Sells to these buyers, and waits for their orders.
    async fn sell(&self, buyers: &[User], units: u32) -> Result<Sold, Problem> {
        let to_sell = u32::try_from(buyers.len())?;
        let sale = self.open_sale(units).await?;
        let (began, began_ms, cpu) = (Instant::now(), Clock::wall().now_ms(), Cpu::now());
        let seen = Buyers::new(buyers, &sale).purchase_all(&self.cloud, self.clients).await?;
        let audit = wait_for_orders(&self.cloud, &self.operator, &sale, to_sell).await?;
        let waited = began.elapsed();
        // The load's threads have ended by now: their time is known from when they did.
        let all = Cpu::now().since(&cpu);
        let cpu = Cpu { system: (all.system).saturating_sub(seen.cpu.load), load: seen.cpu.load, ..all };
        check(&seen.orders, &audit, units, to_sell)?;
        let made_ms = order_times(&self.cloud).await?;
        let (mut lag, mut last_ms) = (Latency::default(), began_ms);
        for (order, known_ms) in &seen.orders {
            let made_ms = *made_ms.get(order).ok_or_else(|| format!("order {order} has no payment deadline"))?;
            lag.record(Duration::from_millis(u64::try_from(made_ms - known_ms).unwrap_or(0)));
            last_ms = last_ms.max(made_ms);
        }
        let persisted = Duration::from_millis(u64::try_from(last_ms - began_ms)?).min(waited);
        Ok(Sold { sale, seen, audit, persisted, lag, cpu })
    }
}

fn throttle(parameter: &str) -> (String, String) {
    (parameter.to_owned(), "1000000".to_owned())
}

fn where_run(host: HostKind) -> &'static str {
    match host {
        HostKind::InProcess => "in one process",
        HostKind::Processes => "in their own processes",
    }
}

fn cloud_options(options: &Options, host: HostKind, directory: &Path) -> Result<CloudOptions, Problem> {
    Ok(CloudOptions {
        host,
        apps: options.apps,
        template: options.template.clone(),
        port: 0,
        data_dir: directory.join("data"),
        binaries: options.binaries()?,
        no_demo: true,
        // The gateway's throttle would be measured otherwise.
        parameters: vec![throttle("SeckillRateLimit"), throttle("SeckillBurstLimit")],
        ..CloudOptions::default()
    })
}
