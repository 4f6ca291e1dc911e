//! Estimates against worlds whose end is known.

use super::*;
use chrono::NaiveDate;

fn minutes(m: u64) -> Duration {
    Duration::from_secs(60 * m)
}

fn day(i: usize) -> ChunkId {
    ChunkId::day(NaiveDate::from_ymd_opt(1950, 1, 1).unwrap() + chrono::Duration::days(i as i64))
}

fn days(n: usize) -> Vec<WaitingChunk> {
    (0..n)
        .map(|i| WaitingChunk {
            chunk: day(i),
            lane: Lane::Normal,
            weight: 1,
        })
        .collect()
}

fn even(n: usize) -> Vec<(Lane, Duration)> {
    vec![(Lane::Normal, minutes(10)); n]
}

fn outlook<'a>(
    finished: &'a [(Lane, Duration)],
    running: &'a [RunningChunk],
    waiting: &'a [WaitingChunk],
) -> Outlook<'a> {
    Outlook {
        finished,
        running,
        waiting,
        limit: 4,
        stopped: false,
        attempts_per_chunk: 1.0,
        duty: 1.0,
    }
}

fn p50(eta: Eta) -> Duration {
    match eta {
        Eta::Range { p50, .. } => p50,
        Eta::Stopped { work_left } => work_left,
        other => panic!("no estimate: {other:?}"),
    }
}

fn close(a: Duration, b: Duration, share: f64) -> bool {
    let (a, b) = (a.as_secs_f64(), b.as_secs_f64());
    (a - b).abs() <= share * b
}

/// Log-normal around ten minutes.
fn ragged(n: usize, dice: &mut Dice) -> Vec<Duration> {
    (0..n)
        .map(|_| Duration::from_secs_f64(600.0 * (0.5 * dice.normal()).exp()))
        .collect()
}

/// When a world of these durations ends on `limit` slots.
fn truth(durations: &[Duration], limit: usize) -> Duration {
    let mut slots = vec![0.0_f64; limit];
    for d in durations {
        let first = (0..limit).min_by(|a, b| slots[*a].total_cmp(&slots[*b])).unwrap();
        slots[first] += d.as_secs_f64();
    }
    Duration::from_secs_f64(slots.into_iter().fold(0.0, f64::max))
}

#[test]
fn nothing_is_said_before_eight_attempts_have_finished() {
    let waiting = days(100);
    let finished = even(7);
    assert_eq!(
        estimate(&outlook(&finished, &[], &waiting), 1),
        Eta::TooEarly { finished: 7 }
    );
    let finished = even(8);
    assert!(matches!(
        estimate(&outlook(&finished, &[], &waiting), 1),
        Eta::Range { .. }
    ));
}

#[test]
fn nothing_left_is_done() {
    assert_eq!(estimate(&outlook(&[], &[], &[]), 1), Eta::Done);
}

#[test]
fn even_chunks_on_four_slots_take_exactly_their_rounds() {
    let (finished, waiting) = (even(20), days(100));
    let eta = estimate(&outlook(&finished, &[], &waiting), 1);
    assert!(
        matches!(eta, Eta::Range { p50, p90, long_pole: None, extrapolates: false } if p50 == minutes(250) && p90 == p50),
        "{eta:?}"
    );
}

/// Case B26: constant ten-minute chunks and six hours of pause in the middle.
#[test]
fn a_pause_of_six_hours_changes_the_work_that_is_left_by_less_than_five_percent() {
    let (finished, waiting) = (even(500), days(496));
    let running: Vec<RunningChunk> = (0..4)
        .map(|i| RunningChunk {
            chunk: day(500 + i),
            lane: Lane::Normal,
            weight: 1,
            elapsed: minutes(1 + 2 * i as u64),
        })
        .collect();
    let before = estimate(&outlook(&finished, &running, &waiting), 1);
    // What ran has ended; nothing has started for six hours, of which the last 24 were held back for a quarter.
    let finished = even(504);
    let paused = Outlook {
        stopped: true,
        duty: 0.75,
        ..outlook(&finished, &[], &waiting)
    };
    let held = estimate(&paused, 2);
    assert!(
        matches!(held, Eta::Stopped { .. }),
        "no date while the clock is stopped"
    );
    assert_eq!(held.instants(Time::UNIX_EPOCH), None);
    let after = estimate(&outlook(&finished, &[], &waiting), 3);
    for (what, eta) in [("held", held), ("after", after)] {
        assert!(
            close(p50(eta), p50(before), 0.05),
            "{what}: {eta:?}, before: {before:?}"
        );
    }
}

