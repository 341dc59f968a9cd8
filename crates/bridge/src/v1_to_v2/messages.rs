//! Messages. Version 1 can only add to them.

use std::collections::VecDeque;

use crate::map::HashMap;

use switchboard_protocol::{Field, Meta, Text, Wire, WireFormat, v1, v2};

use super::Session;
use crate::convert::content::{plain_text, to_v1};
use crate::fingerprint::{ContentFingerprint, FingerprintPart, hash_of};
use crate::loss::{At, Notes, Severity};
use crate::shared::Shared;
use crate::{Policy, Side};

/// Who speaks, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Role {
    User,
    Agent,
    Thought,
}

impl Role {
    fn chunk_tag(self) -> &'static str {
        match self {
            Role::User => "user_message_chunk",
            Role::Agent => "agent_message_chunk",
            Role::Thought => "agent_thought_chunk",
        }
    }

    fn message_tag(self) -> &'static str {
        match self {
            Role::User => "user_message",
            Role::Agent => "agent_message",
            Role::Thought => "agent_thought",
        }
    }
}

/// What the client has of each message.
#[derive(Debug, Default)]
pub(super) struct Messages {
    known: HashMap<Role, HashMap<String, Delivered>>,
    order: VecDeque<(Role, String)>,
    /// What waits for the agent to rest, in the order in which it began, and its size.
    held: Vec<Held>,
    held_bytes: usize,
}

/// What the client is to be told of a message later.
#[derive(Debug)]
struct Held {
    role: Role,
    message_id: String,
    blocks: Vec<v1::ContentBlock<'static>>,
    meta: Option<Meta<'static>>,
    /// Whether the blocks are the whole message, not what is added to it.
    whole: bool,
}

#[derive(Debug, Default)]
struct Delivered {
    pieces: ContentFingerprint,
    /// How often the agent took back what it had said.
    replaced: u32,
    /// The message's id at the client, where it had to become another.
    shown_as: Option<String>,
}

impl Messages {
    fn open(&mut self, role: Role, id: &str, limit: usize) -> &mut Delivered {
        let known = self.known.entry(role).or_default();
        if !known.contains_key(id) {
            self.order.push_back((role, id.to_owned()));
            known.insert(id.to_owned(), Delivered::default());
            if self.order.len() > limit
                && let Some((role, oldest)) = self.order.pop_front()
                && let Some(known) = self.known.get_mut(&role)
            {
                known.remove(&oldest);
            }
        }
        self.known.entry(role).or_default().entry(id.to_owned()).or_default()
    }

    /// Keeps content back. Whether there is still room for more.
    fn hold(&mut self, held: Held, limit: usize) -> bool {
        self.held_bytes += held.blocks.iter().map(|block| block.encode(WireFormat::V1).len()).sum::<usize>();
        let known = self
            .held
            .iter_mut()
            .rev()
            .find(|known| known.role == held.role && known.message_id == held.message_id);
        match known {
            Some(known) if held.whole => *known = held,
            Some(known) => {
                known.meta = held.meta.or(known.meta.take());
                for block in held.blocks {
                    match (known.blocks.last_mut(), plain_text(&block)) {
                        (Some(v1::ContentBlock::Text(last)), Some(text)) if is_bare(last) => {
                            last.text.to_mut().push_str(text);
                        }
                        _ => known.blocks.push(block),
                    }
                }
            }
            None => self.held.push(held),
        }
        self.held_bytes <= limit
    }

    fn get_mut(&mut self, role: Role, id: &str) -> Option<&mut Delivered> {
        self.known.get_mut(&role)?.get_mut(id)
    }
}

fn is_bare(text: &v1::TextContent<'_>) -> bool {
    text.annotations.is_none() && text.meta.is_none() && text.extra.is_empty()
}

fn push(pieces: &mut ContentFingerprint, block: &v1::ContentBlock<'_>) {
    match plain_text(block) {
        Some(text) => pieces.push(FingerprintPart::Text(text)),
        None => pieces.push(FingerprintPart::Other(hash_of(&block.encode(WireFormat::V1)))),
    }
}

