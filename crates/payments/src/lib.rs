//! Payment providers behind one interface: Alipay, WeChat Pay v3 and v2, Stripe.
//!
//! Nothing here opens a connection, reads a clock or draws a random number. A provider **builds** signed requests
//! ([`HttpCall`]) and **interprets** what came back ([`HttpAnswer`]); a notice is parsed and verified over its raw bytes. So the
//! same code runs in a function, in a test and in a simulation.
//!
//! What it promises:
//! - no input makes it panic, and no input is read without a limit on its size: a notice's is [`MAX_NOTICE`], an answer's is for whoever
//!   opens the connection to keep (`providers`: `MAX_ANSWER_BYTES`);
//! - nothing is said to be paid, closed, missing or refunded but by an answer or a notice that was verified (of a notice of a refund
//!   by WeChat Pay v2 the encryption is all that can be: [`Outcome::Refunded`]);
//! - money is an integer in minor units; Alipay's decimal text is converted exactly;
//! - keys are never printed.
//!
//! Whether what was paid is what the order asked for is decided by `domain::payment::verdict`.

mod checks;
mod china;
mod crypto;
mod form;
mod http;
mod notice;
mod payment;
mod provider;
mod qr;
mod wechat;
mod xml;
mod yuan;

pub mod alipay;
pub mod sandbox;
pub mod stripe;
pub mod wechat_v2;
pub mod wechat_v3;

pub use crypto::SettingsError;
pub use http::{Headers, HttpAnswer, HttpCall, Method};
pub use notice::{Notice, NoticeError, Outcome, Subject};
pub use payment::{
    ProviderCloseAnswer, Created, Kind, Nonce, Paid, PaymentRef, PaymentRequest, ProviderError, RefundNumber, RefundRequest,
    Refunding, PaymentStatus, Start, Way,
};
pub use provider::Provider;
pub use qr::qr_svg;

/// The longest notice that is read. The longest that a provider sends has a few thousand bytes.
pub const MAX_NOTICE: usize = 64 * 1024;

/// A notice whose time is this far from now, or farther, is refused: it may be an old one, sent again by somebody else.
pub const MAX_SKEW_S: i64 = 300;

#[cfg(test)]
mod tests;
