//! The reader on whole templates: a large good one and many broken ones.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::model::*;
use super::*;

fn fixture(stage: &[(&str, &str)]) -> Stack {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/everything.yaml");
    let given = stage.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    read(&path, &given).unwrap_or_else(|error| panic!("{error}"))
}

fn function<'a>(stack: &'a Stack, id: &str) -> &'a Function {
    stack.functions.iter().find(|function| function.logical_id == id).expect(id)
}

#[test]
fn functions_get_globals_names_and_environment() {
    let stack = fixture(&[]);
    let buy = function(&stack, "Buy");
    assert_eq!(buy.name, "local-dev-buy");
    assert_eq!(buy.arn, "arn:aws:lambda:us-east-1:000000000000:function:local-dev-buy");
    assert_eq!(buy.binary, "buy-now");
    assert_eq!((buy.timeout, buy.memory_mb, buy.reserved_concurrency), (Duration::from_secs(5), 256, None));
    let expected = [
        ("HALF", "dev-orders"),
        ("LONG", "aws 000000000000 amazonaws.com"),
        ("ORDERS", "local-Orders"),
        ("QUEUE_URL", "http://sqs.us-east-1.localhost/000000000000/dev-orders"),
        ("STAGE", "dev"),
        ("TEXT", "stream of arn:aws:dynamodb:us-east-1:000000000000:table/local-Orders costs ${Price}"),
    ];
    assert_eq!(buy.environment, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
    assert_eq!(function(&stack, "Consume").binary, "consume");
    let ids: Vec<&str> = stack.functions.iter().map(|function| function.logical_id.as_str()).collect();
    assert_eq!(ids, ["Buy", "Consume", "Live"]);
}

#[test]
fn parameters_and_conditions_change_the_stack() {
    let stack = fixture(&[("Stage", "prod")]);
    let buy = function(&stack, "Buy");
    assert_eq!((buy.memory_mb, buy.reserved_concurrency), (1024, Some(900)));
    assert!(stack.queues.iter().any(|queue| queue.logical_id == "OnlyInProd"));
    assert!(stack.outputs.contains_key("ProdUrl"));

    let stack = fixture(&[]);
    assert!(!stack.queues.iter().any(|queue| queue.logical_id == "OnlyInProd"));
    assert!(!stack.outputs.contains_key("ProdUrl"));
}

#[test]
fn sources_say_when_a_function_is_invoked() {
    let stack = fixture(&[]);
    let letters = "arn:aws:sqs:us-east-1:000000000000:local-DeadLetters".to_owned();
    let consume = function(&stack, "Consume");
    assert_eq!(
        consume.sources,
        [
            EventSource::Queue(QueueSource {
                queue_arn: "arn:aws:sqs:us-east-1:000000000000:dev-orders".to_owned(),
                batch_size: 100,
                window: Duration::from_secs(2),
                partial_responses: true,
                maximum_concurrency: Some(20),
            }),
            EventSource::Stream(StreamSource {
                table: "local-Orders".to_owned(),
                batch_size: 100,
                window: Duration::ZERO,
                from_start: false,
                filters: vec![json!({"eventName": ["MODIFY"]})],
                retries: Some(3),
                bisect: true,
                partial_responses: false,
                on_failure: Some(letters.clone()),
            }),
            EventSource::Schedule(ScheduleSource {
                name: "local-ConsumeMinute".to_owned(),
                expression: "rate(1 minute)".to_owned(),
                input: Some("{\"why\": \"minute\"}".to_owned()),
                retries: 185,
                dead_letter_queue: None,
                enabled: false,
            }),
            EventSource::Schedule(ScheduleSource {
                name: "nightly".to_owned(),
                expression: "rate(1 day)".to_owned(),
                input: None,
                retries: 4,
                dead_letter_queue: Some(letters.clone()),
                enabled: true,
            }),
        ]
    );
    assert_eq!(
        consume.asynchronous,
        AsyncConfig {
            retries: 1,
            maximum_age: Duration::from_secs(120),
            on_failure: Some(letters.clone()),
            dead_letter_queue: Some(letters),
        }
    );
    let live = function(&stack, "Live");
    let [EventSource::Stream(source)] = live.sources.as_slice() else { panic!("{:?}", live.sources) };
    assert!(source.from_start && source.retries.is_none());
    assert_eq!(live.asynchronous.retries, 0);
}

#[test]
fn statements_are_the_written_ones_and_those_that_sam_adds() {
    let stack = fixture(&[]);
    let buy = function(&stack, "Buy");
    let written = buy.statements.iter().filter(|statement| matches!(statement.origin, Origin::Written(_))).count();
    assert_eq!(written, 5);
    let deny = buy.statements.iter().find(|statement| statement.effect == Effect::Deny).expect("a Deny");
    assert_eq!(deny.resources, ["arn:aws:dynamodb:us-east-1:000000000000:table/local-Orders/index/secret"]);

    let sam: Vec<&str> = function(&stack, "Consume")
        .statements
        .iter()
        .filter_map(|statement| match &statement.origin {
            Origin::Sam(why) => Some(*why),
            _ => None,
        })
        .collect();
    let expected = [
        "EventInvokeConfig's destination",
        "DeadLetterQueue",
        "an SQS event",
        "a DynamoDB event",
        "a DynamoDB event's destination",
        "an SQS event",
    ];
    assert_eq!(sam, expected);
    // A function with a role of its own has the role's statements, and nothing is added to them.
    let live = &function(&stack, "Live").statements;
    assert!(live.iter().all(|statement| !matches!(statement.origin, Origin::Sam(_))));
    assert_eq!(live.len(), 2);
    assert_eq!(stack.roles.len(), 2, "generated roles are the functions' own");
}

#[test]
fn tables_and_queues_are_requests_that_the_services_take() {
    let stack = fixture(&[]);
    let orders = stack.tables.first().expect("a table");
    assert_eq!(
        orders.create,
        json!({
            "TableName": "local-Orders",
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [
                {"AttributeName": "order", "AttributeType": "S"},
                {"AttributeName": "buyer", "AttributeType": "S"},
                {"AttributeName": "at", "AttributeType": "N"},
            ],
            "KeySchema": [{"AttributeName": "order", "KeyType": "HASH"}],
            "GlobalSecondaryIndexes": [{
                "IndexName": "by-buyer",
                "KeySchema": [
                    {"AttributeName": "buyer", "KeyType": "HASH"},
                    {"AttributeName": "at", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["state"]},
            }],
            "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"},
            "SSESpecification": {"Enabled": true},
            "DeletionProtectionEnabled": false,
            "OnDemandThroughput": {"MaxReadRequestUnits": 1000, "MaxWriteRequestUnits": 500},
            "Tags": [{"Key": "team", "Value": "sales"}],
        })
    );
    assert_eq!(orders.ttl_attribute.as_deref(), Some("expires"));
    assert_eq!(orders.stream_arn.as_ref(), stack.outputs.get("Stream"));

    let queue = stack.queues.iter().find(|queue| queue.name == "dev-orders").expect("the queue");
    assert_eq!(queue.url, stack.outputs["QueueUrl"]);
    assert_eq!(queue.attributes["VisibilityTimeout"], "60");
    let redrive: serde_json::Value = serde_json::from_str(&queue.attributes["RedrivePolicy"]).expect("JSON");
    let letters = "arn:aws:sqs:us-east-1:000000000000:local-DeadLetters";
    assert_eq!(redrive, json!({"deadLetterTargetArn": letters, "maxReceiveCount": 4}));
    assert_eq!(stack.schedule_groups, ["local-group"]);
}

#[test]
fn routes_know_their_authorizer_scopes_and_throttle() {
    let stack = fixture(&[]);
    let api = stack.http_api.expect("an HTTP API");
    let routes: Vec<_> = api
        .routes
        .iter()
        .map(|route| {
            let scopes = route.scopes.join(" ");
            (route.method.as_str(), route.path.as_str(), route.function.as_str(), route.authorizer.as_deref(), scopes)
        })
        .collect();
    let buy = "local-dev-buy";
    assert_eq!(
        routes,
        [
            ("POST", "/buy", buy, Some("Buyers"), String::new()),
            ("GET", "/items/{item}", buy, None, String::new()),
            ("ANY", "/admin/{proxy+}", buy, Some("Operators"), "shop/admin".to_owned()),
            ("DELETE", "/items/{item}", buy, Some("Buyers"), "shop/write".to_owned()),
            ("GET", "/explicit", "local-Live", Some("HttpAuthorizer"), "read".to_owned()),
        ]
    );
    assert_eq!(api.stage, "$default");
    assert_eq!(api.authorizers["Buyers"].audience, ["shop", "admin"]);
    assert_eq!(api.authorizers["HttpAuthorizer"].audience, ["x"]);
    assert_eq!(api.throttle, Some(Throttle { rate: 500.0, burst: 200 }));
    assert_eq!(api.route_throttles["POST /buy"], Throttle { rate: 50.0, burst: 5 });
    assert_eq!(api.route_throttles["DELETE /items/{item}"], Throttle { rate: 1.5, burst: 1 });
    let cors = api.cors.expect("CORS");
    assert_eq!(
        (cors.origins.as_slice(), cors.max_age),
        (&["https://shop.example".to_owned()][..], Some(Duration::from_secs(600)))
    );
    assert!(cors.credentials);
}

#[test]
fn the_websocket_api_has_its_routes_and_authorizer() {
    let stack = fixture(&[]);
    let api = stack.websocket_api.expect("a WebSocket API");
    assert_eq!(api.stage, "live");
    assert_eq!(api.execute_arn, "arn:aws:execute-api:us-east-1:000000000000:sockets");
    assert_eq!(api.route_selection, "$request.body.action");
    let live = || "local-Live".to_owned();
    assert_eq!(api.routes, [("$connect".to_owned(), live()), ("$disconnect".to_owned(), live())].into());
    let identity = vec!["route.request.querystring.token".to_owned()];
    assert_eq!(api.connect_authorizer, Some(RequestAuthorizer { function: live(), identity }));
}

#[test]
fn references_yield_what_aws_yields() {
    let outputs = fixture(&[]).outputs;
    for (name, value) in [
        ("GroupArn", "arn:aws:scheduler:us-east-1:000000000000:schedule-group/local-group"),
        ("Endpoint", "wss://sockets.execute-api.us-east-1.amazonaws.com"),
        ("StackId", "arn:aws:cloudformation:us-east-1:000000000000:stack/local/00000000-0000-4000-8000-000000000000"),
    ] {
        assert_eq!(outputs[name], value);
    }
}
