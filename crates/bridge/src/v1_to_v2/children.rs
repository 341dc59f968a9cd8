//! What sub-agents say, for a client that does not know of them: shown in a tool call of the session that it opened.

use switchboard_acp::rpc::RpcError;
use switchboard_acp::{Diagnostic, Extra, Field, Raw, Text, Wire, WireFormat, v2};
use switchboard_session::{LinkedSession, NotLinked};

use super::subagents::{HeldUpdate, ShownBy, Standing};
use super::{Active, V1ToV2};
use crate::context::without_cursor;
use crate::convert::message::Rest;
use crate::convert::tool_call::item_to_v1;
use crate::loss::Severity;
use crate::{Moment, Side};

/// Milliseconds for which a sub-agent waits for a tool call of its parent that refers to it, unless it has something to say.
const REFERENCE: u64 = 1000;

/// Why something of a sub-agent is not told.
const NOT_SHOWN: &str =
    "of a sub-agent, which the client is shown in a tool call only: text, titles, states and diffs";

impl V1ToV2 {
    /// Whether sub-agents are shown in tool calls, because the client does not know of any.
    fn folds(&self) -> bool {
        !self.support.subagents
    }

    /// What a session of the agent is to the client.
    pub(super) fn standing(&self, id: &str) -> Standing {
        match self.subagents.standing(id) {
            // A client that knows of sub-agents has been told of it.
            Standing::Child if !self.folds() => Standing::Opened,
            standing => standing,
        }
    }

    /// Keeps an update of a session of which nobody has told whose it is.
    pub(super) fn hold_strange(&mut self, held: HeldUpdate) {
        for lost in self.subagents.hold(held) {
            self.lose_strange(&lost);
        }
    }

    /// No more is to come that could tell whose those sessions are.
    pub(super) fn lose_strangers(&mut self) {
        for held in self.subagents.take_strangers() {
            self.lose_strange(&held);
        }
    }

    fn lose_strange(&mut self, held: &HeldUpdate) {
        let (session, tag) = (&*held.params.session_id, held.params.update.tag());
        let shown: String = held.params.update.encode(WireFormat::Any).chars().take(400).collect();
        let reason = format!(
            "of a session that the client did not open and that no other names as its sub-agent: {shown}"
        );
        self.context.lose(Some(session), tag, "", reason, Severity::Major, Side::Client);
    }

