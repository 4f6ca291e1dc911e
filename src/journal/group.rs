//! The number of a group by its name. Without `unsafe` there is no `getgrnam`: the group file is read, and where the
//! name comes from a directory service, `getent` is asked, which every system with such a service has.

use super::error::OpenError;
use rustix::fs::Gid;
use std::{
    io::Read,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

/// How long a directory service may take.
const DEADLINE: Duration = Duration::from_secs(3);

/// The number of a group; a number stands for itself.
pub(super) fn gid_of(group: &str) -> Result<Gid, OpenError> {
    let known = group.parse().ok().or_else(|| {
        let file = std::fs::read_to_string("/etc/group").unwrap_or_default();
        in_lines(&file, group).or_else(|| in_lines(&getent(group), group))
    });
    known.map(Gid::from_raw).ok_or_else(|| OpenError::Group {
        group: group.to_owned(),
        why: "this host knows no such group".to_owned(),
    })
}

/// Finds `name:password:number:members`.
fn in_lines(lines: &str, group: &str) -> Option<u32> {
    lines.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group))
            .then(|| fields.nth(1)?.parse().ok())
            .flatten()
    })
}

fn getent(group: &str) -> String {
    // A name that begins with a dash would be read as an option.
    if group.starts_with('-') {
        return String::new();
    }
    let child = Command::new("getent")
        .args(["group", group])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        return String::new();
    };
    let (send, receive) = mpsc::channel();
    if let Some(mut out) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut text = String::new();
            let read = out.read_to_string(&mut text);
            let _ = send.send(read.map(|_| text).unwrap_or_default());
        });
    }
    let answer = receive.recv_timeout(DEADLINE).unwrap_or_default();
    // It has ended, or it hangs on a dead directory service.
    let _ = child.kill();
    let _ = child.wait();
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_whole_name() {
        let file = "oncall2:x:7:\noncall:x:1042:minh,ana\n";
        assert_eq!(in_lines(file, "oncall"), Some(1042));
        assert_eq!(in_lines(file, "on"), None);
    }

    #[test]
    fn a_group_that_the_host_does_not_know_is_named() {
        let error = gid_of("no-such-group-here").unwrap_err().to_string();
        assert!(error.contains("no-such-group-here"), "{error}");
    }
}
