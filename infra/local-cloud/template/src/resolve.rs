//! Intrinsic functions, carried out: what comes out has no tag, no `Fn::` and no `AWS::NoValue` in it.

use super::attributes;
use super::error::{Read, did_you_mean, wrong};
use super::fields::{entries, list, text};
use super::scope::Scope;
use super::yaml::{Entry, Node, Value};

/// Names may be made of other resources' names; further than this they go in a circle.
pub(super) const DEEPEST: usize = 24;

const KNOWN: &[&str] =
    &["Ref", "Fn::Sub", "Fn::GetAtt", "Fn::If", "Fn::Equals", "Fn::Not", "Fn::And", "Fn::Or", "Condition"];

/// The intrinsic function that a node is, with its argument.
pub(super) fn intrinsic(node: &Node) -> Option<(String, Node)> {
    if let Some(tag) = &node.tag {
        let name = if tag == "Ref" || tag == "Condition" { tag.clone() } else { format!("Fn::{tag}") };
        return Some((name, node.without_tag()));
    }
    match node.as_map() {
        Some([only]) if only.key == "Ref" || only.key.starts_with("Fn::") => {
            Some((only.key.clone(), Node { line: only.line, ..only.node.clone() }))
        }
        _ => None,
    }
}

impl Scope {
    /// The value of a node; `None` is `AWS::NoValue`.
    pub(super) fn resolve(&self, node: &Node) -> Read<Option<Node>> {
        self.resolve_at(node, 0)
    }

    /// The value of a node that must have one.
    pub(super) fn value(&self, node: &Node) -> Read<Node> {
        match self.resolve(node)? {
            Some(value) => Ok(value),
            None => wrong(node.line, "AWS::NoValue leaves nothing here; give a value"),
        }
    }

    pub(super) fn resolve_at(&self, node: &Node, depth: usize) -> Read<Option<Node>> {
        if depth > DEEPEST {
            return wrong(node.line, "this refers to itself in the end; break the circle");
        }
        if let Some((name, argument)) = intrinsic(node) {
            return self.call(&name, &argument, depth + 1);
        }
        let value = match &node.value {
            Value::Scalar { .. } => node.value.clone(),
            Value::List(items) => {
                let mut kept = Vec::with_capacity(items.len());
                for item in items {
                    kept.extend(self.resolve_at(item, depth)?);
                }
                Value::List(kept)
            }
            Value::Map(all) => {
                let mut kept = Vec::with_capacity(all.len());
                for entry in all {
                    check_key(entry)?;
                    let node = self.resolve_at(&entry.node, depth)?;
                    kept.extend(node.map(|node| Entry { node, ..entry.clone() }));
                }
                Value::Map(kept)
            }
        };
        Ok(Some(Node { line: node.line, tag: None, value }))
    }

    fn call(&self, name: &str, argument: &Node, depth: usize) -> Read<Option<Node>> {
        let line = argument.line;
        match name {
            "Ref" => self.reference(text(argument, "Ref")?, line, depth),
            "Fn::GetAtt" => self.get_att(argument, depth).map(Some),
            "Fn::Sub" => self.sub(argument, depth).map(Some),
            "Fn::If" => match list(argument, "Fn::If")? {
                [condition, yes, no] => {
                    let holds = self.condition(text(condition, "Fn::If")?, line)?;
                    self.resolve_at(if holds { yes } else { no }, depth)
                }
                _ => wrong(line, "Fn::If takes a condition's name and two values; write [Name, yes, no]"),
            },
            "Fn::Equals" | "Fn::Not" | "Fn::And" | "Fn::Or" | "Condition" => {
                wrong(line, format!("{name} says yes or no; name it under Conditions and use Fn::If here"))
            }
            _ => {
                let hint = did_you_mean(name, KNOWN.iter().copied());
                wrong(line, format!("{name} is not known here{hint}; use one of {}", KNOWN.join(", ")))
            }
        }
    }

    /// What `!Ref name` is.
    fn reference(&self, name: &str, line: usize, depth: usize) -> Read<Option<Node>> {
        if name == "AWS::NoValue" {
            return Ok(None);
        }
        if let Some(value) = self.pseudo(name) {
            return Ok(Some(Node::text(line, value)));
        }
        if let Some(value) = self.parameters.get(name) {
            return Ok(Some(Node { line, ..value.clone() }));
        }
        self.attribute(name, None, line, depth).map(|value| Some(Node::text(line, value)))
    }

    fn attribute(&self, id: &str, attribute: Option<&str>, line: usize, depth: usize) -> Read<String> {
        let Some(resource) = self.find(id) else {
            let hint = did_you_mean(id, self.names());
            return wrong(
                line,
                format!("there is no parameter or resource {id}{hint}; correct the name or declare it"),
            );
        };
        if let Some(condition) = &resource.left_out_by {
            return wrong(line, format!("{id} is left out by its condition {condition}; put Fn::If around this"));
        }
        attributes::of(self, resource, attribute, line, depth)
    }

