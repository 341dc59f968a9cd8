//! A session as one JSON object, for programs and people.

use switchboard_acp::{Extra, Meta, Text, UnknownVariant, Wire, WireFormat, v2};

use crate::Moment;
use crate::content::{Attached, Block, Content};
use crate::entry::{Entry, Origin};
use crate::request::{Elicitation, Permission, Settlement};
use crate::snapshot::Snapshot;

/// Writer for a JSON object.
pub(crate) struct ObjectWriter<'o> {
    out: &'o mut String,
    dialect: WireFormat,
    first: bool,
}

impl<'o> ObjectWriter<'o> {
    pub(crate) fn begin(out: &'o mut String, dialect: WireFormat) -> Self {
        out.push('{');
        ObjectWriter { out, dialect, first: true }
    }

    pub(crate) fn end(self) {
        self.out.push('}');
    }

    pub(crate) fn key(&mut self, key: &str) -> &mut String {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
        Text::Borrowed(key).encode_into(self.out, self.dialect);
        self.out.push(':');
        self.out
    }

    pub(crate) fn value<'a>(&mut self, key: &str, value: &impl Wire<'a>) {
        let dialect = self.dialect;
        value.encode_into(self.key(key), dialect);
    }

    pub(crate) fn optional<'a>(&mut self, key: &str, value: Option<&impl Wire<'a>>) {
        if let Some(value) = value {
            self.value(key, value);
        }
    }

    pub(crate) fn text(&mut self, key: &str, text: &str) {
        self.value(key, &Text::Borrowed(text));
    }

    fn optional_text(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    fn text_or_null(&mut self, key: &str, text: Option<&str>) {
        match text {
            Some(text) => self.text(key, text),
            None => self.key(key).push_str("null"),
        }
    }

    pub(crate) fn extra(&mut self, extra: &Extra<'_>) {
        for (key, value) in extra.iter() {
            self.value(key, value);
        }
    }

    /// Writes metadata and unknown keys.
    fn attached(&mut self, attached: &Attached) {
        self.optional("_meta", attached.meta.as_ref());
        self.extra(&attached.extra);
    }

    fn attached_object(&mut self, key: &str, attached: Option<&Attached>) {
        if let Some(attached) = attached {
            let dialect = self.dialect;
            let mut object = ObjectWriter::begin(self.key(key), dialect);
            object.attached(attached);
            object.end();
        }
    }

    pub(crate) fn array<T>(
        &mut self,
        key: &str,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut String, T, WireFormat),
    ) {
        let dialect = self.dialect;
        let out = self.key(key);
        out.push('[');
        for (index, item) in items.enumerate() {
            if index > 0 {
                out.push(',');
            }
            write(out, item, dialect);
        }
        out.push(']');
    }

    fn values<'i, 'a, T: Wire<'a> + 'i>(&mut self, key: &str, items: impl IntoIterator<Item = &'i T>) {
        self.array(key, items.into_iter(), |out, item, dialect| item.encode_into(out, dialect));
    }

    pub(crate) fn content<B: Block>(&mut self, key: &str, content: &Content<B>) {
        self.array(key, content.items(), |out, item, dialect| item.block().encode_into(out, dialect));
    }
}

