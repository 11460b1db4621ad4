//! availability.
