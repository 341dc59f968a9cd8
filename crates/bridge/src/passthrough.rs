//! Passthrough for two sides of the same version: lines are forwarded unchanged, except where two dialects of
//! version 2 spell an element differently.

use std::collections::HashMap;

use memchr::memmem::Finder;
use switchboard_acp::rpc::{Message, Response, RpcError, is_batch};
use switchboard_acp::{Meta, Text, Wire, WireFormat, v2};

use crate::bridge::Handled;
use crate::context::{Context, session_of};
use crate::convert::permission;
use crate::loss::Severity;
use crate::metadata::Metadata;
use crate::options::Dialect;
use crate::pending_work::{self, PendingWork, RequestKind};
use crate::sessions::Size;
use crate::{Side, Version};

/// Maximum number of tracked user messages since a prompt.
const REMEMBERED: usize = 1024;

/// Forwards lines between two sides of the same version.
#[derive(Debug)]
pub(crate) struct Passthrough {
    pub(crate) context: Context,
    version: Version,
    words: Words,
    /// Pending requests and busy sessions of the client, which fail when the agent exits.
    work: PendingWork,
    /// Last user message of each session since its prompt.
    echoes: HashMap<String, String>,
    minted: u64,
    metadata: Metadata,
}

/// Substrings that lines are searched for, because most lines need not be parsed.
#[derive(Debug)]
struct Words {
    method: Finder<'static>,
    id: Finder<'static>,
    state: Finder<'static>,
    user_message: Finder<'static>,
    git_patch: Finder<'static>,
    commands: Finder<'static>,
    metadata: Finder<'static>,
    terminal: Finder<'static>,
    command: Finder<'static>,
    permission: Finder<'static>,
    tool_call: Finder<'static>,
    line: Finder<'static>,
}

impl Words {
    fn new() -> Self {
        Words {
            method: Finder::new("\"method\""),
            id: Finder::new("\"id\""),
            state: Finder::new("\"state_update\""),
            user_message: Finder::new("\"user_message"),
            git_patch: Finder::new("\"git_patch\""),
            commands: Finder::new("\"availableCommands\""),
            metadata: Finder::new("\"_meta\""),
            terminal: Finder::new("\"terminal"),
            command: Finder::new("\"command\""),
            permission: Finder::new("\"session/request_permission\""),
            line: Finder::new("\"line\""),
            tool_call: Finder::new("\"tool_call_update\""),
        }
    }
}

