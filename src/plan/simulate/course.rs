//! What the scenario's incidents make of every step. It is the same for all seeds and policies, so it is worked out
//! once, in one sweep over the beginnings and ends of incidents.

use super::live::STEP;
use crate::config::scenario::{Fault, Incident, Scenario};
use std::{collections::BTreeMap, time::Duration};

/// So long after an incident its damage is still being worked off.
const AFTERMATH: Duration = Duration::from_secs(1800);

/// A step of the night.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Messages a second that the consumer could take if no other load were there.
    pub capacity: f64,
    /// What the signal's endpoint does; of several faults the one that stands first in the file.
    pub fault: Option<Fault>,
    /// The executor takes nothing new.
    pub executor_down: bool,
    /// It lies in an incident or in the half hour after it.
    pub near_incident: bool,
}

/// All steps.
#[derive(Debug, Clone)]
pub struct Course(Vec<Moment>);

/// What begins or ends at a step.
#[derive(Debug, Clone, Copy)]
enum Change {
    Begins(usize),
    Ends(usize),
    AftermathEnds,
}

/// What is under way, by its place in the file. Only what has an effect of a kind stands in the list of that kind.
#[derive(Default)]
struct On {
    /// Taken from the capacity one after the other, in the order of the file, as they always were.
    factors: Vec<(usize, f64)>,
    faults: BTreeMap<usize, Fault>,
    down: usize,
    near: usize,
}

impl On {
    fn change(&mut self, change: Change, incidents: &[Incident]) {
        match change {
            Change::AftermathEnds => self.near -= 1,
            Change::Begins(which) => {
                self.near += 1;
                self.turn(which, incidents.get(which), true);
            }
            Change::Ends(which) => self.turn(which, incidents.get(which), false),
        }
    }

    fn turn(&mut self, which: usize, incident: Option<&Incident>, on: bool) {
        let Some(incident) = incident else {
            return;
        };
        let place = self.factors.binary_search_by_key(&which, |(other, _)| *other);
        match (place, on) {
            (Err(place), true) if incident.capacity_factor != 1.0 => {
                self.factors.insert(place, (which, incident.capacity_factor));
            }
            (Ok(place), false) => drop(self.factors.remove(place)),
            _ => {}
        }
        match (incident.metric, on) {
            (Some(fault), true) => drop(self.faults.insert(which, fault)),
            _ => drop(self.faults.remove(&which)),
        }
        if incident.executor_down {
            self.down = if on { self.down + 1 } else { self.down - 1 };
        }
    }

    fn moment(&self, capacity: f64) -> Moment {
        let factors = self.factors.iter().map(|(_, factor)| factor);
        Moment {
            capacity: factors.fold(capacity, |left, factor| left * factor),
            fault: self.faults.values().next().copied(),
            executor_down: self.down > 0,
            near_incident: self.near > 0,
        }
    }
}

impl Course {
    /// Of a scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let steps = (scenario.duration.as_secs_f64() / STEP) as usize;
        let capacity = scenario.consumer.capacity;
        let mut changes = changes(&scenario.incidents).into_iter().peekable();
        let mut on = On::default();
        let mut now = on.moment(capacity);
        let mut moments = Vec::with_capacity(steps);
        for step in 0..steps {
            let mut changed = false;
            while let Some((_, change)) = changes.next_if(|(at, _)| *at <= step) {
                on.change(change, &scenario.incidents);
                changed = true;
            }
            if changed {
                now = on.moment(capacity);
            }
            moments.push(now);
        }
        Self(moments)
    }

    /// The steps, from the first to the last.
    pub fn moments(&self) -> &[Moment] {
        &self.0
    }
}

