//! Form bodies and queries (`a=1&b=2`), read strictly. A lenient reader would give two different bodies the same
//! meaning, and a signature could not tell them apart.

use std::collections::BTreeMap;

/// Values by name. The names are sorted, which is also the order in which Alipay and WeChat Pay v2 sign them.
pub(crate) type Fields = BTreeMap<String, String>;

/// The most fields that are read. Alipay's notices have about 30.
const MAX_FIELDS: usize = 100;

/// Reads a form. It refuses repeated names, empty names, bad escapes, bytes that are not UTF-8, and control characters.
pub(crate) fn read(text: &[u8]) -> Option<Fields> {
    let mut fields = Fields::new();
    for pair in text.split(|&byte| byte == b'&') {
        let mut halves = pair.splitn(2, |&byte| byte == b'=');
        let (name, value) = (decode(halves.next()?)?, decode(halves.next()?)?);
        if name.is_empty() || fields.len() == MAX_FIELDS || fields.insert(name, value).is_some() {
            return None;
        }
    }
    Some(fields)
}

/// Decodes `+` and `%41`.
fn decode(text: &[u8]) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => hex_digit(*rest.next()?)? << 4 | hex_digit(*rest.next()?)?,
            0x21..=0x7e => byte,
            _ => return None,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t')).then_some(text)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

pub(crate) fn write<N: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (N, V)>) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// The text that is signed: `a=1&b=2`, sorted by name, nothing escaped, without empty values and the names in
/// `without`.
pub(crate) fn signed_text(fields: &Fields, without: &[&str]) -> String {
    let pairs = fields.iter().filter(|(name, value)| !value.is_empty() && !without.contains(&name.as_str()));
    pairs.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn malformed_forms_are_refused() {
        for bad in
            ["", "a", "a=1&", "&a=1", "a=1&a=2", "a=%", "a=%4", "a=%zz", "a=%ff", "=1", "a=%00", "a= b", "a=\u{e9}"]
        {
            assert_eq!(read(bad.as_bytes()), None, "{bad:?}");
        }
        let many = (0..=MAX_FIELDS).map(|n| format!("a{n}=1")).collect::<Vec<_>>().join("&");
        assert_eq!(read(many.as_bytes()), None);
    }

    #[test]
    fn fields_are_signed_sorted_and_unescaped() {
        let fields = read("b=x%26y&a=1+2&empty=&sign=s&B=0".as_bytes()).unwrap();
        assert_eq!(signed_text(&fields, &["sign"]), "B=0&a=1 2&b=x&y");
    }

    proptest! {
        #[test]
        fn a_form_survives_a_round_trip(fields in prop::collection::btree_map("[a-z_]{1,8}", "\\PC{0,16}", 1..8)) {
            prop_assert_eq!(read(write(&fields).as_bytes()), Some(fields));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read(&bytes);
        }
    }
}