#[test]
fn the_time_that_a_run_has_lasted_counts_for_it() {
    let finished = even(20);
    let run = |elapsed| {
        [RunningChunk {
            chunk: day(0),
            lane: Lane::Normal,
            weight: 1,
            elapsed,
        }]
    };
    assert_eq!(
        p50(estimate(&outlook(&finished, &run(minutes(7)), &[]), 1)),
        minutes(3)
    );
    let late = estimate(&outlook(&finished, &run(minutes(30)), &[]), 1);
    assert!(
        matches!(late, Eta::Range { p50, extrapolates: true, .. } if p50 == minutes(15)),
        "{late:?}"
    );
}

#[test]
fn retries_and_held_back_time_stretch_the_range() {
    let (finished, waiting) = (even(20), days(100));
    let plain = outlook(&finished, &[], &waiting);
    let retried = Outlook {
        attempts_per_chunk: 1.2,
        ..plain
    };
    let held = Outlook { duty: 0.5, ..plain };
    assert_eq!(p50(estimate(&retried, 1)), minutes(300));
    assert_eq!(p50(estimate(&held, 1)), minutes(500));
    for nonsense in [0.0, -1.0, f64::NAN, 7.0] {
        assert_eq!(
            p50(estimate(
                &Outlook {
                    duty: nonsense,
                    ..plain
                },
                1
            )),
            minutes(250)
        );
    }
}

#[test]
fn p50_is_near_the_truth_and_p90_covers_it_most_of_the_time() {
    let (mut near, mut covered) = (0, 0);
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let finished: Vec<(Lane, Duration)> = ragged(60, &mut dice)
            .into_iter()
            .map(|d| (Lane::Normal, d))
            .collect();
        let end = truth(&ragged(300, &mut dice), 8);
        let waiting = days(300);
        let eta = estimate(
            &Outlook {
                limit: 8,
                ..outlook(&finished, &[], &waiting)
            },
            seed,
        );
        let Eta::Range { p50, p90, .. } = eta else {
            panic!("{eta:?}")
        };
        assert!(p50 <= p90);
        near += usize::from(close(p50, end, 0.15));
        covered += usize::from(p90 >= end);
    }
    assert!(
        near >= 32 && covered >= 30,
        "{near} near, {covered} covered, of 40"
    );
}

#[test]
fn summing_up_a_long_order_gives_what_scheduling_each_chunk_gives() {
    for seed in 0..5 {
        let mut dice = Dice(100 + seed);
        let all = ragged(400, &mut dice);
        let finished: Vec<(Lane, Duration)> = all.iter().map(|d| (Lane::Normal, *d)).collect();
        // The very durations that the estimate draws from, over and over, newest ones most.
        let recent: Vec<Duration> = (0..20 * LISTED).map(|_| all[dice.recent(all.len())]).collect();
        let waiting = days(recent.len());
        let eta = p50(estimate(&outlook(&finished, &[], &waiting), seed));
        let end = truth(&recent, 4);
        assert!(close(eta, end, 0.1), "{eta:?} instead of {end:?}");
    }
}

#[test]
fn old_durations_fade() {
    let mut finished = vec![(Lane::Normal, minutes(60)); 300];
    finished.extend(even(200));
    let waiting = days(400);
    let eta = p50(estimate(&outlook(&finished, &[], &waiting), 1));
    let with_recent = minutes(10 * 100);
    assert!(
        eta >= with_recent && close(eta, with_recent, 0.5),
        "{eta:?}, where the plain mean would say 4000 minutes"
    );
}

