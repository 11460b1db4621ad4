//! Checks answers against the description of the HTTP API, `web/openapi.yaml`.
//!
//! Every schema keyword in that file is either checked here or listed as descriptive. A keyword that is neither fails
//! the test, so nobody believes that something is checked when it is not. (`make fuzz-api` also checks formats and
//! patterns.)

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;

/// Schema keywords for people and clients, which are not checked here.
const ONLY_DESCRIBES: [&str; 11] = [
    "description",
    "format",
    "pattern",
    "examples",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
];

static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/openapi.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    local_cloud::template::document("web/openapi.yaml", &text).unwrap_or_else(|error| panic!("{error}"))
});

pub fn description() -> &'static Value {
    &DESCRIPTION
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    pub method: String,
    pub path: String,
    /// `None`: no token is needed. `Some`: a token with one of these scopes.
    pub scopes: Option<Vec<String>>,
}

/// All operations of the API.
pub fn operations() -> BTreeSet<Operation> {
    let everywhere = &DESCRIPTION["security"];
    let paths = DESCRIPTION["paths"].as_object().unwrap().iter();
    let of_path = |(path, item): (&String, &'static Value)| {
        let path = path.clone();
        let methods = item.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters");
        methods.map(move |(method, operation)| {
            let security = operation.get("security").unwrap_or(everywhere).as_array().unwrap();
            // Each alternative names one scope.
            let of_one = |one: &'static Value| one["token"].as_array().unwrap().iter();
            let all = security.iter().flat_map(of_one).map(|scope| scope.as_str().unwrap().to_owned()).collect();
            let scopes = (!security.is_empty()).then_some(all);
            Operation { method: method.to_uppercase(), path: path.clone(), scopes }
        })
    };
    paths.flat_map(of_path).collect()
}

/// What is wrong with an answer, or `None` if it matches the description. Paths outside the API (`/_local`, pages)
/// are not checked.
pub fn fault(method: &str, path: &str, status: u16, content_type: &str, body: &Value) -> Option<String> {
    let operation = find(method, path)?;
    let say = |what: String| Some(format!("{method} {path} {status}: {what}: {body}"));
    let Some(response) = operation["responses"].get(status.to_string()) else {
        return say("this status is not described".to_owned());
    };
    let content = resolve(response).get("content")?;
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    let Some(media) = content.get(kind) else { return say(format!("{kind} is not described")) };
    if kind == "text/html" {
        return None;
    }
    check(&media["schema"], body, "$").and_then(say)
}

/// The operation for a path. Literal segments win over parameters, as in API Gateway.
fn find(method: &str, path: &str) -> Option<&'static Value> {
    let path = path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let fits = |template: &str| {
        let wanted: Vec<&str> = template.trim_matches('/').split('/').collect();
        let same = |(wanted, part): (&&str, &&str)| wanted.starts_with('{') || wanted == part;
        wanted.len() == parts.len() && wanted.iter().zip(&parts).all(same)
    };
    let mut found: Vec<(&String, &Value)> =
        DESCRIPTION["paths"].as_object()?.iter().filter(|(path, _)| fits(path)).collect();
    found.retain(|(_, item)| item.get(method.to_lowercase()).is_some());
    found.sort_by_key(|(path, _)| path.matches('{').count());
    found.first()?.1.get(method.to_lowercase())
}

fn resolve(value: &'static Value) -> &'static Value {
    match value["$ref"].as_str() {
        Some(place) => {
            let pointer = place.strip_prefix('#').unwrap();
            resolve(DESCRIPTION.pointer(pointer).unwrap_or_else(|| panic!("{place} does not exist")))
        }
        None => value,
    }
}

fn check(schema: &'static Value, value: &Value, at: &str) -> Option<String> {
    let schema = resolve(schema);
    for (word, meant) in schema.as_object().unwrap() {
        let fault = match word.as_str() {
            "type" => {
                let kinds: Vec<&str> = match meant {
                    Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
                    one => one.as_str().into_iter().collect(),
                };
                (!kinds.iter().any(|kind| is_a(kind, value))).then(|| format!("{at} is no {}", kinds.join(" or ")))
            }
            "enum" => (!meant.as_array().unwrap().contains(value)).then(|| format!("{at} is {value}, none of {meant}")),
            "required" if value.is_object() => {
                let missing = meant.as_array().unwrap().iter().find(|name| value.get(name.as_str().unwrap()).is_none());
                missing.map(|name| format!("{at} lacks {name}"))
            }
            "properties" if value.is_object() => meant.as_object().unwrap().iter().find_map(|(name, schema)| {
                value.get(name).and_then(|value| check(schema, value, &format!("{at}.{name}")))
            }),
            "additionalProperties" if value.is_object() => {
                let known = schema["properties"].as_object();
                let is_known = |name: &String| known.is_some_and(|known| known.contains_key(name));
                let mut more = value.as_object().unwrap().iter().filter(|(name, _)| !is_known(name));
                match meant {
                    Value::Bool(false) => {
                        more.next().map(|(name, _)| format!("{at} has {name}, which is not described"))
                    }
                    each => more.find_map(|(name, value)| check(each, value, &format!("{at}.{name}"))),
                }
            }
            "items" if value.is_array() => {
                let mut all = value.as_array().unwrap().iter().enumerate();
                all.find_map(|(place, value)| check(meant, value, &format!("{at}[{place}]")))
            }
            "anyOf" => {
                let all: Vec<Option<String>> =
                    meant.as_array().unwrap().iter().map(|schema| check(schema, value, at)).collect();
                all.iter().all(Option::is_some).then(|| format!("{at} matches none of the allowed schemas: {all:?}"))
            }
            "required" | "properties" | "additionalProperties" | "items" => None,
            word if ONLY_DESCRIBES.contains(&word) => None,
            word => {
                panic!("web/openapi.yaml uses {word}, which is not checked: add it to crates/testkit/src/contract.rs")
            }
        };
        if fault.is_some() {
            return fault;
        }
    }
    None
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other} is not a JSON type"),
    }
}
