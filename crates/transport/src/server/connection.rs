//! A connection as the program sees it, whatever carries it: messages come in, lines go out on named streams.

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

/// How many messages may wait for the program.
const INCOMING: usize = 8;

/// What a line costs beside its text.
const LINE_COST: usize = size_of::<OutgoingLine>();

/// A client's connection.
#[derive(Debug)]
pub struct ServerConnection {
    /// What client and server call it: `Acp-Connection-Id`, 128 random bits.
    pub id: Arc<str>,
    /// What comes from the client. It ends when the connection is gone for good: the client has left, or did not come
    /// back in time, or broke a limit. Dropping it ends the connection.
    pub incoming: mpsc::Receiver<Incoming>,
    /// Where lines for the client go.
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
            presence: Mutex::new(Presence { count: 0, requests: 0, since: Instant::now() }),
            changed: Notify::new(),
            opening: Mutex::default(),
            is_open: AtomicBool::new(false),
        };
        ServerConnection { id, incoming, outgoing: Outgoing(Arc::new(shared)) }
    }
}

/// What comes from a client.
#[derive(Debug)]
pub enum Incoming {
    /// One JSON object. What is none has been answered already.
    Message(String),
    /// A client wants the stream of a session from a place on: a GET with `Last-Event-ID`.
    Resume(Box<ResumeRequest>),
    /// Another socket of the same client has taken the connection over. Lines with a cursor are discarded from the
    /// takeover until the gate is dropped. The next message must be `stream/resume`.
    Reconnected(Gate),
}

/// A client wants a stream from a place on. Each connection has room for some dozens of what may come, and most of it is
/// smaller than this.
#[derive(Debug)]
pub struct ResumeRequest {
    /// The session.
    pub session: String,
    /// The last that the client has seen.
    pub cursor: String,
    /// Decides.
    pub reply: ResumeReply,
}

/// Decides whether a stream is taken up again.
pub struct ResumeReply {
    pub(super) shared: Arc<ServedConnection>,
    pub(super) session: Arc<str>,
    pub(super) answer: oneshot::Sender<Result<Reader, Refusal>>,
}

impl ResumeReply {
    /// Decides. Where it is taken up, lines of the stream that wait and carry a cursor are discarded at this moment, and
    /// an older reader ends; where it is not, nothing changes.
    pub fn send(self, decision: Result<(), Refusal>) {
        let ResumeReply { shared, session, answer } = self;
        let answered = decision.and_then(|()| shared.read(Some(&session), Claim::Over));
        // A client that has left meanwhile does not hear of it.
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
    /// The session on whose stream it goes; `None` is the connection's own. A WebSocket has one stream for all.
    pub stream: Option<Arc<str>>,
    /// The place of the line in its stream, from which a client can go on.
    pub cursor: Option<Arc<str>>,
    /// Dropped when the line has been written or discarded.
    pub written: Option<Written>,
}

impl OutgoingLine {
    /// A line on the connection's own stream, without a cursor.
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
    /// Sends a line, without waiting: by a [`Flow`](super::Flow) the caller sees to it that not too much waits. A client
    /// for which more waits than [`ServerLimits::waiting`] is closed with 1008. After the end lines are discarded.
    pub fn send(&self, line: OutgoingLine) {
        self.0.send(line);
    }

    /// Ends the connection for good, after what waits has been sent. The code is that of a WebSocket.
    pub fn close(&self, code: u16, reason: &str) {
        self.0.end(code, reason);
    }

    /// Whether each session has a stream of its own, and each message a request: streamable HTTP.
    pub fn has_streams(&self) -> bool {
        self.0.carrier == Carrier::Events
    }

    /// Whether the connection is gone for good.
    pub fn is_closed(&self) -> bool {
        self.0.ending().is_some()
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Outgoing").field(&self.0.id).finish()
    }
}

/// Why a connection is gone for good.
#[derive(Debug, Clone)]
pub(super) struct Ending {
    pub(super) code: u16,
    pub(super) reason: Arc<str>,
}

/// What carries a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// One stream for everything: a WebSocket, or a pair of byte streams.
    Socket,
    /// Streamable HTTP, with a stream a session.
    Events,
}

/// The state of a connection, which its readers, its requests and the program share.
pub(super) struct ServedConnection {
    pub(super) id: Arc<str>,
    pub(super) carrier: Carrier,
    pub(super) limits: Arc<ServerLimits>,
    main: Arc<Mailbox>,
    sessions: Mutex<HashMap<Arc<str>, Arc<Mailbox>>>,
    /// How much waits in all mailboxes.
    waiting: AtomicUsize,
    incoming: Mutex<Option<mpsc::Sender<Incoming>>>,
    ending: OnceLock<Ending>,
    presence: Mutex<Presence>,
    /// Tells whoever keeps the connection that it has ended, or that nobody is there.
    pub(super) changed: Notify,
    /// The answer to `initialize` goes to the request that brought it.
    opening: Mutex<Option<Opening>>,
    /// Whether the program has it.
    is_open: AtomicBool,
}

/// Whether the client is there.
struct Presence {
    /// How many readers and requests it has.
    count: usize,
    /// How many of them are requests.
    requests: usize,
    /// When the last of them left.
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

