//! `seckill-demo`: starts the whole system, opens a sale in ten seconds, and sends two thousand buyers. The console
//! shows it live.
//!
//! Most buyers with an order pay, some cancel, some leave and lose the order at its deadline, and a few ask for a
//! refund. After the last buyer the sale is audited. The system then keeps running until Ctrl-C.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clap::Parser;
use futures::stream::{self, StreamExt as _};
use local_cloud::clock::Clock;
use seckill_local::{Options as CloudOptions, SeckillLocal};
use serde_json::{Value, json};
use testkit::http::{Api, User};
use testkit::progress;
use testkit::rng::Rng;
use tokio::signal::unix::{SignalKind, signal};

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// A flash sale to watch: starts the whole system, opens a sale in ten seconds and sends buyers.
#[derive(Debug, Parser)]
struct Options {
    /// How many buyers arrive
    #[arg(long, default_value_t = 2_000)]
    buyers: u32,
    /// Units of each of the two items
    #[arg(long, default_value_t = 400)]
    units: u32,
    /// Seconds over which buyers arrive
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// The port of the API and the web pages
    #[arg(long, env = "PORT", default_value_t = 3000)]
    port: u16,
    /// The data directory; data of an earlier demo in it is deleted first
    #[arg(long, default_value = ".local/demo")]
    data_dir: PathBuf,
    /// The directory with the functions' binaries
    #[arg(long, default_value = "target/debug")]
    binaries: PathBuf,
    /// Exit after the last buyer, with an error if the audit finds anything
    #[arg(long)]
    once: bool,
}

