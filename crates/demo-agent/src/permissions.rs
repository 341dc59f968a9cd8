//! Scenarios that ask the user.

use switchboard_acp::{AbsolutePath, Extra, Field, Raw, UnknownVariant, Wire, WireFormat, v2};
use switchboard_diff::{BuildOptions, build_from_bytes};
use switchboard_peer::{Decision, Turn};

use super::edits::Folder;
use super::{END, Played, ScenarioError};

pub(crate) async fn with_tool_call(turn: &Turn) -> Played {
    let folder = Folder::prepare(turn)?;
    let path = folder.path("config.json");
    let old = std::fs::read(&path)?;
    let new = b"{\n  \"debug\": true,\n  \"level\": 3\n}\n";
    let built = build_from_bytes(&path, Some(&old), Some(new), &BuildOptions::default());
    let shown = path.display().to_string();
    let call = turn
        .tool_call("Edit config.json")
        .kind(v2::ToolKind::Edit)
        .locations([AbsolutePath::parse(shown.clone())?])
        .announce()
        .await?;
    let update = v2::ToolCallUpdate {
        content: Field::Set(vec![v2::ToolCallContent::diff(v2::Diff::from(&built.diff))]),
        ..v2::ToolCallUpdate::new(call.id().to_owned())
    };
    let decision = turn
        .ask(&format!("Write to {shown}?"))
        .description("It turns debugging on.")
        .about_update(update)
        .ask()
        .await?;
    if decision.is_allowed() {
        call.begin().await?;
        std::fs::write(&path, new)?;
        call.complete().await?;
        turn.say("Debugging is on.").await?;
    } else {
        call.fail("Not allowed.").await?;
        turn.say("Debugging stays off.").await?;
    }
    Ok(END)
}

pub(crate) async fn with_command(turn: &Turn) -> Played {
    let (command, cwd) = ("rm -rf build && make", turn.session().cwd());
    let place = AbsolutePath::parse(cwd.to_owned())?;
    let decision = turn.ask("Run a command?").about_command(command, place).ask().await?;
    match decision {
        Decision::Allowed(option) => {
            let call = turn.tool_call(command).kind(v2::ToolKind::Execute).begin().await?;
            let terminal = call.terminal(command, cwd).await?;
            terminal.output(b"make: nothing to be done (this is a demo)\n").await?;
            terminal.exit(0).await?;
            call.complete().await?;
            turn.say(&format!("You chose \"{}\".", option.name)).await?;
        }
        Decision::Rejected(option) => turn.say(&format!("You chose \"{}\".", option.name)).await?,
        Decision::Undecided => turn.say("You did not choose.").await?,
    }
    Ok(END)
}

pub(crate) async fn without_subject(turn: &Turn) -> Played {
    use v2::PermissionOptionKind as Kind;
    let decision = turn
        .ask("May I go on?")
        .description("There is nothing in particular that I want to do.")
        .option("yes", "Yes, go on", Kind::AllowOnce)
        .option("no", "No, stop", Kind::RejectOnce)
        .option("ask-later", "Ask me later", Kind::from("_demo_later"))
        .ask()
        .await?;
    say(turn, &decision).await
}

pub(crate) async fn with_unknown_subject(turn: &Turn) -> Played {
    let mut entries = Extra::new();
    entries.insert("spell", Raw::from(serde_json::json!("abracadabra")));
    let subject = UnknownVariant { tag: "_demo_spell".into(), entries };
    let decision =
        turn.ask("Cast a spell?").subject(v2::RequestPermissionSubject::Unknown(subject)).ask().await?;
    say(turn, &decision).await
}

async fn say(turn: &Turn, decision: &Decision) -> Played {
    let words = match decision {
        Decision::Allowed(_) => "Then I go on.",
        Decision::Rejected(_) => "Then I stop.",
        Decision::Undecided => "No answer is no permission.",
    };
    turn.say(words).await?;
    Ok(END)
}

const FORM: &str = r#"{"type":"object","title":"A few questions","properties":{
    "name":{"type":"string","title":"Your name","maxLength":40},
    "colour":{"type":"string","enum":["red","green"],"default":"green"},
    "size":{"type":"integer","title":"Size","minimum":1,"maximum":9,"default":5},
    "share":{"type":"number","title":"Share","description":"A part of the whole","minimum":0,"maximum":1},
    "ready":{"type":"boolean","title":"Ready?"},
    "days":{"type":"array","title":"Days","maxItems":2,
        "items":{"anyOf":[{"const":"mo","title":"Monday"},{"const":"tu","title":"Tuesday"}]}}},
    "required":["name"]}"#;

pub(crate) async fn form(turn: &Turn) -> Played {
    let capabilities = turn.session().client_capabilities();
    let can = capabilities.elicitation.as_ref().is_some_and(|modes| modes.form.is_some());
    if !can {
        turn.say("Your client cannot show forms.").await?;
        return Ok(END);
    }
    let schema = v2::ElicitationSchema::decode(FORM, WireFormat::Any).map_err(ScenarioError::from)?;
    let mut form = v2::ElicitationFormMode::new("Who are you?", schema);
    form.session_id = Some(turn.session().id().into());
    say_data(turn, &v2::CreateElicitationRequest::Form(form)).await
}

pub(crate) async fn page(turn: &Turn) -> Played {
    let capabilities = turn.session().client_capabilities();
    let can = capabilities.elicitation.as_ref().is_some_and(|modes| modes.url.is_some());
    if !can {
        turn.say("Your client cannot send you to web pages.").await?;
        return Ok(END);
    }
    let mut page =
        v2::ElicitationUrlMode::new("Look at the weather", "demo-page", "https://weather.example/");
    page.session_id = Some(turn.session().id().into());
    say_data(turn, &v2::CreateElicitationRequest::Url(page)).await
}

async fn say_data(turn: &Turn, request: &v2::CreateElicitationRequest<'_>) -> Played {
    let answer = turn.elicit(request).await?;
    let words = match &answer {
        v2::CreateElicitationResponse::Accept(_) => format!("You sent {}.", answer.encode(WireFormat::Any)),
        v2::CreateElicitationResponse::Decline(_) => "You would rather not say.".to_owned(),
        _ => "No answer.".to_owned(),
    };
    turn.say(&words).await?;
    Ok(END)
}
