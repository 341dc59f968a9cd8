//! WebSockets of clients: one message in each text frame.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::WebSocketUpgrade;
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use switchboard_hub::Identity;
use tokio::time::{Instant, interval, timeout};

use crate::outbox::{Next, Outbox};
use crate::service::{HostService, Hosts};

/// Maximum size of a message in bytes.
const MAX_MESSAGE: usize = 16 << 20;
/// Interval of pings.
const PING: Duration = Duration::from_secs(15);
/// Time without any message or pong after which a connection is dead.
const SILENCE: Duration = Duration::from_secs(75);
/// Time limit for one write. A client that does not read for so long is dead.
const WRITE: Duration = Duration::from_secs(30);

pub(crate) fn serve(hosts: &Arc<Hosts>, upgrade: WebSocketUpgrade, identity: &Identity) -> Response {
    if !hosts.reserve() {
        return (StatusCode::SERVICE_UNAVAILABLE, "Too many connections are open.\n").into_response();
    }
    let place = Place(Arc::clone(hosts));
    let Some(host) = hosts.host(identity) else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "The host cannot be started.\n").into_response();
    };
    let upgrade = upgrade.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE);
    upgrade.on_upgrade(move |socket| run(socket, host, place)).into_response()
}

/// A place among the sockets.
struct Place(Arc<Hosts>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.sockets.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn run(socket: WebSocket, host: Arc<HostService>, _place: Place) {
    let (mut sink, mut stream) = socket.split();
    let Some((client, outbox)) = host.connect().await else {
        close(&mut sink, 4401, "the token was revoked, or the hub has ended").await;
        return;
    };
    let mut pings = interval(PING);
    let mut heard = Instant::now();
    let mut end = (1000, "the client has left".to_owned());
    {
        let writer = write(&mut sink, &outbox);
        tokio::pin!(writer);
        loop {
            tokio::select! {
                closed = &mut writer => {
                    end = closed;
                    break;
                }
                message = stream.next() => match message {
                    Some(Ok(Message::Text(text))) => {
                        heard = Instant::now();
                        host.step(|host, now| host.message(client, &text, now));
                    }
                    Some(Ok(Message::Binary(_))) => outbox.close(1003, "expected text frames"),
                    Some(Ok(Message::Close(_))) | None => break,
                    // Also messages above the limit.
                    Some(Err(_)) => {
                        end = (1009, "the message is malformed or too large".to_owned());
                        break;
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => heard = Instant::now(),
                },
                _ = pings.tick() => {
                    if heard.elapsed() >= SILENCE {
                        end = (1008, "the client does not answer".to_owned());
                        break;
                    }
                    outbox.ping();
                }
            }
        }
    }
    host.disconnect(client);
    close(&mut sink, end.0, &end.1).await;
}

/// Writes until the connection is to be closed, and returns the close code and the reason.
async fn write(sink: &mut SplitSink<WebSocket, Message>, outbox: &Outbox) -> (u16, String) {
    loop {
        let lines = match outbox.next().await {
            Next::Lines(lines) => lines,
            Next::Ping => {
                if !matches!(timeout(WRITE, sink.send(Message::Ping(Default::default()))).await, Ok(Ok(()))) {
                    return (1006, "the client does not read".to_owned());
                }
                continue;
            }
            Next::Close(code, reason) => return (code, reason),
        };
        let all = async {
            for line in lines {
                sink.feed(Message::text(&*line)).await?;
            }
            sink.flush().await
        };
        if !matches!(timeout(WRITE, all).await, Ok(Ok(()))) {
            return (1006, "the client does not read".to_owned());
        }
    }
}

async fn close(sink: &mut SplitSink<WebSocket, Message>, code: u16, reason: &str) {
    if code == 1006 {
        return;
    }
    let frame = CloseFrame { code, reason: reason.to_owned().into() };
    // The client may be gone.
    let farewell = async {
        // If the client has closed first, only the answer to that is left to send.
        let _ = sink.send(Message::Close(Some(frame))).await;
        sink.close().await
    };
    let _ = timeout(Duration::from_secs(2), farewell).await;
}
