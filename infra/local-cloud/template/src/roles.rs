//! Roles, and the policies that are attached to them from elsewhere in the template.

use std::collections::BTreeMap;

use super::attributes;
use super::error::{Read, did_you_mean, wrong};
use super::fields::{Fields, Shape, text};
use super::model::{Role, Statement};
use super::policy;
use super::scope::Scope;
use super::yaml::Node;

const ROLE: Shape =
    Shape::new("AWS::IAM::Role", &["AssumeRolePolicyDocument", "Policies", "ManagedPolicyArns", "RoleName"])
        // How a role is filed and for how long a session lasts.
        .without_effect(&["Description", "MaxSessionDuration", "Tags"])
        .refused(&[
            ("Path", "leave it out: ARNs here have none"),
            ("PermissionsBoundary", "write out only what is needed in Policies"),
        ]);

const INLINE: Shape = Shape::new("a policy of a role", &["PolicyName", "PolicyDocument"]);
const POLICY: Shape = Shape::new("AWS::IAM::Policy", &["PolicyName", "PolicyDocument", "Roles"])
    .refused(&[("Users", "attach it to Roles"), ("Groups", "attach it to Roles")]);
const MANAGED: Shape = Shape::new("AWS::IAM::ManagedPolicy", &["PolicyDocument", "Roles", "ManagedPolicyName"])
    .without_effect(&["Description"])
    .refused(&[
        ("Path", "leave it out: ARNs here have none"),
        ("Users", "attach it to Roles"),
        ("Groups", "attach it to Roles"),
    ]);

/// A role with what its trust document says.
pub(super) struct TrustedRole {
    pub(super) role: Role,
    pub(super) services: Vec<String>,
}

/// All roles and policies of a template.
pub(super) struct Roles {
    pub(super) roles: Vec<TrustedRole>,
    /// Statements of the template's managed policies, by ARN.
    managed: BTreeMap<String, Vec<Statement>>,
    /// Statements attached to a role from outside it, by the role's name.
    attached: BTreeMap<String, Vec<Statement>>,
}

impl Roles {
    pub(super) fn read(scope: &Scope) -> Read<Self> {
        let mut all = Self { roles: Vec::new(), managed: BTreeMap::new(), attached: BTreeMap::new() };
        for resource in scope.included() {
            let managed = match resource.kind.as_str() {
                "AWS::IAM::ManagedPolicy" => true,
                "AWS::IAM::Policy" => false,
                _ => continue,
            };
            let properties = scope.value(&resource.properties)?;
            let fields = Fields::read(&properties, if managed { &MANAGED } else { &POLICY })?;
            let statements = policy::statements(fields.need("PolicyDocument")?)?;
            for role in fields.list("Roles")? {
                all.attach(scope, role, &statements)?;
            }
            if managed {
                all.managed.insert(attributes::of(scope, resource, None, resource.line, 0)?, statements);
            } else {
                fields.need("PolicyName")?;
            }
        }
        for resource in scope.included().filter(|resource| resource.kind == "AWS::IAM::Role" && !resource.generated) {
            let properties = scope.value(&resource.properties)?;
            let role = all.role(&resource.id, &attributes::name(scope, resource)?, &properties)?;
            all.roles.push(role);
        }
        Ok(all)
    }

    fn attach(&mut self, scope: &Scope, role: &Node, statements: &[Statement]) -> Read<()> {
        let name = text(role, "Roles")?;
        let mut names = Vec::new();
        for resource in scope.included().filter(|resource| resource.kind == "AWS::IAM::Role") {
            names.push(attributes::name(scope, resource)?);
        }
        if !names.iter().any(|known| known == name) {
            let hint = did_you_mean(name, names.iter().map(String::as_str));
            return wrong(role.line, format!("the template has no role {name}{hint}; write !Ref of one of its roles"));
        }
        self.attached.entry(name.to_owned()).or_default().extend(statements.iter().cloned());
        Ok(())
    }

    fn role(&self, id: &str, name: &str, properties: &Node) -> Read<TrustedRole> {
        let fields = Fields::read(properties, &ROLE)?;
        let services = policy::trusted_services(fields.need("AssumeRolePolicyDocument")?)?;
        let mut statements = Vec::new();
        for inline in fields.list("Policies")? {
            let inline = Fields::read(inline, &INLINE)?;
            inline.need("PolicyName")?;
            statements.extend(policy::statements(inline.need("PolicyDocument")?)?);
        }
        for arn in fields.list("ManagedPolicyArns")? {
            statements.extend(self.managed_policy(text(arn, "ManagedPolicyArns")?, arn.line)?);
        }
        statements.extend(self.attached_to(name));
        let role = Role { logical_id: id.to_owned(), arn: attributes::role_arn(name), statements };
        Ok(TrustedRole { role, services })
    }

    /// The statements of a managed policy: the template's own, or one of AWS's few that are known.
    pub(super) fn managed_policy(&self, arn: &str, line: usize) -> Read<Vec<Statement>> {
        match self.managed.get(arn) {
            Some(statements) => Ok(statements.clone()),
            None => policy::managed(arn, line).map(|statement| vec![statement]),
        }
    }

    /// What is attached to a role from outside it.
    pub(super) fn attached_to(&self, role_name: &str) -> Vec<Statement> {
        self.attached.get(role_name).cloned().unwrap_or_default()
    }

    /// A role for a service to assume.
    pub(super) fn assumed_by(&self, service: &str, arn: &str, line: usize) -> Read<&Role> {
        let Some(found) = self.roles.iter().find(|known| known.role.arn == arn) else {
            return wrong(line, format!("the template has no role {arn}; write !GetAtt of one of its roles"));
        };
        if !found.services.iter().any(|trusted| trusted == service) {
            let id = &found.role.logical_id;
            return wrong(line, format!("{id} does not let {service} assume it; add it to AssumeRolePolicyDocument"));
        }
        Ok(&found.role)
    }
}
