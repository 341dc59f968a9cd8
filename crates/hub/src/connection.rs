//! A client's connection: in version 2 towards the hub, in its own version towards the client.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use switchboard_acp::detect::Handshake;
use switchboard_acp::extensions::TRANSPORT;
use switchboard_acp::rpc::{Message, RequestId, codes};
use switchboard_acp::{Correlator, Raw, Wire, WireFormat};
use switchboard_bridge::{BridgeOptions, Driver, Handled, Host, Loss, Outputs, Port, Side, Version};
use switchboard_transport::server::{
    Flow, Gate, Incoming, Outgoing, OutgoingLine, Refusal, ResumeReply, ResumeRequest, ServerConnection,
    Written, close_codes,
};
use switchboard_transport::{Program, SharedText, unique_salt};
use tokio::sync::{Notify, mpsc};

use crate::core::lines::{self, Outcome};
use crate::core::{ConnectionId, NoSuchPlace, RESUMABLE, SessionId, ToClient};
use crate::service::Event;
use crate::told::{self, Told};

/// What a client of version 1 names as in a shell is looked for here, where the agents run.
struct ProgramsHere;

impl Host for ProgramsHere {
    fn find_program(&mut self, name: &str) -> Option<String> {
        Program::new(name).locate().ok()?.into_os_string().into_string().ok()
    }
}

/// How many lines of the hub are taken before the client gets its turn.
const TURN: usize = 64;
/// How many prompts of a client over HTTP are known, should it send one again.
const PROMPTS: usize = 256;
/// How many requests of a client are known, to find the stream of their answers.
const REQUESTS: usize = 4096;

/// What the hub has for a connection.
#[derive(Debug)]
pub(crate) enum ForConnection {
    Line(ToClient),
    Close {
        code: u16,
        reason: String,
    },
    /// Nothing is sent in its sessions from here on, until it has said what it has got.
    Paused,
    /// Whether a stream goes on. What follows belongs to it; what came before does not.
    Decided(Result<(), NoSuchPlace>),
}

/// Carries a client's messages until it is gone.
pub(crate) async fn run(
    id: ConnectionId,
    connection: ServerConnection,
    lines: mpsc::UnboundedReceiver<ForConnection>,
    events: mpsc::Sender<Event>,
    flow: usize,
) {
    let ServerConnection { id: _, incoming, outgoing } = connection;
    let client = Client {
        id,
        outgoing,
        events: events.clone(),
        driver: None,
        knows_version: false,
        is_translated: false,
        room: Arc::new(Notify::new()),
        flows: HashMap::new(),
        flow: flow as u64,
        gate: None,
        resuming: None,
        for_hub: Vec::new(),
        made: Vec::new(),
        losses: Vec::new(),
        unsent: Vec::new(),
        streams: Correlator::new(REQUESTS),
        cursors: HashMap::new(),
        told: Told::default(),
        prompts: VecDeque::new(),
    };
    client.run(incoming, lines).await;
    // The hub is gone only when everything is.
    let _ = events.send(Event::Disconnected { connection: id }).await;
}

