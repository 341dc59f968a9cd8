//! Session methods and updates that both versions spell alike.

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::json::writer::Writer;
use crate::macros::{object, open_enum};
use crate::schema::Schemas;
use crate::shared::content::ContentBlock;
use crate::shared::unstable::SessionArchiveFilter;
use crate::wire::Wire;
use crate::{AbsolutePath, Currency, NonEmptyText, Number, Text, WireFormat};

open_enum! {
    /// Reason why work ended.
    StopReason {
        /// The agent finished its turn.
        EndTurn = "end_turn",
        /// The token limit of the model was reached.
        MaxTokens = "max_tokens",
        /// The limit of model requests per turn was reached.
        MaxTurnRequests = "max_turn_requests",
        /// The agent refuses to continue.
        Refusal = "refusal",
        /// The client cancelled the work.
        Cancelled = "cancelled",
        /// An error occurred.
        Error = "error" @newest,
    }
}

object! {
    /// Closes a session.
    CloseSessionRequest {
        /// The session to close.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}

object! {
    /// Deletes a session. Succeeds if it does not exist.
    DeleteSessionRequest {
        /// The session to delete.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}

object! {
    /// Requests the sessions that an agent keeps.
    ListSessionsRequest {
        /// Only sessions of exactly this working directory.
        strict_optional cwd: AbsolutePath<'a> = "cwd",
        /// Cursor of the next page, from the previous response. The empty string is a valid cursor.
        strict_optional cursor: Text<'a> = "cursor",
        /// Filter for archived sessions. By default they are excluded. **Unstable.**
        strict_optional archived: SessionArchiveFilter = "archived" @unstable,
    } with optional _meta
}

object! {
    /// One page of sessions.
    ListSessionsResponse {
        /// The sessions of this page.
        required sessions: Vec<SessionInfo<'a>> = "sessions",
        /// Cursor of the next page. Missing on the last page.
        strict_optional next_cursor: Text<'a> = "nextCursor",
    } with optional _meta
}

object! {
    /// One session in a list.
    SessionInfo {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Its working directory.
        required cwd: AbsolutePath<'a> = "cwd",
        /// Additional directories of its workspace.
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        /// Title for display.
        optional title: Text<'a> = "title",
        /// Time of the last change, as in RFC 3339.
        optional updated_at: Text<'a> = "updatedAt",
        /// True if it is archived. **Unstable.**
        optional archived: bool = "archived" @unstable,
    } with optional _meta
}

object! {
    /// New title or time of a session.
    SessionInfoUpdate {
        /// The new title.
        patch title: Text<'a> = "title",
        /// Time of the last change, as in RFC 3339.
        patch updated_at: Text<'a> = "updatedAt",
    } with patch _meta
}

object! {
    /// Usage of the context window, and cost of the session.
    UsageUpdate {
        /// Tokens in the context window.
        required used: u64 = "used",
        /// Size of the context window in tokens.
        required size: u64 = "size",
        /// Cost of the session so far.
        patch cost: Cost<'a> = "cost",
    } with optional _meta
}

object! {
    /// An amount of money or credits.
    Cost {
        /// Amount.
        required amount: Number<'a> = "amount",
        /// Currency or unit.
        required currency: Currency<'a> = "currency",
    } with optional _meta
}

object! {
    /// A notice to show once. Not part of the history.
    Notice {
        /// Importance.
        required severity: NoticeSeverity = "severity",
        /// Summary in one line.
        required title: NonEmptyText<'a> = "title",
        /// Details.
        optional description: Text<'a> = "description",
    } with optional _meta
}

open_enum! {
    /// Severity of a notice.
    NoticeSeverity in both_versions {
        /// Information.
        Info = "info",
        /// A warning.
        Warning = "warning",
        /// An error occurred.
        Error = "error",
    }
}

object! {
    /// Creates or changes the record of a compaction of the conversation.
    CompactionUpdate {
        /// Id of the compaction.
        required compaction_id: Text<'a> = "compactionId",
        /// Status.
        required status: CompactionStatus = "status",
        /// Summary that replaces the compacted part of the conversation.
        patch summary: Vec<ContentBlock<'a>> = "summary",
        /// Error message of a failed compaction.
        patch error: Text<'a> = "error",
    } with patch _meta
}

open_enum! {
    /// Status of a compaction.
    CompactionStatus in both_versions {
        /// In progress.
        InProgress = "in_progress",
        /// Completed.
        Completed = "completed",
        /// Failed.
        Failed = "failed",
        /// Cancelled.
        Cancelled = "cancelled",
    }
}

object! {
    /// Appends one block to the summary of a compaction.
    CompactionSummaryChunk {
        /// Id of the compaction.
        required compaction_id: Text<'a> = "compactionId",
        /// The block.
        required content: ContentBlock<'a> = "content",
    } with optional _meta
}

object! {
    /// One step of a plan.
    PlanEntry {
        /// Description of the step.
        required content: Text<'a> = "content",
        /// Importance.
        required priority: PlanEntryPriority = "priority",
        /// Status.
        required status: PlanEntryStatus = "status",
    } with optional _meta
}

open_enum! {
    /// Priority of a step.
    PlanEntryPriority {
        /// Essential for the plan.
        High = "high",
        /// Important.
        Medium = "medium",
        /// Can wait.
        Low = "low",
    }
}

open_enum! {
    /// Status of a step.
    PlanEntryStatus {
        /// Not started.
        Pending = "pending",
        /// In progress.
        InProgress = "in_progress",
        /// Completed.
        Completed = "completed",
        /// Cancelled.
        Cancelled = "cancelled" @newest,
    }
}

open_enum! {
    /// Category of a configuration option, as a hint for display.
    SessionConfigOptionCategory in both_versions {
        /// Mode of the agent.
        Mode = "mode",
        /// The model.
        Model = "model",
        /// A setting of the model.
        ModelConfig = "model_config",
        /// Reasoning effort of the model.
        ThoughtLevel = "thought_level",
    }
}

object! {
    /// One value of a configuration option.
    SessionConfigSelectOption {
        /// Id with which it is selected.
        required value: Text<'a> = "value",
        /// Name for display.
        required name: Text<'a> = "name",
        /// Description of the choice.
        optional description: Text<'a> = "description",
    } with optional _meta
}

object! {
    /// Selects a value.
    SetConfigId {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Id of the configuration option.
        required config_id: Text<'a> = "configId",
        /// Value to select.
        required value: Text<'a> = "value",
    } with optional _meta
}

object! {
    /// Sets an option on or off.
    SetConfigBoolean {
        /// Session id.
        required session_id: Text<'a> = "sessionId",
        /// Id of the configuration option.
        required config_id: Text<'a> = "configId",
        /// True if it is on.
        required value: bool = "value",
    } with optional _meta
}

/// Values of a choice, grouped or not. The versions have different groups.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SelectOptions<'a, G> {
    /// One list.
    Flat(Vec<SessionConfigSelectOption<'a>>),
    /// Named groups.
    Grouped(Vec<G>),
}

/// A named group of values.
pub trait SelectGroup<'a> {
    /// Key that distinguishes a group from a value.
    const KEY: &'static str;

    /// Values of the group.
    fn options(&self) -> &[SessionConfigSelectOption<'a>];
}

impl<'a, G: SelectGroup<'a>> SelectOptions<'a, G> {
    /// Returns all values of all groups.
    pub fn iter(&self) -> impl Iterator<Item = &SessionConfigSelectOption<'a>> {
        let (flat, groups): (&[_], &[G]) = match self {
            SelectOptions::Flat(options) => (options, &[]),
            SelectOptions::Grouped(groups) => (&[], groups),
        };
        flat.iter().chain(groups.iter().flat_map(SelectGroup::options))
    }

    /// Returns true if the list or any group is empty.
    pub fn has_empty_list(&self) -> bool {
        match self {
            SelectOptions::Flat(options) => options.is_empty(),
            SelectOptions::Grouped(groups) => {
                groups.is_empty() || groups.iter().any(|group| group.options().is_empty())
            }
        }
    }

    /// Checks that no list or group is empty, as the newest dialect requires.
    pub(crate) fn check_not_empty(is_empty: bool, reader: &mut Reader<'_>, start: usize) -> Read<()> {
        if is_empty && reader.revision() == WireFormat::Newest {
            return reader.fault(start, Problem::Rule("at least one value to choose from".into()));
        }
        Ok(())
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
        let start = reader.position();
        let options = if crate::wire::first_item_has_key(reader, G::KEY)? {
            Wire::read(reader).map(SelectOptions::Grouped)?
        } else {
            Wire::read(reader).map(SelectOptions::Flat)?
        };
        let is_empty = match &options {
            SelectOptions::Flat(options) => options.is_empty(),
            SelectOptions::Grouped(groups) => groups.is_empty(),
        };
        Self::check_not_empty(is_empty, reader, start)?;
        Ok(options)
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
                if revision == WireFormat::Newest {
                    list["minItems"] = json!(1);
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
