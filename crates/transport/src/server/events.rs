//! A stream of server-sent events.
//!
//! A body of our own, not `axum::response::sse`: lines that wait are written together, each line is acknowledged to its
//! sender once it has been written, which is what the send window counts, and a reader that is superseded ends the stream.

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

/// How much is put together before it is written.
const ENOUGH: usize = 16 << 10;

/// What waits in a mailbox, as the body of an answer.
pub(super) struct Events {
    reader: Option<Reader>,
    keep_alive: Duration,
    pause: Pin<Box<Sleep>>,
    /// Given back when more is asked for: then it has been written.
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
        this.written.clear();
        let Some(reader) = &this.reader else { return Poll::Ready(None) };
        let mut text = BytesMut::new();
        while text.len() < ENOUGH {
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
            if this.pause.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            text.put_slice(b": keep-alive\n\n");
        }
        this.pause.as_mut().reset(Instant::now() + this.keep_alive);
        Poll::Ready(Some(Ok(Frame::data(text.freeze()))))
    }
}

/// One event. A message that is laid out over several lines has a field for each.
fn write_event(out: &mut BytesMut, message: &str, cursor: Option<&str>) {
    out.reserve(message.len() + cursor.map_or(0, str::len) + 16);
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
