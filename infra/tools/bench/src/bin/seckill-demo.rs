//! `seckill-demo`: everything starts, a sale opens in ten seconds, two thousand buyers come, and the console shows it.
//!
//! Buyers behave as people do: most of those who get something pay, some cancel, some walk away and lose it at the deadline, a few want their money back.
//! When the last one is served the books are audited; then the system stays up to be looked at, until Ctrl-C.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clap::Parser;
use futures::stream::{self, StreamExt as _};
use local_cloud::clock::Clock;
use local_cloud::run::{LocalCloud, Options as CloudOptions};
use testkit::dice::Dice;
use testkit::http::{Api, User};
use testkit::progress;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// A flash sale to watch: starts everything, opens a sale in ten seconds and plays its buyers.
#[derive(Debug, Parser)]
struct Options {
    /// How many buyers come
    #[arg(long, default_value_t = 2_000)]
    buyers: u32,
    /// How many units there are of each of the two items
    #[arg(long, default_value_t = 400)]
    units: u32,
    /// Over how many seconds they come
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// The port of the API and the pages
    #[arg(long, env = "PORT", default_value_t = 3000)]
    port: u16,
    /// Where data is kept while it runs; what is there from an earlier demo is deleted first
    #[arg(long, default_value = ".local/demo")]
    data_dir: PathBuf,
    /// Where the functions' binaries are
    #[arg(long, default_value = "target/debug")]
    binaries: PathBuf,
    /// Stop when everybody was served, and fail if the books do not agree
    #[arg(long)]
    once: bool,
}

