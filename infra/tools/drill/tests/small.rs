//! A short drill: the real functions and the local cloud are killed while they sell thirty units.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use clap::Parser as _;
use drill::{Counted, Options, run};

/// The template with a shorter visibility timeout: if its consumer is killed, an order message becomes visible again
/// after seconds instead of three minutes.
fn template(directory: &Path) -> PathBuf {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../template.yaml")).unwrap();
    let (before, consumer) = text.split_once("  OrderConsumerFunction:\n").expect("the template has an order consumer");
    for setting in ["Timeout: 30", "VisibilityTimeout: 180"] {
        assert!(consumer.contains(setting), "the template no longer contains {setting}");
    }
    let consumer = consumer.replacen("Timeout: 30", "Timeout: 6", 1).replacen("Timeout: 180", "Timeout: 6", 1);
    let path = directory.join("template.yaml");
    std::fs::write(&path, format!("{before}  OrderConsumerFunction:\n{consumer}")).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_everything_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    let mut options = Options::parse_from(["seckill-drill", "--hurry", "--units", "30", "--purchases", "300"]);
    (options.seconds, options.payment_window, options.give_up_minutes) = (8, 10, 4);
    options.binaries = test.parent().and_then(Path::parent).map(Path::to_owned);
    options.template = template(directory.path());

    let report = run(options).await.unwrap_or_else(|problem| panic!("{problem}"));
    println!("{}", report.text);
    assert!(report.passed, "{}\nleft in {:?}", report.text, report.kept);
    assert!(report.kept.is_none());
    // Processes were killed, and buyers bought nevertheless.
    let kills = report.counts.of(Counted::Kill);
    let clouds = kills.get("local cloud").copied().unwrap_or(0);
    assert!(clouds >= 1 && report.counts.total(Counted::Kill) - clouds >= 3, "{kills:?}");
    let answers = report.counts.of(Counted::Answer);
    assert!(["202", "SOLD_OUT"].iter().all(|code| answers.contains_key(*code)), "{answers:?}");
    assert!(report.counts.of(Counted::Action).contains_key("paid"), "{}", report.text);
}
