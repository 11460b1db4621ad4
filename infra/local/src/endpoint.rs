//! The engines over loopback HTTP.
