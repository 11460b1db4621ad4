//! What the parts of a template may point at: its queues, tables, functions and roles.

use super::attributes;
use super::error::{Read, wrong};
use super::model::{Queue, Role, Table};
use super::roles::Roles;
use super::scope::Scope;
use super::{queue, table};

/// A function's names, before the rest of it is read.
#[derive(Clone)]
pub(super) struct FunctionName {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arn: String,
}

/// Everything that can be pointed at.
pub(super) struct Known {
    pub(super) stack_name: String,
    pub(super) queues: Vec<Queue>,
    pub(super) tables: Vec<Table>,
    pub(super) functions: Vec<FunctionName>,
    pub(super) roles: Roles,
    queue_arns: Vec<String>,
}

impl Known {
    pub(super) fn read(scope: &Scope) -> Read<Self> {
        let of = |kind: &'static str| scope.included().filter(move |resource| resource.kind == kind);
        let queue_arns: Vec<String> = of("AWS::SQS::Queue")
            .map(|resource| attributes::name(scope, resource).map(|name| attributes::queue_arn(&name)))
            .collect::<Read<_>>()?;
        let queues: Vec<Queue> =
            of("AWS::SQS::Queue").map(|resource| queue::read(scope, resource, &queue_arns)).collect::<Read<_>>()?;
        let tables: Vec<Table> =
            of("AWS::DynamoDB::Table").map(|resource| table::read(scope, resource)).collect::<Read<_>>()?;
        let functions = of("AWS::Serverless::Function")
            .map(|resource| {
                let name = attributes::name(scope, resource)?;
                Ok(FunctionName { id: resource.id.clone(), arn: attributes::function_arn(&name), name })
            })
            .collect::<Read<_>>()?;
        let known = Self {
            stack_name: scope.stack_name.clone(),
            queues,
            tables,
            functions,
            roles: Roles::read(scope)?,
            queue_arns,
        };
        known.check_names(scope)?;
        table::check(scope, &known.tables)?;
        Ok(known)
    }

    /// Two resources of one name would be one resource.
    fn check_names(&self, scope: &Scope) -> Read<()> {
        let queues = self.queues.iter().map(|queue| (&queue.arn, &queue.logical_id));
        let tables = self.tables.iter().map(|table| (&table.arn, &table.logical_id));
        let functions = self.functions.iter().map(|function| (&function.arn, &function.id));
        let mut seen: Vec<(&String, &String)> = Vec::new();
        for (arn, id) in queues.chain(tables).chain(functions) {
            if let Some((_, first)) = seen.iter().find(|(known, _)| *known == arn) {
                let line = scope.find(id).map_or(1, |resource| resource.line);
                return wrong(line, format!("{id} has the same name as {first}; give it another"));
            }
            seen.push((arn, id));
        }
        Ok(())
    }

    /// A queue's ARN that must be one of the template's.
    pub(super) fn queue(&self, arn: &str, line: usize) -> Read<String> {
        queue::known_queue(&self.queue_arns, arn, line)
    }

    /// The table whose stream this is.
    pub(super) fn table_of_stream(&self, arn: &str, line: usize) -> Read<&Table> {
        match self.tables.iter().find(|table| table.stream_arn.as_deref() == Some(arn)) {
            Some(table) => Ok(table),
            None => wrong(
                line,
                format!("{arn} is no stream of this template; write !GetAtt Table.StreamArn of one of its tables"),
            ),
        }
    }

    /// The function that a name or an ARN, also the long one that API Gateway wants, points at.
    pub(super) fn function(&self, pointer: &str, line: usize) -> Read<&FunctionName> {
        let inner = pointer.split_once("/functions/").map_or(pointer, |(_, rest)| rest);
        let inner = inner.strip_suffix("/invocations").unwrap_or(inner);
        match self.functions.iter().find(|function| function.name == inner || function.arn == inner) {
            Some(function) => Ok(function),
            None => wrong(
                line,
                format!(
                    "{pointer} is no function of this template; write !Ref or !GetAtt … Arn of one of its functions"
                ),
            ),
        }
    }

    pub(super) fn scheduler_role(&self, arn: &str, line: usize) -> Read<&Role> {
        self.roles.assumed_by("scheduler.amazonaws.com", arn, line)
    }
}
