//! Checks and small conversions that the providers share.

use domain::money::Currency;
use serde::de::DeserializeOwned;

use crate::crypto::SettingsError;
use crate::payment::ProviderError;

/// Reads a provider's settings. A complaint names the field, never a value: settings are secrets.
pub(crate) fn settings<T: DeserializeOwned>(json: &str) -> Result<T, SettingsError> {
    // Only a mistake is worth reading again with an eye on where it is.
    serde_json::from_str(json).map_err(|error| mistake::<T>(json, &error))
}

fn mistake<T: DeserializeOwned>(json: &str, error: &serde_json::Error) -> SettingsError {
    let text = error.to_string();
    // These name the field themselves, and no value.
    if text.starts_with("missing field") || text.starts_with("unknown field") {
        return SettingsError::new("settings", text);
    }
    let reader = &mut serde_json::Deserializer::from_str(json);
    let path = serde_path_to_error::deserialize::<_, T>(reader).err().map(|error| error.path().to_string());
    match path {
        // A dot is the whole, a question mark a name that did not come to an end.
        Some(field) if error.is_data() && !matches!(field.as_str(), "" | "." | "?") => {
            SettingsError::new(field, "is not of its form")
        }
        _ => SettingsError::new("settings", format!("cannot be read at line {}", error.line())),
    }
}

/// A provider's address: TLS, or this very machine (the local sandbox).
pub(crate) fn base_url(field: &str, url: &str) -> Result<String, SettingsError> {
    let local = ["http://127.0.0.1", "http://localhost", "http://[::1]"];
    let host_ends = |rest: &str| rest.is_empty() || rest.starts_with([':', '/']);
    let is_local = local.iter().any(|host| url.strip_prefix(host).is_some_and(host_ends));
    if !(url.starts_with("https://") || is_local) || url.contains(['?', '#', ' ']) {
        return Err(SettingsError::new(
            field,
            "must be an https:// address (http:// only on this machine), without a query",
        ));
    }
    Ok(url.trim_end_matches('/').to_owned())
}

/// An id that is compared, signed and put into headers: visible ASCII without quotes.
pub(crate) fn id(field: &str, text: &str) -> Result<String, SettingsError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !(1..=64).contains(&text.len()) || !text.bytes().all(plain) {
        return Err(SettingsError::new(field, "must be 1 to 64 letters, digits, '-', '_' or '.'"));
    }
    Ok(text.to_owned())
}

/// Whether the provider takes this amount of yuan.
pub(crate) fn takes_yuan(provider: &str, amount: i64, currency: &Currency, max: i64) -> Result<(), ProviderError> {
    if currency.as_str() != "CNY" {
        return Err(ProviderError::Unsupported(format!("{provider} takes CNY, not {currency}")));
    }
    takes_amount(provider, amount, max)
}

/// Whether the provider takes this amount.
pub(crate) fn takes_amount(provider: &str, amount: i64, max: i64) -> Result<(), ProviderError> {
    if !(1..=max).contains(&amount) {
        return Err(ProviderError::Unsupported(format!("{provider} takes 1 to {max} minor units, not {amount}")));
    }
    Ok(())
}

/// Whether a refund makes sense.
pub(crate) fn refundable(amount: i64, total: i64) -> Result<(), ProviderError> {
    if amount < 1 || amount > total {
        return Err(ProviderError::Unsupported(format!("cannot refund {amount} of {total} minor units")));
    }
    Ok(())
}

/// A text for people, on one line, without `forbidden` characters, of at most `max_bytes`.
pub(crate) fn title(text: &str, forbidden: &[char], max_bytes: usize) -> String {
    let mut short = String::new();
    for c in text.chars().map(|c| if c.is_control() || forbidden.contains(&c) { ' ' } else { c }) {
        if short.len() + c.len_utf8() > max_bytes {
            break;
        }
        short.push(c);
    }
    let short = short.trim();
    if short.is_empty() { "-".to_owned() } else { short.to_owned() }
}

/// The currency that an answer names, in capitals.
pub(crate) fn currency(text: &str) -> Option<Currency> {
    Currency::parse(text.to_ascii_uppercase()).ok()
}

/// Yuan, where the provider does not say.
pub(crate) fn yuan() -> Option<Currency> {
    Currency::parse("CNY").ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[test]
    fn a_complaint_about_settings_has_no_value_in_it() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Two {
            #[serde(rename = "key")]
            _key: String,
            #[serde(rename = "number")]
            _number: u32,
            #[serde(rename = "list", default)]
            _list: Vec<String>,
        }
        let complaint = |json: &str| settings::<Two>(json).unwrap_err().to_string();
        assert!(complaint(r#"{"key": "k"}"#).contains("missing field `number`"));
        assert_eq!(complaint(r#"{"key": "k", "number": "SECRET"}"#), "number is not of its form");
        assert_eq!(complaint(r#"{"key": "k", "number": 1, "list": ["SECRET", 7]}"#), "list[1] is not of its form");
        for broken in ["SECRET", r#""SECRET""#, r#"{"key": SECRET"#, r#"{"key": "SECRET"#, r#"{"SECRET"#] {
            assert_eq!(complaint(broken), "settings cannot be read at line 1", "{broken}");
        }
        let more = complaint(r#"{"key": "k", "number": 1} SECRET"#);
        assert_eq!(more, "settings cannot be read at line 1");
    }

    #[test]
    fn only_this_machine_may_be_spoken_to_without_tls() {
        for good in ["https://openapi.alipay.com/gateway.do", "http://127.0.0.1:3000/_sandbox", "http://localhost/"] {
            assert!(base_url("url", good).is_ok(), "{good}");
        }
        for bad in [
            "http://example.com",
            "http://127.0.0.1.example.com",
            "http://localhost.example.com",
            "ftp://x",
            "",
            "https://x?y",
        ] {
            assert!(base_url("url", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn titles_are_cut_between_characters() {
        assert_eq!(title("手机 & case\n=x", &['&', '='], 256), "手机   case  x");
        assert_eq!(title("手机手机", &[], 7), "手机");
        assert_eq!(title("\n", &[], 7), "-");
    }
}
