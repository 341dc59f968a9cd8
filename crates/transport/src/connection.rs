//! A connection: two halves over one pair of streams.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use switchboard_acp::rpc::{RequestId, codes};
use switchboard_acp::{Wire, WireFormat};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OnceCell, oneshot, watch};
use tokio::time::Instant;

use crate::call::{Answer, Deadline, PendingCall};
use crate::process::{Child, Spawned};
use crate::text::on_one_line;
use crate::{
    Closure, ClosureCause, DEFAULT_MESSAGE_LIMIT, Error, Inbox, Json, LineReader, Outbox, OutboxOptions,
    RequestTable, SharedText, Tap,
};

/// Predicate for the methods that this side supports.
#[derive(Clone)]
pub struct KnownMethods(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl fmt::Debug for KnownMethods {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KnownMethods")
    }
}

/// Limits of a connection.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// Maximum message length in bytes. Default: 32 MiB.
    pub message_limit: usize,
    /// Queue size and timeouts for writing.
    pub outbox: OutboxOptions,
    /// Default time limit of a call. `None` means no limit. Default: 120 seconds.
    pub deadline: Option<Duration>,
    /// Time to wait for the response of a cancelled call. Default: 10 seconds.
    pub cancel_grace: Duration,
    /// Maximum number of pending calls. Default: 4096.
    pub call_limit: usize,
    /// Maximum number of pending requests of the peer. Further requests are refused. Default: 4096.
    pub request_limit: usize,
    /// Maximum number of entries in a batch. Default: 1024.
    pub batch_limit: usize,
    /// If true, invalid lines, including arrays, are answered with
    /// [`invalid_line_answer`](crate::invalid_line_answer), as an agent does. If false, such lines are
    /// treated as other output of the program and arrays as batches, as a client does whose agent may be of
    /// any kind. Default: `false`.
    pub refuses_invalid_lines: bool,
    /// Methods that become events, see [`ConnectionOptions::knows`]. `None` means all.
    pub known: Option<KnownMethods>,
    /// Observer of all messages, if any.
    pub tap: Option<Tap>,
    #[doc(hidden)]
    pub more: switchboard_acp::More,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        ConnectionOptions {
            message_limit: DEFAULT_MESSAGE_LIMIT,
            outbox: OutboxOptions::default(),
            deadline: Some(Duration::from_secs(120)),
            cancel_grace: Duration::from_secs(10),
            call_limit: 4096,
            request_limit: 4096,
            batch_limit: 1024,
            refuses_invalid_lines: false,
            known: None,
            tap: None,
            more: switchboard_acp::More,
        }
    }
}

impl ConnectionOptions {
    /// Sets the methods that this side supports. Requests for other methods are answered with "method not
    /// found", other notifications are dropped; both are reported as anomalies. By default all methods become
    /// events.
    #[must_use]
    pub fn knows(mut self, known: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.known = Some(KnownMethods(Arc::new(known)));
        self
    }

    pub(crate) fn is_known(&self, method: &str) -> bool {
        self.known.as_ref().is_none_or(|known| known.0(method))
    }
}

/// The two halves of a connection.
#[derive(Debug)]
pub struct Connection {
    /// Makes calls.
    pub caller: Caller,
    /// Receives the peer's messages and drives the connection: responses reach their calls only while the
    /// inbox is polled.
    pub inbox: Inbox,
}

impl Connection {
    /// Creates a connection over two streams. Must be called inside a tokio runtime.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        options: ConnectionOptions,
    ) -> Self {
        // The tap sees sent messages in the outbox, where their final order is decided.
        let tap = options.tap.clone();
        let outbox = Outbox::with_tap(writer, std::future::pending(), options.outbox.clone(), tap);
        Self::over(reader, outbox, options, None)
    }

    /// Creates two connections that are linked in memory.
    pub fn pair(one: ConnectionOptions, other: ConnectionOptions) -> (Self, Self) {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let connect = |stream, options| {
            let (reader, writer) = tokio::io::split(stream);
            Self::new(reader, writer, options)
        };
        (connect(near, one), connect(far, other))
    }

    /// Creates a connection to a child process.
    pub(crate) fn to_process(spawned: Spawned, options: ConnectionOptions) -> Self {
        let Spawned { child, input, output } = spawned;
        let closed = input.closed_by_child();
        let outbox = Outbox::with_tap(input, closed, options.outbox.clone(), options.tap.clone());
        Self::over(output, outbox, options, Some(child))
    }

    fn over(
        reader: impl AsyncRead + Send + Unpin + 'static,
        outbox: Outbox,
        options: ConnectionOptions,
        process: Option<Child>,
    ) -> Self {
        let lines = LineReader::new(Box::new(reader) as Box<_>, options.message_limit);
        // Closing the input is the first step of ending the process, so the process must know the outbox.
        if let Some(process) = &process {
            process.attach_input(outbox.closer());
        }
        let shared = Arc::new(ConnectionInner {
            outbox,
            state: Mutex::new(ConnectionState {
                requests: RequestTable::new(options.call_limit, options.request_limit),
                closed: None,
            }),
            closure: OnceCell::new(),
            process,
            options,
        });
        Connection { caller: Caller { shared: Arc::clone(&shared) }, inbox: Inbox::new(lines, shared) }
    }
}

