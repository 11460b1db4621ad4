//! Checks of settings, amounts and texts.

use domain::money::Currency;
use serde::de::DeserializeOwned;

use super::crypto::SettingsError;
use crate::payment::ProviderError;

/// Reads a provider's settings. An error names the field and never a value: settings are secrets.
pub(crate) fn settings<T: DeserializeOwned>(json: &str) -> Result<T, SettingsError> {
    // Tracking the path costs time, so it is done only after an error.
    serde_json::from_str(json).map_err(|error| settings_error::<T>(json, &error))
}

fn settings_error<T: DeserializeOwned>(json: &str, error: &serde_json::Error) -> SettingsError {
    let text = error.to_string();
    // These messages name the field themselves and contain no value.
    if text.starts_with("missing field") || text.starts_with("unknown field") {
        return SettingsError::new("settings", text);
    }
    let reader = &mut serde_json::Deserializer::from_str(json);
    let path = serde_path_to_error::deserialize::<_, T>(reader).err().map(|error| error.path().to_string());
    match path {
        // The path is a dot for the whole document and a question mark for a name that is cut off.
        Some(field) if error.is_data() && !matches!(field.as_str(), "" | "." | "?") => {
            SettingsError::new(field, "has the wrong type")
        }
        _ => SettingsError::new("settings", format!("cannot be read at line {}", error.line())),
    }
}

/// A provider's address: HTTPS, or plain HTTP to this machine (the local sandbox).
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

/// An id. Ids are compared, signed and put into headers, so they must not contain quotes, blanks or control characters.
pub(crate) fn id(field: &str, text: &str) -> Result<String, SettingsError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !(1..=64).contains(&text.len()) || !text.bytes().all(plain) {
        return Err(SettingsError::new(field, "must be 1 to 64 letters, digits, '-', '_' or '.'"));
    }
    Ok(text.to_owned())
}

/// Checks that the provider accepts this amount and that the currency is CNY.
pub(crate) fn takes_yuan(provider: &str, amount: i64, currency: &Currency, max: i64) -> Result<(), ProviderError> {
    if currency.as_str() != "CNY" {
        return Err(ProviderError::Unsupported(format!("{provider} takes CNY, not {currency}")));
    }
    takes_amount(provider, amount, max)
}

/// Checks that the provider accepts this amount.
pub(crate) fn takes_amount(provider: &str, amount: i64, max: i64) -> Result<(), ProviderError> {
    if !(1..=max).contains(&amount) {
        return Err(ProviderError::Unsupported(format!("{provider} takes 1 to {max} minor units, not {amount}")));
    }
    Ok(())
}

/// Checks that a refund is at least one unit and at most what was paid.
pub(crate) fn refundable(amount: i64, total: i64) -> Result<(), ProviderError> {
    if amount < 1 || amount > total {
        return Err(ProviderError::Unsupported(format!("cannot refund {amount} of {total} minor units")));
    }
    Ok(())
}

/// Makes a text for people fit: one line, no `forbidden` characters, at most `max_bytes`, never empty.
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

/// The currency that an answer names, in upper or lower case.
pub(crate) fn currency(text: &str) -> Option<Currency> {
    Currency::parse(text.to_ascii_uppercase()).ok()
}

/// CNY, for answers that name no currency.
pub(crate) fn yuan() -> Option<Currency> {
    Currency::parse("CNY").ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[test]
    fn an_error_about_settings_contains_no_value() {
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
        let error = |json: &str| settings::<Two>(json).unwrap_err().to_string();
        assert!(error(r#"{"key": "k"}"#).contains("missing field `number`"));
        assert_eq!(error(r#"{"key": "k", "number": "SECRET"}"#), "number has the wrong type");
        assert_eq!(error(r#"{"key": "k", "number": 1, "list": ["SECRET", 7]}"#), "list[1] has the wrong type");
        for broken in ["SECRET", r#""SECRET""#, r#"{"key": SECRET"#, r#"{"key": "SECRET"#, r#"{"SECRET"#] {
            assert_eq!(error(broken), "settings cannot be read at line 1", "{broken}");
        }
        let more = error(r#"{"key": "k", "number": 1} SECRET"#);
        assert_eq!(more, "settings cannot be read at line 1");
    }

    #[test]
    fn only_this_machine_may_be_called_without_tls() {
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
