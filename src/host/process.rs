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
    memory_of_processes(&with_descendants(&table(), |_, stat| stat.group == group))
}

/// Memory in bytes of these processes together: proportional set sizes. `None` where the system does not tell, or
/// none of them lives any more.
pub fn memory_of_processes(pids: &[i32]) -> Option<u64> {
    let sizes: Vec<u64> = pids.iter().filter_map(|p| memory_of_process(*p)).collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

/// All live descendants of a process, without itself.
///
/// On Linux the kernel's lists of children are followed, so that the cost follows the size of the family and not
/// that of the machine; where they are missing the whole process table is read.
pub fn descendants(root: i32) -> Vec<i32> {
    #[cfg(target_os = "linux")]
    if let Some(family) = family_by_children(root) {
        return family;
    }
    with_descendants(&table(), |_, stat| stat.parent == root)
}

/// Live processes of this user whose environment at their start held exactly `NAME=value`, `marker`. Empty where the
/// system does not show environments.
pub fn marked(marker: &str) -> Vec<i32> {
    #[cfg(target_os = "linux")]
    {
        let holds = |pid: &i32| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|env| env.split(|b| *b == 0).any(|v| v == marker.as_bytes()))
        };
        pids()
            .into_iter()
            .filter(holds)
            .filter(|p| process_stamp(*p).is_some())
            .collect()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = marker;
        Vec::new()
    }
}

/// The running program's file, to start it again. Survives that the file was replaced by a newer one: on Linux the
/// old program is then still reachable through the process itself.
///
/// # Errors
/// The system does not tell where this program is.
pub fn own_binary() -> std::io::Result<std::path::PathBuf> {
    let path = std::env::current_exe()?;
    if cfg!(target_os = "linux") && !path.exists() {
        return Ok("/proc/self/exe".into());
    }
    Ok(path)
}

/// The folder of this process's control group (second version); `None` where the system has none.
pub fn own_control_group() -> Option<std::path::PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    control_group(&own, &mounts)
}

fn control_group(own: &str, mounts: &str) -> Option<std::path::PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounted = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (at, kind) = (fields.nth(1)?, fields.next()?);
        (kind == "cgroup2").then(|| at.replace("\\040", " "))
    })?;
    Some(std::path::Path::new(&mounted).join(path.trim_start_matches('/')))
}

fn table() -> Vec<(i32, Stat)> {
    pids()
        .into_iter()
        .filter_map(|p| stat_of(p).map(|s| (p, s)))
        .collect()
}

/// The processes that `first` picks, and all their descendants.
fn with_descendants(table: &[(i32, Stat)], first: impl Fn(i32, &Stat) -> bool) -> Vec<i32> {
    let mut found: Vec<i32> = table
        .iter()
        .filter(|(p, s)| first(*p, s))
        .map(|(p, _)| *p)
        .collect();
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        at += 1;
        for (pid, stat) in table {
            if stat.parent == parent && !found.contains(pid) {
                found.push(*pid);
            }
        }
    }
    found
}

/// `None` when the kernel keeps no lists of children.
#[cfg(target_os = "linux")]
fn family_by_children(root: i32) -> Option<Vec<i32>> {
    std::fs::metadata(format!("/proc/{root}/task/{root}/children")).ok()?;
    let mut found = Vec::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{parent}/task")) else {
            continue;
        };
        for thread in threads.flatten() {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            for pid in children.split_ascii_whitespace().filter_map(|p| p.parse().ok()) {
                if !found.contains(&pid) {
                    found.push(pid);
                    next.push(pid);
                }
            }
        }
    }
    Some(found)
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
    fn the_control_group_is_found_below_its_mount() {
        let own = "4:memory:/x\n0::/system.slice/b.service/main\n";
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup2 /sys/a\\040b cgroup2 rw 0 0\n";
        let found = control_group(own, mounts).unwrap();
        assert_eq!(found.to_str().unwrap(), "/sys/a b/system.slice/b.service/main");
        assert_eq!(control_group(own, "tmpfs /tmp tmpfs rw 0 0\n"), None);
        assert_eq!(control_group("4:memory:/x\n", mounts), None);
    }

    #[test]
    fn a_child_is_found_as_descendant_and_by_the_marker_in_its_environment() {
        let me = i32::try_from(std::process::id()).unwrap();
        let marker = format!("BACKFILL_TEST_MARKER=child of {me}");
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .env("BACKFILL_TEST_MARKER", format!("child of {me}"))
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(descendants(me).contains(&pid));
        assert!(with_descendants(&table(), |_, s| s.parent == me).contains(&pid));
        assert!(memory_of_processes(&[pid]).unwrap() > 0);
        if cfg!(target_os = "linux") {
            assert_eq!(marked(&marker), [pid]);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!descendants(me).contains(&pid));
    }

    #[test]
    fn a_pid_that_is_not_there_has_no_stamp() {
        assert_eq!(process_stamp(i32::MAX), None);
    }
}
