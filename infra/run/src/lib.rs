//! The flash sale on one machine: the local cloud, the payment providers' sandbox, this product's functions and a
//! demo sale.

mod demo;
mod options;
mod summary;

use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use local_cloud::engine::Cloud;
use local_cloud::run::LocalCloud;
use sandbox::{CloudWithSandbox, Sandbox};

pub use demo::{DemoError, DemoSale};
pub use local_cloud::run::StartError;
pub use options::Options;

/// `AWS::StackName` of the local system.
pub const STACK_NAME: &str = "seckill";
/// The template's parameter with the address that payment providers send their notices to.
const PUBLIC_URL: &str = "PublicUrl";

/// The running system. [`SeckillLocal::stop`] ends it in order; dropping it ends it at once.
#[derive(Debug)]
pub struct SeckillLocal(LocalCloud);

impl Deref for SeckillLocal {
    type Target = LocalCloud;

    fn deref(&self) -> &LocalCloud {
        &self.0
    }
}

impl SeckillLocal {
    /// Starts everything. When it returns, the API answers.
    pub async fn start(options: &Options) -> Result<Self, StartError> {
        let general = local_cloud::run::Options {
            template: options.template.clone(),
            stack_name: STACK_NAME.to_owned(),
            port: options.port,
            data_dir: options.data_dir.clone(),
            fresh: options.fresh,
            binaries: options.binaries.clone(),
            parameters: options.parameters.clone(),
            url_parameter: Some(PUBLIC_URL.to_owned()),
            max_environments: options.max_environments,
            logs: options.logs.clone(),
            web: web_directory(&options.template),
            also_listen: options.also_listen,
        };
        let open = |dir: &Path, clock| CloudWithSandbox::open(dir, clock).map(Cloud::from);
        let cloud = LocalCloud::start_with(&general, open).await?;
        if options.fresh {
            demo::forget(cloud.data_dir()).map_err(|source| StartError::DataDir(unusable(cloud.data_dir(), source)))?;
        }
        Ok(Self(cloud))
    }

    /// The payment providers.
    pub fn sandbox(&self) -> Option<&Sandbox> {
        self.0.cloud().outside_service()
    }

    /// Makes the demo sale through the API, unless an earlier run on this data directory did.
    pub async fn make_demo_sale(&self) -> Result<DemoSale, DemoError> {
        demo::make(&self.base_url(), self.data_dir(), self.cloud().clock.now_ms()).await
    }

    /// What the person who started it is shown.
    pub fn summary(&self, options: &Options, demo: Option<&DemoSale>, colours: bool) -> String {
        summary::write(&summary::Facts { system: self, options, demo, colours })
    }

    /// Stops in order; see [`LocalCloud::stop`].
    pub async fn stop(self) {
        self.0.stop().await;
    }
}

fn unusable(directory: &Path, reason: io::Error) -> local_cloud::data::DataDirError {
    local_cloud::data::DataDirError::Unusable { path: directory.to_owned(), reason }
}

/// `web/` beside the template, if it is there.
fn web_directory(template: &Path) -> Option<PathBuf> {
    let web = template.parent().unwrap_or(Path::new("")).join("web");
    web.is_dir().then_some(web)
}
