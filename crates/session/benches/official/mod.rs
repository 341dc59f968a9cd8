//! A straightforward fold on the official types: a hash map for each kind of entry, with moved values.

use std::borrow::Cow;
use std::collections::HashMap;

use agent_client_protocol_schema::MaybeUndefined;
use agent_client_protocol_schema::v2::{self, SessionUpdate};
use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct OfficialEnvelope<'a> {
    #[serde(borrow, rename = "method")]
    _method: Cow<'a, str>,
    pub(crate) params: v2::UpdateSessionNotification,
}

#[derive(Default)]
pub(crate) struct OfficialSession {
    messages: HashMap<(u8, String), Message>,
    calls: HashMap<String, Call>,
    plans: HashMap<String, v2::PlanUpdateContent>,
    usage: Option<v2::UsageUpdate>,
}

#[derive(Default)]
struct Message {
    content: Vec<v2::ContentBlock>,
    meta: Option<v2::Meta>,
}

#[derive(Default)]
struct Call {
    title: Option<String>,
    kind: Option<v2::ToolKind>,
    status: Option<v2::ToolCallStatus>,
    content: Vec<v2::ToolCallContent>,
    locations: Vec<v2::ToolCallLocation>,
    raw_input: Option<serde_json::Value>,
    raw_output: Option<serde_json::Value>,
}

fn patch<T>(stored: &mut Option<T>, field: MaybeUndefined<T>) {
    match field {
        MaybeUndefined::Undefined => {}
        MaybeUndefined::Null => *stored = None,
        MaybeUndefined::Value(value) => *stored = Some(value),
    }
}

fn patch_list<T>(stored: &mut Vec<T>, field: MaybeUndefined<Vec<T>>) {
    match field {
        MaybeUndefined::Undefined => {}
        MaybeUndefined::Null => stored.clear(),
        MaybeUndefined::Value(value) => *stored = value,
    }
}

impl OfficialSession {
    pub(crate) fn len(&self) -> usize {
        self.messages.len() + self.calls.len()
    }

    pub(crate) fn apply(&mut self, update: SessionUpdate) {
        match update {
            SessionUpdate::UserMessageChunk(chunk) => self.chunk(0, chunk),
            SessionUpdate::AgentMessageChunk(chunk) => self.chunk(1, chunk),
            SessionUpdate::AgentThoughtChunk(chunk) => self.chunk(2, chunk),
            SessionUpdate::UserMessage(update) => {
                self.message(0, &update.message_id, update.content, update.meta);
            }
            SessionUpdate::AgentMessage(update) => {
                self.message(1, &update.message_id, update.content, update.meta);
            }
            SessionUpdate::ToolCallUpdate(update) => {
                let call = self.calls.entry(update.tool_call_id.0.to_string()).or_default();
                patch(&mut call.title, update.title);
                patch(&mut call.kind, update.kind);
                patch(&mut call.status, update.status);
                patch_list(&mut call.content, update.content);
                patch_list(&mut call.locations, update.locations);
                patch(&mut call.raw_input, update.raw_input);
                patch(&mut call.raw_output, update.raw_output);
            }
            SessionUpdate::ToolCallContentChunk(chunk) => {
                let call = self.calls.entry(chunk.tool_call_id.0.to_string()).or_default();
                call.content.push(chunk.content);
            }
            SessionUpdate::PlanUpdate(update) => {
                if let v2::PlanUpdateContent::Items(items) = &update.plan {
                    self.plans.insert(items.plan_id.0.to_string(), update.plan);
                }
            }
            SessionUpdate::UsageUpdate(usage) => self.usage = Some(usage),
            other => panic!("not in the stream: {other:?}"),
        }
    }

    fn chunk(&mut self, kind: u8, chunk: v2::ContentChunk) {
        let message = self.messages.entry((kind, chunk.message_id.0.to_string())).or_default();
        message.content.push(chunk.content);
    }

    fn message(
        &mut self,
        kind: u8,
        id: &v2::MessageId,
        content: MaybeUndefined<Vec<v2::ContentBlock>>,
        meta: MaybeUndefined<v2::Meta>,
    ) {
        let message = self.messages.entry((kind, id.0.to_string())).or_default();
        patch_list(&mut message.content, content);
        patch(&mut message.meta, meta);
    }
}
