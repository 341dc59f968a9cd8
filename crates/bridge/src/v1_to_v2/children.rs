//! Output of sub-agents for a client without sub-agent support: shown in a tool call of the session that the
//! client opened.

use switchboard_acp::rpc::RpcError;
use switchboard_acp::{Diagnostic, Extra, Field, Raw, Text, Wire, WireFormat, v2};
use switchboard_session::{LinkedSession, NotLinked};

use super::subagents::{HeldUpdate, SessionRelation, ShownBy};
use super::{Active, V1ToV2};
use crate::context::without_cursor;
use crate::convert::message::Rest;
use crate::convert::tool_call::item_to_v1;
use crate::loss::Severity;
use crate::{Moment, Side};

/// Milliseconds a sub-agent without output waits for a tool call of its parent that refers to it.
const REFERENCE: u64 = 1000;

/// Reason for leaving out details of a sub-agent.
const NOT_SHOWN: &str = "the client sees sub-agents only as a tool call with text, titles, states and diffs";

impl V1ToV2 {
    /// Returns whether sub-agents are shown in tool calls, because the client does not support them.
    fn folds(&self) -> bool {
        !self.support.subagents
    }

    /// Returns the relation of an agent's session to the client.
    pub(super) fn relation(&self, id: &str) -> SessionRelation {
        match self.subagents.relation(id) {
            // A client with sub-agent support already knows it.
            SessionRelation::Child if !self.folds() => SessionRelation::Opened,
            relation => relation,
        }
    }

    /// Holds an update of a session whose parent is unknown.
    pub(super) fn hold_unlinked(&mut self, held: HeldUpdate) {
        for lost in self.subagents.hold(held) {
            self.report_unlinked(&lost);
        }
    }

    /// Reports the updates of sessions whose parent stays unknown, because no more input will arrive.
    pub(super) fn report_all_unlinked(&mut self) {
        for held in self.subagents.take_unlinked() {
            self.report_unlinked(&held);
        }
    }

    fn report_unlinked(&mut self, held: &HeldUpdate) {
        let (session, tag) = (&*held.params.session_id, held.params.update.tag());
        let shown: String = held.params.update.encode(WireFormat::Any).chars().take(400).collect();
        let reason =
            format!("the session was neither opened by the client nor announced as a sub-agent: {shown}");
        self.context.report_loss(Some(session), tag, "", reason, Severity::Major, Side::Client);
    }

    /// Applies sub-agent announcements and states of a session's update. Returns whether the update is
    /// handled completely.
    pub(super) fn apply_subagents(
        &mut self,
        parent: &str,
        update: &v2::SessionUpdate<'_>,
        size: usize,
    ) -> bool {
        use v2::SessionUpdate as Update;
        // Properties before the update is applied, for comparison below.
        let is_root = self.subagents.get(parent).is_none();
        let sent = match update {
            Update::SubagentUpdate(update) => Some(&*update.session_id),
            _ => None,
        };
        let before = sent.map(|id| self.subagents.name(id)).unwrap_or_default();
        // Must precede `apply`, which changes the name.
        let is_known = sent.is_some_and(|id| self.reannounce(id, parent));
        let linked = self.subagents.apply(parent, update, self.context.now);
        for started in linked {
            let is_linked = self.link(&started, parent, update.tag(), sent.is_some(), is_known);
            // An announcement that does not fit the tree is reported and not shown at all.
            if !is_linked && sent.is_some() {
                return true;
            }
        }
        match update {
            Update::StateUpdate(state) => {
                self.apply_state(parent, state);
                // The state itself is still translated for its own session.
                false
            }
            Update::SubagentUpdate(update) => {
                let id = &*update.session_id;
                if self.folds() {
                    self.report_lost_details_of(parent, update);
                    // A call of the bridge has the name as its title, other calls have it in their content.
                    let has_title = self.subagents.get(id).is_some_and(|child| child.sent.is_some());
                    let is_renamed = !has_title && before != self.subagents.name(id);
                    self.show(id, if is_renamed { size } else { 0 });
                }
                self.folds()
            }
            // Messages between sessions exist only for clients with sub-agent support.
            Update::SessionMessage(message) if is_root && self.folds() => {
                self.session_message(parent, message, size);
                true
            }
            Update::SessionMessageChunk(chunk) if is_root && self.folds() => {
                match self.subagents.with_message(parent, &chunk.message_id) {
                    Some(id) => {
                        if !is_plain(update) {
                            let tag = update.tag();
                            let at = "/params/update";
                            self.context.report_loss(
                                Some(parent),
                                tag,
                                at,
                                NOT_SHOWN,
                                Severity::Minor,
                                Side::Client,
                            );
                        }
                        self.apply_child_update(&id, update, size);
                    }
                    None => {
                        let words =
                            chunk.content.as_text().unwrap_or("[content that is not text]").to_owned();
                        self.send_message_between(parent, "session_message_chunk", "a session", &words);
                    }
                }
                true
            }
            _ => false,
        }
    }

