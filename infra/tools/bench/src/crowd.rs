//! More buyers than units press at once, at the real binaries over HTTP: exactly what there is is sold, once.
//!
//! First everything is sold, then the rest is refused, so that the two can be told apart. Every press goes through the gateway and the
//! function's own process; orders are made meanwhile, by another.

use std::path::Path;
use std::time::{Duration, Instant};

use figures::{Latency, float, number};
use futures::stream::{self, StreamExt as _};
use local_cloud::clock::Clock;
use local_cloud::run::{LocalCloud, Options as CloudOptions};
use testkit::http::{Api, User, sale_form};
use serde_json::Value;
use tempfile::TempDir;

use crate::pressing::{Crowd, Seen};
use crate::report::Section;
use crate::settling::{check, orders_made, until_ordered};
use crate::{Options, Problem};

/// Unpaid orders must not run out while the crowd is still there.
const PAYMENT_WINDOW_S: u32 = 86_400;
/// Buyers of the sale that warms everything up; each presses twice.
const WARM_UP: u32 = 200;
/// Presses at each of the sales of different size.
const SCALING_PRESSES: u32 = 1_000;
/// Their sizes.
const SCALING_UNITS: [u32; 3] = [1_000, 10_000, 100_000];
/// Tokens asked for at the same time.
const TOKENS_AT_ONCE: usize = 64;

/// A local cloud with an operator.
struct Place {
    cloud: LocalCloud,
    operator: User,
    clients: u32,
    _directory: TempDir,
}

/// A sale after its last unit, or its last buyer.
struct Sold {
    sale: String,
    seen: Seen,
    audit: Value,
    /// From the first press to the last order.
    persisted: Duration,
    /// From the 202 to the order with its deadline.
    lag: Latency,
}

pub(crate) async fn measure(options: &Options) -> Result<Section, Problem> {
    within(options, crowd(options)).await
}

/// The same presses at sales of very different size.
pub(crate) async fn measure_scaling(options: &Options) -> Result<Section, Problem> {
    within(options, scaling(options)).await
}

async fn within(options: &Options, work: impl Future<Output = Result<Section, Problem>>) -> Result<Section, Problem> {
    let at_most = Duration::from_secs(options.give_up_minutes.saturating_mul(60));
    match tokio::time::timeout(at_most, work).await {
        Ok(section) => section,
        Err(_) => Err(format!(
            "gave up on the crowd after {} minutes: make it smaller (--buyers, --units) or wait longer (--give-up-minutes)",
            options.give_up_minutes
        )
        .into()),
    }
}

async fn crowd(options: &Options) -> Result<Section, Problem> {
    let place = Place::open(options).await?;
    let duplicates = place.warm_up().await?;
    let buyers = place.buyers("buyer", 0..options.buyers).await;
    let to_sell = options.units.min(options.buyers);
    let (first, rest) = buyers.split_at(usize::try_from(to_sell)?);
    let sold = place.sell(first.to_vec(), options.units).await?;
    let refusing = Crowd::new(rest.to_vec(), &sold.sale).press(&place.cloud, place.clients).await?;
    if !refusing.orders.is_empty() || refusing.duplicates > 0 {
        let (more, duplicates) = (refusing.orders.len(), refusing.duplicates);
        return Err(
            format!("everything is sold, and {more} more were accepted; {duplicates} were told of an order").into()
        );
    }
    let mut section = Section::new(format!(
        "A crowd at the real binaries over HTTP: {} buyers, {} units, {} at a time",
        options.buyers, options.units, options.clients
    ));
    section.add("orders in the end, each of another buyer", float(u64::try_from(sold.seen.orders.len())?), "orders");
    for (name, figure) in [("units left over", "free"), ("units that do not add up (drift)", "drift")] {
        section.add(name, sold.audit.get(figure).and_then(Value::as_f64).unwrap_or(f64::NAN), "units");
    }
    section.add("second presses, all refused as duplicates", float(duplicates), "presses");
    selling(&mut section, &sold, to_sell);
    let answers = refusing.refused_in.count();
    if answers > 0 {
        section.add("refused, when everything is sold", float(answers) / refusing.took.as_secs_f64(), "/s");
        section.add("… processor time of the function for a refusal", refusing.cpu_ms(answers), "ms");
        section.add("press → SOLD_OUT, half within", refusing.refused_in.percentile_ms(50.0), "ms");
        section.add("press → SOLD_OUT, 99 % within", refusing.refused_in.percentile_ms(99.0), "ms");
    }
    section.add("told to come back (429, 503)", f64::from(sold.seen.sent_back + refusing.sent_back), "presses");
    place.cloud.stop().await;
    Ok(section)
}

