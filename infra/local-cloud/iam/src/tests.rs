//! The permission check on requests as the SDK sends them.

use bytes::Bytes;
use http::Request;
use serde_json::{Value as Json, json};

use super::*;
use crate::template::model::{Effect, Function, Origin, Role};

const TABLES: &str = "arn:aws:dynamodb:us-east-1:000000000000:table";
const QUEUES: &str = "arn:aws:sqs:us-east-1:000000000000";
const SCHEDULES: &str = "arn:aws:scheduler:us-east-1:000000000000:schedule";
const ROLE: &str = "arn:aws:iam::000000000000:role/scheduler";

fn statement(effect: Effect, actions: &[&str], resources: &[&str]) -> Statement {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Statement {
        effect,
        actions: owned(actions),
        resources: owned(resources),
        conditions: Vec::new(),
        origin: Origin::Written(1),
    }
}

fn allow(actions: &[&str], resources: &[&str]) -> Statement {
    statement(Effect::Allow, actions, resources)
}

/// Policies of one function, `f`.
fn policies(statements: Vec<Statement>) -> Policies {
    let function = Function {
        logical_id: "F".to_owned(),
        name: "f".to_owned(),
        arn: "arn:aws:lambda:us-east-1:000000000000:function:f".to_owned(),
        binary: "f".to_owned(),
        timeout: std::time::Duration::from_secs(3),
        memory_mb: 128,
        reserved_concurrency: None,
        environment: BTreeMap::new(),
        statements,
        sources: Vec::new(),
        asynchronous: crate::template::model::AsyncConfig {
            retries: 2,
            maximum_age: std::time::Duration::from_secs(60),
            on_failure: None,
            dead_letter_queue: None,
        },
    };
    let websocket = WebSocketApi {
        stage: "live".to_owned(),
        execute_arn: "arn:aws:execute-api:us-east-1:000000000000:sockets".to_owned(),
        ..WebSocketApi::default()
    };
    let role = Role {
        logical_id: "R".to_owned(),
        arn: ROLE.to_owned(),
        statements: vec![allow(&["lambda:InvokeFunction"], &["arn:aws:lambda:us-east-1:000000000000:function:f"])],
    };
    Policies::from_stack(&Stack {
        functions: vec![function],
        roles: vec![role],
        websocket_api: Some(websocket),
        ..Stack::default()
    })
}

fn call(target: &str, body: Json) -> Request<Bytes> {
    let service = if target.starts_with("sqs.") {
        "AmazonSQS"
    } else if target.starts_with("streams.") {
        "DynamoDBStreams_20120810"
    } else {
        "DynamoDB_20120810"
    };
    let operation = target.rsplit('.').next().expect("an operation");
    Request::post("/")
        .header("x-amz-target", format!("{service}.{operation}"))
        .body(Bytes::from(body.to_string()))
        .expect("a request")
}

fn rest(method: &str, path: &str, body: Json) -> Request<Bytes> {
    Request::builder().method(method).uri(path).body(Bytes::from(body.to_string())).expect("a request")
}

/// What was refused: action and resource.
fn refused(statements: Vec<Statement>, request: &Request<Bytes>) -> Option<(String, String)> {
    match policies(statements).authorize(&access_key_id("f"), request) {
        Ok(()) => None,
        Err(Denied::NotAllowed { action, resource, caller, .. }) => {
            assert_eq!(caller, "f");
            Some((action, resource))
        }
        Err(other) => panic!("{other}"),
    }
}

fn pair(action: &str, resource: impl Into<String>) -> Option<(String, String)> {
    Some((action.to_owned(), resource.into()))
}

#[test]
fn a_table_an_index_and_another_table_are_three_things() {
    let t = format!("{TABLES}/t");
    let may = || vec![allow(&["dynamodb:Query", "dynamodb:PutItem"], &[&t])];
    assert_eq!(refused(may(), &call("PutItem", json!({"TableName": "t"}))), None);
    assert_eq!(refused(may(), &call("PutItem", json!({"TableName": t}))), None, "a table may be named by its ARN");
    assert_eq!(refused(may(), &call("Query", json!({"TableName": "t"}))), None);
    assert_eq!(
        refused(may(), &call("PutItem", json!({"TableName": "u"}))),
        pair("dynamodb:PutItem", format!("{TABLES}/u"))
    );
    assert_eq!(refused(may(), &call("GetItem", json!({"TableName": "t"}))), pair("dynamodb:GetItem", &t));
    let on_index = call("Query", json!({"TableName": "t", "IndexName": "i"}));
    assert_eq!(refused(may(), &on_index), pair("dynamodb:Query", format!("{t}/index/i")));
    assert_eq!(refused(vec![allow(&["dynamodb:Query"], &[&format!("{t}/index/*")])], &on_index), None);
}

