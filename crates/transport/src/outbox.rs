//! The writing side of a connection: a bounded byte queue, drained by its own task that writes many messages
//! at a time.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore, TryAcquireError, watch};
use tokio::time::sleep;

use crate::process::ChildInput;
use crate::tap::TapEvent;
use crate::{ClosureCause, Direction, Tap};

/// Queue size and timeouts of an [`Outbox`].
#[derive(Debug, Clone)]
pub struct OutboxOptions {
    /// Queue capacity in bytes. Senders wait while it is full (backpressure). A message longer than this
    /// waits until the queue is empty.
    pub queue: usize,
    /// Time without progress after which a peer that does not read is given up. `None` means no limit.
    pub stall: Option<Duration>,
    /// The same limit after the outbox was closed.
    pub linger: Duration,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Default for OutboxOptions {
    /// Returns 1 MiB, 60 seconds and 2 seconds.
    fn default() -> Self {
        OutboxOptions {
            queue: 1024 * 1024,
            stall: Some(Duration::from_secs(60)),
            linger: Duration::from_secs(2),
            more: switchboard_acp::More,
        }
    }
}

/// Sends lines to a stream. Clones send to the same stream. When the last one is dropped, queued lines are
/// written and the stream is shut down.
///
/// Lines are written in the order in which they were accepted, by one task, with one system call for all
/// queued lines.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use switchboard_transport::{Outbox, OutboxOptions};
/// use tokio::io::AsyncReadExt;
///
/// let (ours, mut theirs) = tokio::io::duplex(1024);
/// let outbox = Outbox::new(ours, OutboxOptions::default());
/// outbox.send(r#"{"id":1}"#).await.unwrap();
/// outbox.send(r#"{"id":2}"#).await.unwrap();
/// drop(outbox);
/// let mut text = String::new();
/// theirs.read_to_string(&mut text).await.unwrap();
/// assert_eq!(text, "{\"id\":1}\n{\"id\":2}\n");
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Outbox {
    handle: Arc<Handle>,
}

/// State shared by the clones. Dropping it closes the queue.
#[derive(Debug)]
struct Handle(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// One permit per byte that may be queued.
    room: Semaphore,
    limit: usize,
    tap: Option<Tap>,
    /// Signals that bytes are queued or the queue is closed.
    wake: Notify,
    /// Number of bytes written.
    written: watch::Sender<u64>,
    closing: watch::Sender<bool>,
    /// Reason why nothing is written any more. Separate from `written`, so that a call that waits for its
    /// response is not woken by every write.
    end: watch::Sender<Option<ClosureCause>>,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Permits held by `bytes`.
    permits: usize,
    /// Total number of bytes queued.
    queued: u64,
    closed: bool,
}

/// Position of a line in the stream: the number of bytes up to its end.
pub(crate) type Position = u64;

impl Outbox {
    /// Starts the task that writes to `writer`. Must be called inside a tokio runtime.
    pub fn new(writer: impl AsyncWrite + Send + Unpin + 'static, options: OutboxOptions) -> Self {
        Self::with_tap(writer, std::future::pending(), options, None)
    }

    /// Sends lines to a child process. Notices at once if the child closes its input, without waiting for the
    /// next write.
    pub fn to_child(input: ChildInput, options: OutboxOptions) -> Self {
        let closed = input.closed_by_child();
        Self::with_tap(input, closed, options, None)
    }

    /// Starts the writing task. `closed` resolves when the peer stops reading; it is dropped with the writer.
    pub(crate) fn with_tap(
        writer: impl AsyncWrite + Send + Unpin + 'static,
        closed: impl Future<Output = ()> + Send + 'static,
        options: OutboxOptions,
        tap: Option<Tap>,
    ) -> Self {
        let limit = options.queue.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        let queue = Arc::new(Queue {
            waiting: Mutex::default(),
            room: Semaphore::new(limit),
            limit,
            tap,
            wake: Notify::new(),
            written: watch::Sender::default(),
            closing: watch::Sender::default(),
            end: watch::Sender::default(),
        });
        tokio::spawn(write_all(Arc::clone(&queue), writer, closed, options));
        Outbox { handle: Arc::new(Handle(queue)) }
    }

    /// Queues a line and adds the newline. Waits while the queue is full. The text must not contain a
    /// newline.
    pub async fn send(&self, line: &str) -> Result<(), ClosureCause> {
        self.queue(line).await.map(drop)
    }

