//! What the screen speaks to in earnest: the journal, the planner over it, and the start of a supervisor.

use super::{
    driver::Starter,
    effect::Watch,
    estimate::{self, Estimate},
    feeder::{News, Source},
    inside::eyes::{Eyes, Own},
    model::{Configured, ExecutorView, LeaseView, SignalView},
    parts::PartsLog,
    plans::surroundings,
    writer::{Shown, open_journal},
};
use crate::{
    config::{self, Config, Places},
    domain::{
        Time,
        event::{self, Event, Payload},
        ids::{AttemptId, BackfillId, Name},
        state::{Chunk, State},
        text,
    },
    executor::local,
    journal::{Follower, Journal, Scope, Sightings},
    plan::{decide::Surroundings, throttle::Report},
    supervisor::glance,
};
use chrono::{Duration, Utc};
use std::{
    collections::{BTreeMap, VecDeque},
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

/// How much of the past the charts show.
const WINDOW: Duration = Duration::hours(1);
/// How old an estimate gets while events arrive, and while none do.
const MOVING: Duration = Duration::seconds(2);
const STEADY: Duration = Duration::seconds(15);
/// Events that are shown at first.
const FIRST_EVENTS: usize = 300;
/// The tail of a log that is read.
const LOG_TAIL: u64 = 128 * 1024;
/// Lines of it that are kept.
const LOG_LINES: usize = 500;

/// Follows the journal of whatever configuration there is; fills by itself when one appears.
pub struct JournalSource {
    explicit: Option<PathBuf>,
    shown: Shown,
    opened: Option<Opened>,
}

struct Opened {
    config: Config,
    follower: Follower,
    told: bool,
    samples: BTreeMap<Name, VecDeque<Poll>>,
    parts: PartsLog,
    limits: Option<(BackfillId, Limits)>,
    sightings: Sightings,
    laid_over: Option<Arc<State>>,
    eyes: Eyes,
    estimate: Option<(Asked, Estimate)>,
}

/// What an estimate was asked for; another question is answered at once.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Asked {
    backfill: BackfillId,
    assumed: (u32, bool),
    what_if: Option<u32>,
    head: u64,
}

/// When a signal was polled, its valid value, else what was wrong.
type Poll = (Time, Option<f64>, Option<String>);

/// Limit and running weight over time.
type Limits = VecDeque<(Time, u32, u32)>;

impl JournalSource {
    /// A source for the configuration that `explicit` names, or for the one that is found.
    pub fn new(explicit: Option<PathBuf>) -> Self {
        Self {
            explicit,
            shown: Shown::default(),
            opened: None,
        }
    }

    /// The journal that it shows, for whoever writes.
    pub fn shown(&self) -> Shown {
        self.shown.clone()
    }

    /// Nothing is on the screen, and the file names another journal than the one that was opened: it was saved half,
    /// or put into place, after the screen was opened.
    fn is_elsewhere(&self) -> bool {
        let Some(opened) = self
            .opened
            .as_ref()
            .filter(|o| o.follower.state().backfills.is_empty())
        else {
            return false;
        };
        config::find(self.explicit.as_deref())
            .ok()
            .and_then(|path| Config::load_what_is_sound(&path).ok())
            .is_some_and(|config| config.journal.path != opened.config.journal.path)
    }

    fn open(&self) -> Result<Opened, String> {
        let path = config::find(self.explicit.as_deref()).map_err(|e| e.to_string())?;
        let config = Config::load_what_is_sound(&path).map_err(|e| e.to_string())?;
        let journal = open_journal(&config.journal)?;
        self.shown.set(config.journal.clone());
        let follower = Follower::new(journal).map_err(|e| e.to_string())?;
        Ok(Opened {
            config,
            follower,
            told: false,
            samples: BTreeMap::new(),
            parts: PartsLog::default(),
            limits: None,
            sightings: Sightings::default(),
            laid_over: None,
            eyes: Eyes::default(),
            estimate: None,
        })
    }
}

impl Source for JournalSource {
    fn poll(&mut self, watch: &Watch) -> Result<News, String> {
        if self.opened.is_none() || self.is_elsewhere() {
            match self.open() {
                Ok(opened) => self.opened = Some(opened),
                Err(why) => {
                    return Ok(News {
                        config: Some(Err(why)),
                        as_of: Some(Utc::now()),
                        ..News::default()
                    });
                }
            }
        }
        let Some(opened) = &mut self.opened else {
            return Ok(News::default());
        };
        opened.look(watch)
    }
}

