//! Why the local cloud does not start: one line each, which says what to do.

use std::io;
use std::net::SocketAddr;

use crate::data::DataDirError;
use crate::engine::{OpenError, ProvisionError};
use crate::gateway::{GatewayError, IssuerError};
use crate::host::HostError;
use crate::sources::SourcesError;
use crate::template::TemplateError;

/// Why the local cloud does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The template cannot be used.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error("port {0} is in use: stop what listens there, or choose another, as in \
        PORT={next}", next = .0.checked_add(1).unwrap_or(3000))]
    PortInUse(u16),
    /// The port cannot be listened on.
    #[error("cannot listen on 127.0.0.1:{port}: {source}: choose another port, as in PORT=3000")]
    Listen { port: u16, source: io::Error },
    /// The data cannot be opened.
    #[error("data directory {directory}: {source}")]
    Open { directory: String, source: OpenError },
    /// A resource of the template cannot be made.
    #[error("cannot make what the template declares: {0}; if it changed since the last run, start over with --fresh")]
    Provision(#[from] ProvisionError),
    /// The engines cannot be served to the functions.
    #[error("cannot serve the functions on loopback: {0}: check that this machine lets programs open local ports")]
    Endpoint(io::Error),
    /// The address for containers cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}: --also-listen takes an address of this machine, such as that of \
        Docker's bridge"
    )]
    AlsoListen { address: SocketAddr, source: io::Error },
    /// A function has no binary.
    #[error("{0}, or `make build-local` for all of them")]
    MissingBinary(HostError),
    /// The functions cannot be run.
    #[error(transparent)]
    Host(HostError),
    /// An event source cannot run.
    #[error(transparent)]
    Sources(#[from] SourcesError),
    /// There is no key to sign tokens with.
    #[error(transparent)]
    Issuer(#[from] IssuerError),
    /// The gateway cannot start.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// `--logs` names no function.
    #[error("--logs {name}: there is no such function: say all, or one of {known}")]
    UnknownFunction {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
}

impl From<HostError> for StartError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::MissingBinary { .. } => Self::MissingBinary(error),
            _ => Self::Host(error),
        }
    }
}

impl StartError {
    /// The error on one line, whatever the parts of it came with.
    pub fn one_line(&self) -> String {
        self.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
