//! The data directory: its lock, its files, and what to do when it cannot be opened.
