//! The leases of reconcile: walks of one kind do not overlap, and a walk goes on where the previous one stopped.
//!
//! A lease is a row of the availability table. It has a fence, a number that grows with each lease that is given: a
//! walk whose lease ran out while it was slow finds another fence there, stops, and cannot write its cursor over the
//! other walk's.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::Timestamp;
use domain::bucket::BucketNo;
use domain::ids::{ItemId, SaleId};
use serde::{Deserialize, Serialize};

use crate::rows::{Change, Written, attribute, n, read_row, s};
use crate::{Store, StoreError};

/// What a lease is for. Each has its own row, so one does not wait for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// Open payments and refunds.
    Money,
    /// The buckets of watched sales.
    Stock,
}

impl Walk {
    /// Its key in the availability table. No sale's id starts with `#`.
    fn key(self) -> &'static str {
        match self {
            Self::Money => "#reconcile#money",
            Self::Stock => "#reconcile#stock",
        }
    }
}

/// Where a walk stopped, and what it has found so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cursor {
    pub sale: SaleId,
    pub item: ItemId,
    /// The first bucket that was not looked at.
    pub bucket: BucketNo,
    /// When the walk began.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub began_at: Timestamp,
    /// The drift found so far; `None`: something could not be read.
    #[serde(default)]
    pub drift: Option<u64>,
    /// The sale was over when its walk began, and nothing is held in what was looked at.
    #[serde(default)]
    pub quiet: bool,
}

/// A lease that was given to this walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    walk: Walk,
    fence: u64,
    /// When the last complete walk began that sent messages again where they were missing.
    pub since: Option<Timestamp>,
    pub cursor: Option<Cursor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaseRow {
    fence: u64,
    #[serde(default)]
    lease_of: String,
    #[serde(default, with = "jiff::fmt::serde::timestamp::millisecond::optional")]
    since: Option<Timestamp>,
    #[serde(default)]
    cursor: Option<Cursor>,
}

impl Store {
    /// Takes the lease until `until`, unless another walk has it at `now`.
    pub async fn take_lease(&self, walk: Walk, now: Timestamp, until: Timestamp) -> Result<Option<Lease>, StoreError> {
        const OPERATION: &str = "take a lease";
        let name = unique_name();
        let change = self
            .lease_row(walk)
            .only_if("attribute_not_exists(leaseUntil) OR leaseUntil < :now")
            .update("SET leaseUntil = :until, leaseOf = :name")
            .update("ADD fence :one")
            .value(":now", n(now.as_millisecond()))
            .value(":until", n(until.as_millisecond()))
            .value(":name", s(&name))
            .value(":one", n(1));
        let row = match change.send(OPERATION, &self.dynamodb).await? {
            Written::Done(row) => row,
            // The first attempt of this very write may have taken it, and its answer was lost.
            Written::Refused(Some(row)) => row,
            Written::Refused(None) => return Ok(None),
        };
        let LeaseRow { fence, lease_of, since, cursor } = read_row(OPERATION, row)?;
        Ok((lease_of == name).then_some(Lease { walk, fence, since, cursor }))
    }

    /// Keeps the lease until `until`. Returns false if another walk has taken it: this one must stop.
    pub async fn keep_lease(&self, lease: &Lease, until: Timestamp) -> Result<bool, StoreError> {
        let change = self.fenced(lease).update("SET leaseUntil = :until").value(":until", n(until.as_millisecond()));
        let written = change.send("keep a lease", &self.dynamodb).await?;
        Ok(matches!(written, Written::Done(_)))
    }

    /// Gives the lease back, with where the next walk begins: at `cursor`, or at the first sale. Returns false if
    /// another walk has taken the lease: then nothing is written.
    pub async fn end_lease(
        &self,
        lease: &Lease,
        since: Option<Timestamp>,
        cursor: Option<&Cursor>,
    ) -> Result<bool, StoreError> {
        const OPERATION: &str = "end a lease";
        let mut change = self.fenced(lease).update("REMOVE leaseUntil, leaseOf");
        if let Some(since) = since {
            change = change.update("SET since = :since").value(":since", n(since.as_millisecond()));
        }
        change = match cursor {
            Some(cursor) => change.update("SET #cursor = :cursor").value(":cursor", attribute(OPERATION, cursor)?),
            None => change.update("REMOVE #cursor"),
        };
        let written = change.name("#cursor", "cursor").send(OPERATION, &self.dynamodb).await?;
        Ok(matches!(written, Written::Done(_)))
    }

    fn fenced(&self, lease: &Lease) -> Change {
        self.lease_row(lease.walk).only_if("fence = :fence").value(":fence", n(lease.fence))
    }

    fn lease_row(&self, walk: Walk) -> Change {
        Change::of(&self.names.availability, [("page", s(walk.key()))])
    }
}

/// A name that no other walk has, in this process or in another one. It only tells a retry from another walk.
fn unique_name() -> String {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    static MADE: AtomicU64 = AtomicU64::new(0);
    format!("{:016x}-{}", *PROCESS, MADE.fetch_add(1, Ordering::Relaxed))
}
