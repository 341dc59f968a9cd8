//! Tool calls: kinds, statuses and items of content.

use switchboard_diff as diff;
use switchboard_diff::FileAtHand;
use switchboard_protocol::v2::{ToolCallStatus, ToolKind};
use switchboard_protocol::{Field, Meta, Text, v1, v2};

use crate::Error;
use crate::convert::{content, meta};
use crate::loss::{At, Notes, Severity};

/// What a tool call is called that has no title.
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

/// A kind that version 1 knows; the original goes along as metadata.
pub(crate) fn kind_to_v1(
    kind: ToolKind,
    metadata: &mut Option<Meta<'_>>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<ToolKind, Error> {
    let ToolKind::Unknown(word) = &kind else { return Ok(kind) };
    notes.lose(Severity::Minor, at, format!("version 1 has no kind \"{word}\"; \"other\" stands for it"))?;
    *metadata = Some(meta::with_entry(metadata.take(), meta::KIND, &meta::text(word)));
    Ok(ToolKind::Other)
}

/// A status that version 1 knows; the original goes along as metadata.
pub(crate) fn status_to_v1(
    status: ToolCallStatus,
    metadata: &mut Option<Meta<'_>>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<ToolCallStatus, Error> {
    let nearest = match &status {
        ToolCallStatus::Pending
        | ToolCallStatus::InProgress
        | ToolCallStatus::Completed
        | ToolCallStatus::Failed => return Ok(status),
        ToolCallStatus::Cancelled => ToolCallStatus::Failed,
        ToolCallStatus::Paused | ToolCallStatus::Unknown(_) => ToolCallStatus::InProgress,
    };
    notes.lose(
        Severity::Minor,
        at,
        format!("version 1 has no status \"{status}\"; \"{nearest}\" stands for it"),
    )?;
    *metadata = Some(meta::with_entry(metadata.take(), meta::STATUS, &meta::text(status.as_str())));
    Ok(nearest)
}

/// What an item of content needs to know about the world.
pub(crate) trait Surroundings {
    /// The content of a file, where it can be had.
    fn file(&mut self, path: &str) -> FileAtHand<'static>;
}

/// One item as version 1 can say it: a diff may become several. Terminals are for the caller.
pub(crate) fn item_to_v1<'a>(
    item: v2::ToolCallContent<'a>,
    surroundings: &mut dyn Surroundings,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<Vec<v1::ToolCallContent<'a>>, Error> {
    match item {
        v2::ToolCallContent::Content(mut item) => {
            item.content = content::to_v1(item.content, &at.then("content"), notes)?;
            Ok(vec![v1::ToolCallContent::Content(item)])
        }
        v2::ToolCallContent::Diff(source) => {
            let reason = "version 1 has no structured diffs, only old and new texts";
            notes.require_state(at, reason)?;
            let shown = diff::to_v1(*source, |path| surroundings.file(path));
            if shown.in_words {
                let reason = "version 1 diffs cannot say all of this change; words stand in its place";
                notes.lose(Severity::Major, at, reason)?;
            } else if shown.deletes {
                let reason = "version 1 shows a deleted file as an emptied one";
                notes.lose(Severity::Minor, at, reason)?;
            } else if shown.in_pieces {
                let reason = "only the lines around the change are shown, without their place in the file";
                notes.lose(Severity::Minor, at, reason)?;
            }
            Ok(shown.items)
        }
        v2::ToolCallContent::Terminal(terminal) => {
            let reason = "version 1 terminals belong to the client; the output is shown as text";
            notes.lose(Severity::Minor, at, reason)?;
            let words = format!("[terminal {}]", terminal.terminal_id);
            Ok(vec![v1::ToolCallContent::Content(v1::Content::new(v1::ContentBlock::text(words)))])
        }
        v2::ToolCallContent::Unknown(unknown) => {
            let reason = format!(
                "version 1 has no tool content of type \"{}\"; words stand in its place",
                unknown.tag
            );
            notes.lose(Severity::Major, at, reason)?;
            let mut text = v1::TextContent::new(format!("[unsupported tool content: {}]", unknown.tag));
            text.meta = Some(meta::with_entry(None, meta::CONTENT, &content::whole(&unknown, "type")));
            Ok(vec![v1::ToolCallContent::Content(v1::Content::new(v1::ContentBlock::Text(text)))])
        }
    }
}

