//! What invokes functions by itself: queues, streams and schedules.
