//! What the list of sessions wants to know, read from the messages as they pass.

use std::collections::HashMap;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use switchboard_protocol::Raw;
use switchboard_protocol::detect::Handshake;

use crate::record::{About, Channel, Record};
use crate::text::{TextKind, texts};

/// A prompt serves as title until the agent gives one, up to this many characters.
const TITLE: usize = 80;
/// Requests without an answer that are remembered.
const MAX_OPEN: usize = 1000;

/// What came to light.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) about: About,
    /// The title comes from the agent, not from a prompt.
    pub(crate) titled: bool,
    pub(crate) protocol: Option<u16>,
    pub(crate) wire_ids: Vec<String>,
}

#[derive(Debug)]
enum Call {
    Initialize,
    New,
    /// An old session, by its id.
    Old(Option<String>),
}

/// Watches one session.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    calls: HashMap<String, Call>,
    wire_ids: Vec<String>,
    has_title: bool,
}

type Part<'a> = Option<&'a RawValue>;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Part<'a>,
    #[serde(borrow)]
    method: Part<'a>,
    #[serde(borrow)]
    params: Part<'a>,
    #[serde(borrow)]
    result: Part<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    #[serde(borrow)]
    session_id: Part<'a>,
    #[serde(borrow)]
    cwd: Part<'a>,
    #[serde(borrow)]
    info: Part<'a>,
    #[serde(borrow)]
    agent_info: Part<'a>,
    #[serde(borrow)]
    client_info: Part<'a>,
    #[serde(borrow)]
    name: Part<'a>,
    #[serde(borrow)]
    update: Part<'a>,
    #[serde(borrow)]
    title: Part<'a>,
}

fn fields<'a>(part: Part<'a>) -> Option<Fields<'a>> {
    let text = part?.get();
    text.starts_with('{').then(|| serde_json::from_str(text).ok())?
}

fn string(part: Part<'_>) -> Option<String> {
    serde_json::from_str(part?.get()).ok()
}

impl Observer {
    pub(crate) fn observe(&mut self, record: &Record, observed: &mut Observed) {
        if !record.channel.is_message() {
            return;
        }
        let head = &record.bytes[..record.bytes.len().min(256)];
        let is_update = memmem::find(head, b"\"session/update\"").is_some();
        let informs = is_update && memmem::find(&record.bytes, b"\"session_info_update\"").is_some();
        if is_update && !informs && !self.wire_ids.is_empty() {
            return;
        }
        let Some(envelope) = std::str::from_utf8(&record.bytes)
            .ok()
            .filter(|text| text.trim_start().starts_with('{'))
            .and_then(|text| serde_json::from_str::<Envelope<'_>>(text).ok())
        else {
            return;
        };
        match (string(envelope.method), record.channel) {
            (Some(method), channel) => self.call(&method, &envelope, channel, record, observed),
            (None, Channel::ToClient) => self.answer(&envelope, observed),
            (None, _) => {}
        }
    }

    fn call(
        &mut self,
        method: &str,
        envelope: &Envelope<'_>,
        channel: Channel,
        record: &Record,
        observed: &mut Observed,
    ) {
        let Some(params) = fields(envelope.params) else { return };
        if channel == Channel::ToClient {
            if method == "session/update" {
                self.wire_id(string(params.session_id), observed);
                if let Some(title) = fields(params.update).and_then(|update| string(update.title))
                    && !title.is_empty()
                    && memmem::find(&record.bytes, b"\"session_info_update\"").is_some()
                {
                    self.has_title = true;
                    observed.about.title = Some(title);
                    observed.titled = true;
                }
            }
            return;
        }
        let call = match method {
            "initialize" => {
                let info = fields(params.info).or_else(|| fields(params.client_info));
                observed.about.client = info.and_then(|info| string(info.name));
                Some(Call::Initialize)
            }
            "session/new" => Some(Call::New),
            "session/load" | "session/resume" => Some(Call::Old(string(params.session_id))),
            _ => None,
        };
        let is_old = matches!(call, Some(Call::Old(_)));
        if let (Some(call), Some(id)) = (call, envelope.id)
            && self.calls.len() < MAX_OPEN
        {
            self.calls.insert(id.get().to_owned(), call);
        }
        if method.starts_with("session/") {
            // An old one may not be there.
            if !is_old {
                self.wire_id(string(params.session_id), observed);
            }
            observed.about.project = string(params.cwd).or_else(|| observed.about.project.take());
        }
        if method == "session/prompt" && !self.has_title {
            let prompt = texts(record).into_iter().find(|text| text.kind == TextKind::User);
            if let Some(line) =
                prompt.as_ref().and_then(|text| text.text.lines().find(|line| !line.trim().is_empty()))
            {
                self.has_title = true;
                observed.about.title = Some(line.trim().chars().take(TITLE).collect());
            }
        }
    }

    fn answer(&mut self, envelope: &Envelope<'_>, observed: &mut Observed) {
        let Some(call) = envelope.id.and_then(|id| self.calls.remove(id.get())) else { return };
        let Some(result) = fields(envelope.result) else { return };
        match call {
            Call::Initialize => {
                // Some agents repeat whatever number they were asked for: the shape of the answer decides.
                let answer = envelope.result.and_then(|result| Raw::parse(result.get()).ok());
                observed.protocol = answer.map(|answer| Handshake::of_answer(&answer).version.number());
                let info = fields(result.info).or_else(|| fields(result.agent_info));
                observed.about.agent = info.and_then(|info| string(info.name));
            }
            Call::New => self.wire_id(string(result.session_id), observed),
            Call::Old(id) => self.wire_id(id, observed),
        }
    }

    fn wire_id(&mut self, id: Option<String>, observed: &mut Observed) {
        if let Some(id) = id
            && !self.wire_ids.contains(&id)
            && self.wire_ids.len() < MAX_OPEN
        {
            self.wire_ids.push(id.clone());
            observed.wire_ids.push(id);
        }
    }
}
