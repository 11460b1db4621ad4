//! Thousands of buyers at a running system, then an audit through its API.
//!
//! An open loop: buyers come when they were planned to come, however slow the answers are, and their waits are counted from then on. A tool
//! that waits for answers before it asks again would let a slow system choose how much it is asked.

mod audit;
mod crowd;
mod options;
mod report;
mod tally;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use figures::{float, number};
use futures::stream::{self, StreamExt as _};
use testkit::http::{Api, User, sale_form};
use testkit::progress;
use serde_json::{Value, json};

use audit::Audit;
use crowd::Crowd;
pub use options::{Options, Shape};
use tally::Tally;

/// What keeps a run from its end: there is nobody to act on it but the reader.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Unpaid orders must not run out while the crowd is still there; a provider takes no payment that is open for a day.
const PAYMENT_WINDOW_S: u32 = 12 * 3_600;
/// Tokens asked for at the same time.
const TOKENS_AT_ONCE: usize = 64;
/// How long orders may take that nobody looks at any more.
const SETTLES_WITHIN: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(500);
const BAR: usize = 24;

/// What a run came to.
#[derive(Debug)]
pub struct Report {
    /// For people.
    pub text: String,
    /// For programs.
    pub figures: Value,
    /// Whether the sale was correct.
    pub passed: bool,
}

/// Runs it all, and writes the chart and the figures.
pub async fn run(options: &Options) -> Result<Report, Problem> {
    options.check()?;
    let at_most = Duration::from_secs(options.give_up_minutes.saturating_mul(60));
    match tokio::time::timeout(at_most, play(options)).await {
        Ok(ended) => ended,
        Err(_) => Err(format!(
            "gave up after {} minutes: let fewer buyers come (--buyers), or wait longer (--give-up-minutes)",
            options.give_up_minutes
        )
        .into()),
    }
}

async fn play(options: &Options) -> Result<Report, Problem> {
    let seed = match options.seed {
        Some(seed) => seed,
        None => u64::from(getrandom::u32()?),
    };
    let api = Api::try_new(options.base_url.trim_end_matches('/').to_owned())
        .map_err(|error| format!("cannot trust anybody at {}: {error}; install ca-certificates", options.base_url))?;
    let operator = operator(&api, options).await?;
    let (sale, item) = sale(&operator, options).await?;
    let buyers = buyers(&api, options, seed).await?;
    let before = audit(&operator, &sale, &item).await?;
    let crowd = Arc::new(Crowd {
        options: options.clone(),
        seed,
        press: json!({ "saleId": sale, "itemId": item, "quantity": 1 }).to_string(),
        sale: sale.clone(),
        buyers,
        tally: Tally::new(Instant::now()),
    });
    tokio::select! {
        () = crowd.come() => {}
        () = told(&crowd) => {}
    }
    let took = crowd.tally.began.elapsed();
    progress::show(&line(&crowd));
    let after = settled(&operator, &sale, &item, &crowd, &before).await?;
    progress::end();

    let counts = crowd.tally.counts();
    let checks = audit::checks(&before, &after, &counts);
    let text = report::text(&counts, &checks, options, seed, took);
    let figures = report::json(&counts, &checks, options, seed, took);
    write(&options.chart, &figures::page("Load", &report::charts(&counts), &text))?;
    write(&options.out, &format!("{figures:#}\n"))?;
    Ok(Report { text, figures, passed: checks.iter().all(|check| check.wrong.is_empty()) })
}

fn write(path: &Path, text: &str) -> Result<(), Problem> {
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(path, text))
        .map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

/// A token of the local issuer.
async fn local_token(api: &Api, sub: &str, scope: &str) -> Result<String, Problem> {
    let asked = json!({ "sub": sub, "scope": scope }).to_string();
    let answer = api.try_send("POST", "/_local/token", &[], asked).await.map_err(|error| {
        format!("nobody answers at {}: start the local cloud with `make run` ({error})", api.base_url)
    })?;
    match answer.body.get("token").and_then(Value::as_str) {
        Some(token) => Ok(token.to_owned()),
        None => Err(format!("{} gives no tokens: is it the local cloud? ({})", api.base_url, answer.body).into()),
    }
}

async fn operator(api: &Api, options: &Options) -> Result<User, Problem> {
    let token = match &options.operator_token {
        Some(token) => token.clone(),
        None => local_token(api, "load-operator", "seckill/admin").await?,
    };
    Ok(User::new(api, &token))
}