#[test]
fn the_one_black_friday_that_sets_the_end_is_named() {
    let mut finished = even(50);
    finished.extend([(Lane::Isolated, minutes(500)); 3]);
    let mut waiting = days(40);
    waiting[39].lane = Lane::Isolated;
    waiting[39].weight = 4;
    let eta = estimate(
        &Outlook {
            limit: 8,
            ..outlook(&finished, &[], &waiting)
        },
        1,
    );
    assert!(
        matches!(eta, Eta::Range { long_pole: Some(pole), .. } if pole == day(39)),
        "{eta:?}"
    );
    assert!(p50(eta) >= minutes(500));
}

#[test]
fn isolated_chunks_run_one_at_a_time_while_others_go_on() {
    let mut finished = even(50);
    finished.extend([(Lane::Isolated, minutes(100)); 8]);
    let mut waiting = days(43);
    for w in &mut waiting[..3] {
        (w.lane, w.weight) = (Lane::Isolated, 4);
    }
    let eta = estimate(
        &Outlook {
            limit: 16,
            ..outlook(&finished, &[], &waiting)
        },
        1,
    );
    assert_eq!(p50(eta), minutes(300));
}

#[test]
fn a_chain_of_isolated_chunks_early_in_a_long_order_is_followed_to_its_end() {
    let mut finished = even(50);
    finished.extend([(Lane::Isolated, minutes(20_000)); 8]);
    let mut waiting = days(5 * LISTED);
    for i in [10, 20] {
        (waiting[i].lane, waiting[i].weight) = (Lane::Isolated, 4);
    }
    let eta = estimate(
        &Outlook {
            limit: 16,
            ..outlook(&finished, &[], &waiting)
        },
        1,
    );
    assert!(close(p50(eta), minutes(40_000), 0.01), "{eta:?}");
    assert!(
        matches!(eta, Eta::Range { long_pole: Some(pole), .. } if pole == day(20)),
        "{eta:?}"
    );
}

#[test]
fn a_lane_nobody_has_finished_is_guessed_by_weight_and_said_to_be_a_guess() {
    let finished = even(50);
    let mut waiting = days(1);
    (waiting[0].lane, waiting[0].weight) = (Lane::Heavy, 2);
    let eta = estimate(&outlook(&finished, &[], &waiting), 1);
    assert!(
        matches!(eta, Eta::Range { p50, extrapolates: true, .. } if p50 == minutes(20)),
        "{eta:?}"
    );
}

#[test]
fn a_chunk_heavier_than_the_limit_runs_alone() {
    let mut finished = even(50);
    finished.extend([(Lane::Isolated, minutes(30)); 8]);
    let mut waiting = days(3);
    (waiting[1].lane, waiting[1].weight) = (Lane::Isolated, 4);
    let eta = estimate(
        &Outlook {
            limit: 2,
            ..outlook(&finished, &[], &waiting)
        },
        1,
    );
    assert_eq!(p50(eta), minutes(50));
}

#[test]
fn the_same_seed_gives_the_same_answer() {
    let mut dice = Dice(7);
    let finished: Vec<(Lane, Duration)> = ragged(60, &mut dice)
        .into_iter()
        .map(|d| (Lane::Normal, d))
        .collect();
    let waiting = days(200);
    let eta = |seed| estimate(&outlook(&finished, &[], &waiting), seed);
    assert_eq!(eta(5), eta(5));
    assert_ne!(eta(5), eta(6));
}

#[test]
fn a_century_of_days_is_estimated_quickly() {
    let mut dice = Dice(9);
    let finished: Vec<(Lane, Duration)> = ragged(5000, &mut dice)
        .into_iter()
        .map(|d| (Lane::Normal, d))
        .collect();
    let waiting = days(36_500);
    let begun = std::time::Instant::now();
    let eta = estimate(
        &Outlook {
            limit: 16,
            ..outlook(&finished, &[], &waiting)
        },
        1,
    );
    assert!(matches!(eta, Eta::Range { .. }));
    let took = begun.elapsed();
    println!("{took:?}");
    assert!(
        took < Duration::from_secs(3),
        "{took:?}; an optimised build is to need 20 ms"
    );
}
