//! Floor 5: the non-interactive commands, their wiring and their exit codes.

pub mod args;
pub mod ask;
pub mod attach;
pub mod attention;
pub mod check;
pub mod command;
pub mod context;
pub mod ending;
pub mod exit;
pub mod gaps;
pub mod law_view;
mod levers;
pub mod logging;
pub mod logs;
pub mod partial;
pub mod plan;
pub mod progress;
pub mod prompt;
pub mod run;
pub mod seen;
pub mod simulate;
pub mod status;
pub mod task_logs;
pub mod tell;
pub mod told;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use context::{Context, Done};
use std::process::ExitCode;

/// Reads the command line, does what it says, and gives the exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::tell_grammar(&error, std::env::args_os()),
    };
    let json = cli.global.json;
    match dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.tell(json),
    }
}

fn dispatch(cli: Cli) -> Done {
    let global = cli.global;
    let Some(command) = cli.command else {
        return super::tui::open(&global);
    };
    let writing = |name: &str| Context::writing(&global, name);
    let looking = |name: &str| Context::looking(&global, name);
    match command {
        Command::Demo(demo) => super::demo::run(&global, demo),
        Command::Check => check::check(&global),
        Command::Plan { name, all } => plan::plan(&global, &name, all),
        Command::Run {
            name,
            detached,
            while_pid,
            again,
            yes,
            log,
        } => {
            let how = run::How {
                detached,
                while_pid,
                again,
                yes,
            };
            run::run(&global, name.as_deref(), how, log.as_deref())
        }
        Command::Status { name } => status::status(&global, name.as_deref()),
        Command::Pause {
            name,
            whole_dag: true,
            yes,
            reason,
            ..
        } => levers::freeze(&mut writing(&name)?, &name, (true, yes), reason),
        Command::Pause {
            name,
            duration,
            reason,
            ..
        } => command::pause(&mut writing(&name)?, &name, duration, reason),
        Command::Resume {
            name,
            whole_dag: true,
            yes,
            reason,
        } => levers::freeze(&mut writing(&name)?, &name, (false, yes), reason),
        Command::Resume {
            name, yes, reason, ..
        } => command::resume(&mut writing(&name)?, &name, yes, reason),
        Command::Attach(wanted) => attach::attach(&global, wanted),
        Command::Detach { name, consent } => levers::detach(&mut writing(&name)?, &name, consent),
        Command::Mark {
            name,
            state,
            days,
            consent,
        } => levers::mark(&mut writing(&name)?, &name, (&days, state), consent),
        Command::Replace { name, limit, consent } => {
            levers::replace(&mut writing(&name)?, &name, limit, consent)
        }
        Command::Native {
            name,
            days,
            limit,
            reprocess,
            newest_first,
            consent,
        } => {
            let order = levers::NewNative {
                days,
                limit,
                reprocess: reprocess.into(),
                newest_first,
            };
            levers::native(&mut writing(&name)?, &name, &order, consent)
        }
        Command::Take {
            name,
            date,
            how,
            consent,
        } => levers::take(&mut writing(&name)?, &name, (&date, how.into()), consent),
        Command::Throttle { name, to } => command::throttle(&mut writing(&name)?, &name, to),
        Command::Rerun {
            name,
            days,
            failed,
            consent,
        } => command::rerun(&mut writing(&name)?, &name, &days, failed, consent),
        Command::Hold(days) => command::hold(&mut writing(&days.name)?, days),
        Command::Release(days) => command::release(&mut writing(&days.name)?, days),
        Command::Skip(days) => command::skip(&mut writing(&days.name)?, days),
        Command::StopRuns(days) => command::stop_runs(&mut writing(&days.name)?, days),
        Command::Cancel {
            name,
            running,
            consent,
        } => command::cancel(&mut writing(&name)?, &name, running, consent),
        Command::Amend { name, consent } => command::amend(&mut writing(&name)?, &name, consent),
        Command::Resolve {
            name,
            date,
            verdict,
            reason,
        } => command::resolve(&mut writing(&name)?, &name, &date, verdict, reason),
        Command::Acknowledge { name, reason } => command::acknowledge(&mut writing(&name)?, &name, reason),
        Command::CloseBreaker { name, reason } => command::close_breaker(&mut writing(&name)?, &name, reason),
        Command::Stop { reason } => command::stop(&mut writing("")?, reason),
        Command::Why { name, date } => status::why_of(&looking(&name)?, &name, &date),
        Command::Logs {
            name,
            date,
            attempt,
            follow,
            part,
        } => logs::logs(&looking(&name)?, &name, &date, attempt, follow, part),
        Command::Events { name, last } => status::events(&looking(&name)?, &name, last),
        Command::Simulate {
            scenario,
            policy,
            seeds,
        } => simulate::simulate(global.json, &scenario, &policy, seeds),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "backfill", &mut script);
            context::text(&script)
        }
    }
}
