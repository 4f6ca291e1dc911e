//! The shim's watch over a running command: its end at once, its memory, deadline and cancel at every look, and
//! nothing left behind.

use super::{cgroup::RunGroup, record::Stop};
use crate::host::{descendants, group_members, memory_of_processes};
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, wait},
};
use signal_hook::consts::{SIGCHLD, SIGTERM};
use std::{
    io::{self, Read},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// What is left of a run whose command has ended gets this long between TERM and KILL.
const LEFT_OVER_GRACE: Duration = Duration::from_secs(1);
/// After KILL the rest is waited for this long.
const GONE: Duration = Duration::from_secs(5);

/// What a run may take.
pub struct Limits {
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// From the opening of the gate.
    pub deadline: Option<Duration>,
    /// TERM to KILL.
    pub grace: Duration,
    /// How often memory and the cancel marker are looked at.
    pub watch: Duration,
}

/// How the command ended.
pub struct Ended {
    /// Its status.
    pub status: WaitStatus,
    /// What was done to it.
    pub stop: Option<Stop>,
    /// Most memory seen.
    pub peak: Option<u64>,
    /// Processes that were still there after it.
    pub left_over: u32,
}

/// Wakes the watch when a child ended, when there is a cancel marker to look at, or when the shim was told to end.
pub struct Wakeups {
    stream: UnixStream,
    told: Arc<AtomicBool>,
    idle: Arc<AtomicBool>,
}

impl Wakeups {
    /// Listens to signals. SIGTERM ends the shim while it has no run, and its run while it has one.
    ///
    /// # Errors
    /// The system has no room for another socket or handler.
    pub fn new() -> io::Result<Self> {
        let (stream, wake) = UnixStream::pair()?;
        let (told, idle) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        signal_hook::flag::register_conditional_shutdown(SIGTERM, 128 + SIGTERM, Arc::clone(&idle))?;
        signal_hook::flag::register(SIGTERM, Arc::clone(&told))?;
        signal_hook::low_level::pipe::register(SIGTERM, wake.try_clone()?)?;
        signal_hook::low_level::pipe::register(SIGCHLD, wake)?;
        Ok(Self { stream, told, idle })
    }

    /// Whether there is a run that SIGTERM has to end before the shim.
    pub fn busy(&self, busy: bool) {
        self.idle.store(!busy, Ordering::SeqCst);
    }

    /// Whether the shim was told to end.
    pub fn told(&self) -> bool {
        self.told.load(Ordering::SeqCst)
    }

    fn sleep(&mut self, at_most: Duration) {
        // Zero would mean for ever.
        let _ = self
            .stream
            .set_read_timeout(Some(at_most.max(Duration::from_millis(1))));
        let _ = self.stream.read(&mut [0; 64]);
    }
}

/// Watches until the command has ended and nothing of its run is left.
pub fn until_end(
    child: Pid,
    limits: &Limits,
    cancel: &Path,
    wakeups: &mut Wakeups,
    group: Option<&RunGroup>,
) -> Ended {
    let mut watch = Watch {
        child,
        limits,
        group,
        began: Instant::now(),
        stop: None,
        peak: None,
    };
    let mut next_look = watch.began + limits.watch;
    let status = loop {
        if let Reaped::Command(status) = reap(child) {
            break status;
        }
        let now = Instant::now();
        if cancel.exists() {
            watch.end(Stop::Cancel, now);
        }
        if now >= next_look {
            watch.look(now);
            next_look = now + limits.watch;
        }
        if wakeups.told() {
            watch.end(Stop::Told, now);
        }
        watch.check_deadline(now);
        watch.kill_when_due(now);
        wakeups.sleep(watch.next_instant(next_look).saturating_duration_since(now));
    };
    let left_over = watch.end_left_overs(wakeups);
    watch.ask_kernel();
    Ended {
        status,
        stop: watch.stop.map(|s| s.why),
        peak: watch.peak,
        left_over,
    }
}

/// A stop under way.
struct Stopping {
    why: Stop,
    kill_at: Instant,
}

struct Watch<'a> {
    child: Pid,
    limits: &'a Limits,
    group: Option<&'a RunGroup>,
    began: Instant,
    stop: Option<Stopping>,
    peak: Option<u64>,
}

