//! Messages. Version 1 can only append to them.

use std::collections::VecDeque;

use crate::map::HashMap;

use switchboard_acp::{Field, Text, Wire, WireFormat, v1, v2};

use super::Active;
use crate::LossPolicy;
use crate::convert::content::plain_text;
use crate::convert::message::{Message, Rest, chunk_to_v1, message_to_v1};
use crate::fingerprint::{ContentFingerprint, FingerprintPart};
use crate::loss::Severity;
use crate::own_ids::OwnIds;
use crate::role::Role;

/// Delivered state of each message.
#[derive(Debug, Default)]
pub(super) struct Messages {
    known: HashMap<Role, HashMap<String, Delivered>>,
    order: VecDeque<(Role, String)>,
    /// Messages held until the agent is idle, in the order in which they began, and their size.
    held: Vec<HeldMessage>,
    held_bytes: usize,
    /// Ids that the bridge created for the client.
    own: OwnIds,
    /// Set if messages were evicted since this was last read.
    pub(super) evicted: bool,
}

/// A message that is delivered later.
#[derive(Debug)]
struct HeldMessage {
    role: Role,
    message_id: String,
    blocks: Vec<Block<'static>>,
    /// Metadata of a complete message; `None` for chunks to append.
    whole: Option<Rest<'static>>,
}

/// A block with the metadata of its chunk.
type Block<'a> = (v1::ContentBlock<'a>, Rest<'a>);

#[derive(Debug, Default)]
struct Delivered {
    pieces: ContentFingerprint,
    /// Number of times the agent replaced the message.
    replaced: u32,
    /// The client's id of the message if it differs from the agent's.
    shown_as: Option<String>,
}

impl Messages {
    fn open(&mut self, role: Role, id: &str, limit: usize) -> &mut Delivered {
        if !self.known.get(&role).is_some_and(|known| known.contains_key(id)) {
            // The new entry is counted before the oldest is removed, so the limit holds at any time.
            self.order.push_back((role, id.to_owned()));
            if self.order.len() > limit
                && let Some((role, oldest)) = self.order.pop_front()
                && let Some(known) = self.known.get_mut(&role)
            {
                known.remove(&oldest);
                self.evicted = true;
            }
        }
        self.known.entry(role).or_default().entry_ref(id).or_default()
    }

    /// Drops all messages. Ids that the bridge created are not reused.
    pub(super) fn forget(&mut self) {
        *self = Messages { own: std::mem::take(&mut self.own), ..Messages::default() };
    }

    pub(super) fn len(&self) -> usize {
        self.order.len() + self.own.len()
    }

    /// Creates an id that neither the agent nor the bridge has used.
    pub(super) fn make_id(&mut self, next: impl FnMut() -> String) -> String {
        let known = &self.known;
        // Only the bridge's own ids are stored for long; the agent's ids are checked among the known
        // messages.
        self.own.make(next, |id| known.values().any(|known| known.contains_key(id)))
    }

    /// Creates the next id for a message that is replaced.
    fn next_id(&mut self, salt: &str, role: Role, message_id: &str) -> String {
        let mut count = self.get_mut(role, message_id).map_or(0, |delivered| delivered.replaced);
        // The counter may skip ids that are taken. Store the last one, so that later replacements continue
        // from it.
        let id = self.make_id(|| {
            count += 1;
            format!("{message_id}~r{salt}{count}")
        });
        if let Some(delivered) = self.get_mut(role, message_id) {
            delivered.replaced = count;
        }
        id
    }

    /// Returns the bytes of held messages and of ids.
    pub(super) fn bytes(&self) -> usize {
        self.held_bytes + self.order.iter().map(|(_, id)| 2 * id.len()).sum::<usize>()
    }

