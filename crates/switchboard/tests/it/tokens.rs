//! `tokens` and `hub share`: access to a hub.

use serde_json::{Value, json};
use switchboard_store::{About, Channel, Hosted, Record, Role, Store};
use tempfile::TempDir;

use crate::program::{Run, switchboard};

struct Scratch {
    folder: TempDir,
}

impl Scratch {
    fn new() -> Self {
        Scratch { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> String {
        self.folder.path().join("store.sqlite3").to_str().unwrap().to_owned()
    }

    fn run(&self, arguments: &[&str]) -> Run {
        switchboard(&[arguments, &["--store", &self.path()]].concat(), b"")
    }

    /// Returns the output of a successful run without warnings.
    fn quietly(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{arguments:?}");
        run.stdout
    }

    /// Returns the error message of a run with exit code 2.
    fn refused(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}: {}", run.stderr);
        run.stderr
    }

    fn store(&self) -> Store {
        Store::open(self.path()).unwrap()
    }

    /// Creates a recording, of a hub or not.
    fn recording(&self, is_hosted: bool) -> String {
        let store = self.store();
        let mut recorder = store.begin(&About::default()).unwrap();
        let id = recorder.id().to_owned();
        recorder.put(Record::new(Channel::Process, "started")).unwrap();
        let text = |text: &str| text.to_owned();
        if is_hosted {
            store
                .host(&Hosted {
                    id: id.clone(),
                    agent: text("demo"),
                    agent_session: text("a-1"),
                    owner: text("me"),
                    folder: text("/p"),
                    closed: false,
                })
                .unwrap();
        }
        recorder.complete().unwrap();
        id
    }
}

#[test]
fn a_token_is_printed_alone_on_one_line_and_never_again() {
    let scratch = Scratch::new();
    let token = scratch.quietly(&["tokens", "add", "anna", "--role", "answer"]);
    let text = token.strip_suffix('\n').unwrap();
    assert!(text.starts_with("sb_") && !text.contains(char::is_whitespace), "{token:?}");
    let found = scratch.store().find_token(text).unwrap().unwrap();
    assert_eq!((&*found.name, found.role, found.all), ("anna", Role::Answer, false));
    // The old name of the role.
    scratch.quietly(&["tokens", "add", "ci", "--role", "own"]);
    scratch.quietly(&["tokens", "add", "team", "--role", "use"]);
    scratch.quietly(&["tokens", "add", "wall", "--role", "view", "--all"]);
    let listed = scratch.quietly(&["tokens", "list"]);
    let words: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect())
        .collect();
    assert_eq!(words[0], ["NAME", "ROLE", "CREATED", "SEES"]);
    let column = |at: usize| words.iter().skip(1).map(|line| line[at]).collect::<Vec<_>>();
    assert_eq!(
        (column(0), column(1)),
        (vec!["anna", "ci", "team", "wall"], vec!["answer", "admin", "use", "view"]),
        "{listed}"
    );
    assert_eq!(column(3), ["no session yet", "all sessions", "no session yet", "all sessions"], "{listed}");
    let json: Vec<Value> = scratch
        .quietly(&["tokens", "list", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&json[0]["name"], &json[0]["role"], &json[3]["all"]),
        (&json!("anna"), &json!("answer"), &json!(true))
    );
    assert!(!listed.contains("sb_") && json.iter().all(|line| !line.to_string().contains("sb_")));
}

#[test]
fn a_revoked_token_is_worthless() {
    let scratch = Scratch::new();
    let token = scratch.quietly(&["tokens", "add", "anna", "--role", "own"]);
    assert_eq!(scratch.quietly(&["tokens", "revoke", "anna"]), "anna\n");
    assert_eq!(scratch.store().find_token(token.trim()).unwrap(), None);
    let again = scratch.quietly(&["tokens", "add", "anna", "--role", "own"]);
    assert_ne!(again, token);
}

