//! API Gateway: the HTTP API and the WebSocket API.
