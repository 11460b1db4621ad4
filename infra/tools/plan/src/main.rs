//! `seckill-plan`: plans the capacity and the costs of a sale.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use plan::plan::plan;
use plan::sale::{Sale, Shape};
use testkit::progress;

/// Plans a sale: what to request from AWS, how long selling takes, and what it costs.
///
/// The sale is simulated on a model of DynamoDB, Lambda, SQS and Scheduler, and compared with two other designs: one
/// counter, and one transaction per purchase. Nothing is called in AWS.
#[derive(Clone, Debug, Parser)]
#[command(name = "seckill-plan", version, max_term_width = 100)]
struct Options {
    /// Units on sale
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    units: u32,
    /// How many buyers arrive
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=20_000_000))]
    buyers: u32,
    /// Seconds over which buyers arrive
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// How arrivals are distributed over that time
    #[arg(long, value_enum, default_value_t = Shape::Front)]
    shape: Shape,
    /// How often a buyer retries after a 429 or 503
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=100))]
    comes_back: u32,
    /// Percentage of orders that are paid
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=100))]
    paid: u32,
    /// The file for the chart (HTML)
    #[arg(long, value_name = "FILE", default_value = "target/plan.html")]
    chart: PathBuf,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let options = Options::parse();
    let sale = Sale {
        units: options.units,
        buyers: options.buyers,
        seconds: options.seconds,
        shape: options.shape,
        comes_back: options.comes_back,
        paid_percent: options.paid,
    };
    progress::show("  counting the calls and writes of a purchase");
    let costs = match bench::costs::count().await {
        Ok(costs) => costs,
        Err(problem) => {
            eprintln!("\nseckill-plan: the costs of a purchase could not be counted: {problem}");
            return ExitCode::FAILURE;
        }
    };
    let plan = plan(&sale, &costs, |doing| progress::show(&format!("  {doing}")));
    progress::end();
    let text = plan::text(&plan, &costs);
    print!("{text}");
    let page = figures::page("The plan of a sale", &plan::charts(&plan), &text);
    let written = options
        .chart
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(&options.chart, page));
    match written {
        Ok(()) => {
            println!("Chart: {}", options.chart.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("seckill-plan: cannot write {}: {error}", options.chart.display());
            ExitCode::FAILURE
        }
    }
}
