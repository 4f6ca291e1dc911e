//! Reading where a secret comes from, and keeping secrets out of everything else. No message here ever repeats a
//! value: what stands in the wrong place may be the secret itself.

use super::{problem::Report, read::Entry, values};
use crate::config::secret::SecretSource;
use std::path::Path;

/// The three ways to name a secret.
const WAYS: &str = "{ env = \"NAME\" }, { file = \"PATH\" } or { command = [..] }";

/// Where a secret comes from.
pub(super) fn secret_source(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    folder: &Path,
) -> Option<SecretSource> {
    if !entry.is_table() {
        let help = "a secret must not stand in this file, so it is not shown here either";
        entry.wrong_type(report, WAYS, help);
        return None;
    }
    let table = entry.section(report, WAYS)?;
    table.only(report, &["env", "file", "command"]);
    let given: Vec<Entry<'_>> = ["env", "file", "command"]
        .into_iter()
        .filter_map(|k| table.get(k))
        .collect();
    match given.as_slice() {
        [one] => one_way(report, one, folder),
        [] => {
            entry.problem(report, "a table that names no way", WAYS, "");
            None
        }
        _ => {
            let found = "more than one way to get the secret";
            entry.problem(report, found, format!("exactly one of {WAYS}"), "");
            None
        }
    }
}

fn one_way(report: &mut Report<'_>, entry: &Entry<'_>, folder: &Path) -> Option<SecretSource> {
    match entry.key {
        "env" => values::variable_name(report, entry).map(SecretSource::Env),
        "file" => values::path(report, entry, folder).map(SecretSource::File),
        _ => {
            let expected = "a program and its arguments, as in [\"pass\", \"show\", \"orders\"]";
            let mut argv = entry.texts(report, expected)?;
            let Some(program) = argv.first_mut() else {
                entry.problem(report, "an empty list", expected, "");
                return None;
            };
            if program.contains('/') {
                *program = values::join(folder, program).to_string_lossy().into_owned();
            }
            Some(SecretSource::Command(argv))
        }
    }
}

/// Whether the value of a variable or header of this name is a secret by all experience. Such values are refused in
/// plain text: a backfill's plain variables are journaled and shown.
pub(super) fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    const WHOLE: [&str; 5] = [
        "authorization",
        "proxy_authorization",
        "cookie",
        "x_api_key",
        "apikey",
    ];
    const ENDS: [&str; 10] = [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "credentials",
        "api_key",
        "access_key",
        "private_key",
        "secret_key",
    ];
    WHOLE.contains(&name.as_str()) || ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_known_by_their_sound() {
        for name in [
            "PGPASSWORD",
            "DB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "Authorization",
            "X-Api-Key",
        ] {
            assert!(sounds_secret(name), "{name}");
        }
        for name in [
            "PGUSER",
            "AWS_ACCESS_KEY_ID",
            "TOKEN_FILE",
            "X-Scope-OrgID",
            "PASSWORD_FILE",
            "KEY",
        ] {
            assert!(!sounds_secret(name), "{name}");
        }
    }
}
