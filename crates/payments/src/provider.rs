//! The interface of a payment provider. A flow works on this trait and does not know which provider it talks to.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::http::{Headers, HttpAnswer, HttpCall};
use crate::list::ProviderKind;
use crate::notice::{Notice, NoticeError, Subject};
use crate::payment::{
    Created, Nonce, PaymentRef, PaymentRequest, PaymentStatus, ProviderCloseAnswer, ProviderError, RefundRequest,
    Refunding, Start,
};
use crate::shared::crypto::SettingsError;

/// A configured payment provider.
///
/// Every operation comes in two halves: one builds a signed request, the other interprets the answer to it. The caller
/// sends the request. Time and the nonce are arguments, so an implementation has no clock, no connection and no
/// source of random numbers.
///
/// An implementation must conclude nothing from an answer or a notice before it has verified it, and it verifies a
/// notice over the raw bytes of its body, before it reads any of them. `Debug` must not print a key.
pub trait PaymentProvider: fmt::Debug + Send + Sync {
    fn kind(&self) -> ProviderKind;

    /// Starts a payment.
    fn create(&self, request: &PaymentRequest, now: Timestamp, nonce: &Nonce) -> Result<Start, ProviderError>;

    fn interpret_create(&self, answer: &HttpAnswer, now: Timestamp) -> Result<Created, ProviderError>;

    /// Asks for the status of a payment.
    fn query(&self, payment: &PaymentRef, now: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError>;

    fn interpret_query(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<PaymentStatus, ProviderError>;

    /// Asks what a transaction is about, for a notice that names nothing else.
    fn query_subject(&self, _transaction: &str, _now: Timestamp, _nonce: &Nonce) -> Result<HttpCall, ProviderError> {
        Err(ProviderError::Unsupported("its notices name their payments".to_owned()))
    }

    /// `None`: the transaction is not about a payment of this system.
    fn interpret_query_subject(&self, _answer: &HttpAnswer) -> Result<Option<Subject>, ProviderError> {
        Err(ProviderError::Unsupported("its notices name their payments".to_owned()))
    }

    /// Closes a payment, so that it can no longer be paid.
    fn close(&self, payment: &PaymentRef, now: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError>;

    fn interpret_close(
        &self,
        payment: &PaymentRef,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<ProviderCloseAnswer, ProviderError>;

    /// How old a payment must be before the provider agrees to close it.
    fn closable_after(&self) -> SignedDuration {
        SignedDuration::ZERO
    }

    /// How long after its deadline an order waits for a payment that the buyer has confirmed and the bank has not. Then
    /// the order is closed; money that still arrives revives it or goes back.
    fn processing_wait(&self) -> SignedDuration {
        SignedDuration::from_mins(15)
    }

    /// Asks for a refund. Repeating it with the same refund number never moves money twice.
    fn refund(&self, refund: &RefundRequest, now: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError>;

    fn interpret_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<Refunding, ProviderError>;

    /// Asks for the status of a refund.
    fn query_refund(&self, refund: &RefundRequest, now: Timestamp, nonce: &Nonce) -> Result<HttpCall, ProviderError>;

    fn interpret_query_refund(
        &self,
        refund: &RefundRequest,
        answer: &HttpAnswer,
        now: Timestamp,
    ) -> Result<Refunding, ProviderError>;

    /// The certificate and the private key, in PEM, that calls with [`HttpCall::client_certificate`] must present.
    fn client_identity(&self) -> Option<(&str, &str)> {
        None
    }

    /// Verifies a notice over the raw bytes of its body, and then reads it.
    fn notice(&self, headers: &Headers, raw_body: &[u8], now: Timestamp) -> Result<Notice, NoticeError>;

    /// Tells the provider that its notice was accepted, so that it stops sending it.
    fn success_answer(&self) -> HttpAnswer;

    /// The provider's own form of a refusal. It never contains the reason: the sender of a forged notice would learn
    /// from it.
    fn refusal(&self, error: &NoticeError) -> HttpAnswer;

    /// The answer to a notice that was not accepted. A genuine notice about something else is answered as a success,
    /// because the provider would repeat it for days.
    fn failure_answer(&self, error: &NoticeError) -> HttpAnswer {
        match error {
            NoticeError::NotOurs(_) => self.success_answer(),
            error => self.refusal(error),
        }
    }

    /// Asks the provider to send a genuine notice again, because it cannot be processed now.
    fn try_again_answer(&self) -> HttpAnswer {
        HttpAnswer { status: 503, ..self.refusal(&NoticeError::Malformed("")) }
    }

    /// Verifies the query with which a buyer's browser returns, and tells which payment it is about. This is for
    /// display only and never settles an order. Only a provider with [`ReturnPage::Signed`] implements it.
    fn read_return(&self, _query: &str) -> Result<Subject, NoticeError> {
        Err(NoticeError::NotOurs("a return page that is not signed".to_owned()))
    }
}

/// How a provider is built from its settings, and what is known about it without them.
pub trait FromSettings: PaymentProvider + Sized + 'static {
    const RETURN_PAGE: ReturnPage = ReturnPage::Plain;

    /// Reads the provider's entry in the payment secret, a JSON object. An error names a field and never its value.
    fn from_json(json: &str) -> Result<Self, SettingsError>;
}

/// What the address tells with which a buyer's browser returns from the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnPage {
    /// Only what this system has put into it.
    Plain,
    /// The provider signs the whole query, so this system must not put anything into it.
    /// [`PaymentProvider::read_return`] verifies it.
    Signed,
    /// The provider adds this parameter for a buyer who has paid, and not for one who has cancelled.
    MarkedIfPaid(&'static str),
}

/// Any provider, behind a pointer: `Arc<Provider>`, `&Provider`.
pub type Provider = dyn PaymentProvider;

impl dyn PaymentProvider {
    /// Builds the provider of this kind from its settings; see [`FromSettings::from_json`].
    pub fn from_json(kind: ProviderKind, json: &str) -> Result<Box<Self>, SettingsError> {
        kind.configure(json)
    }
}
