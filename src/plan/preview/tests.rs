use super::*;
use crate::{
    domain::{
        event::{Next, Payload},
        failure::FailureClass,
    },
    plan::consent::{differences, payloads},
    plan::testing::{Night, failure},
};

fn all(night: &Night, n: u64) -> Vec<ChunkId> {
    (0..n).map(|i| night.day(i)).collect()
}

/// Case B18.
#[test]
fn only_the_failed_are_re_run_and_done_days_keep_their_attempt() {
    let mut night = Night::new(5);
    for i in 0..4 {
        night.start(night.day(i));
    }
    night.finish(night.day(0));
    night.fail_with(night.day(1), failure(FailureClass::Config), Next::Stay);
    night.fail_with(
        night.day(2),
        failure(FailureClass::Data),
        Next::Quarantine {
            why: "data".to_owned(),
        },
    );
    let ask = Ask::Rerun(all(&night, 5), true);
    let preview = make(night.backfill(), &ask, night.now);
    assert_eq!(
        preview.will.iter().map(|c| c.chunk).collect::<Vec<_>>(),
        [night.day(1), night.day(2)]
    );
    assert_eq!(preview.title, "Re-run 1 failed and 1 quarantined days");
    let one = make(night.backfill(), &Ask::Rerun(vec![night.day(2)], true), night.now);
    assert_eq!(one.title, "Re-run 1 quarantined day");
    assert_eq!(preview.will_not.len(), 3);
    let commands = payloads(&night.state, Some(&night.id()), &ask, &preview, night.now).unwrap();
    for command in commands {
        night.human(command);
    }
    let again = [night.chunk(night.day(1)), night.chunk(night.day(2))];
    assert!(
        again
            .iter()
            .all(|c| c.state == ChunkState::Pending && c.next_no() == 2)
    );
    assert_eq!(
        night.chunk(night.day(0)).next_no(),
        2,
        "the done day has its one attempt"
    );
    assert_eq!(night.chunk(night.day(0)).state, ChunkState::Done);
}

#[test]
fn the_digest_changes_when_the_plan_does_and_the_difference_is_told() {
    let mut night = Night::new(3);
    for i in 0..2 {
        night.start(night.day(i));
        night.finish(night.day(i));
    }
    let ask = Ask::Rerun(all(&night, 2), false);
    let before = make(night.backfill(), &ask, night.now);
    assert_eq!(make(night.backfill(), &ask, night.now).digest, before.digest);
    night.human(Payload::RerunRequested {
        chunks: vec![night.day(0)],
        digest: String::new(),
    });
    let after = make(night.backfill(), &ask, night.now);
    assert_ne!(after.digest, before.digest);
    assert_eq!(
        differences(&before, &after)[0],
        "- 2023-01-01 is left out: waits for its start already"
    );
}

#[test]
fn stopping_names_the_work_that_is_lost() {
    let mut night = Night::new(3);
    night.start(night.day(0));
    night.now += chrono::Duration::minutes(12);
    let preview = make(night.backfill(), &Ask::Stop(all(&night, 2)), night.now);
    assert_eq!(
        (preview.class, preview.will.len(), preview.will_not.len()),
        (3, 1, 1)
    );
    assert_eq!(preview.will[0].attempt, 1, "the one that runs, not the next one");
    assert!(
        preview
            .facts
            .iter()
            .any(|(l, v)| *l == "loses" && v.starts_with("12m of work"))
    );
}

#[test]
fn a_cap_below_the_limit_only_reduces_work() {
    let night = Night::new(3).max_limit(8);
    assert_eq!(make(night.backfill(), &Ask::Cap(Some(2)), night.now).class, 1);
    assert_eq!(make(night.backfill(), &Ask::Cap(None), night.now).class, 2);
}
