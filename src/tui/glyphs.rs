//! The characters that the screen is made of. Every one of them is one column wide in every locale; each has an
//! ASCII twin, so that no state is told by colour alone.

use super::theme::{LAG_STEPS, ThemeError};
use crate::domain::state::ChunkState;

/// Which characters may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GlyphSet {
    /// Quadrants and braille: a day is two columns wide.
    #[default]
    Full,
    /// One column a day, no quadrants and no braille.
    Narrow,
    /// ASCII only.
    Ascii,
}

impl GlyphSet {
    /// Chosen by the configuration, else by locale and TERM: full unless UTF-8 is missing.
    pub fn detect(env: impl Fn(&str) -> Option<String>, config: Option<&str>) -> Self {
        match config {
            Some("full") => return Self::Full,
            Some("narrow") => return Self::Narrow,
            Some("ascii") => return Self::Ascii,
            _ => {}
        }
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|key| env(key).filter(|v| !v.is_empty()))
            .unwrap_or_default()
            .to_ascii_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        match env("TERM").as_deref() {
            _ if !utf8 => Self::Ascii,
            Some("dumb" | "vt100" | "vt102" | "vt220") => Self::Ascii,
            // The console of Linux has 256 or 512 shapes: neither braille nor quadrants.
            Some("linux") => Self::Narrow,
            _ => Self::Full,
        }
    }
}

/// The characters of one set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glyphs {
    /// Which set this is.
    pub set: GlyphSet,
    cells: [[char; 2]; ChunkState::COUNT],
    narrow: [char; ChunkState::COUNT],
    /// Rising.
    pub rising: char,
    /// Falling.
    pub falling: char,
    /// Stands where text was cut.
    pub cut_off: char,
    /// Threshold and step lines.
    pub rule: char,
    /// No data.
    pub no_data: char,
    /// The bar at the left edge of a dialog.
    pub bar: char,
    /// A slot in use.
    pub slot_used: char,
    /// A free slot.
    pub slot_free: char,
    /// A point of a predicted line.
    pub point: char,
    /// The steps of the lag ramp where colour does not tell them apart.
    pub lag: [char; LAG_STEPS],
}

impl Glyphs {
    /// Reads the set out of the theme file.
    pub(super) fn read(file: &toml::Table, set: GlyphSet) -> Result<Self, ThemeError> {
        let glyphs = table(file, "glyphs")?;
        let ascii = set == GlyphSet::Ascii;
        let one = table(glyphs, if ascii { "ascii" } else { "narrow" })?;
        let two = table(glyphs, "full")?;
        let misc = table(glyphs, "misc")?;
        let pick = |name: &str| -> Result<char, ThemeError> {
            misc.get(name)
                .and_then(|v| v.as_array())
                .and_then(|pair| pair.get(usize::from(ascii)))
                .and_then(|v| v.as_str())
                .and_then(|s| s.chars().next())
                .ok_or_else(|| ThemeError(format!("glyphs.misc.{name}")))
        };
        let (mut cells, mut narrow) = ([[' '; 2]; ChunkState::COUNT], [' '; ChunkState::COUNT]);
        for state in ChunkState::ALL {
            let missing = || ThemeError(format!("glyphs of {}", state.word()));
            let chars = |t: &toml::Table| -> Option<Vec<char>> {
                t.get(state.word())
                    .and_then(|v| v.as_str())
                    .map(|s| s.chars().collect())
            };
            let single = chars(one).and_then(|c| c.first().copied()).ok_or_else(missing)?;
            let pair = chars(two).ok_or_else(missing)?;
            narrow[state as usize] = single;
            cells[state as usize] = match (set, pair.as_slice()) {
                (GlyphSet::Full, [left, right]) => [*left, *right],
                (GlyphSet::Full, _) => return Err(missing()),
                _ => [' ', single],
            };
        }
        Ok(Self {
            set,
            cells,
            narrow,
            rising: pick("rising")?,
            falling: pick("falling")?,
            cut_off: pick("cut_off")?,
            rule: pick("rule")?,
            no_data: pick("no_data")?,
            bar: pick("bar")?,
            slot_used: pick("slot_used")?,
            slot_free: pick("slot_free")?,
            point: if ascii { '.' } else { '∙' },
            lag: lag_signs(file)?,
        })
    }

