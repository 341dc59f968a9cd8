//! Compares the page with the session engine: frames of a tab must show the same conversation for ten thousand
//! generated conversations and all recordings. `crates/switchboard/tests/readers` does the same for the commands.

use std::sync::Arc;

use serde_json::Value;
use switchboard_acp::{Recorded, RecordedLine, Version, WireFormat};
use switchboard_bridge::{LossPolicy, RecordingBridge};
use switchboard_session::Conversation;
use switchboard_store::{About, Moment, Store, apply_hub_note, parse_line};
use switchboard_testkit::conversations::Generator;
use switchboard_testkit::recordings;
use switchboard_testkit::transcript::{
    all_words, is_within, kind_of_class, of_frame, of_json, status_of_html, text_of_html,
};

use crate::app::user_for_tests;
use crate::live_recording::LiveRecording;
use crate::user_state::UserState;
use crate::view::View;

/// The number of generated conversations, and of those on one connection.
const CONVERSATIONS: usize = 10_000;
const TOGETHER: usize = 20;

/// Folds recorded lines, and returns the sessions with their ids.
fn fold(lines: &str, version: u16) -> Vec<(Option<String>, Value)> {
    let mut conversation = Conversation::new(WireFormat::Any);
    let mut translation = RecordingBridge::with_policy(Version::V2, LossPolicy::Quiet);
    for line in lines.lines() {
        let line = RecordedLine::parse(line).unwrap();
        let at = Moment(line.milliseconds().unwrap_or_default());
        match &line.recorded {
            Recorded::Message { from, other_side: false, text } if version == 1 => {
                translation.take(*from, text, at);
                for line in translation.drain() {
                    drop(conversation.read(&line.text, Some(line.from), at));
                }
            }
            Recorded::Message { from, other_side: false, text } => {
                conversation.read_line(text, *from, at, |_, _| {});
            }
            Recorded::Hub(note) => drop(apply_hub_note(&mut conversation, note, at)),
            _ => {}
        }
    }
    translation.finish();
    for line in translation.drain() {
        drop(conversation.read(&line.text, Some(line.from), Moment(0)));
    }
    let session = |(id, session): (Option<&str>, &switchboard_session::Session)| {
        (id.map(str::to_owned), serde_json::from_str(&session.to_json(id)).unwrap())
    };
    conversation.sessions().map(session).collect()
}

/// Imports recorded lines into a store, like `sessions import`, and returns the id of the recording.
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

/// Returns a store in a temporary folder.
fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store.sqlite3")).unwrap();
    (folder, store)
}

/// Returns the frames of a tab that shows the sessions of a recording.
fn frames(user: &UserState, room: &Arc<LiveRecording>, ids: &[(Option<String>, Value)]) -> Vec<Value> {
    let frame = |(id, _): &(Option<String>, Value)| {
        let mut view = View::new();
        view.look(Some(Arc::clone(room)), id.clone().unwrap_or_default());
        view.set_window(0, 200);
        // Calls in a run are compared like all others.
        let session = id.clone().unwrap_or_default();
        (0..200).for_each(|position| view.fold_run(&session, position, true));
        serde_json::to_value(view.frame(user)).unwrap()
    };
    ids.iter().map(frame).collect()
}

/// Returns the frames for a recording of the store.
fn stored_page(
    user: &UserState,
    store: &Store,
    id: &str,
    sessions: &[(Option<String>, Value)],
) -> Vec<Value> {
    let room = LiveRecording::folding(id, store, store.session(id).unwrap().protocol);
    for item in store.read(id, 0).unwrap() {
        room.push(&item.unwrap().into_record().unwrap());
    }
    frames(user, &room, sessions)
}

/// Compares a generated recording, and returns the number of its sessions.
fn check_generated(seed: u64, user: &UserState, store: &Store) -> usize {
    let lines = Generator::new(seed).recording(TOGETHER);
    let folded = fold(&lines, 2);
    let id = import(store, &lines);
    for (frame, (_, session)) in stored_page(user, store, &id, &folded).iter().zip(&folded) {
        assert_eq!(of_frame(frame), of_json(session), "{seed}: the page of {}", frame["session"]);
    }
    folded.len()
}

