//! Visits every reachable state once. After every write the invariants of the tables must hold; and from every state
//! in which no process runs and no write is delayed, the system must settle by itself.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use domain::claim::ClaimState;
use domain::order::Status;

use super::Size;
use super::processes::Process;
use super::symmetry::{Renaming, rename_bucket, rename_order, renamings};
use super::tables::{BUCKETS, BUYERS, BucketNo, Tables, buyer, first};

/// Room for processes and delayed writes; [`Size`] says how much of it is used.
const PROCESSES: usize = 3;
const DELAYED: usize = 2;
/// The search gives up beyond this many states.
const MAX_STATES: usize = 8_000_000;
/// Everything must settle within this many rounds.
const ROUNDS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    tables: Tables,
    processes: [Option<Process>; PROCESSES],
    delayed: [Option<Process>; DELAYED],
}

/// A transition: a process and what happened to it.
#[derive(Clone, Copy)]
struct Event(Process, Fate);

#[derive(Clone, Copy, Debug)]
enum Fate {
    Starts,
    TakesItsStep,
    /// The write is carried out, but its answer is lost, so it is sent again.
    AnswerLost,
    /// The write is delayed for an unknown time, so it is sent again.
    Delayed,
    Crashes,
    /// A delayed write arrives.
    Arrives,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct Found {
    pub states: usize,
    pub transitions: usize,
    /// States in which no process runs and no write is delayed. The system settled from each of them.
    pub quiet: usize,
    /// The violation, with the transitions that lead to it.
    pub violation: Option<String>,
    /// There were too many states to visit all.
    pub gave_up: bool,
}

/// Visits all states, or stops at the first violation.
pub fn search(size: Size) -> Found {
    let start = State { tables: Tables::new(size.caps), processes: [None; PROCESSES], delayed: [None; DELAYED] };
    let names = renamings(size);
    let mut seen = HashSet::from([start.fingerprint(&names)]);
    let mut visited: Vec<(State, usize, Option<Event>)> = vec![(start, 0, None)];
    let mut found = Found::default();
    let mut next = 0;
    let mut reached = Vec::new();
    while let Some((state, ..)) = visited.get(next).copied() {
        let mut violation = None;
        if state.is_quiet() {
            found.quiet += 1;
            violation = settles(state.tables, size).err();
        }
        state.successors(size, &mut reached);
        for (event, state) in reached.drain(..) {
            found.transitions += 1;
            if !seen.insert(state.fingerprint(&names)) {
                continue;
            }
            visited.push((state, next, Some(event)));
            if violation.is_none()
                && let Err(why) = state.tables.check()
            {
                violation = Some(why);
                next = visited.len() - 1;
                break;
            }
        }
        if let Some(why) = violation {
            found.violation = Some(format!("{why}\n  {}", history(&visited, next).join("\n  ")));
            break;
        }
        found.gave_up = visited.len() > MAX_STATES;
        if found.gave_up {
            break;
        }
        next += 1;
    }
    found.states = visited.len();
    found
}

fn hash(what: &impl Hash, mut hasher: impl Hasher) -> u64 {
    what.hash(&mut hasher);
    hasher.finish()
}

/// A weak hash, which is enough to choose a representative, and twenty times as fast as the default hasher.
struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.write(&[byte]);
    }

    fn write_isize(&mut self, variant: isize) {
        self.write(&[variant as u8]);
    }
}

fn history(visited: &[(State, usize, Option<Event>)], mut at: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while let (_, before, Some(Event(process, fate))) = visited[at] {
        lines.push(format!("{process:?}: {fate:?}"));
        at = before;
    }
    lines.reverse();
    lines
}

impl State {
    fn is_quiet(&self) -> bool {
        self.processes.iter().chain(&self.delayed).all(Option::is_none)
    }

    fn first_has_ended(&self, process: Process) -> bool {
        let others = self.processes.iter().flatten().filter(|other| other.order() == process.order());
        !others.copied().any(Process::is_first)
    }

