//! `logs NAME DATE`: the output of an attempt, cleaned of control characters when it goes to a terminal.

use super::{
    args::LogOf,
    context::{Context, Done, Exit, find, line},
    task_logs,
};
use crate::{
    config::Places,
    domain::{ids::AttemptId, text},
    executor::local,
    plan::select,
    supervisor::wiring,
};
use std::{
    fs::File,
    io::{IsTerminal, Read, Seek, SeekFrom, Write},
    path::Path,
    time::Duration,
};

/// The command.
pub fn logs(ctx: &Context, name: &str, date: &str, attempt: Option<u32>, follow: bool, part: LogOf) -> Done {
    let state = ctx.state()?;
    let backfill = find(&state, &ctx.config, name)?;
    let chunks = select::chunks(backfill, date).map_err(Exit::usage)?;
    let [id] = chunks.as_slice() else {
        return Err(Exit::usage(format!(
            "{date} names {} chunks: give one",
            chunks.len()
        )));
    };
    let Some(chunk) = backfill.chunk(*id) else {
        return Err(Exit::code(2));
    };
    let known = match attempt {
        Some(no) => chunk.attempts.iter().find(|a| a.no == no),
        None => chunk.last(),
    };
    let Some(known) = known else {
        if chunk.attempts.is_empty() {
            let state = chunk.state.word();
            return Err(Exit::usage(format!("{id} has not started yet ({state})"))
                .hint(format!("backfill why {} {id}", backfill.spec.name)));
        }
        let has = chunk.attempts.len();
        return Err(Exit::usage(format!("{id} has no such attempt; it has {has}")));
    };
    let attempt = backfill.attempt_id(*id, known.no);
    if let Some(make) = wiring::inside(&ctx.config, &known.executor) {
        return task_logs::show(ctx, &attempt, &make, follow, part);
    }
    if backfill.spec.dag.is_some() {
        let why = format!(
            "{} is not in the configuration, and {attempt} ran there",
            known.executor
        );
        return Err(Exit::usage(why));
    }
    if part.is_chosen() {
        let why = format!("{attempt} is one command with one output: it has no tasks and tries of its own");
        return Err(Exit::usage(why));
    }
    let file = local::log_path(&Places::of(&ctx.config.journal.path).state, &attempt);
    if ctx.json {
        let value = serde_json::json!({ "attempt": attempt, "file": file, "exists": file.exists() });
        return line(&value.to_string());
    }
    show(ctx, &file, &attempt, follow)
}

fn show(ctx: &Context, path: &Path, attempt: &AttemptId, follow: bool) -> Done {
    let mut at = 0;
    loop {
        let open = still_open(ctx, attempt)?;
        match File::open(path) {
            Ok(mut file) => at = copy_from(&mut file, at)?,
            Err(_) if follow && open => {}
            Err(error) => return Err(Exit::usage(format!("no log of {attempt}: {error}"))),
        }
        if !follow || !open {
            if at == 0 {
                // Not on standard output: that is the attempt's own.
                let _ = writeln!(std::io::stderr(), "(nothing written)");
            }
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// Whether an attempt has not ended, as far as the journal knows.
pub(super) fn still_open(ctx: &Context, attempt: &AttemptId) -> Result<bool, Exit> {
    let state = ctx.state()?;
    let chunk = state
        .backfills
        .get(&attempt.backfill)
        .and_then(|b| b.chunk(attempt.chunk));
    Ok(chunk.and_then(|c| c.open()).is_some_and(|a| a.no == attempt.no))
}

/// Copies what is new. On a terminal control characters become text; a pipe gets the bytes as they are.
fn copy_from(file: &mut File, from: u64) -> Result<u64, Exit> {
    let length = file.metadata()?.len();
    let from = if length < from { 0 } else { from };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = vec![0; 64 * 1024];
    let mut at = from;
    let mut out = std::io::stdout();
    let terminal = out.is_terminal();
    loop {
        let n = file.read(&mut bytes)?;
        let Some(read) = bytes.get(..n).filter(|b| !b.is_empty()) else {
            return Ok(at);
        };
        at += n as u64;
        let written = if terminal {
            let lines: Vec<String> = String::from_utf8_lossy(read)
                .split('\n')
                .map(text::clean)
                .collect();
            out.write_all(lines.join("\n").as_bytes())
        } else {
            out.write_all(read)
        };
        match written.and_then(|()| out.flush()) {
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => return Err(Exit::code(0)),
            other => other?,
        }
    }
}
