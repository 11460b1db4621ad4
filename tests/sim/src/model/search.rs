//! Goes to every state that can be come to, once. After every write the tables must be right; and wherever nobody acts and nothing wanders,
//! everything must come right by itself.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use domain::claim::ClaimState;
use domain::order::Status;

use super::Size;
use super::processes::Process;
use super::tables::{BUCKETS, BUYERS, No, Tables, buyer, first, renamed, renamed_bucket};

/// Room for so many processes and wandering writes; [`Size`] says how many are used.
const PROCESSES: usize = 3;
const WANDERING: usize = 2;
/// More states than this are too many for a test.
const MOST_STATES: usize = 8_000_000;
/// In so many rounds everything has come right, or it never does.
const ROUNDS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    tables: Tables,
    processes: [Option<Process>; PROCESSES],
    wandering: [Option<Process>; WANDERING],
}

/// How a state was come to: a process, and what befell it.
#[derive(Clone, Copy)]
struct Event(Process, Fate);

#[derive(Clone, Copy, Debug)]
enum Fate {
    Begins,
    TakesItsStep,
    /// It is done, and the answer is lost: the same is sent again.
    AnswerLost,
    /// It is on its way, for who knows how long; the same is sent again.
    Wanders,
    Dies,
    /// It had wandered.
    Lands,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
    pub states: usize,
    pub transitions: usize,
    /// States in which nobody acts and nothing wanders: from each of them everything came right.
    pub quiet: usize,
    /// What is violated, with the way there.
    pub violation: Option<String>,
    /// There were too many states to go to all.
    pub gave_up: bool,
}

/// Searches everything, or until something is violated.
pub fn search(size: Size) -> Found {
    let start = State { tables: Tables::new(size.caps), processes: [None; PROCESSES], wandering: [None; WANDERING] };
    let names = names(size);
    let mut seen = HashSet::from([start.fingerprint(&names)]);
    let mut way: Vec<(State, usize, Option<Event>)> = vec![(start, 0, None)];
    let mut found = Found::default();
    let mut next = 0;
    let mut reached = Vec::new();
    while let Some((state, ..)) = way.get(next).copied() {
        let mut violation = None;
        if state.is_quiet() {
            found.quiet += 1;
            violation = comes_right(state.tables, size).err();
        }
        state.successors(size, &mut reached);
        for (event, state) in reached.drain(..) {
            found.transitions += 1;
            if !seen.insert(state.fingerprint(&names)) {
                continue;
            }
            way.push((state, next, Some(event)));
            if violation.is_none()
                && let Err(why) = state.tables.check()
            {
                violation = Some(why);
                next = way.len() - 1;
                break;
            }
        }
        if let Some(why) = violation {
            found.violation = Some(format!("{why}\n  {}", history(&way, next).join("\n  ")));
            break;
        }
        found.gave_up = way.len() > MOST_STATES;
        if found.gave_up {
            break;
        }
        next += 1;
    }
    found.states = way.len();
    found
}

fn hash(what: &impl Hash, mut hasher: impl Hasher) -> u64 {
    what.hash(&mut hasher);
    hasher.finish()
}

/// Good enough to choose by, and twenty times as fast as one that must not be guessed.
struct Quick(u64);

impl Hasher for Quick {
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

/// All ways to call the buyers otherwise, where they are alike, and to change the buckets' places.
fn names(size: Size) -> Vec<([u8; BUYERS], bool)> {
    let orders = |name: u8| size.orders[usize::from(name)];
    let mut names = Vec::new();
    for [a, b, c] in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        if [orders(a), orders(b), orders(c)] == size.orders {
            names.push(([a, b, c], false));
            if size.caps[0] == size.caps[1] {
                names.push(([a, b, c], true));
            }
        }
    }
    names
}

fn history(way: &[(State, usize, Option<Event>)], mut at: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while let (_, before, Some(Event(process, fate))) = way[at] {
        lines.push(format!("{process:?}: {fate:?}"));
        at = before;
    }
    lines.reverse();
    lines
}

impl State {
    fn is_quiet(&self) -> bool {
        self.processes.iter().chain(&self.wandering).all(Option::is_none)
    }

    fn first_has_ended(&self, process: Process) -> bool {
        let others = self.processes.iter().flatten().filter(|other| other.order() == process.order());
        !others.copied().any(Process::is_first)
    }

    fn successors(&self, size: Size, reached: &mut Vec<(Event, Self)>) {
        let running = self.processes.iter().flatten().count();
        if running < size.processes {
            self.beginnings(size, reached);
        }
        for (place, process) in self.processes.iter().enumerate() {
            let Some(process) = *process else { continue };
            let mut after = self.tables;
            for next in process.step(&mut after, self.first_has_ended(process), size.bug) {
                reached.push((Event(process, Fate::TakesItsStep), self.with(after, place, next)));
            }
            reached.push((Event(process, Fate::Dies), self.with(self.tables, place, None)));
            if process.writes() {
                reached.push((Event(process, Fate::AnswerLost), self.with(after, place, Some(process))));
                let free = self.wandering.iter().take(size.wandering).position(Option::is_none);
                if let Some(free) = free.filter(|_| !self.wandering.contains(&Some(process))) {
                    let mut state = *self;
                    state.wandering[free] = Some(process);
                    reached.push((Event(process, Fate::Wanders), state.tidy()));
                }
            }
        }
        for (place, write) in self.wandering.iter().enumerate() {
            let Some(write) = *write else { continue };
            let mut state = *self;
            state.wandering[place] = None;
            // Nobody hears its answer.
            let accepted = state.tables.accepted;
            let _ = write.step(&mut state.tables, false, size.bug);
            state.tables.accepted = accepted;
            reached.push((Event(write, Fate::Lands), state.tidy()));
        }
    }

