//! Serialization of a session as one versioned JSON document.

use std::collections::HashMap;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Extra, Meta, Text, Wire, WireFormat, v2};

use crate::Moment;
use crate::content::{Attached, Block, Content, Item};
use crate::entry::{Entry, EntryKind, Origin};
use crate::error::SessionError;
use crate::json::extra_object;
use crate::patch::{MetaRule, set};
use crate::request::{Decider, Elicitation, Permission, Settlement};
use crate::session::{Session, TERMINAL_OUTPUT_LIMIT};
use crate::snapshot::{Info, Plan};

const VERSION: u32 = 1;

/// Document of a session. Protocol values have the form of the wire, in the session's dialect.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    version: u32,
    dialect: Box<str>,
    replaces_meta: bool,
    replayed: bool,
    revision: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    entries: Vec<EntryDocument>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<(Box<str>, Box<str>, usize)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    permissions: Vec<RequestDocument>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    elicitations: Vec<RequestDocument>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    plans: Vec<PlanDocument>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    notices: Vec<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    info: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    commands: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    config_options: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Box<RawValue>>,
    /// Set unless it is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    terminal_limit: Option<usize>,
    /// Number of sealed entries.
    #[serde(default, skip_serializing_if = "is_zero")]
    sealed: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replay: Option<Box<Document>>,
}

/// Document of an entry: the update that creates it, and everything that updates do not contain.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryDocument {
    update: Box<RawValue>,
    revision: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    replayed: bool,
    /// Attachments of chunks: item (for a terminal: byte), metadata, unknown keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chunks: Vec<ChunkDocument>,
    /// Number of dropped bytes of a terminal's output.
    #[serde(default, skip_serializing_if = "is_zero")]
    dropped: usize,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

type ChunkDocument = (usize, Option<Box<RawValue>>, Option<Box<RawValue>>);

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestDocument {
    id: Box<RawValue>,
    request: Box<RawValue>,
    opened_at: i64,
    position: usize,
    revision: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_revision: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answered_by: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cancelled_by: Option<Box<str>>,
    /// Answer that was not an approval, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    no_approval: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settled_at: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    completed: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlanDocument {
    update: Box<RawValue>,
    revision: u64,
}

