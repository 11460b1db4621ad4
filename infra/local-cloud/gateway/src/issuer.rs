//! The token issuer that the template names, played by the gateway: an RSA key of its own, made at the first start
//! and kept in the data directory, tokens signed with it, and the documents by which others find the key.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};
use serde_json::{Map, Value, json};

use crate::data::ISSUER_KEY;
use crate::template::model::JwtAuthorizer;

/// Signs tokens, and gives the key to check them with.
pub struct Issuer {
    signing: EncodingKey,
    pub(super) checking: DecodingKey,
    pub(super) key_id: String,
    jwk: Value,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Issuer").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// Why there is no issuer.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// The key's file cannot be read or written.
    #[error("cannot use the token key {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        source: io::Error,
    },
    /// The key's file holds something else.
    #[error("{path} does not hold an RSA key: delete it (tokens from before stop working) or start with \
        --fresh", path = path.display())]
    NotAKey {
        /// The file.
        path: PathBuf,
    },
    /// No key could be made.
    #[error("cannot make an RSA key: the system's cryptography refused")]
    Make,
}

/// What a new token says.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRequest {
    /// `sub`: the buyer.
    pub subject: String,
    /// `scope`, separated by spaces.
    pub scope: String,
    /// How long it is good.
    pub expires_in_seconds: i64,
}

impl Issuer {
    /// Reads the key from `directory`, or makes it and puts it there, readable for its owner only.
    pub fn open(directory: &Path) -> Result<Self, IssuerError> {
        let path = directory.join(ISSUER_KEY);
        let pem = match fs::read(&path) {
            Ok(pem) => pem,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let pem = new_key()?;
                keep(&path, pem.as_bytes()).map_err(|source| IssuerError::File { path: path.clone(), source })?;
                pem.into_bytes()
            }
            Err(source) => return Err(IssuerError::File { path, source }),
        };
        Self::from_pem(&pem).map_err(|_| IssuerError::NotAKey { path })
    }

    fn from_pem(pem: &[u8]) -> Result<Self, jsonwebtoken::errors::Error> {
        let signing = EncodingKey::from_rsa_pem(pem)?;
        let mut jwk = Jwk::from_encoding_key(&signing, Algorithm::RS256)?;
        let key_id = jwk.thumbprint(ThumbprintHash::SHA256)?;
        jwk.common.key_id = Some(key_id.clone());
        jwk.common.public_key_use = Some(jsonwebtoken::jwk::PublicKeyUse::Signature);
        let checking = DecodingKey::from_jwk(&jwk)?;
        let jwk = serde_json::to_value(&jwk)?;
        Ok(Self { signing, checking, key_id, jwk })
    }

    /// A token that the authorizer accepts: with its issuer and its first audience.
    pub fn mint(
        &self,
        authorizer: &JwtAuthorizer,
        request: &TokenRequest,
        now_ms: i64,
    ) -> Result<String, jsonwebtoken::errors::Error> {
        let now_s = now_ms.div_euclid(1000);
        let mut claims = Map::new();
        claims.insert("iss".to_owned(), json!(authorizer.issuer));
        claims.insert("sub".to_owned(), json!(request.subject));
        if let Some(audience) = authorizer.audience.first() {
            claims.insert("aud".to_owned(), json!(audience));
        }
        claims.insert("iat".to_owned(), json!(now_s));
        claims.insert("exp".to_owned(), json!(now_s.saturating_add(request.expires_in_seconds)));
        if !request.scope.is_empty() {
            claims.insert("scope".to_owned(), json!(request.scope));
        }
        self.sign(&Value::Object(claims))
    }

    /// Signs any claims.
    pub fn sign(&self, claims: &Value) -> Result<String, jsonwebtoken::errors::Error> {
        let mut header = Header::new(Algorithm::RS256);
        header.kid = Some(self.key_id.clone());
        jsonwebtoken::encode(&header, claims, &self.signing)
    }

    /// `jwks.json`: the public half of the key.
    pub fn jwks(&self) -> Value {
        json!({ "keys": [self.jwk] })
    }
}

/// `/.well-known/openid-configuration` of an issuer whose keys are served at `jwks_uri`.
pub(super) fn configuration(issuer: &str, jwks_uri: &str) -> Value {
    json!({
        "issuer": issuer,
        "jwks_uri": jwks_uri,
        "response_types_supported": ["token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    })
}

fn new_key() -> Result<String, IssuerError> {
    let key = KeyPair::generate(KeySize::Rsa2048).map_err(|_| IssuerError::Make)?;
    let der: Pkcs8V1Der<'_> = key.as_der().map_err(|_| IssuerError::Make)?;
    let base64 = STANDARD.encode(der.as_ref());
    let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
    for line in base64.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END PRIVATE KEY-----\n");
    Ok(pem)
}

/// Writes beside the file and renames, so that a crash leaves no half of a key.
fn keep(path: &Path, pem: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("pem.new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(pem)?;
    file.sync_all()?;
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_key_is_made_once_and_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let first = Issuer::open(directory.path()).unwrap();
        let again = Issuer::open(directory.path()).unwrap();
        assert_eq!(first.jwks(), again.jwks());
        let mode = fs::metadata(directory.path().join(ISSUER_KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let key = &first.jwks()["keys"][0];
        assert_eq!(
            (key["kty"].as_str(), key["alg"].as_str(), key["use"].as_str()),
            (Some("RSA"), Some("RS256"), Some("sig"))
        );
        assert_eq!(key["kid"], first.key_id.as_str());
        assert!(key.get("d").is_none(), "the private half stays here");
    }

    #[test]
    fn a_file_that_is_no_key_says_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(ISSUER_KEY), "hello").unwrap();
        let error = Issuer::open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("issuer-key.pem") && error.contains("--fresh"), "{error}");
    }
}
