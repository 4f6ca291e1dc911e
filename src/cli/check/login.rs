//! What to do about a lag source that refuses the login.

use crate::{
    config::{HttpAuth, HttpConfig, secret::SecretSource},
    domain::{ids::Name, text},
    net::Cause,
};

/// What has to be mended of the login of a signal; `None` where the login is not what was refused.
pub(super) fn mend(name: &Name, http: &HttpConfig, cause: Cause) -> Option<String> {
    let place = format!("[signals.{name}]");
    let words = match (cause, &http.auth) {
        (Cause::Unauthorized | Cause::Forbidden, None) => without(&place, http),
        (Cause::Unauthorized, Some(HttpAuth::Basic { user, password })) => format!(
            "look at the login in {place}, `basic`: the user {user}, and the password out of {}",
            out_of(password)
        ),
        (Cause::Forbidden, Some(HttpAuth::Basic { user, .. })) => format!(
            "the user {user} may not read this: give it the permission there, or another login in {place}, `basic`"
        ),
        (Cause::Unauthorized, Some(HttpAuth::Bearer(token))) => format!(
            "look at the login in {place}, `bearer`: the token out of {}, which may have expired",
            out_of(token)
        ),
        (Cause::Forbidden, Some(HttpAuth::Bearer(token))) => format!(
            "the token out of {} may not read this: give it the permission there, or another one in {place}, `bearer`",
            out_of(token)
        ),
        _ => return None,
    };
    Some(text::clean(&words))
}

/// Of an endpoint without `basic` and `bearer`: its headers may be the login.
fn without(place: &str, http: &HttpConfig) -> String {
    let secret = http.headers.iter().map(|(header, source)| {
        let source = out_of(source);
        format!("{header} out of {source}")
    });
    let plain = http.plain_headers.keys().cloned();
    let headers: Vec<String> = secret.chain(plain).collect();
    let ways = "`basic = { user = \"..\", password = { env = \"..\" } }` or `bearer = { file = \"..\" }`";
    if headers.is_empty() {
        format!("{place} has no login: give it one, {ways}")
    } else {
        let headers = headers.join(", ");
        format!("{place} has no login but its headers ({headers}): look at them, or give it {ways}")
    }
}

/// Where a secret comes from, never what it is.
fn out_of(source: &SecretSource) -> String {
    match source {
        SecretSource::Env(name) => format!("the environment variable {name}"),
        SecretSource::File(path) => format!("the file {}", path.display()),
        SecretSource::Command(argv) => {
            let program = argv.first().map_or("nothing", String::as_str);
            format!("the program {program}")
        }
    }
}
