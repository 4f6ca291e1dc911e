//! Floor 5: a whole small world to try the program on. Raw events, an aggregation that really writes partitions,
//! and a live consumer whose lag suffers from it; everything from one seed, nothing outside one folder.

pub mod dice;
pub mod endpoint;
pub mod job;
pub mod live;
pub mod model;
pub mod presence;
pub mod promql;
pub mod publish;
pub mod raw;
mod run;
pub mod summary;
pub mod workspace;

use endpoint::Endpoint;
use live::Live;
use model::{Model, World};
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

pub use run::run;
pub use summary::Summary;
pub use workspace::{Settings, Workspace, WorkspaceError};

/// The hidden subcommand that is the demo's data work.
pub const JOB: &str = "__demo-job";

/// The backfill's name in the demo's configuration.
pub const BACKFILL: &str = "orders";

/// The demo's data work, a process of its own many times a minute: it needs none of the rest. Called first thing in
/// `main`; `None` when the arguments are for somebody else.
pub fn early(arguments: impl Iterator<Item = std::ffi::OsString>) -> Option<std::process::ExitCode> {
    let mut arguments = arguments.skip(1);
    let first = arguments.next()?;
    (first == JOB).then(|| std::process::ExitCode::from(job::main(arguments)))
}

/// What `backfill demo` was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct DemoArgs {
    /// Without a screen; ends with a [`Summary`].
    pub headless: bool,
    /// How many of the newest days: 1 to [`raw::ALL_DAYS`].
    pub days: u32,
    /// Everything that is drawn is drawn from it.
    pub seed: u64,
    /// Which faults happen.
    pub faults: Faults,
    /// Where the workspace is made; a temporary folder when absent.
    pub dir: Option<PathBuf>,
    /// The summary as one JSON line instead of words.
    pub json: bool,
    /// Factor on the time that work takes; 0 for as quick as the machine can.
    pub pace: f64,
}

impl Default for DemoArgs {
    fn default() -> Self {
        Self {
            headless: false,
            days: raw::ALL_DAYS,
            seed: 1,
            faults: Faults::Default,
            dir: None,
            json: false,
            pace: 1.0,
        }
    }
}

impl DemoArgs {
    /// The part that the workspace needs.
    pub const fn settings(&self) -> Settings {
        Settings {
            days: self.days,
            seed: self.seed,
            faults: self.faults,
            pace: self.pace,
        }
    }
}

/// A demo's world, ready to be supervised: its folder with the configuration in it, and its live consumer behind
/// an endpoint. Both live as long as this.
#[derive(Debug)]
pub struct Demo {
    workspace: Workspace,
    endpoint: Endpoint,
    // Ends with the demo.
    _live: Live,
}

impl Demo {
    /// Makes the workspace, starts the live consumer and its endpoint, and writes the configuration. `program` is
    /// the binary whose [`JOB`] subcommand does the work: ours. Needs a tokio runtime.
    ///
    /// # Errors
    /// No workspace can be made there, or no endpoint started.
    pub async fn open(args: &DemoArgs, program: &Path) -> Result<Self, WorkspaceError> {
        let (dir, settings) = (args.dir.clone(), args.settings());
        let made = tokio::task::spawn_blocking(move || Workspace::make(dir.as_deref(), settings)).await;
        let workspace = made.map_err(|e| refused("the workspace", e.into()))??;
        let world = match args.faults {
            Faults::None => World::calm(),
            Faults::Default => World::lively(),
        };
        let live = Live::start(Model::new(world), &workspace.running(), args.seed)
            .map_err(|e| refused("the live consumer", e))?;
        let endpoint = endpoint::serve(live.metrics())
            .await
            .map_err(|e| refused("the demo's endpoint", e))?;
        workspace.configure(endpoint.addr(), program)?;
        Ok(Self {
            workspace,
            endpoint,
            _live: live,
        })
    }

    /// Its folder.
    pub const fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Its endpoint.
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Ends the endpoint and the live consumer and gives the workspace back, to be kept or removed.
    pub async fn close(self) -> Workspace {
        self.endpoint.stop().await;
        self.workspace
    }
}

fn refused(what: &str, source: std::io::Error) -> WorkspaceError {
    WorkspaceError::Io {
        path: what.into(),
        source,
    }
}

/// Which faults happen in the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Faults {
    /// Nothing fails: no bad data, no transient failure, enough memory, no incident at the live consumer.
    None,
    /// Some first attempts fail, one day's raw events are torn, heavy days need the larger profile, and the live
    /// consumer has incidents.
    #[default]
    Default,
}

impl Faults {
    /// The word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Default => "default",
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Faults {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        [Self::None, Self::Default]
            .into_iter()
            .find(|f| f.word() == s)
            .ok_or_else(|| format!("`{s}` is no set of faults: use none or default"))
    }
}
