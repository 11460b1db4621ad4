//! The JWT authorizer: who a request comes from, and whether its token may use a route.
//!
//! Only RS256 with this issuer's own key is accepted, so a token cannot choose how it is checked. `exp` is required;
//! `nbf` and `iat` must not lie ahead; `aud`, or `client_id` if there is no `aud`, must be one that the authorizer
//! names.

use std::collections::HashMap;

use http::{HeaderMap, HeaderValue, header};
use jsonwebtoken::{Algorithm, Validation};
use serde_json::{Map, Value, json};

use super::issuer::Issuer;
use crate::template::model::JwtAuthorizer;

/// Why a request does not pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("no token")]
    NoToken,
    #[error("the token is malformed")]
    Malformed,
    #[error("signing method is invalid")]
    Algorithm,
    #[error("the token is not signed by a key of the issuer")]
    Key,
    #[error("the token's signature is invalid")]
    Signature,
    #[error("the token does not have a valid issuer")]
    Issuer,
    #[error("the token does not have a valid audience")]
    Audience,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYet,
    #[error("the token needs one of the scopes: {}", .0.join(" "))]
    Scope(Vec<String>),
}

impl Refusal {
    /// The `www-authenticate` header that goes with it.
    pub(super) fn challenge(&self) -> HeaderValue {
        let text = match self {
            Self::NoToken => "Bearer".to_owned(),
            Self::Scope(scopes) => {
                format!(
                    "Bearer scope=\"{}\" error=\"insufficient_scope\" error_description=\"{self}\"",
                    scopes.join(" ")
                )
            }
            _ => format!("Bearer scope=\"\" error=\"invalid_token\" error_description=\"{self}\""),
        };
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("Bearer"))
    }
}

/// What a good token says: its claims, as the text in which they reach a function, and its scopes if the route asks for
/// some.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verified {
    pub(super) claims: HashMap<String, String>,
    pub(super) scopes: Option<Vec<String>>,
}

impl Verified {
    /// `{"jwt": {"claims": …, "scopes": …}}`.
    pub(super) fn as_event(&self) -> Value {
        json!({ "jwt": { "claims": self.claims, "scopes": self.scopes } })
    }
}

/// Checks a request's token for a route; returns what the function is told about it.
pub(super) fn authorize(
    issuer: &Issuer,
    authorizer: &JwtAuthorizer,
    scopes: &[String],
    headers: &HeaderMap,
    now_ms: i64,
) -> Result<Verified, Refusal> {
    let claims = verify(issuer, authorizer, bearer(headers)?, now_ms)?;
    let granted = granted_scopes(&claims);
    if !scopes.is_empty() && !scopes.iter().any(|scope| granted.contains(scope)) {
        return Err(Refusal::Scope(scopes.to_vec()));
    }
    let claims = claims.into_iter().map(|(name, value)| (name, as_text(value))).collect();
    Ok(Verified { claims, scopes: (!scopes.is_empty()).then_some(granted) })
}

fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let value = headers.get(header::AUTHORIZATION).ok_or(Refusal::NoToken)?;
    let value = value.to_str().map_err(|_| Refusal::Malformed)?.trim();
    let token = match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        Some(_) => return Err(Refusal::Malformed),
        None if value.eq_ignore_ascii_case("bearer") => "",
        None => value,
    };
    if token.is_empty() { Err(Refusal::NoToken) } else { Ok(token) }
}

/// The claims of a good token.
pub(super) fn verify(
    issuer: &Issuer,
    authorizer: &JwtAuthorizer,
    token: &str,
    now_ms: i64,
) -> Result<Map<String, Value>, Refusal> {
    // An unknown `alg`, such as `none`, already fails here.
    let header = jsonwebtoken::decode_header(token).map_err(|_| Refusal::Malformed)?;
    if header.alg != Algorithm::RS256 {
        return Err(Refusal::Algorithm);
    }
    if header.kid.as_deref() != Some(issuer.key_id.as_str()) {
        return Err(Refusal::Key);
    }
    let mut signature_only = Validation::new(Algorithm::RS256);
    // Times are checked below, by the local cloud's clock.
    signature_only.required_spec_claims.clear();
    signature_only.validate_exp = false;
    signature_only.validate_nbf = false;
    signature_only.validate_aud = false;
    let claims = jsonwebtoken::decode::<Map<String, Value>>(token, &issuer.checking, &signature_only)
        .map_err(|_| Refusal::Signature)?
        .claims;
    check_claims(&claims, authorizer, now_ms.div_euclid(1000))?;
    Ok(claims)
}