    /// Handles a repeated announcement of a sub-agent: its current name is shown before it changes. Returns
    /// whether `parent` is its parent.
    fn reannounce(&mut self, id: &str, parent: &str) -> bool {
        let is_its = self.subagents.tree().parent(id).is_some_and(|known| *known.session == *parent);
        let Some(child) = self.subagents.get_mut(id).filter(|_| is_its) else { return false };
        // The second announcement ends the wait for a referring tool call.
        child.updates += 1;
        if child.shown_by.is_none() {
            self.show(id, 0);
        }
        true
    }

    /// Handles a state change of a sub-agent, or of a session with sub-agents.
    fn apply_state(&mut self, id: &str, state: &v2::StateUpdate<'_>) {
        if self.subagents.is_empty() {
            return;
        }
        if self.subagents.get(id).is_some() {
            // A state of a sub-agent may end the wait of its parent's turn.
            let root = self.subagents.root_of(id).to_owned();
            self.keep_hold(&root);
        } else if matches!(state, v2::StateUpdate::Idle(_)) {
            // The parent is idle: no referring tool call will follow.
            self.show_without_call(id);
            // The session may end with its sub-agents, and their calls would otherwise stay in progress
            // forever.
            for child in self.subagents.with_new_status(id) {
                self.show(&child, 0);
            }
        }
    }

    /// Records the parent of a session, or reports why it cannot be one. Returns whether it was recorded.
    fn link(
        &mut self,
        started: &LinkedSession<'_>,
        parent: &str,
        tag: &str,
        // A child that exceeds a limit of the tree is a major loss; other faults are the agent's.
        is_sent: bool,
        is_counted: bool,
    ) -> bool {
        let LinkedSession { session: id, tool_call, pointer, place, .. } = started;
        if let Err(fault) = place {
            let severity = if *fault == NotLinked::Full { Severity::Major } else { Severity::Minor };
            let reason = format!("invalid sub-agent: expected {}, found {id:?}", fault.expected());
            let pointer = format!("/params/update{pointer}");
            self.context.report_loss(Some(parent), tag, &pointer, reason, severity, Side::Client);
            return false;
        }
        // The title of the referring call names the sub-agent if it has no name of its own.
        if let Some(call) = tool_call
            && let Some(title) = self.call_title(parent, call)
        {
            self.subagents.set_call_title(parent, call, &title);
        }
        let folds = self.folds();
        let is_top = self.subagents.tree().top(id) == *id;
        // Counted once per update, although one update may both announce and refer.
        let Some(child) = self.subagents.get_mut(id) else { return false };
        child.updates += u32::from(!is_counted);
        // A call that is only named in metadata may never arrive, so the sub-agent is not shown in it.
        let call = tool_call.as_deref().filter(|_| !is_sent && child.referred.is_none());
        if let Some(call) = call {
            child.referred = Some(call.to_owned());
            // The first reference decides which call shows a direct child. Its descendants are rendered
            // inside.
            if folds && is_top && child.shown_by.is_none() {
                let call = match self.sessions.get(parent) {
                    Some(session) => session.own_calls.disambiguate(call.into()).into_owned(),
                    None => call.to_owned(),
                };
                child.shown_by = Some(ShownBy { call, is_own: false });
                self.subagents.without_call.retain(|without_call| without_call != id);
            }
        }
        true
    }

