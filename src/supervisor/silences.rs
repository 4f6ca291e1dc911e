//! Silences in an Alertmanager while backfills are held back for its alert: asked for by the loop, made, prolonged and
//! ended on tasks of their own.

use super::record::{Note, Notes};
use crate::{
    domain::{
        event::Rule,
        ids::Name,
        state::{Backfill, State},
    },
    journal::Observation,
    net::AdapterError,
    signals::alertmanager::silence::{Held, Silencer},
};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle};

/// For how long a silence is made. When this program dies it ends by itself that soon.
const LASTING: Duration = Duration::from_secs(10 * 60);
/// How often it is looked after; it is made longer when half of it is over. Also the wait after a refusal.
const EVERY: Duration = Duration::from_secs(60);

/// What makes and ends the silence of one signal.
#[async_trait]
pub trait Silence: Send + Sync + 'static {
    /// Sees to it that there is one.
    async fn hold(&self, lasting: Duration) -> Result<Held, AdapterError>;
    /// Ends it; none is no error.
    async fn release(&self) -> Result<usize, AdapterError>;
}

#[async_trait]
impl Silence for Silencer {
    async fn hold(&self, lasting: Duration) -> Result<Held, AdapterError> {
        Self::hold(self, lasting).await
    }

    async fn release(&self) -> Result<usize, AdapterError> {
        Self::release(self).await
    }
}

/// Signals that hold a backfill back at the moment.
pub fn holding(state: &State) -> BTreeSet<Name> {
    let held = |backfill: &&Backfill| {
        let limit = &backfill.limit;
        !backfill.state().is_final()
            && limit.value == 0
            && matches!(
                limit.rule,
                Rule::Pause | Rule::Critical | Rule::Latch | Rule::Acknowledged
            )
    };
    let backfills = state.backfills.values().filter(held);
    backfills.filter_map(|b| b.limit.signal.clone()).collect()
}

/// One task for each signal that is to be silenced. Dropped, the tasks end, and their silences a little later.
#[derive(Debug, Default)]
pub struct Silences(BTreeMap<Name, Keeper>);