impl Opened {
    fn look(&mut self, watch: &Watch) -> Result<News, String> {
        let now = Utc::now();
        let events = self.new_events()?;
        self.follow_config(&events);
        let state = self.state()?;
        let holder = glance::holder(self.follower.journal());
        let lease = match holder.filter(glance::is_alive) {
            Some(h) => LeaseView::Held {
                holder: h.holder,
                epoch: h.epoch,
                age: h.age.unwrap_or_default(),
            },
            None => LeaseView::Nobody,
        };
        let executors = self.executors(&state);
        let around = surroundings(&executors, &lease, self.known_signals(), &self.config.tuning, now);
        let own = self.eyes.look(&self.config, watch);
        let log = match (&watch.log, &own) {
            (Some(attempt), Own::File) => Some((attempt.clone(), self.log(attempt))),
            (Some(attempt), Own::Blind(why)) => Some((attempt.clone(), vec![format!("no log: {why}")])),
            _ => None,
        };
        let journal = self.follower.journal();
        let parts = self.parts.look(journal, watch.parts.as_ref(), now, WINDOW);
        Ok(News {
            events,
            parts: Some(parts),
            signals: Some(self.signals(&state, now)),
            estimate: Some(self.estimate(&state, watch, &around)),
            executors: Some(executors),
            lease: Some(lease),
            limits: Some(self.limits(watch, now)),
            throttle: Some(self.throttle(watch)),
            as_of: Some(now),
            // A rejected configuration is an event and a line of `status`; the journal itself can be read.
            problem: Some(None),
            log: Some(log),
            inside: Some(match own {
                Own::Seen(view) => view,
                Own::File | Own::Blind(_) => None,
            }),
            config: Some(Ok(Configured {
                file: text::clean(&self.config.path.display().to_string()),
                journal: text::clean(&self.config.journal.path.display().to_string()),
            })),
            config_fault: Some(
                self.config
                    .faults
                    .as_ref()
                    .and_then(|f| f.lines().into_iter().next()),
            ),
            state: Some(state),
            ..News::default()
        })
    }

    /// The fold with what was seen of attached backfills laid over.
    fn state(&mut self) -> Result<Arc<State>, String> {
        let folded = self.follower.state().clone();
        if !Sightings::concern(&folded) {
            return Ok(folded);
        }
        let newer = self
            .sightings
            .refresh(self.follower.journal())
            .map_err(|e| e.to_string())?;
        match &self.laid_over {
            Some(state) if !newer && state.head == folded.head => Ok(state.clone()),
            _ => {
                let mut state = (*folded).clone();
                self.sightings.lay_over(&mut state);
                let state = Arc::new(state);
                self.laid_over = Some(state.clone());
                Ok(state)
            }
        }
    }

    /// The supervisor took a changed file into force, so the screen's thresholds and executors are those of the file.
    fn follow_config(&mut self, events: &[Event]) {
        let reloaded = |e: &Event| matches!(e.payload, event::Read::Known(Payload::ConfigReloaded { .. }));
        // Of a file with faults only a part is here: it is mended sooner or later, also where nobody supervises.
        let incomplete = self.config.faults.is_some();
        if (incomplete || events.iter().any(reloaded))
            && let Ok(config) = Config::load(&self.config.path)
        {
            // The journal that is followed stays the one that was opened.
            let journal = std::mem::replace(&mut self.config, config).journal;
            self.config.journal = journal;
            self.eyes.config_changed();
        }
    }

    fn new_events(&mut self) -> Result<Vec<Event>, String> {
        let mut all = Vec::new();
        if !self.told {
            self.told = true;
            all = self
                .follower
                .journal()
                .newest_of(Scope::All, FIRST_EVENTS)
                .map_err(|e| e.to_string())?;
        }
        while let Some(events) = self.follower.poll().map_err(|e| e.to_string())? {
            all.extend(events);
        }
        Ok(all)
    }

