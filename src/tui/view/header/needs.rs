//! What waits for a person.

use crate::{
    domain::state::ChunkState as S,
    tui::{
        theme::{Token, Tone},
        view::{memo, numbers::count, scene::Scene, sentences::is_latched},
        widgets::canvas::{Piece, p, width},
    },
};

/// What waits for a person, and nothing that will be tried again by itself. Failed as a chip, the others as ink; words
/// get shorter before anything is lost, and the failed never go.
pub(in crate::tui::view) fn needs_you<'a>(scene: &Scene<'_>, room: u16) -> Vec<Piece<'a>> {
    let look = scene.look;
    let failed = scene.n(S::Failed) - scene.backfill.map_or(0, |b| memo::retrying(scene, b));
    let taken = scene.backfill.map_or(0, |b| memo::taken(scene, b));
    let others = [
        (
            S::Quarantined,
            scene.n(S::Quarantined),
            [" quarantined", " quar", "q"],
        ),
        (S::Uncertain, scene.n(S::Uncertain), [" uncertain", " unc", "u"]),
        (S::Held, taken, [" date taken", " taken", "t"]),
    ];
    let mut pieces = Vec::new();
    for short in 0..3 {
        pieces.clear();
        if failed > 0 {
            pieces.push(p(format!(" {} failed ", count(failed)), look.chip(Tone::Bad)));
        }
        for (state, n, words) in others.iter().filter(|(_, n, _)| *n > 0) {
            let word = words[short];
            if !pieces.is_empty() {
                let close = word.len() == 1 || pieces.len() == 1 && failed > 0;
                let gap = if close { " " } else { "  " };
                pieces.push(p(gap, look.ink(Token::Text)));
            }
            let style = look.word(*state).patch(
                look.bold(Token::Text)
                    .fg(look.word(*state).fg.unwrap_or_default()),
            );
            pieces.push(p(format!("{}{word}", count(*n)), style));
        }
        if scene.backfill.is_some_and(is_latched) {
            if !pieces.is_empty() {
                pieces.push(p("  ", look.ink(Token::Text)));
            }
            let word = ["acknowledge it", "latched", "latch"][short];
            pieces.push(p(word, look.bold(Token::Bad)));
        }
        if width(&pieces) <= room {
            break;
        }
    }
    if pieces.is_empty() {
        pieces.push(p("none", look.ink(Token::Muted)));
    }
    pieces
}
