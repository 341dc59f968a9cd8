//! Scenarios about tool calls, terminals and plans.

use switchboard_acp::{AbsolutePath, Field, v2};
use switchboard_peer::Turn;

use super::{Demo, END, Played};

pub(crate) async fn tool(demo: &Demo, turn: &Turn) -> Played {
    let call = turn
        .tool_call("Count to ten")
        .kind(v2::ToolKind::Execute)
        .name("count")
        .raw_input(serde_json::json!({"to": 10}))
        .begin()
        .await?;
    for number in 1..=10 {
        if turn.is_cancelled() {
            return Ok(END);
        }
        call.text(&format!("{number}\n")).await?;
        demo.pause(turn).await;
    }
    call.complete_with(serde_json::json!({"counted": 10})).await?;
    turn.say("I can count to ten.").await?;
    Ok(END)
}

pub(crate) async fn terminal(demo: &Demo, turn: &Turn) -> Played {
    let call = turn.tool_call("echo grün 🐢").kind(v2::ToolKind::Execute).begin().await?;
    let terminal = call.terminal("echo grün 🐢", turn.session().cwd()).await?;
    // Two bytes at a time: splits both characters and the escape sequence.
    for piece in "\u{1B}[32mgrün\u{1B}[0m 🐢\r\n".as_bytes().chunks(2) {
        terminal.output(piece).await?;
        demo.pause(turn).await;
    }
    terminal.exit(0).await?;
    call.complete().await?;
    turn.say("The turtle arrived whole.").await?;
    Ok(END)
}

pub(crate) async fn clear(turn: &Turn) -> Played {
    let file = format!("{}/some-file", turn.session().cwd());
    let call = turn
        .tool_call("Fill and clear")
        .kind(v2::ToolKind::Search)
        .locations([AbsolutePath::parse(file)?])
        .raw_input(serde_json::json!({"what": "everything"}))
        .begin()
        .await?;
    call.text("This will be cleared by an empty list.").await?;
    call.replace(Vec::new()).await?;
    call.text("This will be cleared by null.").await?;
    call.update(|update| v2::ToolCallUpdate {
        title: Field::Clear,
        kind: Field::Clear,
        content: Field::Clear,
        locations: Field::Clear,
        raw_input: Field::Clear,
        ..update
    })
    .await?;
    call.retitle("Filled and cleared").await?;
    call.complete().await?;
    Ok(END)
}

pub(crate) async fn interleave(demo: &Demo, turn: &Turn) -> Played {
    let (left, right) = (turn.message(), turn.message());
    let call = turn.tool_call("Write two messages at once").begin().await?;
    for number in 1..=5 {
        left.text(&format!("left {number} ")).await?;
        call.text(&format!("{number} ")).await?;
        right.text(&format!("right {number} ")).await?;
        demo.pause(turn).await;
    }
    call.complete().await?;
    Ok(END)
}

pub(crate) async fn plan(demo: &Demo, turn: &Turn) -> Played {
    let steps = ["Read the code", "Change it", "Run the tests"];
    for done in 0..=steps.len() {
        let entries = steps.iter().enumerate().map(|(place, step)| {
            let status = match place.cmp(&done) {
                std::cmp::Ordering::Less => v2::PlanEntryStatus::Completed,
                std::cmp::Ordering::Equal => v2::PlanEntryStatus::InProgress,
                std::cmp::Ordering::Greater => v2::PlanEntryStatus::Pending,
            };
            v2::PlanEntry::new(*step, v2::PlanEntryPriority::Medium, status)
        });
        turn.plan("plan-1", entries.collect()).await?;
        demo.pause(turn).await;
    }
    turn.say("All went to plan.").await?;
    Ok(END)
}
