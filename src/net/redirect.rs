//! Where an answer sends us on, and urls as they are shown.

use super::{classify::Trouble, error::Cause};
use reqwest::{
    Method, Url,
    header::{self, HeaderMap},
};

/// Where an answer sends us, if it does. Only to the same origin is followed, with the same method and credentials.
/// Anything else is most often a login page, or a url that was written with `http` for `https`.
pub(super) fn redirect_of(
    status: u16,
    headers: &HeaderMap,
    from: &Url,
    method: &Method,
) -> Result<Option<Url>, Trouble> {
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let target = headers.get(header::LOCATION).and_then(|v| v.to_str().ok());
    let Some(target) = target.and_then(|t| from.join(t).ok()) else {
        return Err(Trouble::new(
            Cause::NotUnderstood,
            format!("{} without a place to go", status),
        ));
    };
    let same_origin = target.origin() == from.origin();
    let same_method = status != 303 || method.is_safe();
    if same_origin && same_method {
        return Ok(Some(target));
    }
    Err(Trouble::new(
        Cause::NotUnderstood,
        format!(
            "{} to {}, not followed: a login page, or the url is not the right one",
            status,
            shown(&target)
        ),
    ))
}

/// A url for display: no user, no password, no query.
pub(super) fn shown(url: &Url) -> String {
    let port = url.port().map_or_else(String::new, |p| format!(":{p}"));
    format!(
        "{}://{}{port}{}",
        url.scheme(),
        url.host_str().unwrap_or(""),
        url.path()
    )
}
