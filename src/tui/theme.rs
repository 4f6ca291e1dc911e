//! Colours by meaning, for every level of terminal. Drawing code asks for a meaning and gets a style; what the
//! terminal can show and which theme is on are decided here and nowhere else.

use super::glyphs::{GlyphSet, Glyphs, table};
use crate::domain::state::ChunkState;
use ratatui::style::{Color, Modifier, Style};
use thiserror::Error;

const THEMES: &str = include_str!("../../assets/themes.toml");

/// Something is missing or wrong in the embedded theme file, or a theme was asked for that is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("theme: {0} is missing or not understood")]
pub struct ThemeError(pub String);

/// How many colours the terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Attributes only: `NO_COLOR`, `TERM=dumb`.
    None,
    /// The terminal owner's sixteen.
    Ansi16,
    /// The fixed palette of 256.
    X256,
    /// 24 bits.
    True,
}

impl Level {
    /// Decides from the environment: `NO_COLOR` beats `CLICOLOR`, that beats `COLORTERM`, that beats `TERM`. The
    /// second value is a warning for an unknown `TERM`, which gets sixteen colours and never an exit (case S13).
    pub fn detect(env: impl Fn(&str) -> Option<String>) -> (Self, Option<String>) {
        let get = |key: &str| env(key).filter(|v| !v.is_empty());
        if get("NO_COLOR").is_some() || get("CLICOLOR").as_deref() == Some("0") {
            return (Self::None, None);
        }
        let term = get("TERM").unwrap_or_default();
        match get("COLORTERM").as_deref() {
            Some("truecolor" | "24bit") => return (Self::True, None),
            _ if term.contains("direct") => return (Self::True, None),
            _ if term.contains("256color") => return (Self::X256, None),
            _ => {}
        }
        match term.as_str() {
            "dumb" | "vt100" | "vt102" | "vt220" => (Self::None, None),
            _ if KNOWN.iter().any(|known| term.starts_with(known)) => (Self::Ansi16, None),
            _ => (
                Self::Ansi16,
                Some(format!("TERM={term:?} is not known: 16 colours are used")),
            ),
        }
    }
}

/// Terminals that have at least sixteen colours without saying so in their name.
const KNOWN: &[&str] = &[
    "xterm",
    "screen",
    "tmux",
    "rxvt",
    "linux",
    "ansi",
    "cygwin",
    "konsole",
    "alacritty",
    "foot",
    "kitty",
    "wezterm",
    "st-",
    "putty",
    "vte",
    "gnome",
    "eterm",
];

/// The meaning of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The table in the look's rules says what each one is for.
pub enum Token {
    Bg,
    Surface,
    Raised,
    RowSel,
    Mark,
    Line,
    Text,
    Bright,
    Muted,
    Faint,
    Accent,
    OnAccent,
    CursorBg,
    CursorFg,
    Ok,
    Info,
    Warn,
    Bad,
    Area,
    DoneInk,
}

impl Token {
    /// Every token with its name in the theme file, in the order of the enum.
    pub const ALL: [(Self, &'static str); 20] = [
        (Self::Bg, "bg"),
        (Self::Surface, "surface"),
        (Self::Raised, "raised"),
        (Self::RowSel, "row_sel"),
        (Self::Mark, "mark"),
        (Self::Line, "line"),
        (Self::Text, "text"),
        (Self::Bright, "bright"),
        (Self::Muted, "muted"),
        (Self::Faint, "faint"),
        (Self::Accent, "accent"),
        (Self::OnAccent, "on_accent"),
        (Self::CursorBg, "cursor_bg"),
        (Self::CursorFg, "cursor_fg"),
        (Self::Ok, "ok"),
        (Self::Info, "info"),
        (Self::Warn, "warn"),
        (Self::Bad, "bad"),
        (Self::Area, "area"),
        (Self::DoneInk, "done_ink"),
    ];
}

/// Red, green, blue.
pub(super) type Rgb = (u8, u8, u8);

/// A colour with its stand-in among the 256.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Colour {
    pub rgb: Rgb,
    pub x256: u8,
}

