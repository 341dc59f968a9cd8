//! Scenarios about messages and the session as a whole.

use switchboard_acp::rpc::{RpcError, codes};
use switchboard_acp::{Extra, Field, Meta, Raw, UnknownVariant, v2};
use switchboard_peer::{AgentSession, Turn};

use super::{Demo, END, Played};

async fn stream(
    demo: &Demo,
    turn: &Turn,
    message: &switchboard_peer::Message,
    text: &str,
) -> Result<(), super::ScenarioError> {
    for piece in text.split_inclusive(' ') {
        if turn.is_cancelled() {
            break;
        }
        message.text(piece).await?;
        demo.pause(turn).await;
    }
    Ok(())
}

pub(crate) async fn hello(demo: &Demo, turn: &Turn) -> Played {
    let text = "Hello! I am Switchboard's demo agent. I have no model, but I know the protocol by heart. Try `help`.";
    stream(demo, turn, &turn.message(), text).await?;
    Ok(END)
}

pub(crate) async fn echo(turn: &Turn) -> Played {
    turn.say(&format!("You said: {}", turn.text())).await?;
    Ok(END)
}

const MARKDOWN: &str = "# A heading

Some *emphasis*, some **strong words** and `code` in a line.

- one
- two
    - and a half

| name | value |
|------|------:|
| a    | 1     |
| b    | 22    |

```rust
fn main() {
    println!(\"hello\");
}
```

> A quotation, at the end.
";

pub(crate) async fn markdown(demo: &Demo, turn: &Turn) -> Played {
    stream(demo, turn, &turn.message(), MARKDOWN).await?;
    Ok(END)
}

pub(crate) async fn thoughts(demo: &Demo, turn: &Turn) -> Played {
    stream(demo, turn, &turn.thought(), "The user wants to see thoughts. These are some.").await?;
    stream(demo, turn, &turn.thought(), "That was enough of them.").await?;
    stream(demo, turn, &turn.message(), "I have thought about it, twice.").await?;
    Ok(END)
}

pub(crate) async fn redact(demo: &Demo, turn: &Turn) -> Played {
    let message = turn.message();
    stream(demo, turn, &message, "The password is hunter2.").await?;
    message.clear().await?;
    turn.say("I took back what I said.").await?;
    Ok(END)
}

pub(crate) async fn replace(demo: &Demo, turn: &Turn) -> Played {
    let message = turn.message();
    stream(demo, turn, &message, "Two and two is five.").await?;
    message.replace(vec![v2::ContentBlock::text("Two and two is "), v2::ContentBlock::text("four.")]).await?;
    message.text(" Now it is right.").await?;
    Ok(END)
}

