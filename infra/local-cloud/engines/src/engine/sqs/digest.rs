//! The MD5 digests that SQS sends along, so that a client can tell a damaged message.

use std::collections::BTreeMap;

use super::MessageAttribute;

/// Of a body.
pub(super) fn of_text(text: &str) -> String {
    format!("{:x}", md5::compute(text.as_bytes()))
}

/// Of message attributes: each name, data type and value with its length in front, in the order of the names.
/// `None` if there are none.
pub(super) fn of_attributes(attributes: &BTreeMap<String, MessageAttribute>) -> Option<String> {
    if attributes.is_empty() {
        return None;
    }
    let mut digested = Vec::new();
    for (name, attribute) in attributes {
        push(&mut digested, name.as_bytes());
        push(&mut digested, attribute.data_type.as_bytes());
        if let Some(binary) = attribute.decoded_binary() {
            digested.push(2);
            push(&mut digested, &binary);
        } else {
            digested.push(1);
            push(&mut digested, attribute.text.as_deref().unwrap_or_default().as_bytes());
        }
    }
    Some(format!("{:x}", md5::compute(&digested)))
}

fn push(digested: &mut Vec<u8>, bytes: &[u8]) {
    // A message is at most 1 MiB, so its parts' lengths fit.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    digested.extend_from_slice(&length.to_be_bytes());
    digested.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_digests_that_aws_documents() {
        // The body digest is of the developer guide's "This is a test message".
        assert_eq!(of_text("This is a test message"), "fafb00f5732ab283681e124bf8747ed1");
        assert_eq!(of_attributes(&BTreeMap::new()), None);
    }
}
