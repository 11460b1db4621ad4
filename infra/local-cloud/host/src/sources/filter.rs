//! Filter patterns: EventBridge's pattern language, as event source mappings use it.
//!
//! A pattern is an object like the record, with a list of alternatives at each leaf. All of its fields must match; of
//! a list's alternatives, and of several patterns, one is enough. What is not part of the language is an error at the
//! start, never a pattern that silently matches nothing.

use serde_json::{Map, Value};

/// Patterns that were checked. A record passes if any of them matches, or if there are none.
#[derive(Clone, Debug, Default)]
pub struct Filter(Vec<Map<String, Value>>);

/// Why a pattern is not one, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter pattern, at {at}: {problem}")]
pub struct FilterError {
    /// The path of the field.
    pub at: String,
    /// What is wrong there.
    pub problem: String,
}

impl Filter {
    /// Checks the patterns of an event source mapping.
    pub fn parse(patterns: &[Value]) -> Result<Self, FilterError> {
        let mut checked = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            let Value::Object(fields) = pattern else {
                return Err(error("$", "a pattern is an object"));
            };
            check_fields(fields, "$")?;
            checked.push(fields.clone());
        }
        Ok(Self(checked))
    }

    /// Whether a record passes.
    pub fn passes(&self, record: &Value) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| fields_match(pattern, Some(record)))
    }
}

fn fields_match(pattern: &Map<String, Value>, event: Option<&Value>) -> bool {
    pattern.iter().all(|(name, expected)| match (name.as_str(), expected) {
        ("$or", Value::Array(alternatives)) => {
            alternatives.iter().any(|one| one.as_object().is_some_and(|one| fields_match(one, event)))
        }
        (_, Value::Object(nested)) => match event.and_then(|event| event.get(name)) {
            // Of several objects in a list, one that matches is enough.
            Some(Value::Array(items)) => items.iter().any(|item| fields_match(nested, Some(item))),
            found => fields_match(nested, found),
        },
        (_, Value::Array(alternatives)) => {
            let found = event.and_then(|event| event.get(name));
            alternatives.iter().any(|alternative| field_matches(alternative, found))
        }
        _ => false,
    })
}

fn field_matches(alternative: &Value, found: Option<&Value>) -> bool {
    if let Some(Value::Bool(expected)) = alternative.get("exists") {
        let is_leaf = found.is_some_and(|value| !value.is_object());
        return is_leaf == *expected;
    }
    match found {
        Some(Value::Array(items)) => items.iter().any(|item| value_matches(alternative, item)),
        Some(value) => value_matches(alternative, value),
        None => false,
    }
}

fn value_matches(alternative: &Value, value: &Value) -> bool {
    match alternative.as_object().and_then(|operator| operator.iter().next()) {
        Some((operator, operand)) => operator_matches(operator, operand, value),
        None => same(alternative, value),
    }
}

fn operator_matches(operator: &str, operand: &Value, value: &Value) -> bool {
    match operator {
        "prefix" => text_matches(operand, value, |text, prefix| text.starts_with(prefix)),
        "suffix" => text_matches(operand, value, |text, suffix| text.ends_with(suffix)),
        "equals-ignore-case" => text_matches(operand, value, |text, other| text.to_lowercase() == other.to_lowercase()),
        "wildcard" => text_matches(operand, value, wildcard_matches),
        "anything-but" => match operand {
            Value::Array(excluded) => !excluded.iter().any(|one| same(one, value)),
            Value::Object(_) => !value_matches(operand, value),
            one => !same(one, value),
        },
        "numeric" => value.as_f64().is_some_and(|number| numeric_matches(operand, number)),
        _ => false,
    }
}

/// An operator on text, whose operand may itself say that case does not matter, or be a list of which one is enough.
fn text_matches(operand: &Value, value: &Value, test: impl Fn(&str, &str) -> bool + Copy) -> bool {
    let Some(text) = value.as_str() else { return false };
    match operand {
        Value::String(operand) => test(text, operand),
        Value::Array(operands) => operands.iter().any(|operand| text_matches(operand, value, test)),
        Value::Object(folded) => folded
            .get("equals-ignore-case")
            .and_then(Value::as_str)
            .is_some_and(|operand| test(&text.to_lowercase(), &operand.to_lowercase())),
        _ => false,
    }
}

