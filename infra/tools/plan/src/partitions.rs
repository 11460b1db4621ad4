//! A model of a DynamoDB table: each partition owns a range of hashes and has a limited throughput.

use testkit::rng::Rng;

use crate::facts::{PARTITION_WRITES, SPLIT_AFTER_SECONDS};

/// A range of hashes, and the throughput it has left.
#[derive(Clone, Debug)]
struct Partition {
    /// The first hash of its range, which ends where the next partition starts.
    first: u64,
    /// Write units left in this tick. Negative if an earlier tick used too many.
    left: f64,
    /// For how long it has been throttled, in seconds.
    hot_s: f64,
    /// Whether it was throttled in this tick.
    is_short: bool,
}

#[derive(Clone, Debug)]
pub struct Table {
    /// Sorted by their first hash.
    partitions: Vec<Partition>,
}

/// The hash of a key.
pub fn hash(key: u64) -> u64 {
    Rng::new(key).next_u64()
}

impl Table {
    /// A table that accepts this many write units per second from the start: one partition for each thousand.
    pub fn warm(writes: u32) -> Self {
        let count = u64::from(writes).div_ceil(1_000).max(1);
        let partition = |n: u64| Partition { first: u64::MAX / count * n, left: 0.0, hot_s: 0.0, is_short: false };
        Self { partitions: (0..count).map(partition).collect() }
    }

    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// Lets time pass: the throughput of each partition refills, and partitions that were throttled for long are split.
    pub fn tick(&mut self, seconds: f64) {
        let mut split = Vec::new();
        for (n, partition) in self.partitions.iter_mut().enumerate() {
            // Unused throughput does not accumulate, because bursts are not guaranteed.
            partition.left = (partition.left.min(0.0) + PARTITION_WRITES * seconds).min(PARTITION_WRITES * seconds);
            partition.hot_s = if partition.is_short { partition.hot_s + seconds } else { 0.0 };
            partition.is_short = false;
            if partition.hot_s >= SPLIT_AFTER_SECONDS {
                split.push(n);
            }
        }
        for n in split.into_iter().rev() {
            self.split(n);
        }
    }

    fn split(&mut self, n: usize) {
        let end = self.partitions.get(n + 1).map_or(u64::MAX, |next| next.first);
        let Some(partition) = self.partitions.get_mut(n) else { return };
        partition.hot_s = 0.0;
        let middle = partition.first + (end - partition.first) / 2;
        let other = Partition { first: middle, ..partition.clone() };
        self.partitions.insert(n + 1, other);
    }

    /// Takes units from the partition of a hash. False if it is throttled, which costs nothing.
    pub fn take(&mut self, hash: u64, units: f64) -> bool {
        let after = self.partitions.partition_point(|partition| partition.first <= hash);
        let Some(partition) = self.partitions.get_mut(after.saturating_sub(1)) else { return false };
        // A call that starts while some throughput is left is carried out completely.
        let is_taken = partition.left > 0.0;
        if is_taken {
            partition.left -= units;
        } else {
            partition.is_short = true;
        }
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(table: &mut Table, seconds: u32, keys: u64) -> u32 {
        let mut taken = 0;
        for _ in 0..seconds * 100 {
            table.tick(0.01);
            for n in 0..200 {
                taken += u32::from(table.take(hash(n % keys), 1.0));
            }
        }
        taken
    }

    #[test]
    fn one_key_is_limited_to_a_thousand_writes_per_second_in_any_table() {
        for writes in [4_000, 40_000] {
            assert_eq!(taken(&mut Table::warm(writes), 10, 1), 10_000, "{writes}");
        }
    }

    #[test]
    fn many_keys_use_the_whole_throughput_of_a_warm_table() {
        assert_eq!(Table::warm(4_000).partitions(), 4);
        let all = taken(&mut Table::warm(4_000), 10, 100_000);
        assert!((39_000..=40_000).contains(&all), "{all}");
        let all = taken(&mut Table::warm(40_000), 10, 100_000);
        assert_eq!(all, 200_000, "no write is throttled");
    }

    #[test]
    fn a_hot_partition_is_split_and_a_hot_key_is_not() {
        let mut table = Table::warm(1_000);
        assert_eq!(table.partitions(), 1);
        taken(&mut table, 301, 100_000);
        assert_eq!(table.partitions(), 2);
        assert!(taken(&mut table, 10, 100_000) > 19_000);
        let mut table = Table::warm(1_000);
        taken(&mut table, 301, 1);
        assert!(table.partitions() > 1);
        assert_eq!(taken(&mut table, 10, 1), 10_000, "the key is in one partition");
    }
}
