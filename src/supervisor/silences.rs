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
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
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
    /// Sees to it that there is one. `None` if that of `before` was ended by somebody else: then none is made.
    async fn hold(&self, lasting: Duration, before: Option<&Held>) -> Result<Option<Held>, AdapterError>;
    /// Ends it; none is no error.
    async fn release(&self) -> Result<usize, AdapterError>;
}

#[async_trait]
impl Silence for Silencer {
    async fn hold(&self, lasting: Duration, before: Option<&Held>) -> Result<Option<Held>, AdapterError> {
        match before {
            Some(before) => self.hold_on(lasting, before).await,
            None => Self::hold(self, lasting).await.map(Some),
        }
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

/// One task for each signal that is to be silenced. Dropped, the tasks end, and their silences up to ten minutes later;
/// see [`Silences::end`].
#[derive(Debug, Default)]
pub struct Silences(BTreeMap<Name, Keeper>);

#[derive(Debug)]
struct Keeper {
    wanted: watch::Sender<Wanted>,
    /// The last [`Wanted::end`] that was tried.
    ended: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

/// What a keeper is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Wanted {
    /// Whether there is to be a silence; `None`: nobody knows yet.
    hold: Option<bool>,
    /// How often its end was waited for.
    end: u64,
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
        let (wanted, hears) = watch::channel(Wanted::default());
        let (tells, ended) = watch::channel(0);
        let task = tokio::spawn(keep(every, signal.clone(), silence, (hears, tells), notes));
        let keeper = Keeper { wanted, ended, task };
        self.0.insert(signal, keeper);
    }

    /// Says which signals hold a backfill back now.
    pub fn follow(&self, holding: &BTreeSet<Name>) {
        for (signal, keeper) in &self.0 {
            let hold = Some(holding.contains(signal));
            keeper
                .wanted
                .send_if_modified(|wanted| std::mem::replace(&mut wanted.hold, hold) != hold);
        }
    }

    /// Ends all silences, those that a former supervisor may have left too, and waits until that was tried once of each,
    /// at most for `within`. What could not be ended ends by itself.
    pub async fn end(&self, within: Duration) {
        let end = |keeper: &Keeper| {
            keeper.wanted.send_modify(|wanted| {
                wanted.hold = Some(false);
                wanted.end += 1;
            });
            let (wanted, mut ended) = (keeper.wanted.borrow().end, keeper.ended.clone());
            // An error: the task is gone, and nothing is to be waited for.
            async move { drop(ended.wait_for(|done| *done >= wanted).await) }
        };
        let all = futures::future::join_all(self.0.values().map(end));
        if tokio::time::timeout(within, all).await.is_err() {
            tracing::info!("not every silence could be ended in time; it ends by itself");
        }
    }

    /// Takes over from those before a change of the configuration. One whose settings are the `same` goes on with what
    /// it knows. Returns those that the configuration has no more: they are to be ended.
    #[must_use]
    pub fn go_on(&mut self, before: Self, same: impl Fn(&Name) -> bool) -> Self {
        let mut gone = Self::default();
        for (signal, keeper) in before.0 {
            match self.0.entry(signal) {
                Entry::Vacant(place) => drop(gone.0.insert(place.into_key(), keeper)),
                Entry::Occupied(mut made) => {
                    if same(made.key()) {
                        made.insert(keeper);
                    }
                }
            }
        }
        gone
    }
}

/// What is there of a silence, as far as is known.
#[derive(Debug, PartialEq)]
enum Known {
    /// A former supervisor may have left one.
    Unknown,
    There(Held),
    /// Somebody ended it by hand: there is to be none while this hold lasts.
    Unwanted,
    None,
}

impl Known {
    const fn there(&self) -> Option<&Held> {
        match self {
            Self::There(held) => Some(held),
            Self::Unknown | Self::Unwanted | Self::None => None,
        }
    }
}

/// What is said of a silence that somebody ended.
const UNWANTED: &str = "somebody ended its silence by hand: none is made again while this hold lasts";

async fn keep(
    every: Duration,
    signal: Name,
    silence: impl Silence,
    (mut wanted, ended): (watch::Receiver<Wanted>, watch::Sender<u64>),
    notes: Notes,
) {
    let mut known = Known::Unknown;
    loop {
        let wants = *wanted.borrow_and_update();
        let mut settled = false;
        match wants.hold {
            Some(true) if known == Known::Unwanted => settled = true,
            Some(true) => match silence.hold(LASTING, known.there()).await {
                Ok(Some(held)) => {
                    if known.there().is_none() {
                        tracing::info!(%signal, id = held.id, until = %held.until, "its alert is silenced while it holds a backfill back");
                    }
                    notes.send(note(&signal, Some(held.until), None));
                    known = Known::There(held);
                }
                Ok(None) => {
                    tracing::info!(%signal, "{UNWANTED}");
                    notes.send(note(&signal, None, Some(UNWANTED.to_owned())));
                    (known, settled) = (Known::Unwanted, true);
                }
                Err(error) => {
                    tracing::warn!(%signal, %error, "its alert could not be silenced");
                    let until = known.there().map(|held| held.until);
                    notes.send(note(&signal, until, Some(error.to_string())));
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
                    notes.send(note(&signal, None, Some(error.to_string())));
                }
            },
            Some(false) | None => settled = true,
        }
        ended.send_replace(wants.end);
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

fn note(signal: &Name, until: Option<DateTime<Utc>>, problem: Option<String>) -> Note {
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
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, sync_channel},
    };
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    /// Says each call, and refuses as often as told.
    struct Server {
        calls: UnboundedSender<&'static str>,
        refusals: Mutex<u32>,
        /// Somebody ends each silence at once, by hand.
        unwanted: Arc<AtomicBool>,
        /// No end is ever answered.
        hangs: bool,
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
        async fn hold(&self, lasting: Duration, before: Option<&Held>) -> Result<Option<Held>, AdapterError> {
            let until = Utc::now() + chrono::TimeDelta::from_std(lasting).unwrap();
            let held = Held {
                id: "1".to_owned(),
                until,
            };
            let ended = before.is_some() && self.unwanted.load(Ordering::SeqCst);
            self.answer("hold", Some(held).filter(|_| !ended))
        }

        async fn release(&self) -> Result<usize, AdapterError> {
            let answer = self.answer("release", 1);
            if self.hangs {
                return std::future::pending().await;
            }
            answer
        }
    }

    type Heard = (Silences, UnboundedReceiver<&'static str>, Receiver<Note>);

    /// A silence that is looked after often enough for a test, and whose server refuses so many calls.
    fn silences(refusals: u32) -> Heard {
        with(|server| *server.refusals.lock().unwrap() = refusals)
    }

    fn with(change: impl FnOnce(&mut Server)) -> Heard {
        let (calls, heard) = unbounded_channel();
        let (sender, notes) = sync_channel(1_000);
        let mut silences = Silences::default();
        let mut server = Server {
            calls,
            refusals: Mutex::new(0),
            unwanted: Arc::default(),
            hangs: false,
        };
        change(&mut server);
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

    /// What was called and not yet looked at.
    fn called(heard: &mut UnboundedReceiver<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| heard.try_recv().ok()).collect()
    }

    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test]
    async fn at_the_end_it_is_ended_before_anything_else_happens_and_can_begin_again() {
        let (silences, mut heard, _notes) = silences(0);
        silences.follow(&page());
        assert_eq!(heard.recv().await, Some("hold"));
        silences.end(LONG).await;
        assert_eq!(called(&mut heard).last(), Some(&"release"));
        silences.end(LONG).await;
        assert!(called(&mut heard).is_empty(), "there is none any more");
        silences.follow(&page());
        assert_eq!(heard.recv().await, Some("hold"));
    }

    #[tokio::test]
    async fn one_that_a_former_supervisor_left_is_ended_too() {
        let (silences, mut heard, _notes) = silences(0);
        silences.end(LONG).await;
        assert_eq!(called(&mut heard), ["release"]);
    }

    #[tokio::test]
    async fn an_end_waits_neither_for_a_server_that_refuses_nor_for_one_that_hangs() {
        let (silences, mut heard, _notes) = silences(1);
        silences.end(LONG).await;
        assert_eq!(called(&mut heard).first(), Some(&"release"));
        let (silences, mut heard, _notes) = with(|server| server.hangs = true);
        let begun = std::time::Instant::now();
        silences.end(Duration::from_millis(50)).await;
        assert_eq!(called(&mut heard), ["release"]);
        assert!(begun.elapsed() < Duration::from_secs(60));
        Silences::default().end(LONG).await;
    }

    #[tokio::test]
    async fn one_that_somebody_ended_by_hand_is_not_made_again_before_the_next_hold() {
        let unwanted = Arc::new(AtomicBool::new(true));
        let (silences, mut heard, notes) = with(|server| server.unwanted = unwanted.clone());
        silences.follow(&page());
        let mut said = String::new();
        while !said.contains("somebody ended its silence by hand") {
            tokio::time::sleep(Duration::from_millis(1)).await;
            said.extend(notes.try_iter().map(|n| format!("{n:?}")));
        }
        // Made once, found ended, and then left alone, however long it is looked after.
        tokio::time::sleep(Duration::from_millis(50)).await;
        silences.follow(&page());
        assert_eq!(called(&mut heard), ["hold", "hold"]);
        // A change of the configuration does not make it forget that.
        let mut after = Silences::default();
        let (calls, _elsewhere) = unbounded_channel();
        let server = Server {
            calls,
            refusals: Mutex::new(0),
            unwanted: Arc::default(),
            hangs: false,
        };
        let (sender, _notes) = sync_channel(10);
        after.keep_every(
            Duration::from_millis(5),
            "page".parse().unwrap(),
            server,
            Notes::to(sender),
        );
        let gone = after.go_on(silences, |_| true);
        assert!(gone.0.is_empty());
        after.follow(&page());
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(called(&mut heard).is_empty());
        after.follow(&BTreeSet::new());
        assert_eq!(heard.recv().await, Some("release"));
        unwanted.store(false, Ordering::SeqCst);
        after.follow(&page());
        assert_eq!(heard.recv().await, Some("hold"), "the next hold has one");
    }

    #[tokio::test]
    async fn one_that_is_not_configured_any_more_is_handed_out_to_be_ended() {
        let (silences, mut heard, _notes) = silences(0);
        silences.follow(&page());
        assert_eq!(heard.recv().await, Some("hold"));
        let gone = Silences::default().go_on(silences, |_| true);
        gone.end(LONG).await;
        assert_eq!(called(&mut heard).last(), Some(&"release"));
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