    /// Returns the current title of a tool call.
    fn call_title(&self, session: &str, call: &str) -> Option<String> {
        if let Some(child) = self.subagents.get(session).filter(|_| self.folds()) {
            return child.fold.tool_call(call)?.title().map(str::to_owned);
        }
        let session = self.sessions.get(session)?;
        session.calls.get(&session.own_calls.disambiguate(call.into()))?.title.clone()
    }

    /// Reports details of a sub-agent's announcement that the client is not shown.
    fn report_lost_details_of(&mut self, parent: &str, update: &v2::unstable::SubagentUpdate<'_>) {
        let v2::unstable::SubagentUpdate {
            session_id: _,
            title,
            description,
            capabilities,
            state,
            cwd,
            additional_directories,
            meta,
            extra,
            more: _,
        } = update;
        let tag = "subagent_update";
        let child = self.subagents.get(&update.session_id);
        // A name inside the content of a call may be replaced before the content is sent again.
        let is_inside = child.is_some_and(|child| {
            let is_top = || self.subagents.tree().top(&update.session_id) == update.session_id;
            child.shown_by.as_ref().map_or_else(|| !is_top(), |shown_by| !shown_by.is_own)
        });
        let name = self.subagents.name(&update.session_id);
        // A name contains the beginning of a long text.
        let is_lost = |part: &Field<Text<'_>>| match part {
            Field::Set(text) => is_inside || !name.contains(&**text),
            Field::Clear => is_inside,
            Field::Keep => false,
        };
        let (title, description) = (is_lost(title), is_lost(description));
        let mut report = |pointer: &str| {
            self.context.report_loss(Some(parent), tag, pointer, NOT_SHOWN, Severity::Minor, Side::Client);
        };
        for (pointer, is_said) in [
            ("/params/update/title", title),
            ("/params/update/description", description),
            ("/params/update/capabilities", !capabilities.is_keep()),
            ("/params/update/state", state.value().is_some_and(|state| !is_bare_state(state))),
            ("/params/update/cwd", !cwd.is_keep()),
            ("/params/update/additionalDirectories", !additional_directories.is_keep()),
        ] {
            if is_said {
                report(pointer);
            }
        }
        let rest = (meta.value(), extra);
        self.context.report_lost_rest(Some(parent), tag, "/params/update", rest, NOT_SHOWN, Side::Client);
    }

    /// Handles a message between the client's session and another: shown with the sub-agent that sends or
    /// receives it.
    fn session_message(&mut self, root: &str, message: &v2::unstable::SessionMessage<'_>, size: usize) {
        let tag = "session_message";
        // A message to or from a sub-agent belongs to its transcript, under the id that it has there.
        if let Some((id, own)) = self.subagents.other_end(root, message) {
            let mut shown = message.clone();
            shown.message_id = own.into();
            self.context.report_loss(
                Some(root),
                tag,
                "/params/update",
                NOT_SHOWN,
                Severity::Minor,
                Side::Client,
            );
            return self.apply_child_update(&id, &v2::SessionUpdate::SessionMessage(Box::new(shown)), size);
        }
        // Further updates of such a message name only its id.
        if let Some(id) = self.subagents.with_message(root, &message.message_id) {
            self.context.report_loss(
                Some(root),
                tag,
                "/params/update",
                NOT_SHOWN,
                Severity::Minor,
                Side::Client,
            );
            return self.apply_child_update(
                &id,
                &v2::SessionUpdate::SessionMessage(Box::new(message.clone())),
                size,
            );
        }
        let blocks = message.content.value().map_or(&[][..], Vec::as_slice);
        let words: String = blocks.iter().filter_map(|block| block.as_text()).collect();
        let from = message.sender_session_id.value().map_or("a session", |sender| &**sender);
        self.send_message_between(root, tag, from, &words);
    }

    /// Shows a message from an unknown session.
    fn send_message_between(&mut self, root: &str, tag: &str, from: &str, words: &str) {
        let reason =
            "version 1 has no messages between sessions; its text is shown as a message of the agent";
        self.context.report_loss(Some(root), tag, "/params/update", reason, Severity::Minor, Side::Client);
        self.active(root).say(&format!("[message from {from}]\n\n{words}"), Rest::default());
    }

    /// Handles an update of a sub-agent's session.
    pub(super) fn child_update(
        &mut self,
        params: v2::UpdateSessionNotification<'_>,
        (root, left_out): (&str, &[Diagnostic]),
        envelope: &Extra<'_>,
        size: usize,
    ) {
        let v2::UpdateSessionNotification { session_id, update, meta, extra, more: _ } = params;
        let id = &*session_id;
        self.context.report_left_out(Some(id), "session/update", root, left_out, Side::Client);
        let meta = without_cursor(meta);
        for (pointer, rest) in [("/params", (meta.as_ref(), &extra)), ("", (None, envelope))] {
            self.context.report_lost_rest(Some(id), "session/update", pointer, rest, NOT_SHOWN, Side::Client);
        }
        // The update may announce a sub-agent of the sub-agent.
        self.apply_subagents(id, &update, size);
        if let Some(child) = self.subagents.get_mut(id) {
            child.updates += 1;
        }
        if !is_plain(&update) {
            let tag = update.tag();
            self.context.report_loss(
                Some(id),
                tag,
                "/params/update",
                NOT_SHOWN,
                Severity::Minor,
                Side::Client,
            );
        }
        self.apply_child_update(id, &update, size);
    }

    /// Applies a sub-agent's update and shows the result.
    pub(super) fn apply_child_update(&mut self, id: &str, update: &v2::SessionUpdate<'_>, size: usize) {
        use v2::SessionUpdate as Update;
        let grown = match update {
            // The tree tracks state and title.
            Update::StateUpdate(_)
            | Update::SessionInfoUpdate(_)
            | Update::ConfigOptionUpdate(_)
            | Update::AvailableCommandsUpdate(_)
            | Update::UsageUpdate(_)
            | Update::Unknown(_) => 0,
            update => {
                // Items are converted only if the update itself fits.
                if self.fold_child_update(id, update, size) {
                    self.keep_items(id, update);
                }
                size
            }
        };
        self.show(id, grown);
    }

    /// Folds a sub-agent's update. Returns whether it fits the limit.
    fn fold_child_update(&mut self, id: &str, update: &v2::SessionUpdate<'_>, size: usize) -> bool {
        // The limit counts received bytes, so that a sub-agent cannot evade it with many small updates.
        let fits = self.subagents.reserve(id, size);
        if let Some(child) = self.subagents.get_mut(id) {
            child.take(update, fits);
        }
        if !fits {
            self.report_limit(id);
        }
        fits
    }

    /// Converts diffs and similar items of an update once, on arrival.
    fn keep_items(&mut self, id: &str, update: &v2::SessionUpdate<'_>) {
        let (call, anew, items) = match update {
            v2::SessionUpdate::ToolCallUpdate(update) => match &update.content {
                Field::Keep => return,
                Field::Clear => (&update.tool_call_id, true, &[][..]),
                Field::Set(items) => (&update.tool_call_id, true, &**items),
            },
            v2::SessionUpdate::ToolCallContentChunk(chunk) => {
                (&chunk.tool_call_id, false, std::slice::from_ref(&chunk.content))
            }
            _ => return,
        };
        let root = self.subagents.root_of(id).to_owned();
        let roots = self.sessions.get(&root).map_or(&[][..], |session| &session.roots);
        let mut written = Vec::new();
        for item in items {
            if is_written(item) {
                let at = (update.tag(), "/params/update/content");
                let converted = self
                    .context
                    .convert_with_files(id, at, roots, |file, cx| item_to_v1(item.clone(), file, cx));
                let converted = converted.unwrap_or_default();
                written.push(converted.iter().map(|item| Raw::of(item, WireFormat::V1)).collect());
            }
        }
        // Converted items count as well: a diff may be much larger than the update.
        let size = written.iter().flatten().map(|item: &Raw<'_>| item.as_str().len()).sum();
        if !self.subagents.reserve(id, size) {
            self.report_limit(id);
            // Empty items keep the positions of the others.
            written.iter_mut().for_each(Vec::clear);
        }
        if let Some(child) = self.subagents.get_mut(id) {
            child.keep_items(call, anew, written);
        }
    }

    /// Reports once that not all work of a sub-agent is shown.
    fn report_limit(&mut self, id: &str) {
        let Some(child) = self.subagents.get_mut(id) else { return };
        if !std::mem::replace(&mut child.is_reported, true) {
            let reason = format!(
                "the output of a sub-agent exceeds the {} bytes that a tool call shows; the call says how much is left out",
                super::subagents::SHOWN
            );
            self.context.report_loss(Some(id), "session/update", "", reason, Severity::Major, Side::Client);
        }
    }

    /// Updates the tool call that shows a sub-agent; `grown` bytes were added.
    pub(super) fn show(&mut self, id: &str, grown: usize) {
        if self.subagents.get(id).is_none() {
            return;
        }
        let root = self.subagents.root_of(id).to_owned();
        let top = self.subagents.tree().top(id).to_owned();
        // Every sign of life extends a held turn, even if nothing is shown.
        self.keep_hold(&root);
        if !self.folds() {
            return;
        }
        let now = self.context.now;
        let Some(child) = self.subagents.get(&top) else { return };
        // A sub-agent with a single announcement waits for a referring call, to be shown there.
        if child.shown_by.is_none() && child.updates < 2 && top == id && now < child.since.after(REFERENCE) {
            return;
        }
        self.show_top(&root, &top, grown);
    }

    fn show_top(&mut self, root: &str, top: &str, grown: usize) {
        self.make_call(root, top);
        let Some(child) = self.subagents.get(top) else { return };
        let Some(ShownBy { call, is_own }) = child.shown_by.clone() else { return };
        let name = self.subagents.name(top);
        let now_sent = (format!("Sub-agent: {name}"), self.subagents.status(top));
        let mut update = v2::ToolCallUpdate::new(call.clone());
        // A call that was evicted is announced again with its content.
        let is_known = self.sessions.get(root).is_some_and(|session| session.calls.get(&call).is_some());
        if !is_known {
            let reference = v2::unstable::SessionReference::new(top.to_owned());
            update.content = Field::Set(vec![v2::ToolCallContent::Session(reference)]);
        }
        if is_own {
            // Send only changed fields: clients may show each update.
            let sent = child.sent.as_ref().filter(|_| is_known);
            if sent.is_none() {
                update.kind = Field::Set(v2::ToolKind::Other);
            }
            if sent.is_none_or(|(title, _)| *title != now_sent.0) {
                update.title = Field::Set(Text::Owned(now_sent.0.clone()));
            }
            if sent.is_none_or(|(_, status)| *status != now_sent.1) {
                update.status = Field::Set(now_sent.1.clone());
            }
        }
        // Stored before sending, so that a nested call does not send the same status again.
        if let Some(child) = self.subagents.get_mut(top).filter(|_| is_own) {
            child.sent = Some(now_sent);
        }
        let mut active = self.active(root);
        // Growth is sent at intervals, status and title at once.
        if grown > 0 && is_known {
            active.grow(&call, grown);
            active.touch(&call);
        }
        if update != v2::ToolCallUpdate::new(call) {
            active.tool_call(update);
        }
        active.report_forgotten();
    }

    /// Creates a tool call for a sub-agent that no call refers to.
    fn make_call(&mut self, root: &str, top: &str) {
        let Some(child) = self.subagents.get_mut(top).filter(|child| child.shown_by.is_none()) else {
            return;
        };
        // The id must differ from all calls of the agent and of the bridge in this session.
        let session = self.sessions.open(root);
        let (calls, synthetic, salt) = (&session.calls, &mut self.synthetic, &self.context.salt);
        let next = || {
            *synthetic += 1;
            format!("bridge-subagent-{salt}{synthetic}")
        };
        let call = session.own_calls.make(next, |id| calls.get(id).is_some());
        child.shown_by = Some(ShownBy { call, is_own: true });
        self.subagents.without_call.retain(|without_call| without_call != top);
    }

    /// Shows the sub-agents of a session that wait for a referring tool call.
    pub(super) fn show_without_call(&mut self, root: &str) {
        if !self.folds() {
            return;
        }
        for id in self.subagents.without_call_in(root) {
            self.show_top(root, &id, 0);
        }
    }

    pub(super) fn show_all_uncalled(&mut self) {
        for id in std::mem::take(&mut self.subagents.without_call) {
            let root = self.subagents.root_of(&id).to_owned();
            if self.folds() {
                self.show_top(&root, &id, 0);
            }
        }
    }

    /// Marks the work of all sub-agents as failed, because the agent has exited.
    pub(super) fn end_children(&mut self, error: &RpcError<'_>) {
        for (root, id) in self.subagents.end(error) {
            let is_sent = |(_, status): &(String, v2::ToolCallStatus)| status.is_final();
            // A call with a final status must not change again.
            let is_over =
                self.subagents.get(&id).is_some_and(|child| child.sent.as_ref().is_some_and(is_sent));
            if self.folds() && !is_over {
                self.show_top(&root, &id, error.message.len());
            }
        }
    }

    /// Shows the sub-agents that have waited long enough for a referring tool call.
    pub(super) fn show_waiting(&mut self) {
        if !self.folds() {
            return self.subagents.without_call.clear();
        }
        let now = self.context.now;
        let is_due =
            |id: &&String| self.subagents.get(id).is_some_and(|child| child.since.after(REFERENCE) <= now);
        let due: Vec<String> = self.subagents.without_call.iter().filter(is_due).cloned().collect();
        for id in due {
            self.show(&id, 0);
        }
    }

    /// Returns the time when the first of them has waited long enough.
    pub(super) fn next_shown(&self) -> Option<Moment> {
        let since = |id: &String| self.subagents.get(id).map(|child| child.since.after(REFERENCE));
        self.subagents.without_call.iter().filter(|_| self.folds()).filter_map(since).min()
    }
}

