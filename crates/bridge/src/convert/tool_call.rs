//! Tool calls: kinds, statuses and content.

use switchboard_acp::v2::{ToolCallStatus, ToolKind};
use switchboard_acp::{Field, Meta, Text, v1, v2};
use switchboard_diff as diff;
use switchboard_diff::FileAtHand;

use crate::Error;
use crate::convert::meta::Origin;
use crate::convert::{Conversion, content, meta, subagent};
use crate::loss::Severity;

/// Returns a default title for a tool call without one.
pub(crate) fn placeholder(kind: Option<&ToolKind>) -> String {
    match kind {
        None | Some(ToolKind::Other | ToolKind::Unknown(_)) => "Tool call".to_owned(),
        Some(kind) => {
            let word = kind.as_str().replace('_', " ");
            let mut letters = word.chars();
            letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or(word)
        }
    }
}

/// Converts a kind to version 1. An unknown kind is kept as metadata.
fn kind_to_v1(
    kind: ToolKind,
    metadata: &mut Option<Meta<'_>>,
    cx: &mut Conversion<'_>,
) -> Result<ToolKind, Error> {
    let ToolKind::Unknown(word) = &kind else { return Ok(kind) };
    cx.report_loss(Severity::Minor, format!("version 1 has no kind \"{word}\"; \"other\" stands for it"))?;
    meta::add(metadata, meta::KIND, &meta::text(word));
    Ok(ToolKind::Other)
}

/// Converts a status to version 1. An unknown status is kept as metadata.
fn status_to_v1(
    status: ToolCallStatus,
    metadata: &mut Option<Meta<'_>>,
    cx: &mut Conversion<'_>,
) -> Result<ToolCallStatus, Error> {
    let nearest = match &status {
        ToolCallStatus::Pending
        | ToolCallStatus::InProgress
        | ToolCallStatus::Completed
        | ToolCallStatus::Failed => return Ok(status),
        ToolCallStatus::Cancelled => ToolCallStatus::Failed,
        ToolCallStatus::Paused | ToolCallStatus::Unknown(_) => ToolCallStatus::InProgress,
        ToolCallStatus::More(none) => none.never(),
    };
    let reason = format!("version 1 has no status \"{status}\"; \"{nearest}\" stands for it");
    cx.report_loss(Severity::Minor, reason)?;
    meta::add(metadata, meta::STATUS, &meta::text(status.as_str()));
    Ok(nearest)
}

/// Converts a field that version 1 cannot clear. `reset`: the value of a new call, to use for a clear.
fn scalar_to_v1<T>(field: Field<T>, reset: Option<T>, mut cx: Conversion<'_>) -> Option<T> {
    match field {
        Field::Set(value) => Some(value),
        Field::Keep => None,
        Field::Clear if reset.is_some() => reset,
        Field::Clear => {
            cx.omit(Severity::Minor, "version 1 cannot clear this field; it keeps its value");
            None
        }
    }
}

/// Splits a tool call update into everything except its content, and the content, whose treatment depends on
/// the state. `resets`: a cleared field gets the value of a new call; otherwise it is left out and reported.
pub(crate) fn update_to_v1<'a>(
    update: v2::ToolCallUpdate<'a>,
    resets: bool,
    cx: &mut Conversion<'_>,
) -> Result<(v1::ToolCallUpdate<'a>, Field<Vec<v2::ToolCallContent<'a>>>), Error> {
    let v2::ToolCallUpdate {
        tool_call_id,
        name,
        title,
        kind,
        status,
        content,
        locations,
        raw_input,
        raw_output,
        capabilities,
        meta,
        extra,
        more: _,
    } = update;
    let mut meta = meta::to_v1(meta, cx);
    let unnamed = resets.then(|| Text::Owned(placeholder(kind.value())));
    let title = scalar_to_v1(title, unnamed, cx.key("title"));
    let name = scalar_to_v1(name, None, cx.key("name"));
    let raw_input = scalar_to_v1(raw_input, None, cx.key("rawInput"));
    let raw_output = scalar_to_v1(raw_output, None, cx.key("rawOutput"));
    let kind = scalar_to_v1(kind, resets.then_some(ToolKind::Other), cx.key("kind"))
        .map(|kind| kind_to_v1(kind, &mut meta, &mut cx.key("kind")))
        .transpose()?;
    let status = scalar_to_v1(status, resets.then_some(ToolCallStatus::Pending), cx.key("status"))
        .map(|status| status_to_v1(status, &mut meta, &mut cx.key("status")))
        .transpose()?;
    let locations = match locations {
        Field::Set(locations) => Some(locations),
        Field::Clear => Some(Vec::new()),
        Field::Keep => None,
    };
    if !capabilities.is_keep() {
        let reason = "version 1 cannot cancel a single tool call";
        cx.key("capabilities").report_loss(Severity::Minor, reason)?;
    }
    let update = v1::ToolCallUpdate {
        tool_call_id,
        title,
        name,
        kind,
        status,
        content: None,
        locations,
        raw_input,
        raw_output,
        meta,
        extra,
        more: switchboard_acp::More,
    };
    Ok((update, content))
}

