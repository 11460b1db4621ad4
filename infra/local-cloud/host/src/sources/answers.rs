//! What a function's answer says about the batch it was given.

use serde::Deserialize;
use serde_json::Value;

/// Which part of a batch failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failures {
    None,
    /// These, by their identifiers.
    Some(Vec<String>),
    /// All: the answer does not make sense, so nothing can be taken for done.
    All,
}

/// Reads a partial batch response. `ids` are the batch's identifiers: message ids or sequence numbers.
///
/// No answer, `null`, and a missing, `null` or empty list mean success. An identifier that is empty, missing or not
/// in the batch means that all failed.
pub fn failures(answer: &[u8], ids: &[&str]) -> Failures {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "batchItemFailures", default)]
        failures: Option<Vec<Value>>,
    }
    if answer.is_empty() {
        return Failures::None;
    }
    let failures = match serde_json::from_slice::<Option<Answer>>(answer) {
        Ok(None) => return Failures::None,
        Ok(Some(answer)) => answer.failures.unwrap_or_default(),
        Err(_) => return Failures::All,
    };
    let known = |failure: &Value| {
        let id = failure.get("itemIdentifier")?.as_str()?;
        ids.contains(&id).then(|| id.to_owned())
    };
    match failures.iter().map(known).collect::<Option<Vec<_>>>() {
        Some(failed) if failed.is_empty() => Failures::None,
        Some(failed) => Failures::Some(failed),
        None => Failures::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_lambda_reads_them() {
        let some = |ids: &[&str]| Failures::Some(ids.iter().map(|id| (*id).to_owned()).collect());
        for (answer, expected) in [
            ("", Failures::None),
            ("null", Failures::None),
            ("{}", Failures::None),
            (r#"{"batchItemFailures": null}"#, Failures::None),
            (r#"{"batchItemFailures": []}"#, Failures::None),
            (r#"{"batchItemFailures": [{"itemIdentifier": "b"}]}"#, some(&["b"])),
            (r#"{"batchItemFailures": [{"itemIdentifier": "b"}, {"itemIdentifier": "a"}]}"#, some(&["b", "a"])),
            (r#"{"batchItemFailures": [{"itemIdentifier": "c"}]}"#, Failures::All),
            (r#"{"batchItemFailures": [{"itemIdentifier": ""}]}"#, Failures::All),
            (r#"{"batchItemFailures": [{"itemIdentifier": null}]}"#, Failures::All),
            (r#"{"batchItemFailures": [{"id": "a"}]}"#, Failures::All),
            (r#"{"batchItemFailures": "a"}"#, Failures::All),
            ("not json", Failures::All),
            ("\"text\"", Failures::All),
        ] {
            assert_eq!(failures(answer.as_bytes(), &["a", "b"]), expected, "{answer}");
        }
    }
}
