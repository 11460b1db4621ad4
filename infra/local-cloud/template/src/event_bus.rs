//! Event buses of EventBridge.

use super::attributes;
use super::error::Read;
use super::fields::{Fields, Shape};
use super::scope::{Resource, Scope};
use crate::{ACCOUNT, REGION};

/// Events stay on this machine: no key, no policy and no partner changes anything.
const BUS: Shape = Shape::new("AWS::Events::EventBus", &["Name"]).without_effect(&[
    "DeadLetterConfig",
    "Description",
    "KmsKeyIdentifier",
    "LogConfig",
    "Policy",
    "Tags",
]);

/// The name of a bus.
pub(super) fn read(scope: &Scope, resource: &Resource) -> Read<String> {
    let properties = scope.value(&resource.properties)?;
    Fields::read(&properties, &BUS)?.need("Name")?;
    attributes::name(scope, resource)
}

/// The ARN of the bus of this name.
pub fn event_bus_arn(name: &str) -> String {
    format!("arn:aws:events:{REGION}:{ACCOUNT}:event-bus/{name}")
}

/// The name of the bus that a name or an ARN means.
pub fn event_bus_name(name_or_arn: &str) -> &str {
    match name_or_arn.split_once(":event-bus/") {
        Some((_, name)) => name,
        None => name_or_arn,
    }
}
