//! What the action table tells the screen about keys. The screen draws it and decides nothing.

/// One row of the help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelpRow {
    /// The keys, as they are written: `p`, `ctrl-r`, `h j k l`.
    pub keys: String,
    /// What they do.
    pub verb: String,
    /// Why they do nothing here and now; `None` when they work.
    pub why_not: Option<String>,
    /// What it is for, as a title over those that are for the same.
    pub group: &'static str,
}

/// One row of the palette.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaletteRow {
    /// The action's name, as it can be typed: `rerun-failed`.
    pub name: String,
    /// Its keys, empty if it has none.
    pub keys: String,
    /// What it does.
    pub verb: String,
    /// Why it does nothing here and now.
    pub why_not: Option<String>,
}

/// Keys and verbs for the place that has the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// For the keys row: key and verb, the most important first; the last two stay longest.
    pub keys: Vec<(String, String)>,
    /// For the help, those that work first.
    pub help: Vec<HelpRow>,
    /// For the palette, already filtered by its text.
    pub palette: Vec<PaletteRow>,
}

/// First words of the verbs that do something to chunks.
const ACTS: [&str; 10] = [
    "re-run", "skip", "hold", "release", "stop", "log", "resolve", "clear", "adopt", "call",
];

impl Hints {
    /// Keys that do something to the chunks under the cursor or in the selection, and that work now.
    pub fn acting(&self) -> impl Iterator<Item = (&str, &str)> {
        let works = self.help.iter().filter(|row| row.why_not.is_none());
        works
            .filter(|row| ACTS.iter().any(|verb| row.verb.starts_with(verb)))
            .map(|row| (row.keys.as_str(), row.verb.as_str()))
    }

    /// The key of the action whose verb begins with these words.
    pub fn key(&self, verb: &str) -> Option<&str> {
        let keys = self.keys.iter().map(|(key, v)| (key, v));
        let help = self.help.iter().map(|row| (&row.keys, &row.verb));
        keys.chain(help)
            .find(|(_, v)| v.starts_with(verb))
            .map(|(key, _)| key.as_str())
    }
}
