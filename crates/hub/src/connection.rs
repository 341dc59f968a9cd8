//! Task of one client connection: version 2 towards the hub, the client's own version towards the client. Reports
//! acknowledged bytes to the hub, which is the flow control for slow clients.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use switchboard_acp::detect::Handshake;
use switchboard_acp::extensions::TRANSPORT;
use switchboard_acp::rpc::{Message, Request, RequestId, codes};
use switchboard_acp::{Correlator, Raw, Wire, WireFormat};
use switchboard_bridge::{BridgeOptions, Driver, Handled, Host, Loss, Outputs, Port, Side, Version};
use switchboard_transport::server::{
    Flow, Gate, Incoming, Outgoing, OutgoingLine, Refusal, ResumeReply, ResumeRequest, ServerConnection,
    Written, close_codes,
};
use switchboard_transport::{Program, SharedText, unique_salt};
use tokio::sync::{Notify, mpsc};

use crate::core::lines::{self, Outcome};
use crate::core::{ConnectionId, RESUMABLE, ResumeError, SessionId, ToClient};
use crate::replay_buffer::{BufferedLine, ReplayBuffer};
use crate::service::Event;

/// Resolves commands of version 1 clients on this machine, where the agents run.
struct ProgramsHere;

impl Host for ProgramsHere {
    fn find_program(&mut self, name: &str) -> Option<String> {
        Program::new(name).locate().ok()?.into_os_string().into_string().ok()
    }
}

/// Maximum number of lines from the hub that are handled before messages of the client.
const TURN: usize = 64;
/// Maximum number of prompts of an HTTP client that are remembered to recognize duplicates.
const PROMPTS: usize = 256;
/// Maximum number of pending requests whose stream is remembered.
const REQUESTS: usize = 4096;

/// Input of a connection task from the hub.
#[derive(Debug)]
pub(crate) enum ConnectionInput {
    Line(ToClient),
    Close {
        code: u16,
        reason: String,
    },
    /// Stops sending in all sessions until the client has sent its cursors.
    Paused,
    /// Decision on resuming a stream. Later lines belong to the resumed stream, earlier ones do not.
    ResumeDecided(Result<(), ResumeError>),
}

/// Runs a client connection until it is closed.
pub(crate) async fn run(
    id: ConnectionId,
    connection: ServerConnection,
    lines: mpsc::UnboundedReceiver<ConnectionInput>,
    events: mpsc::Sender<Event>,
    send_window: usize,
) {
    let ServerConnection { id: _, incoming, outgoing } = connection;
    let client = Client {
        id,
        outgoing,
        events: events.clone(),
        driver: None,
        knows_version: false,
        is_translated: false,
        acked: Arc::new(Notify::new()),
        windows: HashMap::new(),
        send_window: send_window as u64,
        gate: None,
        resuming: None,
        for_hub: Vec::new(),
        translated: Vec::new(),
        losses: Vec::new(),
        unsent: Vec::new(),
        streams: Correlator::new(REQUESTS),
        cursors: HashMap::new(),
        replay_buffer: ReplayBuffer::default(),
        prompts: VecDeque::new(),
    };
    client.run(incoming, lines).await;
    // The receiver exists until every task has ended.
    let _ = events.send(Event::Disconnected { connection: id }).await;
}