struct Client {
    id: ConnectionId,
    outgoing: Outgoing,
    events: mpsc::Sender<Event>,
    /// For a client of version 1.
    driver: Option<Box<Driver>>,
    knows_version: bool,
    /// Whether the hub knows that it is of version 1.
    is_translated: bool,
    /// Raised when the client has taken something.
    room: Arc<Notify>,
    flows: HashMap<SessionId, Traffic>,
    flow: u64,
    gate: Option<Gate>,
    /// A stream that waits for the hub's decision.
    resuming: Option<(String, ResumeReply)>,
    /// What the bridge has for the hub.
    for_hub: Vec<String>,
    /// What the bridge has for the client.
    made: Vec<SharedText>,
    /// What the bridge cannot carry to the client, for the session's log.
    losses: Vec<Loss>,
    /// What is sent to the client once the hub knows the losses.
    unsent: Vec<OutgoingLine>,
    /// The sessions that open requests of a version 1 client are about.
    streams: Correlator<Arc<str>>,
    /// The last place in the log that a version 1 client was told of, in each session.
    cursors: HashMap<SessionId, Arc<str>>,
    /// What a version 1 client was told last.
    told: Told,
    /// Its last prompts over HTTP, where the same id is the same prompt, sent again; with their answers.
    prompts: VecDeque<(RequestId<'static>, Option<Answered>)>,
}

/// The answer to a prompt, and the stream that it went to.
type Answered = (SharedText, Option<Arc<str>>);

/// How much was sent in a session.
struct Traffic {
    flow: Flow,
    sent: u64,
    reported: u64,
}

/// The hub is gone.
struct Gone;

impl Client {
    async fn run(
        mut self,
        mut incoming: mpsc::Receiver<Incoming>,
        mut lines: mpsc::UnboundedReceiver<ForConnection>,
    ) {
        loop {
            let due = self.driver.as_ref().and_then(|driver| driver.next_deadline());
            let room = Arc::clone(&self.room);
            tokio::select! {
                came = incoming.recv() => match came {
                    Some(came) => {
                        if self.incoming(came).await.is_err() {
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
                () = room.notified() => {
                    if self.report().await.is_err() {
                        return;
                    }
                }
                () = until(due) => {
                    let outputs = self.driver.as_mut().map(|driver| driver.tick());
                    let _ = self.deliver(outputs);
                    self.send_made(None, true);
                    if self.flush().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    // ----- from the client

    async fn incoming(&mut self, came: Incoming) -> Result<(), Gone> {
        match came {
            Incoming::Message(text) => self.message(text).await,
            Incoming::Resume(request) => {
                let ResumeRequest { session, cursor, reply } = *request;
                if self.driver.is_some() {
                    match self.told.after(&session, &cursor) {
                        Some(lines) => {
                            reply.send(Ok(()));
                            self.tell_again(lines);
                        }
                        None if self.cursors.contains_key(&*session) => {
                            let message = "a client of version 1 goes on with session/load from here";
                            reply.send(Err(Refusal::new(http::StatusCode::CONFLICT, message)));
                        }
                        // It was told that on another connection.
                        None => return self.go_on_elsewhere(session, cursor, reply).await,
                    }
                    return Ok(());
                }
                self.go_on_elsewhere(session, cursor, reply).await
            }
            Incoming::Reconnected(gate) => {
                self.gate = Some(gate);
                if self.driver.is_some() {
                    return Ok(());
                }
                self.tell(Event::Reconnected { connection: self.id }).await
            }
        }
    }

    /// Asks the hub to go on with a session behind a place in its log.
    async fn go_on_elsewhere(
        &mut self,
        session: String,
        cursor: String,
        reply: ResumeReply,
    ) -> Result<(), Gone> {
        if let Some((_, earlier)) = self.resuming.replace((session.clone(), reply)) {
            let message = "another request for a stream came before this one was decided";
            earlier.send(Err(Refusal::new(http::StatusCode::CONFLICT, message)));
        }
        let outputs = self.driver.as_mut().map(|driver| driver.reopen(&session));
        let _ = self.deliver(outputs);
        self.send_made(None, true);
        self.flush().await?;
        self.tell(Event::Continue { connection: self.id, session, cursor }).await
    }

    async fn tell(&mut self, event: Event) -> Result<(), Gone> {
        self.events.send(event).await.map_err(|_| Gone)
    }

    async fn message(&mut self, text: String) -> Result<(), Gone> {
        if !self.knows_version && !self.open(&text) {
            return Ok(());
        }
        let is_old = self.driver.is_some();
        if is_old && !std::mem::replace(&mut self.is_translated, true) {
            self.tell(Event::Translated { connection: self.id }).await?;
        }
        if !is_old {
            return self.tell(Event::Message { connection: self.id, text: text.into() }).await;
        }
        if let Some(gate) = self.gate.take() {
            self.resume_streams(&text, gate);
            return Ok(());
        }
        if let Ok(Message::Response(response)) = Message::decode(&text, WireFormat::Any) {
            self.told.answered(&response.id);
        }
        if self.outgoing.has_streams() && self.is_repeated(&text) {
            return Ok(());
        }
        if let Ok(Message::Request(request)) = Message::decode(&text, WireFormat::Any)
            && !matches!(&*request.method, "session/load" | "session/resume" | "session/new" | "session/fork")
            && let Some(session) = lines::text_of(request.params.as_ref(), "sessionId")
        {
            // The answer to one too many goes to the stream of the connection.
            drop(self.streams.open(Side::Client, &request.id, (*session).into()));
        }
        let outputs = self.driver.as_mut().map(|driver| driver.receive(Side::Client, &text));
        let handled = self.deliver(outputs);
        self.send_made(None, true);
        self.flush().await?;
        if handled == Handled::Forward {
            self.tell(Event::Message { connection: self.id, text: text.into() }).await?;
        }
        Ok(())
    }

    /// Whether a message is a prompt that came before. One that has its answer gets it again.
    fn is_repeated(&mut self, text: &str) -> bool {
        let Ok(Message::Request(request)) = Message::decode(text, WireFormat::Any) else { return false };
        if request.method != "session/prompt" {
            return false;
        }
        let id = request.id.into_owned();
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

    /// Finds out which version the client speaks. Says whether it is one that is spoken here.
    fn open(&mut self, text: &str) -> bool {
        let Ok(Message::Request(request)) = Message::decode(text, WireFormat::Any) else { return false };
        let Handshake { version, number, .. } = Handshake::of_request(request.params.as_ref());
        if number.is_none_or(|number| number == 0) {
            let data = serde_json::json!({"requested": number, "supported": [1, 2]});
            let message = "at /params/protocolVersion: the versions that are spoken here are 1 and 2";
            let error = Outcome::error(codes::UNSUPPORTED_PROTOCOL_VERSION, message, Some(data));
            let id = request.id.into_owned();
            self.outgoing.send(OutgoingLine::new(lines::answer(&id, &error)));
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

    /// Says whether this is the end.
    fn outgoing(&mut self, line: ForConnection) -> bool {
        match line {
            ForConnection::Line(line) => {
                self.line(line);
                false
            }
            ForConnection::Paused => {
                self.send_all();
                self.gate = None;
                false
            }
            ForConnection::Decided(decision) => {
                // What came before is not part of the stream that goes on.
                self.send_all();
                if let Some((session, reply)) = self.resuming.take() {
                    reply.send(decision.map_err(|reason| refusal(&session, reason, self.driver.is_some())));
                }
                false
            }
            ForConnection::Close { code, reason } => {
                self.send_all();
                self.outgoing.close(code, &reason);
                true
            }
        }
    }

    fn line(&mut self, line: ToClient) {
        let ToClient { text, stream, cursor, counts } = line;
        let written = match (&stream, counts) {
            (Some(session), true) => Some(self.take(session, text.len())),
            _ => None,
        };
        // What the hub itself adds for those who asked for it is no part of either version.
        let is_notice = || stream.is_some() && cursor.is_none() && lines::is_notice(&text);
        if self.driver.is_none() || is_notice() {
            return self.unsent.push(OutgoingLine { text, stream, cursor, written });
        }
        // In a replay several lines may belong to one cursor. Only the last has it, and the others have not that of the
        // line before them: who names it would get them twice.
        let is_placed = cursor.is_some() || !counts;
        if let (Some(session), Some(cursor)) = (&stream, &cursor) {
            self.cursors.insert(Arc::clone(session), Arc::clone(cursor));
        }
        let outputs = self.driver.as_mut().map(|driver| driver.receive(Side::Agent, &text));
        if self.deliver(outputs) == Handled::Forward {
            self.made.push(text);
        }
        self.send_made(written, is_placed);
    }

    fn take(&mut self, session: &SessionId, bytes: usize) -> Written {
        let traffic = self.flows.entry(Arc::clone(session)).or_insert_with(|| Traffic {
            // When the hub waits for room, all of `flow` is on its way: there is enough for some steps.
            flow: Flow::new(Arc::clone(&self.room), usize::try_from(self.flow / 4).unwrap_or(usize::MAX)),
            sent: 0,
            reported: 0,
        });
        traffic.sent += bytes as u64;
        traffic.flow.take(bytes)
    }

    /// Tells the hub what the client has taken, as far as it may wait for that.
    async fn report(&mut self) -> Result<(), Gone> {
        let mut reports = Vec::new();
        for (session, traffic) in &mut self.flows {
            let gone = traffic.sent - (traffic.flow.outstanding() as u64).min(traffic.sent);
            if traffic.sent - traffic.reported > self.flow / 2 && gone > traffic.reported {
                traffic.reported = gone;
                reports.push((Arc::clone(session), gone));
            }
        }
        for (session, gone) in reports {
            self.tell(Event::Room { connection: self.id, session, gone }).await?;
        }
        Ok(())
    }

    // ----- translation

    /// Takes what the bridge has. [`Client::send_made`] sends what is for the client, [`Client::flush`] what is for the hub.
    fn deliver(&mut self, outputs: Option<Outputs>) -> Handled {
        outputs.map_or(Handled::Done, |outputs| outputs.deliver(self))
    }

    /// Sends lines that the bridge has made, each on the stream that it belongs to. With the last of them goes what they
    /// were made of.
    fn send_made(&mut self, written: Option<Written>, is_placed: bool) {
        let made = std::mem::take(&mut self.made);
        let (mut written, last) = (written, made.len());
        for (place, text) in made.into_iter().enumerate() {
            let (text, stream, is_update) = self.placed(text);
            // Who names the place has got everything that was made of what stands there.
            let is_last = place + 1 == last;
            let cursor = stream.as_ref().filter(|_| is_update && is_last && is_placed);
            let cursor = cursor.and_then(|stream| self.cursors.get(stream)).cloned();
            let written = if is_last { written.take() } else { None };
            self.told.note(&text, stream.as_ref(), cursor.as_ref());
            self.unsent.push(OutgoingLine { text, stream, cursor, written });
        }
    }

    fn send_all(&mut self) {
        for line in self.unsent.drain(..) {
            self.outgoing.send(line);
        }
    }

    /// Sends lines once more.
    fn tell_again(&mut self, lines: Vec<told::ToldLine>) {
        for told::ToldLine { text, stream, cursor } in lines {
            self.outgoing.send(OutgoingLine { text, stream: Some(stream), cursor, written: None });
        }
    }

    /// A client of version 1 whose socket is another one says what it has got.
    fn resume_streams(&mut self, text: &str, gate: Gate) {
        let (id, params) = match Message::decode(text, WireFormat::Any) {
            Ok(Message::Notification(call)) if call.method == "stream/resume" => (None, call.params),
            Ok(Message::Request(call)) if call.method == "stream/resume" => (Some(call.id), call.params),
            _ => {
                let message = "the first message of a connection that is continued is stream/resume";
                return self.outgoing.close(close_codes::PROTOCOL_ERROR, message);
            }
        };
        drop(gate);
        let streams = params.as_ref().and_then(|params| params.get("streams"));
        for stream in streams.iter().flat_map(Raw::items).take(REQUESTS) {
            let word = |key: &str| lines::text_of(Some(&stream), key).unwrap_or_default().into_owned();
            let (session, cursor) = (word("sessionId"), word("cursor"));
            if let Some(lines) = self.told.after(&session, &cursor) {
                self.tell_again(lines);
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

    /// The stream that a line for a client of version 1 belongs to, and whether it is an update.
    fn placed(&mut self, text: SharedText) -> (SharedText, Option<Arc<str>>, bool) {
        let (params, is_update) = match Message::decode(&text, WireFormat::Any) {
            Ok(Message::Response(response)) => {
                let told = with_transport(&response.outcome)
                    .map(|result| lines::answer(&response.id, &Outcome::Result(result)).into());
                let id = response.id.into_owned();
                let stream = self.streams.answered(Side::Agent, &id);
                let told = told.unwrap_or_else(|| text.clone());
                if let Some((_, answer)) = self.prompts.iter_mut().find(|(known, _)| *known == id) {
                    *answer = Some((told.clone(), stream.clone()));
                }
                return (told, stream, false);
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

    /// Gives the hub what the bridge has for it.
    async fn flush(&mut self) -> Result<(), Gone> {
        for text in std::mem::take(&mut self.for_hub) {
            self.tell(Event::Message { connection: self.id, text: text.into() }).await?;
        }
        // Before the client has the end of a turn, and may end the hub, what was lost in it is in the log.
        for loss in std::mem::take(&mut self.losses) {
            self.tell(Event::Lost { connection: self.id, loss }).await?;
        }
        self.send_all();
        Ok(())
    }
}

impl Port for Client {
    fn send(&mut self, to: Side, line: String) {
        match to {
            Side::Client => self.made.push(line.into()),
            Side::Agent => self.for_hub.push(line),
        }
    }

    fn lose(&mut self, loss: Loss) {
        self.losses.push(loss);
    }
}

/// A client of version 1 finds what the transport can do in `_meta` of the agent's capabilities.
fn with_transport(outcome: &Result<Raw<'_>, switchboard_acp::rpc::RpcError<'_>>) -> Option<String> {
    let result = outcome.as_ref().ok()?;
    let capabilities = result.get("agentCapabilities").filter(Raw::is_object)?;
    let capabilities = TRANSPORT.set(&capabilities, Raw::parse(RESUMABLE).ok()?);
    Some(lines::merged(Some(result), &[("agentCapabilities", capabilities.as_str())]))
}

fn refusal(session: &str, reason: NoSuchPlace, is_old: bool) -> Refusal {
    match reason {
        NoSuchPlace::Session => {
            let message = format!("there is no session {session} here, or not for this token");
            Refusal::new(http::StatusCode::NOT_FOUND, message)
        }
        NoSuchPlace::Cursor => {
            let instead = if is_old { "session/load" } else { "session/resume with replayFrom" };
            let message = format!("there is no such place in {session}; use {instead}");
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
