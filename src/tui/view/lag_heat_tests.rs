use super::*;
use chrono::{DateTime, TimeDelta};

fn at(seconds: i64) -> Time {
    DateTime::from_timestamp(600_000 + seconds, 0).unwrap()
}

fn ms(seconds: i64) -> i64 {
    at(seconds).timestamp_millis()
}

/// A minute that was polled last `polled` seconds into it.
fn cell(minute: i64, polled: i64, max: Option<f64>, last: Option<f64>) -> PartCell {
    PartCell {
        at: at(60 * minute),
        seen: at(60 * minute + polled),
        max,
        last,
    }
}

fn part(cells: &[PartCell]) -> PartView {
    PartView {
        note: String::new(),
        cells: cells.iter().copied().collect(),
    }
}

/// Columns of `width` seconds from second `from` on.
fn columns_from(from: i64, width: i64, n: i64) -> Vec<Column> {
    (0..n)
        .map(|i| Column {
            x: i as u16,
            from: ms(from + i * width),
            to: ms(from + (i + 1) * width),
        })
        .collect()
}

fn folded(cells: &[PartCell], over: &[Column]) -> Vec<Seen> {
    fold(&part(cells), over, Some(at(0)), TimeDelta::seconds(22), 60.0)
}

use Seen::{Gap, Nothing, Unasked, Worst};

#[test]
fn a_column_holds_the_worst_number_of_its_time() {
    let cells = [
        cell(0, 45, Some(10.0), Some(1.0)),
        cell(1, 45, Some(90.0), Some(2.0)),
        cell(2, 45, Some(20.0), Some(20.0)),
        cell(3, 45, Some(5.0), Some(5.0)),
    ];
    let two_minutes = columns_from(0, 120, 2);
    assert_eq!(folded(&cells, &two_minutes), [Worst(90.0), Worst(20.0)]);
    let half_minutes = columns_from(60, 30, 4);
    assert_eq!(
        folded(&cells, &half_minutes),
        [Worst(90.0), Worst(90.0), Worst(20.0), Worst(20.0)]
    );
}

/// No data is not good data: neither zero nor the number before it.
#[test]
fn what_was_not_seen_is_a_gap_and_what_had_no_number_is_told_apart_from_it() {
    let cells = [
        cell(0, 45, Some(10.0), Some(10.0)),
        // Polled, and none of the polls gave a number.
        cell(2, 45, None, None),
        // Some did, the last did not.
        cell(3, 45, Some(30.0), None),
        cell(6, 45, Some(40.0), Some(40.0)),
    ];
    let minutes = columns_from(0, 60, 8);
    assert_eq!(
        folded(&cells, &minutes),
        // Minute 1: the number of second 45 counts for 22 seconds, which is 7 into it.
        [
            Worst(10.0),
            Worst(10.0),
            Nothing,
            Worst(30.0),
            Nothing,
            Gap,
            Worst(40.0),
            Worst(40.0)
        ]
    );
    let later = columns_from(70, 50, 1);
    assert_eq!(
        folded(&cells, &later),
        [Gap],
        "and after that it does not count any more"
    );
    assert_eq!(folded(&[cell(0, 45, Some(f64::NAN), None)], &minutes)[0], Nothing);
}

/// Half a column without a number is no calm column, and what was past soft is seen all the same.
#[test]
fn no_number_is_worse_than_a_low_one_and_not_than_an_alarm() {
    let cells = [
        cell(0, 45, Some(10.0), Some(10.0)),
        cell(1, 45, None, None),
        cell(2, 45, None, None),
        cell(3, 45, Some(60.0), Some(60.0)),
    ];
    let two_minutes = columns_from(0, 120, 2);
    assert_eq!(folded(&cells, &two_minutes), [Nothing, Worst(60.0)]);
}

#[test]
fn before_the_first_part_was_seen_nobody_asked_and_a_part_that_came_later_was_not_there() {
    let minutes = columns_from(-120, 60, 5);
    let late = part(&[cell(1, 45, Some(7.0), Some(7.0))]);
    assert_eq!(
        fold(&late, &minutes, Some(at(0)), TimeDelta::seconds(22), 60.0),
        [Unasked, Unasked, Gap, Worst(7.0), Worst(7.0)]
    );
    assert_eq!(fold(&late, &minutes, None, TimeDelta::zero(), 60.0)[0], Unasked);
}

/// A signal that is polled every five minutes is not dark between two polls.
#[test]
fn a_number_counts_until_the_next_poll_is_overdue() {
    let cells = [
        cell(0, 10, Some(50.0), Some(50.0)),
        cell(5, 10, Some(60.0), Some(60.0)),
    ];
    let over = columns_from(0, 60, 15);
    let seen = fold(&part(&cells), &over, Some(at(0)), TimeDelta::seconds(450), 60.0);
    assert_eq!(seen[..5], [Worst(50.0); 5]);
    // The older number still counts where the newer one begins: the worse of both is shown.
    assert_eq!(seen[5..13], [Worst(60.0); 8]);
    assert_eq!(seen[13..], [Gap, Gap]);
}