    fn get_att(&self, argument: &Node, depth: usize) -> Read<Node> {
        let line = argument.line;
        let (id, attribute) = match &argument.value {
            Value::List(parts) => match parts.as_slice() {
                [id, attribute] => (text(id, "Fn::GetAtt")?.to_owned(), self.one_text(attribute, "Fn::GetAtt", depth)?),
                _ => return wrong(line, "Fn::GetAtt takes a resource and an attribute; write [Resource, Attribute]"),
            },
            _ => match text(argument, "Fn::GetAtt")?.split_once('.') {
                Some((id, attribute)) => (id.to_owned(), attribute.to_owned()),
                None => return wrong(line, "Fn::GetAtt takes a resource and an attribute; write Resource.Attribute"),
            },
        };
        self.attribute(&id, Some(&attribute), line, depth).map(|value| Node::text(line, value))
    }

    fn sub(&self, argument: &Node, depth: usize) -> Read<Node> {
        let line = argument.line;
        let (pattern, own) = match &argument.value {
            Value::List(parts) => match parts.as_slice() {
                [pattern, own] => (text(pattern, "Fn::Sub")?, entries(own, "Fn::Sub")?),
                _ => return wrong(line, "Fn::Sub takes a text and a map; write [text, {Name: value}]"),
            },
            _ => (text(argument, "Fn::Sub")?, &[][..]),
        };
        let mut made = String::with_capacity(pattern.len());
        let mut rest = pattern;
        while let Some((before, after)) = rest.split_once("${") {
            made.push_str(before);
            let Some((name, next)) = after.split_once('}') else {
                return wrong(line, "${ without its } in Fn::Sub; close it, or write ${!…} for a literal one");
            };
            rest = next;
            match name.strip_prefix('!') {
                Some(literal) => made.push_str(&format!("${{{literal}}}")),
                None => made.push_str(&self.sub_name(name.trim(), own, line, depth)?),
            }
        }
        made.push_str(rest);
        Ok(Node::text(line, made))
    }

    fn sub_name(&self, name: &str, own: &[Entry], line: usize, depth: usize) -> Read<String> {
        if let Some(entry) = own.iter().find(|entry| entry.key == name) {
            return self.one_text(&entry.node, name, depth);
        }
        if let Some((id, attribute)) = name.split_once('.') {
            return self.attribute(id, Some(attribute), line, depth);
        }
        match self.reference(name, line, depth)? {
            Some(node) => text(&node, name).map(str::to_owned),
            None => wrong(line, "AWS::NoValue cannot be part of a text; use Fn::If around the whole"),
        }
    }

    /// Whether a condition holds.
    pub(super) fn condition(&self, name: &str, line: usize) -> Read<bool> {
        self.named_condition(name, line, 0)
    }

    fn named_condition(&self, name: &str, line: usize, depth: usize) -> Read<bool> {
        match self.conditions.iter().find(|entry| entry.key == name) {
            Some(entry) => self.holds(&entry.node, depth + 1),
            None => {
                let hint = did_you_mean(name, self.conditions.iter().map(|entry| entry.key.as_str()));
                wrong(line, format!("there is no condition {name}{hint}; declare it under Conditions"))
            }
        }
    }

    fn holds(&self, node: &Node, depth: usize) -> Read<bool> {
        let line = node.line;
        if depth > DEEPEST {
            return wrong(line, "this condition refers to itself in the end; break the circle");
        }
        let by_name = node.get("Condition").filter(|_| node.as_map().is_some_and(|all| all.len() == 1));
        let (name, argument) = match (intrinsic(node), by_name) {
            (Some(call), _) => call,
            (None, Some(argument)) => ("Condition".to_owned(), argument.clone()),
            (None, None) => {
                return wrong(line, "a condition is Fn::Equals, Fn::Not, Fn::And, Fn::Or or Condition; use one");
            }
        };
        if name == "Condition" {
            return self.named_condition(text(&argument, "Condition")?, line, depth);
        }
        let parts = list(&argument, &name)?;
        match (name.as_str(), parts) {
            ("Fn::Equals", [one, other]) => {
                let one = self.one_text(one, "Fn::Equals", depth)?;
                Ok(one == self.one_text(other, "Fn::Equals", depth)?)
            }
            ("Fn::Not", [only]) => self.holds(only, depth + 1).map(|holds| !holds),
            ("Fn::And" | "Fn::Or", parts) if (2..=10).contains(&parts.len()) => {
                let all: Vec<bool> = parts.iter().map(|part| self.holds(part, depth + 1)).collect::<Read<_>>()?;
                Ok(if name == "Fn::And" { all.iter().all(|holds| *holds) } else { all.iter().any(|holds| *holds) })
            }
            ("Fn::Equals", _) => wrong(line, "Fn::Equals takes two values; write [one, other]"),
            ("Fn::Not", _) => wrong(line, "Fn::Not takes one condition; write [condition]"),
            ("Fn::And" | "Fn::Or", _) => wrong(line, format!("{name} takes 2 to 10 conditions; write them as a list")),
            _ => wrong(line, format!("{name} says neither yes nor no; use Fn::Equals, Fn::Not, Fn::And or Fn::Or")),
        }
    }

    fn one_text(&self, node: &Node, what: &str, depth: usize) -> Read<String> {
        match self.resolve_at(node, depth)? {
            Some(value) => text(&value, what).map(str::to_owned),
            None => wrong(node.line, format!("{what} takes a text, this is AWS::NoValue; give one")),
        }
    }
}

/// A `Fn::` beside other keys is a slip of the indentation, which CloudFormation refuses.
fn check_key(entry: &Entry) -> Read<()> {
    if entry.key.starts_with("Fn::") {
        return wrong(entry.line, format!("{} stands beside other keys; it must be alone in its map", entry.key));
    }
    Ok(())
}