/// Returns the tag of an update if its line has the usual key order.
fn kind_of_update(line: &[u8]) -> Option<&[u8]> {
    // A string with an escape does not end at the next quote.
    let end = |text: &[u8]| memchr::memchr2(b'"', b'\\', text);
    let id = line.strip_prefix(br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":""#)?;
    let kind = id[end(id)?..].strip_prefix(br#"","update":{"sessionUpdate":""#)?;
    let (kind, behind) = kind.split_at(end(kind)?);
    behind.starts_with(b"\"").then_some(kind)
}

/// Returns whether an update is a chunk of the agent's message or thought. Most updates are, and both
/// dialects spell them the same way.
fn is_chunk_of_agent(kind: &[u8]) -> bool {
    matches!(kind, b"agent_message_chunk" | b"agent_thought_chunk")
}

fn has(line: &str, word: &Finder<'_>) -> bool {
    word.find(line.as_bytes()).is_some()
}

impl Passthrough {
    pub(crate) fn new(context: Context, version: Version, work: PendingWork) -> Self {
        Passthrough {
            context,
            version,
            words: Words::new(),
            work: work.in_version(version),
            echoes: HashMap::new(),
            minted: 0,
            metadata: Metadata::default(),
        }
    }

    /// Returns the size of the retained state.
    pub(crate) fn size(&self) -> Size {
        let (entries, bytes) = self.metadata.size();
        Size { sessions: 0, entries, bytes }
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    pub(crate) fn handle(&mut self, from: Side, line: &str) -> Handled {
        if is_batch(line) {
            // Messages in an array are forwarded together.
            self.work.look(from, line, &mut self.context);
            return Handled::Forward;
        }
        match from {
            Side::Client => {
                if has(line, &self.words.method) && has(line, &self.words.id) {
                    return self.client_request(line);
                }
                Handled::Forward
            }
            Side::Agent => {
                // Responses before calls: most lines are neither, and the substring search decides that
                // without parsing.
                if self.work.is_waiting()
                    && pending_work::may_answer(line, &self.words.id)
                    && let Ok(Message::Response(response)) = Message::decode(line, WireFormat::Any)
                {
                    return self.answer(&response);
                }
                // States are followed before the line is rewritten: whether a session is busy does not depend
                // on the dialect.
                if has(line, &self.words.state) {
                    self.work.state(line, &mut self.context);
                }
                if !self.may_differ() || !has(line, &self.words.method) {
                    return Handled::Forward;
                }
                self.agent_call(line)
            }
        }
    }

    /// Returns whether a line can be forwarded without parsing or tracking it. Only true for frequent lines
    /// that show this in their first bytes.
    pub(crate) fn is_passthrough(&self, from: Side, line: &[u8]) -> bool {
        if from == Side::Client {
            return false;
        }
        let Some(kind) = kind_of_update(line) else { return false };
        if self.may_differ() {
            is_chunk_of_agent(kind) && !self.may_rewrite_metadata()
        } else {
            // Session states are tracked.
            kind != b"state_update"
        }
    }

    /// Returns whether metadata of the agent may have to be merged or cleared.
    fn may_rewrite_metadata(&self) -> bool {
        let peers = &self.context.peers;
        peers.agent_dialect.is_some() && peers.client_dialect.is_some()
    }

    /// Returns whether the agent's lines may have to be rewritten.
    fn may_differ(&self) -> bool {
        let peers = &self.context.peers;
        let same = peers.client_dialect.is_some() && peers.client_dialect == peers.agent_dialect;
        self.version == Version::V2 && !same
    }

    fn agent_call(&mut self, line: &str) -> Handled {
        // The echo precedes the agent's response to the prompt, which needs its id.
        if self.work.has_prompts() && has(line, &self.words.user_message) {
            self.remember_echo(line);
        }
        let spelled = has(line, &self.words.git_patch) || has(line, &self.words.commands);
        if spelled
            && !self.context.peers.knows_agent()
            && let Ok(message) = Message::decode(line, WireFormat::Any)
        {
            self.context.peers.learn_from_agent(&message);
        }
        let peers = &self.context.peers;
        let differ = peers.agent_dialect.is_some()
            && peers.client_dialect.is_some()
            && peers.agent_dialect != peers.client_dialect;
        let about_terminals = peers.client_dialect == Some(Dialect::Spec)
            && (has(line, &self.words.terminal)
                || (!self.context.terminals.is_empty() && has(line, &self.words.tool_call)));
        let about_command = peers.client_dialect != Some(Dialect::Newest)
            && has(line, &self.words.command)
            && has(line, &self.words.permission);
        // Only one dialect has a line 0.
        let about_line =
            peers.client_dialect != Some(Dialect::Spec) && says_line_zero(line, &self.words.line);
        if spelled
            || about_terminals
            || about_command
            || about_line
            || (differ && has(line, &self.words.metadata))
        {
            return self.rewrite(line, differ);
        }
        Handled::Forward
    }

    pub(crate) fn agent_ended(&mut self, error: &RpcError<'static>) {
        let limit = self.context.options.limits.requests;
        let work = std::mem::replace(&mut self.work, PendingWork::new(limit));
        work.agent_ended(error, &mut self.context);
    }

    fn client_request(&mut self, line: &str) -> Handled {
        let Ok(Message::Request(request)) = Message::decode(line, WireFormat::Any) else {
            return Handled::Forward;
        };
        // Learned before the request is counted: a refused request shows the dialect as well.
        self.context.peers.learn_from_client(&request);
        if !self.work.ask(&request) {
            self.context.refuse_full(Side::Client, &request.id);
            return Handled::Done;
        }
        if self.version == Version::V2
            && request.method == "session/prompt"
            && let Some(session) = session_of(request.params.as_ref())
        {
            // An echo of an earlier prompt must not become the id of this one.
            self.echoes.remove(&session);
        }
        Handled::Forward
    }

    fn remember_echo(&mut self, line: &str) {
        let Ok(Message::Notification(notification)) = Message::decode(line, WireFormat::Any) else { return };
        let Some(params) = &notification.params else { return };
        let id = params.get("update").and_then(|update| update.text("messageId"));
        if let (Some(session), Some(id)) = (session_of(Some(params)), id)
            && self.echoes.len() < REMEMBERED
        {
            self.echoes.insert(session, id);
        }
    }

    /// Adds the message id to the response to a prompt, which the newest dialect requires and the other does
    /// not send.
    fn answer(&mut self, response: &Response<'_>) -> Handled {
        let Some(RequestKind::Prompt { session, .. }) = self.work.answered(response) else {
            return Handled::Forward;
        };
        if self.version == Version::V1 {
            return Handled::Forward;
        }
        let Ok(result) = &response.outcome else { return Handled::Forward };
        let tells_id = result.get("messageId").is_some();
        self.context.peers.learn_from_answer(result);
        if tells_id || self.context.peers.client_dialect == Some(Dialect::Spec) {
            return Handled::Forward;
        }
        let id = self.echoes.remove(&session).unwrap_or_else(|| {
            self.minted += 1;
            let reason = "the agent does not send the id of the accepted message";
            self.context.report_loss(
                Some(&session),
                "session/prompt",
                "/result/messageId",
                reason,
                Severity::Guess,
                Side::Client,
            );
            format!("b-user-{}{}", self.context.salt, self.minted)
        });
        let added = (Text::Borrowed("messageId"), crate::convert::meta::text(&id));
        let entries = result.entries().filter(|(key, _)| key != "messageId").chain([added]);
        let result = Meta::from_entries(entries);
        self.context.respond(Side::Client, &response.id, result.as_raw(), &response.extra);
        Handled::Done
    }

    /// Rewrites an update in the client's dialect.
    fn rewrite(&mut self, line: &str, differ: bool) -> Handled {
        let client = self.context.peers.client_dialect;
        let Ok(message) = Message::decode(line, WireFormat::Any) else { return Handled::Forward };
        match message {
            Message::Notification(notification) if notification.method == "session/update" => {
                let Ok(params) =
                    v2::UpdateSessionNotification::decode(notification.params_text(), WireFormat::Any)
                else {
                    return Handled::Forward;
                };
                let v2::UpdateSessionNotification { session_id, mut update, meta, extra, more: _ } = params;
                // An update that clears metadata precedes the update that sets it, because the other dialect
                // merges.
                if let Some(client) = client.filter(|_| differ)
                    && let Some(first) = self.metadata.adjust(&session_id, &mut update, client)
                {
                    self.context.update_v2(&session_id, first);
                }
                if std::mem::take(&mut self.metadata.evicted) {
                    let reason = "the limit of tracked metadata is reached: earlier metadata is dropped and not merged";
                    self.context.report_eviction(&session_id, reason.to_owned(), Severity::Minor);
                }
                self.context.begin_update(&session_id, meta, extra, &notification.extra);
                self.context.update_v2(&session_id, update);
                self.context.end_update();
                Handled::Done
            }
            Message::Request(request) if request.method == "session/request_permission" => {
                let Ok(mut params) =
                    v2::RequestPermissionRequest::decode(request.params_text(), WireFormat::Any)
                else {
                    return Handled::Forward;
                };
                match &mut params.subject {
                    Some(v2::RequestPermissionSubject::ToolCall(subject)) => {
                        self.context.show_terminals(&params.session_id, &mut subject.tool_call);
                    }
                    // One dialect does not know this subject and would show a question without one.
                    Some(v2::RequestPermissionSubject::Command(subject))
                        if client != Some(Dialect::Newest) =>
                    {
                        let words = permission::command_in_words(subject);
                        let description = params.description.take();
                        let description =
                            description.map_or(words.clone(), |said| format!("{said}\n\n{words}"));
                        params.description = Some(Text::Owned(description));
                    }
                    _ => {}
                }
                self.context.request(Side::Client, &request.id, &request.method, &params, &request.extra);
                Handled::Done
            }
            _ => Handled::Forward,
        }
    }
}

/// Returns whether any key `line` has the value 0.
fn says_line_zero(line: &str, key: &Finder<'_>) -> bool {
    key.find_iter(line.as_bytes()).any(|place| {
        let rest = line[place + key.needle().len()..].trim_start();
        let value = rest.strip_prefix(':').map(str::trim_start);
        let after = value.and_then(|value| value.strip_prefix('0'));
        after.is_some_and(|after| {
            !after.starts_with(|next: char| next.is_ascii_digit() || ".eE".contains(next))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::kind_of_update;

    #[test]
    fn the_kind_of_an_update_is_known_where_it_is_spelled_as_usual() {
        let kind =
            |line: &str| kind_of_update(line.as_bytes()).map(|kind| str::from_utf8(kind).unwrap().to_owned());
        let line = |id: &str, update: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{id}","update":{{{update}}}}}}}"#
            )
        };
        let chunk = r#""sessionUpdate":"agent_message_chunk","messageId":"m""#;
        assert_eq!(kind(&line("s", chunk)).as_deref(), Some("agent_message_chunk"));
        let hidden =
            r#""sessionUpdate":"tool_call_update","rawInput":{"sessionUpdate":"agent_message_chunk"}"#;
        assert_eq!(kind(&line("s", hidden)).as_deref(), Some("tool_call_update"));
        for other in [
            line("s", r#""sessionUpdate":"agent_message_chunk"#),
            line("s", r#""sessionUpdate":"state\u005fupdate""#),
            line("s", r#""messageId":"m","sessionUpdate":"agent_message_chunk""#),
            line(r#"a\","update":{"sessionUpdate":"agent_message_chunk","x":"#, chunk),
            line("s", &format!("{chunk}, ")).replace("\"jsonrpc\":", "\"jsonrpc\": "),
            line("s", chunk).replace("session/update", "session/other"),
        ] {
            assert_eq!(kind(&other), None, "{other}");
        }
    }
}
