//! `seckill-plan`: what a sale will need and cost.

use std::path::PathBuf;
use std::process::ExitCode;

use plan::plan::plan;
use plan::sale::{Sale, Shape};
use clap::Parser;
use testkit::progress;

/// Says before a sale what it will need, how long selling takes, and what it costs; beside two other ways to sell.
#[derive(Clone, Debug, Parser)]
#[command(name = "seckill-plan", version, max_term_width = 100)]
struct Options {
    /// Units on sale
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    units: u32,
    /// Buyers who press
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=20_000_000))]
    buyers: u32,
    /// They come within so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// How they come
    #[arg(long, value_enum, default_value_t = Shape::Front)]
    shape: Shape,
    /// How often a buyer who is told "later" presses again
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=100))]
    comes_back: u32,
    /// Of a hundred orders, so many are paid
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=100))]
    paid: u32,
    /// Where the chart goes
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
    progress::show("  counting what a purchase calls and writes");
    let costs = match bench::costs::count().await {
        Ok(costs) => costs,
        Err(problem) => {
            eprintln!("\nseckill-plan: what a purchase costs could not be counted: {problem}");
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
