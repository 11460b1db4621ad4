//! The HTTP layer: requests become values of the domain, and results and refusals become JSON.
//!
//! Every answer is one that `web/openapi.yaml` documents. A mistake in a request is answered with a problem that names
//! the field and the reason; it never becomes a server error. Codes and statuses are defined in one enum
//! ([`problem::Code`]), and each flow's refusals are mapped in one total match ([`refusals`]).

pub mod body;
pub mod order;
pub mod problem;
pub mod refusals;
pub mod request;
pub mod response;

pub use body::Object;
pub use lambda_http::{Body, Request, Response};
pub use problem::{Code, Problem};
