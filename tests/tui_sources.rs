//! The feeder's source on a real journal: what it tells at its first look, and that it follows the configuration.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod night;

use backfill::{
    config::Config,
    domain::event::{Actor, NewEvent, Payload, Read},
    journal::{Journal, Options, PartPoint},
    plan::eta::Eta,
    tui::{
        driver::{Journalist, Starter},
        effect::Watch,
        feeder::{News, Source},
        sources::{Detached, JournalSource},
        writer::{JournalWriter, Shown},
    },
};
use chrono::{TimeDelta, Utc};
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

/// Somebody's typo of the evening: the screen opens all the same, says so, and a pause reaches the journal.
#[test]
fn a_file_with_faults_opens_the_screen_and_keeps_no_command_from_the_journal() {
    let mut place = Place::new();
    place.append(events());
    let sound = fs::read_to_string(place.file()).unwrap();
    fs::write(place.file(), sound.replace("soft =", "sofd =")).unwrap();
    let mut source = place.source();
    let news = source.poll(&watch(None)).unwrap();
    let fault = news.config_fault.unwrap().unwrap();
    assert!(
        fault.contains("config.toml:11:1: signals.orders-live.sofd"),
        "{fault}"
    );
    let mut writer = JournalWriter::new(Some(place.file()), Shown::default(), Actor::supervisor());
    assert_eq!(writer.fresh().unwrap().backfills.len(), 1);

    fs::write(place.file(), sound).unwrap();
    let news = source.poll(&watch(None)).unwrap();
    assert_eq!(
        news.config_fault,
        Some(None),
        "mended, without a supervisor that says so"
    );
    assert_eq!(news.signals.unwrap()[&night::name("orders-live")].soft, 60.0);
}

/// A screen that was open before the file became unreadable as a whole still writes where it reads.
#[test]
fn a_screen_writes_to_the_journal_that_it_was_opened_with() {
    let mut place = Place::new();
    place.append(events());
    let journal = Config::load(&place.file()).unwrap().journal;
    fs::write(place.file(), "[journal\n").unwrap();
    let shown = Shown::default();
    shown.set(journal);
    let mut writer = JournalWriter::new(Some(place.file()), shown, Actor::supervisor());
    assert_eq!(writer.fresh().unwrap().backfills.len(), 1);
    let mut lost = JournalWriter::new(Some(place.file()), Shown::default(), Actor::supervisor());
    let why = lost.fresh().unwrap_err();
    assert!(why.contains("config.toml:1:"), "{why}");
}

/// What was agreed to in the dialog is the journal that the screen shows.
#[test]
fn no_supervisor_is_started_on_another_journal_than_the_screen_shows() {
    let place = Place::new();
    let shown = Shown::default();
    shown.set(Config::load(&place.file()).unwrap().journal);
    let text = fs::read_to_string(place.file()).unwrap();
    fs::write(place.file(), text.replace("journal.db", "other.db")).unwrap();
    let starter = Detached {
        explicit: Some(place.file()),
        shown,
    };
    let why = starter.start().unwrap_err();
    assert!(
        why.starts_with("nothing was started: the file now names the journal "),
        "{why}"
    );
    assert!(!place.dir.path().join("other.db").exists());
}

/// The file was saved half, or was not in place yet, when the screen was opened.
#[test]
fn a_screen_on_which_nothing_is_goes_over_to_the_journal_that_the_file_names() {
    let mut place = Place::new();
    place.append(events());
    let whole = fs::read_to_string(place.file()).unwrap();
    fs::write(place.file(), whole.replace("journal.db", "empty.db")).unwrap();
    let mut source = place.source();
    let mut writer = JournalWriter::new(Some(place.file()), source.shown(), Actor::supervisor());
    let at = |news: &News| news.config.clone().unwrap().unwrap().journal;
    let news = source.poll(&watch(None)).unwrap();
    assert!(at(&news).ends_with("empty.db"), "{}", at(&news));
    assert!(writer.fresh().unwrap().backfills.is_empty());

    fs::write(place.file(), &whole).unwrap();
    let news = source.poll(&watch(None)).unwrap();
    assert!(at(&news).ends_with("journal.db"), "{}", at(&news));
    assert_eq!(news.state.unwrap().backfills.len(), 1);
    assert_eq!(
        writer.fresh().unwrap().backfills.len(),
        1,
        "it writes where the screen reads"
    );

    fs::write(place.file(), whole.replace("journal.db", "empty.db")).unwrap();
    let news = source.poll(&watch(None)).unwrap();
    assert!(
        at(&news).ends_with("journal.db"),
        "what is on the screen stays there"
    );
}

fn part(name: &str, value: f64) -> PartPoint {
    PartPoint {
        name: name.to_owned(),
        value: Ok(value),
        note: String::new(),
    }
}

/// They are read while they are on the screen, from the hour that it shows, and then only what is new.
#[test]
fn what_a_signal_is_made_of_is_read_while_it_is_looked_at() {
    let place = Place::new();
    let mut recorder = place.journal.recorder().unwrap();
    let lag = night::name("orders-live");
    let now = Utc::now();
    let mut put = |ago: i64, points: &[PartPoint]| {
        recorder
            .put_parts(&lag, now - TimeDelta::minutes(ago), points)
            .unwrap();
    };
    put(70, &[part("gone", 9.0)]);
    put(5, &[part("a", 1.0), part("b", 2.0)]);
    let mut source = place.source();
    let looked_at = Watch {
        parts: Some(lag.clone()),
        ..watch(None)
    };
    let mut look = |watch: &Watch| source.poll(watch).unwrap().parts.unwrap();
    assert_eq!(look(&watch(None)), None, "nobody looks at them");
    let first = look(&looked_at).unwrap();
    assert_eq!(first.parts.keys().collect::<Vec<_>>(), ["a", "b"]);
    assert!(
        std::sync::Arc::ptr_eq(&first, &look(&looked_at).unwrap()),
        "nothing is new"
    );
    put(5, &[part("a", 70.0)]);
    put(4, &[part("a", 3.0)]);
    let next = look(&looked_at).unwrap();
    let largest: Vec<_> = next.parts["a"].cells.iter().map(|cell| cell.max).collect();
    assert_eq!(largest, [Some(70.0), Some(3.0)]);
    assert_eq!(next.parts["b"], first.parts["b"]);
    assert_eq!(look(&watch(None)), None, "and not any more");
}
