//! What the throttle goes by: the law's terms with their values, what it remembers, and what comes next.

use crate::{
    config::Unit,
    domain::{Time, spec::Law, state::Backfill},
    plan::{
        room::{Next, Rule, Terms},
        throttle::{BlindReport, Report, SignalReport, ThrottleState},
    },
    tui::{
        theme::Token,
        view::{
            dialog::Row,
            numbers::{age, duration, lag, level, short_clock, slope},
            scene::Scene,
        },
        widgets::canvas::p,
    },
};
use chrono::TimeDelta;
use std::time::Duration;

/// What is older than this is told with its age.
const OLD: TimeDelta = TimeDelta::seconds(15);

/// The rows, empty for a backfill without a signal or without anything told of it.
pub(super) fn rows<'a>(scene: &Scene<'_>, backfill: &Backfill, room: u16) -> Vec<Row<'a>> {
    let Some((at, report)) = &scene.feed.throttle else {
        return Vec::new();
    };
    if backfill.spec.signals.is_empty() {
        return Vec::new();
    }
    let look = scene.look;
    let (muted, text) = (look.ink(Token::Muted), look.ink(Token::Text));
    let told = Told {
        scene,
        report,
        at: *at,
        binding: binding(report),
    };
    // What is old is grey.
    let text = if told.age().is_some() { muted } else { text };
    let mut rows = Vec::new();
    let mut row = |name: &'static str, says: Option<String>| {
        if let Some(says) = says {
            rows.extend(Row::wrapped(&p(name, muted), &says, room, text));
        }
    };
    row("law", Some(told.law()));
    row("room", told.room());
    row("lag", told.lag());
    row("next", told.next());
    row("memory", told.memory());
    rows
}

/// The law in one line: room, what runs, what one more costs, the peak that is foreseen, the next step. `None` for a
/// backfill without a signal or without anything told of it. What is not known is said to be unknown.
pub(in crate::tui::view) fn line(scene: &Scene<'_>, backfill: &Backfill) -> Option<String> {
    let (at, report) = scene.feed.throttle.as_ref()?;
    if backfill.spec.signals.is_empty() {
        return None;
    }
    let told = Told {
        scene,
        report,
        at: *at,
        binding: binding(report),
    };
    let mut says = Vec::new();
    says.extend(told.age().map(|age| format!("as of {age} ago")));
    if let Some(terms) = told.terms().filter(|_| !told.is_blind()) {
        let old = told.sampled();
        says.extend(old.strip_prefix(", ").map(|old| format!("its sample is {old}")));
        says.push(told.terms_in_short(terms));
    } else {
        if report.law == Law::Learned {
            says.push("room unknown".to_owned());
        }
        says.extend(told.lag());
    }
    says.extend(told.next().map(|next| match told.is_blind() {
        true => next,
        false => format!("next: {next}"),
    }));
    (!says.is_empty()).then(|| says.join(", "))
}

/// The signal that binds, else the one with the least.
fn binding(report: &Report) -> Option<&SignalReport> {
    let named = report
        .binding
        .as_ref()
        .or(report.terms.as_ref().map(|(name, _)| name));
    let named = named.and_then(|name| report.signals.iter().find(|s| s.name == *name));
    named.or_else(|| report.signals.iter().find(|s| s.protects))
}

struct Told<'a> {
    scene: &'a Scene<'a>,
    report: &'a Report,
    at: Time,
    binding: Option<&'a SignalReport>,
}