    fn signals(&mut self, state: &State, now: Time) -> BTreeMap<Name, SignalView> {
        let mut views = BTreeMap::new();
        let warnings = warnings(self.follower.journal());
        for (name, signal) in &self.config.signals {
            let known = self.samples.entry(name.clone()).or_default();
            let from = known
                .back()
                .map_or(now - WINDOW, |(at, ..)| *at + Duration::milliseconds(1));
            for point in self
                .follower
                .journal()
                .samples_since(name, from)
                .unwrap_or_default()
            {
                let (value, problem) = match point.value {
                    Ok(value) => (Some(value), None),
                    Err(why) => (None, Some(why)),
                };
                known.push_back((point.at, value, problem));
            }
            while known.front().is_some_and(|(at, ..)| *at < now - WINDOW) {
                known.pop_front();
            }
            let blind = state.blind.get(name).map(|b| b.why.clone());
            let newest = known.back().and_then(|(.., problem)| problem.clone());
            let samples: VecDeque<_> = known.iter().map(|(at, value, _)| (*at, *value)).collect();
            let slope = slope(&samples, self.config.tuning.slope_window, now);
            let view = SignalView {
                name: name.clone(),
                unit: signal.unit,
                low: signal.low,
                soft: signal.soft,
                hard: signal.hard,
                critical: signal.critical,
                interval: signal.interval,
                protects: signal.protects,
                samples,
                slope,
                problem: newest.or(blind).or_else(|| warnings.get(name.as_str()).cloned()),
            };
            views.insert(name.clone(), view);
        }
        views
    }

    /// The signals of the configuration, and whether they protect; `None` of a file with faults.
    fn known_signals(&self) -> Option<BTreeMap<Name, bool>> {
        let each = self.config.signals.iter();
        let whole = self.config.faults.is_none();
        whole.then(|| {
            each.map(|(name, signal)| (name.clone(), signal.protects))
                .collect()
        })
    }

    fn executors(&self, state: &State) -> BTreeMap<Name, ExecutorView> {
        let seen = self
            .follower
            .journal()
            .observations("executor")
            .unwrap_or_default();
        let running = |name: &Name| {
            // What somebody else runs there takes none of our slots.
            let ours = state.backfills.values().filter(|b| b.spec.attach.is_none());
            let open = ours.flat_map(|b| b.active()).filter_map(Chunk::open);
            open.filter(|a| a.executor == *name).count() as u32
        };
        let view = |(name, config): (&Name, &config::ExecutorConfig)| {
            let last = seen.iter().find(|o| o.key == name.as_str());
            let json = last.and_then(|o| serde_json::from_str::<serde_json::Value>(&o.json).ok());
            let problem = json.and_then(|j| j.get("problem")?.as_str().map(str::to_owned));
            let view = ExecutorView {
                name: name.clone(),
                running: running(name),
                slots: config.slots(),
                levers: config.has_levers(),
                seen: last.map(|o| o.as_of),
                problem,
            };
            (name.clone(), view)
        };
        self.config.executors.iter().map(view).collect()
    }

    /// What a supervisor last told of the throttle; a text of another version tells nothing.
    fn throttle(&self, watch: &Watch) -> Option<(Time, Report)> {
        let id = watch.backfill.as_ref()?;
        glance::throttle(self.follower.journal(), id)
    }

    fn limits(&mut self, watch: &Watch, now: Time) -> Limits {
        let Some(id) = &watch.backfill else {
            self.limits = None;
            return VecDeque::new();
        };
        if self.limits.as_ref().is_none_or(|(known, _)| known != id) {
            self.limits = Some((id.clone(), VecDeque::new()));
        }
        let Some((_, known)) = &mut self.limits else {
            return VecDeque::new();
        };
        let from = known
            .back()
            .map_or(now - WINDOW, |(at, ..)| *at + Duration::milliseconds(1));
        let points = self.follower.journal().limits_since(id, from).unwrap_or_default();
        known.extend(points.iter().map(|p| (p.at, p.limit, p.running)));
        while known.front().is_some_and(|(at, ..)| *at < now - WINDOW) {
            known.pop_front();
        }
        known.clone()
    }

    /// The estimate, made anew when something else is asked, soon after something happened, and now and then because
    /// time passes.
    fn estimate(&mut self, state: &State, watch: &Watch, around: &Surroundings) -> Option<Estimate> {
        let backfill = watch.backfill.as_ref().and_then(|id| state.backfills.get(id))?;
        let asked = Asked {
            backfill: backfill.id.clone(),
            assumed: estimate::assumed(state, backfill, around),
            what_if: watch.what_if,
            head: state.head,
        };
        if let Some((known, made)) = &self.estimate {
            let age = around.now - made.at;
            let due = age < Duration::zero() || age >= if known.head == asked.head { STEADY } else { MOVING };
            let same = Asked {
                head: known.head,
                ..asked.clone()
            } == *known;
            if same && !due {
                return Some(made.clone());
            }
        }
        let since = around.now - Duration::days(1);
        let minutes = self.follower.journal().limit_minutes_since(&backfill.id, since);
        let minutes = minutes.unwrap_or_default().into_iter().map(|m| (m.at, m.limit));
        let duty = estimate::duty(minutes, around.now);
        let made = estimate::make(state, backfill, around, duty, watch.what_if);
        self.estimate = Some((asked, made.clone()));
        Some(made)
    }

