//! The Lambda host: bootstrap processes over the Runtime API.
