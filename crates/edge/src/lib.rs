//! edge.
