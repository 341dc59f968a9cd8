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
    /// Why work ended.
    StopReason {
        /// The agent has said what it had to say.
        EndTurn = "end_turn",
        /// The model's answer became too long.
        MaxTokens = "max_tokens",
        /// The agent asked the model as often as it may in one turn.
        MaxTurnRequests = "max_turn_requests",
        /// The agent refuses to go on.
        Refusal = "refusal",
        /// The client cancelled the work.
        Cancelled = "cancelled",
        /// Something failed.
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
    /// Deletes a session; one that is not there counts as deleted.
    DeleteSessionRequest {
        /// The session to delete.
        required session_id: Text<'a> = "sessionId",
    } with optional _meta
}

object! {
    /// Asks for the sessions that an agent keeps.
    ListSessionsRequest {
        /// Only sessions of exactly this working directory.
        strict_optional cwd: AbsolutePath<'a> = "cwd",
        /// Where the page before ended. The empty string is a cursor too.
        strict_optional cursor: Text<'a> = "cursor",
        /// Whether archived sessions are among them; missing: they are not. **Unstable.**
        strict_optional archived: SessionArchiveFilter = "archived" @unstable,
    } with optional _meta
}

object! {
    /// One page of sessions.
    ListSessionsResponse {
        /// The sessions of this page.
        required sessions: Vec<SessionInfo<'a>> = "sessions",
        /// Where the next page begins; missing at the end.
        strict_optional next_cursor: Text<'a> = "nextCursor",
    } with optional _meta
}

object! {
    /// One session in a list.
    SessionInfo {
        /// The name under which it is resumed.
        required session_id: Text<'a> = "sessionId",
        /// Its working directory.
        required cwd: AbsolutePath<'a> = "cwd",
        /// More directories that belong to its workspace.
        strict_defaulted additional_directories: Vec<AbsolutePath<'a>> = "additionalDirectories",
        /// What people know it by.
        optional title: Text<'a> = "title",
        /// Time of the last change, as in RFC 3339.
        optional updated_at: Text<'a> = "updatedAt",
        /// Whether it is archived. **Unstable.**
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
    /// How full the context window is, and what the session has cost.
    UsageUpdate {
        /// How many tokens are in the context window.
        required used: u64 = "used",
        /// How many tokens fit into it.
        required size: u64 = "size",
        /// What the session has cost so far.
        patch cost: Cost<'a> = "cost",
    } with optional _meta
}

object! {
    /// An amount of money or credits.
    Cost {
        /// How much.
        required amount: Number<'a> = "amount",
        /// Of what.
        required currency: Currency<'a> = "currency",
    } with optional _meta
}

object! {
    /// Something that the user should see once; not part of the history.
    Notice {
        /// How much it matters.
        required severity: NoticeSeverity = "severity",
        /// What happened, in one line.
        required title: NonEmptyText<'a> = "title",
        /// What happened, in more words.
        optional description: Text<'a> = "description",
    } with optional _meta
}

open_enum! {
    /// How much a notice matters.
    NoticeSeverity in both_versions {
        /// Good to know.
        Info = "info",
        /// Something to look after.
        Warning = "warning",
        /// Something failed.
        Error = "error",
    }
}

object! {
    /// Creates or changes the record of a compaction of the conversation.
    CompactionUpdate {
        /// The compaction it is about.
        required compaction_id: Text<'a> = "compactionId",
        /// How far it is.
        required status: CompactionStatus = "status",
        /// What stands for the part of the conversation that was compacted.
        patch summary: Vec<ContentBlock<'a>> = "summary",
        /// Why it failed.
        patch error: Text<'a> = "error",
    } with patch _meta
}

open_enum! {
    /// How far a compaction is.
    CompactionStatus in both_versions {
        /// At work.
        InProgress = "in_progress",
        /// Done.
        Completed = "completed",
        /// Ended without result.
        Failed = "failed",
        /// Called off.
        Cancelled = "cancelled",
    }
}

object! {
    /// Appends one block to the summary of a compaction.
    CompactionSummaryChunk {
        /// The compaction it is about.
        required compaction_id: Text<'a> = "compactionId",
        /// The block.
        required content: ContentBlock<'a> = "content",
    } with optional _meta
}

object! {
    /// One step of a plan.
    PlanEntry {
        /// What is to be done.
        required content: Text<'a> = "content",
        /// How much it matters.
        required priority: PlanEntryPriority = "priority",
        /// How far it is.
        required status: PlanEntryStatus = "status",
    } with optional _meta
}

open_enum! {
    /// How much a step matters.
    PlanEntryPriority {
        /// The plan fails without it.
        High = "high",
        /// It matters.
        Medium = "medium",
        /// It may wait.
        Low = "low",
    }
}

open_enum! {
    /// How far a step is.
    PlanEntryStatus {
        /// Not begun.
        Pending = "pending",
        /// At work.
        InProgress = "in_progress",
        /// Done.
        Completed = "completed",
        /// Called off.
        Cancelled = "cancelled" @newest,
    }
}

open_enum! {
    /// What a configuration option is about, as a hint for display.
    SessionConfigOptionCategory in both_versions {
        /// How the agent works.
        Mode = "mode",
        /// Which model it asks.
        Model = "model",
        /// A setting of the model.
        ModelConfig = "model_config",
        /// How long the model thinks.
        ThoughtLevel = "thought_level",
    }
}

object! {
    /// One value of a configuration option.
    SessionConfigSelectOption {
        /// The name by which it is chosen.
        required value: Text<'a> = "value",
        /// The name that people read.
        required name: Text<'a> = "name",
        /// What choosing it means.
        optional description: Text<'a> = "description",
    } with optional _meta
}

object! {
    /// Chooses a value.
    SetConfigId {
        /// The session it is about.
        required session_id: Text<'a> = "sessionId",
        /// The configuration option it is about.
        required config_id: Text<'a> = "configId",
        /// The value to choose.
        required value: Text<'a> = "value",
    } with optional _meta
}

object! {
    /// Switches something on or off.
    SetConfigBoolean {
        /// The session it is about.
        required session_id: Text<'a> = "sessionId",
        /// The configuration option it is about.
        required config_id: Text<'a> = "configId",
        /// Whether it is on.
        required value: bool = "value",
    } with optional _meta
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

    /// The newest dialect wants something to choose from, in each group.
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
