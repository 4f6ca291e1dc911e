//! What was seen of attached backfills: written by the supervisor, read by everybody, replaceable at any time.
//!
//! Two kinds of observations: `attached`, a row a backfill, with what is known of it as a whole; and `day:BACKFILL`, a
//! row a day, with its runs. A reader takes only the rows that are newer than those it has. Whoever writes begins anew
//! after a restart, and says so in the first kind, so that a reader forgets what was removed meanwhile.

use super::{Journal, Observation, ReadError, Recorder, StoreError};
use crate::domain::{
    Time,
    attach::{Days, Facts},
    ids::BackfillId,
    state::State,
};
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const WHOLE: &str = "attached";

fn days_of(id: &BackfillId) -> String {
    format!("day:{id}")
}

/// What one look at an attached backfill changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Sighting {
    /// The backfill.
    pub backfill: BackfillId,
    /// When it was made; later than that of the sighting before.
    pub at: Time,
    /// When its writer began: all days that it ever wrote are from then on.
    pub begun: Time,
    /// The days that changed; an empty list: the day has no run any more.
    pub days: Days,
    /// What is known of it as a whole.
    pub facts: Facts,
}

#[derive(Serialize, Deserialize)]
struct Row {
    begun: Time,
    facts: Facts,
}

impl Recorder {
    /// Keeps a sighting.
    ///
    /// # Errors
    /// The store failed; the older observations stand.
    pub fn put_sighting(&mut self, sighting: &Sighting) -> Result<(), StoreError> {
        let Sighting {
            backfill, at, begun, ..
        } = sighting;
        let day = |(chunk, runs): (&crate::domain::ids::ChunkId, _)| {
            Some(Observation {
                key: chunk.to_string(),
                as_of: *at,
                json: serde_json::to_string(&runs).ok()?,
            })
        };
        let days: Vec<Observation> = sighting.days.iter().filter_map(day).collect();
        if at == begun || !days.is_empty() {
            self.put_observations(&days_of(backfill), &days, at == begun)?;
        }
        let row = Row {
            begun: *begun,
            facts: sighting.facts.clone(),
        };
        let Ok(json) = serde_json::to_string(&row) else {
            return Ok(());
        };
        // After its days: whoever sees this has them.
        self.put_observation(
            WHOLE,
            &Observation {
                key: backfill.to_string(),
                as_of: *at,
                json,
            },
        )
    }
}

/// What a reader has of the sightings.
#[derive(Debug, Clone, Default)]
pub struct Sightings {
    known: BTreeMap<BackfillId, Known>,
    version: u64,
}

#[derive(Debug, Clone)]
struct Known {
    begun: Time,
    at: Time,
    days: Days,
    facts: Facts,
}

impl Sightings {
    /// Takes in what is newer. Returns whether anything is.
    ///
    /// # Errors
    /// The store failed; what was known before is still known.
    pub fn refresh(&mut self, journal: &Journal) -> Result<bool, StoreError> {
        let mut changed = false;
        for seen in journal.observations(WHOLE)? {
            let (Ok(id), Ok(row)) = (
                seen.key.parse::<BackfillId>(),
                serde_json::from_str::<Row>(&seen.json),
            ) else {
                continue;
            };
            let known = self.known.get(&id).filter(|k| k.begun == row.begun);
            if known.is_some_and(|k| k.at == seen.as_of) {
                continue;
            }
            let (from, mut days) = match known {
                Some(k) => (k.at + TimeDelta::milliseconds(1), k.days.clone()),
                None => (row.begun, Days::new()),
            };
            for day in journal.observations_since(&days_of(&id), from)? {
                let (Ok(chunk), Ok(runs)) = (day.key.parse(), serde_json::from_str::<Vec<_>>(&day.json))
                else {
                    continue;
                };
                if runs.is_empty() {
                    days.remove(&chunk);
                } else {
                    days.insert(chunk, runs);
                }
            }
            let known = Known {
                begun: row.begun,
                at: seen.as_of,
                days,
                facts: row.facts,
            };
            self.known.insert(id, known);
            changed = true;
        }
        self.version += u64::from(changed);
        Ok(changed)
    }

    /// Lays what is known over a state's attached backfills.
    pub fn lay_over(&self, state: &mut State) {
        for (id, backfill) in &mut state.backfills {
            match self.known.get(id) {
                Some(known) => backfill.observe(&known.days, &known.facts, known.at),
                None => backfill.observe(&Days::new(), &Facts::default(), backfill.started.at),
            }
        }
        state.seen = self.version;
    }

    /// Whether any backfill of a state is an attached one: all others need no laying over.
    pub fn concern(state: &State) -> bool {
        state.backfills.values().any(|b| b.spec.attach.is_some())
    }
}

impl Journal {
    /// The folded state with what was seen of attached backfills laid over it: what people are shown.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn load_seen(&self) -> Result<State, ReadError> {
        let mut state = self.load_state()?;
        if Sightings::concern(&state) {
            let mut sightings = Sightings::default();
            sightings.refresh(self)?;
            sightings.lay_over(&mut state);
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{
            attach::{Attach, Reading, RunPhase, SeenRun},
            ids::{ChunkId, ExternalId},
            state::ChunkState,
        },
        journal::Options,
        plan::testing::Night,
    };