#[test]
fn ten_thousand_conversations_are_on_the_page() {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    let count: usize = std::thread::scope(|scope| {
        let part = |thread: usize| {
            scope.spawn(move || {
                let (_folder, store) = store();
                let user = user_for_tests(&store);
                let seeds = (0..CONVERSATIONS / TOGETHER).skip(thread).step_by(threads);
                seeds.map(|seed| check_generated(seed as u64, &user, &store)).sum::<usize>()
            })
        };
        let parts: Vec<_> = (0..threads).map(part).collect();
        parts.into_iter().map(|part| part.join().unwrap()).sum()
    });
    assert!(count > CONVERSATIONS, "some conversations have two sessions: {count}");
}

/// Returns the visible words of Markdown.
fn markdown_words(text: &str) -> Vec<String> {
    use pulldown_cmark::{Event, Options, Parser};
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut plain = String::new();
    for event in Parser::new_ext(text, options) {
        match event {
            Event::Text(text) | Event::Code(text) => plain.push_str(&text),
            Event::InlineHtml(text) | Event::Html(text) => plain.push_str(&text),
            Event::Start(tag) if !is_inline(&tag) => plain.push(' '),
            Event::SoftBreak | Event::HardBreak | Event::End(_) => plain.push(' '),
            _ => {}
        }
    }
    all_words(&plain).map(str::to_owned).collect()
}

fn is_inline(tag: &pulldown_cmark::Tag<'_>) -> bool {
    use pulldown_cmark::Tag;
    matches!(tag, Tag::Emphasis | Tag::Strong | Tag::Strikethrough | Tag::Link { .. })
}

#[test]
fn recordings_are_on_the_page() {
    let (_folder, store) = store();
    let user = user_for_tests(&store);
    let mut entries = 0;
    for recording in recordings() {
        let name = &recording.name;
        let lines = std::fs::read_to_string(&recording.path).unwrap();
        let id = import(&store, &lines);
        let folded = fold(&lines, store.session(&id).unwrap().protocol);
        for (frame, (_, session)) in stored_page(&user, &store, &id, &folded).iter().zip(&folded) {
            entries += assert_on_page(frame, session, name);
        }
    }
    assert!(entries > 100, "{entries} entries");
}

/// Asserts that the page has every entry of a session, with its words. Returns the number of entries.
fn assert_on_page(frame: &Value, session: &Value, what: &str) -> usize {
    let none = Vec::new();
    let on_page = frame["entries"].as_array().unwrap_or(&none);
    let entries = session["entries"].as_array().unwrap();
    // A tab has at most 200 of them.
    assert_eq!(on_page.len(), entries.len().min(200), "{what}: {frame}");
    for (shown, entry) in on_page.iter().zip(entries) {
        let html = |wanted: &dyn Fn(&str) -> bool| -> String {
            let parts = shown["parts"].as_array().unwrap();
            let parts = parts.iter().filter(|part| wanted(part[0].as_str().unwrap()));
            parts.map(|part| part[1].as_str().unwrap()).collect()
        };
        assert_eq!(kind_of_class(shown["class"].as_str().unwrap()), entry["type"], "{what}");
        let own = html(&|key| !key.starts_with("asked-"));
        let text = text_of_html(&own);
        let on_page: Vec<&str> = all_words(&text).collect();
        if entry["type"] == "tool_call" {
            let title = entry["title"].as_str().or(entry["name"].as_str()).unwrap_or_default();
            assert!(is_within(&all_words(title).collect::<Vec<_>>(), &on_page), "{what}: {title}\n{text}");
            if !own.contains("waiting for") {
                assert_eq!(status_of_html(&own), entry["status"].as_str().unwrap(), "{what}: {title}");
            }
        }
        let texts = entry["content"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|item| item["text"].as_str().or(item["content"]["text"].as_str()));
        let said = texts.collect::<String>();
        let said = if entry["type"] == "user_message" {
            all_words(&said).map(str::to_owned).collect()
        } else {
            markdown_words(&said)
        };
        if !own.contains("data-part=\"earlier\"") {
            assert!(is_within(&said, &on_page), "{what}: {said:?} is not in\n{on_page:?}");
        }
    }
    entries.len()
}
