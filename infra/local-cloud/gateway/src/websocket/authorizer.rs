//! The REQUEST authorizer of `$connect`: is there an identity to ask about, and what does the policy say that the
//! function gave back?

use http::request::Parts;
use serde_json::{Map, Value};

use crate::iam::like;
use crate::text::query_pairs;

/// What an authorizer's answer means.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Go on; later events carry this as `requestContext.authorizer`.
    Allow(Value),
    /// 403.
    Deny,
    /// 500: the answer is no policy.
    Malformed,
}

/// Whether every identity source is there and not empty. If not, the function is not asked: 401.
pub(super) fn has_identity(sources: &[String], request: &Parts) -> bool {
    let query = query_pairs(request.uri.query().unwrap_or_default());
    sources.iter().all(|source| {
        if let Some(name) = source.strip_prefix("route.request.querystring.") {
            query.iter().any(|(given, value)| given == name && !value.is_empty())
        } else if let Some(name) = source.strip_prefix("route.request.header.") {
            request.headers.get(name).is_some_and(|value| !value.is_empty())
        } else {
            // Stage variables and the context are always there.
            true
        }
    })
}

/// Reads the authorizer's answer for the method with this ARN.
pub(super) fn verdict(answer: &[u8], method_arn: &str) -> Verdict {
    let Ok(Value::Object(answer)) = serde_json::from_slice(answer) else { return Verdict::Malformed };
    let statements = match answer.get("policyDocument").and_then(|policy| policy.get("Statement")) {
        Some(Value::Array(statements)) => statements.clone(),
        Some(statement @ Value::Object(_)) => vec![statement.clone()],
        _ => return Verdict::Malformed,
    };
    let Some(principal) = answer.get("principalId").filter(|principal| principal.is_string()) else {
        return Verdict::Malformed;
    };
    let says = |effect: &str| {
        statements.iter().any(|statement| {
            statement.get("Effect").and_then(Value::as_str) == Some(effect)
                && names(statement, "Action", "execute-api:Invoke")
                && names(statement, "Resource", method_arn)
        })
    };
    if says("Deny") || !says("Allow") {
        return Verdict::Deny;
    }
    let mut context = Map::new();
    for (name, value) in answer.get("context").and_then(Value::as_object).into_iter().flatten() {
        // Only text, numbers and booleans pass, and they arrive as text.
        match value {
            Value::String(text) => context.insert(name.clone(), Value::String(text.clone())),
            Value::Number(_) | Value::Bool(_) => context.insert(name.clone(), Value::String(value.to_string())),
            _ => return Verdict::Malformed,
        };
    }
    context.insert("principalId".to_owned(), principal.clone());
    Verdict::Allow(Value::Object(context))
}

fn names(statement: &Value, field: &str, wanted: &str) -> bool {
    let ignore_case = field == "Action";
    let matches = |pattern: &str| {
        if ignore_case {
            like(&pattern.to_ascii_lowercase(), &wanted.to_ascii_lowercase())
        } else {
            like(pattern, wanted)
        }
    };
    match statement.get(field) {
        Some(Value::String(pattern)) => matches(pattern),
        Some(Value::Array(patterns)) => patterns.iter().filter_map(Value::as_str).any(matches),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ARN: &str = "arn:aws:execute-api:us-east-1:0:sock/prod/$connect";

    fn answer(statements: &Value) -> Verdict {
        let answer = json!({
            "principalId": "b1",
            "policyDocument": {"Version": "2012-10-17", "Statement": statements},
            "context": {"buyer": "b1", "level": 3, "vip": true},
        });
        verdict(answer.to_string().as_bytes(), ARN)
    }

    #[test]
    fn allow_passes_the_context_on_as_text() {
        let allowed = answer(&json!([{"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": ARN}]));
        let context = json!({"principalId": "b1", "buyer": "b1", "level": "3", "vip": "true"});
        assert_eq!(allowed, Verdict::Allow(context));
    }

    #[test]
    fn deny_wins_and_nothing_allows_by_itself() {
        for statements in [
            json!([]),
            json!([{"Effect": "Deny", "Action": "*", "Resource": "*"}]),
            json!([
                {"Effect": "Allow", "Action": "*", "Resource": "*"},
                {"Effect": "Deny", "Action": "*", "Resource": "*"},
            ]),
            json!([{"Effect": "Allow", "Action": "execute-api:ManageConnections", "Resource": "*"}]),
            json!([{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:execute-api:us-east-1:0:other/*"}]),
        ] {
            assert_eq!(answer(&statements), Verdict::Deny, "{statements}");
        }
        let wild = json!({"Effect": "Allow", "Action": ["execute-api:*"], "Resource": ["x", "arn:*/prod/?connect"]});
        assert!(matches!(answer(&wild), Verdict::Allow(_)));
    }

    #[test]
    fn an_answer_that_is_no_policy_is_malformed() {
        for answer in
            [json!("yes"), json!({}), json!({"principalId": "a"}), json!({"policyDocument": {"Statement": []}})]
        {
            assert_eq!(verdict(answer.to_string().as_bytes(), ARN), Verdict::Malformed, "{answer}");
        }
    }

    #[test]
    fn every_identity_source_must_be_there() {
        let request = |uri: &str| http::Request::get(uri).header("x-key", "k").body(()).unwrap().into_parts().0;
        let both = ["route.request.querystring.token".to_owned(), "route.request.header.X-Key".to_owned()];
        assert!(has_identity(&both, &request("/ws?token=a")));
        assert!(!has_identity(&both, &request("/ws?token=")));
        assert!(!has_identity(&both, &request("/ws")));
        assert!(!has_identity(&["route.request.header.other".to_owned()], &request("/ws")));
    }
}
