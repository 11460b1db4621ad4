//! Maps of a template, read key by key: an unknown key, a missing one and a value of the wrong kind are errors.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::error::{Read, did_you_mean, wrong};
use super::yaml::{Entry, Node};

/// The keys that a map may have.
pub(super) struct Shape {
    /// What the map is, for messages.
    pub(super) what: &'static str,
    /// Keys that mean something here.
    pub(super) known: &'static [&'static str],
    /// Keys that are right but change nothing on one machine; the comment beside each list says why.
    pub(super) without_effect: &'static [&'static str],
    /// Keys that AWS knows and the local cloud cannot honour, with what to do instead.
    pub(super) refused: &'static [(&'static str, &'static str)],
}

impl Shape {
    pub(super) const fn new(what: &'static str, known: &'static [&'static str]) -> Self {
        Self { what, known, without_effect: &[], refused: &[] }
    }

    pub(super) const fn without_effect(mut self, keys: &'static [&'static str]) -> Self {
        self.without_effect = keys;
        self
    }

    pub(super) const fn refused(mut self, keys: &'static [(&'static str, &'static str)]) -> Self {
        self.refused = keys;
        self
    }

    fn check(&self, entry: &Entry) -> Read<()> {
        if let Some((key, instead)) = self.refused.iter().find(|(key, _)| *key == entry.key) {
            return wrong(entry.line, format!("{key} of {} is not supported here; {instead}", self.what));
        }
        let known = || self.known.iter().chain(self.without_effect).copied();
        if !known().any(|key| key == entry.key) {
            let hint = did_you_mean(&entry.key, known());
            return wrong(
                entry.line,
                format!("{} has no property {}{hint}; correct or remove it", self.what, entry.key),
            );
        }
        if entry.node.is_null() {
            return wrong(entry.line, format!("{} has no value; give it one or remove it", entry.key));
        }
        Ok(())
    }
}

/// A resolved map whose keys are all known.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) line: usize,
    what: &'static str,
    entries: &'a [Entry],
}

impl<'a> Fields<'a> {
    /// Checks a map against its shape.
    pub(super) fn read(node: &'a Node, shape: &Shape) -> Read<Self> {
        let Some(entries) = node.as_map() else {
            return wrong(
                node.line,
                format!("{} is a map, this is {}; write `key: value` lines", shape.what, node.kind()),
            );
        };
        entries.iter().try_for_each(|entry| shape.check(entry))?;
        Ok(Self { line: node.line, what: shape.what, entries })
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    pub(super) fn need(&self, key: &str) -> Read<&'a Node> {
        match self.get(key) {
            Some(node) => Ok(node),
            None => wrong(self.line, format!("{} needs {key}; add it", self.what)),
        }
    }

    /// The line of a key, or of the map.
    pub(super) fn line_of(&self, key: &str) -> usize {
        self.entries.iter().find(|entry| entry.key == key).map_or(self.line, |entry| entry.line)
    }

    pub(super) fn text(&self, key: &str) -> Read<Option<&'a str>> {
        self.get(key).map(|node| text(node, key)).transpose()
    }

    pub(super) fn need_text(&self, key: &str) -> Read<&'a str> {
        text(self.need(key)?, key)
    }

    pub(super) fn flag(&self, key: &str) -> Read<Option<bool>> {
        self.get(key).map(|node| flag(node, key)).transpose()
    }

    pub(super) fn number<T: FromStr + PartialOrd + Display>(
        &self,
        key: &str,
        range: RangeInclusive<T>,
    ) -> Read<Option<T>> {
        self.get(key).map(|node| number(node, key, range)).transpose()
    }

    /// A list; missing is empty.
    pub(super) fn list(&self, key: &str) -> Read<&'a [Node]> {
        self.get(key).map_or(Ok(&[]), |node| list(node, key))
    }

    /// A list of texts; missing is empty.
    pub(super) fn texts(&self, key: &str) -> Read<Vec<String>> {
        self.list(key)?.iter().map(|node| text(node, key).map(str::to_owned)).collect()
    }

    /// One of a few words.
    pub(super) fn one_of(&self, key: &str, words: &[&str]) -> Read<Option<&'a str>> {
        let Some(node) = self.get(key) else { return Ok(None) };
        let word = text(node, key)?;
        if words.contains(&word) {
            return Ok(Some(word));
        }
        let hint = did_you_mean(word, words.iter().copied());
        wrong(node.line, format!("{key} cannot be {word}{hint}; here it is {}", words.join(" or ")))
    }

    /// A map inside, checked against its own shape.
    pub(super) fn fields(&self, key: &str, shape: &Shape) -> Read<Option<Fields<'a>>> {
        self.get(key).map(|node| Fields::read(node, shape)).transpose()
    }
}

pub(super) fn text<'a>(node: &'a Node, key: &str) -> Read<&'a str> {
    match node.as_text() {
        Some(text) => Ok(text),
        None => wrong(node.line, format!("{key} is a text, this is {}; write one value", node.kind())),
    }
}

pub(super) fn list<'a>(node: &'a Node, key: &str) -> Read<&'a [Node]> {
    match node.as_list() {
        Some(items) => Ok(items),
        None => wrong(node.line, format!("{key} is a list, this is {}; write `- value` lines", node.kind())),
    }
}

pub(super) fn entries<'a>(node: &'a Node, key: &str) -> Read<&'a [Entry]> {
    match node.as_map() {
        Some(entries) => Ok(entries),
        None => wrong(node.line, format!("{key} is a map, this is {}; write `name: value` lines", node.kind())),
    }
}

pub(super) fn flag(node: &Node, key: &str) -> Read<bool> {
    match node.as_text() {
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        other => {
            let is = other.unwrap_or(node.kind());
            wrong(node.line, format!("{key} is true or false, this is {is}; write one of the two"))
        }
    }
}

pub(super) fn number<T: FromStr + PartialOrd + Display>(node: &Node, key: &str, range: RangeInclusive<T>) -> Read<T> {
    let text = text(node, key)?;
    match text.parse::<T>() {
        Ok(number) if range.contains(&number) => Ok(number),
        Ok(_) => wrong(
            node.line,
            format!("{key} is {text}, which AWS does not take; give {} to {}", range.start(), range.end()),
        ),
        Err(_) => {
            wrong(node.line, format!("{key} is a number, this is {text}; give {} to {}", range.start(), range.end()))
        }
    }
}
