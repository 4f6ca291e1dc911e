//! What takes a look at all chunks of a backfill, remembered while the state is the same one. A key moves the cursor
//! and changes no chunk, so its frame costs what is drawn and not what there is. The same inputs give the same frame
//! with and without it.

use super::{filter::Filter, rollup::Year, scene::Scene};
use crate::{
    domain::{
        ids::BackfillId,
        state::{Backfill, ChunkState, State},
    },
    plan::why::is_taken,
};
use std::{cell::RefCell, collections::BTreeMap, rc::Rc, sync::Arc};

thread_local! {
    // Frames are drawn on one thread; a test that draws on many has one memory on each.
    static KNOWN: RefCell<Option<Known>> = const { RefCell::new(None) };
}

/// What was worked out, and from what. Holding the state keeps it from being changed in place.
struct Known {
    state: Arc<State>,
    backfill: BackfillId,
    filter: Filter,
    years: BTreeMap<i32, Rc<Year>>,
    retrying: Option<u64>,
    taken: Option<u64>,
    hidden: Option<u64>,
    next: Option<(usize, Rc<[usize]>)>,
    retries: Option<Rc<[usize]>>,
}

/// Takes what is known of this scene, or works it out and remembers it. `work` must not ask the memory itself.
fn recall<T: Clone>(
    scene: &Scene<'_>,
    backfill: &Backfill,
    find: impl Fn(&Known) -> Option<T>,
    work: impl FnOnce() -> T,
    keep: impl FnOnce(&mut Known, T),
) -> T {
    let same = |k: &&Known| {
        Arc::ptr_eq(&k.state, &scene.feed.state) && k.backfill == backfill.id && k.filter == scene.filter
    };
    KNOWN.with(|known| {
        if let Some(found) = known.borrow().as_ref().filter(same).and_then(&find) {
            return found;
        }
        let made = work();
        let mut known = known.borrow_mut();
        if known.as_ref().filter(same).is_none() {
            *known = Some(Known {
                state: scene.feed.state.clone(),
                backfill: backfill.id.clone(),
                filter: scene.filter.clone(),
                years: BTreeMap::new(),
                retrying: None,
                taken: None,
                hidden: None,
                next: None,
                retries: None,
            });
        }
        if let Some(known) = known.as_mut() {
            keep(known, made.clone());
        }
        made
    })
}

/// A year of the shown backfill, rolled up under the filter.
pub(super) fn year(scene: &Scene<'_>, backfill: &Backfill, year: i32) -> Rc<Year> {
    let filter = &scene.filter;
    recall(
        scene,
        backfill,
        |known| known.years.get(&year).cloned(),
        || {
            Rc::new(Year::of(backfill, year, |chunk| {
                !filter.is_on() || filter.shows(chunk)
            }))
        },
        |known, made| drop(known.years.insert(year, made)),
    )
}

/// How many failed chunks will be tried again without anybody.
pub(super) fn retrying(scene: &Scene<'_>, backfill: &Backfill) -> u64 {
    if backfill.count(ChunkState::Failed) == 0 {
        return 0;
    }
    let retries = |c: &&crate::domain::state::Chunk| c.state == ChunkState::Failed && c.retry.is_some();
    recall(
        scene,
        backfill,
        |known| known.retrying,
        || backfill.chunks.iter().filter(retries).count() as u64,
        |known, made| known.retrying = Some(made),
    )
}

/// How many chunks of our own are held because somebody else's run has their date.
pub(super) fn taken(scene: &Scene<'_>, backfill: &Backfill) -> u64 {
    if backfill.count(ChunkState::Held) == 0 {
        return 0;
    }
    recall(
        scene,
        backfill,
        |known| known.taken,
        || backfill.chunks.iter().filter(|c| is_taken(c)).count() as u64,
        |known, made| known.taken = Some(made),
    )
}

