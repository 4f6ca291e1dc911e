//! Values as people read them.

use std::time::Duration;

/// `3s`, `4m10s`, `42m`, `4h10m`, `33h`, `3d`.
pub fn duration(d: Duration) -> String {
    let s = d.as_secs();
    match s {
        0..60 => format!("{s}s"),
        60..600 if s % 60 > 0 => format!("{}m{}s", s / 60, s % 60),
        60..3600 => format!("{}m", s / 60),
        3600..36_000 if s % 3600 >= 60 => format!("{}h{}m", s / 3600, s % 3600 / 60),
        3600..172_800 => format!("{}h", s / 3600),
        _ => format!("{}d", s / 86_400),
    }
}
