//! `web/openapi.yaml` is correct: its routes match the template, its codes match the code, and wrong answers are
//! found. (Every answer in the end-to-end tests is checked against it too: see `testkit::http`.)

use std::collections::BTreeSet;

use edge::Code;
use edge::request::Scope;
use serde_json::{Value, json};
use testkit::contract::{Operation, description, fault, operations};
use testkit::world::{STACK, World, name_of};

use crate::handlers::Handlers;

#[test]
fn the_described_routes_and_scopes_match_the_template() {
    let routes = &STACK.http_api.as_ref().unwrap().routes;
    let deployed: BTreeSet<Operation> = routes
        .iter()
        .cloned()
        .map(|route| Operation {
            method: route.method,
            path: route.path,
            scopes: route.authorizer.map(|_| route.scopes),
        })
        .collect();
    assert_eq!(operations(), deployed);
}

/// The gateway and the function agree about every route: a route that was configured without a scope stays closed.
#[tokio::test]
async fn admin_checks_the_scopes_that_the_template_names() {
    let world = World::new().await;
    let handlers = Handlers::of(&world);
    let routes = &STACK.http_api.as_ref().unwrap().routes;
    let mut checked = 0;
    for route in routes.iter().filter(|route| route.function == name_of("admin")) {
        let path = route.path.replace("{orderId}", "00000000000000000000000000000AB").replace(['{', '}'], "");
        for scope in Scope::ALL {
            let answer = handlers.admin_request("somebody", scope.as_str(), &route.method, &path, None).await;
            let is_allowed = route.scopes.iter().any(|allowed| allowed == scope.as_str());
            assert_eq!(answer.status != 403, is_allowed, "{} {path} with {}", route.method, scope.as_str());
            checked += 1;
        }
    }
    assert!(checked >= 4 * 13, "{checked}");
}

#[test]
fn all_problem_codes_are_described() {
    let described = description()["components"]["schemas"]["Problem"]["properties"]["code"]["enum"].clone();
    let known: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(described, json!(known));
}

#[test]
fn every_operation_describes_its_common_errors() {
    for operation in operations().iter().filter(|operation| operation.scopes.is_some()) {
        let responses = &description()["paths"][&operation.path][operation.method.to_lowercase()]["responses"];
        for status in ["401", "429", "503"] {
            assert!(responses.get(status).is_some(), "{operation:?} {status}");
        }
        let of_operator = operation.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty());
        assert_eq!(responses.get("403").is_some(), of_operator, "{operation:?}");
    }
}

#[test]
fn an_answer_that_does_not_match_the_description_is_found() {
    let check = |status, kind: &str, body: Value| fault("GET", "/sales/s1?x=1", status, kind, &body);
    let good = json!({"now": "2026-11-11T00:00:00Z", "sales": []});
    assert_eq!(check(200, "application/json", good.clone()), None);
    assert_eq!(fault("GET", "/_local/stack", 200, "application/json", &good), None, "this path is not part of the API");
    for (status, kind, body, what) in [
        (201, "application/json", good.clone(), "this status is not described"),
        (200, "text/plain", good, "text/plain is not described"),
        (200, "application/json", json!({"now": "x"}), "lacks \"sales\""),
        (200, "application/json", json!({"now": 1, "sales": []}), "$.now is no string"),
        (200, "application/json", json!({"now": "x", "sales": [], "more": 1}), "has more"),
        (200, "application/json", json!({"now": "x", "sales": [{}]}), "$.sales[0] lacks"),
        (
            404,
            "application/problem+json",
            json!({"type": "", "title": "", "status": 404, "detail": "", "code": "GONE"}),
            "none of",
        ),
    ] {
        let said = check(status, kind, body).unwrap_or_default();
        assert!(said.contains(what), "{said:?} should say {what}");
    }
    let literal = fault("GET", "/admin/sales/s1/audit", 200, "application/json", &json!({}));
    assert!(literal.is_some_and(|said| said.contains("lacks")), "a literal segment wins over a parameter");
}
