//! The writing side: a bounded queue of bytes that a task of its own writes, many messages at a time.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore, TryAcquireError, watch};
use tokio::time::sleep;

use crate::process::ChildInput;
use crate::tap::Seen;
use crate::{ClosureCause, Direction, Tap};

/// How an outbox queues and how long it waits for a peer that does not read.
#[derive(Debug, Clone)]
pub struct OutboxOptions {
    /// How many bytes may wait to be written before a sender must wait too. A longer message waits until it is
    /// alone.
    pub queue: usize,
    /// How long the peer may take nothing while something waits to be written. `None`: for ever.
    pub stall: Option<Duration>,
    /// The same after the outbox was closed.
    pub linger: Duration,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Default for OutboxOptions {
    /// 1 MiB, 60 seconds, 2 seconds.
    fn default() -> Self {
        OutboxOptions {
            queue: 1024 * 1024,
            stall: Some(Duration::from_secs(60)),
            linger: Duration::from_secs(2),
            more: switchboard_acp::More,
        }
    }
}

/// Sends lines to a stream. Clones send to the same stream; when the last one is gone, what waits is written and
/// the stream is shut down.
///
/// Lines are written in the order in which they were accepted, by one task, as many as wait with one system call.
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

/// What the clones share; its end is the end of sending.
#[derive(Debug)]
struct Handle(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// One permit a byte that may be queued.
    room: Semaphore,
    limit: usize,
    tap: Option<Tap>,
    /// Something waits, or nothing more will come.
    wake: Notify,
    /// How many bytes have been written.
    written: watch::Sender<u64>,
    closing: watch::Sender<bool>,
    /// Why nothing is written any more. Apart from `written`, so that a call which waits for its answer is not
    /// woken by every write.
    end: watch::Sender<Option<ClosureCause>>,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// The permits that `bytes` holds.
    permits: usize,
    /// How many bytes have ever been queued.
    queued: u64,
    closed: bool,
}

/// The place of a line in the stream: the number of bytes up to its end.
pub(crate) type Position = u64;

impl Outbox {
    /// Starts the task that writes to `writer`. Must be called inside a tokio runtime.
    pub fn new(writer: impl AsyncWrite + Send + Unpin + 'static, options: OutboxOptions) -> Self {
        Self::with_tap(writer, std::future::pending(), options, None)
    }

    /// Sends lines to a child. That it has closed its input is noticed at once, and not by the next line.
    pub fn to_child(input: ChildInput, options: OutboxOptions) -> Self {
        let closed = input.closed_by_child();
        Self::with_tap(input, closed, options, None)
    }

    /// `closed` is done when the peer reads no more; it is dropped with the writer.
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

    /// Queues a line, its end added here; waits while the queue is full. The text must hold no line break.
    pub async fn send(&self, line: &str) -> Result<(), ClosureCause> {
        self.queue(line).await.map(drop)
    }

    /// How many bytes can be queued now.
    pub fn room(&self) -> usize {
        self.handle.0.room.available_permits()
    }

    /// Queues a line, or several with their ends between them, where there is room for them now. Tells whether there
    /// was.
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
        // The clamp in `new` makes every length below the limit fit.
        let permits = u32::try_from(wanted).unwrap_or(u32::MAX);
        match queue.room.acquire_many(permits).await {
            Ok(permit) => permit.forget(),
            Err(_) => return Err(self.end()),
        }
        queue.append(line, wanted).ok_or_else(|| self.end())
    }

    /// Queues a short line at once, over the limit if need be: for what follows from a message that was counted.
    pub(crate) fn queue_unbounded(&self, line: &str) {
        self.handle.0.append(line, 0);
    }

    /// Waits until all that was queued is written.
    pub async fn flush(&self) -> Result<(), ClosureCause> {
        let queued = self.handle.0.lock().queued;
        let mut written = self.handle.0.written.subscribe();
        tokio::select! {
            biased;
            _ = written.wait_for(|written| *written >= queued) => Ok(()),
            cause = self.lost(queued) => Err(cause),
        }
    }

    /// Takes no more lines, writes what waits and shuts the stream down.
    pub async fn close(&self) {
        self.handle.0.close();
        self.ended().await;
    }

    /// Closes this outbox later, without keeping it open until then.
    pub(crate) fn closer(&self) -> OutboxCloser {
        OutboxCloser(Arc::downgrade(&self.handle))
    }

    /// Waits until it is certain that the line which ends at `position` will not be written.
    pub(crate) async fn lost(&self, position: Position) -> ClosureCause {
        self.ended().await;
        if *self.handle.0.written.borrow() < position {
            return self.end();
        }
        std::future::pending().await
    }

    /// How many bytes were written, with the ends of lines. A line has left this process once this reaches the sum of all
    /// lines up to it.
    pub fn written(&self) -> u64 {
        *self.handle.0.written.borrow()
    }

    /// Waits until nothing can be sent any more, and says why.
    pub async fn closed(&self) -> ClosureCause {
        self.ended().await;
        self.end()
    }

    async fn ended(&self) {
        let mut end = self.handle.0.end.subscribe();
        // The sender lives as long as this handle, so that this cannot fail.
        let _ = end.wait_for(Option::is_some).await;
    }

    /// Why nothing can be sent any more.
    pub(crate) fn end(&self) -> ClosureCause {
        self.handle.0.end.borrow().clone().unwrap_or(ClosureCause::ClosedHere)
    }
}

/// Closes an outbox that it does not keep open.
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
            tap.see(Seen::Message { direction: Direction::Sent, line });
        }
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

    /// Waits for something to write and exchanges it for an empty buffer; `None` when nothing more will come.
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
                // Only now: while there is more to write, what is given back would be wanted again at once.
                waiting.bytes.shrink_to(KEPT_BUFFER);
                buffer.shrink_to(KEPT_BUFFER);
            }
            self.wake.notified().await;
        }
    }
}

/// A buffer that grew beyond this is given back when nothing waits to be written, or at once when it is much longer
/// than the queue may be.
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
            // Only while there is nothing to write: a write says so by itself.
            () = &mut closed => break ClosureCause::InputClosed,
        };
        let Some(permits) = taken else { break ClosureCause::ClosedHere };
        if let Err(cause) = write_buffer(&queue, &mut writer, &buffer, permits, &options).await {
            break cause;
        }
        buffer.clear();
        // Such a one has held a message longer than the queue.
        if buffer.capacity() > 2 * queue.limit {
            buffer.shrink_to(KEPT_BUFFER);
        }
    };
    queue.close();
    // The stream is closed before anybody hears of the end; one that cannot even be closed is gone anyway.
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
                    let freed = if rest.is_empty() { permits } else { count.min(permits) };
                    permits -= freed;
                    queue.room.add_permits(freed);
                    queue.written.send_modify(|written| *written += count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(write_failed(error)),
            },
            _ = close.wait_for(|close| *close), if !closing => closing = true,
            () = pass(patience) => return Err(ClosureCause::NotReading(patience.unwrap_or_default())),
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

async fn pass(patience: Option<Duration>) {
    match patience {
        Some(patience) => sleep(patience).await,
        None => std::future::pending().await,
    }
}
