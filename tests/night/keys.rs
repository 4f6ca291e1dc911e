//! Keys and actions as the screens of the night show them.

use backfill::tui::view::{HelpRow, Hints, PaletteRow};

/// Keys as an action table would give them.
pub fn hints() -> Hints {
    let pair = |(k, v): (&str, &str)| (k.to_owned(), v.to_owned());
    let help = |keys: &str, verb: &str, why_not: Option<&str>| HelpRow {
        keys: keys.to_owned(),
        verb: verb.to_owned(),
        why_not: why_not.map(str::to_owned),
        group: "act",
    };
    let row = |name: &str, keys: &str, verb: &str| PaletteRow {
        name: name.to_owned(),
        keys: keys.to_owned(),
        verb: verb.to_owned(),
        why_not: None,
    };
    Hints {
        keys: [
            ("hjkl", "move"),
            ("+ -", "zoom"),
            ("n", "next failed"),
            ("enter", "open"),
            ("w", "why"),
            ("r", "re-run"),
            ("p", "pause"),
            ("t", "limit"),
            ("b", "hold"),
            (":", "command"),
            ("?", "help"),
        ]
        .map(pair)
        .into(),
        help: vec![
            help("h j k l", "move by week and day", None),
            help("r", "re-run failed days", None),
            help("s", "skip", None),
            help("b", "hold", None),
            help("l", "log", None),
            help("f", "follow events", None),
            help("K", "stop running days", Some("no running day is selected")),
        ],
        palette: vec![
            row("pause", "p", "pause the whole order at once"),
            row("rerun-failed", "r", "re-run failed and missing days"),
            row("throttle", "t", "cap the running weight"),
        ],
    }
}
