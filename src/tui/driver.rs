//! Carries out effects. The journal and the start of a supervisor have threads of their own, so that a disk that
//! hangs delays the answer and never a key.

use super::{
    attaching::Ordered,
    effect::{Effect, Planner, payloads},
    feeder::Feeder,
    model::{Ask, Feed},
    msg::{Answer, Msg},
    terminal::run::{Hands, Inbox},
};
use crate::{
    domain::{Time, event::Payload, ids::BackfillId, state::State, text::one_line},
    plan::attach_spec,
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread,
};

/// How many commands may wait for the journal.
const QUEUE: usize = 16;
/// How often a plan is made anew because the journal moved on between reading and writing it.
const TRIES: u32 = 5;

/// Events that are to be appended in one transaction, in the name of the operator at this screen.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The backfill they are about.
    pub backfill: Option<BackfillId>,
    /// What happened.
    pub payloads: Vec<Payload>,
    /// The operator's reason.
    pub reason: Option<String>,
    /// The journal must still end here; `None` for commands that can only reduce work.
    pub head: Option<u64>,
}

/// What came of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// All of it is durable; this is the place of the last event.
    Accepted {
        /// The place.
        seq: u64,
    },
    /// Nothing was appended, and why.
    Refused {
        /// In words.
        why: String,
    },
    /// Nothing was appended: the journal had moved on.
    Conflict,
}

/// Who writes into the journal for the screen. Called from the driver's thread only; it may take its time.
pub trait Journalist: Send {
    /// The state as the journal stands now.
    ///
    /// # Errors
    /// The journal cannot be read, in words.
    fn fresh(&mut self) -> Result<Arc<State>, String>;

    /// Appends, durably or not at all.
    fn append(&mut self, order: &Order) -> Appended;
}

/// Who starts a detached supervisor.
pub trait Starter: Send + Sync {
    /// Starts it and returns what was started, in words.
    ///
    /// # Errors
    /// It could not be started, in words.
    fn start(&self) -> Result<String, String>;
}

enum Job {
    Command {
        op: u64,
        order: Order,
    },
    Attach {
        op: u64,
        ordered: Box<Ordered>,
    },
    Submit {
        op: u64,
        backfill: Option<BackfillId>,
        ask: Ask,
        digest: String,
        /// What the operator saw beside the journal: signals, executors, lease.
        feed: Box<Feed>,
    },
}

/// The driver of the real screen.
pub struct Driver {
    jobs: SyncSender<Job>,
    feeder: Feeder,
    starter: Arc<dyn Starter>,
    starting: Arc<AtomicBool>,
    inbox: Inbox,
}

impl Driver {
    /// Starts the thread that speaks to the journal.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        mut journalist: Box<dyn Journalist>,
        planner: Arc<dyn Planner>,
        starter: Arc<dyn Starter>,
        feeder: Feeder,
        inbox: Inbox,
        clock: impl Fn() -> Time + Send + 'static,
    ) -> io::Result<Self> {
        let (jobs, inbound) = sync_channel::<Job>(QUEUE);
        let answers = inbox.clone();
        thread::Builder::new().name("driver".to_owned()).spawn(move || {
            for job in inbound {
                let (op, answer) = match job {
                    Job::Command { op, order } => (op, command(journalist.as_mut(), &order)),
                    Job::Attach { op, ordered } => (op, attach(journalist.as_mut(), &ordered)),
                    Job::Submit {
                        op,
                        backfill,
                        ask,
                        digest,
                        feed,
                    } => {
                        let wanted = Wanted {
                            backfill: backfill.as_ref(),
                            ask: &ask,
                            digest: &digest,
                        };
                        (
                            op,
                            submit(journalist.as_mut(), planner.as_ref(), &wanted, *feed, &clock),
                        )
                    }
                };
                answers.answer(op, answer);
            }
        })?;
        Ok(Self {
            jobs,
            feeder,
            starter,
            starting: Arc::default(),
            inbox,
        })
    }

    /// Hands a job to the journal's thread; a full queue is an answer too.
    fn send(&self, op: u64, job: Job) -> Option<Msg> {
        let why = match self.jobs.try_send(job) {
            Ok(()) => return None,
            Err(TrySendError::Full(_)) => format!("{QUEUE} commands wait for the journal already"),
            Err(TrySendError::Disconnected(_)) => "the journal's thread has ended".to_owned(),
        };
        Some(refused(op, why))
    }

    fn start_supervisor(&self, op: u64) -> Option<Msg> {
        if self.starting.swap(true, Ordering::SeqCst) {
            return Some(refused(op, "a start is under way already".to_owned()));
        }
        let (starter, starting, inbox) = (self.starter.clone(), self.starting.clone(), self.inbox.clone());
        let spawned = thread::Builder::new().name("starter".to_owned()).spawn(move || {
            let answer = match starter.start() {
                Ok(what) => Answer::Done { what },
                Err(why) => Answer::Refused {
                    why: one_line(&why, 300),
                },
            };
            starting.store(false, Ordering::SeqCst);
            inbox.answer(op, answer);
        });
        spawned.err().map(|error| {
            self.starting.store(false, Ordering::SeqCst);
            refused(op, error.to_string())
        })
    }
}

