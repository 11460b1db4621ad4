//! What names in a template stand for: parameters, conditions, mappings and resources.

use std::collections::BTreeMap;

use super::error::{Read, did_you_mean, wrong};
use super::fields::{Fields, Shape, entries, list, text};
use super::globals;
use super::yaml::{Entry, Node, Value};
use crate::{ACCOUNT, REGION};

/// The pseudo parameters ([`Scope::pseudo`]). `AWS::NoValue` is handled where values are resolved.
pub(super) const PSEUDO: &[&str] =
    &["AWS::AccountId", "AWS::Partition", "AWS::Region", "AWS::StackId", "AWS::StackName", "AWS::URLSuffix"];

const RESOURCE: Shape = Shape::new("a resource", &["Type", "Properties", "Metadata", "Condition", "DependsOn"])
    // A local stack is thrown away as a whole.
    .without_effect(&["DeletionPolicy", "UpdateReplacePolicy"])
    .refused(&[("Connectors", "write the policy statements out")]);

/// A resource as written, with the globals that apply to it.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub(super) id: String,
    pub(super) line: usize,
    pub(super) kind: String,
    pub(super) properties: Node,
    pub(super) metadata: Option<Node>,
    /// The condition that leaves it out, if one does.
    pub(super) left_out_by: Option<String>,
    /// Whether SAM makes it and the template does not write it.
    pub(super) generated: bool,
}

/// Everything that a `!Ref` or another intrinsic can look up.
pub(super) struct Scope {
    pub(super) stack_name: String,
    pub(super) parameters: BTreeMap<String, Node>,
    /// Conditions as written.
    pub(super) conditions: Vec<Entry>,
    pub(super) resources: Vec<Resource>,
}

impl Scope {
    /// Reads the sections of a template.
    pub(super) fn read(root: &Node, stack_name: &str, given: &BTreeMap<String, String>) -> Read<Self> {
        let section = |name: &str| root.get(name).filter(|node| !node.is_null());
        let mut scope = Self {
            stack_name: stack_name.to_owned(),
            parameters: parameters(section("Parameters"), given)?,
            conditions: match section("Conditions") {
                Some(node) => entries(node, "Conditions")?.to_vec(),
                None => Vec::new(),
            },
            resources: Vec::new(),
        };
        for condition in &scope.conditions {
            scope.condition(&condition.key, condition.line)?;
        }
        let Some(resources) = section("Resources") else {
            return wrong(root.line, "the template has no Resources; add what it deploys");
        };
        let globals = globals::Globals::read(section("Globals"))?;
        for entry in entries(resources, "Resources")? {
            let resource = scope.resource(entry, &globals)?;
            scope.resources.push(resource);
        }
        globals::add_generated(&mut scope, &globals);
        scope.check_depends_on(resources)?;
        Ok(scope)
    }

    fn resource(&self, entry: &Entry, globals: &globals::Globals) -> Read<Resource> {
        if !entry.key.chars().all(|c| c.is_ascii_alphanumeric()) {
            return wrong(entry.line, format!("{} is no logical id; use letters and digits only", entry.key));
        }
        let fields = Fields::read(&entry.node, &RESOURCE)?;
        let kind = fields.need_text("Type")?.to_owned();
        let left_out_by = match fields.text("Condition")? {
            Some(name) if !self.condition(name, fields.line_of("Condition"))? => Some(name.to_owned()),
            _ => None,
        };
        let empty = Node::map(entry.line, Vec::new());
        let properties = fields.get("Properties").unwrap_or(&empty);
        entries(properties, "Properties")?;
        Ok(Resource {
            id: entry.key.clone(),
            line: entry.line,
            properties: globals.applied(&kind, properties),
            kind,
            metadata: fields.get("Metadata").cloned(),
            left_out_by,
            generated: false,
        })
    }

    fn check_depends_on(&self, resources: &Node) -> Read<()> {
        for entry in entries(resources, "Resources")? {
            let Some(depends) = entry.node.get("DependsOn") else { continue };
            let names = match &depends.value {
                Value::List(names) => names.as_slice(),
                _ => std::slice::from_ref(depends),
            };
            for name in names {
                let id = text(name, "DependsOn")?;
                if self.find(id).is_none() {
                    let hint = did_you_mean(id, self.resources.iter().map(|resource| resource.id.as_str()));
                    return wrong(name.line, format!("there is no resource {id}{hint}; correct DependsOn"));
                }
            }
        }
        Ok(())
    }

    /// The resources that no condition leaves out.
    pub(super) fn included(&self) -> impl Iterator<Item = &Resource> {
        self.resources.iter().filter(|resource| resource.left_out_by.is_none())
    }

    pub(super) fn find(&self, id: &str) -> Option<&Resource> {
        self.resources.iter().find(|resource| resource.id == id)
    }

