//! The same bytes are the same conversation, whoever reads them: `fold`, `sessions show`, and `run` before an agent that
//! plays them again. The page is compared in `crates/web/src/readers.rs`. All readers are the program's own functions here, without its processes; that the
//! processes do the same is tried in `tests/it/readers.rs`.

use serde_json::Value;
use switchboard_acp::{RecordedLine, WireFormat};
use switchboard_peer::{Client, ClientOptions, Sessions};
use switchboard_policy::Policy;
use switchboard_session::Conversation;
use switchboard_store::{About, Moment, Store, parse_line};
use switchboard_testkit::conversations::Generator;
use switchboard_testkit::recordings;
use switchboard_testkit::transcript::{all_words, content_text, is_within, of_json, of_text, told, words};
use switchboard_transport::{Connection, Program};

use super::fold::{Fold, text};
use super::run::Format;
use super::run::conversation::{Task, printed};
use super::sessions::replay::{drive, replayed};
use super::sessions::show;
use crate::rules::Rules;

/// Number of generated conversations, and of those on one connection.
const CONVERSATIONS: usize = 10_000;
const TOGETHER: usize = 20;

/// A session as shown by a reader, as JSON and as text.
struct Session {
    id: Option<String>,
    json: Value,
    text: String,
}

fn sessions_of(conversation: &Conversation) -> Vec<Session> {
    let session = |(id, session): (Option<&str>, &switchboard_session::Session)| {
        let mut shown = Vec::new();
        text::write(&mut shown, conversation, id, session).unwrap();
        let json = serde_json::from_str(&session.to_json(id)).unwrap();
        Session { id: id.map(str::to_owned), json, text: String::from_utf8(shown).unwrap() }
    };
    conversation.sessions().map(session).collect()
}

/// Removes values that differ in each run: times, which have different origins, and ids that contain a time.
fn comparable(sessions: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let without_times = |mut session: Value| {
        for entry in session["entries"].as_array_mut().unwrap() {
            let id = entry["messageId"].as_str().filter(|id| id.starts_with("b-")).unwrap_or_default();
            if let [kind, _, number] = id.rsplitn(3, '-').collect::<Vec<_>>()[..] {
                entry["messageId"] = format!("{number}-{kind}").into();
            }
        }
        for key in ["permissions", "elicitations"] {
            for question in session[key].as_array_mut().into_iter().flatten() {
                question.as_object_mut().unwrap().retain(|key, _| key != "at" && key != "openedAt");
            }
        }
        session
    };
    sessions.into_iter().map(without_times).collect()
}

fn fold(lines: &str) -> Vec<Session> {
    let mut fold = Fold::new(WireFormat::Any, false);
    for line in lines.lines() {
        drop(fold.line(&RecordedLine::parse(line).unwrap()));
    }
    drop(fold.finish());
    sessions_of(&fold.conversation)
}

/// Imports recorded lines into a store, as `sessions import` does, and returns the id of the recording.
fn import(store: &Store, lines: &str) -> String {
    let mut recorder = store.begin_at(&About::default(), Moment(0)).unwrap();
    for line in lines.lines() {
        if let Some(record) = parse_line(line, Moment(0)).unwrap() {
            recorder.append(record).unwrap();
        }
    }
    let id = recorder.id().to_owned();
    recorder.complete().unwrap();
    id
}

/// Returns the output of `sessions show`.
fn show(store: &Store, id: &str, json: bool) -> String {
    let mut output = Vec::new();
    show::write(store, &show::Arguments::whole(id, json), &mut output).ok().unwrap();
    String::from_utf8(output).unwrap()
}

/// The result of a recording that an agent replays to `run`.
struct Replayed {
    printed: String,
    sessions: Vec<Value>,
}

