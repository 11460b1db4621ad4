//! shop.
