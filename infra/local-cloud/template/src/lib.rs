//! SAM templates, read as they are: the same file that is deployed describes the local cloud.
//!
//! [`read`] makes a [`model::Stack`] of a SAM template: parameters, conditions and intrinsic functions are carried
//! out, `Globals` are applied, and what SAM adds by itself is added. Whatever it does not know (a resource type, a
//! property, an intrinsic, a reference to nothing, a value of the wrong kind) is an error with the file and the
//! line, never skipped. Types that knowingly do nothing on one machine are listed in `inert.rs` with the reason.
//!
//! Values that AWS makes up are the same at every start:
//! - a resource without a name of its own is `STACK-LogicalId`, an API's id is its logical id in small letters;
//! - a queue's URL is `http://sqs.us-east-1.localhost/000000000000/NAME`. Its host is never looked up: the SDK for
//!   Rust sends the URL in the request's body and the request itself to the configured endpoint, so the engine goes
//!   by the last part of the path;
//! - a stream's ARN ends with [`STREAM_LABEL`].

pub mod access;
mod attributes;
#[cfg(test)]
mod broken;
mod error;
mod event_bus;
mod events;
mod fields;
mod function;
mod gateway;
mod globals;
mod http_api;
mod inert;
mod known;
mod mappings;
pub mod model;
mod policy;
mod queue;
mod references;
mod resolve;
mod roles;
mod schedules;
mod scope;
mod secret;
mod stack;
mod table;
#[cfg(test)]
mod tests;
mod websocket;
mod yaml;

use std::collections::BTreeMap;
use std::path::Path;

pub use error::TemplateError;
pub use event_bus::{event_bus_arn, event_bus_name};
use model::Stack;
pub use secret::{secret_arn, secret_arn_of_id};

/// `AWS::Region` of the local cloud.
pub const REGION: &str = "us-east-1";
/// `AWS::AccountId` of the local cloud.
pub const ACCOUNT: &str = "000000000000";

/// `AWS::StackName` unless [`ReadOptions`] gives another.
pub const DEFAULT_STACK_NAME: &str = "local";
/// The last part of every stream's ARN: in AWS, the time at which the stream was made.
pub const STREAM_LABEL: &str = "2020-01-01T00:00:00.000";

/// CloudFormation takes no larger template.
const MOST_BYTES: usize = 1_048_576;

/// What a template is read with.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadOptions {
    /// `AWS::StackName`. The names of resources without a name of their own begin with it.
    pub stack_name: String,
    /// Values for parameters. A name that the template does not declare is an error.
    pub parameters: BTreeMap<String, String>,
    /// Values for parameters that the template may declare and that `parameters` leaves out.
    pub defaults: BTreeMap<String, String>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { stack_name: DEFAULT_STACK_NAME.to_owned(), parameters: BTreeMap::new(), defaults: BTreeMap::new() }
    }
}

/// Reads the template at `path`, with values for its parameters.
pub fn read(path: &Path, parameters: &BTreeMap<String, String>) -> Result<Stack, TemplateError> {
    read_with(path, &ReadOptions { parameters: parameters.clone(), ..ReadOptions::default() })
}

/// The same, with a name for the stack and defaults for parameters.
pub fn read_with(path: &Path, options: &ReadOptions) -> Result<Stack, TemplateError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| TemplateError::Unreadable { path: path.to_owned(), source })?;
    read_text(&path.display().to_string(), &text, options)
}

/// Reads a template's text; `name` is the file's name in messages.
pub fn read_str(name: &str, text: &str, parameters: &BTreeMap<String, String>) -> Result<Stack, TemplateError> {
    read_text(name, text, &ReadOptions { parameters: parameters.clone(), ..ReadOptions::default() })
}

/// Any YAML document of ours as JSON, read as strictly as a template: duplicate keys and aliases are errors.
pub fn document(name: &str, text: &str) -> Result<serde_json::Value, TemplateError> {
    let root = yaml::parse(text).map_err(|problem| problem.in_file(name))?;
    Ok(root.to_json())
}

fn read_text(name: &str, text: &str, options: &ReadOptions) -> Result<Stack, TemplateError> {
    let ReadOptions { stack_name, parameters, defaults } = options;
    let read = || {
        if text.len() > MOST_BYTES {
            return error::wrong(
                1,
                format!("the template has more than {MOST_BYTES} bytes, CloudFormation's limit; split it"),
            );
        }
        let root = yaml::parse(text)?;
        let mut values = parameters.clone();
        for (key, value) in defaults.iter().filter(|(key, _)| declared(&root).contains(&key.as_str())) {
            values.entry(key.clone()).or_insert_with(|| value.clone());
        }
        Ok((stack::read(&root, stack_name, &values)?, root))
    };
    let (stack, root) = read().map_err(|problem| problem.in_file(name))?;
    let declared = declared(&root);
    match parameters.keys().find(|key| !declared.contains(&key.as_str())) {
        Some(key) => Err(TemplateError::UnknownParameter {
            file: name.to_owned(),
            name: key.clone(),
            hint: error::did_you_mean(key, declared),
        }),
        None => Ok(stack),
    }
}

/// The names of the template's parameters.
fn declared(root: &yaml::Node) -> Vec<&str> {
    let entries = root.get("Parameters").and_then(yaml::Node::as_map);
    entries.map(|entries| entries.iter().map(|entry| entry.key.as_str()).collect()).unwrap_or_default()
}

/// Decodes `%41` to `A`. What is no valid escape stays as it is, and bytes that are not UTF-8 become U+FFFD.
pub fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}