#[test]
fn wildcards_allow_and_a_deny_wins() {
    let t = format!("{TABLES}/t");
    let put = call("PutItem", json!({"TableName": "t"}));
    assert_eq!(refused(vec![allow(&["*"], &["*"])], &put), None);
    assert_eq!(refused(vec![allow(&["DynamoDB:put*"], &[&format!("{TABLES}/?")])], &put), None, "actions know no case");
    assert_eq!(refused(vec![allow(&["dynamodb:*"], &[&format!("{TABLES}/T")])], &put), pair("dynamodb:PutItem", &t));
    let deny = statement(Effect::Deny, &["dynamodb:PutItem"], &[&t]);
    let error = policies(vec![allow(&["*"], &["*"]), deny]).authorize(&access_key_id("f"), &put).expect_err("denied");
    assert!(matches!(&error, Denied::NotAllowed { explicit: true, .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "User: arn:aws:sts::000000000000:assumed-role/f is not authorized to perform: dynamodb:PutItem on \
             resource: {t} \
             with an explicit deny in an identity-based policy"
        )
    );
}

#[test]
fn every_part_of_a_batch_and_of_a_transaction_is_asked_about() {
    let (a, b) = (format!("{TABLES}/a"), format!("{TABLES}/b"));
    let batch = call("BatchGetItem", json!({"RequestItems": {"a": {}, "b": {}}}));
    assert_eq!(refused(vec![allow(&["dynamodb:BatchGetItem"], &[&a])], &batch), pair("dynamodb:BatchGetItem", &b));
    assert_eq!(refused(vec![allow(&["dynamodb:BatchGetItem"], &[&a, &b])], &batch), None);

    let transaction = call(
        "TransactWriteItems",
        json!({"TransactItems": [
            {"Put": {"TableName": "a"}},
            {"Update": {"TableName": "b"}},
            {"ConditionCheck": {"TableName": "b"}},
        ]}),
    );
    let put = || allow(&["dynamodb:PutItem"], &[&a]);
    let update = || allow(&["dynamodb:UpdateItem"], &[&b]);
    assert_eq!(refused(vec![put()], &transaction), pair("dynamodb:UpdateItem", &b));
    assert_eq!(refused(vec![put(), update()], &transaction), pair("dynamodb:ConditionCheckItem", &b));
    assert_eq!(refused(vec![put(), update(), allow(&["dynamodb:ConditionCheckItem"], &[&b])], &transaction), None);
    let own_name = allow(&["dynamodb:TransactWriteItems"], &["*"]);
    assert_eq!(refused(vec![own_name], &transaction), pair("dynamodb:PutItem", &a));
    let read = call("TransactGetItems", json!({"TransactItems": [{"Get": {"TableName": "b"}}]}));
    assert_eq!(refused(vec![put()], &read), pair("dynamodb:GetItem", &b));
}

#[test]
fn a_batch_of_messages_is_allowed_by_the_single_action() {
    let q = format!("{QUEUES}:q");
    let url = "http://sqs.us-east-1.localhost/000000000000/q";
    let send = || vec![allow(&["sqs:SendMessage"], &[&q])];
    assert_eq!(refused(send(), &call("sqs.SendMessageBatch", json!({"QueueUrl": url}))), None);
    assert_eq!(
        refused(send(), &call("sqs.DeleteMessageBatch", json!({"QueueUrl": url}))),
        pair("sqs:DeleteMessage", &q)
    );
    let other = json!({"QueueUrl": "http://elsewhere/000000000000/other"});
    assert_eq!(refused(send(), &call("sqs.SendMessage", other)), pair("sqs:SendMessage", format!("{QUEUES}:other")));
}

#[test]
fn a_schedule_needs_its_group_and_the_right_to_pass_the_role() {
    let create = rest("POST", "/schedules/order-1", json!({"GroupName": "g", "Target": {"RoleArn": ROLE}}));
    let schedule = || allow(&["scheduler:*"], &[&format!("{SCHEDULES}/g/*")]);
    assert_eq!(refused(vec![schedule()], &create), pair("iam:PassRole", ROLE));
    assert_eq!(refused(vec![schedule(), allow(&["iam:PassRole"], &[ROLE])], &create), None);

    let passed_to = |service: &str| Statement {
        conditions: vec![("StringEquals".to_owned(), "iam:PassedToService".to_owned(), vec![service.to_owned()])],
        ..allow(&["iam:PassRole"], &[ROLE])
    };
    assert_eq!(refused(vec![schedule(), passed_to("scheduler.amazonaws.com")], &create), None);
    assert_eq!(refused(vec![schedule(), passed_to("ecs.amazonaws.com")], &create), pair("iam:PassRole", ROLE));

    let delete = rest("DELETE", "/schedules/order%3A1?clientToken=x&groupName=other", json!({}));
    assert_eq!(
        refused(vec![schedule()], &delete),
        pair("scheduler:DeleteSchedule", format!("{SCHEDULES}/other/order:1"))
    );
    let default = rest("GET", "/schedules/order-1", Json::Null);
    assert_eq!(
        refused(vec![schedule()], &default),
        pair("scheduler:GetSchedule", format!("{SCHEDULES}/default/order-1"))
    );
    let list = rest("GET", "/schedules?ScheduleGroup=g", Json::Null);
    assert_eq!(refused(vec![schedule()], &list), pair("scheduler:ListSchedules", "*"));
    let group = rest("POST", "/schedule-groups/g", json!({}));
    let group_arn = "arn:aws:scheduler:us-east-1:000000000000:schedule-group/g";
    assert_eq!(refused(vec![schedule()], &group), pair("scheduler:CreateScheduleGroup", group_arn));
}

#[test]
fn connections_streams_and_secrets_have_resources_too() {
    let sockets = "arn:aws:execute-api:us-east-1:000000000000:sockets";
    let post = rest("POST", "/live/@connections/abc=", json!("hi"));
    let may = || vec![allow(&["execute-api:ManageConnections"], &[&format!("{sockets}/live/POST/@connections/*")])];
    assert_eq!(refused(may(), &post), None);
    assert_eq!(
        refused(may(), &rest("POST", "/@connections/abc", json!("hi"))),
        None,
        "without a stage it is the API's own"
    );
    let delete = rest("DELETE", "/live/@connections/abc", Json::Null);
    assert_eq!(
        refused(may(), &delete),
        pair("execute-api:ManageConnections", format!("{sockets}/live/DELETE/@connections/abc"))
    );
    let stream = format!("{TABLES}/t/stream/x");
    assert_eq!(
        refused(vec![], &call("streams.DescribeStream", json!({"StreamArn": stream}))),
        pair("dynamodb:DescribeStream", &stream)
    );
    let secret = Request::post("/")
        .header("x-amz-target", "secretsmanager.GetSecretValue")
        .body(Bytes::from_static(br#"{"SecretId": "keys"}"#))
        .expect("a request");
    let arn = crate::template::secret_arn("keys");
    assert_eq!(refused(vec![], &secret), pair("secretsmanager:GetSecretValue", &arn));
    let put = Request::post("/")
        .header("x-amz-target", "AWSEvents.PutEvents")
        .body(Bytes::from_static(br#"{"Entries": [{"EventBusName": "shop"}, {"EventBusName": "other"}]}"#))
        .expect("a request");
    let bus = |name: &str| format!("arn:aws:events:us-east-1:000000000000:event-bus/{name}");
    let may = vec![allow(&["events:PutEvents"], &[&bus("shop")])];
    assert_eq!(refused(may, &put), pair("events:PutEvents", bus("other")), "every bus of the call counts");
    // A policy that leaves out what the service adds to the name covers nothing.
    let without = arn.rsplit_once('-').map(|(start, _)| start.to_owned()).unwrap_or_default();
    let short = vec![allow(&["secretsmanager:GetSecretValue"], &[&without])];
    assert_eq!(refused(short, &secret), pair("secretsmanager:GetSecretValue", &arn));
    let wild = policies(vec![allow(&["secretsmanager:GetSecretValue"], &[&format!("{without}-??????")])]);
    assert_eq!(wild.authorize(&access_key_id("f"), &secret), Ok(()));
}

#[test]
fn keys_are_the_functions_own_and_a_strangers_is_refused() {
    let put = call("PutItem", json!({"TableName": "t"}));
    let policies = policies(vec![allow(&["*"], &["*"])]);
    assert_eq!(policies.authorize(ROOT_ACCESS_KEY_ID, &put), Ok(()));
    let stranger = access_key_id("g");
    assert_eq!(policies.authorize(&stranger, &put), Err(Denied::UnknownKey { access_key_id: stranger }));
    for key in [access_key_id("f"), access_key_id("g"), ROOT_ACCESS_KEY_ID.to_owned()] {
        assert_eq!(key.len(), 20);
        assert!(key.starts_with("AKIA") && key.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit()));
    }
    assert_ne!(access_key_id("f"), access_key_id("g"));
}

#[test]
fn what_is_not_known_is_refused_even_to_a_function_that_may_do_everything() {
    let policies = policies(vec![allow(&["*"], &["*"])]);
    for request in [
        call("ExecuteStatement", json!({"Statement": "SELECT * FROM t"})),
        call("PutItem", json!({"no": "table"})),
        call("BatchGetItem", json!({"RequestItems": {}})),
        rest("PATCH", "/schedules/x", json!({})),
        rest("GET", "/something-else", json!({})),
    ] {
        let refusal = policies.authorize(&access_key_id("f"), &request);
        assert!(matches!(refusal, Err(Denied::UnknownRequest { .. })), "{request:?}: {refusal:?}");
    }
}

#[test]
fn what_was_used_is_remembered_once() {
    let (t, u) = (format!("{TABLES}/t"), format!("{TABLES}/u*"));
    let policies = policies(vec![allow(&["dynamodb:Get*", "dynamodb:PutItem"], &[&t, &u])]);
    for table in ["u1", "u2", "u1"] {
        policies.authorize(&access_key_id("f"), &call("GetItem", json!({"TableName": table}))).expect("allowed");
    }
    policies.authorize(&access_key_id("f"), &call("GetItem", json!({"TableName": "other"}))).expect_err("refused");
    let used = Used {
        function: "f".to_owned(),
        statement: 0,
        action: "dynamodb:GetItem".to_owned(),
        action_pattern: "dynamodb:Get*".to_owned(),
        resource_pattern: u,
    };
    assert_eq!(policies.used(), [used]);
}

#[test]
fn a_role_may_invoke_what_it_is_allowed_to() {
    let policies = policies(vec![]);
    let f = "arn:aws:lambda:us-east-1:000000000000:function:f";
    assert!(policies.role_may_invoke(ROLE, f));
    assert!(policies.role_may_invoke(ROLE, &format!("{f}:live")), "a qualifier does not count");
    assert!(!policies.role_may_invoke(ROLE, &format!("{f}g")));
    assert!(!policies.role_may_invoke("arn:aws:iam::000000000000:role/none", f));
    assert!(!policies.role_may_send(ROLE, &format!("{QUEUES}:q")));
}

#[test]
fn a_grant_that_nothing_used_is_found_with_its_line() {
    let t = format!("{TABLES}/t");
    let from_sam = Statement { origin: Origin::Sam("an event"), ..allow(&["sqs:ReceiveMessage"], &["*"]) };
    let policies = policies(vec![allow(&["dynamodb:PutItem", "dynamodb:DeleteItem"], &[&t]), from_sam]);
    let words = |used: &BTreeSet<Used>| policies.unused(used).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(words(&BTreeSet::new()).len(), 2, "SAM's own is not asked for");
    assert_eq!(policies.authorize(&access_key_id("f"), &call("PutItem", json!({"TableName": "t"}))), Ok(()));
    let used = policies.used().into_iter().collect();
    assert_eq!(words(&used), [format!("template.yaml:1: f may dynamodb:DeleteItem on {t}, and never did")]);
}
