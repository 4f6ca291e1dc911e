//! What a DAG or a native backfill is, before it is attached to.

use super::{
    super::{
        connection::Connection,
        error::{CallError, Kind},
        wire::{Api, Backfill, Run, RunKind},
    },
    days::likely_zone,
    facts::native_seen,
    held::Key,
    read::{PAGE, Wanted, newest_native, some_runs},
};
use crate::{
    domain::{Time, text},
    executor::attach::Found,
    net::{AdapterError, Cause},
};
use chrono::TimeDelta;
use chrono_tz::Tz;
use std::time::Duration;

/// From a winter to a summer.
const HALF_A_YEAR: TimeDelta = TimeDelta::days(182);

/// Looks a DAG or a native backfill up. The runs of two seasons tell the zone, where the user does not.
pub(super) async fn find(
    server: &Connection,
    dag: Option<&str>,
    native: Option<u64>,
    zone: Option<Tz>,
) -> Result<Found, CallError> {
    let asked = match native {
        Some(id) => Some(server.backfill(id).await?),
        None => None,
    };
    let Some(dag) = asked.as_ref().map(|b| b.dag.as_str()).or(dag) else {
        let detail = "neither a DAG nor a native backfill is named";
        let error = AdapterError::new(server.name(), "look it up", Duration::ZERO, Cause::Local, detail);
        return Err(CallError::new(Kind::Invalid, error));
    };
    let wanted = Wanted::of(&server.dag(dag).await?, &server.version().await?);
    let native = match asked {
        Some(asked) => Some(asked),
        None => unfinished(server, &wanted.dag).await?,
    };
    let runs = samples(server, &wanted, zone.is_none()).await?;
    let dates: Vec<Time> = runs.iter().filter_map(|r| wanted.key.instant(r)).collect();
    let zone = zone.or_else(|| likely_zone(&dates, &[]));
    let span = match &native {
        Some(native) => Some((native.from, native.to)),
        None => dates.iter().min().copied().zip(dates.iter().max().copied()),
    };
    let day = |at: Time| at.with_timezone(&zone.unwrap_or(Tz::UTC)).date_naive();
    let maker = native.as_ref().and_then(|native| maker(native, &runs));
    Ok(Found {
        dag: wanted.dag,
        native: native.map(|native| native_seen(&native, maker)),
        zone,
        window: span.map(|(first, last)| (day(first), day(last))),
    })
}

async fn unfinished(server: &Connection, dag: &str) -> Result<Option<Backfill>, CallError> {
    if server.api().await? == Api::V1 {
        return Ok(None);
    }
    match newest_native(server, dag).await {
        Ok(newest) => Ok(newest.filter(Backfill::is_unfinished)),
        Err(e) if e.kind == Kind::Forbidden => Ok(None),
        Err(e) => Err(e),
    }
}

/// The first and the last runs, and if it matters those of another season than the first.
async fn samples(server: &Connection, wanted: &Wanted, season: bool) -> Result<Vec<Run>, CallError> {
    if wanted.key == Key::Nothing {
        // The names of the partitions are the days, in whatever zone.
        return Ok(Vec::new());
    }
    let most = if season { PAGE } else { 1 };
    let mut runs = some_runs(server, wanted, None, false, most).await?;
    let first = runs.iter().filter_map(|r| wanted.key.instant(r)).min();
    runs.extend(some_runs(server, wanted, None, true, most).await?);
    let later = first.and_then(|first| first.checked_add_signed(HALF_A_YEAR));
    if let Some(later) = later.filter(|_| season) {
        runs.extend(some_runs(server, wanted, Some(later), false, most).await?);
    }
    Ok(runs)
}

fn maker(native: &Backfill, runs: &[Run]) -> Option<String> {
    let made = native.created?;
    let of_it = |run: &&Run| run.kind == RunKind::Backfill && run.queued_at.is_some_and(|q| q >= made);
    let user = runs.iter().find(of_it)?.user.as_deref()?;
    Some(text::one_line(user, 80))
}