/// Converts one item to version 1: a diff may become several items. `file` returns the content of a file.
pub(crate) fn item_to_v1<'a>(
    item: v2::ToolCallContent<'a>,
    file: impl FnMut(&str) -> FileAtHand<'static>,
    cx: &mut Conversion<'_>,
) -> Result<Vec<v1::ToolCallContent<'a>>, Error> {
    match item {
        v2::ToolCallContent::Content(mut item) => {
            item.content = content::to_v1(item.content, &mut cx.key("content"))?;
            Ok(vec![v1::ToolCallContent::Content(item)])
        }
        v2::ToolCallContent::Diff(source) => {
            cx.require_state("version 1 has no structured diffs, only old and new texts")?;
            let shown = diff::to_v1(*source, file);
            if shown.in_words {
                let reason =
                    "version 1 diffs cannot express all of this change; a text is shown in its place";
                cx.report_loss(Severity::Major, reason)?;
            } else if shown.deletes {
                cx.report_loss(Severity::Minor, "version 1 shows a deleted file as an emptied one")?;
            } else if shown.in_pieces {
                let reason = "only the changed lines are shown, without line numbers";
                cx.report_loss(Severity::Minor, reason)?;
            }
            Ok(shown.items)
        }
        v2::ToolCallContent::Terminal(terminal) => {
            let reason = "version 1 terminals belong to the client; the output is shown as text";
            cx.report_loss(Severity::Minor, reason)?;
            let words = format!("[terminal {}]", terminal.terminal_id);
            Ok(vec![terminal_as_text(terminal, words)])
        }
        v2::ToolCallContent::Session(reference) => {
            cx.require_state("version 1 has no sessions in tool calls")?;
            Ok(vec![subagent::reference_in_words(reference, cx)?])
        }
        v2::ToolCallContent::Unknown(unknown) => {
            let reason = format!(
                "version 1 has no tool content of type \"{}\"; a text is shown in its place",
                unknown.tag
            );
            cx.report_loss(Severity::Major, reason)?;
            let mut text = v1::TextContent::new(format!("[unsupported tool content: {}]", unknown.tag));
            meta::add(&mut text.meta, meta::CONTENT, &content::whole(&unknown, "type"));
            Ok(vec![v1::ToolCallContent::Content(v1::Content::new(v1::ContentBlock::Text(text)))])
        }
        v2::ToolCallContent::More(none) => none.never(),
    }
}

