//! WebSocket client: one message per WebSocket message.

use futures_util::{SinkExt, StreamExt};
use http::header::{CONNECTION, HOST, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderValue, Request};
use switchboard_acp::rpc::Outline;
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream};

use crate::SharedText;
use crate::routing::CONNECTION_ID;

use super::{KEEP_ALIVE, Lines, Remote, RemoteError, SILENCE, tls, write_lines};

pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Opens a WebSocket, optionally to reconnect to an earlier connection. Returns the connection id as well.
pub(super) async fn open(
    remote: &Remote,
    earlier: Option<&str>,
) -> Result<(Socket, Option<String>), RemoteError> {
    let connector =
        if remote.is_encrypted() { Connector::Rustls(tls::config(remote)?) } else { Connector::Plain };
    let authority = remote.url.authority().map_or("", http::uri::Authority::as_str);
    let mut request = Request::get(remote.url.clone())
        .header(HOST, authority)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, generate_key())
        .body(())
        .map_err(|error| remote.unreachable(&error))?;
    request.headers_mut().extend(remote.headers.clone());
    if let Some(earlier) = earlier {
        let value = HeaderValue::from_str(earlier).map_err(|error| remote.unreachable(&error))?;
        request.headers_mut().insert(CONNECTION_ID, value);
    }
    let config =
        WebSocketConfig::default().max_message_size(Some(remote.limit)).max_frame_size(Some(remote.limit));
    let opened =
        tokio_tungstenite::connect_async_tls_with_config(request, Some(config), true, Some(connector)).await;
    match opened {
        Ok((socket, response)) => {
            let id = response.headers().get(CONNECTION_ID).and_then(|id| id.to_str().ok());
            Ok((socket, id.map(str::to_owned)))
        }
        Err(Error::Http(response)) => {
            let body = response.body().as_deref().unwrap_or_default();
            Err(remote.refused(response.status(), response.headers(), body))
        }
        // The library's own words, "IO error:", say nothing that its source does not.
        Err(Error::Io(error)) => Err(remote.failed(&error, &error)),
        Err(error) => Err(remote.failed(&error, &error)),
    }
}

/// Exchanges messages in both directions until one side ends.
pub(super) async fn relay(
    remote: Remote,
    mut socket: Socket,
    local: DuplexStream,
) -> Result<(), RemoteError> {
    let (reader, mut writer) = tokio::io::split(local);
    let mut lines = Lines::new(reader, &remote);
    let mut first = None;
    while let Some(again) = relay_over(&remote, socket, first, &mut lines, &mut writer).await? {
        // Servers expect a new socket for a second `initialize`.
        (socket, _) = open(&remote, None).await?;
        first = Some(again);
    }
    Ok(())
}

/// Exchanges messages over one socket. Returns a second `initialize`, sent by a client whose first was
/// refused, because servers expect a new socket for it.
async fn relay_over(
    remote: &Remote,
    socket: Socket,
    first: Option<SharedText>,
    lines: &mut Lines<ReadHalf<DuplexStream>>,
    writer: &mut WriteHalf<DuplexStream>,
) -> Result<Option<SharedText>, RemoteError> {
    // Send and receive concurrently: a server that does not read must not block our reading.
    let (mut sink, mut frames) = socket.split();
    let sending = async {
        let mut ticks = tokio::time::interval(KEEP_ALIVE);
        // The first tick completes at once.
        ticks.tick().await;
        let (mut first, mut is_open) = (first, false);
        loop {
            let next = async {
                match first.take() {
                    Some(line) => Some(line),
                    None => lines.next(remote).await,
                }
            };
            let message = tokio::select! {
                line = next => match line {
                    Some(line) if is_open && is_initialize(&line) => return Ok(Some(line)),
                    Some(line) => {
                        is_open |= is_initialize(&line);
                        Message::text(line.as_str())
                    }
                    None => {
                        // The server may already be gone.
                        let _ = sink.close().await;
                        return Ok(None);
                    }
                },
                _ = ticks.tick() => Message::Ping(Default::default()),
            };
            sink.send(message).await.map_err(|error| remote.ended(error.to_string()))?;
        }
    };
    let receiving = async {
        loop {
            let Ok(frame) = tokio::time::timeout(SILENCE, frames.next()).await else {
                return Err(RemoteError::Silent { url: remote.shown() });
            };
            match frame {
                Some(Ok(Message::Text(text))) => {
                    if write_lines(writer, &text).await.is_err() {
                        return Ok(None);
                    }
                }
                Some(Ok(Message::Close(frame))) => {
                    let reason = frame.map(|frame| format!("{} {}", u16::from(frame.code), frame.reason));
                    return Err(remote.ended(reason.unwrap_or_default()));
                }
                // The library answers pings. The protocol defines no meaning for binary messages.
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(error)) => return Err(remote.ended(error.to_string())),
                None => return Err(remote.ended("")),
            }
        }
    };
    tokio::select! {
        end = sending => end,
        end = receiving => end,
    }
}

fn is_initialize(line: &str) -> bool {
    matches!(Outline::of(line), Some(Outline::Request { method, .. }) if method == "initialize")
}
