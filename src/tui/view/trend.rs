//! Where a lag is going: its slope, and the threshold that is ahead.

use super::{numbers::rough, scene::Scene};
use crate::{
    domain::spec::Law,
    tui::{model::SignalView, theme::Token},
};

/// Where a lag is going.
pub(super) struct Trend {
    pub slope: f64,
    /// The threshold that is ahead, and the seconds to it; `None` when none is ahead.
    pub ahead: Option<(&'static str, f64)>,
}

impl Trend {
    /// `None` when it is flat: when ten more minutes of it would not matter.
    pub fn of(signal: &SignalView, value: f64) -> Option<Self> {
        let slope = signal.slope?;
        if (slope * 600.0).abs() < 0.05 * signal.soft || slope == 0.0 {
            return None;
        }
        let levels = [
            ("low", signal.low),
            ("soft", signal.soft),
            ("hard", signal.hard),
            ("critical", signal.critical),
        ];
        let seconds = |level: f64| (level - value) / slope;
        let ahead = if slope < 0.0 {
            (value > signal.low).then(|| ("low", seconds(signal.low)))
        } else {
            // Below soft the next level is soft; past it, what stops us is hard.
            let next = levels.into_iter().skip(1).find(|(_, level)| *level > value);
            next.map(|(name, level)| (name, seconds(level)))
        };
        Some(Self { slope, ahead })
    }

    /// Without a threshold that the learned law does not see ahead: it knows what the straight line cannot, that what
    /// runs now ends.
    pub fn under_the_law(self, scene: &Scene<'_>, signal: &SignalView) -> Self {
        let report = scene.feed.throttle.as_ref().map(|(_, report)| report);
        let terms = report
            .filter(|r| r.law == Law::Learned)
            .and_then(|r| r.terms.as_ref())
            .filter(|(name, _)| *name == signal.name);
        let rises_to = terms.map(|(_, terms)| terms.peak.0);
        let level = |name: &str| match name {
            "soft" => signal.soft,
            "hard" => signal.hard,
            _ => signal.critical,
        };
        let ahead = self
            .ahead
            .filter(|(name, _)| self.slope < 0.0 || rises_to.is_none_or(|peak| peak >= level(name)));
        Self { ahead, ..self }
    }

    /// The glyph and its ink.
    pub fn arrow(&self, scene: &Scene<'_>) -> (char, Token) {
        let glyphs = &scene.look.glyphs;
        if self.slope > 0.0 {
            (glyphs.rising, Token::Warn)
        } else {
            (glyphs.falling, Token::Ok)
        }
    }

    /// `hard in 2m`.
    pub fn goal(&self) -> String {
        match self.ahead {
            Some((name, seconds)) => format!("{name} in {}", rough(seconds)),
            None => String::new(),
        }
    }
}