    /// Holds content. Returns whether the limit allows more.
    fn hold(&mut self, held: HeldMessage, limit: usize) -> bool {
        self.held_bytes +=
            held.blocks.iter().map(|(block, _)| block.encode(WireFormat::V1).len()).sum::<usize>();
        let known = self
            .held
            .iter_mut()
            .rev()
            .find(|known| known.role == held.role && known.message_id == held.message_id);
        match known {
            // A complete message replaces everything held of it.
            Some(known) if held.whole.is_some() => *known = held,
            Some(known) => {
                for (block, rest) in held.blocks {
                    // Adjacent plain text is joined, so that many small chunks do not become many updates.
                    match (known.blocks.last_mut(), plain_text(&block)) {
                        (Some((v1::ContentBlock::Text(last), beside)), Some(text))
                            if is_bare(last) && beside.is_empty() && rest.is_empty() =>
                        {
                            last.text.to_mut().push_str(text);
                        }
                        _ => known.blocks.push((block, rest)),
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

fn part<'b>(block: &'b v1::ContentBlock<'_>) -> FingerprintPart<'b> {
    FingerprintPart::of(block, plain_text(block))
}

/// Returns the update that shows a block.
fn shown<'a>(role: Role, message_id: &'a str, (content, rest): Block<'a>) -> v1::SessionUpdate<'a> {
    let Rest { meta, extra } = rest;
    let chunk = v1::ContentChunk {
        content,
        message_id: Some(Text::Borrowed(message_id)),
        meta,
        extra,
        more: switchboard_acp::More,
    };
    role.chunk_v1(chunk)
}

impl Active<'_> {
    pub(super) fn chunk(&mut self, role: Role, mut chunk: v2::ContentChunk<'_>) {
        // An id of the agent that equals one of the bridge's gets a suffix.
        chunk.message_id = self.session.messages.own.disambiguate(chunk.message_id);
        let tag = role.chunk_tag();
        // The client shows its own prompt. Its echo by the agent would appear twice.
        if role == Role::User
            && self.suppresses(&chunk.message_id, std::slice::from_ref(&chunk.content), false)
        {
            let v2::ContentChunk { message_id: _, content, meta, extra, more: _ } = chunk;
            return self.report_lost_echo(tag, &[content], (meta.as_ref(), &extra));
        }
        let Some(chunk) = self.convert_update(tag, |cx| chunk_to_v1(chunk, cx)) else { return };
        let v1::ContentChunk { content, message_id, meta, extra, more: _ } = chunk;
        let (message_id, rest) = (message_id.unwrap_or_default(), Rest { meta, extra });
        // User messages are never held: they mark where the turn starts.
        if self.context.options.hold_messages && role != Role::User {
            return self.hold(role, &message_id, [(content, rest)], None);
        }
        self.add(role, &message_id, (content, rest));
    }

    /// Sends one more block of a message.
    fn add(&mut self, role: Role, message_id: &str, block: Block<'_>) {
        let delivered = self.session.messages.open(role, message_id, self.context.options.limits.entries);
        // Fingerprint before sending: a later complete message is compared with the delivered content.
        delivered.pieces.push(part(&block.0));
        let shown_as = delivered.shown_as.as_deref().unwrap_or(message_id);
        self.context.update_v1(self.id, shown(role, shown_as, block));
    }

    /// Holds content of a message until the agent is idle.
    fn hold<'b>(
        &mut self,
        role: Role,
        message_id: &str,
        blocks: impl IntoIterator<Item = Block<'b>>,
        whole: Option<Rest<'_>>,
    ) {
        let limit = self.context.options.limits.content;
        let own =
            |rest: Rest<'_>| Rest { meta: rest.meta.map(Wire::into_owned), extra: rest.extra.into_owned() };
        let held = HeldMessage {
            role,
            message_id: message_id.to_owned(),
            blocks: blocks.into_iter().map(|(block, rest)| (block.into_owned(), own(rest))).collect(),
            whole: whole.map(own),
        };
        // The limit is reached: show everything now instead of dropping it.
        if !self.session.messages.hold(held, limit) {
            let reason =
                format!("shown before the agent is idle, because a session may hold at most {limit} bytes");
            self.report_loss(role.message_tag(), "/params/update/content", reason, Severity::Minor);
            self.release();
        }
    }

    /// Sends all held content.
    pub(super) fn release(&mut self) {
        // Reset first, because sending may hold content again.
        self.session.messages.held_bytes = 0;
        for held in std::mem::take(&mut self.session.messages.held) {
            let HeldMessage { role, message_id, blocks, whole } = held;
            match whole {
                None => {
                    for block in blocks {
                        self.add(role, &message_id, block);
                    }
                }
                // A held message with empty content is a clear.
                Some(rest) if blocks.is_empty() => self.clear_message(role, &message_id, &rest),
                Some(_) => self.replace(role, &message_id, blocks),
            }
        }
    }

    pub(super) fn whole_message(&mut self, role: Role, mut message: v2::MessageUpdate<'_>) {
        message.message_id = self.session.messages.own.disambiguate(message.message_id);
        let tag = role.message_tag();
        if role == Role::User {
            let blocks = message.content.value().map_or(&[][..], Vec::as_slice);
            if !blocks.is_empty() && self.suppresses(&message.message_id, blocks, true) {
                return self.report_lost_echo(tag, blocks, (message.meta.value(), &message.extra));
            }
        }
        let Some(message) = self.convert_update(tag, |cx| message_to_v1(message, cx)) else { return };
        let Message { id: message_id, content, rest } = message;
        let holds = self.context.options.hold_messages && role != Role::User;
        match content {
            // Metadata alone. The message is tracked, so that a later chunk has a fingerprint.
            Field::Keep => {
                self.session.messages.open(role, &message_id, self.context.options.limits.entries);
                self.report_lost_rest_of(role, &rest);
            }
            Field::Clear if holds => self.hold(role, &message_id, [], Some(rest)),
            Field::Clear => self.clear_message(role, &message_id, &rest),
            Field::Set(blocks) if blocks.is_empty() && !holds => {
                self.clear_message(role, &message_id, &rest);
            }
            Field::Set(blocks) => {
                let blocks: Vec<_> = blocks.into_iter().map(|block| (block, rest.clone())).collect();
                if holds {
                    self.hold(role, &message_id, blocks, Some(rest));
                } else {
                    self.replace(role, &message_id, blocks);
                }
            }
        }
    }

    /// Reports metadata of a message that no chunk can carry.
    fn report_lost_rest_of(&mut self, role: Role, rest: &Rest<'_>) {
        let reason = "version 1 has no message metadata without content";
        self.report_lost_rest(role.message_tag(), (rest.meta.as_ref(), &rest.extra), reason);
    }

    /// Handles a message that the agent cleared.
    fn clear_message(&mut self, role: Role, message_id: &str, rest: &Rest<'_>) {
        self.report_lost_rest_of(role, rest);
        let delivered = self.session.messages.open(role, message_id, self.context.options.limits.entries);
        // Nothing was shown, so there is nothing to clear.
        if delivered.pieces.is_empty() {
            return;
        }
        delivered.pieces.clear();
        // Two ids: one for the notice, one for content that follows. Both must differ from the cleared
        // message.
        let notice_id = self.session.messages.next_id(&self.context.salt, role, message_id);
        let shown_as = self.session.messages.next_id(&self.context.salt, role, message_id);
        if let Some(delivered) = self.session.messages.get_mut(role, message_id) {
            delivered.shown_as = Some(shown_as);
        }
        let reason = "version 1 cannot retract shown content";
        self.report_loss(role.message_tag(), "/params/update/content", reason, Severity::Major);
        if self.context.options.policy != LossPolicy::Quiet {
            let words = v1::ContentBlock::text("[The agent withdrew its previous message]");
            self.update(shown(role, &notice_id, (words, Rest::default())));
        }
    }

    /// Handles a complete message.
    fn replace(&mut self, role: Role, message_id: &str, blocks: Vec<Block<'_>>) {
        let delivered = self.session.messages.open(role, message_id, self.context.options.limits.entries);
        let fresh = delivered.pieces.is_empty();
        // The new content begins with the delivered one: only the rest is sent, with the same id.
        if let Some(rest) = delivered.pieces.rest(blocks.iter().map(|(block, _)| part(block))) {
            let shown_as = delivered.shown_as.clone().unwrap_or_else(|| message_id.to_owned());
            let first = if fresh { 0 } else { rest.first };
            // Nothing new: only the metadata of the repetition is lost.
            if first == blocks.len() {
                if let Some((_, unsaid)) = blocks.first() {
                    self.report_lost_rest_of(role, unsaid);
                }
                return;
            }
            for (index, (mut block, beside)) in blocks.into_iter().enumerate().skip(first) {
                // The first unsent block continues delivered text: skip the bytes that the client has.
                if index == rest.first && rest.skip > 0 {
                    let Some(text) = plain_text(&block) else { continue };
                    block = v1::ContentBlock::text(text[rest.skip..].to_owned());
                }
                delivered.pieces.push(part(&block));
                self.context.update_v1(self.id, shown(role, &shown_as, (block, beside)));
            }
            return;
        }
        // The content differs. Version 1 cannot replace it, so it is sent as a new message with a new id.
        delivered.pieces.clear();
        for (block, _) in &blocks {
            delivered.pieces.push(part(block));
        }
        let shown_as = self.session.messages.next_id(&self.context.salt, role, message_id);
        if let Some(delivered) = self.session.messages.get_mut(role, message_id) {
            delivered.shown_as = Some(shown_as.clone());
        }
        let reason = "version 1 cannot replace shown content; the new text follows as another message";
        self.report_loss(role.message_tag(), "/params/update/content", reason, Severity::Major);
        let mut notice = Some("[The agent replaced its previous message]")
            .filter(|_| self.context.options.policy != LossPolicy::Quiet);
        for (mut block, beside) in blocks {
            // The notice becomes part of the first text, so that no message consists of a notice alone.
            if let Some(notice) = notice.take() {
                match &mut block {
                    v1::ContentBlock::Text(text) => {
                        text.text = Text::Owned(format!("{notice}\n\n{}", text.text));
                    }
                    _ => {
                        let words = v1::ContentBlock::text(notice);
                        self.update(shown(role, &shown_as, (words, Rest::default())));
                    }
                }
            }
            self.update(shown(role, &shown_as, (block, beside)));
        }
    }
}
