//! WebSocket transport: one message per WebSocket message.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, interval_at, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame, Utf8Bytes};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::connection::{Carrier, Incoming, Outgoing, OutgoingLine, ServedConnection};
use super::http_requests::name_connection;
use super::mailbox::{Claim, Next, Reader};
use super::write_buffer::WriteBuffer;
use super::{Refusal, Server, ServerLimits, Service, close_codes, message};
use crate::SharedText;
use crate::routing::CONNECTION_ID;

type Socket = WebSocketStream<WriteBuffer<TokioIo<Upgraded>>>;

/// Read buffer size in bytes. Small, because each of thousands of idle sockets has one.
const READ_BUFFER: usize = 2 << 10;

/// Maximum frame length in bytes. Longer messages are fragmented, so that no socket keeps a large buffer.
const FRAME: usize = 4 << 10;

/// Number of bytes sent before other work gets its turn.
const MAX_BATCH: usize = 256 << 10;

/// Time limit for the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns true if a request asks for a WebSocket.
pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Upgrades a request to a WebSocket, for a new connection or to reconnect to an earlier one.
pub(super) async fn upgrade<S: Service>(
    server: Arc<Server<S>>,
    who: S::Identity,
    agent: Option<String>,
    mut request: Request,
) -> Result<Response, Refusal> {
    let headers = request.headers();
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Ok(wrong_version());
    }
    let key = headers
        .get(SEC_WEBSOCKET_KEY)
        .ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "the header Sec-WebSocket-Key is missing"))?;
    let accept = derive_accept_key(key.as_bytes());
    let protocol = headers.get(SEC_WEBSOCKET_PROTOCOL).and_then(first_protocol);
    let earlier = headers.get(CONNECTION_ID).cloned();
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, "WebSocket upgrades require HTTP/1.1"));
    };
    let (reader, opening) = match earlier {
        Some(id) => (take_over(&server, &id, &who, agent.as_deref()).await?, None),
        None => {
            let connection = server.connections.open(who.clone(), agent.clone(), Carrier::Socket)?;
            let reader = connection.outgoing.0.read(None, Claim::Free)?;
            let service = Arc::clone(&server.service);
            let open: Opening = Box::new(move || service.open(who, agent, connection));
            (reader, Some(open))
        }
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.extend(HeaderValue::from_str(&accept).ok().map(|accept| (SEC_WEBSOCKET_ACCEPT, accept)));
    name_connection(headers, &reader.shared.id);
    headers.extend(protocol.map(|protocol| (SEC_WEBSOCKET_PROTOCOL, protocol)));
    tokio::spawn(async move {
        match upgrade.await {
            Ok(upgraded) => run_socket(upgraded, reader, opening).await,
            // A new connection is not known to the client and ends. An earlier one waits for the next socket.
            Err(_) if opening.is_some() => reader.shared.end(close_codes::NORMAL, "the client has left"),
            Err(_) => {}
        }
    });
    Ok(response)
}

/// Hands the connection to the program, once its first message has arrived.
type Opening = Box<dyn FnOnce() + Send>;

fn wrong_version() -> Response {
    let mut response = Response::new(Body::from("only WebSocket version 13 is supported"));
    *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
    response.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    response
}

/// Returns the first offered subprotocol. Clients that offer subprotocols expect one of them; the messages
/// are the same in all. A subprotocol that carries a token is never chosen, because it would be sent back.
fn first_protocol(offered: &HeaderValue) -> Option<HeaderValue> {
    let mut offered = offered.to_str().ok()?.split(',').map(str::trim);
    HeaderValue::from_str(offered.find(|protocol| !protocol.starts_with(super::BEARER_PROTOCOL))?).ok()
}

/// Takes an earlier connection over from its current socket, if it has one.
async fn take_over<S: Service>(
    server: &Server<S>,
    id: &HeaderValue,
    who: &S::Identity,
    agent: Option<&str>,
) -> Result<Reader, Refusal> {
    let gone = || {
        let reason = "unknown or expired connection; connect without Acp-Connection-Id and send initialize";
        Refusal::new(StatusCode::NOT_FOUND, reason)
    };
    let shared = id
        .to_str()
        .ok()
        .and_then(|id| server.connections.find(id, who, agent, Carrier::Socket))
        .ok_or_else(gone)?;
    let incoming = shared.incoming().ok_or_else(gone)?;
    // Close the gate before the program knows of the takeover: lines that it sends meanwhile belong to the
    // cursor of the old socket. The program drops the gate when it has resumed.
    let (reader, gate) = shared.take_over();
    let reader = reader.ok_or_else(gone)?;
    let busy = |_| Refusal::later(StatusCode::SERVICE_UNAVAILABLE, "the server is busy");
    let place = timeout(shared.limits.body, incoming.reserve()).await.map_err(busy)?.map_err(|_| gone())?;
    if reader.deliver(place, Incoming::Reconnected(gate)) {
        return Ok(reader);
    }
    Err(Refusal::new(StatusCode::CONFLICT, "another socket has taken this connection over"))
}