/// The sale that is pressed at, and its item.
async fn sale(operator: &User, options: &Options) -> Result<(String, String), Problem> {
    if let (Some(sale), Some(item)) = (&options.sale, &options.item) {
        return Ok((sale.clone(), item.clone()));
    }
    progress::show(&format!("  laying out {} units", number(f64::from(options.units))));
    let now = server_time(operator).await?;
    let sale = operator.open_sale(&sale_form(now, options.units, 1, PAYMENT_WINDOW_S)).await?;
    Ok((sale, "phone".to_owned()))
}

/// The server's time: its sale begins and ends by that.
async fn server_time(operator: &User) -> Result<jiff::Timestamp, Problem> {
    let answer = operator.try_with("GET", "/sales", &[], "").await?;
    let now = answer.body.get("now").and_then(Value::as_str).and_then(|now| now.parse::<jiff::Timestamp>().ok());
    now.ok_or_else(|| format!("GET /sales did not say what time it is: {} {}", answer.status, answer.body).into())
}

/// Everybody with a token, before anything is measured.
async fn buyers(api: &Api, options: &Options, seed: u64) -> Result<Vec<User>, Problem> {
    let wanted = usize::try_from(options.buyers)?;
    if let Some(file) = &options.tokens {
        let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let tokens: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(wanted).collect();
        if tokens.len() < wanted {
            return Err(format!(
                "{} has {} tokens and {wanted} buyers want one: say --buyers {}",
                file.display(),
                tokens.len(),
                tokens.len()
            )
            .into());
        }
        return Ok(tokens.into_iter().map(|token| User::new(api, token)).collect());
    }
    progress::show(&format!("  {} tokens", number(f64::from(options.buyers))));
    let tokens = stream::iter(0..options.buyers)
        .map(|number| async move { local_token(api, &format!("load-{seed}-{number}"), "").await })
        .buffered(TOKENS_AT_ONCE);
    let tokens: Vec<Result<String, Problem>> = tokens.collect().await;
    tokens.into_iter().map(|token| Ok(User::new(api, &token?))).collect()
}

async fn audit(operator: &User, sale: &str, item: &str) -> Result<Audit, Problem> {
    let answer = operator.try_with("GET", &format!("/admin/sales/{sale}/audit"), &[], "").await?;
    let items = answer.body.get("items").and_then(Value::as_array);
    let found = items.into_iter().flatten().find(|one| one.get("itemId").and_then(Value::as_str) == Some(item));
    found
        .and_then(Audit::read)
        .ok_or_else(|| format!("no audit of {item} in {sale}: {} {}", answer.status, answer.body).into())
}

/// The audit once every accepted purchase is an order, or time is up.
async fn settled(operator: &User, sale: &str, item: &str, crowd: &Crowd, before: &Audit) -> Result<Audit, Problem> {
    let until = Instant::now() + SETTLES_WITHIN;
    let expected = i64::try_from(crowd.tally.counts().orders.len())?;
    loop {
        let after = audit(operator, sale, item).await?;
        if after.orders - before.orders >= expected || Instant::now() > until {
            return Ok(after);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Tells how far it is, for ever.
async fn told(crowd: &Crowd) {
    loop {
        tokio::time::sleep(progress::every()).await;
        progress::show(&line(crowd));
    }
}

/// A bar, and the rate of the last whole second.
fn line(crowd: &Crowd) -> String {
    let counts = crowd.tally.counts();
    let share = f64::from(counts.come) / f64::from(crowd.options.buyers.max(1));
    let filled =
        (0..BAR).filter(|n| float(u64::try_from(*n).unwrap_or(0)) < share * float(u64::try_from(BAR).unwrap_or(1)));
    let filled = filled.count();
    let after = crowd.tally.began.elapsed().as_secs();
    let last = usize::try_from(after).ok().and_then(|after| counts.seconds.get(after.checked_sub(1)?));
    let rate = last.map_or(0, |second| second.accepted + second.sold_out + second.other);
    format!(
        "  [{}{}] {:>3.0} %  {after} s  {} of {} came; {} answers a second; {} accepted, {} sold out, {} paid",
        "#".repeat(filled),
        ".".repeat(BAR - filled),
        share * 100.0,
        counts.come,
        crowd.options.buyers,
        rate,
        counts.orders.len(),
        counts.answered("SOLD_OUT"),
        counts.paid.len(),
    )
}
