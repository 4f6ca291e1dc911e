//! How the source sees the log of the open day: a file on this machine, or the inside of its run at the executor.

use super::{
    InsideView,
    looker::{Looker, Wanted},
};
use crate::{
    config::Config,
    net::{AdapterError, Cause},
    supervisor::wiring,
    tui::effect::Watch,
};
use std::{sync::Arc, time::Duration};

/// The look into runs, with a thread from when it is first needed.
#[derive(Debug, Default)]
pub struct Eyes {
    looker: Option<Looker>,
    /// Counts configurations.
    means: u64,
}

/// Where the log of the open day is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Own {
    /// In a file, or no day is open.
    File,
    /// At the executor, and this was seen of it last.
    Seen(Option<Arc<InsideView>>),
    /// It cannot be looked at, and why.
    Blind(String),
}

impl Eyes {
    /// The configuration is another one: what was made from the former is made anew.
    pub const fn config_changed(&mut self) {
        self.means += 1;
    }

    /// Has the open day looked at, and gives what was seen of it until now. Waits for nothing.
    pub fn look(&mut self, config: &Config, watch: &Watch) -> Own {
        let wanted = self.wanted(config, watch);
        let is_wanted = wanted.is_some();
        if self.looker.is_none() && is_wanted {
            match Looker::start() {
                Ok(looker) => self.looker = Some(looker),
                Err(error) => return Own::Blind(error.to_string()),
            }
        }
        let Some(looker) = &self.looker else {
            return Own::File;
        };
        looker.look(wanted);
        if is_wanted {
            Own::Seen(looker.seen())
        } else {
            Own::File
        }
    }

    fn wanted(&self, config: &Config, watch: &Watch) -> Option<Wanted> {
        let peek = watch.inside.as_ref()?;
        let name = &peek.place.executor;
        let make = match config.executors.get(name) {
            Some(_) => wiring::inside(config, name)?,
            // What the local executor ran is a file even if the executor is no longer there.
            None if peek.place.dag.is_none() => return None,
            None => {
                let name = name.to_string();
                Arc::new(move || {
                    let (tried, why) = ("look into its runs", "it is not in the configuration any more");
                    Err(AdapterError::new(&name, tried, Duration::ZERO, Cause::Local, why))
                })
            }
        };
        Some(Wanted {
            peek: peek.clone(),
            means: self.means,
            make,
        })
    }
}
