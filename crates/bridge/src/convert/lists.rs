//! Plans and commands.

use switchboard_acp::v2::{PlanEntry, PlanEntryPriority, PlanEntryStatus};
use switchboard_acp::{Text, v1, v2};

use crate::Error;
use crate::convert::meta::{self, Origin};
use crate::convert::{Conversion, message::Rest};
use crate::loss::Severity;

/// A plan for version 1, which has only one per session.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) id: Text<'a>,
    pub(crate) entries: Vec<PlanEntry<'a>>,
    pub(crate) rest: Rest<'a>,
}

/// Converts a plan to version 1; returns a plan of another type unchanged.
pub(crate) fn plan_to_v1<'a>(
    update: v2::PlanUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<Result<Plan<'a>, v2::PlanUpdateContent<'a>>, Error> {
    let v2::PlanUpdate { plan, meta: outer, extra, more: _ } = update;
    let mut at_plan = cx.key("plan");
    match plan {
        v2::PlanUpdateContent::Items(items) => {
            let v2::PlanItems { plan_id, entries, meta: inner, extra: more, more: _ } = items;
            let entries = at_plan.key("entries").each(entries, entry_to_v1)?;
            let mut meta = meta::join(outer, inner, &mut at_plan)?;
            let mut extra = meta::join_extra(extra, more, &mut at_plan)?;
            meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["entries"]);
            Ok(Ok(Plan { id: plan_id, entries, rest: Rest { meta, extra } }))
        }
        other => {
            let reason = format!("version 1 has no plans of type \"{}\"", other.tag());
            at_plan.report_loss(Severity::Major, reason.clone())?;
            cx.report_lost_rest(outer.as_ref(), &extra, &reason)?;
            Ok(Err(other))
        }
    }
}

/// Formats a plan that is not a list of steps as text.
pub(crate) fn plan_in_words(plan: &v2::PlanUpdateContent<'_>) -> Option<String> {
    match plan {
        v2::PlanUpdateContent::Items(_) => None,
        v2::PlanUpdateContent::File(file) => Some(file.uri.clone().into_owned()),
        v2::PlanUpdateContent::Markdown(markdown) => Some(markdown.content.clone().into_owned()),
        v2::PlanUpdateContent::Unknown(unknown) => unknown.text("content").map(Text::into_owned),
        v2::PlanUpdateContent::More(none) => none.never(),
    }
}

/// Converts one of several plans, for clients that support several.
pub(crate) fn named_plan_to_v1<'a>(
    update: v2::PlanUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::unstable::PlanUpdate<'a>, Error> {
    use v1::unstable::PlanUpdateContent as V1;
    let v2::PlanUpdate { plan, meta, extra, more: _ } = update;
    let mut at_plan = cx.key("plan");
    let plan = match plan {
        v2::PlanUpdateContent::Items(items) => {
            let v2::PlanItems { plan_id, entries, meta, extra, more: _ } = items;
            let entries = at_plan.key("entries").each(entries, entry_to_v1)?;
            V1::Items(v2::PlanItems { plan_id, entries, meta, extra, more: switchboard_acp::More })
        }
        v2::PlanUpdateContent::File(file) => V1::File(file),
        v2::PlanUpdateContent::Markdown(markdown) => V1::Markdown(markdown),
        v2::PlanUpdateContent::Unknown(unknown) => {
            return Err(at_plan.error(format!("version 1 has no plans of type \"{}\"", unknown.tag)));
        }
        v2::PlanUpdateContent::More(none) => none.never(),
    };
    Ok(v1::unstable::PlanUpdate { plan, meta, extra, more: switchboard_acp::More })
}

