//! What a DAG or a native backfill is, before it is attached to.

use super::{super::executor::Inner, facts::seen, likely_zone, offers::dates};
use crate::{
    executor::{
        airflow::wire::{Api, Backfill},
        attach::Found,
    },
    net::{AdapterError, Cause},
};
use chrono_tz::Tz;

/// So many dates at each end of a DAG's runs tell the zone: a year's end has another offset than its middle.
const SAMPLE: usize = 100;

pub(super) async fn find(
    inner: &Inner,
    dag: Option<&str>,
    native: Option<u64>,
    zone: Option<Tz>,
) -> Result<Found, AdapterError> {
    let server = &inner.server;
    let asked = match native {
        Some(id) => Some(server.backfill(id).await?),
        None => None,
    };
    let id = match (&asked, dag) {
        (Some(native), _) => native.dag.clone(),
        (None, Some(dag)) => dag.to_owned(),
        (None, None) => {
            return Err(inner.error("attach", Cause::BadRequest, "name a DAG or a native backfill"));
        }
    };
    let dag = server.dag(&id).await?;
    let native = match asked {
        Some(native) => Some(native),
        None if server.api().await? == Api::V2 => {
            let all = server.backfills(&id).await?.rows;
            all.into_iter().find(Backfill::is_unfinished)
        }
        None => None,
    };
    let mut known = dates(server, &dag, "", SAMPLE).await?;
    known.extend(dates(server, &dag, "-", SAMPLE).await?);
    if let Some(native) = native.as_ref().filter(|_| known.is_empty()) {
        known.extend([native.from, native.to]);
    }
    let zone = zone.or_else(|| likely_zone(&known, &[]));
    let day = |at: crate::domain::Time| at.with_timezone(&zone.unwrap_or(Tz::UTC)).date_naive();
    let window = match &native {
        Some(native) => Some((day(native.from), day(native.to))),
        None => known
            .iter()
            .min()
            .zip(known.iter().max())
            .map(|(a, b)| (day(*a), day(*b))),
    };
    Ok(Found {
        dag: dag.id,
        native: native.map(|n| seen(&n, None)),
        zone,
        window,
    })
}