/// By step. Nothing ends before it began: what is over between two steps begins and ends at the same one.
fn changes(incidents: &[Incident]) -> Vec<(usize, Change)> {
    let mut changes = Vec::with_capacity(incidents.len() * 3);
    for (which, incident) in incidents.iter().enumerate() {
        let end = incident.at + incident.lasts;
        changes.push((first_not_before(incident.at), Change::Begins(which)));
        changes.push((first_not_before(end), Change::Ends(which)));
        changes.push((first_after(end + AFTERMATH), Change::AftermathEnds));
    }
    // The order of what was pushed for one step stays.
    changes.sort_by_key(|(step, _)| *step);
    changes
}

/// The first step that begins at this time or later.
fn first_not_before(time: Duration) -> usize {
    first(time, |begins, time| begins >= time)
}

/// The first step that begins later than this time.
fn first_after(time: Duration) -> usize {
    first(time, |begins, time| begins > time)
}

fn first(time: Duration, is_there: impl Fn(f64, f64) -> bool) -> usize {
    let time = time.as_secs_f64();
    let before = (time / STEP) as usize;
    let near = before.saturating_sub(1)..before + 2;
    near.into_iter()
        .find(|step| is_there(*step as f64 * STEP, time))
        .unwrap_or(before + 2)
}

#[cfg(test)]
mod tests {
    use super::super::{draw::Draw, tests::scenario};
    use super::*;
    use std::time::Instant;

    /// Said anew for each step, from the words of the documentation.
    fn slowly(scenario: &Scenario, t: f64) -> Moment {
        let seconds = |d: Duration| d.as_secs_f64();
        let on = || {
            let is_on = |i: &&Incident| seconds(i.at) <= t && t < seconds(i.at + i.lasts);
            scenario.incidents.iter().filter(is_on)
        };
        let near = |i: &Incident| seconds(i.at) <= t && t <= seconds(i.at + i.lasts) + 1800.0;
        Moment {
            capacity: on().fold(scenario.consumer.capacity, |c, i| c * i.capacity_factor),
            fault: on().find_map(|i| i.metric),
            executor_down: on().any(|i| i.executor_down),
            near_incident: scenario.incidents.iter().any(near),
        }
    }

    fn many(n: u64, seconds: u64) -> Scenario {
        let mut night = scenario();
        let drawn = |index: u64, most: u64| {
            (Draw(5).even(super::super::draw::Stream::Length, index) * most as f64) as u64
        };
        let incident = |i: u64| Incident {
            at: Duration::from_millis(drawn(4 * i, 1000 * seconds)),
            lasts: Duration::from_secs(1 + drawn(4 * i + 1, 4000)),
            capacity_factor: 0.5 + drawn(4 * i + 2, 100) as f64 / 100.0,
            metric: [None, Some(Fault::Frozen), Some(Fault::Zero)][(i % 3) as usize],
            executor_down: i.is_multiple_of(4),
        };
        night.duration = Duration::from_secs(seconds);
        night.incidents = (0..n).map(incident).collect();
        night
    }

    #[test]
    fn every_step_has_what_the_incidents_that_are_on_make_of_it_in_the_order_of_the_file() {
        let mut night = many(40, 12 * 3600);
        // On the edge of a step, shorter than a step, past the end.
        night.incidents[0].at = Duration::from_secs(3600);
        night.incidents[0].lasts = Duration::from_secs(5);
        night.incidents[1].at = Duration::from_millis(7_200_100);
        night.incidents[1].lasts = Duration::from_secs(1);
        night.incidents[2].at = Duration::from_secs(13 * 3600);
        let course = Course::of(&night);
        assert_eq!(course.moments().len(), 12 * 720);
        for (step, found) in course.moments().iter().enumerate() {
            assert_eq!(*found, slowly(&night, step as f64 * STEP), "step {step}");
        }
        assert!(course.moments().iter().any(|m| !m.near_incident));
    }

    /// A look at each incident in each step would be 5,000,000,000 looks.
    #[test]
    fn thousands_of_incidents_in_a_month_are_not_looked_at_in_every_step() {
        let night = many(10_000, 31 * 24 * 3600);
        let began = Instant::now();
        assert!(Course::of(&night).moments().iter().all(|m| m.capacity >= 0.0));
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
