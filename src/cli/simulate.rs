//! `simulate SCENARIO`: policies against a modelled night, side by side.

use super::context::{self, Done, Exit};
use crate::{
    config::{ConfigErrors, Problem, scenario::Scenario},
    plan::simulate::{Policy, Progress, simulate as played},
};
use std::{
    fs::{self, File},
    io::{IsTerminal, Read, Write},
    path::Path,
    time::{Duration, Instant},
};

mod table;

/// A larger file is no scenario.
const LARGEST: u64 = 1024 * 1024;
/// Who waits longer than this wonders.
const PATIENCE: Duration = Duration::from_secs(1);
/// The line on the terminal is not written anew more often.
const EVERY: Duration = Duration::from_millis(200);

/// The command. Needs no configuration and no journal.
pub fn simulate(json: bool, file: &Path, policies: &[Policy], seeds: u32) -> Done {
    let scenario = read(file).map_err(|errors| Exit::config(&errors))?;
    let mut waiting = Waiting::new(scenario.duration);
    let report = played(&scenario, policies, seeds, &mut |progress| waiting.hear(progress));
    waiting.end();
    context::print(json, &report, || table::words(&report, scenario.duration))
}

fn read(file: &Path) -> Result<Scenario, ConfigErrors> {
    Scenario::parse(&text(file)?, file)
}

fn text(file: &Path) -> Result<String, ConfigErrors> {
    let refused = |found: String| ConfigErrors {
        path: file.to_owned(),
        problems: vec![Problem {
            at: None,
            key: "file".to_owned(),
            found,
            expected: "a scenario in TOML".to_owned(),
            help: "assets/scenarios has examples".to_owned(),
        }],
        more: 0,
    };
    let unreadable = |e: std::io::Error| refused(format!("no way to read it ({e})"));
    // Asked before opening: opening a pipe would wait for its other end.
    let about = fs::metadata(file).map_err(unreadable)?;
    if !about.is_file() {
        return Err(refused("something that is no ordinary file".to_owned()));
    }
    let mut bytes = Vec::new();
    let open = File::open(file).map_err(unreadable)?;
    open.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(refused("more than 1 MiB".to_owned()));
    }
    String::from_utf8(bytes).map_err(|e| {
        let good = e.as_bytes().iter().take(e.utf8_error().valid_up_to());
        let line = good.filter(|byte| **byte == b'\n').count() + 1;
        refused(format!("a byte in line {line} that is not UTF-8"))
    })
}

/// What somebody sees who waits at a terminal: one line on standard error, written over and over, gone at the end.
struct Waiting {
    terminal: bool,
    began: Instant,
    written: Option<Instant>,
    wide: usize,
    night: Duration,
}

impl Waiting {
    fn new(night: Duration) -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            began: Instant::now(),
            written: None,
            wide: 0,
            night,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let since = |at: Instant| now.saturating_duration_since(at);
        self.terminal && since(self.began) >= PATIENCE && self.written.is_none_or(|at| since(at) >= EVERY)
    }

    fn hear(&mut self, progress: Progress) {
        let now = Instant::now();
        if self.is_due(now) {
            let line = line(progress, self.night);
            self.write(&line);
            self.written = Some(now);
        }
    }

    fn end(&mut self) {
        if self.written.is_some() {
            self.write("");
            let _ = write!(std::io::stderr(), "\r");
        }
    }

    /// Blanks, not an escape sequence, so that it is the same on every terminal.
    fn write(&mut self, line: &str) {
        let wide = self.wide;
        // A terminal that went away takes nothing from the result.
        let _ = write!(std::io::stderr(), "\r{line:<wide$}");
        self.wide = line.chars().count();
    }
}

fn line(progress: Progress, night: Duration) -> String {
    let Progress {
        seed,
        seeds,
        policy,
        nth,
        policies,
        played,
    } = progress;
    let (hour, hours) = ((played / 3600.0) as u64 + 1, night.as_secs().div_ceil(3600));
    format!("seed {seed} of {seeds}, policy {policy} ({nth} of {policies}), hour {hour} of {hours}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(terminal: bool) -> Waiting {
        Waiting {
            terminal,
            ..Waiting::new(Duration::from_secs(36 * 3600))
        }
    }

    #[test]
    fn who_waits_for_more_than_a_second_at_a_terminal_is_told_and_not_too_often() {
        let mut at_terminal = waiting(true);
        let after = |ms| at_terminal.began + Duration::from_millis(ms);
        let (soon, due, again, later) = (after(999), after(1000), after(1100), after(1200));
        assert!(!at_terminal.is_due(soon) && at_terminal.is_due(due));
        at_terminal.written = Some(due);
        assert!(!at_terminal.is_due(again) && at_terminal.is_due(later));
        assert!(!waiting(false).is_due(later + PATIENCE));
    }

    #[test]
    fn the_line_says_seed_policy_and_hour_and_fits_a_narrow_terminal() {
        let progress = |seeds, policy, hours: f64| Progress {
            seed: 3,
            seeds,
            policy,
            nth: 2,
            policies: 5,
            played: hours * 3600.0,
        };
        let night = Duration::from_secs(36 * 3600);
        assert_eq!(
            line(progress(20, Policy::Classic, 16.0), night),
            "seed 3 of 20, policy classic (2 of 5), hour 17 of 36"
        );
        let month = Duration::from_secs(31 * 86_400);
        let longest = line(progress(1000, Policy::Fixed(10_000), 743.0), month);
        assert!(longest.chars().count() < 80, "{longest}");
    }
}