impl Snapshot {
    /// Returns the session as a JSON object on one line. Lists contain the protocol's objects. `sessionId`,
    /// `state`, `stopReason`, `title` and `usage` are `null` if absent; `elicitations`, `notices`,
    /// `updatedAt`, `background`, `_meta`, and attachments of plans and lists (`planUpdates`,
    /// `commandsUpdate`, `configOptionsUpdate`) are omitted if absent.
    ///
    /// ```
    /// use switchboard_acp::{WireFormat, v2};
    /// use switchboard_session::Session;
    ///
    /// let mut session = Session::new(WireFormat::Spec);
    /// session.apply(&v2::ToolCallUpdate::new("c-1").title("Read").into());
    /// let json: serde_json::Value = serde_json::from_str(&session.to_json(Some("s-1"))).unwrap();
    /// assert_eq!(json["entries"][0]["type"], "tool_call");
    /// assert_eq!(json["entries"][0]["status"], "pending");
    /// ```
    pub fn to_json(&self, session_id: Option<&str>) -> String {
        let mut out = String::new();
        let mut object = ObjectWriter::begin(&mut out, self.dialect);
        object.text_or_null("sessionId", session_id);
        object.text("state", self.state().map_or("idle", v2::StateUpdate::tag));
        object.text_or_null("stopReason", self.stop_reason().map(v2::StopReason::as_str));
        if let Some(v2::StateUpdate::Idle(idle)) = self.state() {
            object.optional("error", idle.error.as_ref());
        }
        if let Some(background) = self.background() {
            object.values("background", background);
        }
        object.text_or_null("title", self.title());
        object.optional_text("updatedAt", self.updated_at());
        object.array("entries", self.entries(), write_entry);
        object.array("permissions", self.permissions(), write_permission);
        if !self.elicitations.is_empty() {
            object.array("elicitations", self.elicitations(), write_elicitation);
        }
        object.values("plans", self.plans().map(|plan| &plan.content));
        if self.plans().any(|plan| plan.attached.is_some()) {
            let attached = self.plans().filter_map(|plan| Some((plan.id(), plan.attached()?)));
            object.array("planUpdates", attached, |out, (id, attached), dialect| {
                let mut object = ObjectWriter::begin(out, dialect);
                object.text("planId", id);
                object.attached(attached);
                object.end();
            });
        }
        object.values("commands", self.commands());
        object.attached_object("commandsUpdate", self.commands_attached());
        object.values("configOptions", self.config_options());
        object.attached_object("configOptionsUpdate", self.config_options_attached());
        match self.usage() {
            None => object.key("usage").push_str("null"),
            Some(usage) => {
                let mut usage_object = ObjectWriter::begin(object.key("usage"), self.dialect);
                usage_object.value("used", &usage.used);
                usage_object.value("size", &usage.size);
                usage_object.optional("cost", usage.cost.as_ref());
                usage_object.optional("_meta", usage.meta.as_ref());
                usage_object.extra(&usage.extra);
                usage_object.end();
            }
        }
        if !self.notices.is_empty() {
            object.values("notices", self.notices());
        }
        object.array("unknown", self.unknown(), write_unknown);
        object.optional("_meta", self.meta());
        object.extra(&self.info.extra);
        object.end();
        out
    }
}

fn write_unknown(out: &mut String, unknown: &UnknownVariant<'_>, dialect: WireFormat) {
    v2::SessionUpdate::Unknown(unknown.clone()).encode_into(out, dialect);
}

impl Entry {
    /// Returns the entry as a JSON object: its type and the fields of its updates.
    pub fn to_json(&self, dialect: WireFormat) -> String {
        let mut out = String::new();
        write_entry(&mut out, self, dialect);
        out
    }
}

