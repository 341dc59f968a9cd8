//! Configuration options and commands of a session.

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::raw::first_duplicate;
use crate::json::reader::Reader;
use crate::macros::{object, union};
use crate::shared::session::{SelectGroup, SelectOptions, SetConfigBoolean, SetConfigId};
use crate::v2::{SessionConfigOptionCategory, SessionConfigSelectOption};
use crate::{Meta, Text, WireFormat};

union! {
    /// Something that the user can set for a session. An unknown kind is kept and not shown.
    SessionConfigOption by "type" requires ["configId", "name"] {
        Select(SessionConfigSelect<'a>) = "select",
        Boolean(SessionConfigBoolean<'a>) = "boolean",
    }
}

object! {
    /// A choice of one value.
    SessionConfigSelect rules usable_choice {
        required config_id: Text<'a> = "configId",
        required name: Text<'a> = "name",
        optional description: Text<'a> = "description",
        optional category: SessionConfigOptionCategory = "category",
        required current_value: Text<'a> = "currentValue",
        required options: SessionConfigSelectOptions<'a> = "options",
        optional meta: Meta<'a> = "_meta",
    }
}

fn usable_choice(select: &SessionConfigSelect<'_>, reader: &mut Reader<'_>, start: usize) -> Read<()> {
    if select.options.has_empty_list() && reader.revision() == WireFormat::Newest {
        return reader.fault(start, Problem::Rule("at least one value to choose from".into()));
    }
    let values: Vec<&str> = select.options.iter().map(|option| &*option.value).collect();
    match first_duplicate(values.into_iter()) {
        Some(value) => reader.broken_rule(start, format!("values that differ, not \"{value}\" twice")),
        None => Ok(()),
    }
}

object! {
    /// Something to switch on and off.
    SessionConfigBoolean {
        required config_id: Text<'a> = "configId",
        required name: Text<'a> = "name",
        optional description: Text<'a> = "description",
        optional category: SessionConfigOptionCategory = "category",
        required current_value: bool = "currentValue",
        optional meta: Meta<'a> = "_meta",
    }
}

/// The values of a choice, in groups or without.
pub type SessionConfigSelectOptions<'a> = SelectOptions<'a, SessionConfigSelectGroup<'a>>;

impl<'a> SelectGroup<'a> for SessionConfigSelectGroup<'a> {
    const KEY: &'static str = "groupId";

    fn options(&self) -> &[SessionConfigSelectOption<'a>] {
        &self.options
    }
}

object! {
    /// Values under a name.
    SessionConfigSelectGroup shape group_not_empty {
        required group_id: Text<'a> = "groupId",
        required name: Text<'a> = "name",
        required options: Vec<SessionConfigSelectOption<'a>> = "options",
        optional meta: Meta<'a> = "_meta",
    }
}

fn group_not_empty(schema: &mut Value, revision: WireFormat) {
    if revision == WireFormat::Newest {
        schema["properties"]["options"]["minItems"] = json!(1);
    }
}

union! {
    /// Sets a configuration option.
    SetSessionConfigOptionRequest by "type"
        requires ["sessionId", "configId"] with ["value"] implied type_of_value
    {
        /// The id of one of the values offered.
        Id(SetConfigId<'a>) = "id",
        Boolean(SetConfigBoolean<'a>) = "boolean",
    }
}

/// Older senders leave the type of the value out.
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
    /// All options after the change.
    SetSessionConfigOptionResponse {
        required config_options: Vec<SessionConfigOption<'a>> = "configOptions",
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// A command that the user can give in a prompt, as `/name`.
    AvailableCommand by "type" requires ["name", "description"] implied command_by_default {
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
        required name: Text<'a> = "name",
        required description: Text<'a> = "description",
        optional input: AvailableCommandInput<'a> = "input",
        optional meta: Meta<'a> = "_meta",
    }
}

union! {
    /// What may follow a command's name.
    AvailableCommandInput by "type" {
        Text(TextCommandInput<'a>) = "text",
    }
}

object! {
    /// Any text.
    TextCommandInput {
        /// Shown while the text is empty.
        required hint: Text<'a> = "hint",
        optional meta: Meta<'a> = "_meta",
    }
}
