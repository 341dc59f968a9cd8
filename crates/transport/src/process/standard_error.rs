//! What a child says on its standard error: always read, so that it never waits for us; kept in part.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, BytesMut};
use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{broadcast, watch};

/// A longer line is cut into several.
const LINE: usize = 8 * 1024;
/// How much is kept, by lines and by bytes.
const KEPT_LINES: usize = 500;
const KEPT_BYTES: usize = 256 * 1024;
/// How far a listener may fall behind.
const BEHIND: usize = 1024;

/// The newest lines, and whoever listens for more.
#[derive(Debug)]
pub(super) struct StandardError {
    kept: Mutex<Kept>,
    /// `None` after the last line.
    lines: Mutex<Option<broadcast::Sender<Arc<str>>>>,
    ended: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<Arc<str>>,
    bytes: usize,
}

/// A line of standard error, or the news that some were missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StandardErrorLine {
    /// A line, with U+FFFD for what is no UTF-8. It may hold terminal escapes.
    Line(Arc<str>),
    /// The listener was so slow that this many lines passed it by.
    Missed(u64),
}

/// The lines of a child's standard error from now on.
#[derive(Debug)]
pub struct StandardErrorLines(Option<broadcast::Receiver<Arc<str>>>);

impl StandardErrorLines {
    /// The next line; `None` after the last.
    pub async fn next(&mut self) -> Option<StandardErrorLine> {
        match self.0.as_mut()?.recv().await {
            Ok(line) => Some(StandardErrorLine::Line(line)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(StandardErrorLine::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl StandardError {
    pub(super) fn new() -> Self {
        StandardError {
            kept: Mutex::default(),
            lines: Mutex::new(Some(broadcast::Sender::new(BEHIND))),
            ended: watch::Sender::new(false),
        }
    }

    /// The newest lines, oldest first.
    pub(super) fn last_lines(&self, count: usize) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let skipped = kept.lines.len().saturating_sub(count);
        kept.lines.iter().skip(skipped).map(ToString::to_string).collect()
    }

    pub(super) fn listen(&self) -> StandardErrorLines {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        StandardErrorLines(lines.as_ref().map(broadcast::Sender::subscribe))
    }

    /// Waits until there is no more to come.
    pub(super) async fn ended(&self) {
        // The sender is here, so that waiting cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Reads to the end.
    pub(super) async fn read(&self, mut pipe: impl AsyncRead + Unpin) {
        let mut buffer = BytesMut::with_capacity(LINE);
        loop {
            buffer.reserve(LINE);
            // An error ends the reading as the end does.
            let more = pipe.read_buf(&mut buffer).await.is_ok_and(|count| count > 0);
            loop {
                let start = &buffer[..buffer.len().min(LINE)];
                let (length, taken) = match memchr(b'\n', start) {
                    Some(end) => (end, end + 1),
                    None if start.len() == LINE || (!more && !start.is_empty()) => (start.len(), start.len()),
                    None => break,
                };
                self.add(&buffer[..length]);
                buffer.advance(taken);
            }
            if !more {
                break;
            }
        }
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.ended.send_replace(true);
    }

    fn add(&self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line: Arc<str> = String::from_utf8_lossy(line).into();
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.bytes += line.len();
            kept.lines.push_back(Arc::clone(&line));
            while kept.lines.len() > KEPT_LINES || kept.bytes > KEPT_BYTES {
                let Some(oldest) = kept.lines.pop_front() else { break };
                kept.bytes -= oldest.len();
            }
        }
        if let Some(listeners) = &*self.lines.lock().unwrap_or_else(PoisonError::into_inner) {
            // It fails when nobody listens.
            let _ = listeners.send(line);
        }
    }
}