    /// Returns the number of bytes that can be queued without waiting.
    pub fn room(&self) -> usize {
        self.handle.0.room.available_permits()
    }

    /// Queues a line, or several separated by newlines, without waiting. Returns false if the queue is too
    /// full.
    pub fn try_send(&self, line: &str) -> Result<bool, ClosureCause> {
        let queue = &self.handle.0;
        let wanted = (line.len() + 1).min(queue.limit);
        match queue.room.try_acquire_many(u32::try_from(wanted).unwrap_or(u32::MAX)) {
            Ok(permit) => permit.forget(),
            Err(TryAcquireError::NoPermits) => return Ok(false),
            Err(TryAcquireError::Closed) => return Err(self.end()),
        }
        queue.append(line, wanted).map(|_| true).ok_or_else(|| self.end())
    }

    pub(crate) async fn queue(&self, line: &str) -> Result<Position, ClosureCause> {
        let queue = &self.handle.0;
        let wanted = (line.len() + 1).min(queue.limit);
        // The clamp in `with_tap` guarantees that the length fits.
        let permits = u32::try_from(wanted).unwrap_or(u32::MAX);
        match queue.room.acquire_many(permits).await {
            Ok(permit) => permit.forget(),
            Err(_) => return Err(self.end()),
        }
        queue.append(line, wanted).ok_or_else(|| self.end())
    }

    /// Queues a short line without waiting, even beyond the capacity. Only for lines caused by a message that
    /// was counted.
    pub(crate) fn queue_unbounded(&self, line: &str) {
        self.handle.0.append(line, 0);
    }

    /// Waits until all queued lines are written.
    pub async fn flush(&self) -> Result<(), ClosureCause> {
        let queued = self.handle.0.lock().queued;
        let mut written = self.handle.0.written.subscribe();
        tokio::select! {
            biased;
            _ = written.wait_for(|written| *written >= queued) => Ok(()),
            cause = self.lost(queued) => Err(cause),
        }
    }

    /// Stops accepting lines, writes the queued ones and shuts the stream down.
    pub async fn close(&self) {
        self.handle.0.close();
        self.ended().await;
    }

    /// Returns a handle that can close this outbox but does not keep it open.
    pub(crate) fn closer(&self) -> OutboxCloser {
        OutboxCloser(Arc::downgrade(&self.handle))
    }

    /// Waits until it is certain that the line that ends at `position` will not be written.
    pub(crate) async fn lost(&self, position: Position) -> ClosureCause {
        self.ended().await;
        if *self.handle.0.written.borrow() < position {
            return self.end();
        }
        std::future::pending().await
    }

    /// Returns the number of bytes written, including newlines. A line has left this process once this
    /// reaches the sum of all lines up to it.
    pub fn written(&self) -> u64 {
        *self.handle.0.written.borrow()
    }

    /// Waits until nothing can be sent any more, and returns the reason.
    pub async fn closed(&self) -> ClosureCause {
        self.ended().await;
        self.end()
    }

    async fn ended(&self) {
        let mut end = self.handle.0.end.subscribe();
        // The sender lives as long as this handle, so this cannot fail.
        let _ = end.wait_for(Option::is_some).await;
    }