/// One colour theme as the file has it.
#[derive(Debug, Clone)]
pub struct Theme {
    /// `dark`, `light`, `high-contrast`, `colour-blind`.
    pub name: String,
    pub(super) tokens: [Colour; 20],
    pub(super) fills: [Option<Colour>; ChunkState::COUNT],
    pub(super) inks: [Colour; ChunkState::COUNT],
    pub(super) lag: [Colour; LAG_STEPS],
}

/// Steps of the lag ramp: under half of low, under low, under soft, soft, hard, critical.
pub const LAG_STEPS: usize = 6;

impl Theme {
    /// Names of the built-in colour themes.
    pub const NAMES: [&'static str; 4] = ["dark", "light", "high-contrast", "colour-blind"];

    pub(super) fn read(file: &toml::Table, name: &str) -> Result<Self, ThemeError> {
        if !Self::NAMES.contains(&name) {
            return Err(ThemeError(format!("theme `{name}`")));
        }
        let theme = table(table(file, "themes")?, name)?;
        let black = Colour {
            rgb: (0, 0, 0),
            x256: 16,
        };
        let mut tokens = [black; 20];
        for (token, key) in Token::ALL {
            tokens[token as usize] = colour(theme, key)?;
        }
        let states = table(theme, "states")?;
        let (mut fills, mut inks) = ([None; ChunkState::COUNT], [black; ChunkState::COUNT]);
        for state in ChunkState::ALL {
            let entry = table(states, state.word())?;
            inks[state as usize] = colour(entry, "ink")?;
            if entry.contains_key("fill") {
                fills[state as usize] = Some(colour(entry, "fill")?);
            }
        }
        Ok(Self {
            name: name.to_owned(),
            tokens,
            fills,
            inks,
            lag: ramp(table(table(theme, "ramps")?, "lag")?)?,
        })
    }
}

/// The steps of a ramp, lightest meaning first.
fn ramp(from: &toml::Table) -> Result<[Colour; LAG_STEPS], ThemeError> {
    let wrong = || ThemeError("ramps.lag".to_owned());
    let list = |key: &str| from.get(key).and_then(|v| v.as_array()).ok_or_else(wrong);
    let (hex, x256) = (list("hex")?, list("x256")?);
    let step = |(hex, x256): (&toml::Value, &toml::Value)| {
        Some(Colour {
            rgb: parse_hex(hex.as_str()?)?,
            x256: u8::try_from(x256.as_integer()?).ok()?,
        })
    };
    let steps: Option<Vec<Colour>> = hex.iter().zip(x256).map(step).collect();
    steps.and_then(|s| s.try_into().ok()).ok_or_else(wrong)
}

fn colour(from: &toml::Table, key: &str) -> Result<Colour, ThemeError> {
    let wrong = || ThemeError(key.to_owned());
    let entry = from.get(key).and_then(|v| v.as_table()).ok_or_else(wrong)?;
    let hex = entry.get("hex").and_then(|v| v.as_str()).ok_or_else(wrong)?;
    let x256 = entry
        .get("x256")
        .and_then(toml::Value::as_integer)
        .ok_or_else(wrong)?;
    Ok(Colour {
        rgb: parse_hex(hex).ok_or_else(wrong)?,
        x256: u8::try_from(x256).map_err(|_| wrong())?,
    })
}

pub(super) fn parse_hex(hex: &str) -> Option<Rgb> {
    let n = u32::from_str_radix(hex.strip_prefix('#').filter(|h| h.len() == 6)?, 16).ok()?;
    Some(((n >> 16) as u8, (n >> 8) as u8, n as u8))
}

/// The kind of a filled chip; there are three places for one: STATE, NEEDS YOU and the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Work goes on.
    Moving,
    /// Everything is done.
    Good,
    /// Held back or blind.
    Warn,
    /// Past hard, or failed.
    Bad,
    /// Nothing to say.
    Quiet,
}

/// Everything that drawing needs to know about how to look.
#[derive(Debug, Clone)]
pub struct Look {
    /// The colours.
    pub theme: Theme,
    /// What the terminal shows of them.
    pub level: Level,
    /// The characters.
    pub glyphs: Glyphs,
    inks: [Style; 20],
    halves: [Style; 20],
    grounds: [Style; 20],
    state_inks: [Style; ChunkState::COUNT],
    tiles: [Option<Style>; ChunkState::COUNT],
    lag: [Style; LAG_STEPS],
}

