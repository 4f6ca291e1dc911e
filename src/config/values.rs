//! Single values with rules of their own: paths, variable names, base URLs.

use super::{
    problem::Report,
    read::{Entry, quoted},
};
use std::path::{Component, Path, PathBuf};

/// A path, relative ones from the folder of the configuration file.
pub(super) fn path(report: &mut Report<'_>, entry: &Entry<'_>, folder: &Path) -> Option<PathBuf> {
    let expected = "a path, absolute or relative to the folder of this file";
    let written = entry.text(report, expected)?;
    if written == "~" || written.starts_with("~/") {
        entry.problem(
            report,
            quoted(written),
            expected,
            "`~` is not expanded here: write the path in full",
        );
        return None;
    }
    Some(join(folder, written))
}

/// A written path below a folder, without superfluous `.`; an absolute one stays itself.
pub(super) fn join(folder: &Path, written: &str) -> PathBuf {
    let whole = folder.join(written);
    whole.components().filter(|c| *c != Component::CurDir).collect()
}

/// Whether a text can be the name of an environment variable.
pub(super) fn is_variable_name(name: &str) -> bool {
    name.bytes()
        .enumerate()
        .all(|(i, b)| b == b'_' || b.is_ascii_alphabetic() || (i > 0 && b.is_ascii_digit()))
        && !name.is_empty()
}

/// Refuses a key whose `BACKFILL_*` variable would be that of another key, since those are in capitals.
pub(super) fn refuse_twin(report: &mut Report<'_>, entry: &Entry<'_>, twin: &str) {
    report.add(
        entry.key_span.start,
        &entry.path,
        format!("a key that differs from `{twin}` in capitals only"),
        "a key of its own".to_owned(),
        "both would be the same BACKFILL_* variable".to_owned(),
    );
}

/// The name of an environment variable.
pub(super) fn variable_name(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<String> {
    let expected = "the name of a variable: letters, digits and `_`";
    let name = entry.any_text(report, expected)?;
    if is_variable_name(name) {
        return Some(name.to_owned());
    }
    // What is no name may be the secret itself, so it is not repeated.
    entry.problem(report, "a text that is no such name", expected, "");
    None
}

/// The base URL of an HTTP endpoint, without the slashes at its end. Never repeated in a message: it may hold a
/// password.
pub(super) fn base_url(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<String> {
    let expected = "a base URL such as \"https://prometheus.example:9090/prefix\"";
    let url = entry.text(report, expected)?;
    match check_base_url(url) {
        Ok(()) => Some(url.trim_end_matches('/').to_owned()),
        Err((found, help)) => {
            entry.problem(report, found, expected, help);
            None
        }
    }
}

fn check_base_url(url: &str) -> Result<(), (&'static str, &'static str)> {
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| {
            url.get(..scheme.len())
                .filter(|start| start.eq_ignore_ascii_case(scheme))
                .and_then(|start| url.get(start.len()..))
        })
        .ok_or(("a URL that starts with neither http:// nor https://", ""))?;
    if !rest.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(("a URL with blanks or letters outside ASCII", ""));
    }
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        let help = "move them to `basic = { user = \"..\", password = { env = \"..\" } }`";
        return Err(("a URL with a user or password in it", help));
    }
    if tail.contains(['?', '#']) {
        return Err(("a URL with `?` or `#` in it", "only the base belongs here"));
    }
    let (host, port) = match authority.strip_prefix('[').and_then(|a| a.split_once(']')) {
        Some((host, after)) => (host, after),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let host_byte = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':');
    if host.is_empty() || !host.bytes().all(host_byte) {
        return Err(("a URL without a host name", ""));
    }
    let port_ok = match port.strip_prefix(':') {
        Some(digits) => digits.parse::<u16>().is_ok_and(|p| p > 0),
        None => port.is_empty(),
    };
    if port_ok {
        Ok(())
    } else {
        Err(("a URL whose port is no number from 1 to 65535", ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_have_a_scheme_a_host_and_nothing_secret() {
        for good in [
            "http://127.0.0.1:9090",
            "https://mimir.example/prometheus/",
            "HTTP://[::1]:9090/x",
            "http://a_b-c.d",
        ] {
            assert_eq!(check_base_url(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "127.0.0.1:9090",
            "ftp://x",
            "http://",
            "http:///x",
            "http://:90",
            "http://x:",
            "http://x:0",
            "http://x:99999",
            "http://u:p@x",
            "http://x/?token=1",
            "http://x y",
            "http://[::1]x",
            "http://ü",
            "hü",
        ] {
            assert!(check_base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn written_paths_start_at_the_folder_unless_they_are_absolute() {
        let folder = Path::new("/etc/backfill");
        assert_eq!(join(folder, "./jobs/x"), Path::new("/etc/backfill/jobs/x"));
        assert_eq!(join(folder, "/srv/x"), Path::new("/srv/x"));
        assert_eq!(join(folder, "../x"), Path::new("/etc/backfill/../x"));
        assert_eq!(join(folder, "."), folder);
    }
}