/// What the buyers have done so far.
#[derive(Debug, Default)]
struct Counts {
    arrived: AtomicU32,
    accepted: AtomicU32,
    sold_out: AtomicU32,
    retries: AtomicU32,
    paid: AtomicU32,
    cancelled: AtomicU32,
    refunded: AtomicU32,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        eprintln!("seckill-demo: cannot install a handler for Ctrl-C");
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
    let cloud = match SeckillLocal::start(&cloud_options).await {
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
    println!(
        "\n  A sale of {1} units opens in ten seconds; {0} buyers will arrive.\n",
        options.buyers,
        options.units * 2
    );
    println!("  Console     {base_url}/console?sale={sale}");
    println!("  Storefront  {base_url}/\n");
    open_browser(&format!("{base_url}/console?sale={sale}"));

    let seen = Arc::new(Counts::default());
    let showing = tokio::spawn(show_progress(Arc::clone(&seen), opens_ms));
    // Tokens are requested before the sale opens.
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
    let mut tasks = tokio::task::JoinSet::new();
    for (number, buyer) in (0_u32..).zip(buyers) {
        let mut rng = Rng::new(u64::from(number));
        let arrival_ms = arrival_ms(&mut rng, options.seconds);
        let (sale, seen) = (sale.clone(), Arc::clone(&seen));
        tasks.spawn(async move {
            tokio::time::sleep(Duration::from_millis(arrival_ms)).await;
            run_buyer(&buyer, &sale, &mut rng, &seen).await;
        });
    }
    while tasks.join_next().await.is_some() {}
    showing.abort();
    progress::end();
    let audit = operator.get(&format!("/admin/sales/{sale}/audit")).await.body;
    let mut is_correct = true;
    for item in audit.get("items").and_then(Value::as_array).into_iter().flatten() {
        let figure = |name: &str| item.get(name).cloned().unwrap_or_default();
        is_correct &= figure("drift") == 0 && figure("findings").as_array().is_some_and(Vec::is_empty);
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
        return if is_correct { Ok(()) } else { Err(format!("the audit found a problem: {audit}").into()) };
    }
    println!("\n  The last buyer has left. The system keeps running until Ctrl-C.\n");
    print!("{}", tour(base_url, &sale));
    std::future::pending().await
}

/// What to look at next, in which page. `docs/quickstart.md` has the same steps with pictures, and the browser test
/// walks through them.
fn tour(base_url: &str, sale: &str) -> String {
    let console = format!("{base_url}/console?sale={sale}");
    let steps = [
        ("Look at the sale", format!("{console}: sign in with any name")),
        ("Check that it adds up", "the same page, Audit: free + held + sold = total".to_owned()),
        ("Add stock", "the same page, Live: add five phones".to_owned()),
        ("Open the storefront", format!("{base_url}/: sign in with another name")),
        ("Press the button", "the phone is yours for as long as the payment window is open".to_owned()),
        ("Pay at the provider", "WeChat Pay, then the link below the code: a simulated provider".to_owned()),
        ("See the payment arrive", "the storefront shows it without reloading".to_owned()),
        ("Ask for the money back", "refund the order: its unit is on sale again".to_owned()),
        ("Pause the sale", "in the console: the storefront's button follows".to_owned()),
        ("Look behind the pages", format!("the console's dead letters, and {base_url}/_local/stack")),
    ];
    let lines = (1..).zip(&steps).map(|(number, (title, how))| format!("  {number:>2}. {title:<24}{how}\n"));
    format!("  A tour (docs/quickstart.md has pictures of it)\n{}\n", lines.collect::<String>())
}

async fn set_up(operator: &User, opens_ms: i64, options: &Options) -> Result<String, Problem> {
    let item = |id: &str, name: &str, price: i64, original_price: i64| {
        json!({
            "itemId": id, "name": name, "price": price, "originalPrice": original_price, "currency": "CNY",
            "stock": options.units, "limitPerBuyer": 1,
        })
    };
    let form = json!({
        "name": "11.11 秒杀", "startsAt": timestamp(opens_ms)?, "endsAt": timestamp(opens_ms + 3_600_000)?,
        "paymentWindowSeconds": 45,
        "items": [item("phone", "Phone 手机", 69_900, 399_900), item("watch", "Watch 手表", 19_900, 99_900)],
    });
    let created = operator.post("/admin/sales", &form).await;
    let sale = text(&created.body, "saleId");
    if sale.is_empty() {
        return Err(format!("the sale could not be created: {created:?}").into());
    }
    let preheated = operator.post(&format!("/admin/sales/{sale}/preheat"), &json!({})).await;
    if preheated.status != 200 {
        return Err(format!("the sale could not be preheated: {preheated:?}").into());
    }
    Ok(sale)
}

/// A text field of an answer. Empty if there is none.
fn text(answer: &Value, name: &str) -> String {
    answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A time in the format of the API.
fn timestamp(ms: i64) -> Result<String, Problem> {
    Ok(domain::Timestamp::from_millisecond(ms)?.to_string())
}

/// Half of the buyers arrive in the first tenth of the time.
fn arrival_ms(rng: &mut Rng, seconds: u32) -> u64 {
    let all_ms = u64::from(seconds) * 1_000;
    let within_ms = if rng.below(2) == 0 { all_ms / 10 } else { all_ms };
    u64::try_from(rng.below(usize::try_from(within_ms.max(1)).unwrap_or(1))).unwrap_or(0)
}

/// Runs one buyer from the purchase to the end of the order.
async fn run_buyer(buyer: &User, sale: &str, rng: &mut Rng, seen: &Counts) {
    let item = if rng.below(3) == 0 { "watch" } else { "phone" };
    let purchase = json!({ "saleId": sale, "itemId": item, "quantity": 1 });
    seen.arrived.fetch_add(1, Ordering::Relaxed);
    let order = loop {
        let answer = buyer.post("/seckill", &purchase).await;
        match (answer.status, answer.code()) {
            (202, _) => break text(&answer.body, "orderId"),
            (429 | 503, _) => {
                seen.retries.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            // One buyer of three tries again after a while, as people do.
            (_, "SOLD_OUT") => {
                seen.sold_out.fetch_add(1, Ordering::Relaxed);
                if rng.below(3) > 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            _ => return,
        }
    };
    seen.accepted.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(u64::try_from(500 + rng.below(8_000)).unwrap_or(500))).await;
    match rng.below(100) {
        0..70 => pay(buyer, &order, rng, seen).await,
        70..85 => cancel(buyer, &order, seen).await,
        _ => {}
    }
}

async fn cancel(buyer: &User, order: &str, seen: &Counts) {
    if buyer.post(&format!("/orders/{order}/cancel"), &json!({})).await.status == 200 {
        seen.cancelled.fetch_add(1, Ordering::Relaxed);
    }
}

async fn pay(buyer: &User, order: &str, rng: &mut Rng, seen: &Counts) {
    let method = ["alipay", "wechat", "stripe"].get(rng.below(3)).copied().unwrap_or("wechat");
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
    if rng.below(20) == 0 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        if buyer.post(&format!("/orders/{order}/refund"), &json!({})).await.status < 300 {
            seen.refunded.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Shows the progress until it is aborted.
async fn show_progress(seen: Arc<Counts>, opens_ms: i64) {
    loop {
        let left_ms = opens_ms - Clock::wall().now_ms();
        if left_ms > 0 {
            progress::show(&format!("  opens in {} s", left_ms / 1_000 + 1));
        } else {
            let of = |count: &AtomicU32| count.load(Ordering::Relaxed);
            progress::show(&format!(
                "  arrived {}  accepted {}  sold out {}  retries {}  paid {}  cancelled {}  refunded {}",
                of(&seen.arrived),
                of(&seen.accepted),
                of(&seen.sold_out),
                of(&seen.retries),
                of(&seen.paid),
                of(&seen.cancelled),
                of(&seen.refunded)
            ));
        }
        tokio::time::sleep(progress::every()).await;
    }
}

/// Opens the console in a browser, if there is a screen.
fn open_browser(url: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let has_screen =
        cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if has_screen {
        // If this fails, the address is printed above.
        let quiet = std::process::Stdio::null;
        let _ = std::process::Command::new(opener).arg(url).stdout(quiet()).stderr(quiet()).spawn();
    }
}