/// The scalar fields of an update, for version 1: all but content.
pub(crate) struct Scalars<'a> {
    pub(crate) title: Option<Text<'a>>,
    pub(crate) name: Option<Text<'a>>,
    pub(crate) kind: Option<ToolKind>,
    pub(crate) status: Option<ToolCallStatus>,
    pub(crate) locations: Option<Vec<v1::ToolCallLocation<'a>>>,
    pub(crate) raw_input: Option<switchboard_protocol::Raw<'a>>,
    pub(crate) raw_output: Option<switchboard_protocol::Raw<'a>>,
    pub(crate) meta: Option<Meta<'a>>,
}

/// Takes the scalar fields of an update. `resets`: what is cleared gets the value that a new call has; else it is
/// left out and reported.
pub(crate) fn scalars_to_v1<'a>(
    update: &mut v2::ToolCallUpdate<'a>,
    resets: bool,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<Scalars<'a>, Error> {
    let mut metadata = match std::mem::take(&mut update.meta) {
        Field::Set(metadata) => Some(metadata),
        Field::Keep => None,
        Field::Clear => {
            notes.omit(Severity::Minor, &at.then("_meta"), "version 1 cannot clear metadata");
            None
        }
    };
    let mut cleared = |key: &str| {
        notes.omit(Severity::Minor, &at.then(key), "version 1 cannot clear this field; it is left as it was");
    };
    let title = match std::mem::take(&mut update.title) {
        Field::Set(title) => Some(title),
        Field::Keep => None,
        Field::Clear if resets => Some(Text::Owned(placeholder(update.kind.value()))),
        Field::Clear => {
            cleared("title");
            None
        }
    };
    let name = match std::mem::take(&mut update.name) {
        Field::Set(name) => Some(name),
        Field::Keep => None,
        Field::Clear => {
            cleared("name");
            None
        }
    };
    let mut raw = |field: &mut Field<switchboard_protocol::Raw<'a>>, key: &str| match std::mem::take(field) {
        Field::Set(value) => Some(value),
        Field::Keep => None,
        Field::Clear => {
            cleared(key);
            None
        }
    };
    let raw_input = raw(&mut update.raw_input, "rawInput");
    let raw_output = raw(&mut update.raw_output, "rawOutput");
    let kind = match std::mem::take(&mut update.kind) {
        Field::Set(kind) => Some(kind_to_v1(kind, &mut metadata, &at.then("kind"), notes)?),
        Field::Keep => None,
        Field::Clear if resets => Some(ToolKind::Other),
        Field::Clear => {
            notes.omit(
                Severity::Minor,
                &at.then("kind"),
                "version 1 cannot clear this field; it is left as it was",
            );
            None
        }
    };
    let status = match std::mem::take(&mut update.status) {
        Field::Set(status) => Some(status_to_v1(status, &mut metadata, &at.then("status"), notes)?),
        Field::Keep => None,
        Field::Clear if resets => Some(ToolCallStatus::Pending),
        Field::Clear => {
            notes.omit(
                Severity::Minor,
                &at.then("status"),
                "version 1 cannot clear this field; it is left as it was",
            );
            None
        }
    };
    let locations = match std::mem::take(&mut update.locations) {
        Field::Set(locations) => Some(locations),
        Field::Clear => Some(Vec::new()),
        Field::Keep => None,
    };
    if !update.capabilities.is_keep() {
        let reason = "version 1 tool calls cannot be cancelled by themselves";
        notes.lose(Severity::Minor, &at.then("capabilities"), reason)?;
        update.capabilities = Field::Keep;
    }
    Ok(Scalars { title, name, kind, status, locations, raw_input, raw_output, meta: metadata })
}