/// Returns text in place of a terminal.
pub(crate) fn terminal_as_text(terminal: v2::Terminal<'_>, text: String) -> v1::ToolCallContent<'_> {
    // The id refers to a terminal that version 1 cannot ask for.
    let v2::Terminal { terminal_id: _, mut meta, mut extra, more: _ } = terminal;
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["content"]);
    v1::ToolCallContent::Content(v1::Content {
        content: v1::ContentBlock::text(text),
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

/// Converts the announcement of a call to an update.
pub(crate) fn announced(call: v1::ToolCall<'_>) -> v1::ToolCallUpdate<'_> {
    let v1::ToolCall {
        tool_call_id,
        title,
        name,
        kind,
        status,
        content,
        locations,
        raw_input,
        raw_output,
        meta,
        extra,
        more: _,
    } = call;
    v1::ToolCallUpdate {
        tool_call_id,
        title: Some(title),
        name,
        kind,
        status,
        content,
        locations,
        raw_input,
        raw_output,
        meta,
        extra,
        more: switchboard_acp::More,
    }
}

/// Converts an update to the announcement of a call with a title.
pub(crate) fn announcement<'a>(update: v1::ToolCallUpdate<'a>, title: Text<'a>) -> v1::ToolCall<'a> {
    let v1::ToolCallUpdate {
        tool_call_id,
        // Replaced by the title that is known now.
        title: _,
        name,
        kind,
        status,
        // The caller adds the content from its state.
        content: _,
        locations,
        raw_input,
        raw_output,
        meta,
        extra,
        more: _,
    } = update;
    v1::ToolCall {
        tool_call_id,
        title,
        name,
        kind,
        status,
        content: None,
        locations,
        raw_input,
        raw_output,
        meta,
        extra,
        more: switchboard_acp::More,
    }
}

/// Merges two updates of a call, except for title and content, which the caller adds from its state.
pub(crate) fn in_one<'a>(
    earlier: v1::ToolCallUpdate<'a>,
    later: v1::ToolCallUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::ToolCallUpdate<'a>, Error> {
    let v1::ToolCallUpdate {
        tool_call_id,
        title: _,
        name,
        kind,
        status,
        content: _,
        locations,
        raw_input,
        raw_output,
        meta,
        extra,
        more: _,
    } = later;
    Ok(v1::ToolCallUpdate {
        tool_call_id,
        title: None,
        name: name.or(earlier.name),
        kind: kind.or(earlier.kind),
        status: status.or(earlier.status),
        content: None,
        locations: locations.or(earlier.locations),
        raw_input: raw_input.or(earlier.raw_input),
        raw_output: raw_output.or(earlier.raw_output),
        meta: meta::join(meta, earlier.meta, cx)?,
        extra: meta::join_extra(extra, earlier.extra, cx)?,
        more: switchboard_acp::More,
    })
}

/// Splits a tool call update into everything except its content, and the content, whose treatment depends on
/// the state.
pub(crate) fn update_to_v2(
    update: v1::ToolCallUpdate<'_>,
) -> (v2::ToolCallUpdate<'_>, Option<Vec<v1::ToolCallContent<'_>>>) {
    let v1::ToolCallUpdate {
        tool_call_id,
        title,
        name,
        kind,
        status,
        content,
        locations,
        raw_input,
        raw_output,
        mut meta,
        mut extra,
        more: _,
    } = update;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["capabilities"]);
    let update = v2::ToolCallUpdate {
        tool_call_id,
        name: set(name),
        title: set(title),
        kind: set(kind),
        status: set(status),
        content: Field::Keep,
        locations: set(locations),
        raw_input: set(raw_input),
        raw_output: set(raw_output),
        capabilities: Field::Keep,
        meta: set(meta),
        extra,
        more: switchboard_acp::More,
    };
    (update, content)
}

fn set<T>(value: Option<T>) -> Field<T> {
    value.map_or(Field::Keep, Field::Set)
}

/// Converts one item to version 2. Terminals are converted by the caller, who knows their owner.
pub(crate) fn item_to_v2<'a>(
    item: v1::ToolCallContent<'a>,
    file: impl FnOnce(&str) -> FileAtHand<'static>,
    cx: &mut Conversion<'_>,
) -> Result<v2::ToolCallContent<'a>, Error> {
    match item {
        v1::ToolCallContent::Content(mut item) => {
            item.content = content::to_v2(item.content, &mut cx.key("content"))?;
            Ok(v2::ToolCallContent::Content(item))
        }
        v1::ToolCallContent::Diff(source) => {
            let file = file(&source.path);
            let diff = diff::from_v1(source, &file);
            if diff.meta.as_ref().is_some_and(|meta| meta.get(diff::PARTIAL_KEY).is_some()) {
                cx.guess("it is unknown whether the texts are whole files, and where they are in them");
            }
            Ok(v2::ToolCallContent::Diff(Box::new(diff)))
        }
        v1::ToolCallContent::Terminal(terminal) => {
            cx.require_state("a terminal of version 1 belongs to the client")?;
            Ok(v2::ToolCallContent::Terminal(terminal))
        }
        v1::ToolCallContent::Unknown(unknown) => Ok(v2::ToolCallContent::Unknown(unknown)),
        v1::ToolCallContent::More(none) => none.never(),
    }
}
