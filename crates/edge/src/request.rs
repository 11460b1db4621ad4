//! What handlers read from a request besides its body: the buyer, the path, the idempotency key and the trace.

use domain::ids::{Buyer, IdempotencyKey};
use lambda_http::http::Method;
use lambda_http::request::RequestContext;
use lambda_http::{Request, RequestExt};

use crate::problem::{Code, Problem};

/// What an operator's token, or the token of a shop's server, allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Look at sales and orders.
    Read,
    /// Act on orders: cancel, refund, resolve. It includes reading.
    Desk,
    /// The shop's own checkout: confirm, release, refund.
    Checkout,
    /// Set sales up and run them. It includes all others.
    Admin,
}

impl Scope {
    pub const ALL: [Self; 4] = [Self::Read, Self::Desk, Self::Checkout, Self::Admin];

    /// The text in a token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "seckill/read",
            Self::Desk => "seckill/desk",
            Self::Checkout => "seckill/checkout",
            Self::Admin => "seckill/admin",
        }
    }

    /// Whether a token with this scope may do what needs `needed`.
    pub fn includes(self, needed: Self) -> bool {
        match self {
            Self::Admin => true,
            Self::Desk => matches!(needed, Self::Desk | Self::Read),
            Self::Read | Self::Checkout => self == needed,
        }
    }
}

/// The longest trace id that is accepted. X-Ray's have 35 characters.
const MAX_TRACE: usize = 64;

/// The buyer, from the verified token. Nothing that the client writes into the request can change it.
pub fn buyer(request: &Request) -> Result<Buyer, Problem> {
    let unauthenticated = || Problem::new(Code::Unauthenticated, "a verified token with a subject is required");
    let sub = claim(request, "sub").ok_or_else(unauthenticated)?;
    Buyer::parse(sub).map_err(|_| unauthenticated())
}

/// Who sent the request, if the token has this scope or one that includes it. The gateway has checked the scope
/// already; this check protects a route that was configured without it.
pub fn require_scope(request: &Request, needed: Scope) -> Result<Buyer, Problem> {
    let operator = buyer(request)?;
    // The gateway reads scopes from either claim, and passes a list of them on as "[one two]".
    let has_scope = ["scope", "scp"]
        .iter()
        .filter_map(|name| claim(request, name))
        .flat_map(|scopes| scopes.trim_matches(['[', ']']).split_whitespace())
        .filter_map(|text| Scope::ALL.into_iter().find(|scope| scope.as_str() == text))
        .any(|scope| scope.includes(needed));
    if has_scope {
        Ok(operator)
    } else {
        let detail = format!("a token with the scope {} is required", needed.as_str());
        Err(Problem::new(Code::Forbidden, detail))
    }
}

/// Refuses everybody but operators with all rights.
pub fn require_operator(request: &Request) -> Result<(), Problem> {
    require_scope(request, Scope::Admin).map(|_| ())
}

fn claim<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let Some(RequestContext::ApiGatewayV2(context)) = request.request_context_ref() else { return None };
    context.authorizer.as_ref()?.jwt.as_ref()?.claims.get(name).map(String::as_str)
}

/// The host name under which the client reached API Gateway: its own or the custom domain. A client cannot forge it.
pub fn domain(request: &Request) -> Option<&str> {
    let Some(RequestContext::ApiGatewayV2(context)) = request.request_context_ref() else { return None };
    context.domain_name.as_deref().filter(|name| !name.is_empty())
}

/// The IP address of the client as API Gateway saw it.
pub fn source_ip(request: &Request) -> Option<&str> {
    let Some(RequestContext::ApiGatewayV2(context)) = request.request_context_ref() else { return None };
    context.http.source_ip.as_deref().filter(|address| !address.is_empty())
}

pub fn idempotency_key(request: &Request) -> Result<Option<IdempotencyKey>, Problem> {
    const NAME: &str = "Idempotency-Key";
    const WHY: &str = "must be 1 to 64 visible ASCII characters";
    let Some(value) = request.headers().get(NAME) else { return Ok(None) };
    let key = value.to_str().ok().and_then(|text| IdempotencyKey::parse(text).ok());
    key.map(Some).ok_or_else(|| Problem::invalid(NAME, WHY))
}

/// A parameter of the query string; the first one of that name. An empty one is as good as none.
pub fn query<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    request.query_string_parameters_ref()?.first(name).filter(|value| !value.is_empty())
}

/// The root of the request's trace id. A header that does not look like one is ignored, so that it never reaches a log.
pub fn trace(request: &Request) -> Option<String> {
    let header = request.headers().get("x-amzn-trace-id")?.to_str().ok()?;
    let root = header.split(';').find_map(|part| part.trim().strip_prefix("Root="))?;
    let fine = (1..=MAX_TRACE).contains(&root.len()) && root.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    fine.then(|| root.to_owned())
}

