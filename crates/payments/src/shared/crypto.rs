//! Keys and signatures. This is the only module that uses the cryptographic library.
//!
//! Keys are parsed once, from PEM or from the bare base64 that Alipay hands out, and are never printed.

use std::fmt;

use aws_lc_rs::cipher::{
    AES_256, DecryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair};
use aws_lc_rs::{aead, constant_time, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer};
use serde::Deserialize;

/// Why a provider's settings cannot be used. It names a field and never its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct SettingsError {
    pub field: String,
    /// What is wrong with the field, or what it must be.
    pub problem: String,
}

impl SettingsError {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

/// A text that `Debug` does not print.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The longest signature that is decoded. RSA-8192 in base64 has 1,368 characters.
const MAX_SIGNATURE: usize = 1400;

/// Decodes strict base64: padded, without blanks, and with exactly one text for the same bytes.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares in constant time: the duration does not tell where the first difference is.
pub(crate) fn same(a: &str, b: &str) -> bool {
    constant_time::verify_slices_are_equal(a.as_bytes(), b.as_bytes()).is_ok()
}

/// HMAC-SHA256, in lower-case hexadecimal.
pub(crate) fn hmac_sha256_hex(key: &str, parts: &[&[u8]]) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()));
    parts.iter().for_each(|part| context.update(part));
    hex(context.sign().as_ref())
}

/// An RSA private key that signs with SHA-256.
pub(crate) struct SigningKey(RsaKeyPair);

impl SigningKey {
    pub(crate) fn parse(field: &str, text: &str) -> Result<Self, SettingsError> {
        let unusable =
            || SettingsError::new(field, "must be an RSA private key of 2048 bits or more, in PEM or base64");
        let read_either =
            |der: &[u8]| RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der)).map_err(|_| unusable());
        if text.contains("-----BEGIN") {
            return match PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| unusable())? {
                PrivateKeyDer::Pkcs8(der) => read_either(der.secret_pkcs8_der()).map(Self),
                PrivateKeyDer::Pkcs1(der) => read_either(der.secret_pkcs1_der()).map(Self),
                _ => Err(unusable()),
            };
        }
        read_either(&from_base64(&without_spaces(text)).ok_or_else(unusable)?).map(Self)
    }

    /// The signature in base64. If the library fails, which is not expected, it is empty, and no one accepts that.
    pub(crate) fn sign(&self, message: &[u8]) -> String {
        let mut signature = vec![0; self.0.public_modulus_len()];
        match self.0.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature) {
            Ok(()) => to_base64(&signature),
            Err(_) => String::new(),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(secret)")
    }
}

/// An RSA public key that checks signatures made with SHA-256.
#[derive(Debug)]
pub(crate) struct VerifyingKey(ParsedPublicKey);

impl VerifyingKey {
    /// Reads a public key or a certificate. A certificate's serial number is returned as well.
    pub(crate) fn parse(field: &str, text: &str) -> Result<(Self, Option<String>), SettingsError> {
        let unusable = || {
            SettingsError::new(
                field,
                "must be an RSA public key of 2048 bits or more or a certificate, in PEM or base64",
            )
        };
        let (key, serial) = if text.contains("-----BEGIN CERTIFICATE") {
            let der = CertificateDer::from_pem_slice(text.as_bytes()).map_err(|_| unusable())?;
            let certificate = webpki::EndEntityCert::try_from(&der).map_err(|_| unusable())?;
            // As WeChat Pay writes it: without the leading zero byte that only marks the number as positive.
            let bytes = certificate.serial();
            let serial = hex(bytes.strip_prefix(&[0]).unwrap_or(bytes)).to_ascii_uppercase();
            (certificate.subject_public_key_info().to_vec(), Some(serial))
        } else if text.contains("-----BEGIN") {
            let der = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()).map_err(|_| unusable())?;
            (der.to_vec(), None)
        } else {
            (from_base64(&without_spaces(text)).ok_or_else(unusable)?, None)
        };
        let key = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key).map_err(|_| unusable())?;
        Ok((Self(key), serial))
    }

    /// Whether this signature, in base64, was made over the message by the owner of this key.
    pub(crate) fn verify(&self, message: &[u8], signature: &str) -> bool {
        signature.len() <= MAX_SIGNATURE
            && from_base64(signature).is_some_and(|signature| self.0.verify_sig(message, &signature).is_ok())
    }
}

fn without_spaces(text: &str) -> String {
    text.split_ascii_whitespace().collect()
}

/// Decrypts a notice of WeChat Pay v2: AES-256 in ECB mode with PKCS #7 padding, in base64.
pub(crate) fn ecb_open(key: &str, sealed: &str) -> Option<Vec<u8>> {
    let key = UnboundCipherKey::new(&AES_256, key.as_bytes()).ok()?;
    let mut content = from_base64(sealed)?;
    let plain = PaddedBlockDecryptingKey::ecb_pkcs7(key).ok()?.decrypt(&mut content, DecryptionContext::None).ok()?;
    Some(plain.to_vec())
}

/// Encrypts as WeChat Pay v2 does.
pub(crate) fn ecb_seal(key: &str, plain: &[u8]) -> Option<String> {
    let key = UnboundCipherKey::new(&AES_256, key.as_bytes()).ok()?;
    let mut content = plain.to_vec();
    PaddedBlockEncryptingKey::ecb_pkcs7(key).ok()?.encrypt(&mut content).ok()?;
    Some(to_base64(&content))
}

/// WeChat Pay v3's key for the content of notices: AES-256-GCM.
pub(crate) struct ContentKey(aead::LessSafeKey);

impl ContentKey {
    pub(crate) fn parse(field: &str, text: &str) -> Result<Self, SettingsError> {
        let unusable = |_| SettingsError::new(field, "must be the APIv3 key, 32 characters");
        aead::UnboundKey::new(&aead::AES_256_GCM, text.as_bytes())
            .map(|key| Self(aead::LessSafeKey::new(key)))
            .map_err(unusable)
    }

    /// The plain text, if it was encrypted with this key, nonce and associated data.
    pub(crate) fn open(&self, nonce: &str, associated_data: &str, ciphertext: &str) -> Option<Vec<u8>> {
        let nonce = aead::Nonce::try_assume_unique_for_key(nonce.as_bytes()).ok()?;
        let mut content = from_base64(ciphertext)?;
        let plain = self.0.open_in_place(nonce, aead::Aad::from(associated_data.as_bytes()), &mut content).ok()?;
        Some(plain.to_vec())
    }

    /// Encrypts as WeChat Pay v3 does: in base64, with the tag at the end.
    pub(crate) fn seal(&self, nonce: &str, associated_data: &str, plain: &[u8]) -> Option<String> {
        let nonce = aead::Nonce::try_assume_unique_for_key(nonce.as_bytes()).ok()?;
        let mut content = plain.to_vec();
        self.0
            .seal_in_place_append_tag(nonce, aead::Aad::from(associated_data.as_bytes()), &mut content)
            .ok()
            .map(|()| to_base64(&content))
    }
}

impl fmt::Debug for ContentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContentKey(secret)")
    }
}
