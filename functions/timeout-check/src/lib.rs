//! timeout-check.