/// The figures of a sale that was sold.
fn selling(section: &mut Section, sold: &Sold, to_sell: u32) {
    section.add("accepted", f64::from(to_sell) / sold.seen.took.as_secs_f64(), "/s");
    section.add(
        "orders persisted, from the first press to the last order",
        f64::from(to_sell) / sold.persisted.as_secs_f64(),
        "/s",
    );
    section.add("… processor time of the function for a purchase", sold.seen.cpu_ms(u64::from(to_sell)), "ms");
    section.add("press → 202, half within", sold.seen.accepted_in.percentile_ms(50.0), "ms");
    section.add("press → 202, 99 % within", sold.seen.accepted_in.percentile_ms(99.0), "ms");
    section.add("202 → order with its deadline, half within", sold.lag.percentile_ms(50.0), "ms");
    section.add("202 → order with its deadline, 99 % within", sold.lag.percentile_ms(99.0), "ms");
}

async fn scaling(options: &Options) -> Result<Section, Problem> {
    let mut section =
        Section::new(format!("{SCALING_PRESSES} presses at sales of different size, {} at a time", options.clients));
    let place = Place::open(options).await?;
    place.warm_up().await?;
    for units in SCALING_UNITS {
        let of = number(f64::from(units));
        let buyers = place.buyers(&format!("of-{units}"), 0..SCALING_PRESSES).await;
        let sold = place.sell(buyers, units).await?;
        let name = |what: &str| format!("{what}, of {of} units");
        section.add(name("orders persisted"), f64::from(SCALING_PRESSES) / sold.persisted.as_secs_f64(), "/s");
        section.add(name("… processor time for a purchase"), sold.seen.cpu_ms(u64::from(SCALING_PRESSES)), "ms");
        section.add(name("press → 202, 99 % within"), sold.seen.accepted_in.percentile_ms(99.0), "ms");
    }
    place.cloud.stop().await;
    Ok(section)
}

impl Place {
    async fn open(options: &Options) -> Result<Self, Problem> {
        let directory = tempfile::tempdir()?;
        let cloud = LocalCloud::start(&cloud_options(options, directory.path())?).await?;
        let operator = Api::new(cloud.base_url()).user("operator", "seckill/admin").await;
        Ok(Self { cloud, operator, clients: options.clients, _directory: directory })
    }

    async fn open_sale(&self, units: u32) -> Result<String, Problem> {
        let now = domain::Timestamp::from_millisecond(Clock::wall().now_ms())?;
        Ok(self.operator.open_sale(&sale_form(now, units, 1, PAYMENT_WINDOW_S)).await?)
    }

    /// Buyers with their tokens, which are made before anything is measured.
    async fn buyers(&self, name: &str, numbers: std::ops::Range<u32>) -> Vec<User> {
        eprintln!("  {} tokens …", numbers.len());
        let api = &Api::new(self.cloud.base_url());
        let users = stream::iter(numbers).map(|number| async move { api.user(&format!("{name}-{number}"), "").await });
        users.buffer_unordered(TOKENS_AT_ONCE).collect().await
    }

    /// Lets every environment take its first requests before anything is measured; and sees that a second press is refused.
    async fn warm_up(&self) -> Result<u64, Problem> {
        let sale = self.open_sale(2 * WARM_UP).await?;
        let buyers = self.buyers("first", 0..WARM_UP).await;
        let once = Crowd::new(buyers.clone(), &sale).press(&self.cloud, self.clients).await?;
        let again = Crowd::new(buyers, &sale).press(&self.cloud, self.clients).await?;
        if (once.orders.len(), again.duplicates) != (usize::try_from(WARM_UP)?, u64::from(WARM_UP)) {
            return Err(format!(
                "{WARM_UP} buyers pressed twice: {} were accepted, then {} refused as duplicates and {} accepted",
                once.orders.len(),
                again.duplicates,
                again.orders.len()
            )
            .into());
        }
        until_ordered(&self.cloud, &self.operator, &sale, WARM_UP).await?;
        Ok(again.duplicates)
    }

    /// Sells to these buyers, and waits for their orders.
    async fn sell(&self, buyers: Vec<User>, units: u32) -> Result<Sold, Problem> {
        let to_sell = u32::try_from(buyers.len())?;
        let sale = self.open_sale(units).await?;
        let (began, began_ms) = (Instant::now(), Clock::wall().now_ms());
        let seen = Crowd::new(buyers, &sale).press(&self.cloud, self.clients).await?;
        let audit = until_ordered(&self.cloud, &self.operator, &sale, to_sell).await?;
        let waited = began.elapsed();
        check(&seen.orders, &audit, units, to_sell)?;
        let made_ms = orders_made(&self.cloud).await?;
        let (mut lag, mut last_ms) = (Latency::default(), began_ms);
        for (order, known_ms) in &seen.orders {
            let made_ms = *made_ms.get(order).ok_or_else(|| format!("order {order} has no payment deadline"))?;
            lag.record(Duration::from_millis(u64::try_from(made_ms - known_ms).unwrap_or(0)));
            last_ms = last_ms.max(made_ms);
        }
        let persisted = Duration::from_millis(u64::try_from(last_ms - began_ms)?).min(waited);
        Ok(Sold { sale, seen, audit, persisted, lag })
    }
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