impl Active<'_> {
    /// Returns the time when the last of its sub-agents ended.
    pub(super) fn last_end_of_children(&self) -> Option<Moment> {
        if self.subagents.is_empty() { None } else { self.subagents.last_end(self.id) }
    }
}

/// Returns whether an item is converted on arrival. Other items are rendered each time they are sent.
fn is_written(item: &v2::ToolCallContent<'_>) -> bool {
    match item {
        v2::ToolCallContent::Content(item) => item.content.as_text().is_none(),
        v2::ToolCallContent::Diff(_) | v2::ToolCallContent::Unknown(_) => true,
        v2::ToolCallContent::Terminal(_) | v2::ToolCallContent::Session(_) => false,
        v2::ToolCallContent::More(none) => none.never(),
    }
}

/// Returns whether a state has no details.
fn is_bare_state(state: &v2::StateUpdate<'_>) -> bool {
    match state {
        v2::StateUpdate::Running(active) | v2::StateUpdate::RequiresAction(active) => {
            *active == v2::ActiveState::new()
        }
        v2::StateUpdate::Idle(idle) => {
            let mut bare = v2::IdleState::new();
            bare.stop_reason = idle.stop_reason.clone();
            *idle == bare
        }
        v2::StateUpdate::Unobservable(_) | v2::StateUpdate::Unknown(_) => false,
        v2::StateUpdate::More(none) => none.never(),
    }
}

/// Returns whether a sub-agent's update is shown completely.
fn is_plain(update: &v2::SessionUpdate<'_>) -> bool {
    use v2::SessionUpdate as Update;
    match update {
        Update::UserMessageChunk(chunk)
        | Update::AgentMessageChunk(chunk)
        | Update::AgentThoughtChunk(chunk) => {
            let bare = v2::ContentBlock::text(chunk.content.as_text().unwrap_or_default().to_owned());
            chunk.meta.is_none() && chunk.extra.is_empty() && chunk.content == bare
        }
        Update::SessionMessageChunk(chunk) => {
            let bare = v2::ContentBlock::text(chunk.content.as_text().unwrap_or_default().to_owned());
            chunk.meta.is_none() && chunk.extra.is_empty() && chunk.content == bare
        }
        Update::StateUpdate(state) => is_bare_state(state),
        // Its details are reported when the sub-agent is linked.
        Update::SubagentUpdate(_) => true,
        _ => false,
    }
}
