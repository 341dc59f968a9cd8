//! Extracts session metadata from messages while they are moved into the database.

use std::collections::HashSet;

use memchr::memmem;
use switchboard_acp::detect::Handshake;
use switchboard_acp::rpc::{BATCH_LIMIT, Message, Notification, Request, Response, batch_entries, is_batch};
use switchboard_acp::{Correlator, Raw, Side, WireFormat};
use switchboard_session::{may_name_sessions, prompt_title, sessions_started_in};

use crate::record::{About, Record};

/// Maximum number of pending requests remembered.
const MAX_OPEN: usize = 1000;

/// Metadata found so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) about: About,
    /// True if the title comes from the agent, not from a prompt.
    pub(crate) titled: bool,
    pub(crate) protocol: Option<u16>,
    pub(crate) wire_ids: Vec<String>,
    /// Ids of subagent sessions.
    pub(crate) children: Vec<String>,
}

#[derive(Debug)]
enum Call {
    Initialize,
    New,
    /// A loaded or resumed session, by its id.
    Old(Option<String>),
}

/// Observes the messages of one recording.
#[derive(Debug)]
pub(crate) struct Observer {
    calls: Correlator<Call>,
    wire_ids: HashSet<String>,
    /// Sessions of subagents.
    children: HashSet<String>,
    has_title: bool,
}

impl Default for Observer {
    fn default() -> Self {
        Observer {
            calls: Correlator::new(MAX_OPEN),
            wire_ids: HashSet::new(),
            children: HashSet::new(),
            has_title: false,
        }
    }
}

fn string(object: Option<&Raw<'_>>, key: &str) -> Option<String> {
    object?.text(key)
}

/// Returns the name that a peer reports, under the key of either version.
fn name(object: &Raw<'_>, old_key: &str) -> Option<String> {
    string(object.get("info").as_ref(), "name").or_else(|| string(object.get(old_key).as_ref(), "name"))
}

impl Observer {
    pub(crate) fn observe(&mut self, record: &Record, observed: &mut Observed) {
        let Some((from, false)) = record.channel.message() else { return };
        let head = &record.bytes[..record.bytes.len().min(256)];
        let is_update = memmem::find(head, b"\"session/update\"").is_some();
        let Ok(text) = std::str::from_utf8(&record.bytes) else { return };
        let informs =
            || memmem::find(&record.bytes, b"\"session_info_update\"").is_some() || may_name_sessions(text);
        if is_update && !self.wire_ids.is_empty() && !informs() {
            return;
        }
        let messages =
            if is_batch(text) { batch_entries(text, BATCH_LIMIT).unwrap_or_default() } else { vec![text] };
        for message in messages {
            match Message::decode(message, WireFormat::Any) {
                Ok(Message::Request(request)) => self.request(&request, from, observed),
                Ok(Message::Notification(notification)) => self.notification(&notification, from, observed),
                Ok(Message::Response(response)) => self.answer(&response, from, observed),
                Err(_) => {}
            }
        }
    }

    fn notification(&mut self, message: &Notification<'_>, from: Side, observed: &mut Observed) {
        if from != Side::Agent || message.method != "session/update" {
            return;
        }
        let params = message.params.as_ref();
        let session = string(params, "sessionId");
        let is_child = session.as_ref().is_some_and(|session| self.children.contains(session));
        self.wire_id(session, observed);
        let update = params.and_then(|params| params.get("update"));
        let kind = string(update.as_ref(), "sessionUpdate");
        for child in update.as_ref().map(|update| sessions_started_in(update.as_str())).unwrap_or_default() {
            self.child(child, observed);
        }
        // A subagent's title is not the session's title.
        if kind.as_deref() == Some("session_info_update")
            && !is_child
            && let Some(title) = string(update.as_ref(), "title").filter(|title| !title.is_empty())
        {
            self.has_title = true;
            observed.about.title = Some(title);
            observed.titled = true;
        }
    }

    fn request(&mut self, message: &Request<'_>, from: Side, observed: &mut Observed) {
        if from != Side::Client {
            return;
        }
        let params = message.params.as_ref();
        let call = match &*message.method {
            "initialize" => {
                observed.about.client = params.and_then(|params| name(params, "clientInfo"));
                Some(Call::Initialize)
            }
            "session/new" => Some(Call::New),
            "session/load" | "session/resume" => Some(Call::Old(string(params, "sessionId"))),
            _ => None,
        };
        let is_old = matches!(call, Some(Call::Old(_)));
        if let Some(call) = call {
            // If too many are pending, the newest are ignored.
            drop(self.calls.open(Side::Client, &message.id, call));
        }
        if message.method.starts_with("session/") {
            // A session to load may not exist, so its id counts only after the response.
            if !is_old {
                self.wire_id(string(params, "sessionId"), observed);
            }
            observed.about.project = string(params, "cwd").or_else(|| observed.about.project.take());
        }
        // The first prompt serves as title until the agent sets one.
        if message.method == "session/prompt"
            && !self.has_title
            && let Some(title) =
                params.and_then(|params| params.get("prompt")).and_then(|prompt| prompt_title(&prompt))
        {
            self.has_title = true;
            observed.about.title = Some(title);
        }
    }

    fn answer(&mut self, message: &Response<'_>, from: Side, observed: &mut Observed) {
        let Some(call) = self.calls.answered(from, &message.id) else { return };
        let Ok(result) = &message.outcome else { return };
        match call {
            Call::Initialize => {
                let handshake = Handshake::of_answer(result);
                // A later protocol version is recorded by its number.
                let number = handshake.number.and_then(|number| u16::try_from(number).ok());
                observed.protocol = match number {
                    Some(number) if handshake.is_of_the_future() => Some(number),
                    _ => Some(handshake.version.number()),
                };
                observed.about.agent = name(result, "agentInfo");
            }
            Call::New => self.wire_id(string(Some(result), "sessionId"), observed),
            Call::Old(id) => self.wire_id(id, observed),
        }
    }

    fn wire_id(&mut self, id: Option<String>, observed: &mut Observed) {
        if let Some(id) = id
            && !self.children.contains(&id)
            && self.wire_ids.len() < MAX_OPEN
            && self.wire_ids.insert(id.clone())
        {
            observed.wire_ids.push(id);
        }
    }

    fn child(&mut self, id: String, observed: &mut Observed) {
        // A session that was opened directly is not a subagent.
        if !self.wire_ids.contains(&id) && self.children.len() < MAX_OPEN && self.children.insert(id.clone())
        {
            observed.children.push(id);
        }
    }
}
