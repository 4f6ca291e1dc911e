//! The feeder's source on a real journal: what it tells at its first look, and that it follows the configuration.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod night;

use backfill::{
    domain::event::{Actor, NewEvent, Payload, Read},
    journal::{Journal, Options},
    plan::eta::Eta,
    tui::{effect::Watch, feeder::Source, sources::JournalSource},
};
use std::{fs, path::PathBuf};

struct Place {
    dir: tempfile::TempDir,
    journal: Journal,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(&dir.path().join("journal.db"), Options::default()).unwrap();
        let place = Self { dir, journal };
        place.write(60);
        place
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("config.toml")
    }

    fn write(&self, soft: u32) {
        let text = format!(
            "[journal]\npath = \"journal.db\"\n[executors.airflow-eu]\nkind = \"local\"\nslots = 4\n\
             [signals.orders-live]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:1\"\nquery = \"lag\"\n\
             unit = \"seconds\"\nsoft = {soft}\nhard = 180\ncritical = 900\ninterval = \"5s\"\n"
        );
        fs::write(self.file(), text).unwrap();
    }

    fn append(&mut self, events: Vec<NewEvent>) {
        self.journal.append(None, None, &events).unwrap();
    }

    fn source(&self) -> JournalSource {
        JournalSource::new(Some(self.file()))
    }
}

/// The events of the night as they were appended, but now.
fn events() -> Vec<NewEvent> {
    let known = |event: &backfill::domain::event::Event| match &event.payload {
        Read::Known(payload) => payload.clone(),
        Read::Unknown { .. } => panic!("the night knows its events"),
    };
    let new = |event: &backfill::domain::event::Event| NewEvent {
        at: event.at,
        actor: event.actor.clone(),
        reason: event.reason.clone(),
        backfill: event.backfill.clone(),
        payload: known(event),
    };
    night::night().events.iter().map(new).collect()
}

fn watch(what_if: Option<u32>) -> Watch {
    Watch {
        backfill: Some(night::id()),
        log: None,
        inside: None,
        parts: None,
        what_if,
    }
}

/// Law C3. Nobody supervises here, so there is work left and no date.
#[test]
fn the_source_tells_when_it_will_be_done() {
    let mut place = Place::new();
    place.append(events());
    let mut source = place.source();
    let news = source.poll(&Watch::default()).unwrap();
    assert_eq!(news.estimate, Some(None), "nothing is watched yet");
    let first = source.poll(&watch(None)).unwrap().estimate.unwrap().unwrap();
    assert!(matches!(first.eta, Eta::Stopped { .. }), "{first:?}");
    let again = source.poll(&watch(None)).unwrap().estimate.unwrap().unwrap();
    assert_eq!(again, first, "it is not made anew at every look");
    let asked = source.poll(&watch(Some(2))).unwrap().estimate.unwrap().unwrap();
    assert_eq!(
        asked.what_if.map(|(limit, _)| limit),
        Some(2),
        "a question is answered at once"
    );
}

#[test]
fn a_configuration_that_the_supervisor_took_into_force_is_the_screens_too() {
    let mut place = Place::new();
    let mut source = place.source();
    let mut soft = || source.poll(&watch(None)).unwrap().signals.unwrap()[&night::name("orders-live")].soft;
    assert_eq!(soft(), 60.0);
    place.write(90);
    assert_eq!(
        soft(),
        60.0,
        "a file that nobody has taken into force changes nothing"
    );
    place.append(vec![NewEvent {
        at: night::t0310(),
        actor: Actor::supervisor(),
        reason: None,
        backfill: None,
        payload: Payload::ConfigReloaded {
            changes: vec!["signals.orders-live.soft".to_owned()],
        },
    }]);
    assert_eq!(soft(), 90.0);
}
