//! HTTP requests and answers as plain values. Nothing here opens a connection.

use std::fmt;

/// Header names and values, in the given order. Names are case-insensitive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

/// The longest header value that is read. The longest that a provider sends is an RSA-4096 signature in base64, 684
/// characters.
const MAX_HEADER: usize = 2048;

impl Headers {
    /// The value of a header that occurs exactly once and is not too long.
    pub fn one(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (Some((_, value)), None) if value.len() <= MAX_HEADER => Some(value),
            _ => None,
        }
    }

    pub fn push(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl<N: Into<String>, V: Into<String>, const L: usize> From<[(N, V); L]> for Headers {
    fn from(pairs: [(N, V); L]) -> Self {
        pairs.into_iter().collect()
    }
}

/// The HTTP methods that the providers' interfaces use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// A request. It must be sent unchanged: its signature covers these bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpCall {
    pub method: Method,
    pub url: String,
    /// Without Host and Content-Length.
    pub headers: Headers,
    pub body: Vec<u8>,
    /// Whether the connection must present the merchant's client certificate (WeChat Pay v2 refunds).
    pub client_certificate: bool,
}

impl HttpCall {
    pub fn path_and_query(&self) -> &str {
        path_and_query(&self.url)
    }
}

/// The path and the query of a URL; `/` if it has none.
pub(crate) fn path_and_query(url: &str) -> &str {
    let after_scheme = url.find("://").and_then(|at| url.get(at + 3..)).unwrap_or(url);
    after_scheme.find('/').and_then(|at| after_scheme.get(at..)).unwrap_or("/")
}

/// Prints neither headers nor query nor body: they can contain keys, signatures and buyers' names.
impl fmt::Debug for HttpCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.url.split('?').next().unwrap_or_default();
        write!(f, "HttpCall({} {address}, {} bytes)", self.method.as_str(), self.body.len())
    }
}

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpAnswer {
    pub status: u16,
    pub headers: Headers,
    pub body: Vec<u8>,
}

impl HttpAnswer {
    pub fn new(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: [("Content-Type", content_type)].into(), body: body.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_or_overlong_header_counts_as_missing() {
        let headers: Headers = [("Wechatpay-Nonce", "a"), ("X", "1"), ("x", "2")].into();
        assert_eq!(headers.one("wechatpay-nonce"), Some("a"));
        assert_eq!(headers.one("X"), None);
        assert_eq!(Headers::from([("Long", "x".repeat(MAX_HEADER + 1))]).one("Long"), None);
    }

    #[test]
    fn the_path_is_what_follows_the_host() {
        assert_eq!(path_and_query("https://api.mch.weixin.qq.com/v3/pay?mchid=1"), "/v3/pay?mchid=1");
        assert_eq!(path_and_query("http://127.0.0.1:3000"), "/");
    }

    #[test]
    fn a_call_does_not_print_its_secrets() {
        let call = HttpCall {
            method: Method::Post,
            url: "https://example.com/pay?sign=SECRET".to_owned(),
            headers: [("Authorization", "Bearer SECRET")].into(),
            body: b"SECRET".to_vec(),
            client_certificate: false,
        };
        assert_eq!(format!("{call:?}"), "HttpCall(POST https://example.com/pay, 6 bytes)");
    }
}