/// Reason why a socket ended.
enum SocketEnd {
    /// The transport failed. The client may reconnect.
    Broken,
    /// The client closed the connection.
    Left,
    /// The client violated the protocol or a limit.
    Refused(u16, String),
    /// Another socket has taken the connection over.
    TakenOver,
    /// The connection has ended.
    Ended(u16, Arc<str>),
}

/// Exchanges messages until one side ends.
async fn run_socket(upgraded: Upgraded, reader: Reader, mut opening: Option<Opening>) {
    let limits = Arc::clone(&reader.shared.limits);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_message_size(Some(limits.message))
        .max_frame_size(Some(limits.message));
    let stream = WriteBuffer::new(TokioIo::new(upgraded));
    let socket = Socket::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (mut sink, mut frames) = socket.split();
    let end = tokio::select! {
        end = send(&reader, &mut sink, &limits) => end,
        end = receive(&reader, &mut frames, &mut opening, &limits) => end,
    };
    let shared = &reader.shared;
    let words: Option<(u16, Arc<str>)> = match end {
        SocketEnd::Broken if opening.is_none() => None,
        SocketEnd::Broken | SocketEnd::Left => {
            shared.end(close_codes::NORMAL, "the client has left");
            None
        }
        SocketEnd::Refused(code, reason) => {
            shared.end(code, &reason);
            Some((code, reason.into()))
        }
        SocketEnd::TakenOver => {
            Some((close_codes::POLICY_VIOLATION, "another socket has taken this connection over".into()))
        }
        SocketEnd::Ended(code, reason) => Some((code, reason)),
    };
    // The client may be gone.
    let _ = timeout(CLOSE_TIMEOUT, close_socket(sink, frames, words, limits.message)).await;
}

/// Sends queued lines and pings.
async fn send(reader: &Reader, sink: &mut SplitSink<Socket, Message>, limits: &ServerLimits) -> SocketEnd {
    let mut ticks = interval_at(Instant::now() + limits.keep_alive, limits.keep_alive);
    loop {
        let mut next = tokio::select! {
            next = poll_fn(|context| reader.poll_next(context)) => Some(next),
            _ = ticks.tick() => {
                if sink.send(Message::Ping(Bytes::new())).await.is_err() {
                    return SocketEnd::Broken;
                }
                continue;
            }
        };
        // Write all queued lines before flushing. Their receipts are dropped after the flush, which releases
        // the send window.
        let (mut written, mut sent) = (Vec::new(), 0);
        while let Some(found) = next {
            match found {
                Next::Line(line) => {
                    let OutgoingLine { text, stream: _, cursor: _, written: receipt } = line;
                    sent += text.len();
                    written.extend(receipt);
                    if feed(sink, text).await.is_err() {
                        return SocketEnd::Broken;
                    }
                }
                Next::TakenOver => return SocketEnd::TakenOver,
                Next::Ended(ending) => return SocketEnd::Ended(ending.code, ending.reason),
            }
            next = if sent > MAX_BATCH {
                None
            } else {
                poll_fn(|context| Poll::Ready(now(reader.poll_next(context)))).await
            };
        }
        if sink.flush().await.is_err() {
            return SocketEnd::Broken;
        }
    }
}

