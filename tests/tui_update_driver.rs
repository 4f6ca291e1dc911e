//! The driver and the feeder, as sentences: what goes to the journal with which head, and what comes from it.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod tui_update_desk;

use backfill::{
    domain::{event::Payload, ids::ChunkId},
    tui::{
        driver::{Driver, Order, Wanted, submit},
        effect::{Effect, Planner},
        feeder::{Feeder, News, Source, nothing_known},
        model::Ask,
        msg::Answer,
        terminal::{
            Hands, inbox,
            probe::{Counter, Memory, Reader, epoch, year},
        },
    },
};
use std::{
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use tui_update_desk::{Desk, day};

fn confirmed<'a>(desk: &'a Desk, ask: &'a Ask, digest: &'a str) -> Wanted<'a> {
    Wanted {
        backfill: Some(&desk.id),
        ask,
        digest,
    }
}

#[test]
fn a_journal_that_moved_on_with_the_same_plan_is_written_to_again() {
    let desk = Desk::new();
    let ask = Ask::Rerun(vec![day("2023-01-06")], true);
    let digest = desk
        .planner
        .preview(&desk.feed, Some(&desk.id), &ask, desk.now)
        .digest;
    desk.memory.faults(|f| f.conflicts = 3);
    let now = desk.now;
    let answer = submit(
        &mut desk.memory.clone(),
        &desk.planner,
        &confirmed(&desk, &ask, &digest),
        desk.feed.clone(),
        &|| now,
    );
    assert!(matches!(answer, Answer::Accepted { .. }), "{answer:?}");
    let ids: Vec<ChunkId> = vec![day("2023-01-06")];
    let newest = desk.memory.events().pop().unwrap();
    assert_eq!(
        newest.payload,
        backfill::domain::event::Read::Known(Payload::RerunRequested { chunks: ids, digest })
    );
}

/// The dialog and the driver ask the planner the same question, so that an unchanged world gives the same digest.
#[test]
fn what_any_dialog_showed_is_accepted_while_nothing_changes() {
    for name in [
        "resume",
        "rerun-failed",
        "stop-supervising",
        "free-limit",
        "cancel-backfill",
        "stop-running",
    ] {
        let mut desk = Desk::new();
        desk.happens(Payload::CapSet { cap: Some(2) });
        desk.happens(Payload::Paused { until: None });
        desk.keys(":");
        desk.text(name);
        desk.keys("enter");
        let effects = match desk.dialog().phrase.clone() {
            Some((phrase, _)) => {
                desk.look();
                desk.text(&phrase);
                desk.keys("enter")
            }
            None => desk.keys("y"),
        };
        let [
            Effect::Submit {
                backfill,
                ask,
                digest,
                ..
            },
        ] = &effects[..]
        else {
            panic!("{name}: {effects:?}");
        };
        let wanted = Wanted {
            backfill: backfill.as_ref(),
            ask,
            digest,
        };
        let now = desk.now;
        let answer = submit(
            &mut desk.memory.clone(),
            &desk.planner,
            &wanted,
            desk.feed.clone(),
            &|| now,
        );
        assert!(matches!(answer, Answer::Accepted { .. }), "{name}: {answer:?}");
    }
}

#[test]
fn a_journal_that_never_stands_still_is_given_up_after_a_few_tries() {
    let desk = Desk::new();
    let ask = Ask::Rerun(vec![day("2023-01-06")], true);
    let digest = desk
        .planner
        .preview(&desk.feed, Some(&desk.id), &ask, desk.now)
        .digest;
    desk.memory.faults(|f| f.conflicts = 1000);
    let now = desk.now;
    let wanted = confirmed(&desk, &ask, &digest);
    let answer = submit(
        &mut desk.memory.clone(),
        &desk.planner,
        &wanted,
        desk.feed.clone(),
        &|| now,
    );
    assert!(
        matches!(&answer, Answer::Refused { why } if why.contains("try again")),
        "{answer:?}"
    );
}

/// A journalist that notes the head of each order.
struct Heads(Memory, Arc<Mutex<Vec<Option<u64>>>>);

impl backfill::tui::driver::Journalist for Heads {
    fn fresh(&mut self) -> Result<Arc<backfill::domain::state::State>, String> {
        self.0.fresh()
    }
    fn append(&mut self, order: &Order) -> backfill::tui::driver::Appended {
        self.1.lock().unwrap().push(order.head);
        self.0.append(order)
    }
}

#[test]
fn commands_that_only_reduce_work_carry_no_head_and_dialogs_carry_theirs() {
    let desk = Desk::new();
    let heads = Arc::<Mutex<Vec<Option<u64>>>>::default();
    let (inbox, mailbox) = inbox();
    let source = Box::new(Reader::new(desk.memory.clone()));
    let feeder = Feeder::start(source, inbox.clone(), Duration::from_secs(60), epoch()).unwrap();
    let journalist = Box::new(Heads(desk.memory.clone(), heads.clone()));
    let planner: Arc<dyn Planner> = Arc::new(desk.planner);
    let mut driver = Driver::start(
        journalist,
        planner,
        Arc::new(Counter::default()),
        feeder,
        inbox,
        epoch,
    )
    .unwrap();
    let ask = Ask::Rerun(vec![day("2023-01-06")], true);
    let digest = desk
        .planner
        .preview(&desk.feed, Some(&desk.id), &ask, desk.now)
        .digest;
    let backfill = Some(desk.id.clone());
    let head = desk.memory.state().head;
    let submit = Effect::Submit {
        op: 1,
        backfill: backfill.clone(),
        ask,
        digest,
    };
    let hold = Effect::Command {
        op: 2,
        backfill,
        payload: Payload::HoldPlaced {
            chunks: vec![day("2023-05-01")],
        },
        reason: None,
    };
    assert_eq!(driver.take(submit, &desk.feed), None);
    assert_eq!(driver.take(hold, &desk.feed), None);
    let until = Instant::now() + Duration::from_secs(10);
    while heads.lock().unwrap().len() < 2 && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(*heads.lock().unwrap(), [Some(head), None]);
    drop(mailbox);
}

#[test]
fn news_that_nobody_took_in_yet_are_merged_into_the_newest() {
    let (memory, id) = year().unwrap();
    let mut reader = Reader::new(memory.clone());
    let watch = backfill::tui::effect::Watch::default();
    let mut merged = News::default();
    for _ in 0..3 {
        memory.happen(true, Some(&id), Payload::Paused { until: None }, None);
        merged.merge(reader.poll(&watch).unwrap());
    }
    let mut feed = nothing_known(epoch());
    assert!(merged.apply(&mut feed));
    assert_eq!(feed.state.head, memory.state().head);
    let seqs: Vec<u64> = feed.events.iter().map(|e| e.seq).collect();
    assert_eq!(seqs, (1..=feed.state.head).collect::<Vec<_>>(), "each event once");
}

#[test]
fn a_feed_keeps_the_newest_500_events() {
    let (memory, id) = year().unwrap();
    for _ in 0..700 {
        memory.happen(true, Some(&id), Payload::CapSet { cap: Some(2) }, None);
    }
    let feed = memory.feed();
    assert_eq!(
        (feed.events.len(), feed.events.back().unwrap().seq),
        (500, memory.state().head)
    );
}