    fn log(&self, attempt: &AttemptId) -> Vec<String> {
        let path = local::log_path(&Places::of(&self.config.journal.path).state, attempt);
        tail(&path).unwrap_or_else(|error| vec![format!("no log: {error}")])
    }
}

/// What is worth a word about signals whose samples are valid: a clock that is off.
fn warnings(journal: &Journal) -> BTreeMap<String, String> {
    let seen = journal.observations("signal").unwrap_or_default();
    let warning = |json: &str| {
        let json: serde_json::Value = serde_json::from_str(json).ok()?;
        json.get("warning")?.as_str().map(str::to_owned)
    };
    seen.into_iter()
        .filter_map(|o| Some((o.key, warning(&o.json)?)))
        .collect()
}

/// The last lines of a file, cleaned.
fn tail(path: &Path) -> std::io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LOG_TAIL);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // The first line of a tail is most likely half a line.
    let lines: Vec<&str> = text.lines().skip(usize::from(from > 0)).collect();
    let skip = lines.len().saturating_sub(LOG_LINES);
    Ok(lines.into_iter().skip(skip).map(text::clean).collect())
}

/// Least-squares slope of the samples in the window, in units per second; `None` under eight samples (law C2).
fn slope(samples: &VecDeque<(Time, Option<f64>)>, window: std::time::Duration, now: Time) -> Option<f64> {
    let from = now - Duration::from_std(window).ok()?;
    let recent = samples.iter().rev().take_while(|(at, _)| *at >= from);
    let points: Vec<(f64, f64)> = recent
        .filter_map(|(at, v)| v.map(|v| ((*at - now).num_milliseconds() as f64 / 1000.0, v)))
        .collect();
    if points.len() < 8 {
        return None;
    }
    let n = points.len() as f64;
    let (sx, sy) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
    let (mx, my) = (sx / n, sy / n);
    let (num, den) = points.iter().fold((0.0, 0.0), |(a, b), (x, y)| {
        (a + (x - mx) * (y - my), b + (x - mx).powi(2))
    });
    (den > 0.0).then(|| num / den)
}

/// Starts a detached `backfill run`: own session, no terminal, log file, folder `/`.
pub struct Detached {
    /// The configuration's file, as it was named.
    pub explicit: Option<PathBuf>,
    /// The journal that the screen shows.
    pub shown: Shown,
}

impl Starter for Detached {
    fn start(&self) -> Result<String, String> {
        let path = config::find(self.explicit.as_deref()).map_err(|e| e.to_string())?;
        let config = Config::load(&path).map_err(|e| e.to_string())?;
        // What was agreed to is what the screen shows.
        if let Some(shown) = self.shown.get().filter(|p| p.path != config.journal.path) {
            return Err(format!(
                "nothing was started: the file now names the journal {}, this screen shows {}; open it again",
                text::clean(&config.journal.path.display().to_string()),
                text::clean(&shown.path.display().to_string())
            ));
        }
        let child = spawn(&config, &[]).map_err(|e| format!("no supervisor was started: {e}"))?;
        let pid = child.id();
        // Whoever reaps it must not wait for it on the screen's threads.
        let mut child = child;
        std::thread::sleep(std::time::Duration::from_millis(300));
        match child.try_wait() {
            Ok(Some(status)) if !status.success() => Err(last_words(&config, status.code())),
            _ => {
                std::thread::Builder::new()
                    .name("reaper".to_owned())
                    .spawn(move || drop(child.wait()))
                    .map_err(|e| e.to_string())?;
                Ok(format!("supervisor started, pid {pid}"))
            }
        }
    }
}

/// The file into which a detached supervisor's words go.
pub fn output_file(config: &Config) -> PathBuf {
    Places::of(&config.journal.path).state.join("supervisor.out")
}

/// Spawns a supervisor of everything that was started and has not ended.
///
/// # Errors
/// The program or its output file cannot be opened.
pub fn spawn(config: &Config, more: &[String]) -> std::io::Result<std::process::Child> {
    let out = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(output_file(config))?;
    Command::new(crate::host::own_binary()?)
        .args(["run", "--detached", "--config"])
        .arg(&config.path)
        .args(more)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .current_dir("/")
        .spawn()
}

fn last_words(config: &Config, code: Option<i32>) -> String {
    let lines = tail(&output_file(config)).unwrap_or_default();
    let said = lines.last().map_or("it said nothing", String::as_str);
    match code {
        Some(code) => format!("the supervisor ended at once with {code}: {said}"),
        None => format!("the supervisor was killed at once: {said}"),
    }
}