fn send(
    role: Role,
    session_id: &str,
    message_id: &str,
    block: v1::ContentBlock<'_>,
    meta: Option<Meta<'_>>,
    shared: &mut Shared,
) {
    let chunk = v1::ContentChunk {
        message_id: Some(Text::Borrowed(message_id)),
        meta,
        ..v1::ContentChunk::new(block)
    };
    let update = match role {
        Role::User => v1::SessionUpdate::UserMessageChunk(chunk),
        Role::Agent => v1::SessionUpdate::AgentMessageChunk(chunk),
        Role::Thought => v1::SessionUpdate::AgentThoughtChunk(chunk),
    };
    let params = v1::SessionNotification::new(Text::Borrowed(session_id), update);
    shared.send_update(Side::Client, &params, WireFormat::V1);
}

impl Session {
    pub(super) fn chunk(&mut self, role: Role, id: &str, chunk: v2::ContentChunk<'_>, shared: &mut Shared) {
        if role == Role::User
            && self.suppresses(&chunk.message_id, std::slice::from_ref(&chunk.content), false)
        {
            return;
        }
        let mut notes = Notes::default();
        let block = to_v1(chunk.content, &At::key("content"), &mut notes);
        shared.note(Some(id), role.chunk_tag(), notes.entries, Side::Client);
        let Ok(block) = block else { return };
        if shared.options.hold_messages && role != Role::User {
            return self.hold(role, id, &chunk.message_id, Some(block), chunk.meta, false, shared);
        }
        self.add(role, id, &chunk.message_id, block, chunk.meta, shared);
    }

    /// Shows more of a message.
    fn add(
        &mut self,
        role: Role,
        id: &str,
        message_id: &str,
        block: v1::ContentBlock<'_>,
        meta: Option<Meta<'_>>,
        shared: &mut Shared,
    ) {
        let limit = shared.options.limits.entries;
        if self.messages.get_mut(role, message_id).is_none() {
            self.messages.open(role, message_id, limit);
        }
        let Some(delivered) = self.messages.get_mut(role, message_id) else { return };
        push(&mut delivered.pieces, &block);
        let shown = delivered.shown_as.as_deref().unwrap_or(message_id);
        send(role, id, shown, block, meta, shared);
    }

