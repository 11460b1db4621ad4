//! Request bodies: small, strict JSON. Every mistake is answered with the name of its field.

use std::marker::PhantomData;

use lambda_http::http::header::CONTENT_TYPE;
use lambda_http::{Body, Request};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::problem::{Code, Problem};

/// The largest body of a buyer's request: about a hundred times what any of them needs.
pub const SMALL: usize = 16 * 1024;
/// The largest body of an operator's request. A sale of 40 items with the longest names takes about 30 KB.
pub const LARGE: usize = 64 * 1024;
/// The longest explanation in characters. An explanation may quote what the client sent.
const MAX_WHY: usize = 200;

/// A JSON object. A derived `Deserialize` also accepts an array of the field values; this type does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

/// The bytes of a request's body exactly as they were sent, or a problem if there are more than `limit`.
pub fn raw(request: &Request, limit: usize) -> Result<&[u8], Problem> {
    let bytes: &[u8] = match request.body() {
        Body::Empty => &[],
        Body::Text(text) => text.as_bytes(),
        Body::Binary(bytes) => bytes,
        // `Body` is non-exhaustive. A kind that this version does not know has nothing to read.
        _ => &[],
    };
    if bytes.len() > limit {
        return Err(Problem::new(Code::TooLarge, format!("a body may have at most {limit} bytes")));
    }
    Ok(bytes)
}

/// Parses a request's body of at most `limit` bytes as `T`, which should deny unknown fields.
pub fn parse<T: DeserializeOwned>(request: &Request, limit: usize) -> Result<T, Problem> {
    let bytes = raw(request, limit)?;
    if let Some(kind) = request.headers().get(CONTENT_TYPE)
        && !kind.to_str().is_ok_and(is_json)
    {
        return Err(Problem::invalid("Content-Type", "must be application/json"));
    }
    if bytes.trim_ascii().is_empty() {
        return Err(Problem::invalid("body", "must be a JSON object"));
    }
    match serde_json::from_slice::<Object<T>>(bytes) {
        Ok(Object(value)) => Ok(value),
        // Only an invalid body is parsed a second time, to find out where the mistake is.
        Err(error) => Err(explain::<T>(bytes, &error)),
    }
}