impl Serialize for Session {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        store(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Session {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        restore(&Document::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

// ----- writing

struct Store {
    dialect: WireFormat,
}

fn store(session: &Session) -> Document {
    let view = &session.view;
    let store = Store { dialect: view.dialect };
    let usage = view.usage.as_deref().map(|usage| v2::UsageUpdate {
        cost: set(usage.cost.clone()),
        meta: usage.meta.clone(),
        extra: usage.extra.clone(),
        ..v2::UsageUpdate::new(usage.used, usage.size)
    });
    let info = v2::SessionInfoUpdate {
        title: set(view.title().map(Into::into)),
        updated_at: set(view.updated_at().map(Into::into)),
        meta: set(view.info.meta.clone()),
        extra: view.info.extra.clone(),
        more: switchboard_acp::More,
    };
    let mut aliases: Vec<_> = (view.aliases.iter())
        .map(|((kind, id), position)| (kind.as_str().into(), (**id).into(), *position))
        .collect();
    aliases.sort();
    Document {
        version: VERSION,
        dialect: dialect_name(view.dialect).into(),
        replaces_meta: session.meta_rule == MetaRule::Replace,
        replayed: session.origin == Origin::Replayed,
        revision: view.revision,
        entries: view.entries().map(|entry| store.entry(entry)).collect(),
        aliases,
        permissions: view.permissions().map(|permission| store.permission(permission)).collect(),
        elicitations: view.elicitations().map(|elicitation| store.elicitation(elicitation)).collect(),
        plans: view.plans().map(|plan| store.plan(plan)).collect(),
        unknown: view.unknown().map(|it| store.raw(&v2::SessionUpdate::Unknown(it.clone()))).collect(),
        notices: store.raws(view.notices()),
        state: view.state().map(|state| store.raw(state)),
        info: (view.info != Info::default()).then(|| store.raw(&info)),
        commands: view.commands.as_ref().map(|commands| {
            let mut update = v2::AvailableCommandsUpdate::new(commands.items.to_vec());
            (update.meta, update.extra) = Attached::parts(commands.attached.as_deref());
            store.raw(&update)
        }),
        config_options: view.config_options.as_ref().map(|options| {
            let mut update = v2::ConfigOptionUpdate::new(options.items.to_vec());
            (update.meta, update.extra) = Attached::parts(options.attached.as_deref());
            store.raw(&update)
        }),
        usage: usage.map(|usage| store.raw(&usage)),
        terminal_limit: Some(session.terminal_limit).filter(|limit| *limit != TERMINAL_OUTPUT_LIMIT),
        sealed: session.sealed,
        replay: session.replay.as_deref().map(|replay| Box::new(self::store(replay))),
    }
}

impl Store {
    fn raw<'a>(&self, value: &impl Wire<'a>) -> Box<RawValue> {
        // Our own encoder writes valid JSON.
        RawValue::from_string(value.encode(self.dialect)).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }

    fn raws<'i, 'a, T: Wire<'a> + 'i>(&self, values: impl IntoIterator<Item = &'i T>) -> Vec<Box<RawValue>> {
        values.into_iter().map(|value| self.raw(value)).collect()
    }

    fn entry(&self, entry: &Entry) -> EntryDocument {
        let mut dropped = 0;
        let chunks = match entry {
            Entry::Message(message) => self.chunks(&message.content),
            Entry::ToolCall(call) => self.chunks(&call.content),
            Entry::Compaction(compaction) => self.chunks(&compaction.summary),
            Entry::SessionMessage(message) => self.chunks(&message.content),
            Entry::Subagent(_) => Vec::new(),
            Entry::Terminal(terminal) => {
                dropped = terminal.output.dropped();
                let chunk = |(place, attached): (usize, &Attached)| {
                    let (meta, extra) = self.attached(attached.meta.as_ref(), &attached.extra);
                    (place, meta, extra)
                };
                terminal.chunks().map(chunk).collect()
            }
        };
        EntryDocument {
            update: self.raw(&entry.to_update()),
            revision: entry.revision(),
            replayed: entry.origin() == Origin::Replayed,
            chunks,
            dropped,
        }
    }

    fn attached(
        &self,
        meta: Option<&Meta<'_>>,
        extra: &Extra<'_>,
    ) -> (Option<Box<RawValue>>, Option<Box<RawValue>>) {
        (meta.map(|meta| self.raw(meta)), extra_object(extra).map(|extra| self.raw(&extra)))
    }

    fn chunks<B: Block>(&self, content: &Content<B>) -> Vec<ChunkDocument> {
        let chunk = |(index, item): (usize, Item<'_, B>)| {
            let (meta, extra) = self.attached(item.chunk_meta(), item.chunk_extra()?);
            Some((index, meta, extra))
        };
        content.items().enumerate().filter_map(chunk).collect()
    }

    fn permission(&self, permission: &Permission) -> RequestDocument {
        let request = v2::RequestPermissionRequest {
            description: permission.description().map(Into::into),
            subject: permission.subject().cloned(),
            meta: permission.meta.clone(),
            extra: permission.extra.clone(),
            ..v2::RequestPermissionRequest::new("", permission.title(), permission.options().to_vec())
        };
        let base = RequestDocument {
            id: self.raw(&permission.id),
            request: self.raw(&request),
            opened_at: permission.opened_at.0,
            position: permission.position,
            revision: permission.revision,
            content_revision: Some(permission.content_revision),
            ..RequestDocument::default()
        };
        base.settled(&permission.settlement, |option_id| self.raw(&Text::Borrowed(&**option_id)))
    }

    fn elicitation(&self, elicitation: &Elicitation) -> RequestDocument {
        let base = RequestDocument {
            id: self.raw(&elicitation.id),
            request: self.raw(elicitation.request()),
            opened_at: elicitation.opened_at.0,
            position: elicitation.position,
            revision: elicitation.revision,
            completed: elicitation.completed,
            ..RequestDocument::default()
        };
        base.settled(&elicitation.settlement, |response| self.raw(&**response))
    }

    fn plan(&self, plan: &Plan) -> PlanDocument {
        PlanDocument { update: self.raw(&plan.to_update()), revision: plan.revision }
    }
}

impl RequestDocument {
    fn settled<A>(mut self, settlement: &Settlement<A>, write: impl Fn(&A) -> Box<RawValue>) -> Self {
        match settlement {
            Settlement::Pending => {}
            Settlement::Answered { answer, by, at } => {
                self.answer = Some(write(answer));
                self.answered_by = Some(by.to_string().into());
                self.settled_at = Some(at.0);
            }
            Settlement::Cancelled { by, at } => {
                self.cancelled_by = Some(by.to_string().into());
                self.settled_at = Some(at.0);
            }
            Settlement::NotAnApproval { reason, by, at } => {
                self.no_approval = Some((**reason).into());
                self.answered_by = Some(by.to_string().into());
                self.settled_at = Some(at.0);
            }
        }
        self
    }

    fn settlement<A>(&self, read: impl Fn(&RawValue) -> Restored<A>) -> Restored<Settlement<A>> {
        let at = Moment(self.settled_at.unwrap_or_default());
        let by = || Decider::from(self.answered_by.as_deref().unwrap_or_default());
        Ok(match (&self.answer, self.cancelled_by.as_deref(), self.no_approval.as_deref()) {
            (Some(answer), _, _) => Settlement::Answered { answer: read(answer)?, by: by(), at },
            (None, Some(cancelled_by), _) => Settlement::Cancelled { by: cancelled_by.into(), at },
            (None, None, Some(reason)) => Settlement::NotAnApproval { reason: reason.into(), by: by(), at },
            (None, None, None) => Settlement::Pending,
        })
    }
}

impl Default for RequestDocument {
    fn default() -> Self {
        let null = || RawValue::NULL.to_owned();
        RequestDocument {
            id: null(),
            request: null(),
            opened_at: 0,
            position: 0,
            revision: 0,
            content_revision: None,
            answer: None,
            answered_by: None,
            cancelled_by: None,
            no_approval: None,
            settled_at: None,
            completed: false,
        }
    }
}

const DIALECTS: [(WireFormat, &str); 4] = [
    (WireFormat::V1, "v1"),
    (WireFormat::Spec, "spec"),
    (WireFormat::Newest, "newest"),
    (WireFormat::Any, "any"),
];

fn dialect_name(dialect: WireFormat) -> &'static str {
    DIALECTS.iter().find(|(known, _)| *known == dialect).map_or("any", |(_, name)| name)
}

// ----- reading

type Restored<T> = Result<T, SessionError>;

/// Parses a stored value tolerantly, since it may have been accepted tolerantly when it was received.
fn wire<'d, T: Wire<'d>>(raw: &'d RawValue, dialect: WireFormat, place: &'static str) -> Restored<T> {
    match T::decode_tolerant(raw.get(), dialect) {
        Ok((value, _)) => Ok(value),
        Err(source) => Err(SessionError::Damaged { place, source: Some(source) }),
    }
}

fn wires<'d, T: Wire<'d>>(
    raws: &'d [Box<RawValue>],
    dialect: WireFormat,
    place: &'static str,
) -> Restored<Vec<T::Owned>> {
    raws.iter().map(|raw| wire::<T>(raw, dialect, place).map(T::into_owned)).collect()
}

fn restore(document: &Document) -> Restored<Session> {
    if document.version != VERSION {
        return Err(SessionError::UnknownVersion { version: document.version });
    }
    let dialect = DIALECTS.iter().find(|(_, name)| **name == *document.dialect);
    let Some(&(dialect, _)) = dialect else {
        return Err(SessionError::Damaged { place: "dialect", source: None });
    };
    let mut session = Session::new(dialect);
    // Every entry is created by one update with its complete metadata.
    session.meta_rule = MetaRule::Replace;
    session.terminal_limit = document.terminal_limit.unwrap_or(TERMINAL_OUTPUT_LIMIT);
    for entry in &document.entries {
        // Each entry is distinct, even if two have the same id.
        session.seal();
        restore_entry(&mut session, entry)?;
    }
    session.sealed = document.sealed;
    for plan in &document.plans {
        let update: v2::PlanUpdate<'_> = wire(&plan.update, dialect, "plans")?;
        session.view.revision = plan.revision.saturating_sub(1);
        session.apply(&v2::SessionUpdate::PlanUpdate(Box::new(update)));
    }
    for unknown in &document.unknown {
        session.apply(&wire(unknown, dialect, "unknown")?);
    }
    if let Some(info) = &document.info {
        session.apply(&v2::SessionUpdate::SessionInfoUpdate(Box::new(wire(info, dialect, "info")?)));
    }
    if let Some(usage) = &document.usage {
        session.apply(&v2::SessionUpdate::UsageUpdate(Box::new(wire(usage, dialect, "usage")?)));
    }
    if let Some(state) = &document.state {
        session.apply(&v2::SessionUpdate::StateUpdate(Box::new(wire(state, dialect, "state")?)));
    }
    if let Some(commands) = &document.commands {
        session.apply(&v2::SessionUpdate::AvailableCommandsUpdate(wire(commands, dialect, "commands")?));
    }
    if let Some(options) = &document.config_options {
        session.apply(&v2::SessionUpdate::ConfigOptionUpdate(wire(options, dialect, "configOptions")?));
    }
    for request in &document.permissions {
        restore_permission(&mut session, request, dialect)?;
    }
    for request in &document.elicitations {
        restore_elicitation(&mut session, request, dialect)?;
    }
    let view = &mut session.view;
    view.notices = Arc::new(wires::<v2::Notice<'_>>(&document.notices, dialect, "notices")?);
    let alias = |(kind, id, position): &(Box<str>, Box<str>, usize)| {
        let kind = EntryKind::parse(kind).filter(|_| *position < view.entries.len());
        kind.map(|kind| ((kind, (**id).into()), *position))
    };
    let aliases: Option<HashMap<_, _>> = document.aliases.iter().map(alias).collect();
    let aliases = aliases.ok_or(SessionError::Damaged { place: "aliases", source: None })?;
    view.aliases = Arc::new(aliases);
    view.revision = document.revision;
    session.meta_rule = if document.replaces_meta { MetaRule::Replace } else { MetaRule::Merge };
    session.origin = origin(document.replayed);
    session.replay = document.replay.as_deref().map(restore).transpose()?.map(Box::new);
    Ok(session)
}

fn origin(replayed: bool) -> Origin {
    if replayed { Origin::Replayed } else { Origin::Live }
}

fn restore_entry(session: &mut Session, document: &EntryDocument) -> Restored<()> {
    let dialect = session.view.dialect;
    let position = session.view.entries.len();
    let update = wire(&document.update, dialect, "entries")?;
    session.apply(&update);
    let damaged = SessionError::Damaged { place: "entries", source: None };
    let entry = session.view.entries.get_mut(position).ok_or(damaged)?;
    let head = entry.head_mut();
    head.revision = document.revision;
    head.origin = origin(document.replayed);
    if let Entry::Terminal(terminal) = entry {
        Arc::make_mut(terminal).output.set_dropped(document.dropped);
    }
    if document.chunks.is_empty() {
        return Ok(());
    }
    match entry {
        Entry::Message(message) => restore_chunks(&mut message.content, &document.chunks, dialect),
        Entry::ToolCall(call) => restore_chunks(&mut Arc::make_mut(call).content, &document.chunks, dialect),
        Entry::Compaction(compaction) => {
            restore_chunks(&mut Arc::make_mut(compaction).summary, &document.chunks, dialect)
        }
        Entry::SessionMessage(message) => {
            restore_chunks(&mut Arc::make_mut(message).content, &document.chunks, dialect)
        }
        Entry::Subagent(_) => Ok(()),
        Entry::Terminal(terminal) => {
            let terminal = Arc::make_mut(terminal);
            for (place, meta, extra) in &document.chunks {
                let (meta, extra) = restore_attached(meta.as_deref(), extra.as_deref(), dialect)?;
                if let Some(attached) = Attached::of(meta.as_ref(), &extra) {
                    terminal.chunks.push((terminal.output.dropped().saturating_add(*place), attached));
                }
            }
            Ok(())
        }
    }
}

fn restore_chunks<B: Block>(
    content: &mut Content<B>,
    chunks: &[ChunkDocument],
    dialect: WireFormat,
) -> Restored<()> {
    let mut chunks = chunks.iter().peekable();
    let mut restored = Content::default();
    for (index, item) in content.items().enumerate() {
        let chunk = chunks.next_if(|(place, _, _)| *place == index);
        let (meta, extra) =
            chunk.map_or((None, None), |(_, meta, extra)| (meta.as_deref(), extra.as_deref()));
        let (meta, extra) = restore_attached(meta, extra, dialect)?;
        restored.push(&item.block(), meta.as_ref(), &extra);
    }
    *content = restored;
    Ok(())
}

fn restore_attached<'d>(
    meta: Option<&'d RawValue>,
    extra: Option<&'d RawValue>,
    dialect: WireFormat,
) -> Restored<(Option<Meta<'d>>, Extra<'static>)> {
    let meta = meta.map(|meta| wire(meta, dialect, "chunks")).transpose()?;
    let mut keys = Extra::new();
    if let Some(extra) = extra {
        let extra: Meta<'_> = wire(extra, dialect, "chunks")?;
        for (key, value) in extra.entries() {
            keys.insert(key.into_owned(), value.into_owned());
        }
    }
    Ok((meta, keys))
}

fn restore_permission(
    session: &mut Session,
    document: &RequestDocument,
    dialect: WireFormat,
) -> Restored<()> {
    let id: RequestId<'_> = wire(&document.id, WireFormat::Any, "permissions")?;
    let request: v2::RequestPermissionRequest<'_> = wire(&document.request, dialect, "permissions")?;
    let mut permission = Permission::new(&id, &request, Moment(document.opened_at), document.position);
    permission.revision = document.revision;
    permission.content_revision = document.content_revision.unwrap_or(document.revision);
    permission.settlement = document.settlement(|answer| {
        let option_id: Text<'_> = wire(answer, dialect, "permissions")?;
        Ok(Arc::from(&*option_id))
    })?;
    let is_pending = permission.settlement.is_pending();
    let index = session.view.push_permission(Arc::new(permission));
    if is_pending {
        session.pending.push(index);
    }
    Ok(())
}

fn restore_elicitation(
    session: &mut Session,
    document: &RequestDocument,
    dialect: WireFormat,
) -> Restored<()> {
    let id: RequestId<'_> = wire(&document.id, WireFormat::Any, "elicitations")?;
    let request: v2::CreateElicitationRequest<'_> = wire(&document.request, dialect, "elicitations")?;
    let settlement = document.settlement(|answer| {
        let response: v2::CreateElicitationResponse<'_> = wire(answer, dialect, "elicitations")?;
        Ok(Arc::new(response.into_owned()))
    })?;
    session.view.push_elicitation(Arc::new(Elicitation {
        id: id.into_owned(),
        request: Arc::new(request.into_owned()),
        opened_at: Moment(document.opened_at),
        position: document.position,
        settlement,
        completed: document.completed,
        revision: document.revision,
    }));
    Ok(())
}
