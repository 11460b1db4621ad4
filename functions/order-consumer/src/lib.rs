//! order-consumer.
