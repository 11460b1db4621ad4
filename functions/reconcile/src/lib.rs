//! reconcile.
