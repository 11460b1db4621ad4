//! DynamoDB, SQS and Scheduler alone, over loopback HTTP: `serve-engines <directory> [port]`.
//!
//! Prints the URL once it answers. For tests that kill it, and for other tools that want the engines without the
//! functions.

use std::path::Path;
use std::process::ExitCode;

use local_cloud::clock::Clock;
use local_cloud::data::DataDir;
use local_cloud::endpoint::Endpoint;
use local_cloud::engine::Cloud;

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("serve-engines: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("say which directory to keep the data in")?;
    let port = arguments.next().map_or(Ok(0), |port| port.parse())?;
    let data = DataDir::open(Path::new(&directory), false)?;
    let cloud = Cloud::open(data.path(), Clock::wall())?;
    let endpoint = Endpoint::start(cloud, port, None).await?;
    println!("{}", endpoint.url());
    tokio::signal::ctrl_c().await?;
    endpoint.stop().await;
    Ok(())
}
