//! `__shim`: the process between the supervisor and a command, and the one place that makes sure that an attempt
//! runs once.
//!
//! It claims the attempt by a lock that the kernel frees when it dies, asks the journal once more, has a process wait
//! at a gate, writes down who that is, and only then opens the gate. Whatever dies at whatever step, the files say
//! afterwards whether the command can have run. It has a session of its own and outlives the supervisor.
//!
//! A shim whose run left nothing behind takes the next order of its supervisor, because starting a process costs more
//! than everything else that is done for a chunk. It never has more than one run, and ends when its supervisor does
//! not listen any more.

use super::{
    cgroup::RunGroup,
    kill_point::{self, reached},
    ledger::{self, write_start},
    log::{CappedLog, LogEnd},
    order::{Answer, ShimOrder},
    place::Place,
    record::{
        ChildRecord, ExitRecord, Fence, Found, SHIM_MARK, read, shim_mark, write_atomically, write_new,
    },
    verdict::lock,
    watch::{self, Limits, Wakeups},
};
use crate::journal::AttemptStanding;
use crate::{
    domain::{
        failure::{Failure, FailureClass},
        ids::AttemptId,
        text,
    },
    host::{boot_id, own_binary, process_stamp},
};
use chrono::Utc;
use rustix::process::Pid;
use std::{
    ffi::OsString,
    fs::File,
    io::{self, BufRead, PipeWriter, Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

/// The largest order that is read, in bytes.
const ORDER_CAP: u64 = 16 << 20;
/// How long output may still come once every process of the run is gone.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// How long a shim waits for room on a full disk, and how often it tries.
const FULL_DISK_PATIENCE: Duration = Duration::from_secs(24 * 3600);
const FULL_DISK_RETRY: Duration = Duration::from_millis(500);

/// The journal's answer that lets an attempt start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted;

/// The journal's answer that does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotWanted(pub String);

/// Asks the journal whether an attempt is wanted by the supervisor of this epoch.
pub type Check<'a> = &'a dyn Fn(&AttemptId, u64) -> Result<Wanted, NotWanted>;

/// `__shim JOURNAL`, with orders on stdin, one at a time.
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(journal) = arguments.next().map(PathBuf::from) else {
        return ExitCode::from(2);
    };
    let check = |attempt: &AttemptId, epoch| match crate::journal::check_attempt(&journal, attempt, epoch) {
        Ok(AttemptStanding::Wanted) => Ok(Wanted),
        Ok(AttemptStanding::NotWanted(why)) => Err(NotWanted(why)),
        Err(error) => Err(NotWanted(error.to_string())),
    };
    // Orphans of a run become children of the shim and not of the system, so that none is lost sight of.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let mut shim = match Shim::new() {
        Ok(shim) => shim,
        Err(e) => {
            say(&disk("listen to signals", &e));
            return ExitCode::FAILURE;
        }
    };
    let mut orders = io::stdin().lock();
    loop {
        let order = match next_order(&mut orders) {
            Ok(Some(order)) => order,
            Ok(None) => return ExitCode::SUCCESS,
            Err(HalfAnOrder) => return ExitCode::from(2),
        };
        // Fails for the leader of a process group, which either is one by this very call or out of the supervisor's
        // reach already.
        let _ = rustix::process::setsid();
        match shim.carry_out(&order, &check) {
            Ok(After::Free) => say(&Answer::Free),
            Ok(After::Spent) => return ExitCode::SUCCESS,
            Err(answer) => {
                say(&answer);
                return ExitCode::FAILURE;
            }
        }
    }
}

/// A supervisor that died while it wrote leaves half an order, which is none.
struct HalfAnOrder;

