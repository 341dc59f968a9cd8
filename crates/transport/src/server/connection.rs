//! A connection as the program sees it, independent of its transport: messages come in, lines go out on named
//! streams.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use switchboard_acp::rpc::{Outline, RequestId};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::flow::Written;
use super::mailbox::{Claim, Gate, Mailbox, Reader};
use super::{Refusal, ServerLimits};
use crate::SharedText;

/// Number of incoming messages that may be queued for the program.
const INCOMING: usize = 8;

/// Cost of a line in bytes in addition to its text.
const LINE_COST: usize = size_of::<OutgoingLine>();

/// A client's connection.
#[derive(Debug)]
pub struct ServerConnection {
    /// Connection id, sent as `Acp-Connection-Id`: 128 random bits.
    pub id: Arc<str>,
    /// Messages of the client. Ends when the connection has ended for good: the client left, did not
    /// reconnect in time or exceeded a limit. Dropping it ends the connection.
    pub incoming: mpsc::Receiver<Incoming>,
    /// Sender of lines to the client.
    pub outgoing: Outgoing,
}

impl ServerConnection {
    pub(super) fn begin(id: Arc<str>, carrier: Carrier, limits: Arc<ServerLimits>) -> ServerConnection {
        let (sender, incoming) = mpsc::channel(INCOMING);
        let shared = ServedConnection {
            id: Arc::clone(&id),
            carrier,
            limits,
            main: Arc::default(),
            sessions: Mutex::default(),
            waiting: AtomicUsize::new(0),
            incoming: Mutex::new(Some(sender)),
            ending: OnceLock::new(),
            usage: Mutex::new(Usage { count: 0, requests: 0, since: Instant::now() }),
            changed: Notify::new(),
            opening: Mutex::default(),
            is_open: AtomicBool::new(false),
        };
        ServerConnection { id, incoming, outgoing: Outgoing(Arc::new(shared)) }
    }
}

/// Input from a client.
#[derive(Debug)]
pub enum Incoming {
    /// One JSON object. Invalid messages have already been answered.
    Message(String),
    /// A client resumes the stream of a session after a cursor: a GET with `Last-Event-ID`.
    Resume(Box<ResumeRequest>),
    /// Another socket of the same client has taken the connection over. Lines with a cursor are discarded
    /// from the takeover until the gate is dropped. The next message must be `stream/resume`.
    Reconnected(Gate),
}

/// A request to resume a stream after a cursor. Boxed, because every connection has a queue of dozens of
/// [`Incoming`] values, most of which are smaller.
#[derive(Debug)]
pub struct ResumeRequest {
    /// Id of the session.
    pub session: String,
    /// Cursor of the last line that the client has received.
    pub cursor: String,
    /// Accepts or refuses the request.
    pub reply: ResumeReply,
}

/// Accepts or refuses a resume request.
pub struct ResumeReply {
    pub(super) shared: Arc<ServedConnection>,
    pub(super) session: Arc<str>,
    pub(super) answer: oneshot::Sender<Result<Reader, Refusal>>,
}

impl ResumeReply {
    /// Sends the decision. If accepted, queued lines of the stream that have a cursor are discarded and an
    /// older reader ends. If refused, nothing changes.
    pub fn send(self, decision: Result<(), Refusal>) {
        let ResumeReply { shared, session, answer } = self;
        let answered = decision.and_then(|()| shared.read(Some(&session), Claim::Over));
        // The client may have left in the meantime.
        let _ = answer.send(answered);
    }
}

impl fmt::Debug for ResumeReply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResumeReply").field("session", &self.session).finish_non_exhaustive()
    }
}

/// A line for a client.
#[derive(Debug)]
pub struct OutgoingLine {
    /// One JSON-RPC message.
    pub text: SharedText,
    /// Session whose stream carries the line. `None` means the connection's own stream. A WebSocket has one
    /// stream for all.
    pub stream: Option<Arc<str>>,
    /// Cursor of the line in its stream, from which a client can resume.
    pub cursor: Option<Arc<str>>,
    /// Dropped when the line has been written or discarded. Counts towards the send window.
    pub written: Option<Written>,
}

impl OutgoingLine {
    /// Creates a line on the connection's own stream, without a cursor.
    pub fn new(text: impl Into<SharedText>) -> Self {
        OutgoingLine { text: text.into(), stream: None, cursor: None, written: None }
    }

    fn cost(&self) -> usize {
        self.text.len() + LINE_COST
    }
}

/// Sends lines to a client.
#[derive(Clone)]
pub struct Outgoing(pub(super) Arc<ServedConnection>);