impl Look {
    /// Resolves a built-in theme for a terminal.
    ///
    /// # Errors
    /// The name is none of [`Theme::NAMES`].
    pub fn new(theme: &str, level: Level, glyphs: GlyphSet) -> Result<Self, ThemeError> {
        let file: toml::Table = toml::from_str(THEMES).map_err(|e| ThemeError(e.to_string()))?;
        let theme = Theme::read(&file, theme)?;
        let glyphs = Glyphs::read(&file, glyphs)?;
        let plain = [Style::new(); 20];
        let mut look = Self {
            theme,
            level,
            glyphs,
            inks: plain,
            halves: plain,
            grounds: plain,
            state_inks: [Style::new(); ChunkState::COUNT],
            tiles: [None; ChunkState::COUNT],
            lag: [Style::new(); LAG_STEPS],
        };
        match level {
            Level::None => look.resolve_attributes(),
            Level::Ansi16 => look.resolve_ansi(table(table(&file, "themes")?, "ansi16")?)?,
            Level::X256 | Level::True => look.resolve_colours(),
        }
        Ok(look)
    }

    fn resolve_colours(&mut self) {
        let bg = self.theme.tokens[Token::Bg as usize];
        for (token, _) in Token::ALL {
            let colour = self.theme.tokens[token as usize];
            let i = token as usize;
            self.inks[i] = Style::new().fg(self.show(colour));
            self.halves[i] = Style::new().fg(self.show(mixed(colour, bg, 0.5)));
            self.grounds[i] = Style::new().bg(self.show(colour));
        }
        for state in ChunkState::ALL {
            let i = state as usize;
            let ink = self.theme.inks[i];
            self.state_inks[i] = Style::new().fg(self.show(ink));
            if let Some(fill) = self.theme.fills[i] {
                self.tiles[i] = Some(Style::new().fg(self.show(ink)).bg(self.show(fill)));
            }
        }
        self.lag = self.theme.lag.map(|step| Style::new().fg(self.show(step)));
    }

    fn show(&self, colour: Colour) -> Color {
        match self.level {
            Level::X256 => Color::Indexed(colour.x256),
            _ => Color::Rgb(colour.rgb.0, colour.rgb.1, colour.rgb.2),
        }
    }

    fn resolve_ansi(&mut self, theme: &toml::Table) -> Result<(), ThemeError> {
        for (token, key) in Token::ALL {
            let paint = ansi(theme, key)?;
            let i = token as usize;
            self.inks[i] = paint;
            self.halves[i] = Style::new()
                .fg(dark_twin(paint.fg.unwrap_or(Color::Reset)))
                .add_modifier(Modifier::DIM);
            self.grounds[i] = match (token, paint.fg) {
                (Token::CursorBg, Some(fg)) => Style::new().bg(fg),
                _ => Style::new().bg(Color::Reset).add_modifier(paint.add_modifier),
            };
        }
        let states = table(theme, "states")?;
        for state in ChunkState::ALL {
            let paint = ansi(states, state.word())?;
            let i = state as usize;
            match paint.bg {
                Some(_) => {
                    self.tiles[i] = Some(paint);
                    self.state_inks[i] = paint;
                }
                None => self.state_inks[i] = paint,
            }
        }
        let wrong = || ThemeError("ansi16.ramps.lag".to_owned());
        let steps = table(theme, "ramps")?.get("lag").and_then(|v| v.as_array());
        for (i, step) in steps.ok_or_else(wrong)?.iter().take(LAG_STEPS).enumerate() {
            let colour = step.as_str().and_then(ansi_colour).ok_or_else(wrong)?;
            self.lag[i] = Style::new().fg(colour);
        }
        // Done is a fill in the colour themes, so that its square has one; here it is ink.
        Ok(())
    }

    fn resolve_attributes(&mut self) {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        for token in [Token::Bright, Token::Accent] {
            self.inks[token as usize] = bold;
        }
        self.grounds[Token::Mark as usize] = Style::new().add_modifier(Modifier::UNDERLINED);
        self.grounds[Token::RowSel as usize] = Style::new().add_modifier(Modifier::REVERSED);
        // From soft on: what needs to be seen.
        self.lag.iter_mut().skip(3).for_each(|step| *step = bold);
        let reverse = bold.add_modifier(Modifier::REVERSED);
        for state in [ChunkState::Failed, ChunkState::Quarantined, ChunkState::Uncertain] {
            self.tiles[state as usize] = Some(reverse);
        }
    }

