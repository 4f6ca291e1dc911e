//! Which of our variables a program gets that somebody else wrote.

use std::ffi::{OsStr, OsString};

/// Variables of ours that every program gets, with all that start with `LC_`: where programs are, who and where we
/// are, and in which language and zone. Nothing else, so that no secret of ours gets into a program by chance.
const PLAIN: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR"];

/// Whether every program gets a variable of this name.
pub fn is_plain(name: &OsStr) -> bool {
    name.to_str()
        .is_some_and(|name| PLAIN.contains(&name) || name.starts_with("LC_"))
}

/// Our environment as every program gets it.
pub fn plain_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| is_plain(name)).collect()
}