/// State of a connection task.
struct Client {
    id: ConnectionId,
    outgoing: Outgoing,
    events: mpsc::Sender<Event>,
    /// Translator for a version 1 client.
    driver: Option<Box<Driver>>,
    knows_version: bool,
    /// True if the hub knows that the client speaks version 1.
    is_translated: bool,
    /// Notified when the client has acknowledged bytes.
    acked: Arc<Notify>,
    windows: HashMap<SessionId, SessionWindow>,
    send_window: u64,
    gate: Option<Gate>,
    /// A stream that waits for the hub's decision on resuming it.
    resuming: Option<(String, ResumeReply)>,
    /// Lines of the bridge for the hub.
    for_hub: Vec<String>,
    /// Lines of the bridge for the client.
    translated: Vec<SharedText>,
    /// Losses of the translation, for the session's log.
    losses: Vec<Loss>,
    /// Lines that are sent to the client after the hub has received the losses.
    unsent: Vec<OutgoingLine>,
    /// Sessions of the pending requests of a version 1 client.
    streams: Correlator<Arc<str>>,
    /// The last cursor that a version 1 client received, by session.
    cursors: HashMap<SessionId, Arc<str>>,
    /// The last lines sent to a version 1 client, for resuming.
    replay_buffer: ReplayBuffer,
    /// The last prompts over HTTP with their responses. The request id is the idempotency key.
    prompts: VecDeque<(RequestId<'static>, Option<Answered>)>,
}

/// The response to a prompt and the stream it was sent on.
type Answered = (SharedText, Option<Arc<str>>);

/// Flow control of one session: bytes sent and bytes reported to the hub as acknowledged.
struct SessionWindow {
    flow: Flow,
    sent: u64,
    reported: u64,
}

/// The hub has ended.
struct Gone;

impl Client {
    async fn run(
        mut self,
        mut incoming: mpsc::Receiver<Incoming>,
        mut lines: mpsc::UnboundedReceiver<ConnectionInput>,
    ) {
        loop {
            let due = self.driver.as_ref().and_then(|driver| driver.next_deadline());
            let acked = Arc::clone(&self.acked);
            tokio::select! {
                message = incoming.recv() => match message {
                    Some(message) => {
                        if self.incoming(message).await.is_err() {
                            return;
                        }
                    }
                    None => return,
                },
                line = lines.recv() => {
                    let Some(line) = line else { return };
                    if self.outgoing(line) {
                        return;
                    }
                    for _ in 0..TURN {
                        let Ok(line) = lines.try_recv() else { break };
                        if self.outgoing(line) {
                            return;
                        }
                    }
                    if self.flush().await.is_err() {
                        return;
                    }
                }
                () = acked.notified() => {
                    if self.report_acks().await.is_err() {
                        return;
                    }
                }
                () = until(due) => {
                    let outputs = self.driver.as_mut().map(|driver| driver.tick());
                    let _ = self.deliver(outputs);
                    self.send_translated(None, true);
                    if self.flush().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    // ----- from the client

    async fn incoming(&mut self, message: Incoming) -> Result<(), Gone> {
        match message {
            Incoming::Message(text) => self.message(text).await,
            Incoming::Resume(request) => {
                let ResumeRequest { session, cursor, reply } = *request;
                if self.driver.is_some() {
                    match self.replay_buffer.after(&session, &cursor) {
                        Some(lines) => {
                            reply.send(Ok(()));
                            self.resend(lines);
                        }
                        None if self.cursors.contains_key(&*session) => {
                            let message =
                                "this version 1 client cannot resume at that cursor; use session/load";
                            reply.send(Err(Refusal::new(http::StatusCode::CONFLICT, message)));
                        }
                        // The client received that cursor on another connection.
                        None => return self.resume_from_log(session, cursor, reply).await,
                    }
                    return Ok(());
                }
                self.resume_from_log(session, cursor, reply).await
            }
            Incoming::Reconnected(gate) => {
                self.gate = Some(gate);
                if self.driver.is_some() {
                    return Ok(());
                }
                self.emit(Event::Reconnected { connection: self.id }).await
            }
        }
    }

    /// Asks the hub to resume a session from its log, after a cursor.
    async fn resume_from_log(
        &mut self,
        session: String,
        cursor: String,
        reply: ResumeReply,
    ) -> Result<(), Gone> {
        if let Some((_, earlier)) = self.resuming.replace((session.clone(), reply)) {
            let message = "superseded by another request for the same stream";
            earlier.send(Err(Refusal::new(http::StatusCode::CONFLICT, message)));
        }
        let outputs = self.driver.as_mut().map(|driver| driver.reopen(&session));
        let _ = self.deliver(outputs);
        self.send_translated(None, true);
        self.flush().await?;
        self.emit(Event::Resume { connection: self.id, session, cursor }).await
    }

    async fn emit(&mut self, event: Event) -> Result<(), Gone> {
        self.events.send(event).await.map_err(|_| Gone)
    }

    async fn message(&mut self, text: String) -> Result<(), Gone> {
        // The core decodes the messages of a version 2 client.
        if self.knows_version && self.driver.is_none() {
            return self.emit(Event::Message { connection: self.id, text: text.into() }).await;
        }
        // Once for all steps below. The translator reports a message that cannot be decoded.
        let message = Message::decode(&text, WireFormat::Any).ok();
        if !self.knows_version && !self.detect_version(message.as_ref()) {
            return Ok(());
        }
        if self.driver.is_none() {
            return self.emit(Event::Message { connection: self.id, text: text.into() }).await;
        }
        if !std::mem::replace(&mut self.is_translated, true) {
            self.emit(Event::Translated { connection: self.id }).await?;
        }
        if let Some(gate) = self.gate.take() {
            self.resume_streams(message, gate);
            return Ok(());
        }
        if let Some(Message::Response(response)) = &message {
            self.replay_buffer.answered(&response.id);
        }
        if let Some(Message::Request(request)) = &message
            && self.outgoing.has_streams()
            && self.is_duplicate(request)
        {
            return Ok(());
        }
        if let Some(Message::Request(request)) = &message
            && !matches!(&*request.method, "session/load" | "session/resume" | "session/new" | "session/fork")
            && let Some(session) = lines::text_of(request.params.as_ref(), "sessionId")
        {
            // Without an entry, the response is sent on the stream of the connection.
            drop(self.streams.open(Side::Client, &request.id, (*session).into()));
        }
        let outputs = self.driver.as_mut().map(|driver| driver.receive(Side::Client, &text));
        let handled = self.deliver(outputs);
        self.send_translated(None, true);
        self.flush().await?;
        if handled == Handled::Forward {
            self.emit(Event::Message { connection: self.id, text: text.into() }).await?;
        }
        Ok(())
    }

    /// Returns whether a message is a duplicate of an earlier prompt, by its idempotency key. If the response is known,
    /// it is sent again.
    fn is_duplicate(&mut self, request: &Request<'_>) -> bool {
        if request.method != "session/prompt" {
            return false;
        }
        let id = request.id.clone().into_owned();
        match self.prompts.iter().find(|(known, _)| *known == id) {
            Some((_, Some((text, stream)))) => {
                let (text, stream) = (text.clone(), stream.clone());
                self.outgoing.send(OutgoingLine { text, stream, cursor: None, written: None });
                true
            }
            Some((_, None)) => true,
            None => {
                if self.prompts.len() >= PROMPTS {
                    self.prompts.pop_front();
                }
                self.prompts.push_back((id, None));
                false
            }
        }
    }

    /// Detects the protocol version of the client. Returns whether it is supported.
    fn detect_version(&mut self, message: Option<&Message<'_>>) -> bool {
        let Some(Message::Request(request)) = message else { return false };
        let Handshake { version, number, .. } = Handshake::of_request(request.params.as_ref());
        if number.is_none_or(|number| number == 0) {
            let data = serde_json::json!({"requested": number, "supported": [1, 2]});
            let message = "at /params/protocolVersion: unsupported version; this hub supports 1 and 2";
            let error = Outcome::error(codes::UNSUPPORTED_PROTOCOL_VERSION, message, Some(data));
            self.outgoing.send(OutgoingLine::new(lines::answer(&request.id, &error)));
            return false;
        }
        self.knows_version = true;
        if version == Version::V1 {
            let options = BridgeOptions {
                is_shared: true,
                id_salt: unique_salt(),
                ..BridgeOptions::between(Version::V1, Version::V2)
            };
            self.driver = Some(Box::new(Driver::with_host(options, Box::new(ProgramsHere))));
        }
        true
    }

    // ----- to the client

    /// Handles an input from the hub. Returns whether the connection ends.
    fn outgoing(&mut self, line: ConnectionInput) -> bool {
        match line {
            ConnectionInput::Line(line) => {
                self.line(line);
                false
            }
            ConnectionInput::Paused => {
                self.send_all();
                self.gate = None;
                false
            }
            ConnectionInput::ResumeDecided(decision) => {
                // Earlier lines do not belong to the resumed stream.
                self.send_all();
                if let Some((session, reply)) = self.resuming.take() {
                    reply.send(decision.map_err(|reason| refusal(&session, reason, self.driver.is_some())));
                }
                false
            }
            ConnectionInput::Close { code, reason } => {
                self.send_all();
                self.outgoing.close(code, &reason);
                true
            }
        }
    }

    fn line(&mut self, line: ToClient) {
        let ToClient { text, stream, cursor, is_windowed } = line;
        let written = match (&stream, is_windowed) {
            (Some(session), true) => Some(self.reserve(session, text.len())),
            _ => None,
        };
        // Notices are an extension of the hub and belong to neither version.
        let is_notice = || stream.is_some() && cursor.is_none() && lines::is_notice(&text);
        if self.driver.is_none() || is_notice() {
            return self.unsent.push(OutgoingLine { text, stream, cursor, written });
        }
        // In a replay, several lines may share one cursor. Only the last one carries it, and the others must not carry
        // the previous one: a client that resumed there would get them twice.
        let has_cursor = cursor.is_some() || !is_windowed;
        if let (Some(session), Some(cursor)) = (&stream, &cursor) {
            self.cursors.insert(Arc::clone(session), Arc::clone(cursor));
        }
        let outputs = self.driver.as_mut().map(|driver| driver.receive(Side::Agent, &text));
        if self.deliver(outputs) == Handled::Forward {
            self.translated.push(text);
        }
        self.send_translated(written, has_cursor);
    }

    /// Counts a line against the send window of its session. The result acknowledges it when it has been written.
    fn reserve(&mut self, session: &SessionId, bytes: usize) -> Written {
        // Counts the bytes against the send window. The returned guard acknowledges them when the transport has written
        // the line.
        let window = self.windows.entry(Arc::clone(session)).or_insert_with(|| SessionWindow {
            // The hub waits only when the whole send window is unacknowledged, so a quarter of it is a fine enough
            // step.
            flow: Flow::new(
                Arc::clone(&self.acked),
                usize::try_from(self.send_window / 4).unwrap_or(usize::MAX),
            ),
            sent: 0,
            reported: 0,
        });
        window.sent += bytes as u64;
        window.flow.take(bytes)
    }

    /// Reports acknowledged bytes to the hub. Only reports as much as the hub may be waiting for.
    async fn report_acks(&mut self) -> Result<(), Gone> {
        let mut reports = Vec::new();
        for (session, window) in &mut self.windows {
            let acked = window.sent - (window.flow.outstanding() as u64).min(window.sent);
            // A report is useful only if the hub may be waiting, that is, if more than half of the window is
            // unreported.
            if window.sent - window.reported > self.send_window / 2 && acked > window.reported {
                window.reported = acked;
                reports.push((Arc::clone(session), acked));
            }
        }
        for (session, acked) in reports {
            self.emit(Event::Acked { connection: self.id, session, acked }).await?;
        }
        Ok(())
    }

    // ----- translation

    /// Collects the output of the bridge. [`Client::send_translated`] sends lines to the client, [`Client::flush`]
    /// those to the hub.
    fn deliver(&mut self, outputs: Option<Outputs>) -> Handled {
        outputs.map_or(Handled::Done, |outputs| outputs.deliver(self))
    }

    /// Sends the lines of the bridge, each on its stream. The last one carries the acknowledgement of the line they
    /// were translated from.
    fn send_translated(&mut self, written: Option<Written>, has_cursor: bool) {
        let translated = std::mem::take(&mut self.translated);
        let (mut written, last) = (written, translated.len());
        for (index, text) in translated.into_iter().enumerate() {
            let (text, stream, is_update) = self.routed(text);
            // A client with this cursor has received everything that was translated from that record.
            let is_last = index + 1 == last;
            let cursor = stream.as_ref().filter(|_| is_update && is_last && has_cursor);
            let cursor = cursor.and_then(|stream| self.cursors.get(stream)).cloned();
            let written = if is_last { written.take() } else { None };
            self.replay_buffer.push(&text, stream.as_ref(), cursor.as_ref());
            self.unsent.push(OutgoingLine { text, stream, cursor, written });
        }
    }

    fn send_all(&mut self) {
        for line in self.unsent.drain(..) {
            self.outgoing.send(line);
        }
    }

    /// Sends buffered lines again.
    fn resend(&mut self, lines: Vec<BufferedLine>) {
        for BufferedLine { text, stream, cursor } in lines {
            self.outgoing.send(OutgoingLine { text, stream: Some(stream), cursor, written: None });
        }
    }

    /// Handles `stream/resume` of a version 1 client that has reconnected.
    fn resume_streams(&mut self, message: Option<Message<'_>>, gate: Gate) {
        let (id, params) = match message {
            Some(Message::Notification(call)) if call.method == "stream/resume" => (None, call.params),
            Some(Message::Request(call)) if call.method == "stream/resume" => (Some(call.id), call.params),
            _ => {
                let message = "the first message of a resumed connection must be stream/resume";
                return self.outgoing.close(close_codes::PROTOCOL_ERROR, message);
            }
        };
        drop(gate);
        let streams = params.as_ref().and_then(|params| params.get("streams"));
        for stream in streams.iter().flat_map(Raw::items).take(REQUESTS) {
            let word = |key: &str| lines::text_of(Some(&stream), key).unwrap_or_default().into_owned();
            let (session, cursor) = (word("sessionId"), word("cursor"));
            if let Some(lines) = self.replay_buffer.after(&session, &cursor) {
                self.resend(lines);
            } else {
                let params = Raw::from(serde_json::json!({"sessionId": session, "reason": "unknown_cursor"}));
                let rewrite = lines::Rewrite::default();
                let line = lines::call(None, "stream/resume_failed", Some(&params), rewrite);
                self.outgoing.send(OutgoingLine::new(line));
            }
        }
        if let Some(id) = id {
            self.outgoing.send(OutgoingLine::new(lines::answer(&id, &Outcome::Result("{}".to_owned()))));
        }
    }

    /// Returns the stream of a line for a version 1 client, and whether the line is an update.
    fn routed(&mut self, text: SharedText) -> (SharedText, Option<Arc<str>>, bool) {
        let (params, is_update) = match Message::decode(&text, WireFormat::Any) {
            Ok(Message::Response(response)) => {
                let line = with_transport(&response.outcome)
                    .map(|result| lines::answer(&response.id, &Outcome::Result(result)).into());
                let id = response.id.into_owned();
                let stream = self.streams.answered(Side::Agent, &id);
                let line = line.unwrap_or_else(|| text.clone());
                if let Some((_, answer)) = self.prompts.iter_mut().find(|(known, _)| *known == id) {
                    *answer = Some((line.clone(), stream.clone()));
                }
                return (line, stream, false);
            }
            Ok(Message::Request(request)) => (request.params.map(Raw::into_owned), false),
            Ok(Message::Notification(notification)) => {
                let is_update = notification.method == "session/update";
                (notification.params.map(Raw::into_owned), is_update)
            }
            Err(_) => (None, false),
        };
        // A sub-agent has no stream of its own.
        let stream =
            lines::text_of(params.as_ref(), "sessionId").map(|session| Arc::from(lines::root(&session)));
        (text, stream, is_update)
    }

    /// Sends the bridge's lines to the hub, then the pending lines to the client.
    async fn flush(&mut self) -> Result<(), Gone> {
        for text in std::mem::take(&mut self.for_hub) {
            self.emit(Event::Message { connection: self.id, text: text.into() }).await?;
        }
        // Losses are recorded before the client sees the end of the turn, because it may shut down the hub then.
        for loss in std::mem::take(&mut self.losses) {
            self.emit(Event::ClientLoss { connection: self.id, loss }).await?;
        }
        self.send_all();
        Ok(())
    }
}

impl Port for Client {
    fn send(&mut self, to: Side, line: String) {
        match to {
            Side::Client => self.translated.push(line.into()),
            Side::Agent => self.for_hub.push(line),
        }
    }

    fn report_loss(&mut self, loss: Loss) {
        self.losses.push(loss);
    }
}

/// Adds the transport capabilities to `_meta` of the agent capabilities, where version 1 clients look for them.
fn with_transport(outcome: &Result<Raw<'_>, switchboard_acp::rpc::RpcError<'_>>) -> Option<String> {
    let result = outcome.as_ref().ok()?;
    let capabilities = result.get("agentCapabilities").filter(Raw::is_object)?;
    let capabilities = TRANSPORT.set(&capabilities, Raw::parse(RESUMABLE).ok()?);
    Some(lines::merged(Some(result), &[("agentCapabilities", capabilities.as_str())]))
}

fn refusal(session: &str, reason: ResumeError, is_old: bool) -> Refusal {
    match reason {
        ResumeError::UnknownSession => {
            let message = format!("session {session} does not exist or is not visible to this token");
            Refusal::new(http::StatusCode::NOT_FOUND, message)
        }
        ResumeError::UnknownCursor => {
            let instead = if is_old { "session/load" } else { "session/resume with replayFrom" };
            let message = format!("unknown cursor for session {session}; use {instead}");
            Refusal::new(http::StatusCode::CONFLICT, message)
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
