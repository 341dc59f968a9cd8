//! Configuration options and commands of a session.

use serde_json::Value;

use crate::error::Read;
use crate::json::raw::first_duplicate;
use crate::json::reader::Reader;
use crate::macros::{object, union};
use crate::schema::not_empty;
use crate::shared::session::{SelectGroup, SelectOptions, SetConfigBoolean, SetConfigId};
use crate::v2::{SessionConfigOptionCategory, SessionConfigSelectOption};
use crate::{Text, WireFormat};

union! {
    /// A configuration option of a session. An unknown kind is kept but not shown.
    SessionConfigOption by "type" requires ["configId", "name"] {
        /// A selection of one value.
        Select(SessionConfigSelect<'a>) = "select",
        /// A boolean option.
        Boolean(SessionConfigBoolean<'a>) = "boolean",
    }
}

object! {
    /// A selection of one value.
    SessionConfigSelect rules usable_choice {
        /// Id with which it is set.
        required config_id: Text<'a> = "configId",
        /// Name for display.
        required name: Text<'a> = "name",
        /// Description of its purpose.
        optional description: Text<'a> = "description",
        /// Category, as a hint for display.
        optional category: SessionConfigOptionCategory = "category",
        /// Selected value.
        required current_value: Text<'a> = "currentValue",
        /// Available values.
        required options: SessionConfigSelectOptions<'a> = "options",
    } with optional _meta
}

fn usable_choice(select: &SessionConfigSelect<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    let values: Vec<&str> = select.options.iter().map(|option| &*option.value).collect();
    match first_duplicate(values.into_iter()) {
        Some(value) => reader.broken_rule(start, format!("values that differ, not \"{value}\" twice")),
        None => Ok(()),
    }
}

object! {
    /// A boolean option.
    SessionConfigBoolean {
        /// Id with which it is set.
        required config_id: Text<'a> = "configId",
        /// Name for display.
        required name: Text<'a> = "name",
        /// Description of its purpose.
        optional description: Text<'a> = "description",
        /// Category, as a hint for display.
        optional category: SessionConfigOptionCategory = "category",
        /// True if it is on.
        required current_value: bool = "currentValue",
    } with optional _meta
}

/// Available values, grouped or not.
pub type SessionConfigSelectOptions<'a> = SelectOptions<'a, SessionConfigSelectGroup<'a>>;

impl<'a> SelectGroup<'a> for SessionConfigSelectGroup<'a> {
    const KEY: &'static str = "groupId";

    fn options(&self) -> &[SessionConfigSelectOption<'a>] {
        &self.options
    }
}

object! {
    /// A named group of values.
    SessionConfigSelectGroup rules some_values shape group_not_empty {
        /// Name for programs.
        required group_id: Text<'a> = "groupId",
        /// Name for display.
        required name: Text<'a> = "name",
        /// Values of the group.
        required options: Vec<SessionConfigSelectOption<'a>> = "options",
    } with optional _meta
}

fn some_values(group: &SessionConfigSelectGroup<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    SelectOptions::<SessionConfigSelectGroup<'_>>::check_not_empty(group.options.is_empty(), reader, start)
}

fn group_not_empty(schema: &mut Value, revision: WireFormat) {
    if revision == WireFormat::Newest {
        not_empty(schema, "options");
    }
}

union! {
    /// Sets a configuration option.
    SetSessionConfigOptionRequest by "type"
        requires ["sessionId", "configId"] with ["value"] implied type_of_value
    {
        /// Selects one of the available values by id.
        Id(SetConfigId<'a>) = "id",
        /// Sets a boolean option.
        Boolean(SetConfigBoolean<'a>) = "boolean",
    }
}

/// Default type, since older senders omit it.
mod type_of_value {
    use crate::WireFormat;
    use crate::error::Read;
    use crate::json::reader::Reader;
    use crate::wire::Body;

    pub(super) fn allowed(revision: WireFormat) -> bool {
        revision == WireFormat::Any
    }

    pub(super) fn find(reader: &mut Reader<'_>, body: &mut Body) -> Read<Option<&'static str>> {
        if !allowed(reader.revision()) {
            return Ok(None);
        }
        let place = reader.place();
        let mut first = body.first;
        let mut implied = None;
        while let Some(key) = reader.next_key(&mut first)? {
            if key == "value" {
                implied = match reader.peek() {
                    Some(b'"') => Some("id"),
                    Some(b't' | b'f') => Some("boolean"),
                    _ => None,
                };
            }
            reader.skip_value()?;
        }
        reader.rewind(place);
        Ok(implied)
    }
}

object! {
    /// All configuration options after the change.
    SetSessionConfigOptionResponse {
        /// All configuration options of the session.
        required config_options: Vec<SessionConfigOption<'a>> = "configOptions",
    } with optional _meta
}

union! {
    /// A command for prompts, as `/name`.
    AvailableCommand by "type" requires ["name", "description"] implied command_by_default {
        /// A command by name.
        Command(Command<'a>) = "command",
    }
}

/// The `spec` dialect has no tag here.
mod command_by_default {
    use crate::WireFormat;
    use crate::error::Read;
    use crate::json::reader::Reader;
    use crate::wire::Body;

    pub(super) fn allowed(revision: WireFormat) -> bool {
        revision != WireFormat::Newest
    }

    pub(super) fn find(reader: &mut Reader<'_>, _: &mut Body) -> Read<Option<&'static str>> {
        Ok(allowed(reader.revision()).then_some("command"))
    }
}

object! {
    /// A command.
    Command {
        /// Name after the slash.
        required name: Text<'a> = "name",
        /// Description of the command.
        required description: Text<'a> = "description",
        /// Input after its name.
        optional input: AvailableCommandInput<'a> = "input",
    } with optional _meta
}

union! {
    /// Input after a command's name.
    AvailableCommandInput by "type" {
        /// Any text.
        Text(TextCommandInput<'a>) = "text",
    }
}

object! {
    /// Any text.
    TextCommandInput {
        /// Placeholder for empty input.
        required hint: Text<'a> = "hint",
    } with optional _meta
}
