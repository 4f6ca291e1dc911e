use super::*;
use crate::config::KafkaConfig;
use proptest::prelude::*;

fn config() -> KafkaConfig {
    KafkaConfig::at(vec!["k:9092".into()], vec!["live".into()])
}

fn at(offset: i64) -> Commit {
    Commit::At { offset, epoch: None }
}

fn log(start: i64, end: i64) -> Result<Log, String> {
    Ok(Log {
        start,
        end,
        high: None,
        epoch: None,
    })
}

fn group(state: &str, commits: &[(&str, i32, Commit)]) -> Group {
    Group {
        name: "live".to_owned(),
        members: Members {
            state: state.to_owned(),
            topics: BTreeSet::new(),
        },
        commits: commits
            .iter()
            .map(|(topic, partition, commit)| (Place::new(*topic, *partition), commit.clone()))
            .collect(),
    }
}

fn topic(id: u8, partitions: i32) -> Topic {
    Topic::There {
        id: Some([id; 16]),
        partitions: (0..partitions).collect(),
    }
}

/// One group and one topic `t`, whose logs are those.
fn tables(commits: &[Commit], logs: &[Result<Log, String>]) -> Tables {
    let commits: Vec<(&str, i32, Commit)> = commits
        .iter()
        .zip(0..)
        .map(|(commit, partition)| ("t", partition, commit.clone()))
        .collect();
    let count = i32::try_from(logs.len()).unwrap();
    Tables {
        groups: vec![group("Stable", &commits)],
        topics: [("t".to_owned(), topic(1, count))].into(),
        logs: logs
            .iter()
            .zip(0..)
            .map(|(log, partition)| (Place::new("t", partition), log.clone()))
            .collect(),
    }
}

