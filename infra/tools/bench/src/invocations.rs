//! What the gateway, the host and the Lambda runtime cost, measured with a function that does nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use figures::{Latency, float};
use seckill_local::{HostKind, Options as CloudOptions, SeckillLocal};
use tempfile::TempDir;
use testkit::http::Api;
use testkit::processes::cpu_of_all_children;

use crate::closed_loop::closed_loop;
use crate::report::Section;
use crate::{Options, Problem, beside};

const TEMPLATE: &str = include_str!("../nothing.yaml");
/// How many fresh starts the time of the first invocation is measured on.
const STARTS: u32 = 9;
const CLIENTS: u32 = 32;
/// The empty function. Every other function uses at least as much.
const PROGRAM: &str = "bench-nothing";

pub(crate) async fn measure(options: &Options) -> Result<Section, Problem> {
    eprintln!("  invocations …");
    let lasting = Duration::from_secs(options.seconds);
    let mut section = Section::new("Invocations of an empty function over HTTP, through gateway and Lambda host");

    let mut first = Latency::default();
    for _ in 0..STARTS {
        let (cloud, _directory) = start().await?;
        let api = Api::new(cloud.base_url());
        let began = Instant::now();
        invoke(&api).await?;
        first.record(began.elapsed());
        cloud.stop().await;
    }
    section.add("first invocation, process start included, median", first.percentile_ms(50.0), "ms");
    section.add(format!("… slowest of {STARTS}"), first.percentile_ms(100.0), "ms");

    let (cloud, _directory) = start().await?;
    for clients in [1, CLIENTS] {
        let api = Api::new(cloud.base_url());
        let (invoked, cpu) = (Arc::new(AtomicU64::new(0)), cpu_of_all_children(std::process::id(), Some(PROGRAM)));
        let counted = Arc::clone(&invoked);
        let loaded = closed_loop(clients, lasting, move |_| {
            let api = api.clone();
            counted.fetch_add(1, Ordering::Relaxed);
            async move { invoke(&api).await }
        })
        .await?;
        let cpu = cpu_of_all_children(std::process::id(), Some(PROGRAM)).saturating_sub(cpu);
        let who = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
        section.add(format!("invocations, {who}"), loaded.per_second, "/s");
        section.add(format!("warm, half within, {who}"), loaded.latency.percentile_ms(50.0), "ms");
        section.add(format!("warm, 99 % within, {who}"), loaded.latency.percentile_ms(99.0), "ms");
        let cpu_ms = cpu.as_secs_f64() * 1_000.0 / float(invoked.load(Ordering::Relaxed).max(1));
        section.add(format!("processor time of the function, {who}"), cpu_ms, "ms");
    }
    cloud.stop().await;
    Ok(section)
}

async fn start() -> Result<(SeckillLocal, TempDir), Problem> {
    let directory = tempfile::tempdir()?;
    let template = directory.path().join("template.yaml");
    std::fs::write(&template, TEMPLATE)?;
    let options = CloudOptions {
        template,
        port: 0,
        data_dir: directory.path().join("data"),
        binaries: beside()?,
        no_demo: true,
        host: HostKind::Processes,
        ..CloudOptions::default()
    };
    Ok((SeckillLocal::start(&options).await?, directory))
}

async fn invoke(api: &Api) -> Result<(), Problem> {
    let answer = api.send("GET", "/nothing", &[], "").await;
    if answer.status == 200 { Ok(()) } else { Err(format!("the empty function answered {answer:?}").into()) }
}
