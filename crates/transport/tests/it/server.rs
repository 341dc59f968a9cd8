//! The server's role, over real sockets: raw requests for what a client may do wrong, and our own client.

mod http;
mod listener;
mod remote;
mod support;
mod websocket;