    /// Keeps content of a message back until the agent rests.
    #[allow(clippy::too_many_arguments, reason = "a message, and what becomes of it")]
    fn hold<'b>(
        &mut self,
        role: Role,
        id: &str,
        message_id: &str,
        blocks: impl IntoIterator<Item = v1::ContentBlock<'b>>,
        meta: Option<Meta<'_>>,
        whole: bool,
        shared: &mut Shared,
    ) {
        let limit = shared.options.limits.content;
        let held = Held {
            role,
            message_id: message_id.to_owned(),
            blocks: blocks.into_iter().map(Wire::into_owned).collect(),
            meta: meta.map(Wire::into_owned),
            whole,
        };
        if !self.messages.hold(held, limit) {
            let reason = format!("shown before the agent rests, for a session may hold {limit} bytes back");
            self.lose(id, role.message_tag(), "content", reason, Severity::Minor, shared);
            self.release(id, shared);
        }
    }

    /// Shows what was kept back.
    pub(super) fn release(&mut self, id: &str, shared: &mut Shared) {
        self.messages.held_bytes = 0;
        for held in std::mem::take(&mut self.messages.held) {
            let Held { role, message_id, blocks, meta, whole } = held;
            if !whole {
                for block in blocks {
                    self.add(role, id, &message_id, block, meta.clone(), shared);
                }
            } else if blocks.is_empty() {
                self.withdraw(role, id, &message_id, shared);
            } else {
                self.replace(role, id, &message_id, blocks, meta.as_ref(), shared);
            }
        }
    }

    pub(super) fn message(
        &mut self,
        role: Role,
        id: &str,
        message: v2::MessageUpdate<'_>,
        shared: &mut Shared,
    ) {
        let tag = role.message_tag();
        let message_id = &*message.message_id;
        if role == Role::User {
            let blocks = message.content.value().map_or(&[][..], Vec::as_slice);
            let has_content = !message.content.is_keep() && !blocks.is_empty();
            if has_content && self.suppresses(message_id, blocks, true) {
                return;
            }
        }
        let meta = match message.meta {
            Field::Set(meta) => Some(meta),
            Field::Keep => None,
            Field::Clear => {
                self.lose(id, tag, "_meta", "version 1 cannot clear metadata", Severity::Minor, shared);
                None
            }
        };
        let limit = shared.options.limits.entries;
        let holds = shared.options.hold_messages && role != Role::User;
        match message.content {
            Field::Keep => {
                self.messages.open(role, message_id, limit);
                if meta.is_some() {
                    let reason = "version 1 cannot change the metadata of a message";
                    self.lose(id, tag, "_meta", reason, Severity::Minor, shared);
                }
            }
            Field::Clear if holds => self.hold(role, id, message_id, [], meta, true, shared),
            Field::Clear => self.withdraw(role, id, message_id, shared),
            Field::Set(blocks) if blocks.is_empty() && !holds => self.withdraw(role, id, message_id, shared),
            Field::Set(blocks) => {
                let mut notes = Notes::default();
                let at = At::key("content");
                let convert = |(index, block)| to_v1(block, &at.item(index), &mut notes);
                let converted: Result<Vec<_>, _> = blocks.into_iter().enumerate().map(convert).collect();
                shared.note(Some(id), tag, notes.entries, Side::Client);
                let Ok(blocks) = converted else { return };
                if holds {
                    self.hold(role, id, message_id, blocks, meta, true, shared);
                } else {
                    self.replace(role, id, message_id, blocks, meta.as_ref(), shared);
                }
            }
        }
    }

    /// The agent took back what it had said.
    fn withdraw(&mut self, role: Role, id: &str, message_id: &str, shared: &mut Shared) {
        let delivered = self.messages.open(role, message_id, shared.options.limits.entries);
        if delivered.pieces.is_empty() {
            return;
        }
        delivered.pieces.clear();
        delivered.replaced += 1;
        let notice_id = format!("{message_id}~r{}", delivered.replaced);
        delivered.shown_as = Some(format!("{message_id}~r{}", delivered.replaced + 1));
        delivered.replaced += 1;
        let reason = "version 1 cannot take back what was shown";
        self.lose(id, role.message_tag(), "content", reason, Severity::Major, shared);
        if shared.options.policy != Policy::Quiet {
            let words = v1::ContentBlock::text("[The agent withdrew its previous message]");
            send(role, id, &notice_id, words, None, shared);
        }
    }

    /// The agent said the whole message again.
    fn replace(
        &mut self,
        role: Role,
        id: &str,
        message_id: &str,
        blocks: Vec<v1::ContentBlock<'_>>,
        meta: Option<&Meta<'_>>,
        shared: &mut Shared,
    ) {
        let delivered = self.messages.open(role, message_id, shared.options.limits.entries);
        let hashes: Vec<u64> = blocks.iter().map(|block| hash_of(&block.encode(WireFormat::V1))).collect();
        let units = blocks.iter().zip(&hashes).map(|(block, hash)| match plain_text(block) {
            Some(text) => FingerprintPart::Text(text),
            None => FingerprintPart::Other(*hash),
        });
        let fresh = delivered.pieces.is_empty();
        if let Some(rest) = delivered.pieces.rest(units) {
            let shown = delivered.shown_as.clone().unwrap_or_else(|| message_id.to_owned());
            for (index, mut block) in blocks.into_iter().enumerate().skip(if fresh { 0 } else { rest.first })
            {
                if index == rest.first && rest.skip > 0 {
                    let Some(text) = plain_text(&block) else { continue };
                    block = v1::ContentBlock::text(text[rest.skip..].to_owned());
                }
                push(&mut delivered.pieces, &block);
                send(role, id, &shown, block, meta.cloned(), shared);
            }
            return;
        }
        delivered.pieces.clear();
        delivered.replaced += 1;
        let shown = format!("{message_id}~r{}", delivered.replaced);
        delivered.shown_as = Some(shown.clone());
        for block in &blocks {
            push(&mut delivered.pieces, block);
        }
        let reason = "version 1 cannot replace what was shown; the new text follows as another message";
        self.lose(id, role.message_tag(), "content", reason, Severity::Major, shared);
        let mut notice = Some("[The agent replaced its previous message]")
            .filter(|_| shared.options.policy != Policy::Quiet);
        for mut block in blocks {
            if let Some(notice) = notice.take() {
                match &mut block {
                    v1::ContentBlock::Text(text) => {
                        text.text = Text::Owned(format!("{notice}\n\n{}", text.text));
                    }
                    _ => send(role, id, &shown, v1::ContentBlock::text(notice), None, shared),
                }
            }
            send(role, id, &shown, block, meta.cloned(), shared);
        }
    }
}
