//! Where the access key comes from.

use super::sign::Keys;
use crate::config::{
    AwsKeys,
    secret::{SecretError, SecretSource},
};

/// The variables that every program for AWS reads.
const VARIABLES: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];

/// Fetches the key. Blocks: on files and programs.
///
/// # Errors
/// In words: which part, why not, and what to do.
pub(super) fn fetch(configured: Option<&AwsKeys>) -> Result<Keys, String> {
    match configured {
        Some(keys) => {
            let token = keys
                .session_token
                .as_ref()
                .map(|token| one("session_token", token));
            Ok(Keys {
                access: one("access_key", &keys.access_key)?.reveal().to_owned(),
                secret: one("secret_key", &keys.secret_key)?,
                token: token.transpose()?,
            })
        }
        None => from_environment(VARIABLES),
    }
}

fn one(key: &str, source: &SecretSource) -> Result<crate::config::secret::Secret, String> {
    source.resolve().map_err(|why| format!("{key}: {why}"))
}

fn from_environment(variables: [&str; 3]) -> Result<Keys, String> {
    let variable = |name: &str| SecretSource::Env(name.to_owned()).resolve();
    let needed = |name: &str| {
        variable(name).map_err(|why| {
            format!(
                "{why}; set it, or name access_key and secret_key (profiles and roles of a machine are not looked up: \
                 {{ command = [..] }} can)"
            )
        })
    };
    let [access, secret, token] = variables;
    Ok(Keys {
        access: needed(access)?.reveal().to_owned(),
        secret: needed(secret)?,
        token: match variable(token) {
            Ok(token) => Some(token),
            // Keys that are not temporary have none.
            Err(SecretError::NotSet(_) | SecretError::Empty(_)) => None,
            Err(why) => return Err(why.to_string()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_comes_from_its_own_source() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, format!("{name}-value\n")).unwrap();
            SecretSource::File(path)
        };
        let keys = AwsKeys {
            access_key: file("access"),
            secret_key: file("secret"),
            session_token: Some(file("token")),
        };
        let fetched = fetch(Some(&keys)).unwrap();
        assert_eq!(fetched.access, "access-value");
        assert_eq!(fetched.secret.reveal(), "secret-value");
        assert_eq!(fetched.token.unwrap().reveal(), "token-value");
    }

    #[test]
    fn without_a_key_it_is_said_what_to_set() {
        let missing = from_environment(["BACKFILL_NO_SUCH_KEY", "BACKFILL_NO_SUCH_SECRET", "X"]).unwrap_err();
        assert!(
            missing.starts_with(
                "the environment variable BACKFILL_NO_SUCH_KEY is not set; set it, or name access_key"
            ),
            "{missing}"
        );
        let gone = AwsKeys {
            access_key: SecretSource::Env("BACKFILL_NO_SUCH_KEY".to_owned()),
            secret_key: SecretSource::Env("BACKFILL_NO_SUCH_SECRET".to_owned()),
            session_token: None,
        };
        let why = fetch(Some(&gone)).unwrap_err();
        assert!(why.starts_with("access_key: the environment variable"), "{why}");
    }

    #[test]
    fn a_key_that_is_not_temporary_has_no_token() {
        // Two variables that every test of this crate runs with.
        let keys =
            from_environment(["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "BACKFILL_NO_SUCH_TOKEN"]).unwrap();
        assert_eq!((keys.access.as_str(), keys.token), ("backfill", None));
    }
}