fn refused(op: u64, why: String) -> Msg {
    Msg::Answer {
        op,
        answer: Answer::Refused { why },
    }
}

impl Hands for Driver {
    fn take(&mut self, effect: Effect, feed: &Feed) -> Option<Msg> {
        match effect {
            Effect::Command {
                op,
                backfill,
                payload,
                reason,
            } => {
                let order = Order {
                    backfill,
                    payloads: vec![payload],
                    reason,
                    head: None,
                };
                self.send(op, Job::Command { op, order })
            }
            Effect::Submit {
                op,
                backfill,
                ask,
                digest,
            } => {
                let feed = Box::new(feed.clone());
                let job = Job::Submit {
                    op,
                    backfill,
                    ask,
                    digest,
                    feed,
                };
                self.send(op, job)
            }
            Effect::Attach { op, ordered } => self.send(op, Job::Attach { op, ordered }),
            Effect::StartSupervisor { op } => self.start_supervisor(op),
            Effect::Watch(watch) => {
                self.feeder.watch(watch);
                None
            }
            Effect::Refresh => {
                self.feeder.refresh();
                None
            }
            // The scout's, and the run loop's own.
            Effect::Scout { .. } | Effect::Copy(_) | Effect::Suspend | Effect::Quit => None,
        }
    }
}

fn command(journalist: &mut dyn Journalist, order: &Order) -> Answer {
    match journalist.append(order) {
        Appended::Accepted { seq } => Answer::Accepted { seq },
        Appended::Refused { why } => Answer::Refused {
            why: one_line(&why, 300),
        },
        Appended::Conflict => Answer::Refused {
            why: "the journal reported a conflict for a command without a head".to_owned(),
        },
    }
}

/// Starts an attached backfill, unless the same was attached to or its name was taken meanwhile.
pub fn attach(journalist: &mut dyn Journalist, ordered: &Ordered) -> Answer {
    let refused = |why: String| Answer::Refused {
        why: one_line(&why, 300),
    };
    let spec = &ordered.spec;
    for _ in 0..TRIES {
        let state = match journalist.fresh() {
            Ok(state) => state,
            Err(why) => return refused(why),
        };
        if let Some(same) = attach_spec::attached_already(&state, spec) {
            return refused(format!(
                "{} is attached to it already: show {}",
                same.spec.name, same.id
            ));
        }
        if attach_spec::is_live(&state, &spec.name) {
            return refused(format!("{} is the name of another backfill", spec.name));
        }
        let order = Order {
            backfill: Some(ordered.id.clone()),
            payloads: vec![Payload::Started {
                spec: Box::new(spec.clone()),
                hash: ordered.hash.clone(),
            }],
            reason: None,
            head: Some(state.head),
        };
        match journalist.append(&order) {
            Appended::Accepted { seq } => return Answer::Accepted { seq },
            Appended::Refused { why } => return refused(why),
            Appended::Conflict => {}
        }
    }
    refused(format!(
        "the journal moved on {TRIES} times while this was written; try again"
    ))
}

/// What the operator confirmed.
pub struct Wanted<'a> {
    /// The backfill it is about.
    pub backfill: Option<&'a BackfillId>,
    /// What was asked for.
    pub ask: &'a Ask,
    /// Digest of the plan that the operator saw.
    pub digest: &'a str,
}

/// Makes the plan again on the journal as it stands. Only the plan that was confirmed is appended, with the head at
/// which it was made; if the journal moves on meanwhile, it is made once more.
pub fn submit(
    journalist: &mut dyn Journalist,
    planner: &dyn Planner,
    wanted: &Wanted<'_>,
    mut feed: Feed,
    clock: &dyn Fn() -> Time,
) -> Answer {
    for _ in 0..TRIES {
        feed.state = match journalist.fresh() {
            Ok(state) => state,
            Err(why) => {
                return Answer::Refused {
                    why: one_line(&why, 300),
                };
            }
        };
        let now = clock();
        let preview = planner.preview(&feed, wanted.backfill, wanted.ask, now);
        if preview.digest != wanted.digest {
            return Answer::Changed(Box::new(preview));
        }
        let payloads = match payloads(&feed.state, wanted.backfill, wanted.ask, &preview, now) {
            Ok(payloads) => payloads,
            Err(why) => return Answer::Refused { why },
        };
        let order = Order {
            backfill: wanted.backfill.cloned(),
            payloads,
            reason: None,
            head: Some(feed.state.head),
        };
        match journalist.append(&order) {
            Appended::Accepted { seq } => return Answer::Accepted { seq },
            Appended::Refused { why } => {
                return Answer::Refused {
                    why: one_line(&why, 300),
                };
            }
            Appended::Conflict => {}
        }
    }
    Answer::Refused {
        why: format!("the journal moved on {TRIES} times while this was written; try again"),
    }
}