fn measured(tables: &Tables) -> Measured {
    let mut all = measure(&config(), tables, &mut Memory::default(), Duration::ZERO);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn one(commit: Commit, log: Result<Log, String>) -> Found {
    let found = measured(&tables(&[commit], &[log]));
    found.places[&Place::new("t", 0)].clone()
}

#[test]
fn the_lag_is_the_end_less_the_commit() {
    for (committed, end, messages) in [(0, 0, 0), (7, 10, 3), (10, 10, 0), (0, 1 << 40, 1 << 40)] {
        assert_eq!(
            one(at(committed), log(0, end)),
            Found::Behind {
                messages,
                lost: 0,
                next: committed,
                end
            }
        );
    }
}

#[test]
fn a_commit_before_the_first_message_counts_from_there_and_tells_what_is_lost() {
    let table = tables(&[at(10)], &[log(60, 100)]);
    let found = measured(&table);
    assert_eq!(
        found.places[&Place::new("t", 0)],
        Found::Behind {
            messages: 40,
            lost: 50,
            next: 60,
            end: 100
        }
    );
    assert_eq!(found.notes, ["50 messages lost to retention before it read them"]);
}

#[test]
fn a_commit_behind_the_end_is_never_cut_to_zero() {
    let Found::Past(why) = one(at(500), log(0, 10)) else {
        panic!("no fault");
    };
    assert_eq!(
        why,
        "committed 500 is past the end 10: the topic was recreated, or the offset was set past the end"
    );
    assert!(matches!(one(at(11), log(0, 10)), Found::Past(_)));
    assert!(matches!(
        one(at(10), log(0, 10)),
        Found::Behind { messages: 0, .. }
    ));
}

#[test]
fn an_older_epoch_than_that_of_the_commit_is_another_topic() {
    let commit = Commit::At {
        offset: 100,
        epoch: Some(5),
    };
    let new = Ok(Log {
        start: 0,
        end: 20,
        high: None,
        epoch: Some(0),
    });
    let Found::Past(why) = one(commit, new) else {
        panic!("no fault");
    };
    assert!(
        why.ends_with("the topic was recreated or cut, the commit is of the old one"),
        "{why}"
    );
}

#[test]
fn what_was_seen_before_tells_a_recreated_topic_from_an_offset_that_was_set() {
    let before = tables(&[at(90)], &[log(0, 100)]);
    let mut recreated = tables(&[at(90)], &[log(0, 20)]);
    recreated.topics = [("t".to_owned(), topic(2, 1))].into();
    let mut refilled = tables(&[at(190)], &[log(0, 120)]);
    refilled.topics = [("t".to_owned(), topic(2, 1))].into();
    let cut = tables(&[at(90)], &[log(0, 50)]);
    let set = tables(&[at(500)], &[log(0, 110)]);
    for (now, words) in [
        (recreated, "recreated or cut"),
        (refilled, "recreated or cut"),
        (cut, "recreated or cut"),
        (set, "the offset was set"),
    ] {
        let mut memory = Memory::default();
        measure(&config(), &before, &mut memory, Duration::ZERO);
        // The second time the memory holds the new topic only, and still knows.
        for _ in 0..2 {
            let found = measure(&config(), &now, &mut memory, Duration::from_secs(1));
            let Found::Past(why) = &found[0].places[&Place::new("t", 0)] else {
                panic!("no fault: {found:?}");
            };
            assert!(why.contains(words) && !why.contains(", or the offset"), "{why}");
        }
    }
}

#[test]
fn who_reads_open_transactions_may_be_past_the_last_stable_offset_but_not_past_the_log() {
    let open = |high| {
        Ok(Log {
            start: 0,
            end: 5,
            high,
            epoch: None,
        })
    };
    assert!(matches!(
        one(at(9), open(Some(10))),
        Found::Behind { messages: 0, .. }
    ));
    assert!(matches!(one(at(11), open(Some(10))), Found::Past(_)));
    assert!(matches!(one(at(9), open(None)), Found::Past(_)));
}

#[test]
fn offsets_that_cannot_be_are_unknown_and_no_number() {
    for (commit, start, end) in [(5, 10, 3), (5, -1, 10), (-7, 0, 10), (5, i64::MIN, i64::MAX)] {
        assert!(
            matches!(one(at(commit), log(start, end)), Found::Unknown(_)),
            "{commit} {start} {end}"
        );
    }
    assert_eq!(
        one(at(0), log(0, i64::MAX)),
        Found::Behind {
            messages: i64::MAX as u64,
            lost: 0,
            next: 0,
            end: i64::MAX
        }
    );
}

#[test]
fn nothing_that_is_not_known_becomes_a_number() {
    let beside = measured(&tables(&[at(1), Commit::Never], &[log(0, 10), log(0, 10)]));
    assert_eq!(beside.places[&Place::new("t", 1)], Found::Never);
    assert_eq!(
        one(Commit::Unknown("moving".into()), log(0, 10)),
        Found::Unknown("moving".into())
    );
    assert_eq!(
        one(at(1), Err("no leader".into())),
        Found::Unknown("no leader".into())
    );
    let mut untold = tables(&[at(1)], &[log(0, 10)]);
    untold.logs.clear();
    let found = measured(&untold);
    assert!(matches!(found.places[&Place::new("t", 0)], Found::Unknown(_)));
    // A partition that the group's answer leaves out is as one that it names without a commit.
    let half = tables(&[at(1)], &[log(0, 10), log(0, 10)]);
    assert_eq!(measured(&half).places[&Place::new("t", 1)], Found::Never);
}

/// The commits of so many of ten partitions.
fn of_ten(committed: usize) -> Measured {
    let commits = vec![at(1); committed];
    measured(&tables(&commits, &vec![log(0, 10); 10]))
}

#[test]
fn ninety_percent_of_the_partitions_with_a_commit_are_enough() {
    assert_eq!(partial(&config(), &of_ten(10).places), None);
    assert_eq!(partial(&config(), &of_ten(9).places), None);
    assert_eq!(
        partial(&config(), &of_ten(8).places).as_deref(),
        Some("t: 8 of 10 partitions have a commit (none in partitions 8, 9)")
    );
    let mut lenient = config();
    lenient.without_commit = WithoutCommit::Ignore;
    assert_eq!(partial(&lenient, &of_ten(1).places), None);
}

#[test]
fn each_topic_has_to_have_its_commits() {
    let mut table = tables(&vec![at(1); 20], &vec![log(0, 10); 20]);
    table.topics.insert("small".to_owned(), topic(9, 2));
    table.groups[0].commits.insert(Place::new("small", 0), at(1));
    table.logs.insert(Place::new("small", 0), log(0, 4));
    table.logs.insert(Place::new("small", 1), log(0, 4));
    // 21 of 22 are more than 90 %, and still half of the small topic is in the dark.
    let why = partial(&config(), &measured(&table).places).unwrap();
    assert_eq!(
        why,
        "small: 1 of 2 partitions have a commit (none in partition 1)"
    );
}

#[test]
fn an_expected_number_of_commits_is_met_exactly_or_not_at_all() {
    let mut config = config();
    for (expect, committed, fits) in [
        (Expect::Each(9), 9, true),
        (Expect::Each(9), 8, false),
        (Expect::Each(12), 10, false),
        (Expect::Of([("t".to_owned(), 3)].into()), 3, true),
        (Expect::Of([("other".to_owned(), 1)].into()), 10, false),
    ] {
        config.expect = expect.clone();
        let why = partial(&config, &of_ten(committed).places);
        assert_eq!(why.is_none(), fits, "{expect:?} {committed}: {why:?}");
    }
    // With the expected ones there, the rest may be without; also more partitions than the topic has are missed.
    config.expect = Expect::Each(12);
    assert_eq!(
        partial(&config, &of_ten(10).places).as_deref(),
        Some("t: 10 of the 12 expected partitions have a commit")
    );
}

#[test]
fn partitions_that_do_not_answer_count_as_unknown_also_where_commits_may_miss() {
    let mut logs = vec![log(0, 10); 10];
    logs[3] = Err("no leader".to_owned());
    let one_of_ten = measured(&tables(&vec![at(1); 10], &logs));
    assert_eq!(partial(&config(), &one_of_ten.places), None);
    logs[7] = Err("no leader".to_owned());
    let two_of_ten = measured(&tables(&vec![at(1); 10], &logs));
    let mut lenient = config();
    lenient.without_commit = WithoutCommit::Ignore;
    for config in [config(), lenient] {
        assert_eq!(
            partial(&config, &two_of_ten.places).as_deref(),
            Some("2 of 10 partitions of t unknown: partition 3 and 1 more: no leader")
        );
    }
}

#[test]
fn a_topic_that_is_gone_is_left_out_with_a_note_and_so_is_a_partition() {
    let mut table = tables(&[at(4)], &[log(0, 10)]);
    table.groups[0].commits.insert(Place::new("old", 0), at(7));
    table.groups[0].commits.insert(Place::new("t", 5), at(7));
    table.topics.insert("old".to_owned(), Topic::Gone);
    let found = measured(&table);
    assert_eq!(found.notes, ["old, t/5 no longer there"]);
    assert_eq!(found.places.len(), 1);
    assert_eq!((found.missing, partial(&config(), &found.places)), (None, None));

    table.topics.insert("t".to_owned(), Topic::Gone);
    let all_gone = measured(&table);
    assert_eq!(
        all_gone.missing.as_deref(),
        Some("its topics are no longer there")
    );
}

#[test]
fn a_topic_that_cannot_be_described_is_unknown_and_not_gone() {
    let mut table = tables(&[at(4)], &[log(0, 10)]);
    table
        .topics
        .insert("t".to_owned(), Topic::Unknown("no leader".to_owned()));
    let found = measured(&table);
    assert_eq!(found.missing, None);
    assert!(partial(&config(), &found.places).unwrap().contains("no leader"));
}

#[test]
fn a_group_without_commits_says_whether_it_is_there() {
    for (state, words) in [
        ("Dead", "no such group, or it never committed"),
        ("", "no such group, or it never committed"),
        ("Stable", "it never committed"),
        ("Empty", "it never committed"),
    ] {
        let table = Tables {
            groups: vec![group(state, &[])],
            ..Tables::default()
        };
        assert_eq!(measured(&table).missing.as_deref(), Some(words), "{state}");
    }
}

#[test]
fn what_members_are_to_read_counts_also_without_a_commit() {
    let mut table = tables(&[at(1), at(1)], &[log(0, 10), log(0, 10)]);
    table.groups[0].members.topics = ["new".to_owned()].into();
    table.topics.insert("new".to_owned(), topic(3, 1));
    table.logs.insert(Place::new("new", 0), log(0, 99));
    let found = measured(&table);
    assert_eq!(found.places[&Place::new("new", 0)], Found::Never);
    assert_eq!(
        partial(&config(), &found.places).as_deref(),
        Some("new: 0 of 1 partitions have a commit (none in partition 0)")
    );
}

#[test]
fn the_state_of_a_group_is_a_note_unless_all_is_well() {
    for (state, note) in [
        ("Stable", None),
        ("Empty", Some("no members")),
        ("PreparingRebalance", Some("rebalancing")),
        ("Reconciling", Some("rebalancing")),
        ("Dead", Some("dead")),
        ("", Some("state not known")),
        ("Odd\u{1b}[2J", Some("state Odd^[[2J")),
    ] {
        let members = Members {
            state: state.to_owned(),
            topics: BTreeSet::new(),
        };
        assert_eq!(members.note().as_deref(), note, "{state}");
    }
}

/// A group that is read at those seconds with those commits and ends, and for how long it is stalled then.
fn course(reads: &[(u64, &[i64], &[i64])]) -> Vec<Option<u64>> {
    let mut memory = Memory::default();
    let mut config = config();
    config.stalled_after = Duration::from_secs(300);
    reads
        .iter()
        .map(|(second, commits, ends)| {
            let commits: Vec<Commit> = commits.iter().map(|c| at(*c)).collect();
            let logs: Vec<_> = ends.iter().map(|e| log(0, *e)).collect();
            let found = measure(
                &config,
                &tables(&commits, &logs),
                &mut memory,
                Duration::from_secs(*second),
            );
            found[0].stalled.map(|d| d.as_secs())
        })
        .collect()
}

#[test]
fn still_commits_with_lag_are_a_standstill_once_the_window_has_passed() {
    assert_eq!(
        course(&[
            (0, &[5, 5], &[50, 50]),
            (299, &[5, 5], &[60, 50]),
            (300, &[5, 5], &[70, 50]),
            (400, &[5, 5], &[70, 50]),
            (410, &[5, 6], &[70, 50]),
            (709, &[5, 6], &[70, 50]),
            (710, &[5, 6], &[70, 50]),
        ]),
        [None, None, Some(300), Some(400), None, None, Some(300)]
    );
}

#[test]
fn a_dead_consumer_of_a_topic_that_nobody_writes_to_stands_still_too() {
    assert_eq!(
        course(&[(0, &[5], &[500]), (300, &[5], &[500])]),
        [None, Some(300)]
    );
}

#[test]
fn who_is_at_the_end_may_rest() {
    assert_eq!(
        course(&[(0, &[50], &[50]), (9_000, &[50], &[50]), (9_001, &[50], &[51])]),
        [None, None, None]
    );
    // The clock of a standstill starts with the lag, not with the rest before it.
    assert_eq!(
        course(&[
            (0, &[50], &[50]),
            (9_000, &[50], &[500]),
            (9_299, &[50], &[500]),
            (9_300, &[50], &[500])
        ]),
        [None, None, None, Some(300)]
    );
}

#[test]
fn the_rest_that_transactions_leave_is_no_standstill_until_something_new_comes() {
    assert_eq!(
        course(&[(0, &[10, 10], &[11, 11]), (5_000, &[10, 10], &[11, 11])]),
        [None, None]
    );
    assert_eq!(
        course(&[
            (0, &[10, 10], &[11, 11]),
            (5_000, &[10, 10], &[13, 11]),
            (5_300, &[10, 10], &[13, 11]),
        ]),
        [None, None, Some(300)]
    );
    assert_eq!(
        course(&[(0, &[10, 10], &[12, 11]), (300, &[10, 10], &[12, 11])])[1],
        Some(300),
        "more than one a partition is no such rest"
    );
}

#[test]
fn retention_that_eats_the_backlog_is_no_consumer() {
    let mut memory = Memory::default();
    let mut last = None;
    for (second, start) in [(0, 0), (200, 50), (400, 80)] {
        let found = measure(
            &config(),
            &tables(&[at(10)], &[log(start, 100)]),
            &mut memory,
            Duration::from_secs(second),
        );
        last = found[0].stalled;
    }
    assert_eq!(last, Some(Duration::from_secs(400)));
}

#[test]
fn a_read_that_knows_only_a_part_neither_ends_nor_begins_a_standstill() {
    let mut memory = Memory::default();
    let mut read = |second, other: Result<Log, String>| {
        let found = measure(
            &config(),
            &tables(&[at(10), at(10)], &[log(0, 100), other]),
            &mut memory,
            Duration::from_secs(second),
        );
        found[0].stalled.map(|d| d.as_secs())
    };
    assert_eq!(read(0, log(0, 10)), None);
    assert_eq!(read(310, Err("no leader".to_owned())), None);
    assert_eq!(read(320, log(0, 10)), Some(320));
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(44),
        ..ProptestConfig::default()
    })]

    /// Whatever a broker says, a number is the end less where the group can go on, and nothing panics.
    #[test]
    fn no_offsets_make_a_number_that_is_not_theirs(commit: i64, start: i64, end: i64, small in 0i64..50) {
        for (commit, start, end) in [(commit, start, end), (small, start % 50, end % 50)] {
            match one(at(commit), log(start, end)) {
                Found::Behind { messages, lost, next, .. } => {
                    prop_assert!(0 <= start && start <= end && 0 <= commit && commit <= end);
                    prop_assert_eq!(next, commit.max(start));
                    prop_assert_eq!(i128::from(messages), i128::from(end) - i128::from(next));
                    prop_assert_eq!(i128::from(lost), i128::from(next) - i128::from(commit));
                }
                Found::Past(_) => prop_assert!(commit > end),
                Found::Unknown(_) => prop_assert!(start < 0 || end < start || commit < 0),
                Found::Never => prop_assert!(false, "there was a commit"),
            }
        }
    }
}
