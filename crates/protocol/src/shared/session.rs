//! Session methods and updates that both versions spell alike.

use serde_json::{Value, json};

use crate::error::Read;
use crate::json::reader::Reader;
use crate::json::writer::Writer;
use crate::macros::{object, open_enum};
use crate::schema::Schemas;
use crate::shared::content::ContentBlock;
use crate::wire::Wire;
use crate::{AbsolutePath, Currency, Meta, NonEmptyText, Number, Text, WireFormat};

open_enum! {
    /// Why work ended.
    StopReason {
        EndTurn = "end_turn",
        MaxTokens = "max_tokens",
        MaxTurnRequests = "max_turn_requests",
        Refusal = "refusal",
        Cancelled = "cancelled",
        Error = "error" @newest,
    }
}

object! {
    /// Closes a session.
    CloseSessionRequest {
        /// The session to close.
        required session_id: Text<'a> = "sessionId",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Deletes a session; one that is not there counts as deleted.
    DeleteSessionRequest {
        /// The session to delete.
        required session_id: Text<'a> = "sessionId",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Asks for the sessions that an agent keeps.
    ListSessionsRequest {
        /// Only sessions of exactly this working directory.
        strict_optional cwd: AbsolutePath<'a> = "cwd",
        /// Where the page before ended. The empty string is a cursor too.
        strict_optional cursor: Text<'a> = "cursor",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// One page of sessions.
    ListSessionsResponse {
        required sessions: Vec<SessionInfo<'a>> = "sessions",
        /// Where the next page begins; missing at the end.
        strict_optional next_cursor: Text<'a> = "nextCursor",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// One session in a list.
    SessionInfo {
        required session_id: Text<'a> = "sessionId",
        required cwd: AbsolutePath<'a> = "cwd",
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        optional title: Text<'a> = "title",
        /// Time of the last change, as in RFC 3339.
        optional updated_at: Text<'a> = "updatedAt",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// New title or time of a session.
    SessionInfoUpdate {
        patch title: Text<'a> = "title",
        patch updated_at: Text<'a> = "updatedAt",
        patch meta: Meta<'a> = "_meta",
    }
}

object! {
    /// How full the context window is, and what the session has cost.
    UsageUpdate {
        required used: u64 = "used",
        required size: u64 = "size",
        patch cost: Cost<'a> = "cost",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// An amount of money or credits.
    Cost {
        required amount: Number<'a> = "amount",
        required currency: Currency<'a> = "currency",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Something that the user should see once; not part of the history.
    Notice {
        required severity: NoticeSeverity = "severity",
        required title: NonEmptyText<'a> = "title",
        optional description: Text<'a> = "description",
        optional meta: Meta<'a> = "_meta",
    }
}

open_enum! {
    /// How much a notice matters.
    NoticeSeverity in both_versions {
        Info = "info",
        Warning = "warning",
        Error = "error",
    }
}

object! {
    /// Creates or changes the record of a compaction of the conversation.
    CompactionUpdate {
        required compaction_id: Text<'a> = "compactionId",
        required status: CompactionStatus = "status",
        patch summary: Vec<ContentBlock<'a>> = "summary",
        patch error: Text<'a> = "error",
        patch meta: Meta<'a> = "_meta",
    }
}

open_enum! {
    /// How far a compaction is.
    CompactionStatus in both_versions {
        InProgress = "in_progress",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

object! {
    /// Appends one block to the summary of a compaction.
    CompactionSummaryChunk {
        required compaction_id: Text<'a> = "compactionId",
        required content: ContentBlock<'a> = "content",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// One step of a plan.
    PlanEntry {
        required content: Text<'a> = "content",
        required priority: PlanEntryPriority = "priority",
        required status: PlanEntryStatus = "status",
        optional meta: Meta<'a> = "_meta",
    }
}

open_enum! {
    /// How much a step matters.
    PlanEntryPriority {
        High = "high",
        Medium = "medium",
        Low = "low",
    }
}

open_enum! {
    /// How far a step is.
    PlanEntryStatus {
        Pending = "pending",
        InProgress = "in_progress",
        Completed = "completed",
        Cancelled = "cancelled" @newest,
    }
}

open_enum! {
    /// What a configuration option is about, as a hint for display.
    SessionConfigOptionCategory in both_versions {
        Mode = "mode",
        Model = "model",
        ModelConfig = "model_config",
        ThoughtLevel = "thought_level",
    }
}

object! {
    /// One value of a configuration option.
    SessionConfigSelectOption {
        required value: Text<'a> = "value",
        required name: Text<'a> = "name",
        optional description: Text<'a> = "description",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Chooses a value.
    SetConfigId {
        required session_id: Text<'a> = "sessionId",
        required config_id: Text<'a> = "configId",
        required value: Text<'a> = "value",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Switches something on or off.
    SetConfigBoolean {
        required session_id: Text<'a> = "sessionId",
        required config_id: Text<'a> = "configId",
        required value: bool = "value",
        optional meta: Meta<'a> = "_meta",
    }
}

/// The values of a choice, in groups or without. Each version spells its groups in its own way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SelectOptions<'a, G> {
    /// One list.
    Flat(Vec<SessionConfigSelectOption<'a>>),
    /// Lists with names.
    Grouped(Vec<G>),
}

/// Values under a name.
pub trait SelectGroup<'a> {
    /// The key by which a group is told from a value.
    const KEY: &'static str;

    /// Its values.
    fn options(&self) -> &[SessionConfigSelectOption<'a>];
}

impl<'a, G: SelectGroup<'a>> SelectOptions<'a, G> {
    /// All values, whatever their group.
    pub fn iter(&self) -> impl Iterator<Item = &SessionConfigSelectOption<'a>> {
        let (flat, groups): (&[_], &[G]) = match self {
            SelectOptions::Flat(options) => (options, &[]),
            SelectOptions::Grouped(groups) => (&[], groups),
        };
        flat.iter().chain(groups.iter().flat_map(SelectGroup::options))
    }

    /// Whether there is nothing to choose from, be it in one group only.
    pub fn has_empty_list(&self) -> bool {
        match self {
            SelectOptions::Flat(options) => options.is_empty(),
            SelectOptions::Grouped(groups) => {
                groups.is_empty() || groups.iter().any(|group| group.options().is_empty())
            }
        }
    }
}

impl<'a, G> From<Vec<SessionConfigSelectOption<'a>>> for SelectOptions<'a, G> {
    fn from(options: Vec<SessionConfigSelectOption<'a>>) -> Self {
        SelectOptions::Flat(options)
    }
}

impl<'a, G: Wire<'a> + SelectGroup<'a>> Wire<'a> for SelectOptions<'a, G>
where
    G::Owned: SelectGroup<'static>,
{
    type Owned = SelectOptions<'static, G::Owned>;

    fn into_owned(self) -> Self::Owned {
        match self {
            SelectOptions::Flat(options) => SelectOptions::Flat(options.into_owned()),
            SelectOptions::Grouped(groups) => SelectOptions::Grouped(groups.into_owned()),
        }
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        if crate::wire::first_item_has_key(reader, G::KEY)? {
            Wire::read(reader).map(SelectOptions::Grouped)
        } else {
            Wire::read(reader).map(SelectOptions::Flat)
        }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            SelectOptions::Flat(options) => options.write(writer),
            SelectOptions::Grouped(groups) => groups.write(writer),
        }
    }

    fn schema(schemas: &mut Schemas) -> Value {
        schemas.define("SessionConfigSelectOptions", |schemas| {
            let list = |items: Value, revision: WireFormat| {
                let mut list = json!({"type": "array", "items": items});
                if revision != WireFormat::V1 {
                    list["minItems"] = json!(u8::from(revision == WireFormat::Newest));
                }
                list
            };
            let revision = schemas.revision();
            let option = SessionConfigSelectOption::schema(schemas);
            let group = G::schema(schemas);
            json!({
                "description": "The values of a choice, in groups or without.",
                "anyOf": [list(option, revision), list(group, revision)],
            })
        })
    }
}
