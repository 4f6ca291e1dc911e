//! Instants as Airflow wants them in a query or a body, and paths that hold run ids.

use crate::domain::Time;
use chrono::SecondsFormat;

/// An instant for a query or a body: always with `Z`. A raw `+00:00` becomes a space on the way, and a date without
/// an offset is answered with a failed database call.
pub fn written(at: Time) -> String {
    let format = if at.timestamp_subsec_micros() == 0 {
        SecondsFormat::Secs
    } else {
        SecondsFormat::Micros
    };
    at.to_rfc3339_opts(format, true)
}

/// One segment of a path. Everything but letters, digits and `-._~` is escaped: run ids hold `:` and `+`, names of
/// pools hold anything. `None` for what no server could tell from another path.
pub fn segment(text: &str) -> Option<String> {
    if matches!(text, "" | "." | "..") {
        return None;
    }
    let mut out = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_written_with_z_and_keeps_its_microseconds() {
        let at = |text: &str| written(text.parse().unwrap());
        assert_eq!(at("2021-03-12T00:00:00-05:00"), "2021-03-12T05:00:00Z");
        assert_eq!(at("2026-11-29T16:46:18.583719Z"), "2026-11-29T16:46:18.583719Z");
    }

    #[test]
    fn a_run_id_with_plus_and_colon_is_escaped_and_a_path_cannot_be_left() {
        assert_eq!(
            segment("scheduled__2026-11-29T00:00:00+00:00").as_deref(),
            Some("scheduled__2026-11-29T00%3A00%3A00%2B00%3A00")
        );
        assert_eq!(
            segment("a/../b?c#d%2F é").as_deref(),
            Some("a%2F..%2Fb%3Fc%23d%252F%20%C3%A9")
        );
        assert_eq!(segment("~").as_deref(), Some("~"));
        assert_eq!((segment(".."), segment("."), segment("")), (None, None, None));
    }
}
