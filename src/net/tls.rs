//! Whom we trust, and what to say when we do not (case S05).
//!
//! Trust is the system's store (through the platform's verifier) plus the endpoint's `ca_file` plus `SSL_CERT_FILE`.
//! On Linux `SSL_CERT_FILE` stands in for the system's store, as OpenSSL and curl do it.

use reqwest::Certificate;
use std::path::Path;

/// The largest file of certificates that is read.
const PEM_CAP: u64 = 8 * 1024 * 1024;

/// Reads the certificates of a PEM file.
///
/// # Errors
/// In words that name the option and the file.
pub(super) fn certificates_of(option: &str, path: &Path) -> Result<Vec<Certificate>, String> {
    let place = format!("{option} {}", path.display());
    let size = std::fs::metadata(path)
        .map_err(|e| format!("{place}: {e}"))?
        .len();
    if size > PEM_CAP {
        return Err(format!(
            "{place}: {size} bytes, too large for a file of certificates"
        ));
    }
    let pem = std::fs::read(path).map_err(|e| format!("{place}: {e}"))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|e| format!("{place}: not PEM: {e}"))?;
    if found.is_empty() {
        return Err(format!("{place}: no PEM certificate in it"));
    }
    Ok(found)
}

/// What to say of a certificate whose issuer is not trusted: who issued it, and the three ways to trust it.
pub(super) fn untrusted(
    host: &str,
    issuer: Option<&str>,
    ca_file: Option<&Path>,
    env_file: Option<&Path>,
) -> String {
    let issuer = issuer.map_or_else(|| "an authority".to_owned(), |i| format!("\"{i}\""));
    let mut text = format!(
        "UnknownIssuer: the certificate of {host} is issued by {issuer}, which is not trusted here. Trust it in the \
         system's certificate store, or by ca_file, or by SSL_CERT_FILE"
    );
    if let Some(path) = ca_file {
        text.push_str(&format!("; ca_file {} does not hold it", path.display()));
    }
    if let Some(path) = env_file {
        text.push_str(&format!(
            "; SSL_CERT_FILE {} is set, and may stand in for the system's store",
            path.display()
        ));
    }
    text
}

/// The issuer of an X.509 certificate in DER, as `CN=.., O=..`. `None` for what is no certificate.
pub(super) fn issuer_of(der: &[u8]) -> Option<String> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (mut fields, _) = element(certificate, SEQUENCE)?;
    // The version is optional; then serial number, signature algorithm, issuer.
    if let Some((_, rest)) = element(fields, 0xa0) {
        fields = rest;
    }
    let (_, fields) = element(fields, 0x02)?;
    let (_, fields) = element(fields, SEQUENCE)?;
    let (name, _) = element(fields, SEQUENCE)?;
    let parts = name_parts(name);
    (!parts.is_empty()).then(|| parts.join(", "))
}

const SEQUENCE: u8 = 0x30;

/// The parts of a name that tell an authority from another: its common name, organisation and unit.
fn name_parts(mut name: &[u8]) -> Vec<String> {
    let mut parts = Vec::new();
    while let Some((set, rest)) = element(name, 0x31) {
        name = rest;
        let Some((pair, _)) = element(set, SEQUENCE) else {
            continue;
        };
        let Some((kind, value)) = element(pair, 0x06) else {
            continue;
        };
        let label = match kind {
            [0x55, 0x04, 0x03] => "CN",
            [0x55, 0x04, 0x0a] => "O",
            [0x55, 0x04, 0x0b] => "OU",
            _ => continue,
        };
        // Any string type; all but two are UTF-8 or a subset of it.
        if let Some((_, text, _)) = any_element(value) {
            parts.push(format!("{label}={}", String::from_utf8_lossy(text)));
        }
    }
    parts
}

/// The content of the first element, which must have this tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    match any_element(der)? {
        (found, content, rest) if found == tag => Some((content, rest)),
        _ => None,
    }
}

/// Tag and content of the first element, and what follows it.
fn any_element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        if count > 4 {
            return None;
        }
        let bytes = rest.get(..count)?;
        let length = bytes.iter().fold(0usize, |n, b| (n << 8) | usize::from(*b));
        (length, rest.get(count..)?)
    };
    Some((tag, rest.get(..length)?, rest.get(length..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![tag];
        if content.len() < 0x80 {
            out.push(u8::try_from(content.len()).unwrap());
        } else {
            out.push(0x82);
            out.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
        }
        out.extend(content);
        out
    }

    fn named(oid: u8, text: &str) -> Vec<u8> {
        let pair = [der(0x06, &[0x55, 0x04, oid]), der(0x0c, text.as_bytes())].concat();
        der(0x31, &der(0x30, &pair))
    }

    fn certificate(with_version: bool) -> Vec<u8> {
        let version = if with_version {
            der(0xa0, &der(0x02, &[2]))
        } else {
            Vec::new()
        };
        let name = [
            named(0x06, "DE"),
            named(0x0a, &"Corp ".repeat(40)),
            named(0x03, "Wurzel ä"),
        ]
        .concat();
        let fields = [
            version,
            der(0x02, &[1, 2, 3]),
            der(0x30, &[]),
            der(0x30, &name),
            der(0x30, &[]),
        ]
        .concat();
        der(0x30, &[der(0x30, &fields), der(0x30, &[])].concat())
    }

    #[test]
    fn the_issuer_is_read_from_a_certificate_with_and_without_a_version() {
        for with_version in [true, false] {
            let issuer = issuer_of(&certificate(with_version)).unwrap();
            assert_eq!(issuer, format!("O={}, CN=Wurzel ä", "Corp ".repeat(40)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(28),
            ..ProptestConfig::default()
        })]

        #[test]
        fn no_bytes_make_the_reader_fail(noise in proptest::collection::vec(any::<u8>(), 0..300), at in 0usize..300) {
            let _ = issuer_of(&noise);
            let mut bent = certificate(true);
            let len = bent.len();
            bent[at % len] ^= noise.first().copied().unwrap_or(0xff);
            let _ = issuer_of(&bent);
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let missing = certificates_of("ca_file", &path).unwrap_err();
        assert!(
            missing.starts_with("ca_file ") && missing.contains("ca.pem"),
            "{missing}"
        );
        std::fs::write(&path, "no certificate\n").unwrap();
        assert!(
            certificates_of("ca_file", &path)
                .unwrap_err()
                .contains("no PEM certificate")
        );
    }
}
