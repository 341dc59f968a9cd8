//! The same bytes are the same conversation to every command, as a user runs them. That their functions agree about ten
//! thousand conversations is tried in `tests/readers` and, for the page, in `crates/web`; here it is shown that the commands do what those functions do.

use serde_json::Value;
use switchboard_browser::Browser;
use switchboard_testkit::conversations::Generator;
use switchboard_testkit::transcript::{
    Transcript, all_words, content_text, is_within, kind_of_class, of_json, of_text, status_of_html,
    text_of_html, told, words,
};

use crate::agent_program::Place;
use crate::program::{Run, switchboard};
use crate::web::opened::Opened;

const SWITCHBOARD: &str = env!("CARGO_BIN_EXE_switchboard");

/// Conversations as recorded lines, and in a store.
struct Recorded {
    place: Place,
    lines: String,
    id: String,
}

impl Recorded {
    fn new(seed: u64, conversations: usize) -> Self {
        let (place, lines) = (Place::new(), Generator::new(seed).recording(conversations));
        place.write("work/recording.jsonl", &lines);
        let import = place.run(&["sessions", "--store", "store", "import", "recording.jsonl"]);
        let id = import.stdout.trim().to_owned();
        assert!(!id.is_empty(), "{}", import.stderr);
        Recorded { place, lines, id }
    }

    fn fold(&self, more: &[&str]) -> Run {
        switchboard(&[&["fold"], more].concat(), self.lines.as_bytes())
    }

    fn show(&self, more: &[&str]) -> Run {
        self.place.run(&[&["sessions", "--store", "store", "show", &self.id], more].concat())
    }

    fn transcripts(&self) -> Vec<(Value, Transcript)> {
        let sessions = self.fold(&[]).json_lines();
        sessions.into_iter().map(|session| (session.clone(), of_json(&session))).collect()
    }
}

/// Removes times, which have different origins.
fn without_times(run: &Run) -> Vec<Value> {
    let mut sessions = run.json_lines();
    for session in &mut sessions {
        for key in ["permissions", "elicitations"] {
            for question in session[key].as_array_mut().into_iter().flatten() {
                question.as_object_mut().unwrap().retain(|key, _| key != "at" && key != "openedAt");
            }
        }
    }
    sessions
}

#[test]
fn fold_and_show_print_the_same() {
    for seed in 0..4 {
        let recorded = Recorded::new(seed, 20);
        assert_eq!(without_times(&recorded.fold(&[])), without_times(&recorded.show(&["--json"])), "{seed}");
        let text = recorded.fold(&["--text"]).stdout;
        assert_eq!(text, recorded.show(&[]).stdout, "{seed}");
        let sessions = text.split("== session ").skip(1).map(of_text);
        let transcripts = recorded.transcripts().into_iter().map(|(_, transcript)| transcript);
        assert!(sessions.eq(transcripts), "{seed}");
    }
}

#[test]
fn run_prints_what_is_folded_of_an_agent_that_plays_it_again() {
    for seed in 4..10 {
        let recorded = Recorded::new(seed, 5);
        let play = ["sessions", "replay", "recording.jsonl"];
        let agent = [&["--as", "client", "--", SWITCHBOARD], &play[..], &["--instant"]].concat();
        let run = recorded.place.run(&[&play[..], &agent].concat());
        let (all, calls) = (all_words(&run.stdout).collect::<Vec<_>>(), told(&run.stdout));
        for (session, _) in recorded.transcripts() {
            for entry in session["entries"].as_array().unwrap() {
                let said = words(&content_text(&session, entry));
                match (entry["type"].as_str().unwrap(), entry["title"].as_str()) {
                    ("agent_message", _) => {
                        assert!(is_within(&said, &all), "{seed}: {said:?} is not in\n{}", run.stdout);
                    }
                    ("tool_call", Some(title)) => {
                        let call = calls.iter().find(|call| call.title == title).expect(title);
                        assert_eq!(call.status, entry["status"].as_str().unwrap(), "{seed}: {title}");
                    }
                    _ => {}
                }
            }
        }
        assert!(!run.stdout.contains("zx"), "{seed}: {}", run.stdout);
    }
}

#[test]
fn the_page_shows_what_is_folded() {
    let recorded = Recorded::new(11, 24);
    let opened = Opened::start(&recorded.place, &["demo", "--store", "store"]);
    let visitor = Browser::shared().visitor();
    let page = visitor.open(&opened.link);
    page.wait_until("document.body.dataset.activity === 'idle'");
    let sessions = recorded.transcripts();
    assert!(sessions.len() >= 24);
    for (session, transcript) in sessions {
        let id = session["sessionId"].as_str().unwrap();
        page.visit(&format!("http://{}/r/{}/{id}", opened.host(), recorded.id));
        let count = session["entries"].as_array().unwrap().len();
        page.wait_until(&format!("document.querySelectorAll('article').length === {count}"));
        let articles =
            page.eval("[...document.querySelectorAll('article')].map(it => [it.className, it.innerHTML])");
        let mut shown = articles.as_array().unwrap().iter().filter_map(|article| {
            let (class, html) = (article[0].as_str().unwrap(), article[1].as_str().unwrap());
            // A terminal that is shown in its tool call has no entry.
            let is_hidden = kind_of_class(class) == "terminal" && !html.contains("data-part=\"screen\"");
            (!is_hidden).then_some((class, html))
        });
        for entry in &transcript.entries {
            let (class, html) = shown.next().expect(id);
            assert_eq!(kind_of_class(class), entry.kind, "{id}");
            if entry.kind == "tool_call" {
                assert_eq!(status_of_html(html), entry.state, "{id}: {entry:?}");
            }
            let on_page = words(&text_of_html(html));
            assert!(on_page.starts_with(&entry.words), "{id}: {entry:?} and {on_page:?}");
        }
        assert!(shown.next().is_none(), "{id}");
    }
    assert_eq!(page.complaints(), [""; 0]);
}