#[test]
fn a_row_of_several_holds_the_worst_of_them_in_each_column() {
    let rows = vec![
        vec![Worst(1.0), Gap, Nothing, Unasked],
        vec![Worst(3.0), Nothing, Worst(2.0), Gap],
    ];
    assert_eq!(worst_of(&rows, 60.0), [Worst(3.0), Nothing, Nothing, Gap]);
    assert!(worst_of(&[], 60.0).is_empty());
}

#[test]
fn squares_stand_on_the_columns_of_the_chart_and_the_last_one_ends_now() {
    let axis = Axis {
        start: at(0),
        cell: 10.0,
        past: 7,
        cells: 9,
        labels: 15,
    };
    let squares = columns_of(axis, 2);
    assert_eq!(squares.iter().map(|c| c.x).collect::<Vec<_>>(), [1, 3, 5]);
    // The cell that is left over is not lost: it belongs to the first square.
    assert_eq!((squares[0].from, squares[0].to), (ms(0), ms(30)));
    assert_eq!((squares[2].from, squares[2].to), (ms(50), ms(70)));
    assert_eq!(columns_of(axis, 1).len(), 7);
    assert_eq!(columns_of(Axis { past: 0, ..axis }, 2), []);
}

#[test]
fn names_lose_what_they_share_but_never_all_they_have() {
    assert_eq!(
        shared(&["etl/orders/0", "etl/orders/17", "etl/orders/9"]),
        "etl/orders/"
    );
    assert_eq!(shared(&["etl/orders", "etl/o"]), "etl/");
    assert_eq!(shared(&["orders", "orders-2"]), "");
    assert_eq!(shared(&["a/", "a/b"]), "");
    assert_eq!(shared(&["é/a", "é/b"]), "é/");
    assert_eq!(shared(&["one"]), "");
    assert_eq!(tail("etl/orders/17", 6, '~'), "~rs/17");
    assert_eq!(tail("short", 6, '~'), "short");
    assert_eq!(tail("日本語の分割", 5, '~'), "~分割");
}

fn signal() -> SignalView {
    SignalView {
        name: "lag".parse().unwrap(),
        unit: Unit::Seconds,
        low: 30.0,
        soft: 60.0,
        hard: 180.0,
        critical: 900.0,
        interval: std::time::Duration::from_secs(15),
        protects: true,
        samples: Default::default(),
        slope: None,
        problem: None,
    }
}

/// Names of parts in the order of their rows: each with its last number and the largest of its past.
fn ordered(parts: &[(&'static str, Option<f64>, f64)]) -> Vec<&'static str> {
    let signal = signal();
    let views: Vec<PartView> = parts
        .iter()
        .map(|(_, last, peak)| {
            part(&[
                cell(0, 45, Some(*peak), None),
                cell(1, 45, last.or(Some(0.0)), *last),
            ])
        })
        .collect();
    let mut rows: Vec<Row<'_>> = parts
        .iter()
        .zip(&views)
        .map(|((name, last, _), view)| Row::new(&signal, name, view, *last))
        .collect();
    rows.sort_by(order);
    rows.iter()
        .filter_map(|row| parts.iter().find(|(name, ..)| *name == row.name))
        .map(|(name, ..)| *name)
        .collect()
}

#[test]
fn the_worst_comes_first_and_no_number_before_one_that_is_only_past_soft() {
    let parts = [
        ("calm", Some(5.0), 5.0),
        ("soft", Some(70.0), 70.0),
        ("was hard", Some(5.0), 200.0),
        ("critical", Some(950.0), 950.0),
        ("silent", None, 5.0),
        ("hard", Some(180.0), 180.0),
    ];
    assert_eq!(
        ordered(&parts),
        ["critical", "hard", "silent", "soft", "was hard", "calm"]
    );
}

#[test]
fn rows_stand_by_their_numbers_and_equal_ones_and_those_without_one_in_a_known_place() {
    let parts = [
        ("p/10", Some(61.0), 61.0),
        ("p/9", Some(100.0), 100.0),
        ("p/2", Some(1.0), 1.0),
        ("p/02", Some(29.0), 29.0),
        ("p/30", Some(0.0), 0.0),
        ("p/4", Some(29.0), 29.0),
        ("p/5", Some(29.0), 950.0),
        ("silent/2", None, 5.0),
        ("silent/10", None, 5.0),
        ("silent/11", None, 200.0),
    ];
    let wanted = [
        "silent/11",
        "silent/2",
        "silent/10",
        "p/9",
        "p/10",
        "p/5",
        "p/02",
        "p/4",
        "p/2",
        "p/30",
    ];
    assert_eq!(ordered(&parts), wanted);
    // Wherever they come from, the same numbers make the same picture.
    let mut other = parts;
    other.reverse();
    assert_eq!(ordered(&other), wanted);
}

#[test]
fn each_level_of_the_signal_begins_another_step() {
    let step = |value| heat(&signal(), Worst(value));
    let values = [0.0, 14.9, 15.0, 30.0, 60.0, 180.0, 900.0, 1e12];
    let steps = values.map(step);
    assert_eq!(steps, [0, 0, 1, 2, 3, 4, 5, 5].map(Heat::Step));
    assert_eq!(heat(&signal(), Nothing), Heat::Unknown);
}
