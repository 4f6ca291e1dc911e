//! What a limit of somebody else's backfill is written to: the slots of its pool.

use super::{Fact, count, empty, refused};
use crate::{
    domain::state::Backfill,
    plan::preview::{Ask, Preview},
};

pub(super) fn limit(backfill: &Backfill, ask: &Ask) -> Preview {
    let name = &backfill.spec.name;
    let Some(pool) = backfill.spec.dag.as_ref().and_then(|d| d.pool.as_ref()) else {
        return refused(
            backfill,
            "No pool was named when it was attached, so no limit can be written",
        );
    };
    let (title, same_as) = match ask {
        Ask::Cap(Some(cap)) => (
            format!("Cap the limit at {cap}"),
            format!("backfill throttle {name} cap {cap}"),
        ),
        Ask::Force(to, d) => {
            let d = crate::domain::human::duration(*d);
            (
                format!("Force limit {to} for {d}"),
                format!("backfill throttle {name} force {to} --for {d}"),
            )
        }
        _ => (
            "Give the limit back to the throttle".to_owned(),
            format!("backfill throttle {name} auto"),
        ),
    };
    let mut preview = empty(title, 2, same_as);
    preview.facts.push((
        "effect",
        format!("the limit is written to the slots of pool {pool}, within its own slots"),
    ));
    preview.facts.extend(shared(backfill));
    preview
}

/// Who else has tasks in the pool.
fn shared(backfill: &Backfill) -> Option<Fact> {
    let pool = backfill.seen.as_ref()?.pool.as_ref()?;
    let others = match &pool.others {
        None => "who else uses the pool may not be asked".to_owned(),
        Some(others) if others.is_empty() => "nobody else has tasks in the pool now".to_owned(),
        Some(others) => {
            let first = others.iter().take(3).map(|(dag, n)| format!("{dag} ({n})"));
            format!(
                "tasks of {} are in the pool, too",
                first.collect::<Vec<_>>().join(", ")
            )
        }
    };
    Some(("shared", others))
}

pub(super) fn slots_of(backfill: &Backfill, pool: &str, slots: i64) -> Preview {
    let name = &backfill.spec.name;
    let words = if slots < 0 {
        "no limit".to_owned()
    } else {
        count(usize::try_from(slots).unwrap_or(0), "slot")
    };
    let mut preview = empty(
        format!("Give pool {pool} {words}"),
        2,
        format!("backfill throttle {name} slots {slots}"),
    );
    preview
        .facts
        .push(("effect", "within seconds; running tasks finish".to_owned()));
    let seen = backfill.seen.as_ref().and_then(|f| f.pool.as_ref());
    if let Some(pool) = seen {
        preview.facts.push((
            "now",
            format!(
                "{} slots, {} in use, {} waiting",
                pool.slots, pool.running, pool.waiting
            ),
        ));
        preview
            .facts
            .push(("undo", format!("backfill throttle {name} slots {}", pool.slots)));
    }
    preview.facts.extend(shared(backfill));
    preview
}
