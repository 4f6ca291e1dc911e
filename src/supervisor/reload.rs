//! Endpoints, thresholds, secrets and slots follow the configuration's file; a backfill's order does not: that is
//! journaled, and a changed order is shown as drift until somebody amends it.

use super::{
    core::{Core, Input},
    driver::Driver,
    poll::Pollers,
    record::Notes,
    wiring,
};
use crate::{
    config::Config,
    domain::{
        Time,
        event::{Actor, NewEvent, Payload},
        ids::Name,
    },
    executor::Updates,
    host::BootInstant,
};
use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, SystemTime},
};
use tokio::{runtime::Handle, sync::mpsc::UnboundedSender};

/// How often the file's time is looked at.
const EVERY: Duration = Duration::from_secs(2);

/// How long the end of silences is waited for.
const ENDING: Duration = Duration::from_secs(2);

/// The configuration in force and the tasks that it made.
pub struct Reload {
    config: Config,
    changed: Option<SystemTime>,
    looked: Option<BootInstant>,
    pollers: Pollers,
    inbox: UnboundedSender<Input>,
    updates: Updates,
    notes: Notes,
    runtime: Handle,
}

impl Reload {
    /// The file that the configuration was read from.
    pub fn path(&self) -> &Path {
        &self.config.path
    }

    /// Takes over the configuration that the supervisor was made with.
    pub fn new(
        config: Config,
        pollers: Pollers,
        inbox: UnboundedSender<Input>,
        updates: Updates,
        notes: Notes,
        runtime: Handle,
    ) -> Self {
        Self {
            config,
            // Not the file's time now: the configuration may have been read long before.
            changed: None,
            looked: None,
            pollers,
            inbox,
            updates,
            notes,
            runtime,
        }
    }

    /// The signals that hold a backfill back now: their alerts are silenced where that is wanted.
    pub fn silence(&self, holding: &BTreeSet<Name>) {
        self.pollers.silences.follow(holding);
    }

    /// Ends the silences of all alerts before this supervisor ends, as far as that is quick: another one makes its own.
    pub fn end_silences(&self) {
        self.runtime.block_on(self.pollers.silences.end(ENDING));
    }

    /// Loads the file again if it changed or `asked`, and puts what may change into force. `wrong`: an earlier change
    /// was not taken over, which a good file ends also if it changes nothing.
    pub fn look(
        &mut self,
        asked: bool,
        wrong: bool,
        boot: BootInstant,
        core: &mut Core,
        driver: &mut Driver,
        wall: Time,
    ) -> Option<NewEvent> {
        if !asked && self.looked.is_some_and(|t| boot.since(t) < EVERY) {
            return None;
        }
        self.looked = Some(boot);
        let changed = modified(&self.config.path);
        if !asked && (changed == self.changed || changed.is_none()) {
            return None;
        }
        self.changed = changed;
        let payload = match Config::load(&self.config.path) {
            Err(errors) => Payload::ConfigRejected {
                error: errors.to_string(),
            },
            Ok(config) => {
                let changes = self.config.diff(&config);
                if changes.is_empty() && !wrong {
                    return None;
                }
                match self.put_in_force(config, core, driver) {
                    Ok(()) => Payload::ConfigReloaded { changes },
                    Err(error) => Payload::ConfigRejected {
                        error: error.to_string(),
                    },
                }
            }
        };
        Some(NewEvent {
            at: wall,
            actor: Actor::supervisor(),
            reason: None,
            backfill: None,
            payload,
        })
    }

    fn put_in_force(
        &mut self,
        config: Config,
        core: &mut Core,
        driver: &mut Driver,
    ) -> Result<(), wiring::WiringError> {
        let _inside = self.runtime.enter();
        // One that is gone from the file stays known as long as this process lives, to end what it still runs.
        driver.executors.extend(wiring::changed_executors(
            &self.config,
            &config,
            &driver.executors,
            &self.updates,
        )?);
        core.slots = wiring::slots(&config);
        core.sick.retain(|name, _| config.executors.contains_key(name));
        core.tuning = config.tuning.clone();
        core.limits.reconfigure(&config.signals);
        driver.secrets = wiring::secrets(&config);
        driver.deadline = config.tuning.effect_deadline;
        // Dropping the old pollers ends them; a signal that is gone drops out at once (case B25).
        let mut pollers = wiring::pollers(&config, &driver.executors, &self.inbox, &self.notes);
        let before = std::mem::take(&mut self.pollers.silences);
        let gone = pollers
            .silences
            .go_on(before, |signal| same_source(&self.config, &config, signal));
        self.runtime.spawn(async move { gone.end(ENDING).await });
        self.pollers = pollers;
        self.config = config;
        Ok(())
    }
}

/// Whether a signal has the same source in both, and so has what it is silenced by.
fn same_source(old: &Config, new: &Config, signal: &Name) -> bool {
    let source = |config: &Config| config.signals.get(signal).map(|s| s.source.clone());
    old.journal.path == new.journal.path && source(old) == source(new)
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|m| m.modified()).ok()
}
