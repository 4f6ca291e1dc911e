//! The screens rendered to pictures, to stand beside the pictures of the look: `BACKFILL_PICTURES=DIR cargo test
//! --test screens_pictures` writes SVG and text files there.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod night;

use backfill::tui::{glyphs::GlyphSet, picture::svg, theme::Level};
use night::*;

#[test]
fn every_screen_becomes_the_same_picture_twice() {
    for (name, buf, look) in pictures() {
        let picture = svg(&buf, &look);
        assert!(
            picture.starts_with("<svg") && picture.ends_with("</svg>\n"),
            "{name}"
        );
        assert_eq!(picture, svg(&buf, &look), "{name}");
        if let Some(dir) = std::env::var_os("BACKFILL_PICTURES") {
            let dir = std::path::PathBuf::from(dir);
            std::fs::write(dir.join(format!("{name}.svg")), &picture).unwrap();
            std::fs::write(dir.join(format!("{name}.txt")), text(&buf)).unwrap();
        }
    }
}

type Picture = (String, ratatui::buffer::Buffer, backfill::tui::theme::Look);

fn pictures() -> Vec<Picture> {
    let dark = look("dark", Level::True, GlyphSet::Full);
    let others = [
        ("d", "light", Level::True, GlyphSet::Full, (120, 40)),
        ("j", "dark", Level::None, GlyphSet::Ascii, (80, 24)),
        ("o16", "dark", Level::Ansi16, GlyphSet::Full, (80, 24)),
        ("o256", "dark", Level::X256, GlyphSet::Full, (120, 40)),
        ("contrast", "high-contrast", Level::True, GlyphSet::Full, (80, 24)),
        ("blind", "colour-blind", Level::True, GlyphSet::Full, (80, 24)),
    ];
    let mut pictures = Vec::new();
    for case in cases::all() {
        for size in [(80, 24), (120, 40), (200, 60), (60, 20)] {
            let name = format!("{}-{}", case.name, size.0);
            pictures.push((
                name,
                screen(size, &case.feed, &case.app, &dark, case.now),
                dark.clone(),
            ));
        }
    }
    for (name, theme, level, set, size) in others {
        let look = look(theme, level, set);
        for case in [
            cases::running(),
            cases::with("plan", vec![cases::dialog(2, 2, None)]),
        ] {
            let buf = screen(size, &case.feed, &case.app, &look, case.now);
            pictures.push((format!("theme-{name}-{}", case.name), buf, look.clone()));
        }
    }
    pictures
}