fn is_json(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn explain<T: DeserializeOwned>(bytes: &[u8], error: &serde_json::Error) -> Problem {
    let reader = &mut serde_json::Deserializer::from_slice(bytes);
    let path = match serde_path_to_error::deserialize::<_, Object<T>>(reader) {
        Err(error) => error.path().to_string(),
        // The object is valid, and something follows it.
        Ok(_) => String::new(),
    };
    // serde_path_to_error writes a question mark for a name that is cut off.
    let path = path.trim_end_matches('?').trim_end_matches('.');
    let text = error.to_string();
    // For a missing, unknown or duplicate field the path is that of the object around it, and the text names the field.
    let named = ["missing field `", "unknown field `", "duplicate field `"]
        .iter()
        .find_map(|before| text.strip_prefix(before)?.split('`').next());
    let field = match (path, named) {
        ("", None) => "body".to_owned(),
        ("", Some(name)) => name.to_owned(),
        (path, Some(name)) if path.rsplit('.').next() != Some(name) => format!("{path}.{name}"),
        (path, _) => path.to_owned(),
    };
    Problem::invalid(shortened(&field), shortened(&reason(&text)))
}

/// Translates an error text of serde for readers who do not know Rust.
fn reason(text: &str) -> String {
    let text = text.rsplit_once(" at line ").map_or(text, |(before, _)| before);
    if text.starts_with("missing field") {
        return "is missing".to_owned();
    }
    if text.starts_with("duplicate field") {
        return "occurs more than once".to_owned();
    }
    if let Some((_, known)) = text.strip_prefix("unknown field `").and_then(|rest| rest.split_once("expected ")) {
        return format!("is not a known field: expected {known}");
    }
    let in_words = [
        ("a nonzero u32", "a whole number from 1 to 4294967295"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("i64", "a whole number"),
    ];
    for (rust, words) in in_words {
        if let Some(before) = text.strip_suffix(&format!("expected {rust}")) {
            return format!("{before}expected {words}");
        }
    }
    text.to_owned()
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_WHY) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Form {
        quantity: NonZeroU32,
        #[serde(default)]
        price: i64,
        #[serde(default)]
        items: Vec<Object<Part>>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Part {
        item_id: domain::ids::ItemId,
        stock: u32,
    }

    fn request(body: impl Into<Body>) -> Request {
        lambda_http::http::Request::post("/").header("content-type", "application/json").body(body.into()).unwrap()
    }

    fn field_and_reason(body: &str) -> (String, String) {
        let problem = parse::<Form>(&request(body), SMALL).unwrap_err();
        assert_eq!(problem.code, Code::Invalid, "{body}");
        let error = problem.errors.into_iter().next().unwrap();
        (error.field, error.why)
    }

    #[test]
    fn a_valid_body_is_parsed() {
        let form: Form = parse(&request(r#"{"quantity": 2}"#), SMALL).unwrap();
        assert_eq!(form.quantity.get(), 2);
        let form: Form = parse(&request(br#" {"quantity": 3} "#.to_vec()), SMALL).unwrap();
        assert_eq!(form.quantity.get(), 3);
    }

    #[test]
    fn every_mistake_in_a_body_names_its_field() {
        let whole = "a whole number from 1 to 4294967295";
        let cases = [
            ("{}", "quantity", "is missing"),
            (r#"{"quantity": 1, "userId": "x"}"#, "userId", "is not a known field: expected one of"),
            (r#"{"quantity": 1, "quantity": 2}"#, "quantity", "occurs more than once"),
            (r#"{"quantity": 0}"#, "quantity", whole),
            (r#"{"quantity": -1}"#, "quantity", whole),
            (r#"{"quantity": 1.5}"#, "quantity", whole),
            (r#"{"quantity": 1e3}"#, "quantity", whole),
            (r#"{"quantity": 4294967296}"#, "quantity", whole),
            (r#"{"quantity": 99999999999999999999999999}"#, "quantity", whole),
            (r#"{"quantity": 1e999}"#, "quantity", "number out of range"),
            (r#"{"quantity": "1"}"#, "quantity", whole),
            (r#"{"quantity": null}"#, "quantity", whole),
            (r#"{"quantity": 1, "price": 1e30}"#, "price", "a whole number"),
            (
                r#"{"quantity": 1, "items": [{"itemId": "a b", "stock": 1}]}"#,
                "items[0].itemId",
                "itemId must be 1 to 32",
            ),
            (r#"{"quantity": 1, "items": [{"itemId": "a"}]}"#, "items[0].stock", "is missing"),
            (
                r#"{"quantity": 1, "items": [{"itemId": "a", "stock": 1, "x": 1}]}"#,
                "items[0].x",
                "is not a known field",
            ),
            (r#"{"quantity": 1, "items": [["a", 1]]}"#, "items[0]", "a JSON object"),
            (r#"{"quantity": 1, "items": [{"itemId": "a", "stock": -1}]}"#, "items[0].stock", "from 0 to"),
            ("[1]", "body", "a JSON object"),
            ("null", "body", "a JSON object"),
            ("", "body", "must be a JSON object"),
            ("  ", "body", "must be a JSON object"),
            ("{", "body", "EOF"),
            (r#"{"quantity": 1} x"#, "body", "trailing characters"),
            (r#"{"quantity": NaN}"#, "quantity", "expected value"),
        ];
        for (body, field, why) in cases {
            let (actual_field, reason) = field_and_reason(body);
            assert_eq!(actual_field, field, "{body}: {reason}");
            assert!(reason.contains(why), "{body}: {reason}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_invalid() {
        let bytes = b"{\"quantity\": 1, \"items\": [{\"itemId\": \"\xff\", \"stock\": 1}]}".to_vec();
        assert_eq!(parse::<Form>(&request(bytes), SMALL).unwrap_err().code, Code::Invalid);
    }

    #[test]
    fn deep_nesting_is_invalid() {
        let deep = format!("{{\"quantity\": {}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
        assert_eq!(parse::<Form>(&request(deep), SMALL).unwrap_err().code, Code::Invalid);
    }

    #[test]
    fn a_body_above_the_limit_is_refused_before_it_is_parsed() {
        let fits = format!("{{\"quantity\": 1}}{}", " ".repeat(SMALL - 15));
        assert_eq!(fits.len(), SMALL);
        assert!(parse::<Form>(&request(fits.clone()), SMALL).is_ok());
        assert_eq!(parse::<Form>(&request(format!("{fits} ")), SMALL).unwrap_err().code, Code::TooLarge);
    }

    #[test]
    fn only_json_content_types_are_accepted() {
        for (kind, fine) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/vnd.shop+json", true),
            ("text/plain", false),
            ("application/x-www-form-urlencoded", false),
        ] {
            let body = Body::from(r#"{"quantity": 1}"#);
            let request = lambda_http::http::Request::post("/").header("content-type", kind).body(body).unwrap();
            assert_eq!(parse::<Form>(&request, SMALL).is_ok(), fine, "{kind}");
        }
        let bare = lambda_http::http::Request::post("/").body(Body::from(r#"{"quantity": 1}"#)).unwrap();
        assert!(parse::<Form>(&bare, SMALL).is_ok());
    }

    #[test]
    fn quotes_of_the_body_are_cut_short() {
        let (field, why) = field_and_reason(&format!("{{\"quantity\": \"{}\"}}", "x".repeat(10_000)));
        assert_eq!(field, "quantity");
        assert!(why.chars().count() <= MAX_WHY + 1);
        let (field, _) = field_and_reason(&format!("{{\"quantity\": 1, \"{}\": 1}}", "ü".repeat(5_000)));
        assert!(field.chars().count() <= MAX_WHY + 1);
    }
}
