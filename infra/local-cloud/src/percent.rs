//! Percent-encoding, as paths and query strings have it.

/// Decodes `%41` to `A`; what is not a valid escape stays as it is, and bytes that are not UTF-8 become U+FFFD.
pub(crate) fn percent_decode(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        let escaped = match (byte, ahead.next(), ahead.next()) {
            (b'%', Some(high), Some(low)) => hex(high).zip(hex(low)).map(|(high, low)| high * 16 + low),
            _ => None,
        };
        match escaped {
            Some(value) => {
                decoded.push(value);
                bytes = ahead;
            }
            None => decoded.push(byte),
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_what_is_no_escape_stays() {
        assert_eq!(percent_decode("a%20b%2Fc"), "a b/c");
        assert_eq!(percent_decode("%E7%A7%92"), "秒");
        assert_eq!(percent_decode("100%"), "100%");
        assert_eq!(percent_decode("%zz%4"), "%zz%4");
        assert_eq!(percent_decode("a+b"), "a+b");
    }
}
