//! Who gives a command, for the journal: named, and with how we know.

use crate::domain::{event::Actor, text};
use std::{env, fs};

/// The longest name that is kept, in characters.
const LONGEST: usize = 64;

/// The human behind this call: `--as`, else `BACKFILL_ACTOR`, else `SUDO_USER`, else the user of this process. Names
/// are cleaned and cut. This is for the record, not for protection: whoever may write the journal may claim any name,
/// which is why the origin is kept beside it.
pub fn actor(flag: Option<&str>) -> Actor {
    let variable = |name: &str| env::var_os(name).map(|v| v.to_string_lossy().into_owned());
    named(flag, &variable, rustix::process::getuid().as_raw(), &users())
}

fn users() -> String {
    fs::read_to_string("/etc/passwd").unwrap_or_default()
}

fn named(flag: Option<&str>, variable: &dyn Fn(&str) -> Option<String>, uid: u32, users: &str) -> Actor {
    let claims = [
        ("--as", flag.map(str::to_owned)),
        ("BACKFILL_ACTOR", variable("BACKFILL_ACTOR")),
        ("SUDO_USER", variable("SUDO_USER")),
        ("os user", variable("USER")),
        ("os user", variable("LOGNAME")),
        ("os user", user_of(uid, users)),
    ];
    let claim = claims.into_iter().find_map(|(origin, name)| {
        let name = text::one_line(&name?, LONGEST);
        (!name.is_empty()).then_some((origin, name))
    });
    let (origin, name) = claim.unwrap_or_else(|| ("os user", format!("uid {uid}")));
    Actor {
        name: human(name),
        origin: origin.to_owned(),
    }
}

/// Keeps a human from being mistaken for one of our own parts.
fn human(name: String) -> String {
    let ours = name == "supervisor" || name.starts_with("signal:") || name.starts_with("executor:");
    if ours { format!("\"{name}\"") } else { name }
}

/// The user's name in the lines of `/etc/passwd`.
fn user_of(uid: u32, users: &str) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let id: u32 = fields.nth(1)?.parse().ok()?;
        (id == uid).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/bash\nminh:x:1000:1000::/home/minh:/bin/bash\nbroken\n";

    fn who(flag: Option<&str>, variables: &[(&str, &str)], uid: u32) -> (String, String) {
        let variable = |name: &str| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, v)| (*v).to_owned())
        };
        let actor = named(flag, &variable, uid, USERS);
        assert!(actor.is_human());
        (actor.name, actor.origin)
    }

    fn pair(name: &str, origin: &str) -> (String, String) {
        (name.to_owned(), origin.to_owned())
    }

    #[test]
    fn the_nearest_claim_wins_and_says_where_it_came_from() {
        let all = [
            ("BACKFILL_ACTOR", "oncall"),
            ("SUDO_USER", "minh"),
            ("USER", "root"),
        ];
        assert_eq!(who(Some("lea"), &all, 0), pair("lea", "--as"));
        assert_eq!(who(None, &all, 0), pair("oncall", "BACKFILL_ACTOR"));
        assert_eq!(who(None, &all[1..], 0), pair("minh", "SUDO_USER"));
        assert_eq!(who(None, &all[2..], 0), pair("root", "os user"));
        assert_eq!(who(None, &[("LOGNAME", "x")], 0), pair("x", "os user"));
        assert_eq!(who(None, &[], 1000), pair("minh", "os user"));
        assert_eq!(who(None, &[], 4711), pair("uid 4711", "os user"));
    }

    #[test]
    fn an_empty_claim_is_none_and_a_hostile_one_is_cleaned() {
        assert_eq!(
            who(Some("  "), &[("BACKFILL_ACTOR", "")], 1000),
            pair("minh", "os user")
        );
        assert_eq!(who(Some("\u{1b}[2Jx"), &[], 0), pair("^[[2Jx", "--as"));
        assert_eq!(who(Some(&"x".repeat(500)), &[], 0).0.len(), LONGEST);
    }

    #[test]
    fn a_human_is_not_mistaken_for_the_supervisor() {
        assert_eq!(who(Some("supervisor"), &[], 0).0, "\"supervisor\"");
        assert_eq!(who(Some("signal:orders"), &[], 0).0, "\"signal:orders\"");
    }
}