/// Converts one of several plans to version 2.
pub(crate) fn named_plan_to_v2(update: v1::unstable::PlanUpdate<'_>) -> v2::PlanUpdate<'_> {
    use v1::unstable::PlanUpdateContent as V1;
    let v1::unstable::PlanUpdate { plan, meta, extra, more: _ } = update;
    let plan = match plan {
        V1::Items(items) => v2::PlanUpdateContent::Items(items),
        V1::File(file) => v2::PlanUpdateContent::File(file),
        V1::Markdown(markdown) => v2::PlanUpdateContent::Markdown(markdown),
        V1::Unknown(unknown) => v2::PlanUpdateContent::Unknown(unknown),
        V1::More(none) => none.never(),
    };
    v2::PlanUpdate { plan, meta, extra, more: switchboard_acp::More }
}

fn entry_to_v1<'a>(entry: PlanEntry<'a>, cx: &mut Conversion<'_>) -> Result<PlanEntry<'a>, Error> {
    let PlanEntry { mut content, mut priority, mut status, meta, extra, more: _ } = entry;
    if let PlanEntryPriority::Unknown(word) = &priority {
        let reason = format!("version 1 has no priority \"{word}\"; \"medium\" stands for it");
        cx.key("priority").report_loss(Severity::Minor, reason)?;
        priority = PlanEntryPriority::Medium;
    }
    match &status {
        PlanEntryStatus::Pending | PlanEntryStatus::InProgress | PlanEntryStatus::Completed => {}
        PlanEntryStatus::Cancelled => {
            let reason = "version 1 has no status \"cancelled\"; the step says so";
            cx.key("status").report_loss(Severity::Minor, reason)?;
            content = Text::Owned(format!("{content} (cancelled)"));
            status = PlanEntryStatus::Completed;
        }
        PlanEntryStatus::Unknown(word) => {
            let reason = format!("version 1 has no status \"{word}\"; \"pending\" stands for it");
            cx.key("status").report_loss(Severity::Minor, reason)?;
            status = PlanEntryStatus::Pending;
        }
        PlanEntryStatus::More(none) => none.never(),
    }
    Ok(PlanEntry { content, priority, status, meta, extra, more: switchboard_acp::More })
}

/// Converts the plan of version 1 to the plan `main` of version 2.
pub(crate) fn plan_to_v2(plan: v1::Plan<'_>) -> v2::PlanUpdate<'_> {
    let v1::Plan { entries, mut meta, mut extra, more: _ } = plan;
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["type", "planId"]);
    let mut items = v2::PlanItems::new("main", entries);
    items.extra = extra;
    let mut update = v2::PlanUpdate::new(v2::PlanUpdateContent::Items(items));
    update.meta = meta;
    update
}

/// Converts a list of commands to version 1.
pub(crate) fn commands_update_to_v1<'a>(
    update: v2::AvailableCommandsUpdate<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::AvailableCommandsUpdate<'a>, Error> {
    let v2::AvailableCommandsUpdate { available_commands, meta, extra, more: _ } = update;
    let available_commands = cx.key("availableCommands").each(available_commands, command_to_v1)?;
    Ok(v1::AvailableCommandsUpdate { available_commands, meta, extra, more: switchboard_acp::More })
}

/// Converts a command to version 1.
pub(crate) fn command_to_v1<'a>(
    command: v2::AvailableCommand<'a>,
    cx: &mut Conversion<'_>,
) -> Result<v1::AvailableCommand<'a>, Error> {
    match command {
        v2::AvailableCommand::Command(command) => {
            let v2::Command { name, description, input, meta, extra, more: _ } = command;
            let input = match input {
                None => None,
                Some(v2::AvailableCommandInput::Text(input)) => {
                    let v2::TextCommandInput { hint, meta, extra, more: _ } = input;
                    Some(v1::AvailableCommandInput { hint, meta, extra, more: switchboard_acp::More })
                }
                Some(v2::AvailableCommandInput::Unknown(unknown)) => {
                    let reason = format!("version 1 has no command input of type \"{}\"", unknown.tag);
                    cx.key("input").report_loss(Severity::Minor, reason)?;
                    None
                }
                Some(v2::AvailableCommandInput::More(none)) => none.never(),
            };
            Ok(v1::AvailableCommand { name, description, input, meta, extra, more: switchboard_acp::More })
        }
        v2::AvailableCommand::Unknown(unknown) => {
            let reason =
                format!("version 1 has no commands of type \"{}\"; shown as a plain one", unknown.tag);
            cx.report_loss(Severity::Minor, reason)?;
            let text = |key: &str| unknown.text(key).map(Text::into_owned).unwrap_or_default();
            Ok(v1::AvailableCommand::new(text("name"), text("description")))
        }
        v2::AvailableCommand::More(none) => none.never(),
    }
}

/// Converts a list of commands to version 2.
pub(crate) fn commands_update_to_v2(
    update: v1::AvailableCommandsUpdate<'_>,
) -> v2::AvailableCommandsUpdate<'_> {
    let v1::AvailableCommandsUpdate { available_commands, meta, extra, more: _ } = update;
    let available_commands = available_commands.into_iter().map(command_to_v2).collect();
    v2::AvailableCommandsUpdate { available_commands, meta, extra, more: switchboard_acp::More }
}

fn command_to_v2(command: v1::AvailableCommand<'_>) -> v2::AvailableCommand<'_> {
    let v1::AvailableCommand { name, description, input, mut meta, mut extra, more: _ } = command;
    meta::disambiguate_type(&mut meta, &mut extra, "command");
    let input = input.map(|input| {
        let v1::AvailableCommandInput { hint, mut meta, mut extra, more: _ } = input;
        meta::disambiguate_type(&mut meta, &mut extra, "text");
        v2::AvailableCommandInput::Text(v2::TextCommandInput {
            hint,
            meta,
            extra,
            more: switchboard_acp::More,
        })
    });
    v2::AvailableCommand::Command(v2::Command {
        name,
        description,
        input,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}
