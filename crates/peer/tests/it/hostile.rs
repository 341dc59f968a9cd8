//! Misbehaving agents: the caller gets an answer in bounded time, and no state is left over.

use std::time::Duration;

use switchboard_acp::v2::{self, StopReason};
use switchboard_acp::{Wire as _, WireFormat};
use switchboard_peer::{Client, ClientOptions, Error, Event};
use switchboard_session::Activity;
use switchboard_transport::{Connection, ConnectionOptions, Event as Incoming, SharedText};

use crate::support::{bounded, path};

const INITIALIZED: &str =
    r#"{"protocolVersion":2,"info":{"name":"hostile","version":"1"},"capabilities":{"session":{}}}"#;

/// A client with session `s`, and an agent whose responses to prompts are these lines; `ID` in them is the
/// request's.
async fn hostile(lines: Vec<String>) -> Client {
    let (near, mut far) = Connection::pair(Client::connection_options(), ConnectionOptions::default());
    tokio::spawn(async move {
        let caller = far.caller.clone();
        let send = async |line: String| caller.forward(&SharedText::from(line)).await.unwrap();
        while let Some(event) = far.inbox.next().await {
            let Incoming::Request(request) = event else { continue };
            let (id, method) = (request.id().to_string(), request.method().to_owned());
            // The responses are written as lines, so that they may be anything.
            std::mem::forget(request);
            match &*method {
                "initialize" => {
                    send(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{INITIALIZED}}}"#)).await;
                }
                "session/new" => {
                    send(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"sessionId":"s"}}}}"#)).await;
                }
                _ => {
                    for line in &lines {
                        send(line.replace("ID", &id)).await;
                    }
                }
            }
        }
    });
    let mut client = Client::connect(near, ClientOptions::new("test", "1")).await.unwrap();
    let request = v2::NewSessionRequest::new(path("/w"));
    client.feed.until(client.agent.new_session(&request), drop).await.unwrap().unwrap();
    client
}

fn update(session: &str, update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
    )
}

const INSERTED: &str = r#"{"jsonrpc":"2.0","id":ID,"result":{"messageId":"u"}}"#;
const RUNNING: &str = r#"{"sessionUpdate":"state_update","state":"running"}"#;
const IDLE: &str = r#"{"sessionUpdate":"state_update","state":"idle"}"#;
const DONE: &str = r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}"#;

/// Returns the stop reason and the number of events that were not updates.
async fn run(lines: Vec<String>) -> (Option<StopReason>, usize) {
    bounded(async {
        let Client { agent, mut feed } = hostile(lines).await;
        let mut odd = 0;
        let mut count = |event: Event| odd += usize::from(!matches!(event, Event::Update(_)));
        let prompt = vec![v2::ContentBlock::text("go")];
        let mut turn = feed.until(agent.prompt("s", prompt), &mut count).await.unwrap().unwrap();
        let end = feed.until(turn.ended(), &mut count).await.unwrap();
        (end.stop_reason, odd)
    })
    .await
}

#[tokio::test]
async fn the_end_is_found_in_every_order() {
    let end = Some(StopReason::EndTurn);
    // As specified; response last; idle before the work; state sent twice.
    let ways: [&[&str]; 4] = [
        &[INSERTED, RUNNING, DONE],
        &[RUNNING, DONE, INSERTED],
        &[IDLE, INSERTED, IDLE, RUNNING, DONE],
        &[RUNNING, RUNNING, INSERTED, DONE, DONE],
    ];
    for way in ways {
        let line = |part: &&str| if part.contains("ID") { (*part).to_owned() } else { update("s", part) };
        assert_eq!(run(way.iter().map(line).collect()).await, (end.clone(), 0), "{way:?}");
    }
    // Idle without a reason ends running work.
    let lines = vec![INSERTED.to_owned(), update("s", RUNNING), update("s", IDLE)];
    assert_eq!(run(lines).await.0, None);
}

