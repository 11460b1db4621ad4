//! The permission check: may this caller do this to that?
