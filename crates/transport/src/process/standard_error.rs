//! What a child says on its standard error: always read, so that it never waits for us; kept in part.

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

/// A longer line is cut into several.
const LINE: usize = 8 * 1024;
/// How much is kept, by lines and by bytes.
const KEPT_LINES: usize = 500;
const KEPT_BYTES: usize = 256 * 1024;
/// How far a listener may fall behind.
const BEHIND: usize = 1024;

/// How much is read at one look, so that nobody else waits for one who has much to say.
const LOOK: usize = 256 * 1024;

/// The newest lines, and whoever listens for more.
pub(super) struct StandardError {
    pipe: pipe::Receiver,
    /// What has been read and is no whole line yet.
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
    /// How many lines are kept no more.
    missed: u64,
    /// Who is told each line at once.
    listeners: Vec<Listener>,
    /// Who is told it later. `None` after the last line.
    news: Option<broadcast::Sender<Arc<str>>>,
}

/// A line of standard error, or the news that some were missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StandardErrorLine {
    /// A line, with U+FFFD for what is no UTF-8. It may hold terminal escapes.
    Line(Arc<str>),
    /// The listener came so late, or was so slow, that this many lines passed it by.
    Missed(u64),
}

/// The lines of a child's standard error: first those that were kept already, then those that come.
#[derive(Debug)]
pub struct StandardErrorLines {
    /// How many lines came before those that were kept.
    missed: u64,
    kept: VecDeque<Arc<str>>,
    /// `None` where the last line has come.
    coming: Option<broadcast::Receiver<Arc<str>>>,
}

impl StandardErrorLines {
    /// The next line; `None` after the last.
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
            kept: Mutex::new(Kept { news: Some(broadcast::Sender::new(BEHIND)), ..Kept::default() }),
            ended: watch::Sender::new(false),
        })
    }

    /// The newest lines, oldest first.
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

    /// Tells each line at once, first those that are kept already.
    pub(super) fn tell(&self, mut listener: Listener) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for line in &kept.lines {
            listener(line);
        }
        kept.listeners.push(listener);
    }

    /// Waits until there is no more to come.
    pub(super) async fn ended(&self) {
        // The sender is here, so that waiting cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Takes what is there now; `None` when no more will come, else how much it was. Whoever reads the standard output
    /// looks here first, so that what was said on standard error before it also comes before it.
    pub(super) fn look(&self) -> Option<usize> {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = 0;
        while taken < LOOK {
            buffer.reserve(LINE);
            match self.pipe.try_read_buf(&mut *buffer) {
                // An error ends the reading as the end does.
                Ok(0) => return None,
                Ok(count) => taken += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
            self.cut(&mut buffer, false);
        }
        Some(taken)
    }

    /// Cuts what has been read into lines.
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

    /// Reads to the end: that of the pipe or, where somebody else keeps it open, that of the child.
    pub(super) async fn read(&self, exited: impl Future<Output = ()>) {
        tokio::pin!(exited);
        // How much more may be in the pipe, once the child is gone.
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
            // It fails when nobody listens.
            let _ = news.send(line);
        }
        while kept.lines.len() > KEPT_LINES || kept.bytes > KEPT_BYTES {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= oldest.len();
            kept.missed += 1;
        }
    }
}
