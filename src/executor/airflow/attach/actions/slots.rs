//! The slots of a pool: the throttle that acts within seconds.

use super::{
    Place,
    call::Call,
    eyes::Eyes,
    steps::{Case, Lever, ended, lever},
    words::{count, shown},
};
use crate::executor::{
    airflow::{
        error::CallError,
        wire::{Api, Pool},
    },
    attach::Next,
};

/// Gives a pool its slots.
pub async fn next(
    place: &Place<'_>,
    case: &Case,
    eyes: &dyn Eyes,
    name: &str,
    slots: i64,
) -> Result<Next, CallError> {
    if slots < -1 {
        return Ok(ended(
            false,
            format!("a pool has no {slots} slots: -1 is without limit, 0 starts nothing"),
        ));
    }
    // 2.11 sets it, and from then on answers every question about the pool with an error.
    if slots == -1 && place.api == Api::V1 {
        return Ok(ended(
            false,
            "Airflow 2 cannot show a pool without limit any more: give it many slots instead",
        ));
    }
    Ok(match eyes.pool(name).await? {
        None => ended(false, format!("the server has no pool {}", shown(name))),
        Some(pool) => decide(place, case, &pool, slots),
    })
}

/// See [`next`].
pub fn decide(place: &Place<'_>, case: &Case, pool: &Pool, slots: i64) -> Next {
    let name = shown(&pool.name);
    let call = Call::Slots {
        pool: pool.name.clone(),
        slots,
        include_deferred: pool.include_deferred,
    };
    match lever(case, pool.slots == slots) {
        Lever::Already => ended(true, format!("pool {name} {} already", had(slots))),
        Lever::Reached => ended(true, format!("pool {name} {}", has(slots))),
        Lever::Undone => ended(
            false,
            format!(
                "pool {name} was given {} and has {} now: somebody else sets it, too",
                of(slots),
                of(pool.slots)
            ),
        ),
        Lever::Pull => place.send(case, call),
        Lever::Again(raw) => place.send_again(&call, raw),
        Lever::Wait(left, why) => Next::Wait(left, why),
        Lever::Failed(why) => ended(false, format!("pool {name} still has {}: {why}", of(pool.slots))),
    }
}

fn of(slots: i64) -> String {
    match u64::try_from(slots) {
        Ok(slots) => count(slots, "slot"),
        Err(_) => "no limit".to_owned(),
    }
}

fn had(slots: i64) -> String {
    format!("had {}", of(slots))
}

fn has(slots: i64) -> String {
    match slots {
        0 => "has 0 slots: tasks that run finish, and none starts".to_owned(),
        ..0 => "has no limit now, which takes effect within seconds".to_owned(),
        _ => format!(
            "has {}, which takes effect within seconds; tasks that run finish",
            of(slots)
        ),
    }
}
