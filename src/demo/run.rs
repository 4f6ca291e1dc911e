//! `backfill demo`: the world, a supervisor of its own on a journal of its own, and a screen, or one line at the end.

use super::{BACKFILL, Demo, DemoArgs, Faults, Summary, Workspace};
use crate::{
    cli::{
        args::{self, Global},
        context::{Done, Exit, line},
        logging,
        progress::Progress,
        run::{How, supervise},
    },
    config::{self, Config},
    domain::ids::Name,
    journal::{Journal, Options},
};
use std::time::Instant;

/// Runs the command.
///
/// # Errors
/// No workspace can be made there; exit code 1 when the backfill ends incomplete.
pub fn run(global: &Global, demo: args::Demo) -> Done {
    let args = DemoArgs {
        headless: demo.headless,
        days: demo.days,
        seed: demo.seed,
        faults: match demo.faults {
            args::Faults::None => Faults::None,
            args::Faults::Default => Faults::Default,
        },
        dir: demo.dir,
        json: global.json,
        pace: demo.pace.unwrap_or(if demo.headless { 0.0 } else { 1.0 }),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let program = crate::host::own_binary()?;
    let world = runtime.block_on(Demo::open(&args, &program))?;
    let config = Config::load(&world.workspace().config())?;
    let ended = if args.headless {
        headless(global, &args, &config)
    } else {
        crate::tui::demo(global, &config, BACKFILL)
    };
    world.workspace().end_attempts()?;
    let workspace = runtime.block_on(world.close());
    leave(workspace, args.dir.is_some())?;
    ended
}

/// A temporary workspace is removed, a named one is kept.
fn leave(workspace: Workspace, keep: bool) -> Done {
    if !keep {
        workspace.remove()?;
    }
    Ok(())
}

fn headless(global: &Global, args: &DemoArgs, config: &Config) -> Done {
    let name: Name = BACKFILL.parse().map_err(Exit::usage)?;
    let actor = config::actor(global.actor.as_deref());
    logging::to_file(None, config)?;
    let began = Instant::now();
    let progress = if args.json {
        Progress::quiet()
    } else {
        Progress::start(false, &name)
    };
    let ended = supervise(config, &name, &actor, How::default(), &progress);
    progress.finish();
    let (state, id) = ended?;
    let events = Journal::open(&config.journal.path, Options::default())?.read_after(0, usize::MAX >> 1)?;
    let Some(backfill) = state.backfills.get(&id) else {
        return Err(Exit::code(1));
    };
    let summary = Summary::of(backfill, &events, began.elapsed());
    if args.json {
        line(&serde_json::to_string(&summary)?)?;
    } else {
        line(&summary.to_string())?;
    }
    match summary.exit_code() {
        0 => Ok(()),
        code => Err(Exit::code(code)),
    }
}