fn now<T>(poll: Poll<T>) -> Option<T> {
    match poll {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Writes a message to the buffer. Long messages are fragmented.
async fn feed(sink: &mut SplitSink<Socket, Message>, text: SharedText) -> Result<(), Error> {
    let mut rest = text.into_bytes();
    if rest.len() <= FRAME {
        let text = Utf8Bytes::try_from(rest).map_err(|error| Error::Utf8(error.to_string()))?;
        return sink.feed(Message::Text(text)).await;
    }
    let mut kind = Data::Text;
    while !rest.is_empty() {
        let part = rest.split_to(rest.len().min(FRAME));
        let frame = Frame::message(part, OpCode::Data(kind), rest.is_empty());
        sink.feed(Message::Frame(frame)).await?;
        kind = Data::Continue;
    }
    Ok(())
}

/// Receives messages.
async fn receive(
    reader: &Reader,
    frames: &mut SplitStream<Socket>,
    opening: &mut Option<Opening>,
    limits: &ServerLimits,
) -> SocketEnd {
    let begin = Instant::now();
    let mut heard = begin;
    loop {
        let until = if opening.is_some() { begin + limits.first_message } else { heard + limits.silence };
        let frame = match timeout_at(until, frames.next()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return refused(&error),
            Ok(None) => return SocketEnd::Broken,
            Err(_) if opening.is_some() => {
                let reason = format!("no initialize within {} seconds", limits.first_message.as_secs());
                return SocketEnd::Refused(close_codes::POLICY_VIOLATION, reason);
            }
            Err(_) => return SocketEnd::Broken,
        };
        match frame {
            Message::Text(text) => {
                let came = Instant::now();
                if let Err(end) = take(reader, opening, &text).await {
                    return end;
                }
                // While the message waited for the program, no pong could be read.
                heard += came.elapsed();
            }
            Message::Binary(bytes) => {
                let came = Instant::now();
                let messages = match messages_in(&bytes) {
                    Ok(messages) => messages,
                    Err((code, reason)) => return SocketEnd::Refused(code, reason.to_owned()),
                };
                for text in messages {
                    if let Err(end) = take(reader, opening, text).await {
                        return end;
                    }
                }
                heard += came.elapsed();
            }
            Message::Pong(_) => heard = Instant::now(),
            Message::Close(frame) => {
                // Without a code, or with a normal one, the client does not intend to reconnect.
                let code = frame.map_or(close_codes::NORMAL, |frame| frame.code.into());
                return if code == close_codes::NORMAL { SocketEnd::Left } else { SocketEnd::Broken };
            }
            // The library answers pings.
            Message::Ping(_) | Message::Frame(_) => {}
        }
    }
}

/// Returns the messages in a binary frame, which some clients send instead of text: one JSON value, or one per line.
/// Fails with a close code.
fn messages_in(bytes: &[u8]) -> Result<Vec<&str>, (u16, &'static str)> {
    let unsupported = (close_codes::UNSUPPORTED_DATA, "a binary frame must contain JSON-RPC messages");
    let text = std::str::from_utf8(bytes).map_err(|_| unsupported)?.trim();
    if is_json(text).is_ok() {
        return Ok(vec![text]);
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let messages: Vec<&str> = lines
        .map(|line| match is_json(line) {
            Ok(()) => Ok(line),
            Err(error) if error.is_eof() => {
                Err((close_codes::INVALID_TEXT, "a binary frame ends within a message"))
            }
            Err(_) => Err(unsupported),
        })
        .collect::<Result<_, _>>()?;
    if messages.is_empty() { Err(unsupported) } else { Ok(messages) }
}

fn is_json(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<serde::de::IgnoredAny>(text).map(drop)
}

/// Delivers a message to the program.
async fn take(reader: &Reader, opening: &mut Option<Opening>, text: &str) -> Result<(), SocketEnd> {
    let shared: &Arc<ServedConnection> = &reader.shared;
    match message::read(text) {
        Ok(message) if opening.is_some() && !message::opens(&message) => {
            let reason = "the first message must be initialize".to_owned();
            return Err(SocketEnd::Refused(close_codes::PROTOCOL_ERROR, reason));
        }
        Ok(_) => {}
        Err(answer) => {
            Outgoing(Arc::clone(shared)).send(OutgoingLine::new(answer));
            return Ok(());
        }
    }
    if let Some(open) = opening.take() {
        shared.set_open();
        open();
    }
    let incoming = shared.incoming();
    let place = match &incoming {
        Some(incoming) => incoming.reserve().await.ok(),
        None => None,
    };
    match place {
        Some(place) => reader.deliver(place, Incoming::Message(text.to_owned())),
        // The connection has ended; the sending side reports the reason.
        None => pending().await,
    };
    Ok(())
}

/// Classifies an error of the socket.
fn refused(error: &Error) -> SocketEnd {
    match error {
        Error::Capacity(error) => SocketEnd::Refused(close_codes::TOO_LONG, error.to_string()),
        // The transport closed without a closing handshake.
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => SocketEnd::Broken,
        Error::Protocol(error) => SocketEnd::Refused(close_codes::PROTOCOL_ERROR, error.to_string()),
        Error::Utf8(error) => SocketEnd::Refused(close_codes::INVALID_TEXT, error.clone()),
        _ => SocketEnd::Broken,
    }
}

/// Sends the close frame. Then discards the client's remaining input, because closing a socket with unread
/// bytes resets it and the client might not receive the close frame.
async fn close_socket(
    mut sink: SplitSink<Socket, Message>,
    frames: SplitStream<Socket>,
    words: Option<(u16, Arc<str>)>,
    limit: usize,
) -> Result<(), Error> {
    // The library answers the client's own close frame.
    match words {
        Some((code, reason)) => {
            let reason = Utf8Bytes::from(shortened(&reason));
            sink.send(Message::Close(Some(CloseFrame { code: code.into(), reason }))).await?;
        }
        None => sink.flush().await?,
    }
    if let Ok(mut socket) = sink.reunite(frames) {
        let stream = socket.get_mut();
        stream.shutdown().await?;
        let mut rest = stream.take(4 * limit as u64);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await?;
    }
    Ok(())
}

/// Truncates a reason to 123 bytes, the limit of a close frame.
fn shortened(reason: &str) -> &str {
    let most = reason.len().min(123);
    &reason[..(0..=most).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0)]
}
