//! Dependencies point one way: domain ← {store, payments ← providers} ← flows ← edge ← functions, and nothing deployed knows the local
//! cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// What each crate uses at run time, by package name.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = |package: &Value| package["name"].as_str().unwrap().to_owned();
    let used = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        all.filter(|dependency| dependency["kind"].is_null()).map(name).collect()
    };
    metadata["packages"].as_array().unwrap().iter().map(|package| (name(package), used(package))).collect()
}

#[test]
fn dependencies_point_one_way() {
    let used = dependencies();
    let ours = |package: &str| -> BTreeSet<&str> {
        used[package].iter().map(String::as_str).filter(|name| used.contains_key(*name)).collect()
    };
    assert_eq!(ours("seckill-domain"), [].into());
    assert_eq!(ours("seckill-store"), ["seckill-domain"].into());
    assert_eq!(ours("seckill-payments"), ["seckill-domain"].into());
    assert_eq!(ours("seckill-providers"), ["seckill-payments"].into());
    assert_eq!(
        ours("seckill-flows"),
        ["seckill-domain", "seckill-payments", "seckill-providers", "seckill-store"].into()
    );
    assert_eq!(ours("seckill-telemetry"), [].into());
    assert_eq!(ours("seckill-edge"), ["seckill-domain", "seckill-flows", "seckill-store"].into());
    let below_functions: BTreeSet<&str> = [
        "seckill-domain",
        "seckill-payments",
        "seckill-providers",
        "seckill-store",
        "seckill-flows",
        "seckill-edge",
        "seckill-telemetry",
    ]
    .into();
    for function in [
        "seckill",
        "order-consumer",
        "payment-notify",
        "timeout-check",
        "shop",
        "admin",
        "availability",
        "push",
        "reconcile",
    ] {
        assert!(ours(function).is_subset(&below_functions), "{function}: {:?}", ours(function));
    }
}

#[test]
fn the_domain_knows_no_cloud_no_runtime_no_clock_and_no_chance() {
    let domain = &dependencies()["seckill-domain"];
    for forbidden in ["tokio", "rand", "getrandom", "futures", "http", "lambda_http", "lambda_runtime", "tracing"] {
        assert!(!domain.contains(forbidden), "{forbidden}");
    }
    assert!(!domain.iter().any(|name| name.starts_with("aws")), "{domain:?}");
}