    fn successors(&self, size: Size, reached: &mut Vec<(Event, Self)>) {
        let running = self.processes.iter().flatten().count();
        if running < size.processes {
            self.starts(size, reached);
        }
        for (place, process) in self.processes.iter().enumerate() {
            let Some(process) = *process else { continue };
            let mut after = self.tables;
            for next in process.step(&mut after, self.first_has_ended(process), size.bug) {
                reached.push((Event(process, Fate::TakesItsStep), self.with(after, place, next)));
            }
            reached.push((Event(process, Fate::Crashes), self.with(self.tables, place, None)));
            if process.writes() {
                reached.push((Event(process, Fate::AnswerLost), self.with(after, place, Some(process))));
                let free = self.delayed.iter().take(size.delayed).position(Option::is_none);
                if let Some(free) = free.filter(|_| !self.delayed.contains(&Some(process))) {
                    let mut state = *self;
                    state.delayed[free] = Some(process);
                    reached.push((Event(process, Fate::Delayed), state.tidy()));
                }
            }
        }
        for (place, write) in self.delayed.iter().enumerate() {
            let Some(write) = *write else { continue };
            let mut state = *self;
            state.delayed[place] = None;
            // Nobody receives its answer.
            let accepted = state.tables.accepted;
            let _ = write.step(&mut state.tables, false, size.bug);
            state.tables.accepted = accepted;
            reached.push((Event(write, Fate::Arrives), state.tidy()));
        }
    }

    fn starts(&self, size: Size, reached: &mut Vec<(Event, Self)>) {
        let Some(place) = self.processes.iter().position(Option::is_none) else { return };
        let mut start = |tables: Tables, process: Process| {
            if !self.processes.contains(&Some(process)) {
                reached.push((Event(process, Fate::Starts), self.with(tables, place, Some(process))));
            }
        };
        for (row, max) in size.orders.iter().enumerate() {
            for keyed in [false, true].into_iter().take(if size.with_keys { 2 } else { 1 }) {
                let mut tables = self.tables;
                match tables.new_id(row, *max) {
                    Some(order) => (0..BUCKETS as BucketNo).for_each(|bucket| {
                        start(tables, Process::Claim { order, bucket, keyed });
                    }),
                    None if *max > 0 && size.presses_again => {
                        start(tables, Process::PressAgain { order: first(row), keyed })
                    }
                    None => {}
                }
            }
        }
        for process in startable(&self.tables) {
            start(self.tables, process);
        }
        for (id, order) in self.tables.orders.iter().enumerate() {
            let status = order.map(super::tables::Order::status);
            let order = id as u8;
            if size.with_payments && matches!(status, Some(Status::PendingPayment | Status::Closed)) {
                start(self.tables, Process::Pay { order });
            }
            if size.with_refunds && status == Some(Status::Paid) {
                start(self.tables, Process::StartRefund { order });
            }
            if status == Some(Status::PendingPayment) {
                start(self.tables, Process::Close { order });
            }
        }
    }

    fn with(&self, tables: Tables, place: usize, process: Option<Process>) -> Self {
        let mut state = Self { tables, ..*self };
        state.processes[place] = process;
        state.tidy()
    }

    /// The same for all states that differ only in names, so each kind of state is visited once. With 128 bits, no
    /// two of some million different states share a fingerprint.
    fn fingerprint(&self, names: &[Renaming]) -> (u64, u64) {
        let each = names.iter().map(|(buyers, swap)| {
            let process = |process: Process| process.map(|id| rename_order(id, buyers), |no| rename_bucket(no, *swap));
            let state = Self {
                tables: self.tables.renamed(buyers, *swap),
                processes: self.processes.map(|one| one.map(process)),
                delayed: self.delayed.map(|one| one.map(process)),
            };
            state.in_order()
        });
        // Any of them can represent all, as long as it is always the same one.
        let one = each.min_by_key(|state| hash(state, FastHasher(0))).unwrap_or(*self);
        (hash(&one, DefaultHasher::new()), hash(&(one, one.tables.taken), DefaultHasher::new()))
    }

