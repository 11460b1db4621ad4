//! YAML as CloudFormation takes it, kept with the line and the tag of every node.
//!
//! A duplicate key, an alias, a merge key, a second document and a key that is not text are errors here, because
//! CloudFormation refuses them too or, worse, quietly keeps only one of two keys.

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};

use super::error::{Problem, Read, wrong};

/// Deeper nesting than any real template has; it bounds the recursion.
const DEEPEST: usize = 64;

/// One node of the document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// The line it begins on, from 1.
    pub(super) line: usize,
    /// `Ref` for `!Ref`.
    pub(super) tag: Option<String>,
    pub(super) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Text as written; `plain` if without quotes, so that it may also be a number, a truth value or nothing.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: Node,
}

impl Node {
    /// A text that the reader made.
    pub(super) fn text(line: usize, text: impl Into<String>) -> Self {
        Self { line, tag: None, value: Value::Scalar { text: text.into(), plain: false } }
    }

    pub(super) fn list(line: usize, items: Vec<Node>) -> Self {
        Self { line, tag: None, value: Value::List(items) }
    }

    pub(super) fn map(line: usize, entries: Vec<Entry>) -> Self {
        Self { line, tag: None, value: Value::Map(entries) }
    }

    /// As JSON. Text without quotes is a number, a truth value or nothing where it looks like one.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Scalar { .. } if self.is_null() => serde_json::Value::Null,
            Value::Scalar { text, plain: true } => match serde_json::from_str(text) {
                Ok(value @ (serde_json::Value::Bool(_) | serde_json::Value::Number(_))) => value,
                _ => text.clone().into(),
            },
            Value::Scalar { text, plain: false } => text.clone().into(),
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect(),
        }
    }

    pub(super) fn without_tag(&self) -> Self {
        Self { line: self.line, tag: None, value: self.value.clone() }
    }

    /// `key:` with nothing after it, `~` or `null`.
    pub(super) fn is_null(&self) -> bool {
        self.tag.is_none()
            && matches!(&self.value, Value::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null"))
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn as_map(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value of a key of a map.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match &self.value {
            _ if self.is_null() => "nothing",
            Value::Scalar { .. } => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

/// Reads one document.
pub(super) fn parse(text: &str) -> Read<Node> {
    let mut document = Document { events: Parser::new_from_str(text) };
    loop {
        match document.next()? {
            (Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _) => {}
            (Event::StreamEnd, span) => {
                return wrong(span.start.line().max(1), "the template is empty; begin with a Resources section");
            }
            (event, span) => {
                let node = document.node(event, span, 0)?;
                return document.end(node);
            }
        }
    }
}

struct Document<'text> {
    events: Parser<'text, StrInput<'text>>,
}

impl<'text> Document<'text> {
    fn next(&mut self) -> Read<(Event<'text>, Span)> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => wrong(
                error.marker().line(),
                format!("this is not YAML: {}; check the indentation and the quotes", error.info()),
            ),
            None => wrong(1, "this is not YAML: it ends in the middle; check the end of the file"),
        }
    }

    fn end(&mut self, node: Node) -> Read<Node> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(node),
                (Event::DocumentStart(_), span) => {
                    return wrong(
                        span.start.line(),
                        "a second document begins here; a template is one document: remove the ---",
                    );
                }
                _ => {}
            }
        }
    }

    fn node(&mut self, event: Event<'text>, span: Span, depth: usize) -> Read<Node> {
        let line = span.start.line();
        if depth > DEEPEST {
            return wrong(line, format!("more than {DEEPEST} levels deep; flatten it"));
        }
        match event {
            Event::Scalar(text, style, _, tag) => {
                let (tag, forced_text) = own_tag(tag.as_deref(), line)?;
                let plain = style == ScalarStyle::Plain && !forced_text;
                Ok(Node { line, tag, value: Value::Scalar { text: text.into_owned(), plain } })
            }
            Event::SequenceStart(_, tag) => {
                let (tag, _) = own_tag(tag.as_deref(), line)?;
                Ok(Node { line, tag, value: Value::List(self.items(depth)?) })
            }
            Event::MappingStart(_, tag) => {
                let (tag, _) = own_tag(tag.as_deref(), line)?;
                Ok(Node { line, tag, value: Value::Map(self.entries(depth)?) })
            }
            Event::Alias(_) => wrong(line, "CloudFormation takes no YAML aliases (*name); write the value out"),
            other => {
                wrong(line, format!("this is not YAML that a template can have ({other:?}); check the indentation"))
            }
        }
    }

    fn items(&mut self, depth: usize) -> Read<Vec<Node>> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn entries(&mut self, depth: usize) -> Read<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(entries);
            }
            let key = self.node(event, span, depth + 1)?;
            let line = key.line;
            let Node { tag: None, value: Value::Scalar { text: key, .. }, .. } = key else {
                return wrong(line, "a key must be plain text; write `key: value`");
            };
            if key == "<<" {
                return wrong(line, "CloudFormation takes no merge keys (<<); write the keys out");
            }
            if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                return wrong(
                    line,
                    format!("{key} is here a second time (first on line {}); remove one of them", first.line),
                );
            }
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            entries.push(Entry { key, line, node });
        }
    }
}

/// The name of a CloudFormation tag, and whether the value was declared to be text (`!!str`).
fn own_tag(tag: Option<&Tag>, line: usize) -> Result<(Option<String>, bool), Problem> {
    match tag {
        None => Ok((None, false)),
        Some(tag) if tag.handle == "!" => Ok((Some(tag.suffix.clone()), false)),
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Ok((None, true)),
        Some(tag) => wrong(line, format!("the tag {tag} is not known; use CloudFormation's own, such as !Ref")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_keep_their_lines_tags_and_quotes() {
        let root = parse("A: 1\nB:\n  C: !Ref D\n  E: !Sub |\n    x\n  F: ['1', 2]\n").expect("it is YAML");
        let b = root.get("B").expect("B");
        let c = b.get("C").expect("C");
        assert_eq!((c.line, c.tag.as_deref(), c.as_text()), (3, Some("Ref"), Some("D")));
        assert_eq!(b.get("E").and_then(|e| e.tag.as_deref()), Some("Sub"));
        let f = b.get("F").and_then(Node::as_list).expect("F");
        assert!(matches!(
            f,
            [
                Node { value: Value::Scalar { plain: false, .. }, .. },
                Node { value: Value::Scalar { plain: true, .. }, .. }
            ]
        ));
    }

    #[test]
    fn what_cloudformation_refuses_is_refused() {
        let at = |text: &str| parse(text).expect_err("refused");
        assert_eq!(at("A: 1\nB: 2\nA: 3\n").message, "A is here a second time (first on line 1); remove one of them");
        assert_eq!(at("A: &x 1\nB: *x\n").line, 2);
        assert_eq!(at("A: {}\nB:\n  <<: {}\n").line, 3);
        assert_eq!(at("A: 1\n---\nB: 1\n").line, 2);
        assert!(at("A: [1\nB: 2\n").message.starts_with("this is not YAML: "));
        assert!(at("").message.starts_with("the template is empty"));
    }
}
