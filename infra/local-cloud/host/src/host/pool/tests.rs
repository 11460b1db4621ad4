use super::*;

fn invocation(name: &str) -> (Invocation, oneshot::Receiver<Outcome>) {
    let (answer, receiver) = oneshot::channel();
    (Invocation { request_id: name.into(), payload: Bytes::new(), answer }, receiver)
}

fn failure() -> FunctionError {
    FunctionError { error_type: "Runtime.ExitError".into(), message: "exit status 1".into() }
}

/// Hands in `name` and gives the environment that it asks to start.
fn submit(pool: &mut Pool, name: &str, now: Instant) -> (Option<u64>, oneshot::Receiver<Outcome>) {
    let (invocation, receiver) = invocation(name);
    match pool.submit(invocation, now) {
        Submitted::Queued { start } => (start, receiver),
        other => panic!("{name}: {other:?}"),
    }
}

fn park(pool: &mut Pool, id: u64, now: Instant) -> oneshot::Receiver<Delivery> {
    match pool.next(id, now).0 {
        Next::Park(receiver) => receiver,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_environment_is_started_for_each_waiting_event_up_to_the_limit() {
    let (mut pool, now) = (Pool::new(2, 10), Instant::now());
    let starts: Vec<_> = ["a", "b", "c"].map(|name| submit(&mut pool, name, now)).into_iter().collect();
    assert!(starts[0].0.is_some() && starts[1].0.is_some());
    assert_eq!(starts[2].0, None);
}

#[test]
fn a_freed_environment_takes_the_oldest_event_and_skips_callers_who_left() {
    let (mut pool, now) = (Pool::new(1, 10), Instant::now());
    let (id, first) = submit(&mut pool, "first", now);
    let (_, _second) = submit(&mut pool, "second", now);
    drop(first);
    let (Next::Run(delivery), None) = pool.next(id.unwrap(), now) else { panic!("nothing to run") };
    assert_eq!(&*delivery.request_id, "second");
}

#[test]
fn the_most_recently_used_environment_is_chosen() {
    let (mut pool, now) = (Pool::new(2, 10), Instant::now());
    let (one, left) = submit(&mut pool, "a", now);
    let (two, also_left) = submit(&mut pool, "b", now);
    drop((left, also_left));
    let mut first = park(&mut pool, one.unwrap(), now);
    let mut second = park(&mut pool, two.unwrap(), now);
    let (event, _answer) = invocation("c");
    assert!(matches!(pool.submit(event, now), Submitted::Started));
    assert!(second.try_recv().is_ok());
    assert!(first.try_recv().is_err());
}

#[test]
fn an_environment_that_has_just_answered_is_waited_for() {
    let (mut pool, now) = (Pool::new(2, 10), Instant::now());
    let (id, _answer) = submit(&mut pool, "a", now);
    let id = id.unwrap();
    let _ = pool.next(id, now);
    pool.finish(id, "a").unwrap();
    assert_eq!(submit(&mut pool, "b", now).0, None);
    assert!(submit(&mut pool, "c", now).0.is_some());
}

#[test]
fn an_answer_counts_once_and_only_for_its_own_request() {
    let (mut pool, now) = (Pool::new(1, 10), Instant::now());
    let (id, _answer) = submit(&mut pool, "a", now);
    let id = id.unwrap();
    let _ = pool.next(id, now);
    assert!(pool.finish(id, "b").is_none());
    assert!(pool.finish(id, "a").is_some());
    assert!(pool.finish(id, "a").is_none());
}

#[test]
fn a_full_queue_and_a_limit_of_none_throttle() {
    let now = Instant::now();
    let mut full = Pool::new(1, 1);
    let _waiting = submit(&mut full, "a", now);
    assert!(matches!(full.submit(invocation("b").0, now), Submitted::Throttled));
    assert!(matches!(Pool::new(0, 1).submit(invocation("a").0, now), Submitted::Throttled));
}

#[test]
fn a_failed_start_fails_the_waiting_and_is_not_tried_again_at_once() {
    let (mut pool, now) = (Pool::new(1, 10), Instant::now());
    let (id, _answer) = submit(&mut pool, "a", now);
    let ended = pool.ended(id.unwrap(), failure(), now);
    assert_eq!(ended.failed.len(), 1);
    assert_eq!(ended.start, None);
    assert!(matches!(pool.submit(invocation("b").0, now), Submitted::Broken(error) if error == failure()));
    let later = now + BACKOFF_FIRST;
    assert!(matches!(pool.submit(invocation("c").0, later), Submitted::Queued { start: Some(_) }));
}

#[test]
fn the_wait_after_failed_starts_doubles_up_to_a_bound() {
    assert_eq!(backoff(2), BACKOFF_FIRST * 2);
    assert_eq!(backoff(u32::MAX), BACKOFF_MOST);
}

#[test]
fn an_overdue_invocation_is_taken_at_its_deadline_and_not_before() {
    let (mut pool, now) = (Pool::new(1, 10), Instant::now());
    let timeout = Duration::from_secs(3);
    let (id, _answer) = submit(&mut pool, "a", now);
    let id = id.unwrap();
    let _ = pool.next(id, now + Duration::from_secs(1));
    let Deadline::LookAgainAt(at) = pool.deadline(id, timeout, now + Duration::from_secs(3)) else {
        panic!("too early")
    };
    assert_eq!(at, now + Duration::from_secs(4));
    assert!(matches!(pool.deadline(id, timeout, at), Deadline::Expired(_)));
}

#[test]
fn idle_environments_are_stopped_and_never_chosen_again() {
    let (mut pool, now) = (Pool::new(1, 10), Instant::now());
    let (id, left) = submit(&mut pool, "a", now);
    drop(left);
    let mut parked = park(&mut pool, id.unwrap(), now);
    pool.stop_idle(Duration::from_secs(60), now + Duration::from_secs(59));
    pool.stop_idle(Duration::from_secs(60), now + Duration::from_secs(60));
    let (event, _answer) = invocation("b");
    assert!(matches!(pool.submit(event, now), Submitted::Queued { start: None }));
    assert!(parked.try_recv().is_err());
    // Its end makes room for another one.
    assert!(pool.ended(id.unwrap(), failure(), now).start.is_some());
}