/// Waits for the next order; `None` when none will come.
fn next_order(orders: &mut impl BufRead) -> Result<Option<ShimOrder>, HalfAnOrder> {
    let mut line = Vec::new();
    match orders.take(ORDER_CAP).read_until(b'\n', &mut line) {
        Ok(0) => Ok(None),
        Ok(_) if line.ends_with(b"\n") => serde_json::from_slice(&line).map(Some).or(Err(HalfAnOrder)),
        Ok(_) | Err(_) => Err(HalfAnOrder),
    }
}

/// Tells the supervisor, if it still listens.
fn say(answer: &Answer) {
    let Ok(mut line) = serde_json::to_vec(answer) else {
        return;
    };
    line.push(b'\n');
    let _ = io::stdout().lock().write_all(&line);
}

/// What a shim is good for after a run.
enum After {
    /// Another one: nothing of this one is left.
    Free,
    /// Nothing: it was told to end, or something of the run may still be there.
    Spent,
}

/// One process that carries out orders, one after the other. The next one finds nothing of the last.
struct Shim {
    pid: i32,
    start: u64,
    /// How many orders it has carried out.
    before: u32,
    wakeups: Wakeups,
}

impl Shim {
    fn new() -> io::Result<Self> {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        Ok(Self {
            pid,
            start: start_of(pid),
            before: 0,
            wakeups: Wakeups::new()?,
        })
    }

    /// From the claim to the exit record. The error is the answer when nothing was started here.
    fn carry_out(&mut self, order: &ShimOrder, check: Check<'_>) -> Result<After, Answer> {
        let attempt = &order.attempt;
        let place = Place::new(&order.state(), attempt);
        place
            .make_folder()
            .map_err(|e| disk("make the attempt's folder", &e))?;
        let claim = claim(&place, Duration::from_millis(order.patience_ms))?;
        reached(kill_point::SHIM_CLAIMED);
        may_start(&place, order, check)?;
        reached(kill_point::SHIM_CHECKED);

        self.wakeups.busy(true);
        let start = Start::prepare(self, &place, order)?;
        let run = start.record(&place, order)?;
        let ended = start.open_and_watch(&place, order, run, &mut self.wakeups);
        reached(kill_point::COMMAND_ENDED);
        let written = write_down(&place, &ended.record);
        reached(kill_point::EXIT_RECORDED);
        drop(claim);
        self.wakeups.busy(false);
        self.before += 1;
        // Without its record the run counts as killed, and whoever finds it ends what carries the mark of its shim.
        let free = written && ended.clean && !self.wakeups.told();
        Ok(if free { After::Free } else { After::Spent })
    }
}

fn start_of(pid: i32) -> u64 {
    process_stamp(pid).map_or(0, |s| s.start)
}

/// Whether the attempt, whose claim is locked, may start its command.
fn may_start(place: &Place, order: &ShimOrder, check: Check<'_>) -> Result<(), Answer> {
    let attempt = &order.attempt;
    let unreadable = |e: io::Error| disk("read the attempt's records", &e);
    if let Some(run) = started_ever(place, order, attempt).map_err(unreadable)? {
        return Err(Answer::Exists { run });
    }
    if place.cancel().exists() {
        return Err(Answer::NotWanted {
            why: "cancelled before it started".to_owned(),
        });
    }
    // A damaged fence is one of before a crash of the host, which no order has outlived.
    let fence = read::<Fence>(&place.fence()).map_err(unreadable)?;
    if matches!(fence, Found::Whole(fence) if fence.stops(order.sent)) {
        let why = "it came so late that it had been found never to have run".to_owned();
        return Err(Answer::NotWanted { why });
    }
    check(attempt, order.epoch)
        .map(|Wanted| ())
        .map_err(|NotWanted(why)| Answer::NotWanted { why })
}

/// Writes the exit record. While the disk is full this waits, the claim locked and the slot taken, rather than have a
/// run that succeeded count as killed. Any other error ends it: without the record the run counts as killed, which is
/// the careful reading. Gives whether the record is there.
fn write_down(place: &Place, ended: &ExitRecord) -> bool {
    let until = Instant::now() + FULL_DISK_PATIENCE;
    while let Err(e) = write_atomically(&place.exit(), ended) {
        let full = matches!(
            e.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        );
        if !full || Instant::now() >= until {
            return false;
        }
        std::thread::sleep(FULL_DISK_RETRY);
    }
    true
}

