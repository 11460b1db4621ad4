//! How functions that are linked into this program start.

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_config::SdkConfig;
use bytes::Bytes;
use futures::future::BoxFuture;
use lambda_http::{Body, Request, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::invoke::FunctionError;

/// What a function gets at its start: what Lambda gives a process.
#[derive(Clone)]
pub struct Setup {
    /// The environment variables that the template gives it, and Lambda's own.
    pub variables: Arc<BTreeMap<String, String>>,
    /// How it calls AWS.
    pub config: SdkConfig,
    /// Takes a line of its log, as its standard output would.
    pub log: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Why a function does not start.
pub type StartFailed = Box<dyn std::error::Error + Send + Sync>;

type Started = Result<Linked, StartFailed>;
type Start = Arc<dyn Fn(Setup) -> Started + Send + Sync>;
type OnRequest = Arc<dyn Fn(Request) -> BoxFuture<'static, Response<Body>> + Send + Sync>;
type OnEvent = Arc<dyn Fn(Bytes) -> BoxFuture<'static, Result<Bytes, FunctionError>> + Send + Sync>;

/// A function that has started.
#[derive(Clone)]
pub enum Linked {
    /// It answers requests of an HTTP API.
    Requests(OnRequest),
    /// It takes events as JSON, and answers with JSON.
    Events(OnEvent),
}

impl Linked {
    /// A function that answers requests: `answer` is what `lambda_http::run` would be given.
    pub fn requests<F>(answer: impl Fn(Request) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        Self::Requests(Arc::new(move |request| Box::pin(answer(request))))
    }

    /// A function that takes events: `answer` is what `lambda_runtime::run` would be given.
    pub fn events<E, A, X, F>(answer: impl Fn(E) -> F + Send + Sync + 'static) -> Self
    where
        E: DeserializeOwned,
        A: Serialize,
        X: std::fmt::Display,
        F: Future<Output = Result<A, X>> + Send + 'static,
    {
        Self::Events(Arc::new(move |payload| {
            let answered = serde_json::from_slice::<E>(&payload).map(&answer);
            Box::pin(async move {
                let answer = answered.map_err(failed)?.await.map_err(failed)?;
                serde_json::to_vec(&answer).map(Bytes::from).map_err(failed)
            })
        }))
    }
}

/// An error as lambda_runtime reports it: by the name of its type.
fn failed<X: std::fmt::Display>(error: X) -> FunctionError {
    FunctionError { error_type: std::any::type_name::<X>().to_owned(), message: error.to_string() }
}

/// The functions that a program links, by the name of the binary that would be deployed.
#[derive(Clone, Default)]
pub struct Registry(BTreeMap<String, Start>);

impl Registry {
    /// The same registry with one more function.
    #[must_use]
    pub fn with(mut self, binary: &str, start: impl Fn(Setup) -> Started + Send + Sync + 'static) -> Self {
        self.0.insert(binary.to_owned(), Arc::new(start));
        self
    }

    pub(super) fn get(&self, binary: &str) -> Option<Start> {
        self.0.get(binary).cloned()
    }
}

pub(super) type StartOf = Start;