#[tokio::test]
async fn a_batch_is_read_message_by_message_in_its_order() {
    let said = [INSERTED.to_owned(), update("s", RUNNING), update("s", DONE)];
    assert_eq!(run(vec![format!("[{}]", said.join(","))]).await, (Some(StopReason::EndTurn), 0));
    // An update of a tool call after a question about it changes the question.
    let call = |title: &str| {
        update("s", &format!(r#"{{"sessionUpdate":"tool_call_update","toolCallId":"c","title":"{title}"}}"#))
    };
    let said = [call("Read"), permission(7, "A"), call("Delete"), INSERTED.to_owned()];
    bounded(async {
        let Client { agent, mut feed } = hostile(vec![format!("[{}]", said.join(","))]).await;
        let mut titles = Vec::new();
        let sessions = feed.sessions();
        let title = |session: &switchboard_session::Session| {
            session.tool_call("c").and_then(|call| call.title().map(str::to_owned))
        };
        let handle = |event: Event| {
            if matches!(event, Event::Permission(_)) {
                titles.push(sessions.get("s", title).flatten());
            }
        };
        feed.until(agent.prompt("s", vec![v2::ContentBlock::text("go")]), handle).await.unwrap().unwrap();
        assert_eq!(titles, [Some("Read".to_owned())]);
        assert_eq!(sessions.get("s", title).flatten().as_deref(), Some("Delete"));
    })
    .await;
}

fn permission(id: u32, title: &str) -> String {
    let option = r#"{"optionId":"y","name":"Yes","kind":"allow_once"}"#;
    let subject = r#"{"type":"tool_call","toolCall":{"toolCallId":"c"}}"#;
    let params = format!(
        r#"{{"sessionId":"s","title":"{title}","options":[{option}],"subject":{subject},"description":7}}"#
    );
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{params}}}"#)
}

#[tokio::test]
async fn an_id_may_be_used_again_as_soon_as_its_question_was_taken_back() {
    let withdrawn = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#;
    let lines = [permission(7, "A"), withdrawn.to_owned(), permission(7, "B"), INSERTED.to_owned()];
    bounded(async {
        let Client { agent, mut feed } = hostile(lines.into()).await;
        let mut told = Vec::new();
        let handle = |event: Event| match event {
            Event::Permission(question) => {
                let left_out: Vec<_> = question.left_out().iter().map(|it| it.pointer.as_str()).collect();
                told.push(format!("{} without {}", question.request().title, left_out.join(", ")));
            }
            Event::Withdrawn { id } => told.push(format!("{id} withdrawn")),
            Event::Anomaly(anomaly) => told.push(anomaly.to_string()),
            _ => {}
        };
        feed.until(agent.prompt("s", vec![v2::ContentBlock::text("go")]), handle).await.unwrap().unwrap();
        assert_eq!(told, ["A without /params/description", "7 withdrawn", "B without /params/description"]);
        let pending = feed.sessions().get("s", |session| session.pending_permissions().count());
        assert_eq!(pending, Some(1));
    })
    .await;
}