#[test]
fn invalid_token_commands_fail_with_a_remedy() {
    let scratch = Scratch::new();
    let none = scratch.refused(&["tokens", "revoke", "anna"]);
    assert!(none.contains("does not exist") && none.contains("--store"), "{none}");
    assert!(!std::path::Path::new(&scratch.path()).exists(), "nothing was made only to find nothing in it");
    let listed = scratch.run(&["tokens", "list"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (0, ""));
    assert!(listed.stderr.starts_with("no tokens in "), "{}", listed.stderr);
    scratch.quietly(&["tokens", "add", "anna", "--role", "view"]);
    let taken = scratch.refused(&["tokens", "add", "anna", "--role", "own"]);
    assert!(taken.contains("\"anna\" already") && taken.contains("tokens revoke anna"), "{taken}");
    let unknown = scratch.refused(&["tokens", "revoke", "ben"]);
    assert!(unknown.contains("\"ben\"") && unknown.contains("hint: existing tokens: anna"), "{unknown}");
    let name = scratch.refused(&["tokens", "add", "a b", "--role", "own"]);
    assert!(name.contains("letters, digits"), "{name}");
    let launch = scratch.refused(&["tokens", "add", "launch", "--role", "own"]);
    assert!(launch.contains("reserved for the launch token") && launch.contains("another name"), "{launch}");
    let role = scratch.refused(&["tokens", "add", "ben", "--role", "root"]);
    assert!(role.contains("expected view, answer, use or admin"), "{role}");
    scratch.refused(&["tokens", "add", "ben"]);
    assert_eq!(scratch.store().tokens().unwrap().len(), 1);
}

#[test]
fn a_session_is_shared_and_taken_back() {
    let scratch = Scratch::new();
    let id = scratch.recording(true);
    scratch.quietly(&["tokens", "add", "anna", "--role", "view"]);
    assert_eq!(scratch.quietly(&["hub", "share", &id[..id.len() - 1], "anna"]), "");
    assert_eq!(scratch.store().shares(&id).unwrap(), ["anna"]);
    let listed = scratch.quietly(&["tokens", "list"]);
    assert!(listed.contains(&id), "{listed}");
    let again = scratch.run(&["hub", "share", &id, "anna"]);
    assert!(again.code == 0 && again.stderr.contains("before"), "{}", again.stderr);
    assert_eq!(scratch.quietly(&["hub", "unshare", &id, "anna"]), "");
    assert_eq!(scratch.store().shares(&id).unwrap(), Vec::<String>::new());
    let again = scratch.run(&["hub", "unshare", &id, "anna"]);
    assert!(again.code == 0 && again.stderr.contains("was not shared"), "{}", again.stderr);
    // A token with access to all sessions keeps access to this one, so the command must not claim otherwise.
    scratch.quietly(&["tokens", "add", "ben", "--role", "answer", "--all"]);
    let all = scratch.run(&["hub", "unshare", &id, "ben"]);
    assert!(all.stderr.contains("ben still sees it"), "{}", all.stderr);
}

#[test]
fn invalid_shares_fail_with_a_remedy() {
    let scratch = Scratch::new();
    let (plain, hosted) = (scratch.recording(false), scratch.recording(true));
    scratch.quietly(&["tokens", "add", "anna", "--role", "view"]);
    let unknown = scratch.refused(&["hub", "share", "nothing", "anna"]);
    assert!(unknown.contains("no session nothing") && unknown.contains("sessions list"), "{unknown}");
    let no_token = scratch.refused(&["hub", "share", &hosted, "ben"]);
    assert!(no_token.contains("\"ben\"") && no_token.contains("existing tokens: anna"), "{no_token}");
    let not_hosted = scratch.refused(&["hub", "share", &plain, "anna"]);
    assert!(not_hosted.contains("is not a session of a hub") && not_hosted.contains("serve"), "{not_hosted}");
    let several = scratch.refused(&["hub", "unshare", &plain[..4], "anna"]);
    assert!(several.contains(&plain) && several.contains(&hosted), "{several}");
}

#[test]
fn a_token_that_nobody_could_read_is_none() {
    let scratch = Scratch::new();
    let status = std::process::Command::new("sh")
        .args(["-c", "exec \"$0\" tokens add anna --role own --store \"$1\" > /dev/full"])
        .args([env!("CARGO_BIN_EXE_switchboard"), &scratch.path()])
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
    assert_eq!(scratch.store().tokens().unwrap(), []);
}