fn check_claims(claims: &Map<String, Value>, authorizer: &JwtAuthorizer, now_s: i64) -> Result<(), Refusal> {
    if claims.get("iss").and_then(Value::as_str) != Some(authorizer.issuer.as_str()) {
        return Err(Refusal::Issuer);
    }
    let audience = match claims.get("aud") {
        Some(Value::Array(audience)) => audience.iter().filter_map(Value::as_str).collect(),
        Some(audience) => audience.as_str().into_iter().collect::<Vec<_>>(),
        None => claims.get("client_id").and_then(Value::as_str).into_iter().collect(),
    };
    if !authorizer.audience.iter().any(|known| audience.contains(&known.as_str())) {
        return Err(Refusal::Audience);
    }
    match number(claims, "exp")? {
        Some(expires) if now_s < expires => {}
        _ => return Err(Refusal::Expired),
    }
    for claim in ["nbf", "iat"] {
        if number(claims, claim)?.is_some_and(|from| from > now_s) {
            return Err(Refusal::NotYet);
        }
    }
    Ok(())
}

/// A claim that is a time; some issuers write a fraction.
fn number(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, Refusal> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    if let Some(seconds) = value.as_i64() {
        return Ok(Some(seconds));
    }
    let whole = value.as_f64().map(|seconds| format!("{seconds:.0}"));
    whole.and_then(|text| text.parse().ok()).map(Some).ok_or(Refusal::Malformed)
}

