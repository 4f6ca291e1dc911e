//! What all panels of one frame share.

use super::{filter::Filter, hints::Hints};
use crate::{
    domain::{
        Time,
        state::{Backfill, ChunkState},
    },
    tui::{
        estimate::Estimate,
        model::{App, Feed, Layer, SignalView},
        theme::{Look, Token},
        update::TOAST,
    },
};
use chrono_tz::Tz;

/// One frame's inputs, with what is looked up once.
pub(super) struct Scene<'a> {
    pub feed: &'a Feed,
    pub app: &'a App,
    pub look: &'a Look,
    pub hints: &'a Hints,
    pub now: Time,
    pub backfill: Option<&'a Backfill>,
    /// The zone of every clock on the screen: that of the backfill, named once in the header.
    pub zone: Tz,
    /// The signal that binds, else the worst one.
    pub signal: Option<&'a SignalView>,
    pub filter: Filter,
}

impl<'a> Scene<'a> {
    pub fn new(feed: &'a Feed, app: &'a App, look: &'a Look, hints: &'a Hints, now: Time) -> Self {
        let backfill = app.backfill.as_ref().and_then(|id| feed.state.backfills.get(id));
        Self {
            feed,
            app,
            look,
            hints,
            now,
            backfill,
            zone: backfill.map_or(Tz::UTC, |b| b.spec.timezone),
            signal: backfill.and_then(|b| binding(feed, b)),
            filter: Filter::of(app),
        }
    }

    /// The last valid sample of a signal.
    pub fn last(signal: &SignalView) -> Option<(Time, f64)> {
        signal
            .samples
            .iter()
            .rev()
            .find_map(|(at, v)| v.map(|v| (*at, v)))
    }

    /// The newest poll of a signal, if it was valid and is not too old.
    pub fn fresh(&self, signal: &SignalView) -> Option<f64> {
        let blind = self.feed.state.blind.contains_key(&signal.name);
        let (at, value) = signal.samples.back().copied()?;
        value.filter(|_| !blind && self.now - at <= Self::patience(signal))
    }

    /// A number that is older than this is none any more.
    pub fn patience(signal: &SignalView) -> chrono::TimeDelta {
        super::numbers::delta(signal.interval * 4).max(chrono::TimeDelta::seconds(60))
    }

    /// How old the newest poll of a signal is, where that is more than two of its intervals: then its number is told
    /// with its age, and grey (case S07).
    pub fn aged(&self, signal: &SignalView) -> Option<chrono::TimeDelta> {
        let old = self.now - signal.samples.back()?.0;
        (old > super::numbers::delta(signal.interval * 2)).then_some(old)
    }

    /// Ink for a lag: warn past soft, bad past hard.
    pub fn lag_token(signal: &SignalView, value: f64) -> Token {
        if value >= signal.hard {
            Token::Bad
        } else if value >= signal.soft {
            Token::Warn
        } else {
            Token::Bright
        }
    }

    /// How many chunks of a state the shown backfill has.
    pub fn n(&self, state: ChunkState) -> u64 {
        self.backfill.map_or(0, |b| u64::from(b.count(state)))
    }

    /// The estimate, if it is about the shown backfill.
    pub fn estimate(&self) -> Option<&'a Estimate> {
        let estimate = self.feed.estimate.as_ref()?;
        // What somebody else runs is in no plan of ours that could be reckoned with.
        self.backfill
            .is_some_and(|b| b.id == estimate.backfill && b.spec.attach.is_none())
            .then_some(estimate)
    }

    /// What was said last, while it stands.
    pub fn said(&self) -> Option<&'a str> {
        let (text, at) = self.app.toast.as_ref()?;
        (self.now - *at < TOAST).then_some(text.as_str())
    }

    /// The layer that has the keys.
    pub fn top(&self) -> Option<&'a Layer> {
        self.app.layers.last()
    }

    /// Whether a layer is open, at any depth.
    pub fn has(&self, is: impl Fn(&Layer) -> bool) -> bool {
        self.app.layers.iter().any(is)
    }
}

/// The signal that binds a backfill, else the one nearest to its hard.
pub(super) fn binding<'a>(feed: &'a Feed, backfill: &'a Backfill) -> Option<&'a SignalView> {
    let named = backfill
        .limit
        .signal
        .as_ref()
        .and_then(|name| feed.signals.get(name));
    let pressure = |s: &SignalView| {
        let value = Scene::last(s).map_or(0.0, |(_, v)| v);
        if s.hard > 0.0 { value / s.hard } else { 0.0 }
    };
    named.or_else(|| {
        let own = backfill
            .spec
            .signals
            .iter()
            .filter_map(|name| feed.signals.get(name));
        own.max_by(|a, b| pressure(a).total_cmp(&pressure(b)))
    })
}