/// What has come of the buyers so far.
#[derive(Debug, Default)]
struct Seen {
    pressed: AtomicU32,
    accepted: AtomicU32,
    sold_out: AtomicU32,
    sent_back: AtomicU32,
    paid: AtomicU32,
    cancelled: AtomicU32,
    refunded: AtomicU32,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        eprintln!("seckill-demo: cannot listen for Ctrl-C: the system refused");
        return ExitCode::FAILURE;
    };
    let cloud_options = CloudOptions {
        port: options.port,
        data_dir: options.data_dir.clone(),
        binaries: options.binaries.clone(),
        fresh: true,
        no_demo: true,
        ..CloudOptions::default()
    };
    let cloud = match LocalCloud::start(&cloud_options).await {
        Ok(cloud) => cloud,
        Err(error) => {
            eprintln!("seckill-demo: {}", error.one_line());
            return ExitCode::FAILURE;
        }
    };
    let base_url = cloud.base_url();
    let ended = tokio::select! {
        ended = play(&base_url, &options) => ended,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    eprintln!("\n  Stopping.");
    cloud.stop().await;
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("seckill-demo: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn play(base_url: &str, options: &Options) -> Result<(), Problem> {
    let api = Api::new(base_url.to_owned());
    let operator = api.user("operator", "seckill/admin").await;
    let opens_ms = Clock::wall().now_ms() + 10_000;
    let sale = set_up(&operator, opens_ms, options).await?;
    println!("\n  A sale opens in ten seconds; {} buyers come for {} units.\n", options.buyers, options.units * 2);
    println!("  Console     {base_url}/console?sale={sale}");
    println!("  Storefront  {base_url}/\n");
    show(&format!("{base_url}/console?sale={sale}"));

    let seen = Arc::new(Seen::default());
    let telling = tokio::spawn(tell(Arc::clone(&seen), opens_ms));
    // Tokens are made while the clock runs down; then they come, the more the earlier.
    let buyers: Vec<User> = stream::iter(0..options.buyers)
        .map(|number| {
            let api = api.clone();
            async move { api.user(&format!("buyer-{number}"), "").await }
        })
        .buffered(32)
        .collect()
        .await;
    let wait_ms = u64::try_from(opens_ms - Clock::wall().now_ms()).unwrap_or(0);
    tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    let mut crowd = tokio::task::JoinSet::new();
    for (number, buyer) in (0_u32..).zip(buyers) {
        let mut dice = Dice::new(u64::from(number));
        let comes_ms = comes_after_ms(&mut dice, options.seconds);
        let (sale, seen) = (sale.clone(), Arc::clone(&seen));
        crowd.spawn(async move {
            tokio::time::sleep(Duration::from_millis(comes_ms)).await;
            come(&buyer, &sale, &mut dice, &seen).await;
        });
    }
    while crowd.join_next().await.is_some() {}
    telling.abort();
    progress::end();
    let audit = operator.get(&format!("/admin/sales/{sale}/audit")).await.body;
    let mut agrees = true;
    for item in audit.get("items").and_then(Value::as_array).into_iter().flatten() {
        let figure = |name: &str| item.get(name).cloned().unwrap_or_default();
        agrees &= figure("drift") == 0 && figure("findings").as_array().is_some_and(Vec::is_empty);
        println!(
            "  {}: {} units = {} free + {} held + {} sold, drift {}",
            text(item, "itemId"),
            figure("total"),
            figure("free"),
            figure("held"),
            figure("sold"),
            figure("drift")
        );
    }
    if options.once {
        return if agrees { Ok(()) } else { Err(format!("the books do not agree: {audit}").into()) };
    }
    println!("\n  Everybody was served. It stays up to be looked at: Ctrl-C stops it.");
    std::future::pending().await
}

async fn set_up(operator: &User, opens_ms: i64, options: &Options) -> Result<String, Problem> {
    let item = |id: &str, name: &str, price: i64, was: i64| json!({"itemId": id, "name": name, "price": price, "originalPrice": was, "currency": "CNY", "stock": options.units, "limitPerBuyer": 1});
    let form = json!({
        "name": "11.11 秒杀", "startsAt": moment(opens_ms)?, "endsAt": moment(opens_ms + 3_600_000)?, "paymentWindowSeconds": 45,
        "items": [item("phone", "Phone 手机", 69_900, 399_900), item("watch", "Watch 手表", 19_900, 99_900)],
    });
    let created = operator.post("/admin/sales", &form).await;
    let sale = text(&created.body, "saleId");
    if sale.is_empty() {
        return Err(format!("no sale was made: {created:?}").into());
    }
    let preheated = operator.post(&format!("/admin/sales/{sale}/preheat"), &json!({})).await;
    if preheated.status != 200 {
        return Err(format!("its stock was not laid out: {preheated:?}").into());
    }
    Ok(sale)
}

/// A text of an answer; empty if it has none of that name.
fn text(answer: &Value, name: &str) -> String {
    answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A moment as the API writes it.
fn moment(ms: i64) -> Result<String, Problem> {
    Ok(domain::Timestamp::from_millisecond(ms)?.to_string())
}

/// Half of them come in the first tenth of the time.
fn comes_after_ms(dice: &mut Dice, seconds: u32) -> u64 {
    let all_ms = u64::from(seconds) * 1_000;
    let within_ms = if dice.below(2) == 0 { all_ms / 10 } else { all_ms };
    u64::try_from(dice.below(usize::try_from(within_ms.max(1)).unwrap_or(1))).unwrap_or(0)
}

/// One buyer, from the press to the end.
async fn come(buyer: &User, sale: &str, dice: &mut Dice, seen: &Seen) {
    let item = if dice.below(3) == 0 { "watch" } else { "phone" };
    let press = json!({ "saleId": sale, "itemId": item, "quantity": 1 });
    seen.pressed.fetch_add(1, Ordering::Relaxed);
    let order = loop {
        let answer = buyer.post("/seckill", &press).await;
        match (answer.status, answer.code()) {
            (202, _) => break text(&answer.body, "orderId"),
            (429 | 503, _) => {
                seen.sent_back.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            // Who is told that it is sold out may press again in a while, as people do.
            (_, "SOLD_OUT") => {
                seen.sold_out.fetch_add(1, Ordering::Relaxed);
                if dice.below(3) > 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            _ => return,
        }
    };
    seen.accepted.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(u64::try_from(500 + dice.below(8_000)).unwrap_or(500))).await;
    match dice.below(100) {
        0..70 => pay(buyer, &order, dice, seen).await,
        70..85 => cancel(buyer, &order, seen).await,
        _ => {}
    }
}

async fn cancel(buyer: &User, order: &str, seen: &Seen) {
    if buyer.post(&format!("/orders/{order}/cancel"), &json!({})).await.status == 200 {
        seen.cancelled.fetch_add(1, Ordering::Relaxed);
    }
}

async fn pay(buyer: &User, order: &str, dice: &mut Dice, seen: &Seen) {
    let method = ["alipay", "wechat", "stripe"].get(dice.below(3)).copied().unwrap_or("wechat");
    let started = buyer.post(&format!("/orders/{order}/payments"), &json!({ "method": method })).await;
    let payment = text(&started.body, "paymentId");
    if payment.is_empty() {
        return;
    }
    let paid = json!({ "action": "pay" }).to_string();
    if buyer.api.send("POST", &format!("/_sandbox/payments/{payment}"), &[], paid).await.status >= 300 {
        return;
    }
    seen.paid.fetch_add(1, Ordering::Relaxed);
    if dice.below(20) == 0 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        if buyer.post(&format!("/orders/{order}/refund"), &json!({})).await.status < 300 {
            seen.refunded.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Says how far it is, again and again.
async fn tell(seen: Arc<Seen>, opens_ms: i64) {
    loop {
        let left_ms = opens_ms - Clock::wall().now_ms();
        if left_ms > 0 {
            progress::show(&format!("  opens in {} s", left_ms / 1_000 + 1));
        } else {
            let of = |count: &AtomicU32| count.load(Ordering::Relaxed);
            progress::show(&format!(
                "  came {}  accepted {}  sold out {}  sent back {}  paid {}  cancelled {}  refunded {}",
                of(&seen.pressed),
                of(&seen.accepted),
                of(&seen.sold_out),
                of(&seen.sent_back),
                of(&seen.paid),
                of(&seen.cancelled),
                of(&seen.refunded)
            ));
        }
        tokio::time::sleep(progress::every()).await;
    }
}

/// Opens the console in the person's browser, if there is one to open.
fn show(url: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let has_screen =
        cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if has_screen {
        // Without it, the address above is enough.
        let quiet = std::process::Stdio::null;
        let _ = std::process::Command::new(opener).arg(url).stdout(quiet()).stderr(quiet()).spawn();
    }
}
