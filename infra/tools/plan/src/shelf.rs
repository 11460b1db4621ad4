//! The units as they lie in buckets, and what running functions believe of them, which is a little behind.

use std::collections::VecDeque;

/// A set of numbers to draw from.
#[derive(Clone, Debug, Default)]
struct Bag {
    numbers: Vec<u32>,
    /// Where each number lies in the list.
    places: Vec<Option<usize>>,
}

impl Bag {
    fn full(count: u32) -> Self {
        let numbers: Vec<u32> = (0..count).collect();
        Self { places: (0..numbers.len()).map(Some).collect(), numbers }
    }

    fn draw(&self, roll: u64) -> Option<u32> {
        let count = u64::try_from(self.numbers.len()).unwrap_or(u64::MAX);
        let place = usize::try_from(roll.checked_rem(count)?).ok()?;
        self.numbers.get(place).copied()
    }

    fn remove(&mut self, number: u32) {
        let Some(place) = usize::try_from(number).ok().and_then(|n| self.places.get_mut(n)).and_then(Option::take)
        else {
            return;
        };
        self.numbers.swap_remove(place);
        if let Some(moved) = self.numbers.get(place).and_then(|moved| usize::try_from(*moved).ok())
            && let Some(its) = self.places.get_mut(moved)
        {
            *its = Some(place);
        }
    }
}

/// The units of an item.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    free: Vec<u32>,
    left: u32,
    /// Buckets with something, and those that functions believe to have something.
    open: Bag,
    believed: Bag,
    /// Emptied buckets that are still believed to be open, with the step they were emptied in.
    news: VecDeque<(usize, u32)>,
}

impl Shelf {
    /// Units laid out as evenly as can be.
    pub(crate) fn new(units: u32, buckets: u32) -> Self {
        let buckets = buckets.max(1);
        let free = (0..buckets).map(|n| units / buckets + u32::from(n < units % buckets)).collect();
        Self { free, left: units, open: Bag::full(buckets), believed: Bag::full(buckets), news: VecDeque::new() }
    }

    /// Whether there is anything at all.
    pub(crate) fn has_any(&self) -> bool {
        self.left > 0
    }

    /// Whether functions believe that there is.
    pub(crate) fn seems_open(&self) -> bool {
        !self.believed.numbers.is_empty()
    }

    /// What was emptied up to a step is now known everywhere.
    pub(crate) fn forget(&mut self, step: usize) {
        while let Some((_, bucket)) = self.news.front().copied().filter(|(emptied, _)| *emptied < step) {
            self.believed.remove(bucket);
            self.news.pop_front();
        }
    }

    /// A bucket that is believed to have something; the first if none is.
    pub(crate) fn guess(&self, roll: u64) -> u32 {
        self.believed.draw(roll).unwrap_or(0)
    }

    /// A bucket that has something, found by looking.
    pub(crate) fn look(&self, roll: u64) -> Option<u32> {
        self.open.draw(roll)
    }

    /// Takes a unit from a bucket; false: it is empty.
    pub(crate) fn take(&mut self, bucket: u32, step: usize) -> bool {
        let Some(free) = usize::try_from(bucket).ok().and_then(|n| self.free.get_mut(n)).filter(|free| **free > 0)
        else {
            return false;
        };
        *free -= 1;
        self.left -= 1;
        if *free == 0 {
            self.open.remove(bucket);
            self.news.push_back((step, bucket));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_taken_once_and_news_travel_late() {
        let mut shelf = Shelf::new(50, 3);
        assert_eq!(shelf.free, [17, 17, 16]);
        let mut taken = 0;
        while let Some(bucket) = shelf.look(taken) {
            assert!(shelf.take(bucket, 7));
            taken += 1;
        }
        assert_eq!((taken, shelf.has_any()), (50, false));
        assert!(!shelf.take(0, 8) && shelf.seems_open());
        shelf.forget(7);
        assert!(shelf.seems_open(), "nobody has heard of step 7");
        shelf.forget(8);
        assert!(!shelf.seems_open());
    }
}
