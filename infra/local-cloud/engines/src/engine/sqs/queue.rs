//! A queue's attributes: which there are, what they may be, and what they are when nothing was said.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Transaction};
use serde::Deserialize;

use super::SqsError;

/// Attributes that can be set: name, default, lowest, highest.
const NUMBERS: [(&str, i64, i64, i64); 5] = [
    ("DelaySeconds", 0, 0, 900),
    ("MaximumMessageSize", 1_048_576, 1_024, 1_048_576),
    ("MessageRetentionPeriod", 345_600, 60, 1_209_600),
    ("ReceiveMessageWaitTimeSeconds", 0, 0, 20),
    ("VisibilityTimeout", 30, 0, 43_200),
];

/// Attributes that are kept and given back, and change nothing on one machine.
const KEPT: [&str; 5] =
    ["KmsDataKeyReusePeriodSeconds", "KmsMasterKeyId", "Policy", "RedriveAllowPolicy", "SqsManagedSseEnabled"];

/// A queue as the database has it.
pub(super) struct Queue {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) created_ms: i64,
    pub(super) changed_ms: i64,
}

/// Where messages go that were received too often.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Redrive {
    #[serde(rename = "deadLetterTargetArn")]
    pub(super) target_arn: String,
    #[serde(rename = "maxReceiveCount", deserialize_with = "number_or_text")]
    pub(super) max_receive_count: i64,
}

/// CloudFormation and the console write it as a number, older tools as text.
fn number_or_text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    value
        .as_i64()
        .or_else(|| value.as_str().and_then(|text| text.parse().ok()))
        .ok_or_else(|| serde::de::Error::custom("maxReceiveCount is not a whole number"))
}

impl Queue {
    /// The queue of that name.
    pub(super) fn find(db: &Transaction<'_>, name: &str) -> Result<Self, SqsError> {
        Self::look_up(db, name)?.ok_or_else(|| SqsError::QueueDoesNotExist(name.to_owned()))
    }

    /// The queue of that name, if there is one.
    pub(super) fn look_up(db: &Transaction<'_>, name: &str) -> Result<Option<Self>, SqsError> {
        let row = db
            .prepare_cached("SELECT id, attributes, created_ms, changed_ms FROM queues WHERE name = ?1")?
            .query_row([name], |row| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?, row.get(3)?)))
            .optional()?;
        let Some((id, attributes, created_ms, changed_ms)) = row else {
            return Ok(None);
        };
        let attributes = serde_json::from_str(&attributes)
            .map_err(|error| SqsError::Internal(format!("attributes of queue {name}: {error}")))?;
        Ok(Some(Self { id, name: name.to_owned(), attributes, created_ms, changed_ms }))
    }

    /// A number among its attributes.
    pub(super) fn number(&self, attribute: &str) -> i64 {
        let default = NUMBERS.iter().find(|(name, ..)| *name == attribute).map_or(0, |(_, default, ..)| *default);
        self.attributes.get(attribute).and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    /// Its redrive policy.
    pub(super) fn redrive(&self) -> Option<Redrive> {
        self.attributes.get("RedrivePolicy").and_then(|text| serde_json::from_str(text).ok())
    }

    /// Its ARN.
    pub(super) fn arn(&self) -> String {
        arn_of(&self.name)
    }

    /// Everything that can be set, with defaults.
    pub(super) fn settings(&self) -> BTreeMap<String, String> {
        let mut settings: BTreeMap<String, String> =
            NUMBERS.iter().map(|(name, default, ..)| ((*name).to_owned(), default.to_string())).collect();
        settings.insert("SqsManagedSseEnabled".to_owned(), "true".to_owned());
        settings.extend(self.attributes.clone());
        settings
    }
}

/// The ARN of a queue.
pub(super) fn arn_of(name: &str) -> String {
    format!("arn:aws:sqs:{}:{}:{name}", crate::REGION, crate::ACCOUNT)
}

/// The queue's name in an ARN.
pub(super) fn name_in_arn(arn: &str) -> Option<&str> {
    let rest = arn.strip_prefix("arn:aws:sqs:")?;
    rest.rsplit_once(':').map(|(_, name)| name).filter(|name| !name.is_empty())
}

/// The queue's name in a URL: its last part, whatever host the caller reached it by.
pub(super) fn name_in_url(url: &str) -> &str {
    url.trim_end_matches('/').rsplit_once('/').map_or(url, |(_, name)| name)
}

/// Checks a new queue's name.
pub(super) fn check_name(name: &str) -> Result<(), SqsError> {
    if name.ends_with(".fifo") {
        return Err(SqsError::UnsupportedOperation(
            "FIFO queues are not part of the local cloud: use a standard queue".to_owned(),
        ));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 80 || !name.chars().all(allowed) {
        return Err(SqsError::InvalidParameterValue(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length".to_owned(),
        ));
    }
    Ok(())
}

/// Checks attributes before they are set. A redrive policy must name a queue that exists.
pub(super) fn check_attributes(db: &Transaction<'_>, attributes: &BTreeMap<String, String>) -> Result<(), SqsError> {
    for (name, value) in attributes {
        if let Some((_, _, lowest, highest)) = NUMBERS.iter().find(|(known, ..)| known == name) {
            let number: Option<i64> = value.parse().ok();
            if !number.is_some_and(|number| (*lowest..=*highest).contains(&number)) {
                return Err(SqsError::InvalidAttributeValue(name.clone()));
            }
        } else if name == "RedrivePolicy" {
            check_redrive(db, value)?;
        } else if !KEPT.contains(&name.as_str()) {
            return Err(SqsError::InvalidAttributeName(name.clone()));
        }
    }
    Ok(())
}

fn check_redrive(db: &Transaction<'_>, value: &str) -> Result<(), SqsError> {
    if value.is_empty() {
        return Ok(());
    }
    let policy: Redrive = serde_json::from_str(value).map_err(|error| {
        SqsError::InvalidParameterValue(format!(
            "Value {value} for parameter RedrivePolicy is invalid. Reason: {error}."
        ))
    })?;
    if !(1..=1_000).contains(&policy.max_receive_count) {
        return Err(SqsError::InvalidParameterValue(format!(
            "Value {value} for parameter RedrivePolicy is invalid. Reason: Invalid value for maxReceiveCount: {}, \
             valid values are from 1 to 1000 both inclusive.",
            policy.max_receive_count
        )));
    }
    let known = match name_in_arn(&policy.target_arn) {
        Some(name) => Queue::look_up(db, name)?.is_some(),
        None => false,
    };
    if !known {
        return Err(SqsError::InvalidParameterValue(format!(
            "Value {value} for parameter RedrivePolicy is invalid. Reason: Dead letter target does not exist."
        )));
    }
    Ok(())
}
