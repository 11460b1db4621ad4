//! Every name in a template must lead somewhere, also in what a condition leaves out: otherwise the template would
//! break on the day on which the condition turns.

use super::error::{Read, did_you_mean, wrong};
use super::fields::text;
use super::resolve::intrinsic;
use super::scope::{PSEUDO, Scope};
use super::yaml::{Node, Value};

/// Checks all names in resources and outputs.
pub(super) fn check(scope: &Scope, root: &Node) -> Read<()> {
    for resource in &scope.resources {
        walk(scope, &resource.properties)?;
    }
    root.get("Outputs").map_or(Ok(()), |outputs| walk(scope, outputs))
}

fn walk(scope: &Scope, node: &Node) -> Read<()> {
    if let Some((name, argument)) = intrinsic(node) {
        names(scope, &name, &argument)?;
        return inside(scope, &argument);
    }
    inside(scope, node)
}

fn inside(scope: &Scope, node: &Node) -> Read<()> {
    match &node.value {
        Value::Scalar { .. } => Ok(()),
        Value::List(items) => items.iter().try_for_each(|item| walk(scope, item)),
        Value::Map(entries) => entries.iter().try_for_each(|entry| walk(scope, &entry.node)),
    }
}

/// The names that one intrinsic uses. Its form is checked where it is carried out.
fn names(scope: &Scope, intrinsic: &str, argument: &Node) -> Read<()> {
    let line = argument.line;
    let first = || argument.as_list().and_then(<[Node]>::first).or(Some(argument)).and_then(Node::as_text);
    match intrinsic {
        "Ref" => known(scope, text(argument, "Ref")?, line),
        "Fn::GetAtt" => first().map_or(Ok(()), |name| resource(scope, name.split('.').next().unwrap_or(name), line)),
        "Fn::If" => first().map_or(Ok(()), |name| scope.condition(name, line).map(|_| ())),
        "Fn::Sub" => {
            let own = argument.as_list().and_then(|parts| parts.get(1));
            let pattern = first().unwrap_or_default();
            for part in pattern.split("${").skip(1) {
                let Some((name, _)) = part.split_once('}') else { continue };
                let name = name.trim();
                if name.starts_with('!') || own.is_some_and(|own| own.get(name).is_some()) {
                    continue;
                }
                match name.split_once('.') {
                    Some((id, _)) => resource(scope, id, line)?,
                    None => known(scope, name, line)?,
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn known(scope: &Scope, name: &str, line: usize) -> Read<()> {
    let pseudo = name == "AWS::NoValue" || PSEUDO.contains(&name);
    if pseudo || scope.parameters.contains_key(name) {
        return Ok(());
    }
    resource(scope, name, line)
}

fn resource(scope: &Scope, id: &str, line: usize) -> Read<()> {
    if scope.find(id).is_some() {
        return Ok(());
    }
    let hint = did_you_mean(id, scope.names());
    wrong(line, format!("there is no parameter or resource {id}{hint}; correct the name or declare it"))
}
