//! Our own log: to a file when supervising, never between the events on standard output. `BACKFILL_LOG` filters it.

use super::context::Exit;
use crate::{
    config::{Config, Places},
    domain::text,
};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Mutex,
};
use tracing_subscriber::{EnvFilter, fmt, prelude::*};

/// Largest log of our own before it begins anew; one older one is kept.
const MAX: u64 = 16_000_000;

/// Writes the log to `path`, else to `supervisor.log` beside the journal.
///
/// # Errors
/// The file cannot be opened.
pub fn to_file(path: Option<&Path>, config: &Config) -> Result<(), Exit> {
    let path = path.map_or_else(
        || Places::of(&config.journal.path).state.join("supervisor.log"),
        Path::to_path_buf,
    );
    let file = open(&path).map_err(|error| {
        let shown = text::clean(&path.display().to_string());
        Exit::usage(format!(
            "the supervisor's own log {shown} cannot be written: {error}"
        ))
    })?;
    let filter =
        EnvFilter::try_from_env("BACKFILL_LOG").unwrap_or_else(|_| EnvFilter::new("backfill=info,warn"));
    let layer = fmt::layer()
        .with_ansi(false)
        // A log on a full disk must not be complained about on a terminal that may not be read.
        .log_internal_errors(false)
        .with_writer(Mutex::new(file));
    // A second supervisor in one process (the demo) goes on with the first one's log.
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    if std::fs::metadata(path).is_ok_and(|m| m.len() > MAX) {
        std::fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}
