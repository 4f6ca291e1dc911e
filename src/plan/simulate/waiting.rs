//! What waits to start, and what is known of lengths, so that neither costs more when there is more of it.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

/// Heavy chunks that wait, in the order in which they came. Whether one may start is a matter of its weight alone, so
/// each weight has a queue, and only the heads are looked at.
#[derive(Debug, Default)]
pub struct Lane {
    came: u64,
    queues: BTreeMap<u32, VecDeque<(u64, u32)>>,
}

impl Lane {
    /// A chunk joins at the end.
    pub fn push(&mut self, weight: u32, chunk: u32) {
        self.queues
            .entry(weight)
            .or_default()
            .push_back((self.came, chunk));
        self.came += 1;
    }

    /// The weight and the chunk that has waited longest, of those whose weight may start.
    pub fn first(&self, may_start: impl Fn(u32) -> bool) -> Option<(u32, u32)> {
        let heads = self.queues.iter().filter(|(weight, _)| may_start(**weight));
        let heads = heads.filter_map(|(weight, queue)| Some((queue.front()?, *weight)));
        heads.min().map(|(&(_, chunk), weight)| (weight, chunk))
    }

    /// Takes away the first one of a weight.
    pub fn take(&mut self, weight: u32) {
        self.queues.get_mut(&weight).and_then(VecDeque::pop_front);
    }
}

/// A number with a place among all others.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Placed(f64);

impl Eq for Placed {}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The median of numbers that come one after the other; of an even count the upper one of the two.
#[derive(Debug, Default)]
pub struct Median {
    below: BinaryHeap<Placed>,
    /// As many as below, or one more.
    above: BinaryHeap<Reverse<Placed>>,
}

impl Median {
    /// One more number.
    pub fn add(&mut self, number: f64) {
        let number = Placed(number);
        if self.above.peek().is_some_and(|Reverse(least)| number < *least) {
            self.below.push(number);
        } else {
            self.above.push(Reverse(number));
        }
        if self.below.len() > self.above.len() {
            self.above.extend(self.below.pop().map(Reverse));
        } else if self.above.len() > self.below.len() + 1 {
            self.below.extend(self.above.pop().map(|Reverse(least)| least));
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.below.len() + self.above.len()
    }

    /// The median; `None` of nothing.
    pub fn get(&self) -> Option<f64> {
        self.above.peek().map(|Reverse(Placed(number))| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::{Draw, Stream};
    use super::*;

    #[test]
    fn of_those_that_may_start_the_one_that_came_first_is_first() {
        let mut lane = Lane::default();
        for (weight, chunk) in [(4, 1), (2, 2), (4, 3), (2, 4)] {
            lane.push(weight, chunk);
        }
        assert_eq!(lane.first(|_| true), Some((4, 1)));
        assert_eq!(lane.first(|weight| weight < 4), Some((2, 2)));
        lane.take(4);
        assert_eq!(lane.first(|_| true), Some((2, 2)));
        lane.take(2);
        assert_eq!(lane.first(|_| true), Some((4, 3)));
        assert_eq!(lane.first(|weight| weight > 4), None);
    }

    #[test]
    fn the_median_is_the_middle_of_the_numbers_in_order_after_each_of_them() {
        let mut median = Median::default();
        let mut all: Vec<f64> = Vec::new();
        assert_eq!(median.get(), None);
        for index in 0..500 {
            // Some come twice.
            let number = (Draw(1).even(Stream::Length, index) * 100.0).floor();
            median.add(number);
            all.push(number);
            all.sort_by(f64::total_cmp);
            assert_eq!(median.get(), Some(all[all.len() / 2]), "after {}", all.len());
            assert_eq!(median.count(), all.len());
        }
    }
}