    /// Returns the reason why nothing can be sent any more.
    pub(crate) fn end(&self) -> ClosureCause {
        self.handle.0.end.borrow().clone().unwrap_or(ClosureCause::ClosedHere)
    }
}

/// Closes an outbox without keeping it open.
#[derive(Debug)]
pub(crate) struct OutboxCloser(Weak<Handle>);

impl OutboxCloser {
    pub(crate) fn close(&self) {
        if let Some(handle) = self.0.upgrade() {
            handle.0.close();
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn append(&self, line: &str, permits: usize) -> Option<Position> {
        let mut waiting = self.lock();
        if waiting.closed {
            return None;
        }
        if let Some(tap) = &self.tap {
            tap.see(TapEvent::Message { direction: Direction::Sent, line });
        }
        // Wake the writer only for the first line: it takes everything that is queued at once.
        let was_empty = waiting.bytes.is_empty();
        waiting.bytes.extend_from_slice(line.as_bytes());
        waiting.bytes.push(b'\n');
        waiting.permits += permits;
        waiting.queued += line.len() as u64 + 1;
        let position = waiting.queued;
        drop(waiting);
        if was_empty {
            self.wake.notify_one();
        }
        Some(position)
    }

    fn close(&self) {
        self.lock().closed = true;
        self.room.close();
        self.closing.send_replace(true);
        self.wake.notify_one();
    }

    /// Waits for queued bytes and swaps them with `buffer`. Returns `None` when the queue is closed and
    /// empty.
    async fn take(&self, buffer: &mut Vec<u8>) -> Option<usize> {
        loop {
            {
                let mut waiting = self.lock();
                if !waiting.bytes.is_empty() {
                    std::mem::swap(&mut waiting.bytes, buffer);
                    return Some(std::mem::take(&mut waiting.permits));
                }
                if waiting.closed {
                    return None;
                }
                // Shrink only when idle: under load the memory would be needed again at once.
                waiting.bytes.shrink_to(KEPT_BUFFER);
                buffer.shrink_to(KEPT_BUFFER);
            }
            self.wake.notified().await;
        }
    }
}

/// Buffer size in bytes that is kept when idle. A larger buffer is released when nothing is queued, or at
/// once if it is much larger than the queue's capacity.
const KEPT_BUFFER: usize = 256 * 1024;

async fn write_all(
    queue: Arc<Queue>,
    mut writer: impl AsyncWrite + Unpin,
    closed: impl Future<Output = ()>,
    options: OutboxOptions,
) {
    let mut closed = Box::pin(closed);
    let mut buffer = Vec::new();
    let end = loop {
        let taken = tokio::select! {
            biased;
            taken = queue.take(&mut buffer) => taken,
            // Only while there is nothing to write: a failing write reports it by itself.
            () = &mut closed => break ClosureCause::InputClosed,
        };
        let Some(permits) = taken else { break ClosureCause::ClosedHere };
        if let Err(cause) = write_buffer(&queue, &mut writer, &buffer, permits, &options).await {
            break cause;
        }
        buffer.clear();
        // This buffer has held a message longer than the queue's capacity.
        if buffer.capacity() > 2 * queue.limit {
            buffer.shrink_to(KEPT_BUFFER);
        }
    };
    // Order: refuse new lines, close the stream, then publish the reason, so that a waiting task sees a
    // closed stream.
    queue.close();
    // A stream that cannot even be shut down is abandoned after the linger time.
    let _ = tokio::time::timeout(options.linger, writer.shutdown()).await;
    drop((writer, closed));
    queue.end.send_replace(Some(end));
}

async fn write_buffer(
    queue: &Queue,
    writer: &mut (impl AsyncWrite + Unpin),
    mut rest: &[u8],
    mut permits: usize,
    options: &OutboxOptions,
) -> Result<(), ClosureCause> {
    let mut close = queue.closing.subscribe();
    let mut closing = *close.borrow();
    while !rest.is_empty() {
        let patience = if closing { Some(options.linger) } else { options.stall };
        tokio::select! {
            biased;
            written = writer.write(rest) => match written {
                Ok(0) => return Err(ClosureCause::WriteFailed(Arc::new(io::ErrorKind::WriteZero.into()))),
                Ok(count) => {
                    rest = &rest[count..];
                    // Release permits as bytes are written, not per buffer: senders resume while a long
                    // buffer is still being written. The last write releases the rest, since an oversized
                    // message holds fewer permits than it has bytes.
                    let freed = if rest.is_empty() { permits } else { count.min(permits) };
                    permits -= freed;
                    queue.room.add_permits(freed);
                    queue.written.send_modify(|written| *written += count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(write_failed(error)),
            },
            _ = close.wait_for(|close| *close), if !closing => closing = true,
            () = sleep_for(patience) => return Err(ClosureCause::NotReading(patience.unwrap_or_default())),
        }
    }
    writer.flush().await.map_err(write_failed)
}

fn write_failed(error: io::Error) -> ClosureCause {
    match error.kind() {
        io::ErrorKind::BrokenPipe => ClosureCause::InputClosed,
        _ => ClosureCause::WriteFailed(Arc::new(error)),
    }
}

async fn sleep_for(patience: Option<Duration>) {
    match patience {
        Some(patience) => sleep(patience).await,
        None => std::future::pending().await,
    }
}
