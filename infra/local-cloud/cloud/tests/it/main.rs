//! The local cloud's integration tests: one binary.

// `cfg(test)` tells clippy that helpers outside `#[test]` functions are tests too.
#[cfg(test)]
mod asynchronous;
#[cfg(test)]
mod both_hosts;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod durability;
#[cfg(test)]
mod dynamodb;
#[cfg(test)]
mod endpoint;
#[cfg(test)]
mod events;
#[cfg(test)]
mod firing;
#[cfg(test)]
mod gateway;
#[cfg(test)]
mod host;
#[cfg(test)]
mod permissions;
#[cfg(test)]
mod queue_source;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod recorder;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod stock;
#[cfg(test)]
mod stream_source;
#[cfg(test)]
mod target;
#[cfg(test)]
mod websocket;
#[cfg(test)]
mod wire;
