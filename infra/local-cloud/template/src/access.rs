//! Whether a policy's statements allow something: wildcards, conditions, and a Deny that wins.

use crate::model::{Effect, Statement};
use crate::{ACCOUNT, REGION};

/// One permission that a request needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    pub action: String,
    pub resource: String,
    /// Condition keys and their values.
    pub context: Vec<(&'static str, String)>,
}

impl Access {
    pub fn new(action: impl Into<String>, resource: impl Into<String>) -> Self {
        let context = vec![
            ("aws:RequestedRegion", REGION.to_owned()),
            ("aws:PrincipalAccount", ACCOUNT.to_owned()),
            ("aws:ResourceAccount", ACCOUNT.to_owned()),
        ];
        Self { action: action.into(), resource: resource.into(), context }
    }
}

/// Whether statements allow an action on a resource.
pub fn allows(statements: &[Statement], action: &str, resource: &str) -> bool {
    matches!(decide(statements, &Access::new(action, resource)), Decision::Allowed { .. })
}

/// What statements say about an access.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision<'a> {
    /// Allowed by the statement of this index, through this action and this resource pattern of it.
    Allowed { statement: usize, action: &'a str, resource: &'a str },
    /// No statement allows it.
    NotAllowed,
    /// A statement denies it.
    Denied,
}

/// What `statements` say about `access`.
pub fn decide<'a>(statements: &'a [Statement], access: &Access) -> Decision<'a> {
    let mut allowed = Decision::NotAllowed;
    for (index, statement) in statements.iter().enumerate() {
        let Some((action, resource)) = matched(statement, access) else { continue };
        match statement.effect {
            Effect::Deny => return Decision::Denied,
            Effect::Allow if allowed == Decision::NotAllowed => {
                allowed = Decision::Allowed { statement: index, action, resource };
            }
            Effect::Allow => {}
        }
    }
    allowed
}

fn matched<'a>(statement: &'a Statement, access: &Access) -> Option<(&'a str, &'a str)> {
    let action = statement.actions.iter().find(|pattern| is_action(pattern, &access.action))?;
    let resource = statement.resources.iter().find(|pattern| like(pattern, &access.resource))?;
    let holds = |(operator, key, values): &(String, String, Vec<String>)| condition(operator, key, values, access);
    statement.conditions.iter().all(holds).then_some((action.as_str(), resource.as_str()))
}

/// Whether a statement has conditions and is about an action: then what it says depends on more than the resource.
pub fn is_conditional(statement: &Statement, action: &str) -> bool {
    !statement.conditions.is_empty() && statement.actions.iter().any(|pattern| is_action(pattern, action))
}

/// Actions are the same in small and capital letters.
fn is_action(pattern: &str, action: &str) -> bool {
    if has_wildcard(pattern) {
        return like(&pattern.to_ascii_lowercase(), &action.to_ascii_lowercase());
    }
    pattern.eq_ignore_ascii_case(action)
}

fn has_wildcard(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

/// A key that the request does not carry fails its condition, as in AWS.
fn condition(operator: &str, key: &str, values: &[String], access: &Access) -> bool {
    let Some((_, actual)) = access.context.iter().find(|(known, _)| known.eq_ignore_ascii_case(key)) else {
        return false;
    };
    values.iter().any(|value| match operator {
        "StringEquals" => value == actual,
        // ArnEquals takes wildcards too: AWS treats the two alike.
        "StringLike" | "ArnLike" | "ArnEquals" => like(value, actual),
        _ => false,
    })
}

/// Whether `text` is like `pattern`, in which `*` is any characters and `?` is any one.
pub fn like(pattern: &str, text: &str) -> bool {
    // Most are plain, and this is asked for every call.
    if !has_wildcard(pattern) {
        return pattern == text;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // Where to go on if the rest does not match: after the last `*`, one more character taken by it.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, t));
                p += 1;
            }
            Some(c) if *c == '?' || text.get(t) == Some(c) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((after, taken)) => {
                    star = Some((after, taken + 1));
                    p = after;
                    t = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_as_in_aws() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "anything:at/all", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*/index/*", "table/t/index/i", true),
            ("table/t", "table/t/index/i", false),
            ("a*b*c*", "a-b-b-c", true),
            ("*b", "abab", true),
        ] {
            assert_eq!(like(pattern, text), expected, "{pattern} on {text}");
        }
    }
}
