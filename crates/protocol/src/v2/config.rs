//! Configuration options and commands of a session.

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::raw::first_duplicate;
use crate::json::reader::Reader;
use crate::macros::{object, union};
use crate::schema::Schemas;
use crate::v2::{SessionConfigOptionCategory, SessionConfigSelectOption};
use crate::wire::Wire;
use crate::{Meta, Revision, Text};

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
    let empty = match &select.options {
        SessionConfigSelectOptions::Flat(options) => options.is_empty(),
        SessionConfigSelectOptions::Grouped(groups) => groups.iter().any(|group| group.options.is_empty()),
    };
    if empty && reader.revision() == Revision::Newest {
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionConfigSelectOptions<'a> {
    /// One list.
    Flat(Vec<SessionConfigSelectOption<'a>>),
    /// Lists with names.
    Grouped(Vec<SessionConfigSelectGroup<'a>>),
}

impl<'a> SessionConfigSelectOptions<'a> {
    /// All values, whatever their group.
    pub fn iter(&self) -> impl Iterator<Item = &SessionConfigSelectOption<'a>> {
        let (flat, groups): (&[_], &[SessionConfigSelectGroup<'a>]) = match self {
            SessionConfigSelectOptions::Flat(options) => (options, &[]),
            SessionConfigSelectOptions::Grouped(groups) => (&[], groups),
        };
        flat.iter().chain(groups.iter().flat_map(|group| &group.options))
    }
}

impl<'a> From<Vec<SessionConfigSelectOption<'a>>> for SessionConfigSelectOptions<'a> {
    fn from(options: Vec<SessionConfigSelectOption<'a>>) -> Self {
        SessionConfigSelectOptions::Flat(options)
    }
}

impl<'a> Wire<'a> for SessionConfigSelectOptions<'a> {
    type Owned = SessionConfigSelectOptions<'static>;

    fn into_owned(self) -> SessionConfigSelectOptions<'static> {
        match self {
            SessionConfigSelectOptions::Flat(options) => {
                SessionConfigSelectOptions::Flat(options.into_owned())
            }
            SessionConfigSelectOptions::Grouped(groups) => {
                SessionConfigSelectOptions::Grouped(groups.into_owned())
            }
        }
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        if crate::wire::first_item_has_key(reader, "groupId")? {
            Wire::read(reader).map(SessionConfigSelectOptions::Grouped)
        } else {
            Wire::read(reader).map(SessionConfigSelectOptions::Flat)
        }
    }

    fn write(&self, writer: &mut crate::json::writer::Writer<'_>) {
        match self {
            SessionConfigSelectOptions::Flat(options) => options.write(writer),
            SessionConfigSelectOptions::Grouped(groups) => groups.write(writer),
        }
    }

    fn schema(schemas: &mut Schemas) -> Value {
        schemas.define("SessionConfigSelectOptions", |schemas| {
            let minimum = u8::from(schemas.revision() == Revision::Newest);
            let option = SessionConfigSelectOption::schema(schemas);
            let group = SessionConfigSelectGroup::schema(schemas);
            json!({
                "description": "The values of a choice, in groups or without.",
                "anyOf": [
                    {"type": "array", "items": option, "minItems": minimum},
                    {"type": "array", "items": group, "minItems": minimum},
                ],
            })
        })
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

fn group_not_empty(schema: &mut Value, revision: Revision) {
    if revision == Revision::Newest {
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
    use crate::Revision;
    use crate::error::Read;
    use crate::json::reader::Reader;
    use crate::wire::Body;

    pub(super) fn allowed(revision: Revision) -> bool {
        revision == Revision::Any
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
    use crate::Revision;
    use crate::error::Read;
    use crate::json::reader::Reader;
    use crate::wire::Body;

    pub(super) fn allowed(revision: Revision) -> bool {
        revision != Revision::Newest
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
