//! The checks that every change of a colour must pass again: contrast by WCAG, distances by CIEDE2000, for people
//! with normal, protan, deutan and tritan vision (Machado, Oliveira and Fernandes 2009, full severity), for all
//! themes and for their stand-ins among the 256 colours.

use super::*;
use ChunkState as S;

fn themes() -> Vec<Theme> {
    let file: toml::Table = toml::from_str(THEMES).unwrap();
    Theme::NAMES
        .iter()
        .map(|n| Theme::read(&file, n).unwrap())
        .collect()
}

fn ramp(theme: &str, name: &str) -> Vec<Colour> {
    let file: toml::Table = toml::from_str(THEMES).unwrap();
    let ramp = &file["themes"][theme]["ramps"][name];
    let hex = ramp["hex"].as_array().unwrap().iter();
    let x256 = ramp["x256"].as_array().unwrap().iter();
    hex.zip(x256)
        .map(|(h, x)| Colour {
            rgb: parse_hex(h.as_str().unwrap()).unwrap(),
            x256: u8::try_from(x.as_integer().unwrap()).unwrap(),
        })
        .collect()
}

/// A colour as true colour and as its stand-in.
fn both(c: Colour) -> [(&'static str, Rgb); 2] {
    [("true", c.rgb), ("256", rgb_of_256(c.x256))]
}

fn linear(c: Rgb) -> [f64; 3] {
    [c.0, c.1, c.2].map(|v| {
        let v = f64::from(v) / 255.0;
        if v <= 0.04045 {
            v / 12.92
        } else {
            ((v + 0.055) / 1.055).powf(2.4)
        }
    })
}

fn contrast(a: Rgb, b: Rgb) -> f64 {
    let luminance = |c: Rgb| {
        let [r, g, b] = linear(c);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
    ("normal", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protan",
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
    ),
    (
        "deutan",
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
    ),
    (
        "tritan",
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    ),
];

fn lab(c: Rgb, vision: &[[f64; 3]; 3]) -> [f64; 3] {
    let rgb = linear(c);
    let seen = vision.map(|row| (row[0] * rgb[0] + row[1] * rgb[1] + row[2] * rgb[2]).clamp(0.0, 1.0));
    let xyz = [
        (0.4124564 * seen[0] + 0.3575761 * seen[1] + 0.1804375 * seen[2]) / 0.95047,
        0.2126729 * seen[0] + 0.7151522 * seen[1] + 0.0721750 * seen[2],
        (0.0193339 * seen[0] + 0.1191920 * seen[1] + 0.9503041 * seen[2]) / 1.08883,
    ];
    let f = xyz.map(|t| {
        if t > 216.0 / 24389.0 {
            t.cbrt()
        } else {
            (24389.0 / 27.0 * t + 16.0) / 116.0
        }
    });
    [116.0 * f[1] - 16.0, 500.0 * (f[0] - f[1]), 200.0 * (f[1] - f[2])]
}

/// CIEDE2000 with all weights 1 (Sharma, Wu and Dalal 2005).
fn ciede2000([l1, a1, b1]: [f64; 3], [l2, a2, b2]: [f64; 3]) -> f64 {
    let c_bar = (a1.hypot(b1) + a2.hypot(b2)) / 2.0;
    let g = 0.5 * (1.0 - (c_bar.powi(7) / (c_bar.powi(7) + 25f64.powi(7))).sqrt());
    let (a1, a2) = (a1 * (1.0 + g), a2 * (1.0 + g));
    let (c1, c2) = (a1.hypot(b1), a2.hypot(b2));
    let hue = |a: f64, b: f64| {
        if a == 0.0 && b == 0.0 {
            0.0
        } else {
            b.atan2(a).to_degrees().rem_euclid(360.0)
        }
    };
    let (h1, h2) = (hue(a1, b1), hue(a2, b2));
    let turn = match h2 - h1 {
        _ if c1 * c2 == 0.0 => 0.0,
        d if d > 180.0 => d - 360.0,
        d if d < -180.0 => d + 360.0,
        d => d,
    };
    let (dl, dc) = (l2 - l1, c2 - c1);
    let dh = 2.0 * (c1 * c2).sqrt() * (turn / 2.0).to_radians().sin();
    let (l, c) = ((l1 + l2) / 2.0, (c1 + c2) / 2.0);
    let h = match (h1 + h2, (h1 - h2).abs()) {
        (sum, _) if c1 * c2 == 0.0 => sum,
        (sum, d) if d <= 180.0 => sum / 2.0,
        (sum, _) if sum < 360.0 => (sum + 360.0) / 2.0,
        (sum, _) => (sum - 360.0) / 2.0,
    };
    let cos = |deg: f64| deg.to_radians().cos();
    let t = 1.0 - 0.17 * cos(h - 30.0) + 0.24 * cos(2.0 * h) + 0.32 * cos(3.0 * h + 6.0)
        - 0.20 * cos(4.0 * h - 63.0);
    let sl = 1.0 + 0.015 * (l - 50.0).powi(2) / (20.0 + (l - 50.0).powi(2)).sqrt();
    let (sc, sh) = (1.0 + 0.045 * c, 1.0 + 0.015 * c * t);
    let rc = 2.0 * (c.powi(7) / (c.powi(7) + 25f64.powi(7))).sqrt();
    let rt = -rc * (60.0 * (-((h - 275.0) / 25.0).powi(2)).exp()).to_radians().sin();
    let (dl, dc, dh) = (dl / sl, dc / sc, dh / sh);
    (dl * dl + dc * dc + dh * dh + rt * dc * dh).sqrt()
}

/// The smallest distance over all visions.
fn apart(a: Rgb, b: Rgb) -> f64 {
    VISIONS
        .iter()
        .map(|(_, v)| ciede2000(lab(a, v), lab(b, v)))
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn ciede2000_agrees_with_published_pairs() {
    // From the test data of Sharma, Wu and Dalal.
    for (a, b, expected) in [
        ([50.0, 2.6772, -79.7751], [50.0, 0.0, -82.7485], 2.0425),
        ([50.0, -1.3802, -84.2814], [50.0, 0.0, -82.7485], 1.0),
        ([50.0, 2.5, 0.0], [73.0, 25.0, -18.0], 27.1492),
        ([50.0, 2.5, 0.0], [56.0, -27.0, -3.0], 31.9030),
        ([60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387], 1.2644),
        ([2.0776, 0.0795, -1.1350], [0.9033, -0.0636, -0.5514], 0.9082),
    ] {
        assert!((ciede2000(a, b) - expected).abs() < 1e-4, "{a:?} {b:?}");
    }
}

/// Case S21.
#[test]
fn text_has_a_contrast_of_four_and_a_half_on_every_ground() {
    for theme in themes() {
        let token = |t: Token| theme.tokens[t as usize];
        let inks = [
            Token::Text,
            Token::Bright,
            Token::Muted,
            Token::Faint,
            Token::Accent,
            Token::Ok,
            Token::Info,
            Token::Warn,
            Token::Bad,
            Token::DoneInk,
        ];
        for ink in inks {
            for ground in [Token::Bg, Token::Surface, Token::Raised] {
                for ((level, a), (_, b)) in both(token(ink)).into_iter().zip(both(token(ground))) {
                    let got = contrast(a, b);
                    assert!(
                        got >= 4.5,
                        "{} {level}: {ink:?} on {ground:?} is {got:.2}",
                        theme.name
                    );
                }
            }
        }
        for (ink, ground) in [(Token::CursorFg, Token::CursorBg), (Token::OnAccent, Token::Warn)] {
            for ((level, a), (_, b)) in both(token(ink)).into_iter().zip(both(token(ground))) {
                let got = contrast(a, b);
                assert!(
                    got >= 4.5,
                    "{} {level}: {ink:?} on {ground:?} is {got:.2}",
                    theme.name
                );
            }
        }
    }
}

/// Case S21.
#[test]
fn glyphs_stand_out_from_their_fill_and_fills_from_the_ground() {
    for theme in themes() {
        let bg = both(theme.tokens[Token::Bg as usize]);
        for state in ChunkState::ALL {
            if let Some(fill) = theme.fills[state as usize] {
                let ink = both(theme.inks[state as usize]);
                for (level, (fill, (ink, bg))) in ["true", "256"]
                    .iter()
                    .zip(both(fill).into_iter().zip(ink.into_iter().zip(bg)))
                {
                    let (on, off) = (contrast(ink.1, fill.1), contrast(fill.1, bg.1));
                    assert!(on >= 4.5, "{} {level}: {state:?} {on:.2} on its fill", theme.name);
                    assert!(
                        off >= 3.0,
                        "{} {level}: {state:?} {off:.2} on the ground",
                        theme.name
                    );
                }
            }
        }
        for name in ["sequential", "diverging", "lag"] {
            for step in ramp(&theme.name, name) {
                for ((level, a), (_, b)) in both(step).into_iter().zip(bg) {
                    let got = contrast(a, b);
                    assert!(got >= 3.0, "{} {level}: {name} {a:?} is {got:.2}", theme.name);
                }
            }
        }
    }
}

fn state_colour(theme: &Theme, state: S, level: usize) -> Rgb {
    let i = state as usize;
    both(theme.fills[i].unwrap_or(theme.inks[i]))[level].1
}

/// How far two states have to be apart, by the rule of the look.
fn wanted(theme: &Theme, a: S, b: S) -> f64 {
    let alarm = |s: S| matches!(s, S::Failed | S::Quarantined | S::Uncertain);
    let tile = |s: S| theme.fills[s as usize].is_some();
    let moving = |s: S| matches!(s, S::Running | S::Verifying | S::Queued | S::Submitting);
    let still = |s: S| {
        matches!(
            s,
            S::Pending | S::Held | S::Skipped | S::Cancelled | S::Unread | S::Absent
        )
    };
    match (a, b) {
        _ if alarm(a) || alarm(b) => {
            if tile(a) && tile(b) {
                11.0
            } else {
                6.0
            }
        }
        _ if still(a) && still(b) => 0.0,
        _ if moving(a) != moving(b) => {
            if tile(a) == tile(b) {
                7.0
            } else {
                6.0
            }
        }
        _ => 4.0,
    }
}

/// Case B11: also under every kind of colour blindness.
#[test]
fn states_keep_their_distance_under_every_vision() {
    for theme in themes() {
        for (level, name) in ["true", "256"].iter().enumerate() {
            for (i, a) in ChunkState::ALL.into_iter().enumerate() {
                for b in ChunkState::ALL.into_iter().skip(i + 1) {
                    let got = apart(state_colour(&theme, a, level), state_colour(&theme, b, level));
                    let want = wanted(&theme, a, b);
                    assert!(
                        got >= want,
                        "{} {name}: {a:?} {b:?} {got:.2} < {want}",
                        theme.name
                    );
                }
            }
        }
    }
}

#[test]
fn neighbouring_steps_of_a_ramp_can_be_told_apart() {
    for theme in themes() {
        for name in ["sequential", "diverging", "lag"] {
            let steps = ramp(&theme.name, name);
            for (i, pair) in steps.windows(2).enumerate() {
                // The lag ramp's step 3 is soft: from there on the steps are alarms.
                let want = if name == "lag" && i >= 2 { 10.0 } else { 5.0 };
                for ((level, a), (_, b)) in both(pair[0]).into_iter().zip(both(pair[1])) {
                    let got = apart(a, b);
                    assert!(
                        got >= want,
                        "{} {level} {name} step {i}: {got:.2} < {want}",
                        theme.name
                    );
                }
            }
        }
    }
}

/// Case S13.
#[test]
fn the_level_follows_the_environment_in_its_order_of_force() {
    let level = |pairs: &[(&str, &str)]| {
        Level::detect(|key| {
            pairs
                .iter()
                .find(|(k, _)| *k == key)
                .map(|(_, v)| (*v).to_owned())
        })
    };
    let truecolor = ("COLORTERM", "truecolor");
    assert_eq!(
        level(&[("NO_COLOR", "1"), truecolor, ("CLICOLOR", "1")]).0,
        Level::None
    );
    assert_eq!(
        level(&[("NO_COLOR", ""), truecolor]).0,
        Level::True,
        "an empty NO_COLOR says nothing"
    );
    assert_eq!(level(&[("CLICOLOR", "0"), truecolor]).0, Level::None);
    assert_eq!(level(&[("TERM", "xterm"), truecolor]).0, Level::True);
    assert_eq!(level(&[("TERM", "tmux-256color")]).0, Level::X256);
    assert_eq!(level(&[("TERM", "screen")]), (Level::Ansi16, None));
    assert_eq!(level(&[("TERM", "dumb")]).0, Level::None);
    let (got, warning) = level(&[("TERM", "xtrem")]);
    assert_eq!(got, Level::Ansi16);
    assert!(warning.unwrap().contains("xtrem"));
    assert_eq!(level(&[]).0, Level::Ansi16);
}

#[test]
fn every_theme_resolves_at_every_level() {
    for name in Theme::NAMES {
        for level in [Level::None, Level::Ansi16, Level::X256, Level::True] {
            let look = Look::new(name, level, GlyphSet::Full).unwrap();
            let coloured = |c: Option<Color>| c.is_some_and(|c| c != Color::Reset);
            let any = ChunkState::ALL.iter().any(|s| coloured(look.word(*s).fg));
            assert_eq!(any, level != Level::None, "{name} {level:?}");
            assert!(look.cursor().add_modifier.contains(Modifier::REVERSED));
        }
    }
    assert!(Look::new("neon", Level::True, GlyphSet::Full).is_err());
}

/// Case S21: the terminal's own ground is kept where the colours are its owner's.
#[test]
fn sixteen_colours_leave_the_ground_to_the_terminal() {
    let look = Look::new("light", Level::Ansi16, GlyphSet::Full).unwrap();
    for ground in [Token::Bg, Token::Surface, Token::Raised] {
        assert_eq!(look.ground(ground).bg, Some(Color::Reset));
    }
}