    fn in_order(mut self) -> Self {
        self.processes.sort_unstable_by_key(|process| (process.is_none(), *process));
        self.delayed.sort_unstable_by_key(|process| (process.is_none(), *process));
        self
    }

    /// Removes differences that do not matter: the order of processes, and order numbers that nothing refers to.
    fn tidy(self) -> Self {
        let mut state = self.in_order();
        let tables = &state.tables;
        let mut used = tables.accepted | tables.numbers;
        tables.buckets.iter().for_each(|bucket| used |= bucket.holders | bucket.sold_to | bucket.returned);
        tables.messages.iter().for_each(|messages| used |= *messages);
        let claimed = tables.claims.iter().flatten().map(|claim| claim.order);
        let answered = tables.keys.iter().flatten().copied();
        let placed = (0_u8..).zip(&tables.orders).filter(|(_, order)| order.is_some()).map(|(order, _)| order);
        let busy = state.processes.iter().chain(&state.delayed).flatten().map(|process| process.order());
        claimed.chain(answered).chain(placed).chain(busy).for_each(|order| used |= 1 << order);
        state.tables.taken &= used;
        state
    }
}

/// The processes that can start by themselves: one for each message, and one of reconcile for each holder and each
/// open refund.
fn startable(tables: &Tables) -> Vec<Process> {
    let mut waiting = Vec::new();
    for bucket in 0..BUCKETS {
        let no = bucket as BucketNo;
        waiting.extend(Tables::ids(tables.messages[bucket]).map(|order| Process::Mark { order, bucket: no }));
        let holders = Tables::ids(tables.buckets[bucket].holders);
        waiting.extend(holders.map(|order| Process::Inspect { order, bucket: no }));
    }
    waiting.extend(Tables::ids(tables.refunds).map(|order| Process::FinishRefund { order }));
    waiting
}

/// Delivers messages, runs reconcile and fires deadlines until nothing changes, and checks the final state.
fn settles(mut tables: Tables, size: Size) -> Result<(), String> {
    for _ in 0..ROUNDS {
        let before = tables;
        let overdue = (0..)
            .zip(&before.orders)
            .filter(|(_, order)| order.is_some_and(|order| order.status() == Status::PendingPayment));
        let closes = overdue.map(|(order, _)| Process::Close { order });
        for mut process in startable(&before).into_iter().chain(closes) {
            while let Some(next) = process.step(&mut tables, false, size.bug).into_iter().next().flatten() {
                process = next;
            }
            tables.check()?;
        }
        if tables == before {
            return check_settled(&tables);
        }
    }
    Err(format!("it does not settle: {tables:?}"))
}

fn check_settled(tables: &Tables) -> Result<(), String> {
    if let Some(lost) = Tables::ids(tables.accepted).find(|order| tables.order(*order).is_none()) {
        return Err(format!("order {lost} was accepted but does not exist: {tables:?}"));
    }
    if tables.buckets.iter().any(|bucket| bucket.holders != 0) {
        return Err(format!("units are still held: {tables:?}"));
    }
    for row in 0..BUYERS {
        let Some(claim) = tables.claims[row] else { continue };
        let is_paid = tables.order(claim.order).is_some_and(|order| order.status() == Status::Paid);
        // A claim without units does no harm: the buyer's next press resumes it.
        if claim.state != ClaimState::Held && !is_paid {
            return Err(format!("buyer {row} can never buy presses_again: {tables:?}"));
        }
    }
    for (number, bucket) in (0_u8..).zip(&tables.buckets) {
        for order in Tables::ids(bucket.sold_to) {
            let is_its = tables.order(order).is_some_and(|row| row.status() == Status::Paid && row.bucket == number);
            if !is_its {
                return Err(format!(
                    "a unit is sold to order {order} of buyer {}, which has not paid: {tables:?}",
                    buyer(order)
                ));
            }
        }
    }
    Ok(())
}
