//! Looking at processes: who they are, who belongs to a group, how much memory they use.

use serde::{Deserialize, Serialize};

/// A process that cannot be mistaken for a later one with the same pid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStamp {
    /// Its pid.
    pub pid: i32,
    /// Its start time in kernel ticks since boot.
    pub start: u64,
}

/// The stamp of a live process; `None` if there is none with this pid, or it is a zombie.
pub fn process_stamp(pid: i32) -> Option<ProcessStamp> {
    let stat = stat_of(pid)?;
    (stat.state != 'Z' && stat.state != 'X').then_some(ProcessStamp {
        pid,
        start: stat.start,
    })
}

/// Live processes whose process group is `group`.
pub fn group_members(group: i32) -> Vec<i32> {
    pids()
        .into_iter()
        .filter(|p| stat_of(*p).is_some_and(|s| s.group == group && s.state != 'Z'))
        .collect()
}

/// Memory in bytes of the processes of a group and of all their descendants: proportional set sizes, so that
/// shared pages count once. `None` where the system does not tell.
pub fn memory_of(group: i32) -> Option<u64> {
    let stats: Vec<(i32, Stat)> = pids()
        .into_iter()
        .filter_map(|p| stat_of(p).map(|s| (p, s)))
        .collect();
    let mut members: Vec<i32> = stats
        .iter()
        .filter(|(_, s)| s.group == group)
        .map(|(p, _)| *p)
        .collect();
    let mut at = 0;
    while at < members.len() {
        let parent = members[at];
        at += 1;
        for (pid, stat) in &stats {
            if stat.parent == parent && !members.contains(pid) {
                members.push(*pid);
            }
        }
    }
    let sizes: Vec<u64> = members.iter().filter_map(|p| memory_of_process(*p)).collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

struct Stat {
    state: char,
    parent: i32,
    group: i32,
    start: u64,
}

#[cfg(target_os = "linux")]
fn pids() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str().and_then(|n| n.parse().ok()))
        .collect()
}

#[cfg(target_os = "linux")]
fn stat_of(pid: i32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in brackets and may itself hold brackets and spaces.
    let rest = text.rsplit_once(") ")?.1;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(target_os = "linux")]
fn memory_of_process(pid: i32) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|l| l.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().split(' ').next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Without `/proc` the process table is asked through `ps`, which every Unix has.
#[cfg(not(target_os = "linux"))]
fn ps(args: &[&str]) -> String {
    std::process::Command::new("ps")
        .args(args)
        .output()
        .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
        .unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn pids() -> Vec<i32> {
    ps(&["-axo", "pid="])
        .lines()
        .filter_map(|l| l.trim().parse().ok())
        .collect()
}

#[cfg(not(target_os = "linux"))]
fn stat_of(pid: i32) -> Option<Stat> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let text = ps(&["-o", "state=,ppid=,pgid=,lstart=", "-p", &pid.to_string()]);
    let mut fields = text.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let mut hasher = DefaultHasher::new();
    fields.collect::<Vec<_>>().hash(&mut hasher);
    Some(Stat {
        state,
        parent,
        group,
        start: hasher.finish(),
    })
}

#[cfg(not(target_os = "linux"))]
fn memory_of_process(pid: i32) -> Option<u64> {
    ps(&["-o", "rss=", "-p", &pid.to_string()])
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_stamp_memory_and_a_group() {
        let me = i32::try_from(std::process::id()).unwrap();
        let stamp = process_stamp(me).unwrap();
        assert_eq!(process_stamp(me).unwrap(), stamp);
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        assert!(group_members(group).contains(&me));
        assert!(memory_of(group).unwrap() > 100_000);
    }

    #[test]
    fn a_pid_that_is_not_there_has_no_stamp() {
        assert_eq!(process_stamp(i32::MAX), None);
    }
}
