//! What could be attached to.
//!
//! A native backfill must be asked for DAG by DAG. One that is unfinished has runs that wait or run, so the statistics
//! of all DAGs, a request or two, say where it is worth asking.

use super::{
    super::{
        connection::Connection,
        error::{CallError, Kind},
        wire::{Api, Backfill, Dag, DagStats, RunState},
    },
    held::Key,
    read::{Wanted, newest_native, some_runs},
};
use crate::{
    domain::{human::with_commas, text},
    executor::attach::Offer,
};
use chrono::NaiveDate;
use std::collections::HashMap;

/// So many DAGs are asked for a native backfill.
const MOST_NATIVE: usize = 10;
/// So many DAGs are offered for their runs.
const MOST_DAGS: usize = 6;
/// Fewer runs are no backfill.
const MANY: u64 = 20;
/// DAGs whose statistics are asked for at once.
const AT_ONCE: usize = 50;

/// Unfinished native backfills first, then DAGs with many runs, those with work under way before others.
pub(super) async fn offers(server: &Connection) -> Result<Vec<Offer>, CallError> {
    let dags = server.dags().await?.rows;
    let stats = stats(server, &dags).await?;
    let mut busy: Vec<(&Dag, &DagStats)> = dags
        .iter()
        .filter_map(|dag| Some((dag, stats.get(dag.id.as_str())?)))
        .collect();
    busy.sort_by(|a, b| {
        let order = |stats: &DagStats| (under_way(stats), stats.total());
        order(b.1).cmp(&order(a.1)).then_with(|| a.0.id.cmp(&b.0.id))
    });
    let mut offers = native(server, &busy).await?;
    let many = busy.iter().filter(|(_, stats)| stats.total() >= MANY);
    let many = many.filter(|(dag, _)| dag.schedule.is_some());
    for (dag, stats) in many.take(MOST_DAGS) {
        if offers.iter().any(|o| o.dag == dag.id) {
            continue;
        }
        offers.push(Offer {
            dag: dag.id.clone(),
            native: None,
            window: window(server, dag).await?,
            words: words(dag, stats),
        });
    }
    Ok(offers)
}

fn under_way(stats: &DagStats) -> u64 {
    stats.count(&RunState::Queued) + stats.count(&RunState::Running)
}

async fn stats(server: &Connection, dags: &[Dag]) -> Result<HashMap<String, DagStats>, CallError> {
    let mut found = HashMap::new();
    for some in dags.chunks(AT_ONCE) {
        let ids: Vec<&str> = some.iter().map(|dag| dag.id.as_str()).collect();
        let stats = server.dag_stats(&ids).await?;
        found.extend(stats.into_iter().map(|s| (s.dag.clone(), s)));
    }
    Ok(found)
}

async fn native(server: &Connection, busy: &[(&Dag, &DagStats)]) -> Result<Vec<Offer>, CallError> {
    let mut offers = Vec::new();
    if server.api().await? == Api::V1 {
        return Ok(offers);
    }
    let asked = busy
        .iter()
        .filter(|(dag, stats)| dag.backfillable != Some(false) && under_way(stats) > 0);
    for (dag, stats) in asked.take(MOST_NATIVE) {
        let newest = match newest_native(server, &dag.id).await {
            Ok(newest) => newest,
            // Of this DAG, or of all, it may not be asked.
            Err(e) if matches!(e.kind, Kind::Forbidden | Kind::Absent) => continue,
            Err(e) => return Err(e),
        };
        let Some(native) = newest.filter(Backfill::is_unfinished) else {
            continue;
        };
        let state = if native.paused { "paused" } else { "running" };
        let limit = native
            .max_active_runs
            .map_or_else(String::new, |n| format!(", limit {n}"));
        offers.push(Offer {
            dag: dag.id.clone(),
            native: Some(native.id),
            window: Some((native.from.date_naive(), native.to.date_naive())),
            words: format!(
                "{state}{limit}, {} waiting",
                with_commas(stats.count(&RunState::Queued))
            ),
        });
    }
    Ok(offers)
}

/// The first and the last day of which the DAG has a run, as days of UTC: its zone is not known yet.
async fn window(server: &Connection, dag: &Dag) -> Result<Option<(NaiveDate, NaiveDate)>, CallError> {
    let wanted = Wanted::of(dag, &server.version().await?);
    if wanted.key == Key::Nothing {
        return Ok(None);
    }
    let mut ends = Vec::new();
    for newest_first in [false, true] {
        let runs = some_runs(server, &wanted, None, newest_first, 1).await?;
        ends.extend(runs.first().and_then(|run| wanted.key.instant(run)));
    }
    Ok(match ends[..] {
        [first, last] => Some((first.date_naive(), last.date_naive())),
        _ => None,
    })
}

fn words(dag: &Dag, stats: &DagStats) -> String {
    let mut words = format!("{} runs", with_commas(stats.total()));
    for (state, what) in [
        (RunState::Running, "running"),
        (RunState::Queued, "waiting"),
        (RunState::Failed, "failed"),
    ] {
        let n = stats.count(&state);
        if n > 0 {
            words.push_str(&format!(", {} {what}", with_commas(n)));
        }
    }
    if dag.paused {
        words.push_str(", DAG paused");
    }
    text::one_line(&words, 120)
}