fn meta(key: &'static str, value: u64) -> Meta<'static> {
    Meta::from_entries([(key.into(), Raw::from(serde_json::Value::from(value)))])
}

pub(crate) async fn metadata(turn: &Turn) -> Played {
    let message = turn.message();
    message.text("Only my metadata changes.").await?;
    message.update(Field::Keep, Field::Set(meta("demo/step", 1))).await?;
    let call = turn.tool_call("Change metadata").begin().await?;
    call.update(|update| update.meta(meta("demo/step", 1))).await?;
    call.update(|update| update.meta(meta("demo/step", 2))).await?;
    call.complete().await?;
    message.update(Field::Keep, Field::Clear).await?;
    Ok(END)
}

/// Returns the options with these values.
pub(crate) fn options(mood: &'static str, verbose: bool) -> Vec<v2::SessionConfigOption<'static>> {
    let values = [("calm", "Calm"), ("cheerful", "Cheerful")];
    let values: Vec<_> =
        values.into_iter().map(|(value, name)| v2::SessionConfigSelectOption::new(value, name)).collect();
    let mut select =
        v2::SessionConfigSelect::new("mood", "Mood", mood, v2::SessionConfigSelectOptions::Flat(values));
    select.category = Some(v2::SessionConfigOptionCategory::Mode);
    vec![
        v2::SessionConfigOption::Select(select),
        v2::SessionConfigOption::Boolean(v2::SessionConfigBoolean::new("verbose", "Verbose", verbose)),
    ]
}

/// Returns the current values.
async fn current(session: &AgentSession) -> (&'static str, bool) {
    let (mut mood, mut verbose) = ("calm", false);
    for option in session.current_options().await {
        match option {
            v2::SessionConfigOption::Select(select) if select.current_value == "cheerful" => {
                mood = "cheerful";
            }
            v2::SessionConfigOption::Boolean(boolean) => verbose = boolean.current_value,
            _ => {}
        }
    }
    (mood, verbose)
}

pub(crate) async fn set_option(
    session: &AgentSession,
    request: &v2::SetSessionConfigOptionRequest<'_>,
) -> Result<Vec<v2::SessionConfigOption<'static>>, RpcError<'static>> {
    use v2::SetSessionConfigOptionRequest as Set;
    let (mood, verbose) = current(session).await;
    match request {
        Set::Id(id) if id.config_id == "mood" && id.value == "calm" => Ok(options("calm", verbose)),
        Set::Id(id) if id.config_id == "mood" && id.value == "cheerful" => Ok(options("cheerful", verbose)),
        Set::Boolean(boolean) if boolean.config_id == "verbose" => Ok(options(mood, boolean.value)),
        _ => Err(RpcError::new(codes::INVALID_PARAMS, "there is no such option or value")),
    }
}

pub(crate) async fn config(turn: &Turn) -> Played {
    let (mood, verbose) = current(turn.session()).await;
    let other = if mood == "calm" { "cheerful" } else { "calm" };
    turn.session().config_options(options(other, verbose)).await?;
    turn.say(&format!("My mood was {mood}, now it is {other}.")).await?;
    Ok(END)
}

pub(crate) async fn notice(turn: &Turn) -> Played {
    let session = turn.session();
    session.title("A session with notices").await?;
    session.notice(v2::NoticeSeverity::Warning, "The context is nearly full").await?;
    session.usage(190_000, 200_000).await?;
    let compaction = v2::CompactionUpdate::new("compaction-1", v2::CompactionStatus::InProgress);
    turn.update(v2::SessionUpdate::CompactionUpdate(Box::new(compaction))).await?;
    let summary = v2::ContentBlock::text("The user wants to see notices.");
    let chunk = v2::CompactionSummaryChunk::new("compaction-1", summary);
    turn.update(v2::SessionUpdate::CompactionSummaryChunk(chunk)).await?;
    let compaction = v2::CompactionUpdate::new("compaction-1", v2::CompactionStatus::Completed);
    turn.update(v2::SessionUpdate::CompactionUpdate(Box::new(compaction))).await?;
    session.usage(1_000, 200_000).await?;
    turn.say("Now there is room again.").await?;
    Ok(END)
}

pub(crate) async fn unknown(turn: &Turn) -> Played {
    let variant = |tag: &'static str| {
        let mut entries = Extra::new();
        entries.insert("weather", Raw::from(serde_json::json!({"wind": 12.50, "from": "west"})));
        UnknownVariant { tag: tag.into(), entries }
    };
    turn.update(v2::SessionUpdate::Unknown(variant("_demo_weather"))).await?;
    turn.update(v2::SessionUpdate::Unknown(variant("weather_update"))).await?;
    let message = turn.message();
    message.text("There was an update of an unknown kind. Content too: ").await?;
    message.append(v2::ContentBlock::Unknown(variant("_demo_map"))).await?;
    let call =
        turn.tool_call("Look out of the window").kind(v2::ToolKind::from("_demo_look")).begin().await?;
    call.append(v2::ToolCallContent::Unknown(variant("_demo_map"))).await?;
    call.complete().await?;
    Ok(END)
}
