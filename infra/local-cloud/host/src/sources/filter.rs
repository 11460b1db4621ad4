//! Filter patterns of event source mappings: the part of EventBridge's pattern language that templates use most.
//!
//! A pattern is an object like the record, with a list of alternatives at each leaf: values, or `{"exists": true}`
//! and `{"exists": false}`. All of its fields must match; of a list's alternatives, and of several patterns, one is
//! enough. Anything else is an error at the start, never a pattern that silently matches nothing.

use serde_json::{Map, Value};

/// Patterns that were checked. A record passes if any of them matches, or if there are none.
#[derive(Clone, Debug, Default)]
pub struct Filter(Vec<Map<String, Value>>);

/// Why a pattern cannot be used, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter pattern, at {at}: {problem}")]
pub struct FilterError {
    /// The path of the field.
    pub at: String,
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

    /// Whether every record passes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a record passes.
    pub fn passes(&self, record: &Value) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| fields_match(pattern, Some(record)))
    }
}

fn fields_match(pattern: &Map<String, Value>, event: Option<&Value>) -> bool {
    pattern.iter().all(|(name, expected)| {
        let found = event.and_then(|event| event.get(name));
        match (expected, found) {
            // Of several objects in a list, one that matches is enough.
            (Value::Object(nested), Some(Value::Array(items))) => {
                items.iter().any(|item| fields_match(nested, Some(item)))
            }
            (Value::Object(nested), found) => fields_match(nested, found),
            (Value::Array(alternatives), found) => {
                alternatives.iter().any(|alternative| field_matches(alternative, found))
            }
            _ => false,
        }
    })
}

fn field_matches(alternative: &Value, found: Option<&Value>) -> bool {
    // `exists` is about leaves: an object is none.
    if let Some(Value::Bool(expected)) = alternative.get("exists") {
        return found.is_some_and(|value| !value.is_object()) == *expected;
    }
    match found {
        Some(Value::Array(items)) => items.iter().any(|item| same(alternative, item)),
        Some(value) => same(alternative, value),
        None => false,
    }
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
            _ if name.starts_with('$') => return Err(error(&at, "is not supported: write several patterns")),
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
        Value::Object(operator) => {
            let is_exists = operator.len() == 1 && operator.get("exists").is_some_and(Value::is_boolean);
            let names: Vec<&str> = operator.keys().map(String::as_str).collect();
            let problem = || format!("{} is not supported: use values or {{\"exists\": true}}", names.join(", "));
            if is_exists { Ok(()) } else { Err(error(at, &problem())) }
        }
        _ => Ok(()),
    }
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
    fn every_field_must_match_and_one_alternative_is_enough() {
        let record = json!({"eventName": "INSERT", "dynamodb": {"NewImage": {"n": {"N": "1"}}, "size": 3}});
        for (pattern, expected) in [
            (json!({}), true),
            (json!({"eventName": ["INSERT"]}), true),
            (json!({"eventName": ["MODIFY", "INSERT"]}), true),
            (json!({"eventName": ["MODIFY"]}), false),
            (json!({"eventName": ["INSERT"], "dynamodb": {"size": [3.0]}}), true),
            (json!({"eventName": ["INSERT"], "dynamodb": {"size": [4]}}), false),
            (json!({"dynamodb": {"NewImage": {"n": {"N": ["1"]}}}}), true),
            (json!({"dynamodb": {"OldImage": {"n": {"N": ["1"]}}}}), false),
            (json!({"other": ["INSERT"]}), false),
        ] {
            assert_eq!(passes(pattern.clone(), &record), expected, "{pattern}");
        }
        assert!(Filter::default().passes(&record), "no pattern lets everything through");
        let either = [json!({"eventName": ["REMOVE"]}), json!({"eventName": ["INSERT"]})];
        assert!(Filter::parse(&either).unwrap().passes(&record));
    }

    #[test]
    fn a_leaf_can_be_asked_to_be_there_or_not() {
        let record = json!({"a": {"b": null}, "list": [1, 2]});
        assert!(passes(json!({"a": {"b": [{"exists": true}]}}), &record));
        assert!(passes(json!({"a": {"c": [{"exists": false}]}}), &record));
        assert!(!passes(json!({"a": [{"exists": true}]}), &record), "an object is no leaf");
        assert!(passes(json!({"list": [2]}), &record), "one item of a list is enough");
    }

    #[test]
    fn what_is_not_supported_is_refused_with_its_place() {
        for (pattern, at) in [
            (json!([]), "$"),
            (json!({"a": "b"}), "$.a"),
            (json!({"a": []}), "$.a"),
            (json!({"a": [["b"]]}), "$.a"),
            (json!({"a": {"b": [{"prefix": "c"}]}}), "$.a.b"),
            (json!({"a": [{"exists": "yes"}]}), "$.a"),
            (json!({"$or": [{"a": ["b"]}]}), "$.$or"),
        ] {
            assert_eq!(Filter::parse(std::slice::from_ref(&pattern)).unwrap_err().at, at, "{pattern}");
        }
    }
}
