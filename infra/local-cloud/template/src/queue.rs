//! SQS queues.

use std::collections::BTreeMap;

use serde_json::json;

use super::attributes;
use super::error::{Read, wrong};
use super::fields::{Fields, Shape, flag, number};
use super::model::Queue;
use super::scope::{Resource, Scope};

const QUEUE: Shape = Shape::new(
    "AWS::SQS::Queue",
    &[
        "QueueName",
        "DelaySeconds",
        "MaximumMessageSize",
        "MessageRetentionPeriod",
        "ReceiveMessageWaitTimeSeconds",
        "VisibilityTimeout",
        "RedrivePolicy",
        "RedriveAllowPolicy",
        "SqsManagedSseEnabled",
        "KmsMasterKeyId",
        "KmsDataKeyReusePeriodSeconds",
    ],
)
.without_effect(&["Tags"])
.refused(&[
    ("FifoQueue", "queues here are standard ones: make the consumer idempotent"),
    ("ContentBasedDeduplication", "queues here are standard ones: make the consumer idempotent"),
    ("DeduplicationScope", "queues here are standard ones: make the consumer idempotent"),
    ("FifoThroughputLimit", "queues here are standard ones: make the consumer idempotent"),
]);

const REDRIVE: Shape = Shape::new("RedrivePolicy", &["deadLetterTargetArn", "maxReceiveCount"]);
const ALLOW: Shape = Shape::new("RedriveAllowPolicy", &["redrivePermission", "sourceQueueArns"]);

/// The numbers that AWS takes, in bytes or seconds.
const RANGES: &[(&str, u32, u32)] = &[
    ("DelaySeconds", 0, 900),
    ("MaximumMessageSize", 1_024, 1_048_576),
    ("MessageRetentionPeriod", 60, 1_209_600),
    ("ReceiveMessageWaitTimeSeconds", 0, 20),
    ("VisibilityTimeout", 0, 43_200),
    ("KmsDataKeyReusePeriodSeconds", 60, 86_400),
];

/// Reads a queue. `queue_arns` are all queues of the template: a dead-letter queue is one of them.
pub(super) fn read(scope: &Scope, resource: &Resource, queue_arns: &[String]) -> Read<Queue> {
    let properties = scope.value(&resource.properties)?;
    let fields = Fields::read(&properties, &QUEUE)?;
    let name = attributes::name(scope, resource)?;
    let named_well = name.len() <= 80 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !named_well {
        let line = fields.line_of("QueueName");
        return wrong(line, format!("{name} is no queue name; use at most 80 letters, digits, - and _"));
    }
    Ok(Queue {
        logical_id: resource.id.clone(),
        arn: attributes::queue_arn(&name),
        url: attributes::queue_url(&name),
        attributes: queue_attributes(&fields, queue_arns)?,
        name,
    })
}

fn queue_attributes(fields: &Fields, queue_arns: &[String]) -> Read<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for (key, least, most) in RANGES {
        if let Some(value) = fields.number(key, *least..=*most)? {
            all.insert((*key).to_owned(), value.to_string());
        }
    }
    if let Some(node) = fields.get("SqsManagedSseEnabled") {
        all.insert("SqsManagedSseEnabled".to_owned(), flag(node, "SqsManagedSseEnabled")?.to_string());
    }
    if let Some(key) = fields.text("KmsMasterKeyId")? {
        all.insert("KmsMasterKeyId".to_owned(), key.to_owned());
    }
    if let Some(policy) = fields.fields("RedrivePolicy", &REDRIVE)? {
        let target =
            known_queue(queue_arns, policy.need_text("deadLetterTargetArn")?, policy.line_of("deadLetterTargetArn"))?;
        let most = number(policy.need("maxReceiveCount")?, "maxReceiveCount", 1..=1_000_u32)?;
        let json = json!({"deadLetterTargetArn": target, "maxReceiveCount": most});
        all.insert("RedrivePolicy".to_owned(), json.to_string());
    }
    if let Some(policy) = fields.fields("RedriveAllowPolicy", &ALLOW)? {
        policy.need("redrivePermission")?;
        let permission = policy.one_of("redrivePermission", &["allowAll", "denyAll", "byQueue"])?;
        let mut json = json!({"redrivePermission": permission});
        if policy.get("sourceQueueArns").is_some() {
            json = json!({"redrivePermission": permission, "sourceQueueArns": policy.texts("sourceQueueArns")?});
        }
        all.insert("RedriveAllowPolicy".to_owned(), json.to_string());
    }
    Ok(all)
}

/// The ARN, if it is a queue of the template.
pub(super) fn known_queue(queue_arns: &[String], arn: &str, line: usize) -> Read<String> {
    if queue_arns.iter().any(|known| known == arn) {
        return Ok(arn.to_owned());
    }
    wrong(line, format!("{arn} is no queue of this template; write !GetAtt Queue.Arn of one of its queues"))
}
