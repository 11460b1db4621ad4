//! Secrets.

use super::attributes;
use super::error::{Read, wrong};
use super::fields::{Fields, Shape};
use super::model::{Secret, SecretValue};
use super::scope::{Resource, Scope};

/// The value stays on this machine: no key and no other region changes anything.
const SECRET: Shape = Shape::new("AWS::SecretsManager::Secret", &["Name", "SecretString", "GenerateSecretString"])
    .without_effect(&["Description", "KmsKeyId", "ReplicaRegions", "Tags"]);

/// What is generated has letters and digits alone, so that leaving out signs changes nothing.
const GENERATE: Shape =
    Shape::new("GenerateSecretString", &["PasswordLength", "SecretStringTemplate", "GenerateStringKey"])
        .without_effect(&["ExcludePunctuation", "RequireEachIncludedType"])
        .refused(&[
            ("ExcludeCharacters", "use ExcludePunctuation"),
            ("ExcludeLowercase", "use ExcludePunctuation"),
            ("ExcludeNumbers", "use ExcludePunctuation"),
            ("ExcludeUppercase", "use ExcludePunctuation"),
            ("IncludeSpace", "leave it out"),
        ]);

/// The length that the service takes unless told otherwise.
const USUAL_LENGTH: u32 = 32;

/// Reads a secret.
pub(super) fn read(scope: &Scope, resource: &Resource) -> Read<Secret> {
    let properties = scope.value(&resource.properties)?;
    let fields = Fields::read(&properties, &SECRET)?;
    let name = attributes::name(scope, resource)?;
    let value = match (fields.text("SecretString")?, fields.fields("GenerateSecretString", &GENERATE)?) {
        (Some(_), Some(_)) => {
            return wrong(
                fields.line_of("SecretString"),
                "a secret has SecretString or GenerateSecretString, not both; remove one",
            );
        }
        (Some(text), None) => SecretValue::Text(text.to_owned()),
        (None, Some(generate)) => SecretValue::Generated {
            length: generate.number("PasswordLength", 1..=4096_u32)?.unwrap_or(USUAL_LENGTH),
            into: match (generate.text("SecretStringTemplate")?, generate.text("GenerateStringKey")?) {
                (Some(template), Some(key)) => Some((template.to_owned(), key.to_owned())),
                (None, None) => None,
                _ => {
                    return wrong(
                        generate.line,
                        "SecretStringTemplate and GenerateStringKey go together; give both or neither",
                    );
                }
            },
        },
        (None, None) => SecretValue::None,
    };
    Ok(Secret { logical_id: resource.id.clone(), arn: attributes::secret_arn(&name), name, value })
}
