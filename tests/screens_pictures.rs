//! The screens rendered to pictures, to stand beside the pictures of the look: `BACKFILL_PICTURES=DIR cargo test
//! --test screens_pictures` writes SVG and text files there.

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

fn pictures() -> Vec<(&'static str, ratatui::buffer::Buffer, backfill::tui::theme::Look)> {
    let dark = look("dark", Level::True, GlyphSet::Full);
    let light = look("light", Level::True, GlyphSet::Full);
    let plain = look("dark", Level::None, GlyphSet::Ascii);
    let sixteen = look("dark", Level::Ansi16, GlyphSet::Full);
    let (running, now) = (feed(&night(), t0310(), Some(0.7)), t0310());
    let app = app();
    vec![
        ("a", screen((120, 40), &running, &app, &dark, now), dark.clone()),
        ("b", screen((80, 24), &running, &app, &dark, now), dark.clone()),
        ("c", screen((200, 60), &running, &app, &dark, now), dark.clone()),
        ("d", screen((120, 40), &running, &app, &light, now), light),
        ("j", screen((80, 24), &running, &app, &plain, now), plain),
        ("o", screen((80, 24), &running, &app, &sixteen, now), sixteen),
    ]
}
