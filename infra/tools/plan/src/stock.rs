//! The units in their buckets, and what running functions know about them, which is slightly stale.

use std::collections::VecDeque;

/// A set of numbers from which a random one can be drawn.
#[derive(Clone, Debug, Default)]
struct NumberSet {
    numbers: Vec<u32>,
    /// The index of each number in the list.
    places: Vec<Option<usize>>,
}

impl NumberSet {
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
pub(crate) struct Stock {
    free: Vec<u32>,
    left: u32,
    /// Buckets with free units, and buckets that functions believe to have free units.
    open: NumberSet,
    believed: NumberSet,
    /// Empty buckets that functions still believe to be open, with the step in which they became empty.
    recently_emptied: VecDeque<(usize, u32)>,
}

impl Stock {
    /// Spreads the units evenly over the buckets.
    pub(crate) fn new(units: u32, buckets: u32) -> Self {
        let buckets = buckets.max(1);
        let free = (0..buckets).map(|n| units / buckets + u32::from(n < units % buckets)).collect();
        Self {
            free,
            left: units,
            open: NumberSet::full(buckets),
            believed: NumberSet::full(buckets),
            recently_emptied: VecDeque::new(),
        }
    }

    /// Whether any unit is free.
    pub(crate) fn has_any(&self) -> bool {
        self.left > 0
    }

    /// Whether functions believe that a unit is free.
    pub(crate) fn seems_open(&self) -> bool {
        !self.believed.numbers.is_empty()
    }

    /// From now on, all functions know of buckets that became empty before this step.
    pub(crate) fn forget(&mut self, step: usize) {
        while let Some((_, bucket)) = self.recently_emptied.front().copied().filter(|(emptied, _)| *emptied < step) {
            self.believed.remove(bucket);
            self.recently_emptied.pop_front();
        }
    }

    /// A random bucket that functions believe to be open. The first bucket if there is none.
    pub(crate) fn guess(&self, roll: u64) -> u32 {
        self.believed.draw(roll).unwrap_or(0)
    }

    /// A random bucket with free units, as a read of the buckets finds it.
    pub(crate) fn look(&self, roll: u64) -> Option<u32> {
        self.open.draw(roll)
    }

    /// Takes a unit from a bucket. False if it is empty.
    pub(crate) fn take(&mut self, bucket: u32, step: usize) -> bool {
        let Some(free) = usize::try_from(bucket).ok().and_then(|n| self.free.get_mut(n)).filter(|free| **free > 0)
        else {
            return false;
        };
        *free -= 1;
        self.left -= 1;
        if *free == 0 {
            self.open.remove(bucket);
            self.recently_emptied.push_back((step, bucket));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_taken_once_and_functions_learn_of_it_later() {
        let mut stock = Stock::new(50, 3);
        assert_eq!(stock.free, [17, 17, 16]);
        let mut taken = 0;
        while let Some(bucket) = stock.look(taken) {
            assert!(stock.take(bucket, 7));
            taken += 1;
        }
        assert_eq!((taken, stock.has_any()), (50, false));
        assert!(!stock.take(0, 8) && stock.seems_open());
        stock.forget(7);
        assert!(stock.seems_open(), "no function knows of step 7 yet");
        stock.forget(8);
        assert!(!stock.seems_open());
    }
}