    /// The value of a pseudo parameter.
    pub(super) fn pseudo(&self, name: &str) -> Option<String> {
        let value = match name {
            "AWS::AccountId" => ACCOUNT,
            "AWS::Partition" => "aws",
            "AWS::Region" => REGION,
            "AWS::StackName" => &self.stack_name,
            "AWS::StackId" => {
                let stack = format!("arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{}", self.stack_name);
                return Some(format!("{stack}/00000000-0000-4000-8000-000000000000"));
            }
            "AWS::URLSuffix" => "amazonaws.com",
            _ => return None,
        };
        Some(value.to_owned())
    }

    /// The name of a resource that has none of its own.
    pub(super) fn made_name(&self, logical_id: &str) -> String {
        format!("{}-{logical_id}", self.stack_name)
    }

    /// The names that a `!Ref` can have, for hints.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let resources = self.resources.iter().map(|resource| resource.id.as_str());
        resources.chain(self.parameters.keys().map(String::as_str)).chain(PSEUDO.iter().copied())
    }
}

const PARAMETER: Shape = Shape::new(
    "a parameter",
    &["Type", "Default", "AllowedValues", "AllowedPattern", "MinLength", "MaxLength", "MinValue", "MaxValue"],
)
// For people, and for consoles that show values.
.without_effect(&["Description", "ConstraintDescription", "NoEcho"]);

const TYPES: &[&str] = &["String", "Number", "CommaDelimitedList", "List<Number>"];

fn parameters(section: Option<&Node>, given: &BTreeMap<String, String>) -> Read<BTreeMap<String, Node>> {
    let declared = match section {
        Some(node) => entries(node, "Parameters")?,
        None => &[],
    };
    declared.iter().map(|entry| Ok((entry.key.clone(), parameter(entry, given.get(&entry.key))?))).collect()
}

fn parameter(entry: &Entry, given: Option<&String>) -> Read<Node> {
    let name = &entry.key;
    let fields = Fields::read(&entry.node, &PARAMETER)?;
    let Some(kind) = fields.one_of("Type", TYPES)? else {
        return wrong(entry.line, format!("the parameter {name} has no Type; give {}", TYPES.join(" or ")));
    };
    let value = match (given, fields.text("Default")?) {
        (Some(value), _) => value.as_str(),
        (None, Some(default)) => default,
        (None, None) => {
            return wrong(entry.line, format!("the parameter {name} has no value; pass {name}=… or give it a Default"));
        }
    };
    let parts: Vec<&str> = match kind {
        "String" | "Number" => vec![value],
        _ if value.is_empty() => Vec::new(),
        _ => value.split(',').map(str::trim).collect(),
    };
    for part in &parts {
        allowed(name, part, &fields)?;
        if kind.contains("Number") && part.parse::<f64>().is_err() {
            return wrong(entry.line, format!("the parameter {name} is {part}, which is no number; give a number"));
        }
    }
    if matches!(kind, "String" | "Number") {
        return Ok(Node {
            line: entry.line,
            tag: None,
            value: Value::Scalar { text: value.to_owned(), plain: kind == "Number" },
        });
    }
    Ok(Node::list(entry.line, parts.iter().map(|part| Node::text(entry.line, *part)).collect()))
}

fn allowed(name: &str, value: &str, fields: &Fields) -> Read<()> {
    let refused =
        |key: &str, why: String| wrong(fields.line_of(key), format!("the parameter {name} is {value}, {why}"));
    let words = fields.get("AllowedValues").map(|node| list(node, "AllowedValues")).transpose()?;
    if let Some(words) = words {
        let words: Vec<&str> = words.iter().map(|word| text(word, "AllowedValues")).collect::<Read<_>>()?;
        if !words.contains(&value) {
            return refused("AllowedValues", format!("which is not allowed; give one of {}", words.join(", ")));
        }
    }
    if let Some(pattern) = fields.text("AllowedPattern")? {
        let Ok(regex) = regex_lite::Regex::new(&format!("^(?:{pattern})$")) else {
            return wrong(fields.line_of("AllowedPattern"), "AllowedPattern is no regular expression; correct it");
        };
        if !regex.is_match(value) {
            return refused(
                "AllowedPattern",
                format!("which does not match AllowedPattern; give something like {pattern}"),
            );
        }
    }
    let length = value.chars().count();
    if fields.number("MinLength", 0..=usize::MAX)?.is_some_and(|least| length < least) {
        return refused("MinLength", "which is shorter than MinLength; give a longer value".to_owned());
    }
    if fields.number("MaxLength", 0..=usize::MAX)?.is_some_and(|most| length > most) {
        return refused("MaxLength", "which is longer than MaxLength; give a shorter value".to_owned());
    }
    let size = value.parse::<f64>().unwrap_or(f64::NAN);
    if fields.number("MinValue", f64::MIN..=f64::MAX)?.is_some_and(|least| size < least) {
        return refused("MinValue", "which is below MinValue; give more".to_owned());
    }
    if fields.number("MaxValue", f64::MIN..=f64::MAX)?.is_some_and(|most| size > most) {
        return refused("MaxValue", "which is above MaxValue; give less".to_owned());
    }
    Ok(())
}