    /// The program has it now.
    pub(super) fn set_open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed) && self.ending().is_none()
    }

    /// Where messages of the client go; `None` when the connection is gone, or the program does not want any more.
    pub(super) fn incoming(&self) -> Option<mpsc::Sender<Incoming>> {
        locked(&self.incoming).clone().filter(|sender| !sender.is_closed())
    }

    /// Ends the connection for good.
    pub(super) fn end(&self, code: u16, reason: &str) {
        if self.ending.set(Ending { code, reason: reason.into() }).is_err() {
            return;
        }
        locked(&self.incoming).take();
        locked(&self.opening).take();
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
        if self.waiting.fetch_add(cost, Ordering::Relaxed) + cost > self.limits.waiting {
            self.waiting.fetch_sub(cost, Ordering::Relaxed);
            self.end(1008, "more waits for you than may; read faster");
            return;
        }
        let stream = if self.carrier == Carrier::Socket { None } else { line.stream.clone() };
        let discarded = match self.mailbox(stream.as_ref()) {
            Some(mailbox) => mailbox.push(line),
            None => {
                self.end(1008, "there are more streams than may be; read them, or close sessions");
                Some(line)
            }
        };
        self.discard(discarded);
    }

    /// Accounts for lines that nobody will see.
    pub(super) fn discard(&self, lines: impl IntoIterator<Item = OutgoingLine>) {
        for line in lines {
            self.taken(&line);
        }
    }

    pub(super) fn taken(&self, line: &OutgoingLine) {
        self.waiting.fetch_sub(line.cost(), Ordering::Relaxed);
    }

    /// The mailbox of a stream, made where there is none. `None`: there are too many.
    fn mailbox(&self, stream: Option<&Arc<str>>) -> Option<Arc<Mailbox>> {
        let Some(session) = stream else { return Some(Arc::clone(&self.main)) };
        let mut sessions = locked(&self.sessions);
        if let Some(mailbox) = sessions.get(session) {
            return Some(Arc::clone(mailbox));
        }
        if sessions.len() >= self.limits.streams {
            sessions.retain(|_, mailbox| !mailbox.is_idle());
        }
        if sessions.len() >= self.limits.streams {
            return None;
        }
        let mailbox = Arc::<Mailbox>::default();
        sessions.insert(Arc::clone(session), Arc::clone(&mailbox));
        Some(mailbox)
    }

    /// Begins to read a stream.
    pub(super) fn read(self: &Arc<Self>, stream: Option<&Arc<str>>, claim: Claim) -> Result<Reader, Refusal> {
        let mailbox = self.mailbox(stream).ok_or_else(|| {
            Refusal::new(
                http::StatusCode::TOO_MANY_REQUESTS,
                "too many streams of this connection are open; close some",
            )
        })?;
        Reader::new(self, mailbox, claim).ok_or_else(|| {
            Refusal::new(
                http::StatusCode::CONFLICT,
                "this stream has a reader already; with Last-Event-ID it would be taken over",
            )
        })
    }

    /// Another socket takes the connection over.
    pub(super) fn take_over(self: &Arc<Self>) -> (Option<Reader>, Gate) {
        let gate = Gate::new(&self.main);
        (Reader::new(self, Arc::clone(&self.main), Claim::Over), gate)
    }

    /// A reader or a request has come.
    pub(super) fn enter(&self) {
        locked(&self.presence).count += 1;
    }

    /// A request has been answered.
    pub(super) fn leave(&self) {
        let mut presence = locked(&self.presence);
        presence.count -= 1;
        if presence.count == 0 {
            presence.since = Instant::now();
            drop(presence);
            self.changed.notify_one();
        }
    }

    /// A reader has gone.
    pub(super) fn left(&self, mailbox: &Arc<Mailbox>) {
        if self.ending().is_some() {
            self.discard(mailbox.clear_unread());
        }
        self.leave();
    }

    /// Since when nobody has been there.
    pub(super) fn absent_since(&self) -> Option<Instant> {
        let presence = locked(&self.presence);
        (presence.count == 0).then_some(presence.since)
    }

    /// Where the answer to `initialize` will come.
    pub(super) fn expect_opening(&self, id: RequestId<'static>) -> oneshot::Receiver<SharedText> {
        let (answer, answered) = oneshot::channel();
        *locked(&self.opening) = Some(Opening { id, answer });
        answered
    }

    /// Gives back every line that is not the answer to `initialize`.
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
            // Whoever asked may have left.
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

/// A request of a client, for which its connection is not idle while it lasts.
pub(super) struct Visit(pub(super) Arc<ServedConnection>);

impl Visit {
    /// `None`: there are too many at once.
    pub(super) fn new(shared: Arc<ServedConnection>) -> Option<Self> {
        let mut presence = locked(&shared.presence);
        if presence.requests >= shared.limits.posts {
            return None;
        }
        presence.count += 1;
        presence.requests += 1;
        drop(presence);
        Some(Visit(shared))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        locked(&self.0.presence).requests -= 1;
        self.0.leave();
    }
}