fn replay(lines: &str, live: bool) -> Replayed {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (agent, stream, script) = replayed(lines);
        let options = ClientOptions::new("readers", "1");
        let (reader, writer) = tokio::io::split(stream);
        let connection = Connection::new(reader, writer, options.connection_options());
        let (sessions, answers) = drive::prompts(&script);
        let task = Task {
            program: Program::new("true"),
            cwd: "/w".to_owned(),
            sessions,
            format: Format::Text,
            rules: Rules::of(Policy::deny_all()),
            leaves_questions: false,
            answers: Some(answers),
            timeout: None,
            handshake_timeout: options.patience,
            session: None,
            fork: None,
            login: None,
            settings: Vec::new(),
            recording: None,
        };
        let look = |sessions: Sessions| {
            sessions.conversation(|conversation| {
                sessions_of(conversation).into_iter().map(|session| session.json).collect()
            })
        };
        let talk = async {
            let client = Client::connect(connection, options).await.unwrap();
            printed(client, task, live, look).await
        };
        let (printed, sessions) = tokio::select! {
            talked = talk => talked,
            () = async { agent.await; std::future::pending().await } => unreachable!(),
        };
        Replayed { printed, sessions }
    })
}

/// Returns a store in a temporary directory.
fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store.sqlite3")).unwrap();
    (folder, store)
}

/// Checks that all readers show the same as `fold` for a generated recording.
fn check_generated(seed: u64, store: &Store) -> usize {
    let lines = Generator::new(seed).recording(TOGETHER);
    let folded = fold(&lines);
    assert!(folded.len() >= TOGETHER, "{seed}");
    let id = import(store, &lines);
    assert_shown(&folded, store, &id, &seed.to_string());
    for session in &folded {
        assert_eq!(
            of_text(&session.text),
            of_json(&session.json),
            "{seed}: the text of {:?}\n{}",
            session.id,
            session.text
        );
        assert!(!session.text.contains("zx"), "{seed}: {}", session.text);
    }
    let is_live = seed.is_multiple_of(2);
    let replayed = replay(&lines, is_live);
    assert_replayed(&folded, &replayed, &seed.to_string());
    for session in &folded {
        assert_printed(&session.json, &replayed.printed, is_live, &seed.to_string());
    }
    folded.len()
}

/// Asserts that `sessions show` prints the same as `fold`.
fn assert_shown(folded: &[Session], store: &Store, id: &str, what: &str) {
    let shown = show(store, id, true);
    let shown = comparable(shown.lines().map(|line| serde_json::from_str(line).unwrap()));
    assert_eq!(comparable(folded.iter().map(|session| session.json.clone())), shown, "{what}");
    let mut texts: Vec<String> = folded.iter().map(|session| session.text.clone()).collect();
    texts.sort_unstable();
    assert_eq!(sessions_of_text(&show(store, id, false)), texts, "{what}");
}

/// Returns the sessions of a transcript, with those of sub-agents unindented, in the order of their text.
fn sessions_of_text(text: &str) -> Vec<String> {
    let mut sessions: Vec<String> = Vec::new();
    let mut indent = 0;
    for line in text.lines() {
        if line.trim_start().starts_with("== session ") {
            indent = line.len() - line.trim_start().len();
            sessions.push(String::new());
        }
        let session = sessions.last_mut().expect("a heading");
        session.push_str(line.get(indent..).unwrap_or_default());
        session.push('\n');
    }
    sessions.sort_unstable();
    sessions
}

/// Asserts that a replayed recording is the same conversation, except for the outcome of requests: the
/// replaying client can only select offered options, and sends no data.
fn assert_replayed(folded: &[Session], replayed: &Replayed, what: &str) {
    let asked = |session: &mut Value| -> Vec<(Value, Value, bool)> {
        let questions = ["permissions", "elicitations"].map(|key| session[key].take());
        session.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let questions = questions.into_iter().filter_map(|all| all.as_array().cloned()).flatten();
        let question = |question: Value| {
            let offered = question["options"].as_array().cloned().unwrap_or_default();
            let chosen = offered.into_iter().find(|option| option["optionId"] == question["optionId"]);
            let kind = chosen.map_or(Value::Null, |option| option["kind"].clone());
            let is_granted = matches!(kind.as_str(), Some("allow_once" | "allow_always"));
            (question["title"].clone(), question["request"]["message"].clone(), is_granted)
        };
        questions.map(question).collect()
    };
    let mut expected = comparable(folded.iter().map(|session| session.json.clone()));
    let mut sessions = comparable(replayed.sessions.iter().cloned());
    // Interleaved sessions are opened one after the other.
    expected.sort_by_key(|session| session["sessionId"].to_string());
    sessions.sort_by_key(|session| session["sessionId"].to_string());
    for (session, played) in expected.iter_mut().zip(&mut sessions) {
        assert_eq!(asked(session), asked(played), "{what}: {}", session["sessionId"]);
        assert_eq!(session, played, "{what}");
    }
    assert_eq!(expected.len(), sessions.len(), "{what}");
}

