//! Session updates.

use switchboard_diff as diff;
use switchboard_diff::FileAtHand;
use switchboard_protocol::{Field, v1, v2};

use super::Converted;
use crate::Error;
use crate::convert::tool_call::{Surroundings, item_to_v1, scalars_to_v1};
use crate::convert::{config, content, misc};
use crate::loss::{At, Notes, Severity};

struct Nothing;

impl Surroundings for Nothing {
    fn file(&mut self, _: &str) -> FileAtHand<'static> {
        FileAtHand::Unknown
    }
}

/// Translates one update of version 2 into the updates of version 1 that say the same.
///
/// A whole message becomes a chunk for each block, which is the same only where nothing of that message has been
/// sent before. Clears of a tool call's scalar and raw fields are left out and listed.
///
/// ```
/// use switchboard_bridge::{Error, update_to_v1};
/// use switchboard_protocol::{WireFormat, Wire, v2};
///
/// let text = r#"{"sessionUpdate":"agent_message","messageId":"m","content":null}"#;
/// let update = v2::SessionUpdate::decode(text, WireFormat::Spec)?;
/// let error = update_to_v1(update).unwrap_err();
/// assert_eq!(error.to_string(), "agent_message.content: version 1 cannot take back what was said");
/// # Ok::<(), switchboard_protocol::DecodeError>(())
/// ```
pub fn update_to_v1(update: v2::SessionUpdate<'_>) -> Result<Converted<Vec<v1::SessionUpdate<'_>>>, Error> {
    use v1::SessionUpdate as V1;
    use v2::SessionUpdate as V2;
    let mut notes = Notes::failing();
    let tag = update.tag().to_owned();
    let at = At::key(&tag);
    let cannot = |reason: &str| Err(Error::unrepresentable(at, reason));
    let value = match update {
        V2::UserMessageChunk(chunk) => vec![V1::UserMessageChunk(chunk_to_v1(chunk, &at, &mut notes)?)],
        V2::AgentMessageChunk(chunk) => vec![V1::AgentMessageChunk(chunk_to_v1(chunk, &at, &mut notes)?)],
        V2::AgentThoughtChunk(chunk) => vec![V1::AgentThoughtChunk(chunk_to_v1(chunk, &at, &mut notes)?)],
        V2::UserMessage(message) => fan_out(message, V1::UserMessageChunk, &at, &mut notes)?,
        V2::AgentMessage(message) => fan_out(message, V1::AgentMessageChunk, &at, &mut notes)?,
        V2::AgentThought(message) => fan_out(message, V1::AgentThoughtChunk, &at, &mut notes)?,
        V2::StateUpdate(_) => return cannot("version 1 has no states; a turn is a request that is open"),
        V2::ToolCallContentChunk(_) => {
            return cannot("version 1 replaces content as a whole, which needs the content so far");
        }
        V2::ToolCallUpdate(update) => {
            vec![V1::ToolCallUpdate(Box::new(tool_call_to_v1(*update, &at, &mut notes)?))]
        }
        V2::TerminalUpdate(_) | V2::TerminalOutputChunk(_) => {
            return cannot("version 1 terminals belong to the client, not to the agent");
        }
        V2::PlanUpdate(update) => vec![V1::Plan(plan_to_v1(*update, &at, &mut notes)?)],
        V2::AvailableCommandsUpdate(update) => {
            let at = at.then("availableCommands");
            let commands = misc::commands_to_v1(update.available_commands, &at, &mut notes)?;
            let mut wire = v1::AvailableCommandsUpdate::new(commands);
            (wire.meta, wire.extra) = (update.meta, update.extra);
            vec![V1::AvailableCommandsUpdate(wire)]
        }
        V2::ConfigOptionUpdate(update) => {
            let at = at.then("configOptions");
            let options = config::to_v1(update.config_options, true, &at, &mut notes)?;
            let mut wire = v1::ConfigOptionUpdate::new(options);
            (wire.meta, wire.extra) = (update.meta, update.extra);
            vec![V1::ConfigOptionUpdate(wire)]
        }
        V2::SessionInfoUpdate(update) => {
            if update.meta.is_clear() {
                notes.omit(Severity::Minor, &at.then("_meta"), "version 1 cannot clear metadata");
            }
            vec![V1::SessionInfoUpdate(update)]
        }
        V2::UsageUpdate(mut update) => {
            if update.cost.is_clear() {
                notes.omit(Severity::Minor, &at.then("cost"), "version 1 cannot clear the cost");
                update.cost = Field::Keep;
            }
            vec![V1::UsageUpdate(update)]
        }
        V2::Notice(notice) => vec![V1::Notice(notice)],
        V2::CompactionUpdate(update) => vec![V1::CompactionUpdate(update)],
        V2::CompactionSummaryChunk(mut chunk) => {
            chunk.content = content::to_v1(chunk.content, &at.then("content"), &mut notes)?;
            vec![V1::CompactionSummaryChunk(chunk)]
        }
        V2::Unknown(_) => return cannot("version 1 has no updates of this kind"),
    };
    Ok(Converted { value, omitted: notes.entries })
}

fn chunk_to_v1<'a>(
    chunk: v2::ContentChunk<'a>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<v1::ContentChunk<'a>, Error> {
    let mut wire = v1::ContentChunk::new(content::to_v1(chunk.content, &at.then("content"), notes)?);
    wire.message_id = Some(chunk.message_id);
    (wire.meta, wire.extra) = (chunk.meta, chunk.extra);
    Ok(wire)
}

fn fan_out<'a>(
    message: v2::MessageUpdate<'a>,
    variant: fn(v1::ContentChunk<'a>) -> v1::SessionUpdate<'a>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<Vec<v1::SessionUpdate<'a>>, Error> {
    let at_content = at.then("content");
    let blocks = match message.content {
        Field::Set(blocks) if !blocks.is_empty() => blocks,
        Field::Set(_) | Field::Clear => {
            return Err(Error::unrepresentable(at_content, "version 1 cannot take back what was said"));
        }
        Field::Keep => {
            return Err(Error::unrepresentable(at, "version 1 cannot change a message without adding to it"));
        }
    };
    let meta = match message.meta {
        Field::Keep => None,
        Field::Set(meta) => Some(meta),
        Field::Clear => {
            return Err(Error::unrepresentable(at.then("_meta"), "version 1 cannot clear metadata"));
        }
    };
    let chunk = |(index, block)| {
        let mut wire = v1::ContentChunk::new(content::to_v1(block, &at_content.item(index), notes)?);
        wire.message_id = Some(message.message_id.clone());
        wire.meta = meta.clone();
        wire.extra = message.extra.clone();
        Ok(variant(wire))
    };
    blocks.into_iter().enumerate().map(chunk).collect()
}

pub(super) fn tool_call_to_v1<'a>(
    mut update: v2::ToolCallUpdate<'a>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<v1::ToolCallUpdate<'a>, Error> {
    let scalars = scalars_to_v1(&mut update, false, at, notes)?;
    let mut wire = v1::ToolCallUpdate::new(update.tool_call_id);
    wire.content = match update.content {
        Field::Keep => None,
        Field::Clear => Some(Vec::new()),
        Field::Set(items) => {
            let at = at.then("content");
            let mut converted = Vec::with_capacity(items.len());
            for (index, item) in items.into_iter().enumerate() {
                converted.extend(item_to_v1(item, &mut Nothing, &at.item(index), notes)?);
            }
            Some(converted)
        }
    };
    wire.title = scalars.title;
    wire.name = scalars.name;
    wire.kind = scalars.kind;
    wire.status = scalars.status;
    wire.locations = scalars.locations;
    wire.raw_input = scalars.raw_input;
    wire.raw_output = scalars.raw_output;
    wire.meta = scalars.meta;
    wire.extra = update.extra;
    Ok(wire)
}

fn plan_to_v1<'a>(update: v2::PlanUpdate<'a>, at: &At<'_>, notes: &mut Notes) -> Result<v1::Plan<'a>, Error> {
    match update.plan {
        v2::PlanUpdateContent::Items(items) => {
            let entries = misc::entries_to_v1(items.entries, &at.then("plan.entries"), notes)?;
            notes.omit(Severity::Minor, &at.then("plan.planId"), "version 1 has one plan, without an id");
            let mut wire = v1::Plan::new(entries);
            wire.meta = update.meta.or(items.meta);
            Ok(wire)
        }
        v2::PlanUpdateContent::Unknown(unknown) => {
            let reason = format!("version 1 has no plans of type \"{}\"", unknown.tag);
            Err(Error::unrepresentable(at.then("plan"), reason))
        }
    }
}

/// Translates one update of version 1 into the update of version 2 that says the same.
///
/// ```
/// use switchboard_bridge::update_to_v2;
/// use switchboard_protocol::{WireFormat, Wire, v1};
///
/// let text = r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"Read","kind":"read"}"#;
/// let update = update_to_v2(v1::SessionUpdate::decode(text, WireFormat::V1)?).unwrap().value;
/// assert_eq!(
///     update.encode(WireFormat::Spec),
///     r#"{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"Read","kind":"read"}"#,
/// );
/// # Ok::<(), switchboard_protocol::DecodeError>(())
/// ```
pub fn update_to_v2(update: v1::SessionUpdate<'_>) -> Result<Converted<v2::SessionUpdate<'_>>, Error> {
    use v1::SessionUpdate as V1;
    use v2::SessionUpdate as V2;
    let mut notes = Notes::failing();
    let tag = update.tag().to_owned();
    let at = At::key(&tag);
    let value = match update {
        V1::UserMessageChunk(chunk) => V2::UserMessageChunk(chunk_to_v2(chunk, &at)?),
        V1::AgentMessageChunk(chunk) => V2::AgentMessageChunk(chunk_to_v2(chunk, &at)?),
        V1::AgentThoughtChunk(chunk) => V2::AgentThoughtChunk(chunk_to_v2(chunk, &at)?),
        V1::ToolCall(call) => V2::ToolCallUpdate(Box::new(call_to_v2(*call, &at)?)),
        V1::ToolCallUpdate(update) => V2::ToolCallUpdate(Box::new(tool_call_to_v2(*update, &at)?)),
        V1::Plan(plan) => {
            let mut items = v2::PlanItems::new("main", plan.entries);
            items.extra = plan.extra;
            let mut wire = v2::PlanUpdate::new(v2::PlanUpdateContent::Items(items));
            wire.meta = plan.meta;
            V2::PlanUpdate(Box::new(wire))
        }
        V1::AvailableCommandsUpdate(update) => {
            let mut wire = v2::AvailableCommandsUpdate::new(misc::commands_to_v2(update.available_commands));
            (wire.meta, wire.extra) = (update.meta, update.extra);
            V2::AvailableCommandsUpdate(wire)
        }
        V1::CurrentModeUpdate(_) => {
            return Err(Error::unrepresentable(
                at,
                "version 2 has no modes; the option for them is known only to who remembers it",
            ));
        }
        V1::ConfigOptionUpdate(update) => {
            let options = config::to_v2(update.config_options, &at.then("configOptions"), &mut notes)?;
            let mut wire = v2::ConfigOptionUpdate::new(options);
            (wire.meta, wire.extra) = (update.meta, update.extra);
            V2::ConfigOptionUpdate(wire)
        }
        V1::SessionInfoUpdate(update) => V2::SessionInfoUpdate(update),
        V1::UsageUpdate(mut update) => {
            if update.cost.is_clear() {
                update.cost = Field::Keep;
            }
            V2::UsageUpdate(update)
        }
        V1::Notice(notice) => V2::Notice(notice),
        V1::CompactionUpdate(update) => V2::CompactionUpdate(update),
        V1::CompactionSummaryChunk(chunk) => V2::CompactionSummaryChunk(chunk),
        // Version 2 keeps what it does not know.
        V1::Unknown(unknown) => V2::Unknown(unknown),
    };
    Ok(Converted { value, omitted: notes.entries })
}

fn chunk_to_v2<'a>(chunk: v1::ContentChunk<'a>, at: &At<'_>) -> Result<v2::ContentChunk<'a>, Error> {
    let Some(message_id) = chunk.message_id else {
        return Err(Error::unrepresentable(
            at.then("messageId"),
            "version 2 wants the id of the message, and this chunk has none",
        ));
    };
    let mut wire = v2::ContentChunk::new(message_id, chunk.content);
    (wire.meta, wire.extra) = (chunk.meta, chunk.extra);
    Ok(wire)
}

fn call_to_v2<'a>(call: v1::ToolCall<'a>, at: &At<'_>) -> Result<v2::ToolCallUpdate<'a>, Error> {
    let update = v1::ToolCallUpdate {
        tool_call_id: call.tool_call_id,
        title: Some(call.title),
        name: call.name,
        kind: call.kind,
        status: call.status,
        content: call.content,
        locations: call.locations,
        raw_input: call.raw_input,
        raw_output: call.raw_output,
        meta: call.meta,
        extra: call.extra,
    };
    tool_call_to_v2(update, at)
}

pub(super) fn tool_call_to_v2<'a>(
    update: v1::ToolCallUpdate<'a>,
    at: &At<'_>,
) -> Result<v2::ToolCallUpdate<'a>, Error> {
    let mut wire = v2::ToolCallUpdate::new(update.tool_call_id);
    wire.title = set(update.title);
    wire.name = set(update.name);
    wire.kind = set(update.kind);
    wire.status = set(update.status);
    wire.locations = set(update.locations);
    wire.raw_input = set(update.raw_input);
    wire.raw_output = set(update.raw_output);
    wire.meta = set(update.meta);
    wire.extra = update.extra;
    if let Some(items) = update.content {
        let at = at.then("content");
        let convert = |(index, item)| item_to_v2(item, &at.item(index));
        wire.content = Field::Set(items.into_iter().enumerate().map(convert).collect::<Result<_, _>>()?);
    }
    Ok(wire)
}

fn item_to_v2<'a>(item: v1::ToolCallContent<'a>, at: &At<'_>) -> Result<v2::ToolCallContent<'a>, Error> {
    match item {
        v1::ToolCallContent::Content(item) => Ok(v2::ToolCallContent::Content(item)),
        v1::ToolCallContent::Diff(source) => {
            Ok(v2::ToolCallContent::Diff(Box::new(diff::from_v1(source, &FileAtHand::Unknown))))
        }
        v1::ToolCallContent::Terminal(_) => {
            Err(Error::unrepresentable(at, "a terminal of version 1 belongs to the client"))
        }
        v1::ToolCallContent::Unknown(unknown) => Ok(v2::ToolCallContent::Unknown(unknown)),
    }
}

fn set<T>(value: Option<T>) -> Field<T> {
    value.map_or(Field::Keep, Field::Set)
}
