//! An HTTP client for the AWS SDK that answers from the engines, without a socket.
