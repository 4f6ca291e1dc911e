//! Below the calendar: lag at the left, what needs to be read now at its right; and the right column of the wide page.

use super::{
    actions, drawer, events, executors, lag, lag_heat,
    layout::{self, Panels, Size},
    overlay, plan_panel,
    scene::Scene,
    selection,
    sentences::{blind_since, held_by_signal},
    verdict,
};
use crate::tui::widgets::canvas::Canvas;
use ratatui::layout::Rect;

/// On the wide page the parts of the signal stand under its chart; the events give rows for them.
fn parts_at_home<'a>(scene: &Scene<'a>, panels: &mut Panels) -> Option<lag_heat::Heatmap<'a>> {
    // Title, strips and times, and the chart's own rows, with one for the law.
    const REST: u16 = 1 + 3 + 8;
    let below = panels.below.as_mut()?;
    let spare = below.height.saturating_sub(6);
    let rows = (panels.lag.height + spare).checked_sub(REST)?.min(9);
    let heat = lag_heat::Heatmap::new(scene, panels.lag.width, rows)?;
    let more = spare.min(heat.rows);
    panels.lag.height += more;
    below.y += more;
    below.height -= more;
    Some(heat)
}

/// Lag at the left, then what needs to be read now: the drawer, a selection, a verdict, endpoints, or events.
pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    scene: &Scene<'_>,
    mut panels: Panels,
    size: Size,
    drawer: bool,
    held: bool,
) {
    let wide = size == Size::Wide;
    let heat = if wide {
        parts_at_home(scene, &mut panels)
    } else {
        None
    };
    if size == Size::Narrow && drawer {
        let right = panels.right.unwrap_or(panels.lag);
        let bottom = panels.below.unwrap_or(right).bottom().max(right.bottom());
        let at = Rect {
            x: panels.lag.x - 1,
            width: right.right() + 1 - (panels.lag.x - 1),
            height: bottom.saturating_sub(panels.lag.y),
            ..panels.lag
        };
        drawer::draw(canvas, at, scene);
        return;
    }
    let tall = panels.lag.height >= 13 || (held && !wide);
    // A row of its own where the chart stays high without it.
    let law = scene
        .backfill
        .filter(|_| panels.lag.height >= 13)
        .and_then(|b| overlay::law_line(scene, b));
    let around = lag::Around {
        running: tall,
        times: size != Size::Narrow || panels.lag.height >= 7,
        labels: lag::SLIM,
        actions: !wide,
        heat: heat.as_ref(),
        law: law.as_deref(),
    };
    lag::draw(canvas, panels.lag, scene, around);
    if let Some(right) = panels.right {
        right_panel(canvas, scene, right, size, drawer, held, panels.below.is_some());
    }
    if let Some(below) = panels.below {
        events::draw(canvas, below, scene, false);
    }
}

fn right_panel(
    canvas: &mut Canvas<'_>,
    scene: &Scene<'_>,
    at: Rect,
    size: Size,
    drawer: bool,
    held: bool,
    events_below: bool,
) {
    // A card reaches to the edge of the screen, so that its padding is the margin.
    let card = Rect {
        width: at.width + 1,
        ..at
    };
    if drawer {
        return drawer::draw(canvas, card, scene);
    }
    let narrow = size == Size::Narrow;
    if !narrow && selection::draw(canvas, card, scene) {
        return;
    }
    let blind = scene
        .backfill
        .is_some_and(|b| blind_since(scene.feed, b).is_some());
    if narrow {
        let executors = executors::rows(scene).min(4);
        if at.height >= executors + 5 {
            executors::draw(
                canvas,
                Rect {
                    height: executors,
                    ..at
                },
                scene,
            );
            let y = at.y + executors + 1;
            return events::draw(
                canvas,
                Rect {
                    y,
                    height: at.bottom() - y,
                    ..at
                },
                scene,
                true,
            );
        }
        return events::draw(canvas, at, scene, true);
    }
    if held && at.height >= 9 {
        return verdict::draw(canvas, at, scene);
    }
    if blind {
        return executors::endpoints(canvas, at, scene, Some(3));
    }
    let rows = executors::rows(scene).min(at.height.saturating_sub(3)).max(2);
    executors::draw(
        canvas,
        Rect {
            height: rows.min(at.height),
            ..at
        },
        scene,
    );
    let y = at.y + rows + u16::from(events_below);
    let mut rest = Rect {
        y,
        height: at.bottom().saturating_sub(y),
        ..at
    };
    if events_below {
        return plan_or_actions(canvas, rest, scene);
    }
    // Without a signal they stand where its chart would.
    let wanted = actions::rows(scene).min(5);
    if wanted > 0 && scene.signal.is_some() && actions::instead_of_plan(scene) && rest.height >= wanted + 4 {
        let height = wanted;
        actions::draw(canvas, Rect { height, ..rest }, scene);
        rest.y += height;
        rest.height -= height;
    }
    events::draw(canvas, rest, scene, false);
}

/// What starts next; of somebody else's backfill, which has no plan of ours, what was asked of its engine.
fn plan_or_actions(canvas: &mut Canvas<'_>, at: Rect, scene: &Scene<'_>) {
    if actions::instead_of_plan(scene) {
        actions::draw(canvas, at, scene);
    } else {
        plan_panel::draw(canvas, at, scene);
    }
}

/// The right column of the wide page.
pub(super) fn side(canvas: &mut Canvas<'_>, scene: &Scene<'_>, column: Rect) {
    let count = (scene.feed.signals.len() + scene.feed.executors.len()) as u16;
    let deep = crate::tui::update::select::inside(scene.app, scene.feed).is_some();
    let parts = layout::side(column, executors::rows(scene).min(8), (count + 1).min(12), deep);
    if !selection::draw(
        canvas,
        Rect {
            height: parts.drawer.height,
            ..parts.drawer
        },
        scene,
    ) {
        drawer::draw(canvas, parts.drawer, scene);
    }
    if let Some(at) = parts.plan {
        if scene
            .backfill
            .is_some_and(|b| held_by_signal(scene.feed, b, scene.now))
            && at.height >= 9
        {
            // Here the column has a margin of its own.
            verdict::draw(
                canvas,
                Rect {
                    width: at.width - 1,
                    ..at
                },
                scene,
            );
        } else {
            plan_or_actions(canvas, at, scene);
        }
    }
    executors::draw(canvas, parts.executors, scene);
    if let Some(at) = parts.endpoints {
        executors::endpoints(canvas, at, scene, None);
    }
}