/// Locks the claim. A loser waits a little: the holder may be about to start the command, or be a shim of an earlier
/// supervisor that will find itself not wanted and let go, or somebody who only looks.
fn claim(place: &Place, patience: Duration) -> Result<File, Answer> {
    let until = Instant::now() + patience;
    loop {
        let locked = place
            .open_claim()
            .and_then(lock)
            .map_err(|e| disk("lock the attempt's claim", &e))?;
        if let Some(file) = locked {
            return Ok(file);
        }
        if let Ok(Some(run)) = started_before(place) {
            return Err(Answer::Exists { run });
        }
        if Instant::now() >= until {
            let why = "another shim holds the attempt and does not start it".to_owned();
            return Err(Answer::Unknown { why });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The run's name, if a command of this attempt can have been started, in this boot or before it.
fn started_ever(place: &Place, order: &ShimOrder, attempt: &AttemptId) -> io::Result<Option<String>> {
    if let Some(run) = started_before(place)? {
        return Ok(Some(run));
    }
    Ok(ledger::start_of(&order.state(), attempt)?.map(|child| child.run().0))
}

/// The run's name, if the attempt's folder says that a command can have been started.
fn started_before(place: &Place) -> io::Result<Option<String>> {
    Ok(match read::<ChildRecord>(&place.child())? {
        Found::Whole(child) => Some(child.run().0),
        Found::Damaged => Some("unknown".to_owned()),
        Found::Absent => place.exit().exists().then(|| "unknown".to_owned()),
    })
}

/// A command that waits at its gate.
struct Start {
    pid: Pid,
    record: ChildRecord,
    gate: PipeWriter,
    output: Receiver<LogEnd>,
    group: Option<RunGroup>,
}

/// How a run ended.
struct RunEnded {
    record: ExitRecord,
    /// It ended by itself and left no process and no open output behind.
    clean: bool,
}

impl Start {
    fn prepare(shim: &Shim, place: &Place, order: &ShimOrder) -> Result<Self, Answer> {
        let log = place.open_log().map_err(|e| disk("open the log", &e))?;
        let mark = shim_mark(shim.pid, shim.start, shim.before);
        let (gate, pid, output) = spawn(log, order, &mark)?;
        reached(kill_point::EXEC_SPAWNED);
        let group = order.memory.and_then(|limit| group_for(&mark, pid, limit));
        let record = ChildRecord {
            pid: pid.as_raw_nonzero().get(),
            start: start_of(pid.as_raw_nonzero().get()),
            boot: boot_id(),
            shim: shim.pid,
            shim_start: shim.start,
            before: shim.before,
        };
        Ok(Self {
            pid,
            record,
            gate,
            output,
            group,
        })
    }

    /// Writes down who is about to run. The gate closes for ever when that fails, because it is dropped.
    fn record(&self, place: &Place, order: &ShimOrder) -> Result<String, Answer> {
        let written = write_new(&place.child(), &self.record)
            .and_then(|()| write_start(&order.state(), &order.attempt, &self.record));
        if let Err(e) = written {
            let _ = std::fs::remove_file(place.child());
            return Err(disk("write the record of the process", &e));
        }
        reached(kill_point::CHILD_RECORDED);
        Ok(self.record.run().0)
    }

    fn open_and_watch(
        mut self,
        place: &Place,
        order: &ShimOrder,
        run: String,
        wakeups: &mut Wakeups,
    ) -> RunEnded {
        let started = Utc::now();
        // If this fails the process at the gate is dead, and the watch will see that.
        let _ = self.gate.write_all(b"!");
        drop(self.gate);
        reached(kill_point::GATE_OPENED);
        say(&Answer::Started { run });
        let limits = Limits {
            memory: order.memory,
            deadline: order.deadline_ms.map(Duration::from_millis),
            grace: Duration::from_millis(order.grace_ms),
            watch: Duration::from_millis(order.watch_ms.max(1)),
        };
        let end = watch::until_end(self.pid, &limits, &place.cancel(), wakeups, self.group.as_ref());
        let output = self.output.recv_timeout(LAST_OUTPUT).ok();
        let clean = end.stop.is_none() && end.left_over == 0 && output.is_some();
        let output = output.unwrap_or_default();
        let record = ExitRecord {
            code: end.status.exit_status(),
            signal: end.status.terminating_signal(),
            started_ms: started.timestamp_millis(),
            ended_ms: Utc::now().timestamp_millis(),
            peak: end.peak,
            stop: end.stop,
            cancel_asked: place.cancel().exists(),
            left_over: end.left_over,
            dropped: output.dropped,
            last_line: output.last_line,
        };
        RunEnded { record, clean }
    }
}

/// Starts the process that waits at the gate, in a process group of its own, its output flowing into the log.
fn spawn(log: File, order: &ShimOrder, mark: &str) -> Result<(PipeWriter, Pid, Receiver<LogEnd>), Answer> {
    let pipe = || io::pipe().map_err(|e| disk("make a pipe", &e));
    let ((gate_end, gate), (output, writer)) = (pipe()?, pipe()?);
    let both = writer.try_clone().map_err(|e| disk("make a pipe", &e))?;
    let program = own_binary().map_err(|e| disk("find the program of backfill", &e))?;
    let mut command = Command::new(program);
    command
        .arg("__exec")
        .arg(std::process::id().to_string())
        .args(&order.command)
        .env_clear()
        .envs(order.environment.iter().map(|(name, value)| (name, value)))
        .envs(&order.secrets)
        .env(SHIM_MARK, mark)
        .current_dir(&order.cwd)
        .process_group(0)
        .stdin(gate_end)
        .stdout(writer)
        .stderr(Stdio::from(both));
    let child = command
        .spawn()
        .map_err(|e| cannot_spawn(Path::new(&order.cwd), &e))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| {
        refused(
            FailureClass::Platform,
            "the system gave an impossible pid".to_owned(),
        )
    })?;
    let (send, receive) = mpsc::channel();
    let log = CappedLog::new(log, order.log_cap);
    let secrets: Vec<String> = order.secrets.values().cloned().collect();
    let pump = move || {
        let _ = send.send(log.pump(output, &secrets));
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(pump);
    thread.map_err(|e| disk("start a thread", &e))?;
    Ok((gate, pid, receive))
}

fn group_for(mark: &str, pid: Pid, limit: u64) -> Option<RunGroup> {
    let group = RunGroup::create(&format!("backfill-{mark}"), limit)?;
    group.add(pid.as_raw_nonzero().get()).ok()?;
    Some(group)
}

fn cannot_spawn(cwd: &Path, error: &io::Error) -> Answer {
    if !cwd.is_dir() {
        let folder = text::one_line(&cwd.to_string_lossy(), 150);
        return refused(
            FailureClass::Config,
            format!("the folder to run in, `{folder}`, is not there"),
        );
    }
    match error.kind() {
        io::ErrorKind::InvalidInput
        | io::ErrorKind::ArgumentListTooLong
        | io::ErrorKind::PermissionDenied => refused(
            FailureClass::Config,
            format!("the command cannot be started: {error}"),
        ),
        _ => refused(
            FailureClass::Platform,
            format!("the command cannot be started: {error}"),
        ),
    }
}

fn disk(what: &str, error: &io::Error) -> Answer {
    refused(FailureClass::Platform, format!("cannot {what}: {error}"))
}

fn refused(class: FailureClass, message: String) -> Answer {
    Answer::Refused {
        failure: Failure {
            class,
            exit: None,
            message,
        },
    }
}
