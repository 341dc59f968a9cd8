//! A stream of server-sent events.
//!
//! Not `axum::response::sse`: this body writes queued lines together, acknowledges each line to its sender
//! once it has been written, which is what the send window counts, and ends when its reader is superseded.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use hyper::body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep};

use super::connection::OutgoingLine;
use super::flow::Written;
use super::mailbox::{Next, Reader};

/// Number of bytes collected before they are written.
const MAX_FRAME: usize = 16 << 10;

/// Response body that reads from a mailbox.
pub(super) struct Events {
    reader: Option<Reader>,
    keep_alive: Duration,
    pause: Pin<Box<Sleep>>,
    /// Receipts of the last frame. Dropped when the next frame is requested, because the last one has been
    /// written by then.
    written: Vec<Written>,
}

impl Events {
    pub(super) fn new(reader: Reader) -> Self {
        let keep_alive = reader.shared.limits.keep_alive;
        Events { reader: Some(reader), keep_alive, pause: Box::pin(sleep(keep_alive)), written: Vec::new() }
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        // The previous frame has been written when the next one is requested: acknowledge its lines now.
        this.written.clear();
        let Some(reader) = &this.reader else { return Poll::Ready(None) };
        let mut text = BytesMut::new();
        while text.len() < MAX_FRAME {
            match reader.poll_next(context) {
                Poll::Ready(Next::Line(line)) => {
                    let OutgoingLine { text: message, stream: _, cursor, written } = line;
                    write_event(&mut text, &message, cursor.as_deref());
                    this.written.extend(written);
                }
                Poll::Ready(Next::Ended(_) | Next::TakenOver) => {
                    this.reader = None;
                    break;
                }
                Poll::Pending => break,
            }
        }
        if text.is_empty() {
            if this.reader.is_none() {
                return Poll::Ready(None);
            }
            // Nothing queued: send a comment after a silence, so that proxies and the client keep the
            // connection.
            if this.pause.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            text.put_slice(b": keep-alive\n\n");
        }
        this.pause.as_mut().reset(Instant::now() + this.keep_alive);
        Poll::Ready(Some(Ok(Frame::data(text.freeze()))))
    }
}

/// Writes one event. A message that spans several lines gets one `data` field per line.
fn write_event(out: &mut BytesMut, message: &str, cursor: Option<&str>) {
    out.reserve(message.len() + cursor.map_or(0, str::len) + 16);
    // A cursor with a line end could inject fields, and one with a null character is ignored by clients.
    if let Some(cursor) = cursor.filter(|cursor| !cursor.contains(['\n', '\r', '\0'])) {
        out.put_slice(b"id: ");
        out.put_slice(cursor.as_bytes());
        out.put_slice(b"\n");
    }
    for line in message.split(['\n', '\r']).filter(|line| !line.is_empty()) {
        out.put_slice(b"data: ");
        out.put_slice(line.as_bytes());
        out.put_slice(b"\n");
    }
    out.put_slice(b"\n");
}