    /// Takes what a session says of sub-agents, and its state. Whether that is all there is to be done with it.
    pub(super) fn hear(&mut self, parent: &str, update: &v2::SessionUpdate<'_>, size: usize) -> bool {
        use v2::SessionUpdate as Update;
        let is_root = self.subagents.get(parent).is_none();
        let told = match update {
            Update::SubagentUpdate(update) => Some(&*update.session_id),
            _ => None,
        };
        let before = told.map(|id| self.subagents.name(id)).unwrap_or_default();
        let is_known = told.is_some_and(|id| self.hear_again(id, parent));
        let linked = self.subagents.apply(parent, update, self.context.now);
        for started in linked {
            let is_linked = self.link(&started, parent, update.tag(), told.is_some(), is_known);
            if !is_linked && told.is_some() {
                return true;
            }
        }
        match update {
            Update::StateUpdate(state) => {
                self.hear_state(parent, state);
                false
            }
            Update::SubagentUpdate(update) => {
                let id = &*update.session_id;
                if self.folds() {
                    self.lose_details_of(parent, update);
                    // A call of the bridge's own has the name for a title, others have it in their content.
                    let has_title = self.subagents.get(id).is_some_and(|child| child.told.is_some());
                    let is_renamed = !has_title && before != self.subagents.name(id);
                    self.show(id, if is_renamed { size } else { 0 });
                }
                self.folds()
            }
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
                            self.context.lose(
                                Some(parent),
                                tag,
                                at,
                                NOT_SHOWN,
                                Severity::Minor,
                                Side::Client,
                            );
                        }
                        self.child_says(&id, update, size);
                    }
                    None => {
                        let words =
                            chunk.content.as_text().unwrap_or("[something that is not text]").to_owned();
                        self.say_message(parent, "session_message_chunk", "a session", &words);
                    }
                }
                true
            }
            _ => false,
        }
    }

    /// A parent tells again of a sub-agent: the name that it has so far is shown before it has another. Returns whether it
    /// is that parent's.
    fn hear_again(&mut self, id: &str, parent: &str) -> bool {
        let is_its = self.subagents.tree().parent(id).is_some_and(|known| *known.session == *parent);
        let Some(child) = self.subagents.get_mut(id).filter(|_| is_its) else { return false };
        child.heard += 1;
        if child.shown_by.is_none() {
            self.show(id, 0);
        }
        true
    }

    /// The state of a session has changed: that of a sub-agent, or of one that has some.
    fn hear_state(&mut self, id: &str, state: &v2::StateUpdate<'_>) {
        if self.subagents.is_empty() {
            return;
        }
        if self.subagents.get(id).is_some() {
            let root = self.subagents.root_of(id).to_owned();
            self.keep_hold(&root);
        } else if matches!(state, v2::StateUpdate::Idle(_)) {
            self.show_uncalled(id);
            // The end of the session may be theirs, and a call that stays at work would never end.
            for child in self.subagents.with_new_status(id) {
                self.show(&child, 0);
            }
        }
    }

    /// Notes whose sub-agent a session is, or reports why it is not. Returns whether it is.
    fn link(
        &mut self,
        started: &LinkedSession<'_>,
        parent: &str,
        tag: &str,
        is_told: bool,
        is_counted: bool,
    ) -> bool {
        let LinkedSession { session: id, tool_call, pointer, place, .. } = started;
        if let Err(fault) = place {
            let severity = if *fault == NotLinked::Full { Severity::Major } else { Severity::Minor };
            let reason =
                format!("a sub-agent that does not fit: expected {}, found {id:?}", fault.expected());
            let pointer = format!("/params/update{pointer}");
            self.context.lose(Some(parent), tag, &pointer, reason, severity, Side::Client);
            return false;
        }
        if let Some(call) = tool_call
            && let Some(title) = self.call_title(parent, call)
        {
            self.subagents.tell_call_title(parent, call, &title);
        }
        let folds = self.folds();
        let is_top = self.subagents.tree().top(id) == *id;
        let Some(child) = self.subagents.get_mut(id) else { return false };
        child.heard += u32::from(!is_counted);
        // A call that is only named beside the protocol may never come, so nothing is shown in it.
        let call = tool_call.as_deref().filter(|_| !is_told && child.referred.is_none());
        if let Some(call) = call {
            child.referred = Some(call.to_owned());
            if folds && is_top && child.shown_by.is_none() {
                let call = match self.sessions.get(parent) {
                    Some(session) => session.own_calls.set_apart(call.into()).into_owned(),
                    None => call.to_owned(),
                };
                child.shown_by = Some(ShownBy { call, is_own: false });
                self.subagents.uncalled.retain(|uncalled| uncalled != id);
            }
        }
        true
    }

    /// Returns the title that a call of a session has so far.
    fn call_title(&self, session: &str, call: &str) -> Option<String> {
        if let Some(child) = self.subagents.get(session).filter(|_| self.folds()) {
            return child.fold.tool_call(call)?.title().map(str::to_owned);
        }
        let session = self.sessions.get(session)?;
        session.calls.get(&session.own_calls.set_apart(call.into()))?.title.clone()
    }

    /// Reports what a parent tells of a sub-agent and the client is not shown.
    fn lose_details_of(&mut self, parent: &str, update: &v2::unstable::SubagentUpdate<'_>) {
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
        // A name inside the content of a call may have been replaced before that is told again.
        let is_inside = child.is_some_and(|child| {
            let is_top = || self.subagents.tree().top(&update.session_id) == update.session_id;
            child.shown_by.as_ref().map_or_else(|| !is_top(), |shown_by| !shown_by.is_own)
        });
        let name = self.subagents.name(&update.session_id);
        // A name has the beginning of what is long.
        let is_lost = |part: &Field<Text<'_>>| match part {
            Field::Set(text) => is_inside || !name.contains(&**text),
            Field::Clear => is_inside,
            Field::Keep => false,
        };
        let (title, description) = (is_lost(title), is_lost(description));
        let mut lose = |pointer: &str| {
            self.context.lose(Some(parent), tag, pointer, NOT_SHOWN, Severity::Minor, Side::Client);
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
                lose(pointer);
            }
        }
        let rest = (meta.value(), extra);
        self.context.lose_rest(Some(parent), tag, "/params/update", rest, NOT_SHOWN, Side::Client);
    }

    /// A message between the client's session and another: shown with the sub-agent that it is to or from.
    fn session_message(&mut self, root: &str, message: &v2::unstable::SessionMessage<'_>, size: usize) {
        let tag = "session_message";
        if let Some((id, own)) = self.subagents.other_end(root, message) {
            let mut shown = message.clone();
            shown.message_id = own.into();
            self.context.lose(Some(root), tag, "/params/update", NOT_SHOWN, Severity::Minor, Side::Client);
            return self.child_says(&id, &v2::SessionUpdate::SessionMessage(Box::new(shown)), size);
        }
        if let Some(id) = self.subagents.with_message(root, &message.message_id) {
            self.context.lose(Some(root), tag, "/params/update", NOT_SHOWN, Severity::Minor, Side::Client);
            return self.child_says(&id, &v2::SessionUpdate::SessionMessage(Box::new(message.clone())), size);
        }
        let blocks = message.content.value().map_or(&[][..], Vec::as_slice);
        let words: String = blocks.iter().filter_map(|block| block.as_text()).collect();
        let from = message.sender_session_id.value().map_or("a session", |sender| &**sender);
        self.say_message(root, tag, from, &words);
    }

    /// A message of a session that is not known.
    fn say_message(&mut self, root: &str, tag: &str, from: &str, words: &str) {
        let reason =
            "version 1 has no messages between sessions; its text is shown as a message of the agent";
        self.context.lose(Some(root), tag, "/params/update", reason, Severity::Minor, Side::Client);
        self.active(root).say(&format!("[message from {from}]\n\n{words}"), Rest::default());
    }

    /// Takes an update of a sub-agent's session.
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
            self.context.lose_rest(Some(id), "session/update", pointer, rest, NOT_SHOWN, Side::Client);
        }
        self.hear(id, &update, size);
        if let Some(child) = self.subagents.get_mut(id) {
            child.heard += 1;
        }
        if !is_plain(&update) {
            let tag = update.tag();
            self.context.lose(Some(id), tag, "/params/update", NOT_SHOWN, Severity::Minor, Side::Client);
        }
        self.child_says(id, &update, size);
    }

    /// Takes in what a sub-agent says, and shows it.
    pub(super) fn child_says(&mut self, id: &str, update: &v2::SessionUpdate<'_>, size: usize) {
        use v2::SessionUpdate as Update;
        let grown = match update {
            // The tree has its state and its title.
            Update::StateUpdate(_)
            | Update::SessionInfoUpdate(_)
            | Update::ConfigOptionUpdate(_)
            | Update::AvailableCommandsUpdate(_)
            | Update::UsageUpdate(_)
            | Update::Unknown(_) => 0,
            update => {
                if self.child_takes(id, update, size) {
                    self.keep_items(id, update);
                }
                size
            }
        };
        self.show(id, grown);
    }

    /// Folds what a sub-agent says. Whether there was room for it.
    fn child_takes(&mut self, id: &str, update: &v2::SessionUpdate<'_>, size: usize) -> bool {
        let fits = self.subagents.reserve(id, size);
        if let Some(child) = self.subagents.get_mut(id) {
            child.take(update, fits);
        }
        if !fits {
            self.report_limit(id);
        }
        fits
    }

    /// Converts diffs and the like of an update once, when they come.
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
        let size = written.iter().flatten().map(|item: &Raw<'_>| item.as_str().len()).sum();
        if !self.subagents.reserve(id, size) {
            self.report_limit(id);
            // Their places stay, so that those of others do.
            written.iter_mut().for_each(Vec::clear);
        }
        if let Some(child) = self.subagents.get_mut(id) {
            child.keep_items(call, anew, written);
        }
    }

    /// Reports, once, that not all that a sub-agent does is shown.
    fn report_limit(&mut self, id: &str) {
        let Some(child) = self.subagents.get_mut(id) else { return };
        if !std::mem::replace(&mut child.is_reported, true) {
            let reason = format!(
                "a sub-agent did more than the {} bytes that a tool call shows of it; how much is left out stands there",
                super::subagents::SHOWN
            );
            self.context.lose(Some(id), "session/update", "", reason, Severity::Major, Side::Client);
        }
    }

    /// Shows a sub-agent as it is now, in the call that is there for that; so many bytes came.
    pub(super) fn show(&mut self, id: &str, grown: usize) {
        if self.subagents.get(id).is_none() {
            return;
        }
        let root = self.subagents.root_of(id).to_owned();
        let top = self.subagents.tree().top(id).to_owned();
        self.keep_hold(&root);
        if !self.folds() {
            return;
        }
        let now = self.context.now;
        let Some(child) = self.subagents.get(&top) else { return };
        if child.shown_by.is_none() && child.heard < 2 && top == id && now < child.since.after(REFERENCE) {
            return;
        }
        self.show_top(&root, &top, grown);
    }

    fn show_top(&mut self, root: &str, top: &str, grown: usize) {
        self.make_call(root, top);
        let Some(child) = self.subagents.get(top) else { return };
        let Some(ShownBy { call, is_own }) = child.shown_by.clone() else { return };
        let name = self.subagents.name(top);
        let now_told = (format!("Sub-agent: {name}"), self.subagents.status(top));
        let mut update = v2::ToolCallUpdate::new(call.clone());
        let is_known = self.sessions.get(root).is_some_and(|session| session.calls.get(&call).is_some());
        if !is_known {
            let reference = v2::unstable::SessionReference::new(top.to_owned());
            update.content = Field::Set(vec![v2::ToolCallContent::Session(reference)]);
        }
        if is_own {
            let told = child.told.as_ref().filter(|_| is_known);
            if told.is_none() {
                update.kind = Field::Set(v2::ToolKind::Other);
            }
            if told.is_none_or(|(title, _)| *title != now_told.0) {
                update.title = Field::Set(Text::Owned(now_told.0.clone()));
            }
            if told.is_none_or(|(_, status)| *status != now_told.1) {
                update.status = Field::Set(now_told.1.clone());
            }
        }
        if let Some(child) = self.subagents.get_mut(top).filter(|_| is_own) {
            child.told = Some(now_told);
        }
        let mut active = self.active(root);
        if grown > 0 && is_known {
            active.grow(&call, grown);
            active.touch(&call);
        }
        if update != v2::ToolCallUpdate::new(call) {
            active.tool_call(update);
        }
        active.report_forgotten();
    }

    /// Makes a call for a sub-agent to which no call refers.
    fn make_call(&mut self, root: &str, top: &str) {
        let Some(child) = self.subagents.get_mut(top).filter(|child| child.shown_by.is_none()) else {
            return;
        };
        let session = self.sessions.open(root);
        let (calls, synthetic, salt) = (&session.calls, &mut self.synthetic, &self.context.salt);
        let next = || {
            *synthetic += 1;
            format!("bridge-subagent-{salt}{synthetic}")
        };
        let call = session.own_calls.make(next, |id| calls.get(id).is_some());
        child.shown_by = Some(ShownBy { call, is_own: true });
        self.subagents.uncalled.retain(|uncalled| uncalled != top);
    }

    /// Shows those sub-agents of a session that wait for a call of their parent to refer to them.
    pub(super) fn show_uncalled(&mut self, root: &str) {
        if !self.folds() {
            return;
        }
        for id in self.subagents.uncalled_of(root) {
            self.show_top(root, &id, 0);
        }
    }

    pub(super) fn show_all_uncalled(&mut self) {
        for id in std::mem::take(&mut self.subagents.uncalled) {
            let root = self.subagents.root_of(&id).to_owned();
            if self.folds() {
                self.show_top(&root, &id, 0);
            }
        }
    }

    /// The agent is gone: what its sub-agents were at has failed.
    pub(super) fn end_children(&mut self, error: &RpcError<'_>) {
        for (root, id) in self.subagents.end(error) {
            let is_told = |(_, status): &(String, v2::ToolCallStatus)| status.is_final();
            let is_over =
                self.subagents.get(&id).is_some_and(|child| child.told.as_ref().is_some_and(is_told));
            if self.folds() && !is_over {
                self.show_top(&root, &id, error.message.len());
            }
        }
    }

    /// Shows those that have waited long enough.
    pub(super) fn show_waiting(&mut self) {
        if !self.folds() {
            return self.subagents.uncalled.clear();
        }
        let now = self.context.now;
        let is_due =
            |id: &&String| self.subagents.get(id).is_some_and(|child| child.since.after(REFERENCE) <= now);
        let due: Vec<String> = self.subagents.uncalled.iter().filter(is_due).cloned().collect();
        for id in due {
            self.show(&id, 0);
        }
    }

    /// When the first of them has.
    pub(super) fn next_shown(&self) -> Option<Moment> {
        let since = |id: &String| self.subagents.get(id).map(|child| child.since.after(REFERENCE));
        self.subagents.uncalled.iter().filter(|_| self.folds()).filter_map(since).min()
    }
}

impl Active<'_> {
    /// When the last of its sub-agents was done.
    pub(super) fn last_end_of_children(&self) -> Option<Moment> {
        if self.subagents.is_empty() { None } else { self.subagents.last_end(self.id) }
    }
}

/// Whether an item is converted when it comes. The others are shown as they are when they are told.
fn is_written(item: &v2::ToolCallContent<'_>) -> bool {
    match item {
        v2::ToolCallContent::Content(item) => item.content.as_text().is_none(),
        v2::ToolCallContent::Diff(_) | v2::ToolCallContent::Unknown(_) => true,
        v2::ToolCallContent::Terminal(_) | v2::ToolCallContent::Session(_) => false,
        v2::ToolCallContent::More(none) => none.never(),
    }
}

/// Whether a state says nothing but what it is.
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

/// Whether a sub-agent's update is shown as a whole.
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
        // What it says that is not shown is reported where it is linked.
        Update::SubagentUpdate(_) => true,
        _ => false,
    }
}
