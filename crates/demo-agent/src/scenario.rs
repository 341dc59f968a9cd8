//! The list of scenarios.

use switchboard_acp::v2;
use switchboard_peer::Turn;

use super::{Demo, END, Played, ScenarioError, edits, faults, messages, permissions, subagents, work};

/// Name, argument hint and description.
const SCENARIOS: [(&str, Option<&str>, &str); 32] = [
    ("help", None, "List the scenarios"),
    ("hello", None, "Plain text, streamed word by word"),
    ("markdown", None, "Headings, lists, a table and code"),
    ("thoughts", None, "Thoughts before the answer"),
    ("tool", None, "A tool call whose output is streamed"),
    ("terminal", None, "A terminal whose output is cut inside a character"),
    ("edit", None, "Edits files: an added, a deleted, a modified, a moved and a copied one"),
    ("binary", None, "Edits a binary file"),
    ("symlink", None, "Points a symbolic link elsewhere"),
    ("permission", None, "Asks permission for an edit, with the tool call as subject"),
    ("command", None, "Asks permission to run a command"),
    ("ask", None, "Asks permission for nothing in particular"),
    ("mystery", None, "Asks permission for a subject of an unknown kind"),
    ("form", None, "Asks for data by a form"),
    ("page", None, "Asks to go to a web page"),
    ("redact", None, "Takes a message back after it was streamed"),
    ("replace", None, "Replaces a message after it was streamed"),
    ("metadata", None, "Changes only the metadata of a message and a tool call"),
    ("clear", None, "Clears fields of a tool call by null and by an empty list"),
    ("interleave", None, "Two messages and a tool call whose pieces alternate"),
    ("plan", None, "A plan that is worked through"),
    (
        "subagents",
        Some("background, to end before they do"),
        "Two sub-agents at once that ask, and one of a sub-agent",
    ),
    ("config", None, "Changes what can be set"),
    ("notice", None, "A notice, usage and a compaction"),
    ("unknown", None, "Updates and content of unknown kinds"),
    ("flood", Some("how many updates"), "A long stream of small updates"),
    ("slow", Some("how many seconds"), "Slow work, to be cancelled"),
    ("stubborn", Some("how many seconds"), "Slow work that does not care about cancelling"),
    ("fail", None, "Work that fails"),
    ("refuse", None, "Refuses to work"),
    ("crash", None, "Dies in the middle of a message"),
    ("malformed", None, "Writes things that are no messages between those that are"),
];

/// Returns the scenarios as commands of a session.
pub(crate) fn commands() -> Vec<v2::AvailableCommand<'static>> {
    let command = |(name, hint, description): &(&'static str, Option<&'static str>, &'static str)| {
        let input = hint.map(|hint| v2::AvailableCommandInput::Text(v2::TextCommandInput::new(hint)));
        v2::AvailableCommand::Command(v2::Command { input, ..v2::Command::new(*name, *description) })
    };
    SCENARIOS.iter().map(command).collect()
}

pub(crate) async fn play(demo: &Demo, turn: &Turn, name: &str, rest: &[&str]) -> Played {
    let number = |fallback: u64| rest.first().and_then(|word| word.parse().ok()).unwrap_or(fallback);
    match name {
        "help" => help(turn).await,
        "hello" => messages::hello(demo, turn).await,
        "markdown" => messages::markdown(demo, turn).await,
        "thoughts" => messages::thoughts(demo, turn).await,
        "tool" => work::tool(demo, turn).await,
        "terminal" => work::terminal(demo, turn).await,
        "edit" => edits::edit(turn).await,
        "binary" => edits::binary(turn).await,
        "symlink" => edits::symlink(turn).await,
        "permission" => permissions::with_tool_call(turn).await,
        "command" => permissions::with_command(turn).await,
        "ask" => permissions::without_subject(turn).await,
        "mystery" => permissions::with_unknown_subject(turn).await,
        "form" => permissions::form(turn).await,
        "page" => permissions::page(turn).await,
        "redact" => messages::redact(demo, turn).await,
        "replace" => messages::replace(demo, turn).await,
        "metadata" => messages::metadata(turn).await,
        "clear" => work::clear(turn).await,
        "interleave" => work::interleave(demo, turn).await,
        "plan" => work::plan(demo, turn).await,
        "subagents" => subagents::subagents(demo, turn, rest.first() == Some(&"background")).await,
        "config" => messages::config(turn).await,
        "notice" => messages::notice(turn).await,
        "unknown" => messages::unknown(turn).await,
        "flood" => faults::flood(turn, number(10_000)).await,
        "slow" => faults::slow(turn, number(60)).await,
        "stubborn" => faults::stubborn(turn, number(3)).await,
        "fail" => Err(ScenarioError("the demo failed, as it was asked to".into())),
        "refuse" => faults::refuse(turn).await,
        "crash" => faults::crash(demo, turn).await,
        "malformed" => faults::malformed(demo, turn).await,
        _ => messages::echo(turn).await,
    }
}

async fn help(turn: &Turn) -> Played {
    let message = turn.message();
    message.text("These are the scenarios; each is also a command:\n\n").await?;
    for (name, hint, description) in &SCENARIOS {
        let hint = hint.map_or(String::new(), |hint| format!(" *{hint}*"));
        message.text(&format!("- `/{name}`{hint}: {description}\n")).await?;
    }
    Ok(END)
}
