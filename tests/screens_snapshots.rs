//! Snapshots of every screen at 80x24, 120x40, 200x60 and 60x20: as text without colours and with the ASCII set, and
//! with full colours and signs together with a map of the styles. Review changes with `cargo insta review`, or set
//! `INSTA_UPDATE=always`.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod night;

use backfill::tui::{
    glyphs::GlyphSet,
    theme::{Level, Look},
};
use night::*;
use ratatui::{
    buffer::{Buffer, Cell},
    style::{Color, Modifier},
};
use std::fmt::Write;

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 60), (60, 20)];

/// The name of a style: foreground, background, attributes.
fn style(cell: &Cell) -> String {
    let colour = |c: Color| match c {
        Color::Rgb(r, g, b) => format!("{r:02x}{g:02x}{b:02x}"),
        other => other.to_string(),
    };
    let mut name = format!("{} on {}", colour(cell.fg), colour(cell.bg));
    for (flag, word) in [
        (Modifier::BOLD, " bold"),
        (Modifier::DIM, " dim"),
        (Modifier::REVERSED, " reverse"),
        (Modifier::UNDERLINED, " underline"),
    ] {
        if cell.modifier.contains(flag) {
            name.push_str(word);
        }
    }
    name
}

/// Each row as runs of styles, and what the numbers mean. The ink of a blank is nothing that anybody sees.
fn map(buf: &Buffer) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut rows = String::new();
    for y in 0..buf.area.height {
        let (mut last, mut run) = (usize::MAX, 0);
        let mut flush = |last: usize, run: u16| {
            if run > 0 {
                let _ = write!(rows, "{last}x{run} ");
            }
        };
        for x in 0..buf.area.width {
            let mut cell = buf[(x, y)].clone();
            if cell.symbol() == " " && !cell.modifier.contains(Modifier::REVERSED) {
                cell.fg = Color::Reset;
                cell.modifier.remove(Modifier::BOLD);
            }
            let name = style(&cell);
            let index = names.iter().position(|n| *n == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            if index != last {
                flush(last, run);
                (last, run) = (index, 0);
            }
            run += 1;
        }
        flush(last, run);
        rows.push('\n');
    }
    let mut legend = String::new();
    for (i, name) in names.iter().enumerate() {
        let _ = writeln!(legend, "{i} = {name}");
    }
    format!("{legend}{}", rows.replace(" \n", "\n"))
}

fn dump(case: &cases::Case, look: &Look, sizes: &[(u16, u16)]) -> String {
    let mut out = String::new();
    for size in sizes {
        let buf = screen(*size, &case.feed, &case.app, look, case.now);
        let _ = writeln!(out, "==== {}x{}", size.0, size.1);
        out.push_str(&text(&buf));
        let _ = writeln!(out, "---- styles\n{}", map(&buf));
    }
    out
}

#[test]
fn every_screen_looks_as_it_did() {
    let plain = look("dark", Level::None, GlyphSet::Ascii);
    let full = look("dark", Level::True, GlyphSet::Full);
    for case in cases::all() {
        // Dialogs cover the same home screen: two sizes show all that is theirs.
        let sizes = if case.app.layers.is_empty() {
            &SIZES[..]
        } else {
            &SIZES[..2]
        };
        insta::assert_snapshot!(format!("{}-plain", case.name), dump(&case, &plain, sizes));
        insta::assert_snapshot!(format!("{}-colour", case.name), dump(&case, &full, sizes));
    }
}

/// The other themes and levels on the screen that has the most colours on it.
#[test]
fn every_theme_looks_as_it_did() {
    let case = cases::running();
    let looks = [
        ("light", look("light", Level::True, GlyphSet::Full)),
        (
            "high-contrast",
            look("high-contrast", Level::True, GlyphSet::Full),
        ),
        ("colour-blind", look("colour-blind", Level::True, GlyphSet::Full)),
        ("256", look("dark", Level::X256, GlyphSet::Full)),
        ("16", look("dark", Level::Ansi16, GlyphSet::Narrow)),
    ];
    for (name, look) in looks {
        insta::assert_snapshot!(format!("theme-{name}"), dump(&case, &look, &SIZES[..1]));
    }
}
