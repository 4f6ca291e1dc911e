//! A lag source that is a program: the escape hatch for every place where lag can be found and no other kind reads.
//!
//! It prints one number, or one JSON object (`printed.rs` says which), and ends with 0. It runs without a terminal,
//! with nothing to read and without our environment; when it has ended, or when the deadline has passed, everything
//! that it started is killed. Whatever it does wrong is *no sample* or a failure, with the last line of its error
//! output.

mod printed;

use super::{LagSource, NoSample, Reading};
use crate::{
    config::CommandConfig,
    domain::{
        human,
        text::{clean, one_line},
    },
    host::{
        plain_environment,
        program::{End, Ended, Program},
    },
    net::{AdapterError, Cause},
};
use async_trait::async_trait;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// The most bytes that a program may print.
const CAP: usize = 64 * 1024;
/// How long a shown line of a program is.
const WORDS: usize = 300;

/// The source.
#[derive(Debug, Clone)]
pub struct Command {
    name: String,
    config: Arc<CommandConfig>,
    /// Time between two reads.
    interval: Duration,
}

/// Ends the program of a read that nobody waits for any more.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Command {
    /// A source that runs this program for each read, `interval` apart. Nothing is started yet.
    pub fn new(name: &str, config: &CommandConfig, interval: Duration) -> Self {
        Self {
            name: name.to_owned(),
            config: Arc::new(config.clone()),
            interval,
        }
    }

    fn shown(&self) -> String {
        let program = self.config.command.first().map_or("nothing", String::as_str);
        one_line(program, 120)
    }

    /// What is said of a program that was killed at its deadline.
    fn killed(&self) -> String {
        let deadline = human::exact_duration(self.config.deadline);
        let why = format!("it took longer than its deadline of {deadline} and was killed");
        if self.interval > self.config.deadline {
            return why;
        }
        format!("{why}; {}", longer_than(self.interval))
    }

    fn failed(&self, begun: Instant, cause: Cause, detail: &str) -> Reading {
        let tried = format!("running {}", self.shown());
        Reading::Failed(AdapterError::new(
            &self.name,
            &tried,
            begun.elapsed(),
            cause,
            detail,
        ))
    }

    fn reading(&self, begun: Instant, ended: &Ended) -> Reading {
        let words = last_line(&ended.last_words);
        let with_words = |why: String| match words.as_str() {
            "" => why,
            words => format!("{why}: {words}"),
        };
        match ended.end {
            End::Flood => no_sample(
                NoSample::Invalid,
                "it prints more than 64 KiB where one number is expected".to_owned(),
            ),
            End::Exited(status) if !status.success() => {
                self.failed(begun, Cause::Local, &with_words(status.to_string()))
            }
            End::Exited(_) => match printed::read(&ended.out) {
                Ok(printed) => printed.into_reading(),
                Err((NoSample::Missing, why)) => no_sample(NoSample::Missing, with_words(why)),
                Err((health, why)) => no_sample(health, why),
            },
            End::Deadline | End::Stopped => self.failed(begun, Cause::Timeout, &with_words(self.killed())),
        }
    }
}

#[async_trait]
impl LagSource for Command {
    fn late(&self, waited: Duration) -> Option<AdapterError> {
        let tried = format!("running {}", self.shown());
        let why = longer_than(self.interval);
        Some(AdapterError::new(
            &self.name,
            &tried,
            waited,
            Cause::Timeout,
            &why,
        ))
    }

    async fn read(&self) -> Reading {
        let begun = Instant::now();
        let stop = Arc::new(AtomicBool::new(false));
        let waiting = Waiting(Arc::clone(&stop));
        let config = Arc::clone(&self.config);
        let run = move || {
            Program {
                argv: &config.command,
                folder: Some(&config.folder),
                environment: Some(plain_environment()),
                deadline: config.deadline,
                cap: CAP,
                may_leave_children: false,
            }
            .run(&stop)
        };
        // Its own thread and none of the runtime's: a runtime that ends would wait for those.
        let (answer, ended) = tokio::sync::oneshot::channel();
        let started = std::thread::Builder::new()
            .name("lag-command".to_owned())
            .spawn(move || drop(answer.send(run())));
        if let Err(why) = started {
            return self.failed(begun, Cause::Local, &format!("no thread for it: {why}"));
        }
        // The program's own deadline ends it; this one is for a system that does not even kill.
        let patience = self.config.deadline.saturating_add(Duration::from_secs(2));
        let outcome = tokio::time::timeout(patience, ended).await;
        drop(waiting);
        match outcome {
            Ok(Ok(Ok(ended))) => self.reading(begun, &ended),
            Ok(Ok(Err(why))) => self.failed(begun, Cause::Local, &format!("cannot run it: {why}")),
            Ok(Err(_)) => self.failed(begun, Cause::Local, "the thread that ran it ended"),
            Err(_) => self.failed(begun, Cause::Timeout, "it cannot be killed"),
        }
    }
}

/// What is wrong with a program that takes longer than the time between two reads, with how to mend it.
pub fn longer_than(interval: Duration) -> String {
    let interval = human::exact_duration(interval);
    format!(
        "it takes longer than the interval of {interval}: the interval must be longer than the program takes"
    )
}

fn no_sample(health: NoSample, why: String) -> Reading {
    Reading::NoSample { health, why }
}

/// The last line that says something, cleaned and cut.
fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("");
    clean(line.trim()).chars().take(WORDS).collect()
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