/// Asserts that `run` printed the session. Thoughts are shown on a terminal only, and user messages not at
/// all.
fn assert_printed(session: &Value, printed: &str, live: bool, what: &str) {
    let all: Vec<&str> = all_words(printed).collect();
    let calls = told(printed);
    for entry in session["entries"].as_array().unwrap() {
        match entry["type"].as_str().unwrap() {
            "agent_thought" if !live => {}
            "agent_message" | "agent_thought" => {
                let said = words(&content_text(session, entry));
                assert!(is_within(&said, &all), "{what}: {said:?} is not in\n{printed}");
            }
            "tool_call" => {
                let Some(title) = entry["title"].as_str() else { continue };
                let call = calls.iter().find(|call| call.title == title);
                let call = call.unwrap_or_else(|| panic!("{what}: {title} is not in\n{printed}"));
                assert_eq!(call.status, entry["status"].as_str().unwrap(), "{what}: {title}");
                let sorted = |text: &str| {
                    let mut words = words(text);
                    words.sort_unstable();
                    words
                };
                if !call.content.contains("lines before") {
                    assert_eq!(
                        sorted(&call.content),
                        sorted(&content_text(session, entry)),
                        "{what}: {title}"
                    );
                }
            }
            _ => {}
        }
    }
    for permission in session["permissions"].as_array().into_iter().flatten().filter(|_| live) {
        assert!(printed.contains(permission["title"].as_str().unwrap()), "{what}: {permission}");
    }
    assert!(!printed.contains("zx"), "{what}: {printed}");
}

#[test]
fn ten_thousand_conversations_are_the_same_to_every_reader() {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    let count: usize = std::thread::scope(|scope| {
        let part = |thread: usize| {
            scope.spawn(move || {
                let (_folder, store) = store();
                let seeds = (0..CONVERSATIONS / TOGETHER).skip(thread).step_by(threads);
                seeds.map(|seed| check_generated(seed as u64, &store)).sum::<usize>()
            })
        };
        let parts: Vec<_> = (0..threads).map(part).collect();
        parts.into_iter().map(|part| part.join().unwrap()).sum()
    });
    assert!(count > CONVERSATIONS, "some conversations have two sessions: {count}");
}

#[test]
fn recordings_are_the_same_to_every_reader() {
    let (_folder, store) = store();
    let mut sessions = 0;
    for recording in recordings() {
        let name = &recording.name;
        let lines = std::fs::read_to_string(&recording.path).unwrap();
        let folded = fold(&lines);
        let id = import(&store, &lines);
        assert_shown(&folded, &store, &id, name);
        sessions += folded.len();
    }
    assert!(sessions > 10, "{sessions} sessions");
}

/// Recordings of our own agent. Others were made by clients that also cancel, log in and resume.
#[test]
fn recordings_that_are_played_again_are_the_same_conversation() {
    let mut count = 0;
    for recording in recordings() {
        if !recording.name.starts_with("demo-") {
            continue;
        }
        let lines = std::fs::read_to_string(&recording.path).unwrap();
        let folded = fold(&lines);
        let replayed = replay(&lines, false);
        assert_replayed(&folded, &replayed, &recording.name);
        count += 1;
    }
    assert!(count > 10, "{count}");
}
