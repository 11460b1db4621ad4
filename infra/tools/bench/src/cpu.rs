//! Processor time of the system under test, as the operating system counts it: this process and all its children,
//! without the threads that make the load.

use std::time::Duration;

use testkit::processes::{cpu_of_all_children, cpu_of_process, cpu_of_threads};

/// The name of the threads that make the load.
pub(crate) const THREADS: &str = "buyers";
/// The program whose processor time is reported alone.
const FUNCTION: &str = "seckill";

/// Processor time so far, or between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    /// Everything but the load.
    pub(crate) system: Duration,
    /// The load.
    pub(crate) load: Duration,
    /// The processes of the function `seckill`; none if it runs in this process.
    pub(crate) function: Duration,
}

impl Cpu {
    pub(crate) fn now() -> Self {
        let own = std::process::id();
        let load = cpu_of_threads(own, THREADS);
        let system = cpu_of_process(own).saturating_sub(load) + cpu_of_all_children(own, None);
        Self { system, load, function: cpu_of_all_children(own, Some(FUNCTION)) }
    }

    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            system: self.system.saturating_sub(before.system),
            load: self.load.saturating_sub(before.load),
            function: self.function.saturating_sub(before.function),
        }
    }
}

/// Milliseconds for each of `count`.
pub(crate) fn each_ms(time: Duration, count: u64) -> f64 {
    time.as_secs_f64() * 1_000.0 / figures::float(count.max(1))
}
