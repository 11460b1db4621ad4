//! Scheduler's REST protocol over the functions of this module.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{DEFAULT_GROUP, Definition, Group, Schedule, Scheduler, SchedulerError};
use crate::engine::answer::respond;
use crate::template::percent_decode;

/// The operation that a method and a path name.
pub(crate) fn operation_of(method: &Method, path: &str) -> Option<&'static str> {
    let (folder, name) = split(path);
    Some(match (folder, name.is_some(), method.as_str()) {
        ("schedules", false, "GET") => "ListSchedules",
        ("schedules", true, "POST") => "CreateSchedule",
        ("schedules", true, "GET") => "GetSchedule",
        ("schedules", true, "PUT") => "UpdateSchedule",
        ("schedules", true, "DELETE") => "DeleteSchedule",
        ("schedule-groups", false, "GET") => "ListScheduleGroups",
        ("schedule-groups", true, "POST") => "CreateScheduleGroup",
        ("schedule-groups", true, "GET") => "GetScheduleGroup",
        ("schedule-groups", true, "DELETE") => "DeleteScheduleGroup",
        _ => return None,
    })
}

fn split(path: &str) -> (&str, Option<&str>) {
    let path = path.trim_matches('/');
    match path.split_once('/') {
        Some((folder, name)) => (folder, Some(name)),
        None => (path, None),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Input {
    group_name: Option<String>,
    client_token: Option<String>,
    #[serde(flatten)]
    definition: Definition,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GroupInput {
    client_token: Option<String>,
}

impl Scheduler {
    /// Answers one request of Scheduler's REST protocol.
    pub(crate) async fn call(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let operation = operation_of(request.method(), request.uri().path()).unwrap_or("");
        let name = percent_decode(split(request.uri().path()).1.unwrap_or(""));
        let query = parse_query(request.uri().query().unwrap_or(""));
        match self.dispatch(operation, &name, &query, request.body()).await {
            Ok(answer) => respond(StatusCode::OK, "application/json", &answer),
            Err(error) => error.respond(),
        }
    }

    async fn dispatch(
        &self,
        operation: &str,
        name: &str,
        query: &BTreeMap<String, String>,
        body: &[u8],
    ) -> Result<Value, SchedulerError> {
        let group = query.get("groupName").map_or(DEFAULT_GROUP, String::as_str);
        match operation {
            "CreateSchedule" => {
                let input = read(body)?;
                let group = input.group_name.as_deref().unwrap_or(DEFAULT_GROUP);
                let arn = self.create(group, name, input.definition, input.client_token).await?;
                Ok(json!({"ScheduleArn": arn}))
            }
            "UpdateSchedule" => {
                let input = read(body)?;
                let group = input.group_name.as_deref().unwrap_or(DEFAULT_GROUP);
                let arn = self.update(group, name, input.definition).await?;
                Ok(json!({"ScheduleArn": arn}))
            }
            "GetSchedule" => Ok(schedule_json(&self.get(group, name).await?)),
            "DeleteSchedule" => self.delete(group, name).await.map(|()| json!({})),
            "ListSchedules" => self.list_schedules(query).await,
            "CreateScheduleGroup" => {
                let input: GroupInput = serde_json::from_slice(body).unwrap_or_default();
                let group = self.create_group(name, input.client_token).await?;
                Ok(json!({"ScheduleGroupArn": group.arn()}))
            }
            "GetScheduleGroup" => Ok(group_json(&self.group(name).await?)),
            "DeleteScheduleGroup" => self.delete_group(name).await.map(|()| json!({})),
            "ListScheduleGroups" => self.list_groups(query).await,
            _ => Err(SchedulerError::Validation(format!(
                "Scheduler operation {operation} is not part of the local cloud"
            ))),
        }
    }

    async fn list_schedules(&self, query: &BTreeMap<String, String>) -> Result<Value, SchedulerError> {
        let limit = limit_of(query)?;
        let prefix = query.get("NamePrefix").map_or("", String::as_str);
        let after = query.get("NextToken").and_then(|token| token.split_once('/')).unwrap_or(("", ""));
        let group = query.get("ScheduleGroup").map(String::as_str);
        let mut found = self.list(group, prefix, after, limit).await?;
        let next = (found.len() == limit).then(|| found.last().map(|last| format!("{}/{}", last.group, last.name)));
        if let Some(state) = query.get("State") {
            found.retain(|schedule| schedule.definition.is_enabled() == (state == "ENABLED"));
        }
        let summaries: Vec<Value> = found.iter().map(summary_json).collect();
        Ok(json!({"Schedules": summaries, "NextToken": next.flatten()}))
    }

    async fn list_groups(&self, query: &BTreeMap<String, String>) -> Result<Value, SchedulerError> {
        let limit = limit_of(query)?;
        let prefix = query.get("NamePrefix").map_or("", String::as_str);
        let after = query.get("NextToken").map_or("", String::as_str);
        let found = self.groups(prefix, after, limit).await?;
        let next = if found.len() == limit { found.last().map(|group| group.name.clone()) } else { None };
        Ok(json!({"ScheduleGroups": found.iter().map(group_json).collect::<Vec<_>>(), "NextToken": next}))
    }
}

fn read(body: &[u8]) -> Result<Input, SchedulerError> {
    serde_json::from_slice(body)
        .map_err(|error| SchedulerError::Validation(format!("The request is malformed: {error}")))
}

fn limit_of(query: &BTreeMap<String, String>) -> Result<usize, SchedulerError> {
    let Some(text) = query.get("MaxResults") else {
        return Ok(100);
    };
    text.parse()
        .ok()
        .filter(|limit| (1..=100).contains(limit))
        .ok_or_else(|| SchedulerError::Validation("MaxResults must be from 1 to 100.".to_owned()))
}

/// Milliseconds as the protocol's seconds.
fn seconds(ms: i64) -> Value {
    match serde_json::Number::from_f64(jiff::SignedDuration::from_millis(ms).as_secs_f64()) {
        Some(number) => Value::Number(number),
        None => Value::Null,
    }
}

fn schedule_json(schedule: &Schedule) -> Value {
    let mut answer = json!(schedule.definition);
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("Arn".to_owned(), json!(schedule.arn()));
        fields.insert("Name".to_owned(), json!(schedule.name));
        fields.insert("GroupName".to_owned(), json!(schedule.group));
        fields.insert("CreationDate".to_owned(), seconds(schedule.created_ms));
        fields.insert("LastModificationDate".to_owned(), seconds(schedule.changed_ms));
        fields.entry("State").or_insert_with(|| json!("ENABLED"));
        fields.entry("ActionAfterCompletion").or_insert_with(|| json!("NONE"));
        fields.entry("ScheduleExpressionTimezone").or_insert_with(|| json!("UTC"));
    }
    answer
}

fn summary_json(schedule: &Schedule) -> Value {
    json!({
        "Arn": schedule.arn(),
        "Name": schedule.name,
        "GroupName": schedule.group,
        "State": if schedule.definition.is_enabled() { "ENABLED" } else { "DISABLED" },
        "CreationDate": seconds(schedule.created_ms),
        "LastModificationDate": seconds(schedule.changed_ms),
        "Target": {"Arn": schedule.definition.target.arn},
    })
}

fn group_json(group: &Group) -> Value {
    json!({
        "Arn": group.arn(),
        "Name": group.name,
        "State": "ACTIVE",
        "CreationDate": seconds(group.created_ms),
        "LastModificationDate": seconds(group.created_ms),
    })
}

fn parse_query(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (percent_decode(name), percent_decode(value))).collect()
}