    fn beginnings(&self, size: Size, reached: &mut Vec<(Event, Self)>) {
        let Some(place) = self.processes.iter().position(Option::is_none) else { return };
        let mut begins = |tables: Tables, process: Process| {
            if !self.processes.contains(&Some(process)) {
                reached.push((Event(process, Fate::Begins), self.with(tables, place, Some(process))));
            }
        };
        for (row, most) in size.orders.iter().enumerate() {
            for keyed in [false, true].into_iter().take(if size.keys { 2 } else { 1 }) {
                let mut tables = self.tables;
                match tables.new_id(row, *most) {
                    Some(order) => (0..BUCKETS as No).for_each(|bucket| {
                        begins(tables, Process::Claim { order, bucket, keyed });
                    }),
                    None if *most > 0 && size.again => begins(tables, Process::Again { order: first(row), keyed }),
                    None => {}
                }
            }
        }
        for process in waiting(&self.tables) {
            begins(self.tables, process);
        }
        for (id, order) in self.tables.orders.iter().enumerate() {
            let status = order.map(super::tables::Order::status);
            let order = id as u8;
            if size.pays && matches!(status, Some(Status::PendingPayment | Status::Closed)) {
                begins(self.tables, Process::Pay { order });
            }
            if status == Some(Status::PendingPayment) {
                begins(self.tables, Process::Close { order });
            }
        }
    }

    fn with(&self, tables: Tables, place: usize, process: Option<Process>) -> Self {
        let mut state = Self { tables, ..*self };
        state.processes[place] = process;
        state.tidy()
    }

    /// States that differ in names alone have the same: each kind of state is gone to once. 128 bits: no two of some million states that differ
    /// share one.
    fn fingerprint(&self, names: &[([u8; BUYERS], bool)]) -> (u64, u64) {
        let each = names.iter().map(|(buyers, swap)| {
            let process = |process: Process| process.map(|id| renamed(id, buyers), |no| renamed_bucket(no, *swap));
            let state = Self {
                tables: self.tables.renamed(buyers, *swap),
                processes: self.processes.map(|one| one.map(process)),
                wandering: self.wandering.map(|one| one.map(process)),
            };
            state.in_order()
        });
        // Which of them stands for all does not matter, as long as it is always the same.
        let one = each.min_by_key(|state| hash(state, Quick(0))).unwrap_or(*self);
        (hash(&one, DefaultHasher::new()), hash(&(one, one.tables.taken), DefaultHasher::new()))
    }

    fn in_order(mut self) -> Self {
        self.processes.sort_unstable_by_key(|process| (process.is_none(), *process));
        self.wandering.sort_unstable_by_key(|process| (process.is_none(), *process));
        self
    }

    /// Two states that differ in nothing that matters are one.
    fn tidy(self) -> Self {
        let mut state = self.in_order();
        let tables = &state.tables;
        let mut used = tables.accepted | tables.numbers;
        tables.buckets.iter().for_each(|bucket| used |= bucket.holders | bucket.sold_to);
        tables.messages.iter().for_each(|messages| used |= *messages);
        let claimed = tables.claims.iter().flatten().map(|claim| claim.order);
        let answered = tables.keys.iter().flatten().copied();
        let placed = (0_u8..).zip(&tables.orders).filter(|(_, order)| order.is_some()).map(|(order, _)| order);
        let busy = state.processes.iter().chain(&state.wandering).flatten().map(|process| process.order());
        claimed.chain(answered).chain(placed).chain(busy).for_each(|order| used |= 1 << order);
        state.tables.taken &= used;
        state
    }
}

/// What waits to be done: messages, and holders for reconcile.
fn waiting(tables: &Tables) -> Vec<Process> {
    let mut waiting = Vec::new();
    for bucket in 0..BUCKETS {
        let no = bucket as No;
        waiting.extend(Tables::ids(tables.messages[bucket]).map(|order| Process::Mark { order, bucket: no }));
        let holders = Tables::ids(tables.buckets[bucket].holders);
        waiting.extend(holders.map(|order| Process::Look { order, bucket: no }));
    }
    waiting
}

/// Messages arrive, reconcile runs, deadlines come: then everything accepted is known, and nothing is held by nobody.
fn comes_right(mut tables: Tables, size: Size) -> Result<(), String> {
    for _ in 0..ROUNDS {
        let before = tables;
        let overdue = (0..)
            .zip(&before.orders)
            .filter(|(_, order)| order.is_some_and(|order| order.status() == Status::PendingPayment));
        let closes = overdue.map(|(order, _)| Process::Close { order });
        for mut process in waiting(&before).into_iter().chain(closes) {
            while let Some(next) = process.step(&mut tables, false, size.bug).into_iter().next().flatten() {
                process = next;
            }
            tables.check()?;
        }
        if tables == before {
            return is_right(&tables);
        }
    }
    Err(format!("it never comes to rest: {tables:?}"))
}

fn is_right(tables: &Tables) -> Result<(), String> {
    if let Some(lost) = Tables::ids(tables.accepted).find(|order| tables.order(*order).is_none()) {
        return Err(format!("order {lost} was accepted, and there is no such order: {tables:?}"));
    }
    if tables.buckets.iter().any(|bucket| bucket.holders != 0) {
        return Err(format!("something is held by nobody: {tables:?}"));
    }
    for row in 0..BUYERS {
        let Some(claim) = tables.claims[row] else { continue };
        let is_paid = tables.order(claim.order).is_some_and(|order| order.status() == Status::Paid);
        // A claim that got no units keeps nobody from anything: the next press goes on with it.
        if claim.state != ClaimState::Held && !is_paid {
            return Err(format!("buyer {row} can never buy again: {tables:?}"));
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
