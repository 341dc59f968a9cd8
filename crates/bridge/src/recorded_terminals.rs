//! Client terminals in a recording of version 1. The agent asks the client to run commands, and the output is
//! in the client's responses to `terminal/output`. Version 2 has no such requests: updates describe terminals
//! there. This module derives the updates from the recorded requests and responses.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use switchboard_acp::rpc::{Message, Request, RequestId, Response};
use switchboard_acp::{Base64, Extra, Field, Raw, Text, Wire, WireFormat, v1, v2};

use crate::Side;
use crate::context::session_of;

/// Maximum number of tracked requests and terminals. Others are treated like any other request.
const MOST: usize = 10_000;

/// State of the terminals of a recording.
#[derive(Debug, Default)]
pub(crate) struct RecordedTerminals {
    pending: HashMap<RequestId<'static>, PendingRequest>,
    /// Hash of the last output sent, by session and terminal.
    event: HashMap<(String, String), u64>,
}

/// A pending request of the agent.
#[derive(Debug)]
struct PendingRequest {
    session: String,
    method: String,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Create(Box<v1::CreateTerminalRequest<'static>>),
    Output(String),
    Exit(String),
    /// The response has no content of interest.
    Other,
}

/// Translation of a message about terminals.
#[derive(Debug, Default)]
pub(crate) struct TerminalEvent {
    /// The update and its session.
    pub(crate) update: Option<(String, v2::TerminalUpdate<'static>)>,
    /// Losses: the pointer into the message, and the reason.
    pub(crate) losses: Vec<(String, &'static str)>,
    /// The method of the request.
    pub(crate) method: String,
}

/// Reason for leaving out unknown keys.
const BESIDE: &str = "version 2 has no such message and no place for its metadata";

impl TerminalEvent {
    fn of(method: &str) -> Self {
        TerminalEvent { method: method.to_owned(), ..TerminalEvent::default() }
    }

    /// Reports the keys of an object that are not read.
    fn report_unknown(&mut self, root: &str, object: &Raw<'_>, known: &[&str]) {
        for (key, _) in object.entries().filter(|(key, _)| !known.contains(&&**key)) {
            self.report_lost_key(root, &key);
        }
    }

    /// Reports unknown keys of the envelope.
    fn report_lost_envelope(&mut self, extra: &Extra<'_>) {
        for (key, _) in extra.iter() {
            self.report_lost_key("", key);
        }
    }

    fn report_lost_key(&mut self, root: &str, key: &str) {
        let key = key.replace('~', "~0").replace('/', "~1");
        self.losses.push((format!("{root}/{key}"), BESIDE));
    }
}

/// Known keys of an exit status.
const EXIT: [&str; 2] = ["exitCode", "signal"];

impl RecordedTerminals {
    /// Translates a message about a client terminal; `None` for all others.
    pub(crate) fn take(&mut self, from: Side, message: &Message<'_>) -> Option<TerminalEvent> {
        match message {
            Message::Request(request) if from == Side::Agent => self.request(request),
            Message::Response(response) if from == Side::Client => {
                let pending = self.pending.remove(&response.id.clone().into_owned())?;
                Some(self.answer(pending, response))
            }
            _ => None,
        }
    }

    fn request(&mut self, request: &Request<'_>) -> Option<TerminalEvent> {
        let params = request.params.as_ref()?;
        let session = session_of(Some(params))?;
        let terminal = params.text("terminalId");
        let mut event = TerminalEvent::of(&request.method);
        let kind = match &*request.method {
            "terminal/create" => {
                let create = v1::CreateTerminalRequest::decode(params.as_str(), WireFormat::V1).ok()?;
                let reason = "version 2 terminals do not have it";
                let mut report = |is_there: bool, pointer: &str| {
                    if is_there {
                        event.losses.push((pointer.to_owned(), reason));
                    }
                };
                report(create.env.as_ref().is_some_and(|env| !env.is_empty()), "/params/env");
                report(create.output_byte_limit.is_some(), "/params/outputByteLimit");
                Kind::Create(Box::new(create.into_owned()))
            }
            "terminal/output" => Kind::Output(terminal?),
            "terminal/wait_for_exit" => Kind::Exit(terminal?),
            "terminal/kill" | "terminal/release" => Kind::Other,
            _ => return None,
        };
        if self.pending.len() >= MOST {
            return None;
        }
        let create = ["sessionId", "command", "args", "cwd", "env", "outputByteLimit"];
        let known = if matches!(kind, Kind::Create(_)) { &create[..] } else { &["sessionId", "terminalId"] };
        event.report_unknown("/params", params, known);
        event.report_lost_envelope(&request.extra);
        let method = event.method.clone();
        self.pending.insert(request.id.clone().into_owned(), PendingRequest { session, method, kind });
        Some(event)
    }

    fn answer(
        &mut self,
        PendingRequest { session, method, kind }: PendingRequest,
        response: &Response<'_>,
    ) -> TerminalEvent {
        let mut event = TerminalEvent::of(&method);
        event.report_lost_envelope(&response.extra);
        let Ok(result) = &response.outcome else {
            // The terminal does not exist, or its output is unknown.
            event
                .losses
                .push(("/error".to_owned(), "version 2 has no such request and no error response to it"));
            return event;
        };
        let known: &[&str] = match &kind {
            Kind::Create(_) => &["terminalId"],
            Kind::Output(_) => &["output", "truncated", "exitStatus"],
            Kind::Exit(_) => &EXIT,
            Kind::Other => &[],
        };
        event.report_unknown("/result", result, known);
        if let (Kind::Output(_), Some(exit)) = (&kind, result.get("exitStatus")) {
            event.report_unknown("/result/exitStatus", &exit, &EXIT);
        }
        let update = match kind {
            Kind::Create(create) => result.text("terminalId").map(|id| {
                let mut update = v2::TerminalUpdate::new(id);
                let words =
                    std::iter::once(&create.command).chain(create.args.iter().flatten()).map(|word| &**word);
                update.command = Field::Set(Text::Owned(words.collect::<Vec<_>>().join(" ")));
                update.cwd = create.cwd.map_or(Field::Keep, Field::Set);
                update
            }),
            Kind::Output(id) => match v1::TerminalOutputResponse::decode(result.as_str(), WireFormat::V1) {
                Ok(answer) => {
                    if answer.truncated {
                        let reason = "the client has kept only the end of the output";
                        event.losses.push(("/result/truncated".to_owned(), reason));
                    }
                    self.output(&session, id, answer)
                }
                Err(_) => None,
            },
            Kind::Exit(id) => {
                v1::TerminalExitStatus::decode(result.as_str(), WireFormat::V1).ok().map(|exit| {
                    let mut update = v2::TerminalUpdate::new(id);
                    update.exit_status = Field::Set(exit_status(exit));
                    update
                })
            }
            Kind::Other => None,
        };
        event.update = update.map(|update| (session, update));
        event
    }

    /// Returns an update with the whole output unless it equals the last one.
    fn output(
        &mut self,
        session: &str,
        id: String,
        answer: v1::TerminalOutputResponse<'_>,
    ) -> Option<v2::TerminalUpdate<'static>> {
        let mut hasher = DefaultHasher::new();
        answer.output.hash(&mut hasher);
        let hash = hasher.finish();
        let key = (session.to_owned(), id.clone());
        let is_new = self.event.get(&key) != Some(&hash);
        if self.event.len() < MOST || self.event.contains_key(&key) {
            self.event.insert(key, hash);
        }
        if !is_new && answer.exit_status.is_none() {
            return None;
        }
        let mut update = v2::TerminalUpdate::new(id);
        if is_new {
            let output = v2::TerminalOutput::new(Base64::from_bytes(answer.output.as_bytes()));
            update.output = Field::Set(output);
        }
        if let Some(exit) = answer.exit_status {
            update.exit_status = Field::Set(exit_status(exit));
        }
        Some(update.into_owned())
    }
}

fn exit_status(exit: v1::TerminalExitStatus<'_>) -> v2::TerminalExitStatus<'static> {
    let mut status = v2::TerminalExitStatus::new();
    status.exit_code = exit.exit_code.map(i64::from);
    status.signal = exit.signal.map(|signal| Text::Owned(signal.into_owned()));
    status
}