impl Outgoing {
    /// Queues a line without waiting. The caller limits the amount with a [`Flow`](super::Flow), the send
    /// window. If more than [`ServerLimits::waiting`] bytes are queued, the connection is closed with 1008.
    /// After the end, lines are discarded.
    pub fn send(&self, line: OutgoingLine) {
        self.0.send(line);
    }

    /// Ends the connection for good, after the queued lines are sent. The code is a WebSocket close code.
    pub fn close(&self, code: u16, reason: &str) {
        self.0.end(code, reason);
    }

    /// Returns true for streamable HTTP, where each session has its own stream and each message its own
    /// request.
    pub fn has_streams(&self) -> bool {
        self.0.carrier == Carrier::Events
    }

    /// Returns true if the connection has ended for good.
    pub fn is_closed(&self) -> bool {
        self.0.ending().is_some()
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Outgoing").field(&self.0.id).finish()
    }
}

/// Reason why a connection has ended.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    pub(super) code: u16,
    pub(super) reason: Arc<str>,
}

/// Transport of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// One stream for everything: a WebSocket or a pair of byte streams.
    Socket,
    /// Streamable HTTP, with one stream per session.
    Events,
}

/// State of a connection, shared by its readers, its requests and the program.
pub(super) struct ServedConnection {
    pub(super) id: Arc<str>,
    pub(super) carrier: Carrier,
    pub(super) limits: Arc<ServerLimits>,
    main: Arc<Mailbox>,
    sessions: Mutex<HashMap<Arc<str>, Arc<Mailbox>>>,
    /// Total cost of the lines in all mailboxes, in bytes.
    waiting: AtomicUsize,
    incoming: Mutex<Option<mpsc::Sender<Incoming>>>,
    ending: OnceLock<Ending>,
    usage: Mutex<Usage>,
    /// Notifies the task that supervises the connection that it has ended or has no users.
    pub(super) changed: Notify,
    /// Pending `initialize` request: its response is sent in the HTTP response.
    opening: Mutex<Option<Opening>>,
    /// True if the connection was handed to the program.
    is_open: AtomicBool,
}

/// Users of a connection: readers and requests.
struct Usage {
    /// Number of readers and requests.
    count: usize,
    /// Number of requests.
    requests: usize,
    /// Time when the last user left.
    since: Instant,
}

