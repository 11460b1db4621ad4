//! template.yaml, read as it is: the same file that is deployed describes the local cloud.

pub mod model;
