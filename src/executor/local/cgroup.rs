//! A control group of its own for a run, where the system delegates one to us: the kernel then keeps the memory
//! limit at every instant, and nothing can leave the run.
//!
//! Only a group that was handed over is used (`Delegate=yes` of systemd, which marks it, or a group that belongs to
//! this user): root may write everywhere, which does not mean that it should.

use crate::host::own_control_group;
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A run's own group. Removed when dropped.
#[derive(Debug)]
pub struct RunGroup {
    folder: PathBuf,
}

impl RunGroup {
    /// Makes a group with this memory limit in bytes; `None` where there is no delegated one with a memory
    /// controller, which is no error: memory is then sampled.
    pub fn create(name: &str, memory: u64) -> Option<Self> {
        let own = own_control_group()?;
        // The group's own members stand in the way of groups below it, so the parent is the usual place: a service
        // with `DelegateSubgroup=` has its processes one level below the group that was handed over.
        let candidates = [own.parent().map(Path::to_owned), Some(own)];
        let found = candidates
            .into_iter()
            .flatten()
            .find(|folder| delegated(folder) && memory_controlled(folder));
        Self::below(&found?, name, memory).ok()
    }

    fn below(parent: &Path, name: &str, memory: u64) -> io::Result<Self> {
        let folder = parent.join(name);
        fs::create_dir(&folder)?;
        let group = Self { folder };
        group.set("memory.max", &memory.to_string())?;
        group.set("memory.oom.group", "1")?;
        // Without swap accounting there is no such file, and then there is nothing to forbid.
        let _ = group.set("memory.swap.max", "0");
        Ok(group)
    }

    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.folder.join(file), value)
    }

    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.folder.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// Moves a process in; its future children follow.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add(&self, pid: i32) -> io::Result<()> {
        self.set("cgroup.procs", &pid.to_string())
    }

    /// Most memory in bytes that was ever in use, or what is in use where the kernel does not keep the peak.
    pub fn peak(&self) -> Option<u64> {
        self.number("memory.peak")
            .or_else(|| self.number("memory.current"))
    }

    /// Whether the kernel ended something in here for want of memory.
    pub fn ran_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.folder.join("memory.events")).unwrap_or_default();
        oom_kills(&events) > 0
    }

    /// Ends everything in the group at once.
    pub fn kill(&self) {
        let _ = self.set("cgroup.kill", "1");
    }
}

impl Drop for RunGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

fn delegated(folder: &Path) -> bool {
    let marked = ["trusted.delegate", "user.delegate"].into_iter().any(|name| {
        let mut value = [0u8; 8];
        matches!(rustix::fs::getxattr(folder, name, &mut value[..]), Ok(n) if value.get(..n) == Some(b"1"))
    });
    let user = rustix::process::geteuid().as_raw();
    marked || (user != 0 && fs::metadata(folder).is_ok_and(|m| m.uid() == user))
}

/// Whether groups below this one can have a memory limit, after asking for it.
fn memory_controlled(folder: &Path) -> bool {
    let lists = |file: &str| {
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        text.split_whitespace().any(|c| c == "memory")
    };
    lists("cgroup.controllers")
        && (lists("cgroup.subtree_control")
            || fs::write(folder.join("cgroup.subtree_control"), "+memory").is_ok())
}

fn oom_kills(events: &str) -> u64 {
    let value = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
    events.lines().find_map(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_count_of_kills_is_read() {
        let events = "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 1\n";
        assert_eq!(oom_kills(events), 3);
        assert_eq!(oom_kills("oom 1\noom_kill 0\n"), 0);
    }

    #[test]
    fn a_group_gets_its_limit_takes_the_process_in_and_reports_out_of_memory() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        fs::write(dir.path().join("cgroup.subtree_control"), "memory\n").unwrap();
        assert!(memory_controlled(dir.path()));
        let group = RunGroup::below(dir.path(), "run", 4096).unwrap();
        group.add(77).unwrap();
        let folder = dir.path().join("run");
        let text = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
        assert_eq!(text("memory.max"), "4096");
        assert_eq!(text("memory.oom.group"), "1");
        assert_eq!(text("memory.swap.max"), "0");
        assert_eq!(text("cgroup.procs"), "77");
        assert!(!group.ran_out_of_memory());
        fs::write(folder.join("memory.events"), "oom_kill 1\n").unwrap();
        assert!(group.ran_out_of_memory());
        fs::write(folder.join("memory.peak"), "4000\n").unwrap();
        assert_eq!(group.peak(), Some(4000));
    }

    #[test]
    fn a_folder_without_a_memory_controller_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!memory_controlled(dir.path()));
        fs::write(dir.path().join("cgroup.controllers"), "hugetlb\n").unwrap();
        assert!(!memory_controlled(dir.path()));
        if rustix::process::geteuid().is_root() {
            assert!(!delegated(dir.path()), "root's own folders are not delegated");
        }
    }
}
