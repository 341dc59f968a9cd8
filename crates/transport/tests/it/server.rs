//! The server side over real sockets: raw requests for protocol violations, and our own client.

mod http;
mod listener;
mod remote;
mod support;
mod websocket;