/// `*` stands for any text.
fn wildcard_matches(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// `[">", 0, "<=", 5]`: all of its comparisons hold.
fn numeric_matches(comparisons: &Value, number: f64) -> bool {
    let Some(comparisons) = comparisons.as_array() else { return false };
    comparisons.chunks(2).all(|pair| match pair {
        [Value::String(comparison), bound] => bound.as_f64().is_some_and(|bound| match comparison.as_str() {
            "=" => number == bound,
            "<" => number < bound,
            "<=" => number <= bound,
            ">" => number > bound,
            ">=" => number >= bound,
            _ => false,
        }),
        _ => false,
    })
}

/// Equal, where 1 and 1.0 are the same number.
fn same(expected: &Value, value: &Value) -> bool {
    match (expected.as_f64(), value.as_f64()) {
        (Some(expected), Some(value)) => expected == value,
        _ => expected == value,
    }
}

fn check_fields(fields: &Map<String, Value>, at: &str) -> Result<(), FilterError> {
    for (name, expected) in fields {
        let at = format!("{at}.{name}");
        match expected {
            Value::Array(patterns) if name == "$or" => {
                for pattern in patterns {
                    let nested = pattern.as_object().ok_or_else(|| error(&at, "an alternative of $or is an object"))?;
                    check_fields(nested, &at)?;
                }
            }
            Value::Object(nested) => check_fields(nested, &at)?,
            Value::Array(alternatives) if !alternatives.is_empty() => {
                alternatives.iter().try_for_each(|alternative| check_alternative(alternative, &at))?;
            }
            _ => return Err(error(&at, "needs a list of what it may be, such as [\"a\", \"b\"], or an object")),
        }
    }
    Ok(())
}

fn check_alternative(alternative: &Value, at: &str) -> Result<(), FilterError> {
    match alternative {
        Value::Array(_) => Err(error(at, "a list inside the list of alternatives")),
        Value::Object(operator) => match operator.iter().next() {
            Some((name, operand)) if operator.len() == 1 => check_operator(name, operand, at),
            _ => Err(error(at, "an operator is an object with one field, such as {\"prefix\": \"a\"}")),
        },
        _ => Ok(()),
    }
}

fn check_operator(name: &str, operand: &Value, at: &str) -> Result<(), FilterError> {
    let folded = |operand: &Value| operand.get("equals-ignore-case").is_some_and(Value::is_string);
    let good = match name {
        "exists" => operand.is_boolean(),
        "prefix" | "suffix" => operand.is_string() || folded(operand),
        "equals-ignore-case" | "wildcard" => operand.is_string(),
        "numeric" => is_numeric(operand),
        "anything-but" => match operand {
            Value::Array(excluded) => {
                !excluded.is_empty() && excluded.iter().all(|one| one.is_string() || one.is_number())
            }
            Value::Object(nested) => {
                let allowed = ["prefix", "suffix", "equals-ignore-case", "wildcard"];
                let text = |value: &Value| match value {
                    Value::Array(items) => !items.is_empty() && items.iter().all(Value::is_string),
                    other => other.is_string(),
                };
                nested.len() == 1 && nested.iter().all(|(name, value)| allowed.contains(&name.as_str()) && text(value))
            }
            one => one.is_string() || one.is_number() || one.is_boolean() || one.is_null(),
        },
        _ => return Err(error(at, &format!("there is no operator {name:?}"))),
    };
    if good { Ok(()) } else { Err(error(at, &format!("{operand} is no operand for {name:?}"))) }
}

fn is_numeric(operand: &Value) -> bool {
    let Some(comparisons) = operand.as_array() else { return false };
    let pair_is_good = |pair: &[Value]| match pair {
        [Value::String(comparison), Value::Number(_)] => ["=", "<", "<=", ">", ">="].contains(&comparison.as_str()),
        _ => false,
    };
    matches!(comparisons.len(), 2 | 4) && comparisons.chunks(2).all(pair_is_good)
}

fn error(at: &str, problem: &str) -> FilterError {
    FilterError { at: at.to_owned(), problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn passes(pattern: Value, record: &Value) -> bool {
        Filter::parse(&[pattern]).unwrap().passes(record)
    }

    #[test]
    fn the_language() {
        let record = json!({
            "eventName": "MODIFY",
            "count": 5,
            "tags": ["red", "blue"],
            "nothing": null,
            "dynamodb": {
                "NewImage": { "status": { "S": "PAID" }, "note": { "S": "Gift-Wrapped" } },
                "Keys": { "id": { "S": "order#1" } },
            },
        });
        let image = |leaf: Value| json!({ "dynamodb": { "NewImage": { "status": { "S": leaf } } } });
        for (pattern, expected) in [
            (json!({ "eventName": ["INSERT", "MODIFY"] }), true),
            (json!({ "eventName": ["INSERT"] }), false),
            (json!({ "eventName": ["MODIFY"], "count": [6] }), false),
            (json!({ "count": [5.0] }), true),
            (json!({ "count": ["5"] }), false),
            (json!({ "nothing": [null] }), true),
            (json!({ "absent": [null] }), false),
            (json!({ "tags": ["blue"] }), true),
            (json!({ "tags": ["green"] }), false),
            (image(json!(["PAID"])), true),
            (image(json!(["CLOSED"])), false),
            (image(json!([{ "prefix": "PA" }])), true),
            (image(json!([{ "prefix": "pa" }])), false),
            (image(json!([{ "prefix": { "equals-ignore-case": "pa" } }])), true),
            (image(json!([{ "suffix": "ID" }])), true),
            (image(json!([{ "suffix": "X" }])), false),
            (image(json!([{ "equals-ignore-case": "paid" }])), true),
            (image(json!([{ "wildcard": "P*D" }])), true),
            (image(json!([{ "wildcard": "*AI*" }])), true),
            (image(json!([{ "wildcard": "P*X*D" }])), false),
            (image(json!([{ "anything-but": "PAID" }])), false),
            (image(json!([{ "anything-but": ["CLOSED", "FAILED"] }])), true),
            (image(json!([{ "anything-but": { "prefix": "PA" } }])), false),
            (image(json!([{ "anything-but": { "suffix": "X" } }])), true),
            (image(json!([{ "exists": true }])), true),
            (image(json!([{ "exists": false }])), false),
            (json!({ "dynamodb": { "OldImage": { "status": { "S": [{ "exists": false }] } } } }), true),
            (json!({ "dynamodb": { "OldImage": { "status": { "S": [{ "exists": true }] } } } }), false),
            (json!({ "dynamodb": { "OldImage": { "status": { "S": [{ "anything-but": "PAID" }] } } } }), false),
            // Only a leaf exists, for this operator.
            (json!({ "dynamodb": { "NewImage": [{ "exists": true }] } }), false),
            (json!({ "count": [{ "numeric": [">", 0, "<=", 5] }] }), true),
            (json!({ "count": [{ "numeric": ["<", 5] }] }), false),
            (json!({ "count": [{ "numeric": ["=", 5] }] }), true),
            // DynamoDB's numbers are text in a record: as in AWS, `numeric` does not see them.
            (image(json!([{ "numeric": [">", 0] }])), false),
            (json!({ "$or": [{ "eventName": ["INSERT"] }, { "count": [5] }] }), true),
            (json!({ "$or": [{ "eventName": ["INSERT"] }, { "count": [6] }] }), false),
            (json!({ "eventName": ["INSERT", { "prefix": "MOD" }] }), true),
        ] {
            assert_eq!(passes(pattern.clone(), &record), expected, "{pattern}");
        }
    }

    #[test]
    fn without_patterns_everything_passes_and_of_several_one_is_enough() {
        let record = json!({ "eventName": "MODIFY" });
        assert!(Filter::default().passes(&record));
        let two = [json!({ "eventName": ["INSERT"] }), json!({ "eventName": ["MODIFY"] })];
        assert!(Filter::parse(&two).unwrap().passes(&record));
    }

    #[test]
    fn what_is_not_the_language_is_said_with_its_place() {
        for (pattern, said) in [
            (json!(["INSERT"]), "filter pattern, at $: a pattern is an object"),
            (
                json!({ "a": { "b": "c" } }),
                "filter pattern, at $.a.b: needs a list of what it may be, such as [\"a\", \"b\"], or an object",
            ),
            (json!({ "a": [{ "starts": "c" }] }), "filter pattern, at $.a: there is no operator \"starts\""),
            (json!({ "a": [{ "numeric": [">"] }] }), "filter pattern, at $.a: [\">\"] is no operand for \"numeric\""),
            (json!({ "a": [{ "exists": "yes" }] }), "filter pattern, at $.a: \"yes\" is no operand for \"exists\""),
        ] {
            assert_eq!(Filter::parse(&[pattern]).unwrap_err().to_string(), said);
        }
    }
}