/// State shared by the halves of a connection, its calls and its pending requests.
#[derive(Debug)]
pub(crate) struct ConnectionInner {
    pub(crate) outbox: Outbox,
    state: Mutex<ConnectionState>,
    closure: OnceCell<Arc<Closure>>,
    /// The peer's process, if this process started it.
    process: Option<Child>,
    pub(crate) options: ConnectionOptions,
}

#[derive(Debug)]
pub(crate) struct ConnectionState {
    pub(crate) requests: RequestTable<Waiter, watch::Sender<bool>>,
    /// Set when no more responses can arrive.
    closed: Option<Arc<Closure>>,
}

/// A call that waits for its response.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) method: String,
    pub(crate) answer: oneshot::Sender<Result<Answer, Error>>,
}

impl ConnectionInner {
    pub(crate) fn state(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason why the connection is closed. The first caller collects the state of the process;
    /// others reuse it.
    pub(crate) async fn closure(&self, cause: ClosureCause) -> Arc<Closure> {
        let describe = async || {
            let process = match &self.process {
                Some(child) => Some(child.describe_end().await),
                None => None,
            };
            Arc::new(Closure { cause, process })
        };
        Arc::clone(self.closure.get_or_init(describe).await)
    }

    /// Fails all pending and future calls.
    pub(crate) fn close_calls(&self, closure: &Arc<Closure>) {
        let mut state = self.state();
        // Under the lock, so that no call can be registered between this and the drain.
        state.closed.get_or_insert_with(|| Arc::clone(closure));
        for waiter in state.requests.outgoing.drain() {
            // The receiver may have been dropped.
            let _ = waiter.answer.send(Err(Error::Closed(Arc::clone(closure))));
        }
    }

    /// Fails all calls without waiting for the state of the process.
    pub(crate) fn close_calls_here(&self) {
        let known = self.closure.get().cloned();
        let closure =
            known.unwrap_or_else(|| Arc::new(Closure { cause: ClosureCause::ClosedHere, process: None }));
        self.close_calls(&closure);
    }

    pub(crate) async fn send(&self, line: &str) -> Result<u64, Error> {
        match self.outbox.queue(line).await {
            Ok(position) => Ok(position),
            Err(cause) => Err(Error::Closed(self.closure(cause).await)),
        }
    }
}

/// Makes calls to the peer. Clones use the same connection. It ends when all of them, the inbox, and all
/// pending calls and requests are dropped.
#[derive(Debug, Clone)]
pub struct Caller {
    shared: Arc<ConnectionInner>,
}

impl Caller {
    /// Calls a method and waits for the response within the default time limit. The inbox must be driven
    /// meanwhile.
    pub async fn call(&self, method: &str, params: impl Into<Json<'_>>) -> Result<Answer, Error> {
        self.begin(method, params, Deadline::Default).await?.answer().await
    }

    /// Sends a request and returns a pending call, which can be awaited or cancelled. The time limit starts
    /// here, so that it also covers a peer that does not read.
    pub async fn begin(
        &self,
        method: &str,
        params: impl Into<Json<'_>>,
        deadline: Deadline,
    ) -> Result<PendingCall, Error> {
        self.begin_noting(method, params, deadline, |_| {}).await
    }

