//! A scenario with two concurrent sub-agents, each with a tool call and a question, one of them with a
//! sub-agent of its own.

use switchboard_acp::v2;
use switchboard_peer::{Decision, Error, Subagent, ToolCall, Turn};

use super::{Demo, END, Played};

/// Two started sub-agents.
pub(crate) struct Team {
    explorer: Subagent,
    writer: Subagent,
}

/// Starts both. In the background they continue after the turn; otherwise it waits for them.
pub(crate) async fn subagents(demo: &Demo, turn: &Turn, in_background: bool) -> Played {
    let call = turn.tool_call("Ask an explorer").kind(v2::ToolKind::Other).name("delegate").begin().await?;
    let start = call.subagent("Explorer").description("Looks for the tests").task("Find the tests.");
    let explorer = start.start().await?;
    // Without a tool call that refers to it.
    let writer = turn.subagent("Writer").task("Write down what is found.").start().await?;
    let team = Team { explorer, writer };
    if in_background {
        call.complete().await?;
        turn.say("Both are at work, and I have nothing left to do.").await?;
        demo.go_on_later(turn.session(), team);
    } else {
        team.work(demo).await?;
        call.complete().await?;
        turn.say("Both are done.").await?;
    }
    Ok(END)
}

impl Team {
    pub(crate) async fn work(self, demo: &Demo) -> Result<(), Error> {
        let Team { explorer, writer } = self;
        explorer.thought().text("Tests have names that say so.").await?;
        let (left, right) = (explorer.message(), writer.message());
        for (one, other) in [("I look ", "I sharpen "), ("in every ", "my "), ("folder.", "pencil.")] {
            left.text(one).await?;
            right.text(other).await?;
            demo.pause(&explorer).await;
        }
        let search = explorer.tool_call("Search for tests").kind(v2::ToolKind::Search).announce().await?;
        let write = writer.tool_call("Write notes.txt").kind(v2::ToolKind::Edit).announce().await?;
        // Both ask at once, and each waits for its own answer.
        let (searching, writing) = tokio::join!(
            // The same order every time.
            biased;
            explorer.ask("Look into every folder?").about(&search).ask(),
            writer.ask("Write notes.txt?").description("Nothing is written in truth.").about(&write).ask(),
        );
        end(search, &searching?, "tests/it/main.rs\ntests/readers/mod.rs\n").await?;
        let written = writing?;
        end(write, &written, "2 lines\n").await?;
        if written.is_allowed() {
            check(&writer).await?;
        }
        explorer.report("The tests are in tests/.").await?;
        explorer.finish(END).await?;
        writer.report(if written.is_allowed() { "It is written down." } else { "I may not write." }).await?;
        writer.finish(END).await
    }
}

/// Runs a sub-agent of a sub-agent.
async fn check(writer: &Subagent) -> Result<(), Error> {
    let checker = writer.subagent("Checker").task("Check the notes.").start().await?;
    let call = checker.tool_call("Read notes.txt").kind(v2::ToolKind::Read).begin().await?;
    call.text("2 lines\n").await?;
    call.complete().await?;
    checker.say("Both lines are there.").await?;
    checker.finish(END).await
}

async fn end(call: ToolCall, decision: &Decision, output: &str) -> Result<(), Error> {
    if !decision.is_allowed() {
        return call.fail("Not allowed.").await;
    }
    call.begin().await?;
    call.text(output).await?;
    call.complete().await
}
