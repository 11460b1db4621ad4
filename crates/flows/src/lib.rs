//! flows.
