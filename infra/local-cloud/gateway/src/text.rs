//! Small pieces of text that requests are made of: query strings, ids and times as API Gateway writes them.

use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::template::percent_decode;

/// The pairs of a query string in their order, decoded. `a` without `=` is a pair with an empty value.
pub(super) fn query_pairs(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (form_decode(name), form_decode(value))
        })
        .collect()
}

fn form_decode(text: &str) -> String {
    percent_decode(&text.replace('+', " "))
}

/// `12/Mar/2020:19:03:58 +0000`, the time of a request as API Gateway writes it.
pub(super) fn request_time(at_ms: i64) -> String {
    timestamp(at_ms).strftime("%d/%b/%Y:%H:%M:%S +0000").to_string()
}

/// RFC 3339 with milliseconds.
pub(super) fn rfc3339(at_ms: i64) -> String {
    timestamp(at_ms).strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

fn timestamp(at_ms: i64) -> jiff::Timestamp {
    // A clock outside of jiff's 20,000 years can only be a test's mistake: it reads as 1970.
    jiff::Timestamp::from_millisecond(at_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

/// Makes ids that do not repeat and cannot be guessed: a secret of this run, hashed with a counter.
#[derive(Debug)]
pub(super) struct Ids {
    secret: [u8; 32],
    count: AtomicU64,
}

impl Ids {
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self { secret, count: AtomicU64::new(0) })
    }

    /// 16 characters such as `JKJaXmPLvHcESHA=`: the form of a request's, a message's and a connection's id.
    pub(super) fn next(&self) -> String {
        STANDARD.encode(self.digest().get(..11).unwrap_or_default())
    }

    /// A new root for `x-amzn-trace-id`: the time in seconds and 24 hexadecimal digits.
    pub(super) fn trace(&self, now_ms: i64) -> String {
        let random: String = self.digest().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        format!("Root=1-{:08x}-{random}", now_ms / 1000)
    }

    fn digest(&self) -> [u8; 32] {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut hash = Sha256::new();
        hash.update(self.secret);
        hash.update(count.to_be_bytes());
        hash.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_keeps_its_order_and_its_repeats() {
        let pairs = query_pairs("b=2&a=1+1&&a=%26&flag");
        let expected = [("b", "2"), ("a", "1 1"), ("a", "&"), ("flag", "")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn times_are_written_as_api_gateway_writes_them() {
        assert_eq!(request_time(1_583_348_638_390), "04/Mar/2020:19:03:58 +0000");
        assert_eq!(rfc3339(1_583_348_638_390), "2020-03-04T19:03:58.390Z");
    }

    #[test]
    fn ids_have_their_form_and_do_not_repeat() {
        let ids = Ids::new().unwrap();
        let (first, second) = (ids.next(), ids.next());
        assert_ne!(first, second);
        assert_eq!(first.len(), 16);
        assert!(first.ends_with('='));
        let trace = ids.trace(1_583_348_638_390);
        assert!(trace.starts_with("Root=1-5e5ffb9e-"), "{trace}");
        assert_eq!(trace.len(), "Root=1-5e5ffb9e-".len() + 24);
    }
}