    fn run(id: &str, phase: RunPhase) -> SeenRun {
        SeenRun {
            run: ExternalId(id.to_owned()),
            phase,
            word: format!("{phase:?}").to_lowercase(),
            kind: "backfill".to_owned(),
            queued: None,
            started: None,
            ended: None,
            tries: None,
        }
    }

    struct Place {
        _dir: tempfile::TempDir,
        journal: Journal,
        recorder: Recorder,
        night: Night,
        at: Time,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let journal = Journal::open(&dir.path().join("journal.db"), Options::default()).unwrap();
            let recorder = journal.recorder().unwrap();
            let dag = crate::domain::spec::Dag {
                id: "events".to_owned(),
                conf: BTreeMap::new(),
                pool: None,
            };
            let night = Night::new(4).attached(Attach { native: None }, dag);
            let at = night.now;
            Self {
                _dir: dir,
                journal,
                recorder,
                night,
                at,
            }
        }

        fn put(&mut self, seconds: i64, begun: i64, days: Days, facts: Facts) {
            let sighting = Sighting {
                backfill: self.night.id(),
                at: self.at + TimeDelta::seconds(seconds),
                begun: self.at + TimeDelta::seconds(begun),
                days,
                facts,
            };
            self.recorder.put_sighting(&sighting).unwrap();
        }

        fn states(&mut self, sightings: &mut Sightings) -> Vec<&'static str> {
            sightings.refresh(&self.journal).unwrap();
            let mut state = self.night.state.clone();
            sightings.lay_over(&mut state);
            let backfill = &state.backfills[&self.night.id()];
            let words: Vec<_> = backfill.chunks.iter().map(|c| c.state.word()).collect();
            let counted: u32 = ChunkState::ALL.iter().map(|s| backfill.count(*s)).sum();
            assert_eq!(counted as usize, words.len());
            words
        }

        fn day(&self, i: u64) -> ChunkId {
            self.night.day(i)
        }
    }

    fn read(at: Time) -> Facts {
        Facts {
            as_of: Some(at),
            ..Facts::default()
        }
    }

    #[test]
    fn nothing_is_known_before_anything_was_read_and_absent_is_only_said_when_all_was() {
        let mut place = Place::new();
        let mut reader = Sightings::default();
        assert_eq!(place.states(&mut reader), ["unread"; 4]);
        let reading = Facts {
            reading: Some(Reading { read: 1, total: 2 }),
            ..read(place.at)
        };
        let first = Days::from([(place.day(0), vec![run("a", RunPhase::Done)])]);
        place.put(0, 0, first, reading);
        assert_eq!(place.states(&mut reader), ["done", "unread", "unread", "unread"]);
        let second = Days::from([(place.day(2), vec![run("b", RunPhase::Queued)])]);
        let facts = read(place.at);
        place.put(1, 0, second, facts);
        assert_eq!(place.states(&mut reader), ["done", "absent", "queued", "absent"]);
    }

    #[test]
    fn a_reader_takes_what_changed_and_the_worst_run_of_a_day_wins() {
        let mut place = Place::new();
        let (mut old, facts) = (Sightings::default(), read(place.at));
        let day = place.day(1);
        let two = vec![run("a", RunPhase::Done), run("b", RunPhase::Failed)];
        place.put(0, 0, Days::from([(day, two)]), facts.clone());
        assert_eq!(place.states(&mut old)[1], "failed");
        place.put(
            1,
            0,
            Days::from([(day, vec![run("a", RunPhase::Done)])]),
            facts.clone(),
        );
        assert_eq!(place.states(&mut old)[1], "done");
        place.put(2, 0, Days::from([(day, Vec::new())]), facts);
        assert_eq!(place.states(&mut old)[1], "absent");
        assert_eq!(place.states(&mut Sightings::default())[1], "absent");
        assert!(!old.refresh(&place.journal).unwrap(), "nothing is newer");
    }

    #[test]
    fn after_a_restart_of_the_writer_a_reader_forgets_what_was_removed_meanwhile() {
        let mut place = Place::new();
        let (mut reader, facts) = (Sightings::default(), read(place.at));
        let days = |i| Days::from([(place.night.day(i), vec![run("a", RunPhase::Done)])]);
        let (before, after) = (days(0), days(3));
        place.put(0, 0, before, facts.clone());
        assert_eq!(place.states(&mut reader)[0], "done");
        place.put(9, 9, after, facts);
        assert_eq!(place.states(&mut reader), ["absent", "absent", "absent", "done"]);
    }

    #[test]
    fn a_word_that_nobody_knows_is_uncertain_and_says_which() {
        let mut place = Place::new();
        let facts = read(place.at);
        let mut odd = run("a", RunPhase::Unknown);
        odd.word = "napping".to_owned();
        place.put(0, 0, Days::from([(place.day(0), vec![odd])]), facts);
        let mut reader = Sightings::default();
        assert_eq!(place.states(&mut reader)[0], "uncertain");
        let mut state = place.night.state.clone();
        reader.lay_over(&mut state);
        let chunk = &state.backfills[&place.night.id()].chunks[0];
        assert!(chunk.why.as_ref().unwrap().contains("napping"));
    }
}
