//! Blackouts that leave no time long enough for what is to run between them.

use crate::domain::{Time, blackout, human, spec::Spec};
use std::time::Duration;

/// Tells profiles whose deadline is no shorter than every time between two blackouts. As long as nothing has finished the
/// deadline stands for how long an attempt takes, so that none of them would ever begin. `None`: all is well.
pub fn of(spec: &Spec, now: Time) -> Option<String> {
    let longest = blackout::longest_free(&spec.blackout, now)?.to_std().ok()?;
    // What takes all of it would have to begin in its very first moment.
    let too_long = |ms: u64| Duration::from_millis(ms) >= longest;
    let profiles: Vec<String> = spec
        .profiles
        .iter()
        .filter_map(|p| p.deadline_ms.filter(|ms| too_long(*ms)).map(|ms| (p, ms)))
        .map(|(p, ms)| format!("{} ({})", p.name, human::duration(Duration::from_millis(ms))))
        .collect();
    if profiles.is_empty() {
        return None;
    }
    Some(format!(
        "the longest time between blackouts is {}, the deadline of {} is not shorter: what may take that long is not begun \
         before a blackout, so until the first has finished nothing of it starts; shorten the deadline or `blackout`",
        human::duration(longest),
        profiles.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    fn said(deadline: &str, blackout: &str) -> Option<String> {
        let text = format!(
            "[executors.local]\nkind = \"local\"\nslots = 2\n[profiles.light]\ndeadline = \"10m\"\n[profiles.big]\n\
             deadline = \"{deadline}\"\n[backfills.orders]\nexecutor = \"local\"\ncommand = [\"true\"]\n\
             granularity = \"day\"\ntimezone = \"UTC\"\nstart = 2023-01-01\nend = 2023-01-09\ntarget = \"orders\"\nprofiles = [\"light\", \"big\"]\n\
             blackout = [{blackout}]\n"
        );
        let config = Config::parse(&text, Path::new("/etc/backfill/config.toml")).unwrap();
        let spec = &config.backfills.values().next().unwrap().spec;
        of(spec, "2026-11-30T03:12:00Z".parse().unwrap())
    }

    #[test]
    fn a_deadline_that_fits_between_no_two_blackouts_is_told() {
        let daily = "{ from = \"06:00\", to = \"02:00\", timezone = \"UTC\" }";
        let words = said("6h", daily).unwrap();
        assert!(
            words.starts_with(
                "the longest time between blackouts is 4h, the deadline of big (6h) is not shorter"
            ),
            "{words}"
        );
        assert!(said("4h", daily).is_some());
        assert_eq!(said("239m", daily), None);
        // From Friday to Monday there is time.
        let workdays = "{ from = \"06:00\", to = \"02:00\", days = \"mon-fri\", timezone = \"UTC\" }";
        assert_eq!(said("6h", workdays), None);
        assert_eq!(said("6h", ""), None);
    }
}