fn write_entry(out: &mut String, entry: &Entry, dialect: WireFormat) {
    let mut object = ObjectWriter::begin(out, dialect);
    object.text("type", entry.kind().as_str());
    match entry {
        Entry::Message(message) => {
            object.text("messageId", message.id());
            object.content("content", &message.content);
        }
        Entry::ToolCall(call) => {
            object.text("toolCallId", call.id());
            object.optional_text("name", call.name());
            object.optional_text("title", call.title());
            object.value("kind", &call.kind);
            object.value("status", &call.status);
            object.content("content", &call.content);
            object.values("locations", call.locations());
            object.optional("rawInput", call.raw_input());
            object.optional("rawOutput", call.raw_output());
            object.optional("capabilities", call.capabilities());
        }
        Entry::Terminal(terminal) => {
            object.text("terminalId", terminal.id());
            object.optional_text("command", terminal.command());
            object.optional_text("cwd", terminal.cwd());
            object.value("output", &terminal.wire_output());
            if terminal.output.dropped() > 0 {
                object.value("outputDropped", &(terminal.output.dropped() as u64));
            }
            object.optional("exitStatus", terminal.exit_status());
            object.optional("size", terminal.size());
            object.optional("capabilities", terminal.capabilities());
        }
        Entry::Compaction(compaction) => {
            object.text("compactionId", compaction.id());
            object.value("status", &compaction.status);
            object.content("summary", &compaction.summary);
            object.optional_text("error", compaction.error());
        }
        Entry::Subagent(subagent) => {
            object.text("sessionId", subagent.session_id());
            object.optional_text("title", subagent.title());
            object.optional_text("description", subagent.description());
            object.optional("capabilities", subagent.capabilities());
            object.optional("state", subagent.state());
            object.optional_text("cwd", subagent.cwd());
            if let Some(directories) = subagent.additional_directories() {
                object.values("additionalDirectories", directories);
            }
        }
        Entry::SessionMessage(message) => {
            object.text("messageId", message.id());
            object.optional_text("senderSessionId", message.sender());
            object.optional_text("recipientSessionId", message.recipient());
            object.optional_text("senderMessageId", message.sender_message());
            object.optional_text("recipientMessageId", message.recipient_message());
            object.content("content", &message.content);
        }
    }
    if let Origin::Replayed = entry.origin() {
        object.value("replayed", &true);
    }
    object.optional("_meta", entry.meta());
    object.extra(entry.extra());
    object.end();
}

fn write_permission(out: &mut String, permission: &Permission, dialect: WireFormat) {
    let mut object = ObjectWriter::begin(out, dialect);
    object.value("requestId", &permission.id);
    object.text("title", &permission.title);
    object.optional_text("description", permission.description());
    object.optional("subject", permission.subject());
    object.values("options", permission.options());
    object.optional("_meta", permission.meta());
    write_settlement(&mut object, &permission.settlement, |object, option_id| {
        object.text("optionId", option_id);
    });
    object.value("openedAt", &permission.opened_at.0);
    object.extra(&permission.extra);
    object.end();
}

fn write_elicitation(out: &mut String, elicitation: &Elicitation, dialect: WireFormat) {
    let mut object = ObjectWriter::begin(out, dialect);
    object.value("requestId", &elicitation.id);
    object.value("request", &*elicitation.request);
    write_settlement(&mut object, &elicitation.settlement, |object, response| {
        object.value("response", &**response);
    });
    if elicitation.completed {
        object.value("completed", &true);
    }
    object.value("openedAt", &elicitation.opened_at.0);
    object.end();
}

fn write_settlement<A>(
    object: &mut ObjectWriter<'_>,
    settlement: &Settlement<A>,
    write_answer: impl FnOnce(&mut ObjectWriter<'_>, &A),
) {
    let (state, by, at) = match settlement {
        Settlement::Pending => ("pending", None, None),
        Settlement::Answered { by, at, .. } => ("answered", Some(by), Some(at)),
        Settlement::Cancelled { by, at } => ("cancelled", Some(by), Some(at)),
        Settlement::NotAnApproval { by, at, .. } => ("not_approved", Some(by), Some(at)),
    };
    object.text("state", state);
    match settlement {
        Settlement::Answered { answer, .. } => write_answer(object, answer),
        Settlement::NotAnApproval { reason, .. } => object.text("reason", reason),
        Settlement::Pending | Settlement::Cancelled { .. } => {}
    }
    object.optional_text("by", by.map(ToString::to_string).as_deref());
    if let Some(Moment(at)) = at {
        object.value("at", at);
    }
}

/// Returns unknown keys as one object.
pub(crate) fn extra_object(extra: &Extra<'_>) -> Option<Meta<'static>> {
    let entries = extra.iter().map(|(key, value)| (Text::Borrowed(key), value.borrowed()));
    (!extra.is_empty()).then(|| Meta::from_entries(entries))
}
