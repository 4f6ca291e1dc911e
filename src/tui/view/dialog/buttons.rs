//! What a dialog's keys do, in its last rows.

use super::Row;
use crate::{
    domain::attach::Action,
    plan::preview::Ask,
    tui::{
        model::PlanDialog,
        theme::Token,
        view::{
            numbers::{delta, duration, of},
            scene::Scene,
        },
        widgets::canvas::p,
    },
};

/// What happens to the listed chunks.
pub(super) fn verb(dialog: &PlanDialog) -> &'static str {
    match dialog.ask {
        Ask::Skip(_) => "will skip",
        Ask::Stop(_) | Ask::Cancel => "will stop",
        Ask::Act(Action::Mark { .. }) => "will mark",
        Ask::Take(..) => "will take",
        _ => "will run",
    }
}

/// Cancel in focus, then the acting key with verb and count.
pub(super) fn draw<'a>(scene: &Scene<'_>, dialog: &PlanDialog, unit: &str) -> Vec<Row<'a>> {
    let look = scene.look;
    let (text, muted, key) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.bold(Token::Accent),
    );
    if let Some(outcome) = &dialog.outcome {
        return vec![
            Row::more(vec![p(outcome.clone(), look.bold(Token::Bright))]),
            Row::more(vec![p("esc", key), p(" closes", muted)]),
        ];
    }
    let mut rows = Vec::new();
    let ready = match &dialog.phrase {
        Some((wanted, typed)) => {
            rows.push(Row::new(
                p("type", muted),
                vec![p(typed.clone(), look.bold(Token::Bright))],
            ));
            rows.push(Row::more(vec![p(
                format!("\"{wanted}\" to allow it"),
                if wanted == typed {
                    look.ink(Token::Ok)
                } else {
                    muted
                },
            )]));
            rows.push(Row::blank());
            wanted == typed
        }
        None => true,
    };
    // Where a phrase is typed, letters are text: there enter is the key that acts.
    let (acts, closes) = match dialog.phrase {
        Some(_) => ("enter", "esc cancels"),
        None => ("y", "enter cancels"),
    };
    let act = act(scene, dialog, unit);
    let mut pieces = vec![p("  Cancel  ", look.cursor())];
    if !dialog.acts() {
        pieces.push(p("   nothing to do", muted));
    } else if !ready {
        pieces.push(p(format!("   {acts} {act} after the phrase"), muted));
    } else {
        pieces.push(p(format!("   {acts}"), key));
        pieces.push(p(format!(" {act}"), text));
    }
    let mut foot = vec![p(closes, look.ink(Token::Faint))];
    if !dialog.preview.will.is_empty() || !dialog.preview.will_not.is_empty() {
        let other = if dialog.all_days.is_some() {
            " summary"
        } else {
            " every day"
        };
        let tab = [p("   tab", key), p(other, muted)];
        // Beside a phrase the sentence of the acting key is long.
        if dialog.phrase.is_some() {
            foot.extend(tab);
        } else {
            pieces.extend(tab);
        }
    }
    rows.push(Row::more(pieces));
    rows.push(Row::more(foot));
    rows
}

/// The verb of the acting key, with the count again.
fn act(scene: &Scene<'_>, dialog: &PlanDialog, unit: &str) -> String {
    let theirs = scene.backfill.is_some_and(|b| b.spec.attach.is_some());
    let n = of(dialog.preview.will.len() as u64, unit);
    match &dialog.ask {
        Ask::Rerun(..) => format!("run {n}"),
        Ask::Skip(_) => format!("skip {n}"),
        Ask::Release(_) => format!("release {n}"),
        Ask::Stop(_) => format!("stop {n}"),
        Ask::Resume => "resume".to_owned(),
        Ask::Cap(Some(cap)) => format!("cap at {cap}"),
        Ask::Cap(None) => "take the cap away".to_owned(),
        Ask::Force(limit, span) => {
            format!("force {limit} for {}", duration(delta(*span)))
        }
        Ask::Act(Action::Mark { done: true, .. }) => format!("mark {n} done"),
        Ask::Act(Action::Mark { done: false, .. }) => format!("mark {n} failed"),
        Ask::Act(action) => action.words(),
        Ask::Take(_, _, how) => how.word().to_owned(),
        Ask::Detach => "let go of it".to_owned(),
        Ask::Cancel if theirs => Action::Cancel { running: false }.words(),
        Ask::Cancel => "cancel the whole order".to_owned(),
        Ask::StopSupervising => "stop supervising".to_owned(),
        Ask::StartSupervising => "start supervising".to_owned(),
    }
}