    /// Like [`Caller::begin`], but passes the request id to `note` before the request is sent, so before any
    /// response can arrive.
    pub async fn begin_noting(
        &self,
        method: &str,
        params: impl Into<Json<'_>>,
        deadline: Deadline,
        note: impl FnOnce(&RequestId<'static>),
    ) -> Result<PendingCall, Error> {
        let allowed = match deadline {
            Deadline::Default => self.shared.options.deadline,
            Deadline::After(time) => Some(time),
            Deadline::Never => None,
        };
        let (answer, receiver) = oneshot::channel();
        // Register the call before sending it: the response may arrive before `send` returns.
        let id = {
            let mut state = self.shared.state();
            if let Some(closure) = &state.closed {
                return Err(Error::Closed(Arc::clone(closure)));
            }
            let limit = self.shared.options.call_limit;
            let waiter = Waiter { method: method.to_owned(), answer };
            // The check for a closed connection and the registration use one lock.
            let begun = state.requests.outgoing.begin(waiter);
            begun.map_err(|waiter| Error::TooManyCalls { method: waiter.method, limit })?
        };
        let line = request_line(&id, method, params.into().as_str());
        note(&id);
        let mut call = PendingCall::new(Arc::clone(&self.shared), id, method, receiver, allowed);
        // The time limit covers queueing too: a peer that does not read must not block a call forever.
        match allowed {
            Some(allowed) => match tokio::time::timeout(allowed, self.shared.send(&line)).await {
                Ok(sent) => call.sent(sent?),
                Err(_) => return Err(Error::DeadlinePassed { method: method.to_owned(), after: allowed }),
            },
            None => call.sent(self.shared.send(&line).await?),
        }
        Ok(call)
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: impl Into<Json<'_>>) -> Result<(), Error> {
        self.shared.send(&notification_line(method, params.into().as_str())).await.map(drop)
    }

    /// Sends a complete message unchanged.
    pub async fn forward(&self, line: &SharedText) -> Result<(), Error> {
        self.shared.send(&on_one_line(Cow::Borrowed(line))).await.map(drop)
    }

    /// Waits until everything sent so far is written.
    pub async fn flush(&self) -> Result<(), Error> {
        match self.shared.outbox.flush().await {
            Ok(()) => Ok(()),
            Err(cause) => Err(Error::Closed(self.shared.closure(cause).await)),
        }
    }

    /// Writes queued messages and closes the stream to the peer. The peer's messages can still be read.
    pub async fn close(&self) {
        self.shared.outbox.close().await;
    }
}

/// Time limit of a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) at: Instant,
    pub(crate) after: Duration,
}

pub(crate) fn request_line(id: &RequestId<'_>, method: &str, params: &str) -> String {
    let mut line = String::with_capacity(params.len() + method.len() + 64);
    line.push_str(r#"{"jsonrpc":"2.0","id":"#);
    id.encode_into(&mut line, WireFormat::Any);
    push_call(&mut line, ',', method, params);
    line
}

pub(crate) fn notification_line(method: &str, params: &str) -> String {
    let mut line = String::with_capacity(params.len() + method.len() + 48);
    line.push_str(r#"{"jsonrpc":"2.0""#);
    push_call(&mut line, ',', method, params);
    line
}

fn push_call(line: &mut String, separator: char, method: &str, params: &str) {
    line.push(separator);
    line.push_str(r#""method":"#);
    Cow::Borrowed(method).encode_into(line, WireFormat::Any);
    line.push_str(r#","params":"#);
    line.push_str(params);
    line.push('}');
}

pub(crate) fn result_line(id: &RequestId<'_>, result: &str) -> String {
    let mut line = String::with_capacity(result.len() + 48);
    line.push_str(r#"{"jsonrpc":"2.0","id":"#);
    id.encode_into(&mut line, WireFormat::Any);
    line.push_str(r#","result":"#);
    line.push_str(result);
    line.push('}');
    line
}

pub(crate) fn error_line(id: &RequestId<'_>, error: &switchboard_acp::rpc::RpcError<'_>) -> String {
    let mut line = String::from(r#"{"jsonrpc":"2.0","id":"#);
    id.encode_into(&mut line, WireFormat::Any);
    line.push_str(r#","error":"#);
    line.push_str(&on_one_line(Cow::Owned(error.encode(WireFormat::Any))));
    line.push('}');
    line
}

pub(crate) fn cancel_line(id: &RequestId<'_>) -> String {
    let params = format!(r#"{{"requestId":{}}}"#, id.encode(WireFormat::Any));
    notification_line(CANCEL_REQUEST, &params)
}

pub(crate) const CANCEL_REQUEST: &str = "$/cancel_request";

pub(crate) fn failure(code: i32, message: impl Into<String>) -> switchboard_acp::rpc::RpcError<'static> {
    switchboard_acp::rpc::RpcError::new(code, message.into())
}

pub(crate) fn method_not_found(method: &str) -> switchboard_acp::rpc::RpcError<'static> {
    failure(codes::METHOD_NOT_FOUND, format!("method not found: {method}"))
}
