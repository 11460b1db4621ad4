//! Functions of the local cloud: [`host`] runs their bootstrap binaries over the Lambda Runtime API, [`in_process`]
//! runs functions that are linked into the program, and [`sources`] invokes them for queues, streams, schedules and
//! asynchronous events.

pub mod host;
pub mod in_process;
pub mod invoke;
pub mod sources;

use local_cloud_engines::{clock, engine};
use local_cloud_template as template;
use local_cloud_template::{ACCOUNT, REGION};