impl Told<'_> {
    fn unit(&self) -> Unit {
        let name = self.binding.map(|s| &s.name);
        let view = name.and_then(|name| self.scene.feed.signals.get(name));
        view.map_or(Unit::Seconds, |s| s.unit)
    }

    fn in_seconds(&self, seconds: f64) -> String {
        let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default();
        duration(TimeDelta::from_std(time).unwrap_or_default())
    }

    fn law(&self) -> String {
        let of = self.binding.map_or(String::new(), |s| format!(" by {}", s.name));
        let age = self
            .age()
            .map_or(String::new(), |age| format!(", as of {age} ago"));
        format!(
            "{}, {}{of}{age}",
            self.report.law.word(),
            self.report.state.word()
        )
    }

    /// How old the report is, where that is worth a word.
    fn age(&self) -> Option<String> {
        let old = self.scene.now - self.at;
        (old > OLD).then(|| age(old))
    }

    fn is_blind(&self) -> bool {
        self.binding.is_some_and(|s| s.blind.is_some())
    }

    /// A change of lag a minute, with its unit.
    fn a_minute(&self, lag: f64) -> String {
        let unit = match self.unit() {
            Unit::Seconds => " s",
            Unit::Messages | Unit::Alerts => "",
        };
        format!("{}{unit}/min", level(lag, self.unit()))
    }

    fn terms_in_short(&self, terms: &Terms) -> String {
        let (peak, in_s) = terms.peak;
        let peak = if in_s > 0.0 {
            let comes = self.at + TimeDelta::seconds(in_s as i64);
            let at = short_clock(comes, self.scene.now, self.scene.zone);
            format!("peak {} foreseen at {at}", lag(peak, self.unit()))
        } else {
            "no peak ahead".to_owned()
        };
        format!(
            "room {:.1}, running {}, one more costs +{}, {peak}",
            terms.room.max(0.0),
            terms.running,
            self.a_minute(terms.costs)
        )
    }

    /// The level below which lag must come before the learned law goes on, and in how many seconds it is there by the
    /// model: `None` where it is not falling, `Some(0.0)` where it is there.
    fn drain(&self, terms: &Terms) -> Option<(f64, Option<f64>)> {
        let name = &self.binding?.name;
        let soft = self.scene.feed.signals.get(name)?.soft;
        let calm = soft / 2.0;
        if terms.lag <= calm {
            return Some((calm, Some(0.0)));
        }
        let slope = (terms.drift + terms.costs * f64::from(terms.running)) / 60.0;
        Some((calm, (slope < 0.0).then(|| (calm - terms.lag) / slope)))
    }

    /// What has to happen before the learned law goes on from nothing.
    fn until_calm(&self, terms: &Terms) -> Option<String> {
        let (calm, drains) = self.drain(terms)?;
        let below = lag(calm, self.unit());
        Some(match drains {
            Some(seconds) if seconds > 86_400.0 => format!("lag OK below {below}, in more than a day"),
            Some(seconds) if seconds > 0.0 => {
                let ok = self.at + TimeDelta::seconds(seconds as i64);
                let ok = short_clock(ok, self.scene.now, self.scene.zone);
                format!("lag OK at {ok}, below {below}")
            }
            Some(_) => format!("lag is OK below {below}, room for one is not there yet"),
            None => format!("lag has to fall below {below} and does not fall"),
        })
    }

    /// The terms of the signal that is spoken of: those of another are in another unit.
    fn terms(&self) -> Option<&Terms> {
        let (name, terms) = self.report.terms.as_ref()?;
        let same = self.binding.is_some_and(|s| s.name == *name);
        (same && self.report.law == Law::Learned).then_some(terms)
    }

    fn room(&self) -> Option<String> {
        let terms = self.terms()?;
        Some(format!(
            "{:.1} left by the live load, {} running, one more costs +{}",
            terms.room.max(0.0),
            terms.running,
            self.a_minute(terms.costs)
        ))
    }

    fn lag(&self) -> Option<String> {
        if let Some(blind) = self.binding.and_then(|s| s.blind.as_ref()) {
            let last = self.binding.and_then(|s| s.last);
            let last = last.map_or(String::new(), |v| {
                format!("; the last was {}", lag(v, self.unit()))
            });
            let silent = self.in_seconds(blind.age.as_secs_f64());
            return Some(format!("no valid sample for {silent}: {}{last}", blind.why));
        }
        let sampled = self.sampled();
        if let Some(terms) = self.terms() {
            let (peak, in_s) = terms.peak;
            let comes = self.at + TimeDelta::seconds(in_s as i64);
            let peak = if in_s > 0.0 {
                format!(
                    ", peak {} at {}",
                    lag(peak, self.unit()),
                    short_clock(comes, self.scene.now, self.scene.zone)
                )
            } else {
                ", not rising".to_owned()
            };
            return Some(format!(
                "{}{sampled}{peak}, held around {}",
                lag(terms.lag, self.unit()),
                lag(terms.set_point, self.unit())
            ));
        }
        let signal = self.binding?;
        let mean = lag(signal.mean?, self.unit());
        let moves = match signal.slope {
            Some(s) if s > 0.0 => format!(", rising {}", slope(s)),
            Some(s) if s < 0.0 => format!(", falling {}", slope(s)),
            Some(_) => ", flat".to_owned(),
            None => ", too few samples for a slope".to_owned(),
        };
        Some(format!("{mean} smoothed{sampled}{moves}"))
    }

    /// How old the newest sample is, where that is more than two intervals (case S07).
    fn sampled(&self) -> String {
        let name = self.binding.map(|s| &s.name);
        let view = name.and_then(|name| self.scene.feed.signals.get(name));
        let old = view.and_then(|view| self.scene.aged(view));
        old.map_or(String::new(), |old| format!(", {} old", age(old)))
    }

    fn next(&self) -> Option<String> {
        let signal = self.binding?;
        if let Some(blind) = &signal.blind {
            return self.while_blind(blind);
        }
        if let Some(rest) = signal.hibernates {
            return Some(format!(
                "rests {} more after critical, then as paused",
                self.in_seconds(rest.as_secs_f64())
            ));
        }
        if signal.state == ThrottleState::Latched {
            return Some("waits for you: :ack here, or backfill acknowledge".to_owned());
        }
        if let Some(left) = signal.hold_left {
            let to = self
                .terms()
                .and_then(|t| t.next)
                .map_or(signal.resumes_at, |n| Some(n.to));
            let to = to.map_or(String::new(), |to| format!(" at {to}"));
            return Some(format!(
                "resumes{to} in {} if it stays calm",
                self.in_seconds(left.as_secs_f64())
            ));
        }
        if let Some(terms) = self
            .terms()
            .filter(|t| self.report.limit == 0 && t.next.is_none())
        {
            return self.until_calm(terms);
        }
        // Under the learned law it is the model that foretells.
        if let Some(drains) = signal.to_soft.filter(|_| self.terms().is_none()) {
            let ok = self.scene.now + TimeDelta::from_std(drains).unwrap_or_default();
            return Some(format!(
                "lag OK at {}",
                short_clock(ok, self.scene.now, self.scene.zone)
            ));
        }
        match self.terms()?.next {
            Some(next) => Some(self.change(&next)),
            None => self.one_more(),
        }
    }

    /// What blindness brings, of the classic law; the learned one brakes by its own times.
    fn while_blind(&self, blind: &BlindReport) -> Option<String> {
        if self.report.law == Law::Learned {
            return Some("brakes to half and then to nothing, until two valid samples".to_owned());
        }
        let at = |at| short_clock(at, self.scene.now, self.scene.zone);
        let (before, halved) = blind.halves;
        let from = if blind.stopped { "since" } else { "from" };
        Some(format!(
            "limit {before} to {} at {}, no new starts {from} {}",
            before / 2,
            at(halved),
            at(blind.stops)
        ))
    }

    fn change(&self, next: &Next) -> String {
        let wait = if next.wait <= 0.0 {
            "now".to_owned()
        } else {
            format!("in {}", self.in_seconds(next.wait))
        };
        let verb = match next.rule {
            Rule::Cut => "cut",
            Rule::Grow => "grows",
            Rule::Resume | Rule::Probe => "resumes, limit",
            _ => "changes",
        };
        format!("{verb} {} to {} {wait}", self.report.limit, next.to)
    }

    fn one_more(&self) -> Option<String> {
        let admission = self.report.admission?;
        let wait = admission.one_more_in?;
        Some(format!("one more start in {}", self.in_seconds(wait)))
    }

    fn memory(&self) -> Option<String> {
        let mut says = Vec::new();
        if let Some(terms) = self.terms() {
            let (have, need) = terms.tokens;
            says.push(format!("{have:.1} changes saved, growth needs {need:.0}"));
            if let Some((limit, left)) = terms.guard {
                says.push(format!(
                    "at most {limit} for {}: soft was crossed twice",
                    self.in_seconds(left)
                ));
            }
        }
        if let Some(ceiling) = self.binding.and_then(|s| s.ceiling) {
            let left = self.in_seconds(ceiling.left.as_secs_f64());
            says.push(format!("at most {} for {left}: more went wrong", ceiling.limit));
        }
        let (pauses, latch) = self.report.pauses;
        if pauses > 0 {
            says.push(format!("pause {pauses} of {latch} that latch"));
        }
        (!says.is_empty()).then(|| says.join("; "))
    }
}
