//! What SQS and Scheduler do, case by case, through plain SDK clients.
//!
//! The same cases run against any implementation: `agree.sh` points them at software that nobody here wrote. So
//! they use nothing but the SDK and [`crate::target::Target`], and let time pass through it.

mod scheduler;
mod sqs;