    /// Ink of a meaning: a foreground, and at low levels an attribute.
    pub const fn ink(&self, token: Token) -> Style {
        self.inks[token as usize]
    }

    /// The same in bold.
    pub const fn bold(&self, token: Token) -> Style {
        self.inks[token as usize].add_modifier(Modifier::BOLD)
    }

    /// Ink half mixed into the ground, for lines that must not compete with data.
    pub const fn half(&self, token: Token) -> Style {
        self.halves[token as usize]
    }

    /// Ground of a meaning: a background, and at low levels an attribute.
    pub const fn ground(&self, token: Token) -> Style {
        self.grounds[token as usize]
    }

    /// Ink of a state in the calendar: of a waiting glyph, or of the glyph on its tile.
    pub const fn state_ink(&self, state: ChunkState) -> Style {
        self.state_inks[state as usize]
    }

    /// Glyph on fill; `None` for states that are ink on the ground.
    pub const fn tile(&self, state: ChunkState) -> Option<Style> {
        self.tiles[state as usize]
    }

    /// The fill of a state as ink: for the half columns of its square or tile.
    pub fn fill_ink(&self, state: ChunkState) -> Style {
        match self.tile(state).and_then(|t| t.bg) {
            Some(fill) => Style::new().fg(fill),
            None if self.level == Level::Ansi16 => self.state_ink(state),
            None => Style::new(),
        }
    }

    /// Ink of a state's word, and of its glyph in lists and events.
    pub fn word(&self, state: ChunkState) -> Style {
        use ChunkState as S;
        match state {
            S::Failed => self.ink(Token::Bad),
            S::Uncertain | S::Held => self.ink(Token::Warn),
            S::Running | S::Queued | S::Submitting | S::Verifying => self.ink(Token::Info),
            S::Quarantined => self.fill_ink(state),
            S::Done => self.ink(Token::DoneInk),
            S::Pending | S::Skipped | S::Cancelled | S::Unread | S::Absent => self.ink(Token::Muted),
        }
    }

    /// Ink of a step of the lag ramp, of [`LAG_STEPS`]; those past the last one are the last one.
    pub fn lag(&self, step: usize) -> Style {
        self.lag[step.min(LAG_STEPS - 1)]
    }

    /// A filled chip.
    pub fn chip(&self, tone: Tone) -> Style {
        let tile = |state| self.tile(state).unwrap_or_default();
        let on = |token: Token| {
            let ground = self.ink(token).fg.unwrap_or(Color::Reset);
            let ink = self.ink(Token::OnAccent).fg.unwrap_or(Color::Reset);
            Style::new().fg(ink).bg(ground)
        };
        let style = match (self.level, tone) {
            (Level::None, _) => Style::new().add_modifier(Modifier::REVERSED),
            (_, Tone::Moving) => tile(ChunkState::Running),
            (Level::Ansi16, Tone::Good) => Style::new().fg(Color::Black).bg(Color::Green),
            (_, Tone::Good) => tile(ChunkState::Done),
            (_, Tone::Warn) => on(Token::Warn),
            (_, Tone::Bad) => tile(ChunkState::Failed),
            (Level::Ansi16, Tone::Quiet) => Style::new().add_modifier(Modifier::REVERSED),
            (_, Tone::Quiet) => self.ink(Token::Text).patch(self.ground(Token::RowSel)),
        };
        style.add_modifier(Modifier::BOLD)
    }

    /// The cell under the cursor, and the focused button. Written as reversed video with swapped colours, so that a
    /// terminal that shows fewer colours than it claims still shows where the cursor is (case S21).
    pub fn cursor(&self) -> Style {
        match self.level {
            Level::None => Style::new().add_modifier(Modifier::REVERSED | Modifier::UNDERLINED),
            _ => Style::new()
                .fg(self.ground(Token::CursorBg).bg.unwrap_or(Color::Reset))
                .bg(self.ink(Token::CursorFg).fg.unwrap_or(Color::Reset))
                .add_modifier(Modifier::REVERSED | Modifier::BOLD),
        }
    }

