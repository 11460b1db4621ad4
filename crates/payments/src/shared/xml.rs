//! The XML of WeChat Pay v2: one element that contains `<name>value</name>` elements, and nothing else.
//!
//! Declarations, DTDs, processing instructions, comments, attributes, nested elements, repeated names and entities
//! other than the five predefined ones are refused, so a document cannot make the reader fetch, expand or overlook
//! anything.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

use super::form::Fields;

/// The most fields that are read. A notice has about 20, plus 5 for each coupon.
const MAX_FIELDS: usize = 100;
const MAX_NAME: usize = 64;

/// Reads the fields of the element `root`.
pub(crate) fn read(root: &str, bytes: &[u8]) -> Option<Fields> {
    let text = std::str::from_utf8(bytes).ok()?;
    if bytes.len() > crate::MAX_NOTICE || text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        return None;
    }
    let mut reader = Reader::from_str(text);
    let mut fields = Fields::new();
    match next_tag(&mut reader)? {
        Event::Start(tag) if tag.as_ref() == root => {}
        _ => return None,
    }
    loop {
        let (name, value) = match next_tag(&mut reader)? {
            Event::Start(tag) => (tag.as_ref().to_owned(), value(&mut reader)?),
            Event::Empty(tag) => (tag.as_ref().to_owned(), String::new()),
            Event::End(_) => break,
            _ => return None,
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$';
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(plain) || fields.len() == MAX_FIELDS {
            return None;
        }
        if fields.insert(name, value).is_some() {
            return None;
        }
    }
    matches!(next_tag(&mut reader)?, Event::Eof).then_some(fields)
}

/// The next event that is not blank text.
fn next_tag<'t>(reader: &mut Reader<&'t [u8]>) -> Option<Event<'t>> {
    loop {
        match reader.read_event().ok()? {
            Event::Text(text) if text.trim_ascii().is_empty() => {}
            event => return Some(event),
        }
    }
}

/// The text up to the end of the current element. The reader checks that the end tag has the same name.
fn value(reader: &mut Reader<&[u8]>) -> Option<String> {
    let mut value = String::new();
    loop {
        match reader.read_event().ok()? {
            Event::Text(text) => value.push_str(&text.xml10_content()),
            Event::CData(text) => value.push_str(&text.xml10_content()),
            Event::GeneralRef(entity) => value.push_str(resolve_predefined_entity(&entity)?),
            Event::End(_) => return Some(value),
            _ => return None,
        }
    }
}

/// Writes fields into an element `root`. Control characters are left out, because XML cannot carry them unchanged;
/// only the line feed stays.
pub(crate) fn write(root: &str, fields: &Fields) -> String {
    let element = |(name, value): (&String, &String)| {
        let value: String = value.chars().filter(|c| !c.is_control() || *c == '\n').collect();
        format!("<{name}>{}</{name}>", quick_xml::escape::escape(value.as_str()))
    };
    format!("<{root}>{}</{root}>", fields.iter().map(element).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_text(text: &str) -> Option<Vec<(String, String)>> {
        read("xml", text.as_bytes()).map(|fields| fields.into_iter().collect())
    }

    #[test]
    fn fields_are_read() {
        let text = "<xml>\n <a><![CDATA[1 < 2]]></a><b>x&amp;y &lt;&gt;&quot;&apos;</b>\n\
                    <c/><d></d><e>1<![CDATA[2]]></e>\n</xml>\n";
        let fields = [("a", "1 < 2"), ("b", "x&y <>\"'"), ("c", ""), ("d", ""), ("e", "12")];
        assert_eq!(read_text(text), Some(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()));
    }

    #[test]
    fn anything_but_flat_elements_is_refused() {
        for bad in [
            "",
            "<xml>",
            "<xml><a>1</a>",
            "<xml><a>1</xml>",
            "<xml><a>1</b></xml>",
            "<yml><a>1</a></yml>",
            "<xml/>",
            "<xml><a>1</a></xml><xml></xml>",
            "<xml><a>1</a></xml>x",
            "x<xml><a>1</a></xml>",
            "<xml>x<a>1</a></xml>",
            "<xml><a>1</a><a>2</a></xml>",
            "<xml><a><b>1</b></a></xml>",
            "<xml><a><b/></a></xml>",
            "<xml><a b='1'>1</a></xml>",
            "<xml><a b='1'/></xml>",
            "<xml c='1'><a>1</a></xml>",
            "<?xml version='1.0'?><xml><a>1</a></xml>",
            "<xml><?php ?><a>1</a></xml>",
            "<xml><a><?php ?></a></xml>",
            "<xml><!-- x --><a>1</a></xml>",
            "<xml><a>1<!-- x --></a></xml>",
            "<!DOCTYPE xml [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><xml><a>&e;</a></xml>",
            "<!DOCTYPE xml><xml><a>1</a></xml>",
            "<xml><a>&e;</a></xml>",
            "<xml><a>&#60;</a></xml>",
            "<xml><a>& b</a></xml>",
            "<xml><a>1\u{0}</a></xml>",
            "<xml><a:b>1</a:b></xml>",
            "<xml><é>1</é></xml>",
            "<xml><![CDATA[x]]></xml>",
        ] {
            assert_eq!(read_text(bad), None, "{bad}");
        }
        assert_eq!(read("xml", b"<xml><a>\xff</a></xml>"), None);
        assert_eq!(read_text(&format!("<xml><a>{}</a></xml>", "x".repeat(crate::MAX_NOTICE))), None);
        let many: String = (0..=MAX_FIELDS).map(|n| format!("<a{n}>1</a{n}>")).collect();
        assert_eq!(read_text(&format!("<xml>{many}</xml>")), None);
        assert_eq!(read_text(&format!("<xml>{}", "<a>".repeat(20_000))), None);
    }

    proptest! {
        #[test]
        fn fields_survive_a_round_trip(
            fields in prop::collection::btree_map("[a-z_]{1,8}", "[\\PC\n]{0,16}", 0..8),
        ) {
            prop_assert_eq!(read("root", write("root", &fields).as_bytes()), Some(fields));
        }

        #[test]
        fn no_text_panics(text in "(<xml>|</xml>|<a>|</a>|<!\\[CDATA\\[|\\]\\]>|&amp;|&|<|>|\\PC){0,12}") {
            let _ = read("xml", text.as_bytes());
        }
    }
}
