//! Roles.

use super::attributes;
use super::error::{Read, wrong};
use super::fields::{Fields, Shape, text};
use super::model::Role;
use super::policy;
use super::scope::{Resource, Scope};

const ROLE: Shape =
    Shape::new("AWS::IAM::Role", &["AssumeRolePolicyDocument", "Policies", "ManagedPolicyArns", "RoleName"])
        // How a role is filed and for how long a session lasts.
        .without_effect(&["Description", "MaxSessionDuration", "Tags"])
        .refused(&[
            ("Path", "leave it out: ARNs here have none"),
            ("PermissionsBoundary", "write out only what is needed in Policies"),
        ]);

const INLINE: Shape = Shape::new("a policy of a role", &["PolicyName", "PolicyDocument"]);
/// A role with what its trust document says.
pub(super) struct TrustedRole {
    pub(super) role: Role,
    pub(super) services: Vec<String>,
}

/// All roles of a template.
pub(super) struct Roles {
    pub(super) roles: Vec<TrustedRole>,
}

impl Roles {
    pub(super) fn read(scope: &Scope) -> Read<Self> {
        let of_template = |resource: &&Resource| resource.kind == "AWS::IAM::Role" && !resource.generated;
        let roles = scope.included().filter(of_template).map(|resource| role(scope, resource)).collect::<Read<_>>()?;
        Ok(Self { roles })
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

fn role(scope: &Scope, resource: &Resource) -> Read<TrustedRole> {
    let properties = scope.value(&resource.properties)?;
    let fields = Fields::read(&properties, &ROLE)?;
    let services = policy::trusted_services(fields.need("AssumeRolePolicyDocument")?)?;
    let mut statements = Vec::new();
    for inline in fields.list("Policies")? {
        let inline = Fields::read(inline, &INLINE)?;
        inline.need("PolicyName")?;
        statements.extend(policy::statements(inline.need("PolicyDocument")?)?);
    }
    for arn in fields.list("ManagedPolicyArns")? {
        statements.push(policy::managed(text(arn, "ManagedPolicyArns")?, arn.line)?);
    }
    let arn = attributes::role_arn(&attributes::name(scope, resource)?);
    Ok(TrustedRole { role: Role { logical_id: resource.id.clone(), arn, statements }, services })
}
