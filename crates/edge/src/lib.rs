//! Where HTTP ends: requests become names and forms of the domain, and answers and refusals become JSON.
//!
//! Whatever a client sends, the answer is one of the contract's: a mistake of theirs is a problem that says which field and
//! why, never an error of ours. Codes and statuses are in one enum, and every refusal of a flow is mapped in one match.

pub mod body;
pub mod order;
pub mod problem;
pub mod refusals;
pub mod request;
pub mod response;

pub use body::Object;
pub use lambda_http::{Body, Request, Response};
pub use problem::{Code, Problem};
