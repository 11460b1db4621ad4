//! Secrets.

use sha2::{Digest as _, Sha256};

use super::attributes;
use super::error::{Read, wrong};
use super::fields::{Fields, Shape};
use super::model::{Secret, SecretValue};
use super::scope::{Resource, Scope};
use crate::{ACCOUNT, REGION};

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
    Ok(Secret { logical_id: resource.id.clone(), arn: secret_arn(&name), name, value })
}

/// The full ARN of the secret of this name.
pub fn secret_arn(name: &str) -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let letter = |byte: &u8| LETTERS.get(usize::from(byte % 62)).map_or('A', |letter| char::from(*letter));
    let suffix: String = Sha256::digest(name.as_bytes()).iter().take(6).map(letter).collect();
    format!("arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{name}-{suffix}")
}

/// The full ARN of the secret that a name, a full ARN, or an ARN without its last six characters means.
pub fn secret_arn_of_id(id: &str) -> String {
    match id.strip_prefix(&format!("arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:")) {
        None => secret_arn(id),
        Some(rest) => match rest.rsplit_once('-') {
            Some((name, _)) if secret_arn(name) == id => id.to_owned(),
            _ => secret_arn(rest),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_known_by_its_name_and_by_its_arn_in_full_or_not() {
        let arn = secret_arn("payment-keys");
        assert_eq!(arn, secret_arn("payment-keys"));
        assert_ne!(arn.rsplit_once('-'), secret_arn("payment").rsplit_once('-'));
        let (without, suffix) = arn.rsplit_once('-').unwrap();
        assert_eq!((without, suffix.len()), ("arn:aws:secretsmanager:us-east-1:000000000000:secret:payment-keys", 6));
        for id in ["payment-keys", without, &arn] {
            assert_eq!(secret_arn_of_id(id), arn, "{id}");
        }
    }
}
