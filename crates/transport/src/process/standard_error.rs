//! Standard error of a child: always read, so that the child never blocks, and partly kept.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, BytesMut};
use memchr::memchr;
use tokio::net::unix::pipe;
use tokio::process::ChildStderr;
use tokio::sync::{broadcast, watch};
use tokio::time::sleep;

use super::output::{SILENCE, capacity};

/// Maximum length of a line in bytes. Longer lines are split.
const LINE: usize = 8 * 1024;
/// Maximum number of lines and bytes kept.
const KEPT_LINES: usize = 500;
const KEPT_BYTES: usize = 256 * 1024;
/// Number of lines that a listener may lag.
const MAX_LAG: usize = 1024;

/// Maximum number of bytes read at a time, so that a verbose child does not delay other work.
const MAX_READ: usize = 256 * 1024;

/// The latest lines, and listeners for new ones.
pub(super) struct StandardError {
    pipe: pipe::Receiver,
    /// Bytes read that do not form a complete line yet.
    buffer: Mutex<BytesMut>,
    kept: Mutex<Kept>,
    ended: watch::Sender<bool>,
}

type Listener = Box<dyn FnMut(&str) + Send>;

impl fmt::Debug for StandardError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StandardError")
    }
}

#[derive(Default)]
struct Kept {
    lines: VecDeque<Arc<str>>,
    bytes: usize,
    /// Number of lines that are no longer kept.
    missed: u64,
    /// Listeners that get each line at once.
    listeners: Vec<Listener>,
    /// Channel for listeners that read later. `None` after the last line.
    news: Option<broadcast::Sender<Arc<str>>>,
}

/// A line of standard error, or a number of missed lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StandardErrorLine {
    /// A line, with U+FFFD for invalid UTF-8. It may contain terminal escapes.
    Line(Arc<str>),
    /// Number of lines that the listener missed because it started late or was too slow.
    Missed(u64),
}

/// Lines of a child's standard error: first the kept ones, then new ones.
#[derive(Debug)]
pub struct StandardErrorLines {
    /// Number of lines before the kept ones.
    missed: u64,
    kept: VecDeque<Arc<str>>,
    /// `None` after the last line.
    coming: Option<broadcast::Receiver<Arc<str>>>,
}

impl StandardErrorLines {
    /// Returns the next line, or `None` after the last.
    pub async fn next(&mut self) -> Option<StandardErrorLine> {
        if let missed @ 1.. = std::mem::take(&mut self.missed) {
            return Some(StandardErrorLine::Missed(missed));
        }
        if let Some(line) = self.kept.pop_front() {
            return Some(StandardErrorLine::Line(line));
        }
        match self.coming.as_mut()?.recv().await {
            Ok(line) => Some(StandardErrorLine::Line(line)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(StandardErrorLine::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

impl StandardError {
    pub(super) fn new(pipe: ChildStderr) -> io::Result<Self> {
        Ok(StandardError {
            pipe: pipe::Receiver::from_owned_fd(pipe.into_owned_fd()?)?,
            buffer: Mutex::default(),
            kept: Mutex::new(Kept { news: Some(broadcast::Sender::new(MAX_LAG)), ..Kept::default() }),
            ended: watch::Sender::new(false),
        })
    }

    /// Returns the latest lines, oldest first.
    pub(super) fn last_lines(&self, count: usize) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let skipped = kept.lines.len().saturating_sub(count);
        kept.lines.iter().skip(skipped).map(ToString::to_string).collect()
    }

    pub(super) fn listen(&self) -> StandardErrorLines {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        StandardErrorLines {
            missed: kept.missed,
            kept: kept.lines.clone(),
            coming: kept.news.as_ref().map(broadcast::Sender::subscribe),
        }
    }

    /// Registers a listener for each line, starting with the kept ones.
    pub(super) fn tell(&self, mut listener: Listener) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for line in &kept.lines {
            listener(line);
        }
        kept.listeners.push(listener);
    }

    /// Waits until standard error has ended.
    pub(super) async fn ended(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Reads available bytes. Returns their number, or `None` at the end. Called before each read of standard
    /// output, so that earlier lines of standard error are reported first.
    pub(super) fn look(&self) -> Option<usize> {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = 0;
        while taken < MAX_READ {
            buffer.reserve(LINE);
            match self.pipe.try_read_buf(&mut *buffer) {
                // A read error ends the stream too.
                Ok(0) => return None,
                Ok(count) => taken += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
            self.cut(&mut buffer, false);
        }
        Some(taken)
    }

    /// Splits the bytes read into lines.
    fn cut(&self, buffer: &mut BytesMut, is_all: bool) {
        loop {
            let start = &buffer[..buffer.len().min(LINE)];
            let (length, taken) = match memchr(b'\n', start) {
                Some(end) => (end, end + 1),
                None if start.len() == LINE || (is_all && !start.is_empty()) => (start.len(), start.len()),
                None => return,
            };
            self.add(&buffer[..length]);
            buffer.advance(taken);
        }
    }

    /// Reads to the end of the pipe or, if another process keeps it open, of the child.
    pub(super) async fn read(&self, exited: impl Future<Output = ()>) {
        tokio::pin!(exited);
        // Number of bytes that may be left in the pipe after the child has exited.
        let mut left = None;
        loop {
            tokio::select! {
                biased;
                readable = self.pipe.readable() => match readable.ok().and_then(|()| self.look()) {
                    Some(taken) => left = left.map(|left: usize| left.saturating_sub(taken)),
                    None => break,
                },
                () = &mut exited, if left.is_none() => left = Some(capacity(&self.pipe)),
                () = sleep(SILENCE), if left.is_some() => break,
            }
            if left == Some(0) {
                break;
            }
            tokio::task::yield_now().await;
        }
        self.cut(&mut self.buffer.lock().unwrap_or_else(PoisonError::into_inner), true);
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.listeners.clear();
            kept.news = None;
        }
        self.ended.send_replace(true);
    }

    fn add(&self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line: Arc<str> = String::from_utf8_lossy(line).into();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += line.len();
        kept.lines.push_back(Arc::clone(&line));
        for listener in &mut kept.listeners {
            listener(&line);
        }
        if let Some(news) = &kept.news {
            // Fails if there are no listeners.
            let _ = news.send(line);
        }
        while kept.lines.len() > KEPT_LINES || kept.bytes > KEPT_BYTES {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= oldest.len();
            kept.missed += 1;
        }
    }
}