    /// The two columns of a day.
    pub const fn cell(&self, state: ChunkState) -> [char; 2] {
        self.cells[state as usize]
    }

    /// The one column of a day; also in lists, legends and events.
    pub const fn narrow(&self, state: ChunkState) -> char {
        self.narrow[state as usize]
    }

    /// Whether quadrants and braille may be used.
    pub fn is_full(&self) -> bool {
        self.set == GlyphSet::Full
    }
}

fn lag_signs(file: &toml::Table) -> Result<[char; LAG_STEPS], ThemeError> {
    let signs = table(table(file, "themes")?, "none")?.get("lag_ramp");
    let signs: Option<Vec<char>> = signs.and_then(|v| v.as_str()).map(|s| s.chars().collect());
    signs
        .and_then(|s| s.try_into().ok())
        .ok_or_else(|| ThemeError("none.lag_ramp".to_owned()))
}

pub(super) fn table<'a>(from: &'a toml::Table, key: &str) -> Result<&'a toml::Table, ThemeError> {
    from.get(key)
        .and_then(|v| v.as_table())
        .ok_or_else(|| ThemeError(key.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::{Level, Look};
    use std::collections::BTreeSet;
    use unicode_width::UnicodeWidthChar;

    fn all() -> Vec<Glyphs> {
        [GlyphSet::Full, GlyphSet::Narrow, GlyphSet::Ascii]
            .into_iter()
            .map(|set| Look::new("dark", Level::None, set).unwrap().glyphs)
            .collect()
    }

    /// Case B11, case S22: without colour every state is still another sign.
    #[test]
    fn all_states_have_their_own_sign_in_every_set() {
        for glyphs in all() {
            let narrow: BTreeSet<char> = ChunkState::ALL.map(|s| glyphs.narrow(s)).into();
            assert_eq!(narrow.len(), ChunkState::COUNT, "{:?}", glyphs.set);
            let cells: BTreeSet<[char; 2]> = ChunkState::ALL.map(|s| glyphs.cell(s)).into();
            assert_eq!(cells.len(), ChunkState::COUNT, "{:?}", glyphs.set);
        }
    }

    #[test]
    fn every_sign_is_one_column_wide_also_where_ambiguous_characters_are_wide() {
        for glyphs in all() {
            let misc = [
                glyphs.rising,
                glyphs.falling,
                glyphs.cut_off,
                glyphs.rule,
                glyphs.no_data,
                glyphs.bar,
                glyphs.slot_used,
                glyphs.slot_free,
                glyphs.point,
            ];
            let states = ChunkState::ALL
                .into_iter()
                .flat_map(|s| [glyphs.cell(s)[0], glyphs.cell(s)[1], glyphs.narrow(s)]);
            for c in misc.into_iter().chain(states).chain(glyphs.lag) {
                assert_eq!(c.width(), Some(1), "{c:?}");
                assert_eq!(c.width_cjk(), Some(1), "{c:?} is ambiguous");
                assert!(glyphs.set != GlyphSet::Ascii || c.is_ascii(), "{c:?}");
            }
        }
    }

    #[test]
    fn the_set_follows_the_configuration_then_the_locale_then_the_terminal() {
        let env = |pairs: &'static [(&str, &str)]| {
            move |key: &str| {
                pairs
                    .iter()
                    .find(|(k, _)| *k == key)
                    .map(|(_, v)| (*v).to_owned())
            }
        };
        let utf8 = env(&[("LANG", "de_DE.UTF-8"), ("TERM", "xterm-256color")]);
        assert_eq!(GlyphSet::detect(utf8, None), GlyphSet::Full);
        let overridden = env(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]);
        assert_eq!(GlyphSet::detect(overridden, None), GlyphSet::Ascii);
        assert_eq!(GlyphSet::detect(overridden, Some("narrow")), GlyphSet::Narrow);
        assert_eq!(GlyphSet::detect(env(&[]), None), GlyphSet::Ascii);
        let console = env(&[("LANG", "en_US.utf8"), ("TERM", "linux")]);
        assert_eq!(GlyphSet::detect(console, None), GlyphSet::Narrow);
    }
}