/// The method and the segments of the path.
pub fn route(request: &Request) -> (&Method, Vec<&str>) {
    let path = match request.raw_http_path() {
        "" => request.uri().path(),
        path => path,
    };
    (request.method(), path.trim_matches('/').split('/').collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn request(headers: Value, claims: Option<Value>) -> Request {
        let authorizer = claims.map(|claims| json!({"jwt": {"claims": claims, "scopes": null}}));
        let event = json!({
            "version": "2.0",
            "routeKey": "POST /orders/{orderId}/cancel",
            "rawPath": "/orders/1/cancel",
            "rawQueryString": "",
            "headers": headers,
            "requestContext": {
                "accountId": "123456789012", "apiId": "api", "stage": "$default", "requestId": "r",
                "authorizer": authorizer, "domainName": "shop.example",
                "http": {"method": "POST", "path": "/orders/1/cancel", "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1"},
            },
            "isBase64Encoded": false,
        });
        lambda_http::request::from_str(&event.to_string()).unwrap()
    }

    #[test]
    fn the_buyer_is_the_subject_of_the_token() {
        assert_eq!(buyer(&request(json!({}), Some(json!({"sub": "ann"})))).unwrap().as_str(), "ann");
        for claims in [None, Some(json!({})), Some(json!({"sub": ""})), Some(json!({"sub": "a\u{0}b"}))] {
            let problem = buyer(&request(json!({"x-sub": "ann"}), claims)).unwrap_err();
            assert_eq!(problem.code, Code::Unauthenticated);
        }
    }

    #[test]
    fn an_operator_needs_the_admin_scope() {
        let code = |claims: Value| require_operator(&request(json!({}), Some(claims))).map_err(|problem| problem.code);
        assert_eq!(code(json!({"sub": "op", "scope": "openid seckill/admin"})), Ok(()));
        assert_eq!(code(json!({"sub": "op", "scp": "seckill/admin"})), Ok(()));
        assert_eq!(code(json!({"sub": "op", "scp": "[openid seckill/admin]"})), Ok(()), "a list");
        assert_eq!(code(json!({"sub": "op", "scope": "[seckill/admin]"})), Ok(()), "a list of one");
        assert_eq!(code(json!({"sub": "op", "scp": "[openid seckill/administrator]"})), Err(Code::Forbidden));
        assert_eq!(code(json!({"sub": "op"})), Err(Code::Forbidden));
        assert_eq!(code(json!({"sub": "op", "scope": "seckill/administrator xseckill/admin"})), Err(Code::Forbidden));
        assert_eq!(code(json!({"scope": "seckill/admin"})), Err(Code::Unauthenticated));
    }

    #[test]
    fn a_scope_includes_what_it_says_and_nothing_else() {
        let allowed = |scope: &str, needed: Scope| {
            require_scope(&request(json!({}), Some(json!({"sub": "op", "scope": scope}))), needed).is_ok()
        };
        for (scope, read, desk, checkout, admin) in [
            ("", false, false, false, false),
            ("seckill/read", true, false, false, false),
            ("seckill/desk", true, true, false, false),
            ("seckill/checkout", false, false, true, false),
            ("seckill/admin", true, true, true, true),
            ("openid seckill/read seckill/checkout", true, false, true, false),
            ("seckill/reader seckill/desks", false, false, false, false),
        ] {
            let found = [Scope::Read, Scope::Desk, Scope::Checkout, Scope::Admin].map(|needed| allowed(scope, needed));
            assert_eq!(found, [read, desk, checkout, admin], "{scope}");
        }
        let who = require_scope(&request(json!({}), Some(json!({"sub": "op", "scope": "seckill/desk"}))), Scope::Read);
        assert_eq!(who.unwrap().as_str(), "op");
    }

    #[test]
    fn an_invalid_idempotency_key_is_refused() {
        let key = |headers| idempotency_key(&request(headers, None));
        assert_eq!(key(json!({})).unwrap(), None);
        assert_eq!(key(json!({"idempotency-key": "k-1"})).unwrap().unwrap().as_str(), "k-1");
        for bad in [String::new(), "two words".to_owned(), "x".repeat(65), "é".to_owned()] {
            let problem = key(json!({"idempotency-key": bad})).unwrap_err();
            assert_eq!((problem.code, problem.errors[0].field.as_str()), (Code::Invalid, "Idempotency-Key"), "{bad}");
        }
    }

    #[test]
    fn the_root_of_the_trace_is_extracted() {
        let of = |header: &str| trace(&request(json!({"x-amzn-trace-id": header}), None));
        let root = "1-5759e988-bd862e3fe1be46a994272793";
        assert_eq!(of(&format!("Root={root}")).as_deref(), Some(root));
        assert_eq!(of(&format!("Self=1-2-3;Root={root};Sampled=1")).as_deref(), Some(root));
        assert_eq!(of("Root=\"},\"admin\":true"), None);
        assert_eq!(of(&format!("Root={}", "1".repeat(65))), None);
        assert_eq!(trace(&request(json!({}), None)), None);
    }

    #[test]
    fn host_and_client_address_come_from_the_gateway_not_from_headers() {
        let request = request(json!({"host": "evil.example", "x-forwarded-for": "203.0.113.9"}), None);
        assert_eq!(domain(&request), Some("shop.example"));
        assert_eq!(source_ip(&request), Some("127.0.0.1"));
    }

    #[test]
    fn a_route_is_a_method_and_path_segments() {
        let request = request(json!({}), None);
        assert_eq!(route(&request), (&Method::POST, vec!["orders", "1", "cancel"]));
        let plain = lambda_http::http::Request::get("http://shop/sales/").body(lambda_http::Body::Empty).unwrap();
        assert_eq!(route(&plain), (&Method::GET, vec!["sales"]));
    }
}
