//! Runs the tool against the real binaries on a local cloud.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::path::{Path, PathBuf};

use aws_sdk_dynamodb::types::AttributeValue;
use clap::Parser as _;
use load::{Options, Report, run};
use local_cloud::wire::Wire;
use seckill_local::{Options as CloudOptions, SeckillLocal};
use tempfile::TempDir;
use testkit::http::{Api, sale_form};
use testkit::world::names;

async fn cloud() -> (SeckillLocal, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    let options = CloudOptions {
        template: Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../template.yaml"),
        port: 0,
        data_dir: directory.path().join("data"),
        binaries: test.parent().and_then(Path::parent).unwrap().to_owned(),
        no_demo: true,
        ..CloudOptions::default()
    };
    (SeckillLocal::start(&options).await.unwrap_or_else(|error| panic!("{error}")), directory)
}

async fn play(cloud: &SeckillLocal, directory: &TempDir, more: &[&str]) -> Report {
    let file = |name: &str| -> String { PathBuf::from(directory.path()).join(name).to_str().unwrap().to_owned() };
    let (url, chart, out) = (cloud.base_url(), file("load.html"), file("load.json"));
    let arguments = ["seckill-load", "--base-url", &url, "--chart", &chart, "--out", &out, "--seed", "1"];
    let options = Options::try_parse_from(arguments.iter().chain(more)).unwrap();
    run(&options).await.unwrap_or_else(|problem| panic!("{problem}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_is_played_and_audited() {
    let (cloud, directory) = cloud().await;
    let more = ["--units", "20", "--buyers", "50", "--seconds", "2", "--repeats", "100", "--pays", "50"];
    let report = play(&cloud, &directory, &more).await;
    assert!(report.passed, "{}", report.text);
    let figures = &report.figures;
    assert_eq!(figures["answers"]["202"], 20, "{}", report.text);
    assert_eq!(figures["secondPurchases"], 20);
    assert!(figures["paid"].as_u64().unwrap() > 0, "{}", report.text);
    assert_eq!(figures["orderLagMilliseconds"]["count"], 20);
    assert!(figures["soldOutAfterSeconds"].as_f64().unwrap() > 0.0);
    assert!(
        report.text.contains("ok    every unit belongs to an order: 20 purchases were accepted"),
        "{}",
        report.text
    );
    for route in ["POST /seckill → 202", "POST /seckill → SOLD_OUT", "GET /orders/{orderId}"] {
        assert!(report.text.contains(route) && figures["milliseconds"][route]["p99.9"].is_number(), "{}", report.text);
    }
    let chart = std::fs::read_to_string(directory.path().join("load.html")).unwrap();
    assert!(chart.contains("<polyline") && chart.contains("accepted"));
    cloud.stop().await;
}

#[expect(clippy::disallowed_methods, reason = "the deployed binaries go by the wall clock, so the sale must too")]
#[tokio::test(flavor = "multi_thread")]
async fn an_incorrect_sale_is_reported() {
    let (cloud, directory) = cloud().await;
    let operator = Api::new(cloud.base_url()).user("operator", "seckill/admin").await;
    let sale = operator.open_sale(&sale_form(jiff::Timestamp::now(), 20, 1, 900)).await.unwrap();
    // Corrupt the stock: add a unit that does not exist.
    let client = aws_sdk_dynamodb::Client::new(&Wire::new(cloud.cloud().clone()).sdk_config());
    let change = client.update_item().table_name(names().stock);
    let change = change.key("bucket", AttributeValue::S(format!("{sale}#phone#0"))).update_expression("ADD #free :one");
    let change = change.expression_attribute_names("#free", "free");
    change.expression_attribute_values(":one", AttributeValue::N("1".into())).send().await.unwrap();
    let more = ["--sale", &sale, "--item", "phone", "--buyers", "5", "--seconds", "1", "--pays", "0"];
    let report = play(&cloud, &directory, &more).await;
    assert!(!report.passed, "{}", report.text);
    assert!(report.text.contains("WRONG the audit finds no drift"), "{}", report.text);
    assert!(report.text.contains("ok    each order belongs to one buyer"), "{}", report.text);
    cloud.stop().await;
}
