//! Plans, commands and other lists.

use switchboard_protocol::v2::{PlanEntry, PlanEntryPriority, PlanEntryStatus};
use switchboard_protocol::{Text, v1, v2};

use crate::Error;
use crate::loss::{At, Notes, Severity};

/// Steps of a plan as version 1 has them.
pub(crate) fn entries_to_v1<'a>(
    mut entries: Vec<PlanEntry<'a>>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<Vec<PlanEntry<'a>>, Error> {
    for (index, entry) in entries.iter_mut().enumerate() {
        if let PlanEntryPriority::Unknown(word) = &entry.priority {
            let reason = format!("version 1 has no priority \"{word}\"; \"medium\" stands for it");
            notes.lose(Severity::Minor, &at.item(index).then("priority"), reason)?;
            entry.priority = PlanEntryPriority::Medium;
        }
        let (status, reason) = match &entry.status {
            PlanEntryStatus::Pending | PlanEntryStatus::InProgress | PlanEntryStatus::Completed => continue,
            PlanEntryStatus::Cancelled => (
                PlanEntryStatus::Completed,
                "version 1 has no status \"cancelled\"; the step says so".to_owned(),
            ),
            PlanEntryStatus::Unknown(word) => (
                PlanEntryStatus::Pending,
                format!("version 1 has no status \"{word}\"; \"pending\" stands for it"),
            ),
        };
        notes.lose(Severity::Minor, &at.item(index).then("status"), reason)?;
        if entry.status == PlanEntryStatus::Cancelled {
            entry.content = Text::Owned(format!("{} (cancelled)", entry.content));
        }
        entry.status = status;
    }
    Ok(entries)
}

/// Commands as version 1 has them.
pub(crate) fn commands_to_v1<'a>(
    commands: Vec<v2::AvailableCommand<'a>>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<Vec<v1::AvailableCommand<'a>>, Error> {
    let mut converted = Vec::with_capacity(commands.len());
    for (index, command) in commands.into_iter().enumerate() {
        let at = at.item(index);
        match command {
            v2::AvailableCommand::Command(command) => {
                let input = match command.input {
                    None => None,
                    Some(v2::AvailableCommandInput::Text(input)) => Some(v1::AvailableCommandInput {
                        hint: input.hint,
                        meta: input.meta,
                        extra: input.extra,
                    }),
                    Some(v2::AvailableCommandInput::Unknown(unknown)) => {
                        let reason = format!("version 1 has no command input of type \"{}\"", unknown.tag);
                        notes.lose(Severity::Minor, &at.then("input"), reason)?;
                        None
                    }
                };
                converted.push(v1::AvailableCommand {
                    name: command.name,
                    description: command.description,
                    input,
                    meta: command.meta,
                    extra: command.extra,
                });
            }
            v2::AvailableCommand::Unknown(unknown) => {
                let reason =
                    format!("version 1 has no commands of type \"{}\"; shown as a plain one", unknown.tag);
                notes.lose(Severity::Minor, &at, reason)?;
                let text = |key: &str| unknown.text(key).map(Text::into_owned).unwrap_or_default();
                converted.push(v1::AvailableCommand::new(text("name"), text("description")));
            }
        }
    }
    Ok(converted)
}

/// Commands as version 2 has them.
pub(crate) fn commands_to_v2(commands: Vec<v1::AvailableCommand<'_>>) -> Vec<v2::AvailableCommand<'_>> {
    commands.into_iter().map(command_to_v2).collect()
}

fn command_to_v2(command: v1::AvailableCommand<'_>) -> v2::AvailableCommand<'_> {
    v2::AvailableCommand::Command(v2::Command {
        name: command.name,
        description: command.description,
        input: command.input.map(|input| {
            v2::AvailableCommandInput::Text(v2::TextCommandInput {
                hint: input.hint,
                meta: input.meta,
                extra: input.extra,
            })
        }),
        meta: command.meta,
        extra: command.extra,
    })
}
