//! Which years are open, which are one row of weeks, and which do not fit.

/// Rows of an open year: its label and seven weekdays.
const OPEN: u16 = 8;

/// A year on screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub index: usize,
    pub folded: bool,
}

/// Arranges years into `rows` rows. Calm years are folded first, the one farthest from the cursor before all
/// others; the cursor's year is never folded. If that is not enough, the band is scrolled: whole years go, farthest
/// first, but never a weekday of a year that is shown.
pub(super) fn arrange(busy: &[bool], home: usize, rows: u16) -> Vec<Row> {
    let mut folded = vec![false; busy.len()];
    let height = |folded: bool| if folded { 1 } else { u32::from(OPEN) };
    let mut order: Vec<usize> = (0..busy.len()).filter(|i| *i != home && !busy[*i]).collect();
    order.sort_by_key(|i| std::cmp::Reverse(i.abs_diff(home)));
    let mut total = OPEN as u32 * busy.len() as u32;
    for i in order {
        if total <= u32::from(rows) {
            break;
        }
        folded[i] = true;
        total -= u32::from(OPEN) - 1;
    }
    if busy.is_empty() || rows < OPEN {
        return Vec::new();
    }
    // A window around the cursor's year that takes whole neighbours while there is room, later ones first.
    let (mut from, mut to) = (home, home + 1);
    let mut used = u32::from(OPEN);
    loop {
        let fits =
            |i: Option<usize>| i.filter(|i| *i < busy.len() && used + height(folded[*i]) <= u32::from(rows));
        let (after, before) = (fits(Some(to)), fits(from.checked_sub(1)));
        // Both sides grow alike, so that the cursor's year stays near the middle.
        let take_after = match (after, before) {
            (Some(_), Some(_)) => to - home - 1 <= home - from,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => break,
        };
        if take_after {
            used += height(folded[to]);
            to += 1;
        } else {
            from -= 1;
            used += height(folded[from]);
        }
    }
    (from..to)
        .map(|index| Row {
            index,
            folded: folded[index],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(busy: &[bool], home: usize, rows: u16) -> Vec<(usize, bool)> {
        arrange(busy, home, rows)
            .into_iter()
            .map(|r| (r.index, r.folded))
            .collect()
    }

    #[test]
    fn three_years_are_open_where_there_is_room() {
        assert_eq!(
            shape(&[true, true, false], 0, 24),
            [(0, false), (1, false), (2, false)]
        );
    }

    #[test]
    fn the_calm_year_farthest_from_the_cursor_is_folded_first() {
        assert_eq!(
            shape(&[true, true, false], 1, 17),
            [(0, false), (1, false), (2, true)]
        );
        assert_eq!(
            shape(&[false, false, false, false], 1, 25),
            [(0, false), (1, false), (2, false), (3, true)]
        );
    }

    #[test]
    fn busy_years_are_scrolled_whole() {
        assert_eq!(shape(&[true, true, true], 0, 15), [(0, false)]);
        assert_eq!(shape(&[true, true, true], 1, 16), [(1, false), (2, false)]);
    }

    proptest! {
        #[test]
        fn the_cursors_year_is_always_open_and_nothing_is_too_high(
            busy in proptest::collection::vec(any::<bool>(), 1..60), home in 0usize..60, rows in 8u16..100,
        ) {
            let home = home % busy.len();
            let plan = arrange(&busy, home, rows);
            let open = Row { index: home, folded: false };
            let high: u16 = plan.iter().map(|r| if r.folded { 1 } else { 8 }).sum();
            prop_assert!(plan.contains(&open), "the home year is open");
            prop_assert!(high <= rows, "{} rows of {}", high, rows);
            prop_assert!(plan.iter().all(|r| !(r.folded && busy[r.index])), "a busy year is never folded");
            prop_assert!(plan.windows(2).all(|w| w[1].index == w[0].index + 1), "no year inside is left out");
        }
    }
}