fn granted_scopes(claims: &Map<String, Value>) -> Vec<String> {
    match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(scopes)) => scopes.iter().filter_map(|scope| scope.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// Claims reach a function as text: numbers written out, lists as `[a b]`.
fn as_text(claim: Value) -> String {
    match claim {
        Value::String(text) => text,
        Value::Array(items) => {
            let items: Vec<_> =
                items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect();
            format!("[{}]", items.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use jsonwebtoken::{EncodingKey, Header};

    use super::*;
    use crate::issuer::TokenRequest;

    const NOW_S: i64 = 1_800_000_000;

    static ISSUER: LazyLock<Issuer> = LazyLock::new(|| Issuer::open(tempfile::tempdir().unwrap().path()).unwrap());
    static STRANGER: LazyLock<Issuer> = LazyLock::new(|| Issuer::open(tempfile::tempdir().unwrap().path()).unwrap());

    fn authorizer() -> JwtAuthorizer {
        JwtAuthorizer {
            issuer: "https://issuer.example".to_owned(),
            audience: vec!["web".to_owned(), "shop".to_owned()],
        }
    }

    fn check(token: &str, scopes: &[&str]) -> Result<Verified, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
        let scopes: Vec<_> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        authorize(&ISSUER, &authorizer(), &scopes, &headers, NOW_S * 1000)
    }

    fn claims() -> Value {
        json!({"iss": "https://issuer.example", "aud": "shop", "sub": "buyer-1", "iat": NOW_S, "exp": NOW_S + 60})
    }

    fn with(name: &str, value: Value) -> String {
        let mut claims = claims();
        claims[name] = value;
        ISSUER.sign(&claims).unwrap()
    }

    #[test]
    fn a_minted_token_passes_with_its_claims_as_text() {
        let request =
            TokenRequest { subject: "buyer-1".to_owned(), scope: "a shop/admin".to_owned(), expires_in_seconds: 60 };
        let token = ISSUER.mint(&authorizer(), &request, NOW_S * 1000).unwrap();
        let expected_claims = json!({
            "iss": "https://issuer.example", "aud": "web", "sub": "buyer-1", "scope": "a shop/admin",
            "iat": NOW_S.to_string(), "exp": (NOW_S + 60).to_string(),
        });
        let passed = check(&token, &[]).unwrap().as_event();
        assert_eq!(passed, json!({"jwt": {"claims": expected_claims, "scopes": null}}));
        let passed = check(&token, &["shop/admin", "other"]).unwrap();
        assert_eq!(passed.as_event()["jwt"]["scopes"], json!(["a", "shop/admin"]));
    }

    #[test]
    fn claims_that_do_not_hold_are_refused() {
        for (name, value, expected) in [
            ("iss", json!("https://other.example"), Refusal::Issuer),
            ("iss", json!(null), Refusal::Issuer),
            ("aud", json!("other"), Refusal::Audience),
            ("aud", json!(["other"]), Refusal::Audience),
            ("exp", json!(NOW_S), Refusal::Expired),
            ("exp", json!(NOW_S - 3600), Refusal::Expired),
            ("exp", json!("soon"), Refusal::Malformed),
            ("nbf", json!(NOW_S + 1), Refusal::NotYet),
            ("iat", json!(NOW_S + 1), Refusal::NotYet),
        ] {
            assert_eq!(check(&with(name, value.clone()), &[]).unwrap_err(), expected, "{name} {value}");
        }
        let mut without_end = claims();
        without_end.as_object_mut().unwrap().remove("exp");
        assert_eq!(check(&ISSUER.sign(&without_end).unwrap(), &[]).unwrap_err(), Refusal::Expired);
    }

    #[test]
    fn the_audience_may_be_a_list_or_a_client_id() {
        assert!(check(&with("aud", json!(["x", "shop"])), &[]).is_ok());
        let mut by_client = claims();
        by_client.as_object_mut().unwrap().remove("aud");
        by_client["client_id"] = json!("web");
        assert!(check(&ISSUER.sign(&by_client).unwrap(), &[]).is_ok());
        by_client["aud"] = json!("other");
        assert_eq!(check(&ISSUER.sign(&by_client).unwrap(), &[]).unwrap_err(), Refusal::Audience);
    }

    #[test]
    fn forged_tokens_are_refused() {
        // Signed by somebody else, under their own key id and under this issuer's.
        assert_eq!(check(&STRANGER.sign(&claims()).unwrap(), &[]).unwrap_err(), Refusal::Key);
        let stolen_id = {
            let foreign = STRANGER.sign(&claims()).unwrap();
            let genuine = ISSUER.sign(&claims()).unwrap();
            let (head, _) = genuine.split_once('.').unwrap();
            let (_, rest) = foreign.split_once('.').unwrap();
            format!("{head}.{rest}")
        };
        assert_eq!(check(&stolen_id, &[]).unwrap_err(), Refusal::Signature);
        // A claim changed after signing.
        let token = ISSUER.sign(&claims()).unwrap();
        let parts: Vec<_> = token.split('.').collect();
        let mut altered = claims();
        altered["sub"] = json!("somebody-else");
        let altered = format!("{}.{}.{}", parts[0], URL_SAFE_NO_PAD.encode(altered.to_string()), parts[2]);
        assert_eq!(check(&altered, &[]).unwrap_err(), Refusal::Signature);
    }

    #[test]
    fn a_token_cannot_choose_how_it_is_checked() {
        let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        for alg in ["none", "None", "NONE", ""] {
            let token = format!("{}.{}.", encode(json!({"alg": alg, "kid": ISSUER.key_id})), encode(claims()));
            assert_eq!(check(&token, &[]).unwrap_err(), Refusal::Malformed, "{alg}");
        }
        // HMAC with the public key as its secret: the classic confusion.
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some(ISSUER.key_id.clone());
        let public = ISSUER.jwks()["keys"][0]["n"].as_str().unwrap().to_owned();
        let token = jsonwebtoken::encode(&header, &claims(), &EncodingKey::from_secret(public.as_bytes())).unwrap();
        assert_eq!(check(&token, &[]).unwrap_err(), Refusal::Algorithm);
    }

    #[test]
    fn scopes_come_as_text_or_as_a_list() {
        for claim in [json!("x a"), json!(["x", "a"])] {
            assert!(check(&with("scope", claim.clone()), &["a", "b"]).is_ok(), "{claim}");
            assert!(check(&with("scp", claim.clone()), &["a", "b"]).is_ok(), "{claim}");
        }
        let refused = check(&with("scope", json!("ab")), &["a", "b"]).unwrap_err();
        assert_eq!(refused, Refusal::Scope(vec!["a".to_owned(), "b".to_owned()]));
        assert!(refused.challenge().to_str().unwrap().contains("insufficient_scope"));
        assert!(check(&ISSUER.sign(&claims()).unwrap(), &["a"]).is_err());
    }

    #[test]
    fn no_token_and_half_a_token() {
        let none = authorize(&ISSUER, &authorizer(), &[], &HeaderMap::new(), 0).unwrap_err();
        assert_eq!((none.clone(), none.challenge()), (Refusal::NoToken, HeaderValue::from_static("Bearer")));
        assert_eq!(check("", &[]).unwrap_err(), Refusal::NoToken);
        assert_eq!(check("abc", &[]).unwrap_err(), Refusal::Malformed);
        let basic = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static("Basic abc"))]);
        assert_eq!(authorize(&ISSUER, &authorizer(), &[], &basic, 0).unwrap_err(), Refusal::Malformed);
        let expired = check(&with("exp", json!(1)), &[]).unwrap_err().challenge();
        assert_eq!(expired, r#"Bearer scope="" error="invalid_token" error_description="the token has expired""#);
    }
}