#[tokio::test]
async fn unreadable_messages_are_reported_and_later_ones_are_handled() {
    let lines = vec![
        INSERTED.to_owned(),
        "no message".to_owned(),
        update("s", r#"{"sessionUpdate":"tool_call_update"}"#),
        update("s", "[]"),
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#.to_owned(),
        INSERTED.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s"}}"#
            .to_owned(),
        r#"{"jsonrpc":"2.0","id":2,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}"#.to_owned(),
        update("s", RUNNING),
        update("s", DONE),
    ];
    assert_eq!(run(lines).await, (Some(StopReason::EndTurn), 7));
}

#[tokio::test]
async fn sessions_without_end_are_not_kept() {
    let mut lines: Vec<String> =
        (0..12_000).map(|number| update(&format!("other-{number}"), RUNNING)).collect();
    lines.extend([INSERTED.to_owned(), update("s", RUNNING), update("s", DONE)]);
    // One slot is used by the session of the test.
    assert_eq!(run(lines).await, (Some(StopReason::EndTurn), 12_000 - 10_239));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_introduces_itself_is_given_up() {
    let (near, _far) = Connection::pair(Client::connection_options(), ConnectionOptions::default());
    let mut options = ClientOptions::new("test", "1");
    options.patience = Duration::from_secs(5);
    let refused = Client::connect(near, options).await.unwrap_err();
    assert!(matches!(refused, Error::Transport(switchboard_transport::Error::DeadlinePassed { .. })));
}

#[tokio::test]
async fn a_question_that_is_taken_back_is_closed() {
    bounded(async {
        let ask = r#"{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","title":"May I?","options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}"#;
        let lines = vec![
            INSERTED.to_owned(),
            update("s", RUNNING),
            ask.to_owned(),
            r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#.to_owned(),
            update("s", DONE),
        ];
        let Client { agent, mut feed } = hostile(lines).await;
        let mut questions = Vec::new();
        let mut withdrawn = 0;
        let mut take = |event: Event| match event {
            Event::Permission(question) => questions.push(question),
            Event::Withdrawn { .. } => withdrawn += 1,
            _ => {}
        };
        let prompt = vec![v2::ContentBlock::text("go")];
        let mut turn = feed.until(agent.prompt("s", prompt), &mut take).await.unwrap().unwrap();
        feed.until(turn.ended(), &mut take).await.unwrap();
        assert_eq!((questions.len(), withdrawn), (1, 1));
        let late = questions[0].choose("y", "test").await;
        assert!(matches!(late, Err(Error::AlreadySettled { .. })), "{late:?}");
        let (open, activity) = feed
            .sessions()
            .get("s", |session| (session.pending_permissions().count(), session.activity()))
            .unwrap();
        assert_eq!((open, activity), (0, Activity::Idle));
    })
    .await;
}

/// A form with a number accepts a number or nothing: an invalid answer is refused here and can be corrected.
#[tokio::test]
async fn an_answer_that_does_not_fit_the_form_is_refused_and_the_question_stays_open() {
    let ask = r#"{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"mode":"form","sessionId":"s",
        "message":"How many?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1}},
        "required":["n"]}}}"#;
    let lines = vec![INSERTED.to_owned(), update("s", RUNNING), ask.replace('\n', " ")];
    bounded(async {
        let Client { agent, mut feed } = hostile(lines).await;
        let mut asked = Vec::new();
        let mut take = |event: Event| {
            if let Event::Elicitation(question) = event {
                asked.push(question);
            }
        };
        let prompt = vec![v2::ContentBlock::text("go")];
        let _turn = feed.until(agent.prompt("s", prompt), &mut take).await.unwrap().unwrap();
        let question = loop {
            match asked.pop() {
                Some(question) => break question,
                None => {
                    if let Event::Elicitation(question) = feed.next().await.unwrap() {
                        break question;
                    }
                }
            }
        };
        let answer =
            |text: &str| v2::CreateElicitationResponse::decode(text, WireFormat::Any).unwrap().into_owned();
        let wrong = answer(r#"{"action":"accept","content":{"n":0,"m":1}}"#);
        let refused = question.answer(&wrong, "user").await.unwrap_err();
        assert!(matches!(refused, Error::NotAllowed(_)), "{refused:?}");
        assert!(
            refused
                .to_string()
                .ends_with("does not match the form: n: at least 1; m: the form has no such field"),
            "{refused}"
        );
        let right = answer(r#"{"action":"accept","content":{"n":1}}"#);
        question.answer(&right, "user").await.unwrap();
        assert!(matches!(question.answer(&right, "user").await, Err(Error::AlreadySettled { .. })));
    })
    .await;
}

/// Returns the result of a prompt that is cancelled right after it is sent, for an agent that sees the
/// cancellation first.
async fn wanted_back(answer: &'static str) -> bool {
    bounded(async {
        let (near, mut far) = Connection::pair(Client::connection_options(), ConnectionOptions::default());
        tokio::spawn(async move {
            while let Some(event) = far.inbox.next().await {
                let Incoming::Request(request) = event else { continue };
                let (id, caller) = (request.id().to_string(), far.caller.clone());
                let is_prompt = request.method() == "session/prompt";
                let mut taken_back = request.cancellation();
                // The responses are written as lines.
                std::mem::forget(request);
                tokio::spawn(async move {
                    let answer = if is_prompt {
                        taken_back.cancelled().await;
                        answer.to_owned()
                    } else {
                        format!(r#""result":{INITIALIZED}"#)
                    };
                    let line = format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#);
                    caller.forward(&SharedText::from(line)).await.unwrap();
                });
            }
        });
        let Client { agent, mut feed } =
            Client::connect(near, ClientOptions::new("test", "1")).await.unwrap();
        let request = v2::PromptRequest::new("s", vec![v2::ContentBlock::text("go")]);
        let prompt = agent.prompt_unless(&request, std::future::ready(()));
        feed.until(prompt, drop).await.unwrap().is_ok()
    })
    .await
}

#[tokio::test]
async fn the_answer_decides_whether_a_prompt_that_is_wanted_back_was_taken() {
    assert!(wanted_back(r#""result":{"messageId":"u"}"#).await);
    assert!(!wanted_back(r#""error":{"code":-32800,"message":"taken back"}"#).await);
}