/// How many chunks the filter hides.
pub(super) fn hidden(scene: &Scene<'_>, backfill: &Backfill) -> u64 {
    let hides = |c: &&crate::domain::state::Chunk| !scene.filter.shows(c);
    recall(
        scene,
        backfill,
        |known| known.hidden,
        || backfill.chunks.iter().filter(hides).count() as u64,
        |known, made| known.hidden = Some(made),
    )
}

/// Positions of the next `max` chunks in order, as `work` finds them.
pub(super) fn next(
    scene: &Scene<'_>,
    backfill: &Backfill,
    max: usize,
    work: impl FnOnce() -> Vec<usize>,
) -> Rc<[usize]> {
    recall(
        scene,
        backfill,
        |known| {
            known
                .next
                .as_ref()
                .filter(|(n, _)| *n == max)
                .map(|(_, next)| next.clone())
        },
        || work().into(),
        |known, made| known.next = Some((max, made)),
    )
}

/// Positions of the retries to come, as `work` finds them.
pub(super) fn retries(
    scene: &Scene<'_>,
    backfill: &Backfill,
    work: impl FnOnce() -> Vec<usize>,
) -> Rc<[usize]> {
    recall(
        scene,
        backfill,
        |known| known.retries.clone(),
        || work().into(),
        |known, made| known.retries = Some(made),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{event::Payload, ids::ChunkId},
        plan::testing::Night,
        tui::{
            feeder::nothing_known,
            glyphs::GlyphSet,
            model::{App, Feed},
            theme::{Level, Look},
            update::Machine,
            view::Hints,
        },
    };

    fn drawn<T>(feed: &Feed, app: &App, look: impl FnOnce(&Scene<'_>, &Backfill) -> T) -> T {
        let dark = Look::new("dark", Level::True, GlyphSet::Full).unwrap();
        let hints = Hints::default();
        let scene = Scene::new(feed, app, &dark, &hints, feed.as_of);
        look(&scene, scene.backfill.unwrap())
    }

    /// Case S32: neither the cursor nor the clock makes the screen look at every chunk again.
    #[test]
    fn a_year_is_rolled_up_once_for_a_state_and_a_filter() {
        let mut night = Night::new(20);
        let mut feed = nothing_known(night.now);
        feed.state = Arc::new(night.state.clone());
        let mut app = Machine::new(None, None).app;
        app.backfill = Some(night.id());
        let here = |feed: &Feed, app: &App| drawn(feed, app, |scene, b| year(scene, b, 2023));
        let first = here(&feed, &app);
        app.cursor = Some(ChunkId::day(chrono::NaiveDate::from_ymd_opt(2023, 1, 9).unwrap()));
        feed.as_of += chrono::TimeDelta::seconds(60);
        assert!(
            Rc::ptr_eq(&first, &here(&feed, &app)),
            "a moved cursor changes no year"
        );
        app.filter = "2023-01-05".to_owned();
        let filtered = here(&feed, &app);
        assert_eq!(filtered.days.iter().flatten().count(), 1);
        assert_eq!(drawn(&feed, &app, hidden), 19);
        app.filter.clear();
        night.human(Payload::HoldPlaced {
            chunks: vec![night.day(0)],
        });
        feed.state = Arc::new(night.state.clone());
        let later = here(&feed, &app);
        assert_eq!(
            later.days[0].unwrap().state,
            ChunkState::Held,
            "another state is another year"
        );
    }

    #[test]
    fn looking_twice_at_the_same_state_works_once() {
        let night = Night::new(3);
        let mut feed = nothing_known(night.now);
        feed.state = Arc::new(night.state.clone());
        let mut app = Machine::new(None, None).app;
        app.backfill = Some(night.id());
        let worked = std::cell::Cell::new(0);
        for max in [2, 2, 2, 3] {
            drawn(&feed, &app, |scene, b| {
                next(scene, b, max, || {
                    worked.set(worked.get() + 1);
                    (0..max).collect()
                })
            });
        }
        assert_eq!(worked.get(), 2);
    }
}