impl Watch<'_> {
    /// What is done at every look and not at every wake: the memory.
    fn look(&mut self, now: Instant) {
        let used = match self.group {
            Some(group) => group.peak(),
            None => memory_of_processes(&self.members()),
        };
        self.peak = self.peak.max(used);
        if let (None, Some(limit), Some(used)) = (self.group, self.limits.memory, used)
            && used > limit
        {
            self.end(Stop::Oom(limit), now);
        }
    }

    fn check_deadline(&mut self, now: Instant) {
        if let Some(deadline) = self.limits.deadline
            && now.duration_since(self.began) >= deadline
        {
            self.end(
                Stop::Deadline(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)),
                now,
            );
        }
    }

    /// Begins to end the run, once: TERM now and KILL after the grace. For want of memory there is no grace.
    fn end(&mut self, why: Stop, now: Instant) {
        if self.stop.is_some() {
            return;
        }
        let at_once = matches!(why, Stop::Oom(_));
        let kill_at = if at_once { now } else { now + self.limits.grace };
        self.stop = Some(Stopping { why, kill_at });
        if !at_once {
            let _ = kill_process_group(self.child, Signal::TERM);
        }
    }

    fn kill_when_due(&self, now: Instant) {
        if self.stop.as_ref().is_some_and(|s| now >= s.kill_at) {
            self.kill_all();
        }
    }

    fn next_instant(&self, next_look: Instant) -> Instant {
        let deadline = self
            .limits
            .deadline
            .filter(|_| self.stop.is_none())
            .map(|d| self.began + d);
        let kill = self
            .stop
            .as_ref()
            .map(|s| s.kill_at)
            .filter(|at| *at > Instant::now());
        [deadline, kill]
            .into_iter()
            .flatten()
            .fold(next_look, Instant::min)
    }

    /// Everything that belongs to the run. Orphans are children of the shim, see `set_child_subreaper`.
    fn members(&self) -> Vec<i32> {
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        let mut members = descendants(me);
        if !cfg!(target_os = "linux") {
            members.extend(group_members(self.child.as_raw_nonzero().get()));
            members.sort_unstable();
            members.dedup();
        }
        members
    }

    fn kill_all(&self) {
        if let Some(group) = self.group {
            group.kill();
        }
        let _ = kill_process_group(self.child, Signal::KILL);
        for pid in self.members().into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Ends what is still there after the command ended, and gives how many processes that were.
    fn end_left_overs(&self, wakeups: &mut Wakeups) -> u32 {
        if self.nothing_left() {
            return 0;
        }
        let count = u32::try_from(self.members().len()).unwrap_or(u32::MAX);
        let ended = Instant::now();
        // After a stop they have had their TERM already.
        let kill_at = self
            .stop
            .as_ref()
            .map_or(ended + LEFT_OVER_GRACE.min(self.limits.grace), |s| s.kill_at);
        let _ = kill_process_group(self.child, Signal::TERM);
        while !self.nothing_left() {
            let now = Instant::now();
            if now > kill_at + GONE {
                break;
            }
            if now >= kill_at {
                self.kill_all();
            }
            wakeups.sleep(Duration::from_millis(5));
        }
        count
    }

    fn nothing_left(&self) -> bool {
        let childless = matches!(reap(self.child), Reaped::Childless);
        childless && rustix::process::test_kill_process_group(self.child).is_err()
    }

    /// The kernel's own verdict, where it kept the limit.
    fn ask_kernel(&mut self) {
        let Some(group) = self.group else { return };
        self.peak = self.peak.max(group.peak());
        if let (None, Some(limit), true) = (&self.stop, self.limits.memory, group.ran_out_of_memory()) {
            self.stop = Some(Stopping {
                why: Stop::Oom(limit),
                kill_at: self.began,
            });
        }
    }
}

enum Reaped {
    /// The command itself ended.
    Command(WaitStatus),
    /// Children are left.
    Waiting,
    /// No children are left.
    Childless,
}

/// Takes in every child that has ended, orphans of the run included.
fn reap(command: Pid) -> Reaped {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == command => return Reaped::Command(status),
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return Reaped::Waiting,
            Err(_) => return Reaped::Childless,
        }
    }
}