struct Opening {
    id: RequestId<'static>,
    answer: oneshot::Sender<SharedText>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServedConnection {
    pub(super) fn ending(&self) -> Option<&Ending> {
        self.ending.get()
    }

    /// Marks the connection as handed to the program.
    pub(super) fn set_open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed) && self.ending().is_none()
    }

    /// Returns the channel for the client's messages. `None` if the connection has ended or the program has
    /// dropped it.
    pub(super) fn incoming(&self) -> Option<mpsc::Sender<Incoming>> {
        locked(&self.incoming).clone().filter(|sender| !sender.is_closed())
    }

    /// Ends the connection for good.
    pub(super) fn end(&self, code: u16, reason: &str) {
        if self.ending.set(Ending { code, reason: reason.into() }).is_err() {
            return;
        }
        // Close the channel to the program first, then wake all readers: they see the end only after their
        // queued lines.
        locked(&self.incoming).take();
        locked(&self.opening).take();
        // Copy the list, so that the lock is not held while readers are woken.
        let mailboxes: Vec<Arc<Mailbox>> = locked(&self.sessions).values().map(Arc::clone).collect();
        for mailbox in mailboxes.iter().chain([&self.main]) {
            self.discard(mailbox.clear_unread());
            mailbox.wake();
        }
        self.changed.notify_one();
    }

    fn send(&self, line: OutgoingLine) {
        if self.ending().is_some() {
            return;
        }
        let Some(line) = self.answer_opening(line) else { return };
        let cost = line.cost();
        // Count before queueing: concurrent senders must not exceed the limit together.
        if self.waiting.fetch_add(cost, Ordering::Relaxed) + cost > self.limits.waiting {
            self.waiting.fetch_sub(cost, Ordering::Relaxed);
            self.end(1008, "too many unread bytes are queued; read faster");
            return;
        }
        let stream = if self.carrier == Carrier::Socket { None } else { line.stream.clone() };
        let discarded = match self.mailbox(stream.as_ref()) {
            Some(mailbox) => mailbox.push(line),
            None => {
                self.end(1008, "too many session streams; read them, or close sessions");
                Some(line)
            }
        };
        self.discard(discarded);
    }

    /// Releases lines that are not delivered.
    pub(super) fn discard(&self, lines: impl IntoIterator<Item = OutgoingLine>) {
        for line in lines {
            self.taken(&line);
        }
    }

    pub(super) fn taken(&self, line: &OutgoingLine) {
        self.waiting.fetch_sub(line.cost(), Ordering::Relaxed);
    }

    /// Returns the mailbox of a stream and creates it if needed. `None` if there are too many.
    fn mailbox(&self, stream: Option<&Arc<str>>) -> Option<Arc<Mailbox>> {
        let Some(session) = stream else { return Some(Arc::clone(&self.main)) };
        let mut sessions = locked(&self.sessions);
        if let Some(mailbox) = sessions.get(session) {
            return Some(Arc::clone(mailbox));
        }
        if sessions.len() >= self.limits.streams {
            // Empty streams without a reader cost nothing to recreate, so drop them before refusing a new
            // one.
            sessions.retain(|_, mailbox| !mailbox.is_idle());
        }
        if sessions.len() >= self.limits.streams {
            return None;
        }
        let mailbox = Arc::<Mailbox>::default();
        sessions.insert(Arc::clone(session), Arc::clone(&mailbox));
        Some(mailbox)
    }

    /// Starts to read a stream.
    pub(super) fn read(self: &Arc<Self>, stream: Option<&Arc<str>>, claim: Claim) -> Result<Reader, Refusal> {
        let mailbox = self.mailbox(stream).ok_or_else(|| {
            Refusal::new(
                http::StatusCode::TOO_MANY_REQUESTS,
                "too many streams are open on this connection; close some",
            )
        })?;
        Reader::new(self, mailbox, claim).ok_or_else(|| {
            Refusal::new(
                http::StatusCode::CONFLICT,
                "this stream already has a reader; send Last-Event-ID to take it over",
            )
        })
    }

    /// Takes the connection over for another socket.
    pub(super) fn take_over(self: &Arc<Self>) -> (Option<Reader>, Gate) {
        // Close the gate before the new reader starts, so that no line of the old cursor reaches it.
        let gate = Gate::new(&self.main);
        (Reader::new(self, Arc::clone(&self.main), Claim::Over), gate)
    }

    /// Registers a reader or request.
    pub(super) fn enter(&self) {
        locked(&self.usage).count += 1;
    }

    /// Unregisters a request.
    pub(super) fn leave(&self) {
        let mut usage = locked(&self.usage);
        usage.count -= 1;
        if usage.count == 0 {
            usage.since = Instant::now();
            drop(usage);
            self.changed.notify_one();
        }
    }

    /// Unregisters a reader.
    pub(super) fn left(&self, mailbox: &Arc<Mailbox>) {
        if self.ending().is_some() {
            self.discard(mailbox.clear_unread());
        }
        self.leave();
    }

    /// Returns the time since when the connection has no users. `None` if it has any.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        let usage = locked(&self.usage);
        (usage.count == 0).then_some(usage.since)
    }

    /// Returns a receiver for the response to `initialize`.
    pub(super) fn expect_opening(&self, id: RequestId<'static>) -> oneshot::Receiver<SharedText> {
        let (answer, answered) = oneshot::channel();
        *locked(&self.opening) = Some(Opening { id, answer });
        answered
    }

    /// Consumes the response to `initialize`. Returns any other line.
    fn answer_opening(&self, line: OutgoingLine) -> Option<OutgoingLine> {
        let mut opening = locked(&self.opening);
        let is_answer = opening.as_ref().is_some_and(
            |opening| matches!(Outline::of(&line.text), Some(Outline::Response { id }) if id == opening.id),
        );
        if !is_answer {
            return Some(line);
        }
        let OutgoingLine { text, stream: _, cursor: _, written: _ } = line;
        if let Some(Opening { id: _, answer }) = opening.take() {
            // The request may have been dropped.
            let _ = answer.send(text);
        }
        None
    }
}

impl fmt::Debug for ServedConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServedConnection").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A request of a client. The connection is not idle while it exists.
pub(super) struct ActiveRequest(pub(super) Arc<ServedConnection>);

impl ActiveRequest {
    /// Registers a request. Returns `None` if there are too many.
    pub(super) fn new(shared: Arc<ServedConnection>) -> Option<Self> {
        let mut usage = locked(&shared.usage);
        if usage.requests >= shared.limits.posts {
            return None;
        }
        usage.count += 1;
        usage.requests += 1;
        drop(usage);
        Some(ActiveRequest(shared))
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        locked(&self.0.usage).requests -= 1;
        self.0.leave();
    }
}
