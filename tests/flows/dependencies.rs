//! Dependencies between crates point one way: domain ← {store, payments ← providers} ← flows ← {edge, runtime} ←
//! functions. No deployed crate depends on the local cloud, and the local cloud on none of this product.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The packages of this workspace, as cargo describes them.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(metadata["packages"].take()).unwrap()
}

fn name(package: &Value) -> String {
    package["name"].as_str().unwrap().to_owned()
}

/// The run-time dependencies of each package.
fn dependencies(packages: &[Value]) -> BTreeMap<String, BTreeSet<String>> {
    let used = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        all.filter(|dependency| dependency["kind"].is_null()).map(name).collect()
    };
    packages.iter().map(|package| (name(package), used(package))).collect()
}

/// The deployed packages: those in the folder `functions`.
fn functions(packages: &[Value]) -> Vec<String> {
    let is_function = |package: &&Value| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        manifest.parent().and_then(Path::parent).is_some_and(|above| above.ends_with("functions"))
    };
    packages.iter().filter(is_function).map(name).collect()
}

#[test]
fn dependencies_point_one_way() {
    let packages = packages();
    let used = dependencies(&packages);
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
    assert_eq!(
        ours("seckill-runtime"),
        ["seckill-domain", "seckill-flows", "seckill-providers", "seckill-store", "seckill-telemetry"].into()
    );
    let below_functions: BTreeSet<&str> = [
        "seckill-domain",
        "seckill-payments",
        "seckill-providers",
        "seckill-store",
        "seckill-flows",
        "seckill-edge",
        "seckill-runtime",
        "seckill-telemetry",
    ]
    .into();
    let functions = functions(&packages);
    assert!(functions.iter().any(|function| function == "seckill"), "{functions:?}");
    for function in &functions {
        assert!(ours(function).is_subset(&below_functions), "{function}: {:?}", ours(function));
    }
}

#[test]
fn the_domain_depends_on_no_cloud_runtime_clock_or_random_numbers() {
    let domain = &dependencies(&packages())["seckill-domain"];
    for forbidden in ["tokio", "rand", "getrandom", "futures", "http", "lambda_http", "lambda_runtime", "tracing"] {
        assert!(!domain.contains(forbidden), "{forbidden}");
    }
    assert!(!domain.iter().any(|name| name.starts_with("aws")), "{domain:?}");
}

#[test]
fn the_local_cloud_knows_no_crate_of_this_product() {
    let packages = packages();
    let is_of_the_family = |name: &str| name == "local-cloud" || name.starts_with("local-cloud-");
    let ours: BTreeSet<String> = packages.iter().map(name).filter(|name| !is_of_the_family(name)).collect();
    let family: Vec<&Value> = packages.iter().filter(|package| is_of_the_family(&name(package))).collect();
    assert_eq!(family.len(), 6, "{:?}", family.iter().map(|package| name(package)).collect::<Vec<_>>());
    for package in family {
        // Dependencies of any kind: tests must not need the product either.
        let all = package["dependencies"].as_array().unwrap().iter().map(name);
        let known: Vec<String> = all.filter(|name| ours.contains(name)).collect();
        assert!(known.is_empty(), "{} depends on {known:?}", name(package));
    }
}