    /// A colour as it looks behind a dialog: mixed 62 % towards the ground.
    pub fn dimmed(&self, colour: Color) -> Color {
        let bg = self.theme.tokens[Token::Bg as usize].rgb;
        match colour {
            Color::Rgb(r, g, b) => {
                let (r, g, b) = mix((r, g, b), bg, 0.62);
                Color::Rgb(r, g, b)
            }
            Color::Indexed(i) => Color::Indexed(nearest_256(mix(rgb_of_256(i), bg, 0.62))),
            other => other,
        }
    }
}

fn mixed(a: Colour, b: Colour, towards: f64) -> Colour {
    Colour {
        rgb: mix(a.rgb, b.rgb, towards),
        x256: nearest_256(mix(rgb_of_256(a.x256), rgb_of_256(b.x256), towards)),
    }
}

fn mix(a: Rgb, b: Rgb, towards: f64) -> Rgb {
    let one = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * towards).round() as u8;
    (one(a.0, b.0), one(a.1, b.1), one(a.2, b.2))
}

/// What the fixed palette of 256 shows for an index from 16 on.
pub(super) fn rgb_of_256(index: u8) -> Rgb {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    match index {
        0..16 => (0, 0, 0),
        16..232 => {
            let i = usize::from(index - 16);
            (STEPS[i / 36], STEPS[i / 6 % 6], STEPS[i % 6])
        }
        _ => {
            let grey = 8 + 10 * (index - 232);
            (grey, grey, grey)
        }
    }
}

fn nearest_256(rgb: Rgb) -> u8 {
    let distance = |i: u8| {
        let (r, g, b) = rgb_of_256(i);
        let d = |a: u8, b: u8| (i32::from(a) - i32::from(b)).pow(2);
        d(r, rgb.0) + d(g, rgb.1) + d(b, rgb.2)
    };
    (16..=255).min_by_key(|i| distance(*i)).unwrap_or(16)
}

/// The dark colour of a bright one, for lines.
const fn dark_twin(colour: Color) -> Color {
    match colour {
        Color::LightRed => Color::Red,
        Color::LightYellow => Color::Yellow,
        Color::LightGreen => Color::Green,
        Color::LightCyan => Color::Cyan,
        other => other,
    }
}

/// `default`, `bright-red+bold`, `black on bright-yellow`.
fn ansi(from: &toml::Table, key: &str) -> Result<Style, ThemeError> {
    let wrong = || ThemeError(format!("ansi16.{key}"));
    let text = from.get(key).and_then(|v| v.as_str()).ok_or_else(wrong)?;
    let (ink, ground) = match text.split_once(" on ") {
        Some((ink, ground)) => (ink, Some(ground)),
        None => (text, None),
    };
    let mut style = Style::new();
    for (i, part) in ink.split('+').enumerate() {
        style = match part {
            "bold" => style.add_modifier(Modifier::BOLD),
            "reverse" => style.add_modifier(Modifier::REVERSED),
            "underline" => style.add_modifier(Modifier::UNDERLINED),
            name if i == 0 => style.fg(ansi_colour(name).ok_or_else(wrong)?),
            _ => return Err(wrong()),
        };
    }
    match ground {
        Some(name) => Ok(style.bg(ansi_colour(name).ok_or_else(wrong)?)),
        None => Ok(style),
    }
}

fn ansi_colour(name: &str) -> Option<Color> {
    Some(match name {
        "default" => Color::Reset,
        "black" => Color::Black,
        "red" => Color::Red,
        "green" => Color::Green,
        "yellow" => Color::Yellow,
        "blue" => Color::Blue,
        "magenta" => Color::Magenta,
        "cyan" => Color::Cyan,
        "bright-black" => Color::DarkGray,
        "bright-red" => Color::LightRed,
        "bright-green" => Color::LightGreen,
        "bright-yellow" => Color::LightYellow,
        "bright-blue" => Color::LightBlue,
        "bright-magenta" => Color::LightMagenta,
        "bright-cyan" => Color::LightCyan,
        "bright-white" => Color::White,
        _ => return None,
    })
}

#[cfg(test)]
#[path = "theme_tests.rs"]
mod tests;
