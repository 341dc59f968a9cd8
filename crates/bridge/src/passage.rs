//! The same version on both sides: lines pass as they came, but for what two dialects of version 2 spell
//! differently.

use std::collections::{HashMap, HashSet};

use memchr::memmem;
use switchboard_protocol::rpc::{Message, RequestId, codes};
use switchboard_protocol::{Meta, Raw, Revision, Text, Wire, v2};

use crate::bridge::Handled;
use crate::loss::Severity;
use crate::metadata::Metadata;
use crate::options::Dialect;
use crate::shared::Shared;
use crate::{BridgeOptions, Side, Version};

/// How many prompts without an answer, and messages shown since, are remembered.
const REMEMBERED: usize = 1024;

/// Lets lines pass.
#[derive(Debug)]
pub(crate) struct Passage {
    version: Version,
    /// Whether the agent's lines may need another spelling.
    rewrites: bool,
    /// Requests of the client without an answer, to be failed when the agent goes.
    open: HashSet<RequestId<'static>>,
    /// Prompts of the client that the agent has not answered, with their session.
    prompts: HashMap<RequestId<'static>, String>,
    /// The user message that was last seen in a session, since its prompt.
    echoes: HashMap<String, String>,
    minted: u64,
    metadata: Metadata,
    warned: HashSet<&'static str>,
}

impl Passage {
    pub(crate) fn new(version: Version, options: &BridgeOptions) -> Self {
        let same = options.client_dialect.is_some() && options.client_dialect == options.agent_dialect;
        Passage {
            version,
            rewrites: version == Version::V2 && !same,
            open: HashSet::new(),
            prompts: HashMap::new(),
            echoes: HashMap::new(),
            minted: 0,
            metadata: Metadata::default(),
            warned: HashSet::new(),
        }
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    pub(crate) fn handle(&mut self, from: Side, line: &str, shared: &mut Shared) -> Handled {
        let has = |needle: &[u8]| memmem::find(line.as_bytes(), needle).is_some();
        match from {
            Side::Client => {
                if has(b"\"method\"") && has(b"\"id\"") {
                    self.remember_request(line);
                }
                Handled::Forward
            }
            Side::Agent => {
                let is_call = has(b"\"method\"");
                if !is_call && !self.open.is_empty() && self.answer(line, shared) == Handled::Done {
                    return Handled::Done;
                }
                if !self.rewrites || !is_call {
                    return Handled::Forward;
                }
                if !self.prompts.is_empty() && has(b"\"user_message") {
                    self.remember_echo(line);
                }
                let spec_client = shared.options.client_dialect == Some(Dialect::Spec);
                if spec_client && has(b"\"terminal_") {
                    self.warn_of_terminals(shared);
                }
                let options = &shared.options;
                let differ = options.agent_dialect.is_some()
                    && options.client_dialect.is_some()
                    && options.agent_dialect != options.client_dialect;
                if has(b"\"git_patch\"") || has(b"\"availableCommands\"") || (differ && has(b"\"_meta\"")) {
                    return self.rewrite(line, differ, shared);
                }
                Handled::Forward
            }
        }
    }

    pub(crate) fn agent_gone(&mut self, reason: &str, shared: &mut Shared) {
        for id in self.open.drain() {
            shared.refuse(Side::Client, &id, codes::INTERNAL_ERROR, reason);
        }
    }

    fn remember_request(&mut self, line: &str) {
        let Ok(Message::Request(request)) = Message::decode(line, Revision::Any) else { return };
        if self.open.len() >= REMEMBERED {
            return;
        }
        if self.rewrites
            && request.method == "session/prompt"
            && let Some(session) = session_of(request.params.as_ref())
        {
            self.echoes.remove(&session);
            self.prompts.insert(request.id.clone().into_owned(), session);
        }
        self.open.insert(request.id.into_owned());
    }

    fn remember_echo(&mut self, line: &str) {
        let Ok(Message::Notification(notification)) = Message::decode(line, Revision::Any) else { return };
        let Some(params) = &notification.params else { return };
        let id =
            params.get("update").and_then(|update| Some(update.get("messageId")?.as_text()?.into_owned()));
        if let (Some(session), Some(id)) = (session_of(Some(params)), id)
            && self.echoes.len() < REMEMBERED
        {
            self.echoes.insert(session, id);
        }
    }

    /// The newest dialect wants the id of the message in the answer to a prompt; the other does not tell it.
    fn answer(&mut self, line: &str, shared: &mut Shared) -> Handled {
        let Ok(Message::Response(response)) = Message::decode(line, Revision::Any) else {
            return Handled::Forward;
        };
        let Some(session) = self.prompts.remove(&response.id.clone().into_owned()) else {
            return Handled::Forward;
        };
        let Ok(result) = &response.outcome else { return Handled::Forward };
        let wants_id = shared.options.client_dialect != Some(Dialect::Spec);
        if !wants_id || result.get("messageId").is_some() {
            return Handled::Forward;
        }
        let id = self.echoes.remove(&session).unwrap_or_else(|| {
            self.minted += 1;
            let reason = "the agent does not tell the id of the message that it took";
            shared.lose(Some(&session), "session/prompt", "messageId", reason, Severity::Guess, Side::Client);
            format!("b-user-{}", self.minted)
        });
        let added = (Text::Borrowed("messageId"), crate::elements::meta::text(&id));
        let entries = result.entries().filter(|(key, _)| key != "messageId").chain([added]);
        let result = Meta::from_entries(entries);
        shared.respond(Side::Client, &response.id, result.as_raw().as_str());
        Handled::Done
    }

    /// Writes an update again in the client's dialect.
    fn rewrite(&mut self, line: &str, differ: bool, shared: &mut Shared) -> Handled {
        let revision = Dialect::writing(shared.options.client_dialect);
        let Ok(message) = Message::decode(line, Revision::Any) else { return Handled::Forward };
        match message {
            Message::Notification(notification) if notification.method == "session/update" => {
                let Ok(mut params) =
                    v2::UpdateSessionNotification::decode(notification.params_text(), Revision::Any)
                else {
                    return Handled::Forward;
                };
                if let Some(client) = shared.options.client_dialect.filter(|_| differ)
                    && let Some(first) = self.metadata.adjust(&params.session_id, &mut params.update, client)
                {
                    let first = v2::UpdateSessionNotification::new(params.session_id.clone(), first);
                    shared.send_update(Side::Client, &first, revision);
                }
                shared.send_update(Side::Client, &params, revision);
                Handled::Done
            }
            Message::Request(request) if request.method == "session/request_permission" => {
                let Ok(params) = v2::RequestPermissionRequest::decode(request.params_text(), Revision::Any)
                else {
                    return Handled::Forward;
                };
                shared.request(Side::Client, &request.id, &request.method, &params.encode(revision));
                Handled::Done
            }
            _ => Handled::Forward,
        }
    }

    fn warn_of_terminals(&mut self, shared: &mut Shared) {
        if self.warned.insert("terminals") {
            let reason =
                "the client's dialect has no terminals; it keeps what it does not know and shows nothing";
            shared.lose(None, "terminal_update", "update", reason, Severity::Major, Side::Client);
        }
    }
}

fn session_of(params: Option<&Raw<'_>>) -> Option<String> {
    Some(params?.get("sessionId")?.as_text()?.into_owned())
}