#[derive(Debug)]
struct Keeper {
    wanted: watch::Sender<Option<bool>>,
    task: JoinHandle<()>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Silences {
    /// Looks after the silence of a signal from now on.
    pub fn keep(&mut self, signal: Name, silence: impl Silence, notes: Notes) {
        self.keep_every(EVERY, signal, silence, notes);
    }

    fn keep_every(&mut self, every: Duration, signal: Name, silence: impl Silence, notes: Notes) {
        let (wanted, hears) = watch::channel(None);
        let task = tokio::spawn(keep(every, signal.clone(), silence, hears, notes));
        self.0.insert(signal, Keeper { wanted, task });
    }

    /// Says which signals hold a backfill back now.
    pub fn follow(&self, holding: &BTreeSet<Name>) {
        for (signal, keeper) in &self.0 {
            let wanted = Some(holding.contains(signal));
            keeper
                .wanted
                .send_if_modified(|before| std::mem::replace(before, wanted) != wanted);
        }
    }
}

/// What is there of a silence, as far as is known.
#[derive(Debug, PartialEq)]
enum Known {
    /// A former supervisor may have left one.
    Unknown,
    Until(DateTime<Utc>),
    None,
}

async fn keep(
    every: Duration,
    signal: Name,
    silence: impl Silence,
    mut wanted: watch::Receiver<Option<bool>>,
    notes: Notes,
) {
    let mut known = Known::Unknown;
    loop {
        let wants = *wanted.borrow_and_update();
        let mut settled = false;
        match wants {
            Some(true) => match silence.hold(LASTING).await {
                Ok(held) => {
                    if !matches!(known, Known::Until(_)) {
                        tracing::info!(%signal, id = held.id, until = %held.until, "its alert is silenced while it holds a backfill back");
                    }
                    known = Known::Until(held.until);
                    notes.send(note(&signal, Some(held.until), None));
                }
                Err(error) => {
                    tracing::warn!(%signal, %error, "its alert could not be silenced");
                    let until = match known {
                        Known::Until(until) => Some(until),
                        _ => None,
                    };
                    notes.send(note(&signal, until, Some(&error)));
                }
            },
            Some(false) if known != Known::None => match silence.release().await {
                Ok(ended) => {
                    if ended > 0 {
                        tracing::info!(%signal, "the silence of its alert is over");
                    }
                    (known, settled) = (Known::None, true);
                    notes.send(note(&signal, None, None));
                }
                Err(error) => {
                    tracing::warn!(%signal, %error, "the silence of its alert could not be ended; it ends by itself");
                    notes.send(note(&signal, None, Some(&error)));
                }
            },
            Some(false) | None => settled = true,
        }
        let changed = if settled {
            wanted.changed().await
        } else {
            match tokio::time::timeout(every, wanted.changed()).await {
                Ok(changed) => changed,
                Err(_) => Ok(()),
            }
        };
        if changed.is_err() {
            return;
        }
    }
}

fn note(signal: &Name, until: Option<DateTime<Utc>>, problem: Option<&AdapterError>) -> Note {
    let problem = problem.map(ToString::to_string);
    Note::Seen(
        "silence",
        Observation {
            key: signal.to_string(),
            as_of: Utc::now(),
            json: serde_json::json!({ "until": until, "problem": problem }).to_string(),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::event::{LimitChange, Payload},
        net::Cause,
        plan::testing::Night,
    };
    use std::sync::{
        Mutex,
        mpsc::{Receiver, sync_channel},
    };
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    /// Says each call, and refuses as often as told.
    struct Server {
        calls: UnboundedSender<&'static str>,
        refusals: Mutex<u32>,
    }

    impl Server {
        fn answer<T>(&self, call: &'static str, well: T) -> Result<T, AdapterError> {
            let _ = self.calls.send(call);
            let mut left = self.refusals.lock().unwrap();
            if *left > 0 {
                *left -= 1;
                return Err(AdapterError::new(
                    "page",
                    call,
                    Duration::ZERO,
                    Cause::Server,
                    "503",
                ));
            }
            Ok(well)
        }
    }

    #[async_trait]
    impl Silence for Server {
        async fn hold(&self, lasting: Duration) -> Result<Held, AdapterError> {
            let until = Utc::now() + chrono::TimeDelta::from_std(lasting).unwrap();
            self.answer(
                "hold",
                Held {
                    id: "1".to_owned(),
                    until,
                },
            )
        }

        async fn release(&self) -> Result<usize, AdapterError> {
            self.answer("release", 1)
        }
    }

    type Heard = (Silences, UnboundedReceiver<&'static str>, Receiver<Note>);

    /// A silence that is looked after often enough for a test, and whose server refuses so many calls.
    fn silences(refusals: u32) -> Heard {
        let (calls, heard) = unbounded_channel();
        let (sender, notes) = sync_channel(1_000);
        let mut silences = Silences::default();
        let server = Server {
            calls,
            refusals: Mutex::new(refusals),
        };
        let often = Duration::from_millis(5);
        silences.keep_every(often, "page".parse().unwrap(), server, Notes::to(sender));
        (silences, heard, notes)
    }

    fn page() -> BTreeSet<Name> {
        ["page".parse().unwrap()].into()
    }

    #[tokio::test]
    async fn it_is_made_while_the_signal_holds_looked_after_and_ended_once() {
        let (silences, mut heard, notes) = silences(0);
        silences.follow(&page());
        for _ in 0..4 {
            assert_eq!(heard.recv().await, Some("hold"));
            silences.follow(&page());
        }
        silences.follow(&BTreeSet::new());
        while heard.recv().await == Some("hold") {}
        silences.follow(&BTreeSet::new());
        silences.follow(&page());
        assert_eq!(heard.recv().await, Some("hold"), "released once, and made anew");
        drop(silences);
        let said: Vec<String> = notes.try_iter().map(|n| format!("{n:?}")).collect();
        assert!(!said[0].contains(r#"\"until\":null"#), "{}", said[0]);
        assert!(said.iter().any(|s| s.contains(r#"\"until\":null"#)), "{said:?}");
    }

    #[tokio::test]
    async fn what_a_former_supervisor_left_is_ended_when_nothing_holds_and_not_before_that_is_known() {
        let (silences, mut heard, _notes) = silences(0);
        tokio::task::yield_now().await;
        assert!(heard.try_recv().is_err(), "nobody has said yet what holds");
        silences.follow(&BTreeSet::new());
        assert_eq!(heard.recv().await, Some("release"));
    }

    #[tokio::test]
    async fn a_refusal_is_told_and_tried_again() {
        let (silences, mut heard, notes) = silences(2);
        silences.follow(&page());
        for _ in 0..4 {
            assert_eq!(heard.recv().await, Some("hold"));
        }
        let said: Vec<String> = notes.try_iter().map(|n| format!("{n:?}")).collect();
        assert!(said[0].contains("503") && said[1].contains("503"), "{said:?}");
        assert!(said[2].contains(r#"\"problem\":null"#), "{said:?}");
    }

    #[test]
    fn only_a_signal_that_stops_a_live_backfill_holds_it() {
        let mut night = Night::new(3).signals(&["page"]);
        assert_eq!(
            holding(&night.state),
            BTreeSet::new(),
            "its first samples are waited for"
        );
        for (to, rule, holds) in [
            (0, Rule::Pause, true),
            (0, Rule::Latch, true),
            (0, Rule::Critical, true),
            (0, Rule::Blind, false),
            (2, Rule::Cut, false),
        ] {
            let change = LimitChange {
                from: 4,
                to,
                rule,
                signal: Some("page".parse().unwrap()),
                why: "because".to_owned(),
                checkpoint: String::new(),
            };
            night.ours(Payload::LimitChanged { change });
            assert_eq!(!holding(&night.state).is_empty(), holds, "{rule:?}");
        }
    }
}
