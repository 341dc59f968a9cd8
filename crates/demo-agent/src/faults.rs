//! Scenarios with faults that clients must handle.

use std::time::Duration;

use switchboard_acp::v2;
use switchboard_peer::Turn;
use switchboard_transport::SharedText;
use tokio::time::{interval, timeout};

use super::{Demo, END, Played};

pub(crate) async fn flood(turn: &Turn, count: u64) -> Played {
    let message = turn.message();
    for number in 0..count {
        if number % 256 == 0 {
            // Lets a cancellation arrive.
            tokio::task::yield_now().await;
            if turn.is_cancelled() {
                return Ok(END);
            }
        }
        message.text(&format!("piece {number}\n")).await?;
    }
    Ok(END)
}

pub(crate) async fn slow(turn: &Turn, seconds: u64) -> Played {
    let call = turn.tool_call("Work slowly").kind(v2::ToolKind::Think).cancellable().begin().await?;
    let mut ticks = interval(Duration::from_millis(500));
    let work = async {
        for _ in 0..seconds.saturating_mul(2) {
            ticks.tick().await;
            call.text(".").await?;
        }
        Ok::<(), switchboard_peer::Error>(())
    };
    tokio::select! {
        done = work => {
            done?;
            call.complete().await?;
            turn.say("That took a while.").await?;
        }
        () = turn.cancelled() => call.cancel().await?,
        () = call.cancelled() => {
            call.cancel().await?;
            turn.say("You cancelled the slow part, so I am done.").await?;
        }
    }
    Ok(END)
}

pub(crate) async fn stubborn(turn: &Turn, seconds: u64) -> Played {
    let call = turn.tool_call("Work and listen to nobody").begin().await?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    call.complete().await?;
    Ok(END)
}

pub(crate) async fn refuse(turn: &Turn) -> Played {
    turn.say("I would rather not.").await?;
    Ok(v2::StopReason::Refusal)
}

pub(crate) async fn crash(demo: &Demo, turn: &Turn) -> Played {
    turn.say("I do not feel well.").await?;
    // Earlier messages must be delivered first, possibly through a translation.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let half = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"demo"#;
    demo.caller.forward(&SharedText::from(half)).await?;
    // Bounded, even if the client does not read.
    let _ = timeout(Duration::from_secs(5), demo.caller.flush()).await;
    eprintln!("demo-agent: something is badly wrong");
    eprintln!("demo-agent: this is the last line before the crash");
    std::process::exit(70);
}

pub(crate) async fn malformed(demo: &Demo, turn: &Turn) -> Played {
    let message = turn.message();
    message.text("Before the noise. ").await?;
    let session = turn.session().id();
    let update = |update: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
        )
    };
    for line in [
        "INFO this line is a log line".to_owned(),
        "\u{1B}[2K\u{1B}[1Gprogress 50%".to_owned(),
        r#"{"jsonrpc":"2.0","method":"session/upd"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":4711,"result":{"nobody":"asked"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"_demo/nothing","params":{}}"#.to_owned(),
        update(r#"{"sessionUpdate":"tool_call_update","title":"without an id"}"#),
        update(r#"{"sessionUpdate":"agent_message_chunk","messageId":"m","content":"no block"}"#),
        update(
            r#"{"sessionUpdate":"tool_call_update","toolCallId":"malformed-1","title":42,"status":"completed"}"#,
        ),
        update(r#"{"state":"idle"}"#),
        "[]".to_owned(),
    ] {
        demo.caller.forward(&SharedText::from(line)).await?;
    }
    message.text("After the noise.").await?;
    Ok(END)
}
