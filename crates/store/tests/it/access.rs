//! Tokens, shares and hub sessions.

use std::path::Path;
use std::process::Command;

use switchboard_session::Settlement;
use switchboard_store::{Channel, Filter, Hosted, Record, Role, Search, Store, StoreError};
use switchboard_testkit::{Mount, run_on_mount};

use crate::support::{Scratch, chunk, records, scratch};

fn hosted(id: &str) -> Hosted {
    Hosted {
        id: id.to_owned(),
        agent: "claude".to_owned(),
        agent_session: "agents-own".to_owned(),
        owner: "anna".to_owned(),
        folder: "/project".to_owned(),
        closed: false,
    }
}

/// Creates a hub session with one record and returns its id.
fn begin_hosted(scratch: &Scratch) -> String {
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    recorder.put(chunk("m", "hosted")).unwrap();
    scratch.store.host(&hosted(&id)).unwrap();
    recorder.complete().unwrap();
    id
}

#[test]
fn a_token_is_found_by_its_text_until_it_is_revoked() {
    let store = scratch();
    let (other, store) = (store.other_reader(), store.store);
    let before = other.access_changed().unwrap();
    let text = store.add_token("anna", Role::Answer, true).unwrap();
    assert!(text.starts_with("sb_") && text.len() == 46, "{text}");
    let token = other.find_token(&text).unwrap().unwrap();
    assert_eq!((&*token.name, token.role, token.all), ("anna", Role::Answer, true));
    assert_eq!(store.tokens().unwrap(), [token]);
    let added = other.access_changed().unwrap();
    assert_ne!(added, before);
    // Variations of the token text are not accepted.
    let (head, last) = text.split_at(45);
    let near = format!("{head}{}", if last == "A" { "B" } else { "A" });
    for wrong in ["", "sb_", &text[3..], &near, &text.to_uppercase(), &format!("{text} "), &"sb_é".repeat(10)]
    {
        assert_eq!(store.find_token(wrong).unwrap(), None, "{wrong}");
    }
    store.revoke_token("anna").unwrap();
    assert_eq!(other.find_token(&text).unwrap(), None);
    assert_ne!(other.access_changed().unwrap(), added);
    assert_eq!(store.tokens().unwrap(), []);
    assert!(matches!(store.revoke_token("anna"), Err(StoreError::UnknownToken { name }) if name == "anna"));
}

#[test]
fn names_are_given_once_and_can_stand_anywhere() {
    let Scratch { store, folder: _folder } = scratch();
    for name in ["a", "Änne", "ci.build-2", "anna@phone", &"x".repeat(64)] {
        store.add_token(name, Role::View, false).unwrap();
        let again = store.add_token(name, Role::Admin, true);
        assert!(matches!(&again, Err(StoreError::TokenTaken { name: taken }) if taken == name), "{again:?}");
    }
    let changes = store.access_changed().unwrap();
    for name in ["", " ", "a b", "-a", "a\n", "a\u{1b}[2J", "a/b", "\"", &"x".repeat(65)] {
        let refused = store.add_token(name, Role::View, false);
        assert!(matches!(refused, Err(StoreError::TokenName { .. })), "{name:?} {refused:?}");
    }
    assert!(store.tokens().unwrap().iter().all(|token| token.role == Role::View && !token.all));
    assert_eq!(store.access_changed().unwrap(), changes, "what is refused changes nothing");
}

#[test]
fn roles_are_in_order_and_have_names() {
    assert!(Role::View < Role::Answer && Role::Answer < Role::Admin);
    for role in Role::ALL {
        assert_eq!(Role::parse(role.name()), Some(role));
    }
    assert_eq!((Role::parse("root"), Role::parse("View")), (None, None));
}

/// Returns true if a text occurs in any file below a folder.
fn is_found_in(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return is_found_in(&path, text);
        }
        let bytes = std::fs::read(&path).unwrap();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

#[test]
fn the_text_of_a_token_is_never_on_the_disk() {
    let Scratch { store, folder } = scratch();
    let text = store.add_token("sought-after", Role::Admin, false).unwrap();
    assert!(
        folder.path().join("store.sqlite3-wal").metadata().unwrap().len() > 0,
        "the log is looked at, too"
    );
    assert!(is_found_in(folder.path(), "sought-after"), "what is written would be found");
    assert!(!is_found_in(folder.path(), &text[3..]));
    assert!(store.find_token(&text).unwrap().is_some());
    drop(store);
    assert!(is_found_in(folder.path(), "sought-after") && !is_found_in(folder.path(), &text[3..]));
}

#[test]
fn a_role_of_a_later_program_allows_nothing() {
    let Scratch { store, folder } = scratch();
    let text = store.add_token("anna", Role::Admin, true).unwrap();
    let database = rusqlite::Connection::open(folder.path().join("store.sqlite3")).unwrap();
    database.execute("UPDATE tokens SET role = 'audit'", []).unwrap();
    assert_eq!((store.find_token(&text).unwrap(), store.tokens().unwrap()), (None, vec![]));
    // The name is still taken, and the token can be revoked.
    assert!(matches!(store.add_token("anna", Role::View, false), Err(StoreError::TokenTaken { .. })));
    store.revoke_token("anna").unwrap();
}

#[test]
fn sessions_are_shared_and_taken_back() {
    let scratch = scratch();
    let (one, two) = (begin_hosted(&scratch), begin_hosted(&scratch));
    let store = &scratch.store;
    for name in ["anna", "ben"] {
        store.add_token(name, Role::View, false).unwrap();
    }
    // A prefix of an id is accepted.
    assert!(store.share(&one[..one.len() - 1], "ben").unwrap());
    assert!(store.share(&one, "anna").unwrap() && store.share(&two, "anna").unwrap());
    let changes = store.access_changed().unwrap();
    assert!(!store.share(&one, "anna").unwrap());
    assert_eq!(store.access_changed().unwrap(), changes);
    assert_eq!(store.shares(&one).unwrap(), ["anna", "ben"]);
    assert_eq!(store.shared_with("anna").unwrap().len(), 2);
    assert!(store.unshare(&one, "anna").unwrap() && !store.unshare(&one, "anna").unwrap());
    assert_ne!(store.access_changed().unwrap(), changes);
    assert_eq!(store.shared_with("anna").unwrap(), [two.as_str()]);
    // A new token with a revoked token's name gets none of its shares.
    store.revoke_token("anna").unwrap();
    store.add_token("anna", Role::View, false).unwrap();
    assert_eq!((store.shared_with("anna").unwrap(), store.shares(&two).unwrap()), (vec![], vec![]));
}

#[test]
fn invalid_shares_are_refused() {
    let scratch = scratch();
    let id = begin_hosted(&scratch);
    let mut recorder = scratch.begin();
    let plain = recorder.id().to_owned();
    recorder.put(chunk("m", "plain")).unwrap();
    recorder.complete().unwrap();
    let store = &scratch.store;
    store.add_token("anna", Role::View, false).unwrap();
    assert!(matches!(store.share(&id, "ben"), Err(StoreError::UnknownToken { .. })));
    assert!(matches!(store.unshare(&id, "ben"), Err(StoreError::UnknownToken { .. })));
    assert!(matches!(store.share("nothing", "anna"), Err(StoreError::UnknownSession { .. })));
    assert!(
        matches!(store.share(&plain, "anna"), Err(StoreError::NotHosted { session }) if session == plain)
    );
    let reader = scratch.other_reader();
    assert!(matches!(reader.share(&id, "anna"), Err(StoreError::ReadOnly { .. })));
    assert!(matches!(reader.add_token("x", Role::View, false), Err(StoreError::ReadOnly { .. })));
}

#[test]
fn a_hosted_session_is_found_again_as_it_was_last() {
    let scratch = scratch();
    let (one, two) = (begin_hosted(&scratch), begin_hosted(&scratch));
    let changed = Hosted { closed: true, agent_session: "another".into(), ..hosted(&one) };
    scratch.store.host(&changed).unwrap();
    let Scratch { store, folder } = scratch;
    drop(store);
    let store = Store::open(folder.path().join("store.sqlite3")).unwrap();
    assert_eq!(store.hosted(&one).unwrap(), Some(changed.clone()));
    let mut expected = vec![changed, hosted(&two)];
    expected.sort_by(|one, two| one.id.cmp(&two.id));
    assert_eq!(store.all_hosted().unwrap(), expected);
    assert_eq!(store.hosted("nothing").unwrap(), None);
    assert!(matches!(store.host(&hosted("nothing")), Err(StoreError::UnknownSession { .. })));
}

#[test]
fn a_deleted_session_is_neither_hosted_nor_shared() {
    let scratch = scratch();
    let (gone, stays) = (begin_hosted(&scratch), begin_hosted(&scratch));
    let store = &scratch.store;
    store.add_token("anna", Role::View, false).unwrap();
    for id in [&gone, &stays] {
        store.share(id, "anna").unwrap();
    }
    let changes = store.access_changed().unwrap();
    store.delete(&gone).unwrap();
    assert_ne!(store.access_changed().unwrap(), changes);
    assert_eq!((store.hosted(&gone).unwrap(), store.shares(&gone).unwrap()), (None, vec![]));
    assert_eq!(store.shared_with("anna").unwrap(), [stays.as_str()]);
    assert_eq!(store.all_hosted().unwrap(), [hosted(&stays)]);
    // Also if the hub has not noticed the deletion yet.
    assert!(matches!(store.host(&hosted(&gone)), Err(StoreError::UnknownSession { .. })));
}

#[test]
fn hub_records_are_kept_but_not_folded_searched_or_counted() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    recorder.put(chunk("m", "the reply")).unwrap();
    let note = r#"{"hub":"answered","request":1,"by":{"token":"unmistakable"}}"#;
    recorder.put(Record::new(Channel::Hub, note)).unwrap();
    recorder.complete().unwrap();
    let kept = records(&scratch.store, &id);
    assert_eq!((kept[1].channel, &*kept[1].bytes), (Channel::Hub, note.as_bytes()));
    assert!(!kept[1].channel.is_message());
    let find = |query: &str| {
        scratch.store.search(&Search { query: query.into(), ..Search::default() }).unwrap().len()
    };
    assert_eq!((find("reply"), find("unmistakable")), (1, 0));
    assert_eq!(scratch.store.state(&id, None).unwrap().conversation.session(Some("s-1")).unwrap().len(), 1);
}

/// Records on channels of a later version.
#[test]
fn unknown_channels_are_kept_in_journals_and_blocks() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    let mut expected = Vec::new();
    for (sequence, code) in [8_u8, 9, 100, 127].into_iter().enumerate() {
        let record = Record::new(Channel::Unknown(code), format!("of channel {code}"));
        recorder.put(record.clone()).unwrap();
        expected.push(Record { sequence: sequence as u64, ..record });
    }
    let last = Record { sequence: 4, ..chunk("m", "known") };
    // The record is in the journal when this returns.
    let _ = recorder.append(last.clone()).unwrap();
    expected.push(last);
    assert_eq!(records(&scratch.other_reader(), &id), expected);
    recorder.complete().unwrap();
    assert!(!scratch.folder.path().join(format!("store.sqlite3-writers/{id}.0")).exists());
    assert_eq!(records(&scratch.store, &id), expected);
}

/// Converts a store to version 2.
fn take_back_to_version_2(path: &Path) {
    let database = rusqlite::Connection::open(path).unwrap();
    database
        .execute_batch(
            "DROP TABLE hosted; DROP TABLE tokens; DROP TABLE shares; DROP TABLE access;
             PRAGMA user_version = 2;",
        )
        .unwrap();
}

#[test]
fn a_store_of_version_2_gets_tokens() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    recorder.put(chunk("m", "from before")).unwrap();
    recorder.complete().unwrap();
    let Scratch { store, folder } = scratch;
    drop(store);
    let path = folder.path().join("store.sqlite3");
    take_back_to_version_2(&path);
    // Opening it for reading migrates it too.
    let reader = Store::open_read_only(&path).unwrap();
    assert_eq!((reader.tokens().unwrap(), reader.access_changed().unwrap()), (vec![], 0));
    let store = Store::open(&path).unwrap();
    assert_eq!(records(&store, &id).len(), 1);
    store.host(&hosted(&id)).unwrap();
    let text = store.add_token("anna", Role::View, false).unwrap();
    store.share(&id, "anna").unwrap();
    assert!(reader.find_token(&text).unwrap().is_some());
    drop((store, reader));
    let store = Store::open(&path).unwrap();
    assert_eq!(store.shares(&id).unwrap(), ["anna"]);
    assert_eq!(store.search(&Search { query: "before".into(), ..Search::default() }).unwrap().len(), 1);
}

/// Environment variable with the store of the child, which is read-only.
const READ_ONLY: &str = "SWITCHBOARD_STORE_READ_ONLY_TEST";

/// The child process: reads. Does nothing in the test run itself.
#[test]
fn child_that_may_only_read() {
    let Ok(folder) = std::env::var(READ_ONLY) else { return };
    let path = Path::new(&folder).join("store.sqlite3");
    assert!(matches!(Store::open(&path), Err(StoreError::ReadOnly { .. } | StoreError::Open { .. })));
    let store = Store::open_read_only(&path).unwrap();
    let sessions = store.sessions(&Filter::default()).unwrap();
    assert_eq!(records(&store, &sessions[0].id).len(), 1);
    assert_eq!((store.tokens().unwrap(), store.all_hosted().unwrap()), (vec![], vec![]));
    assert_eq!(store.find_token(&format!("sb_{}", "A".repeat(43))).unwrap(), None);
    println!("read without tokens");
}

#[test]
fn a_store_of_version_2_that_cannot_be_written_is_read() {
    let scratch = scratch();
    begin_hosted(&scratch);
    let Scratch { store, folder } = scratch;
    drop(store);
    let path = folder.path().join("store.sqlite3");
    take_back_to_version_2(&path);
    // Also for root, whom file modes do not stop from writing.
    let (test, done) = ("access::child_that_may_only_read", "read without tokens");
    run_on_mount(Mount::ReadOnly, folder.path(), READ_ONLY, test, done);
}

/// Environment variable with the store of the child and its action.
const CHILD: &str = "SWITCHBOARD_STORE_ACCESS_TEST";

/// The child process: stands for the command line of another process. Does nothing in the test run itself.
#[test]
fn child_that_changes_tokens() {
    let Ok(words) = std::env::var(CHILD) else { return };
    let [path, what] = *words.split('\n').collect::<Vec<_>>() else { panic!("{words}") };
    let store = Store::open(path).unwrap();
    match what {
        "add" => println!("token={}", store.add_token("anna", Role::View, false).unwrap()),
        "share" => {
            for session in store.all_hosted().unwrap() {
                store.share(&session.id, "anna").unwrap();
            }
        }
        _ => store.revoke_token("anna").unwrap(),
    }
}

#[test]
fn a_running_hub_sees_at_once_what_another_process_changes() {
    let scratch = scratch();
    // Recording continues throughout.
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    recorder.put(chunk("m", "first")).unwrap();
    scratch.store.host(&hosted(&id)).unwrap();
    let path = scratch.folder.path().join("store.sqlite3");
    let mut run = |what: &str| {
        let before = scratch.store.access_changed().unwrap();
        let _ = recorder.append(chunk("m", what)).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "access::child_that_changes_tokens", "--nocapture"])
            .env(CHILD, format!("{}\n{what}", path.display()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert_ne!(scratch.store.access_changed().unwrap(), before, "{what}");
        said
    };
    let said = run("add");
    let text = said.lines().find_map(|line| Some(line.split_once("token=")?.1.to_owned())).unwrap();
    assert_eq!(scratch.store.find_token(&text).unwrap().unwrap().name, "anna");
    run("share");
    assert_eq!(scratch.store.shares(&id).unwrap(), ["anna"]);
    run("revoke");
    assert_eq!(scratch.store.find_token(&text).unwrap(), None);
    assert_eq!(scratch.store.shares(&id).unwrap(), Vec::<String>::new());
    recorder.complete().unwrap();
    assert_eq!(records(&scratch.store, &id).len(), 4);
}

fn question(id: u64) -> Record {
    let params = r#"{"sessionId":"s-1","title":"Write?","options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}"#;
    Record::new(
        Channel::ToClient,
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{params}}}"#),
    )
}

fn answer(id: u64) -> Record {
    let result = r#"{"outcome":{"outcome":"selected","optionId":"y"}}"#;
    Record::new(Channel::ToAgent, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

/// Returns the outcome of each question of a state and its author.
fn settled(state: &switchboard_store::State) -> Vec<String> {
    let session = state.conversation.session(Some("s-1")).unwrap();
    let in_words = |settlement: &Settlement<_>| match settlement {
        Settlement::Pending => "pending".to_owned(),
        Settlement::Answered { by, .. } => format!("answered by {by}"),
        Settlement::Cancelled { by, .. } => format!("cancelled by {by}"),
        Settlement::NotAnApproval { by, .. } => format!("not approved by {by}"),
    };
    session.permissions().map(|permission| in_words(permission.settlement())).collect()
}

/// Includes questions before a checkpoint whose ids are reused.
#[test]
fn the_author_of_an_answer_is_in_the_state_and_in_every_window() {
    let scratch = scratch();
    let mut recorder = scratch.begin();
    let id = recorder.id().to_owned();
    let note = |text: &str| Record::new(Channel::Hub, text);
    let answered = |by: &str| note(&format!(r#"{{"hub":"answered","request":7,"by":{by},"outcome":{{}}}}"#));
    for by in [r#"{"token":"anna","client":"zed","version":"1.2"}"#, r#"{"token":"ben"}"#] {
        for record in [question(7), answered(by), answer(7)] {
            recorder.put(record).unwrap();
        }
    }
    // Without a note, with a note for another question, and with several invalid ones.
    recorder.put(question(8)).unwrap();
    for other in ["", "[]", "{}", r#"{"hub":1,"request":8}"#, r#"{"hub":"answered","request":8}"#] {
        recorder.put(note(other)).unwrap();
    }
    recorder.put(note(r#"{"hub":"answered","request":9,"by":{"token":"carl"}}"#)).unwrap();
    recorder.put(answer(8)).unwrap();
    for record in [question(9), note(r#"{"hub":"unanswered","request":9,"reason":"the agent ended"}"#)] {
        recorder.put(record).unwrap();
    }
    recorder.put(Record::new(Channel::Hub, [0xff, 0xfe])).unwrap();
    let expected = [
        "answered by anna (zed 1.2)",
        "answered by ben",
        "answered by client",
        "cancelled by hub (the agent ended)",
    ];
    for number in 0..20_000 {
        recorder
            .put(chunk(&format!("m{number}"), "some more words to make a checkpoint worthwhile"))
            .unwrap();
    }
    recorder.complete().unwrap();
    scratch.store.catch_up().unwrap();
    let database = rusqlite::Connection::open(scratch.folder.path().join("store.sqlite3")).unwrap();
    let checkpoints: i64 =
        database.query_row("SELECT count(*) FROM checkpoints", [], |row| row.get(0)).unwrap();
    assert!(checkpoints > 1, "{checkpoints}");
    assert_eq!(settled(&scratch.store.state(&id, None).unwrap()), expected);
    let window = scratch.store.window(&id, None, 3).unwrap();
    assert!(window.hidden[0] > 10_000, "{:?}", window.hidden);
    assert_eq!(settled(&window), expected);
    assert_eq!(settled(&scratch.store.state(&id, Some(1)).unwrap()), ["pending"]);
}

#[test]
fn a_token_of_an_older_store_with_the_role_own_is_an_administrator() {
    let scratch = scratch();
    let text = scratch.store.add_token("anna", Role::Admin, false).unwrap();
    let database = rusqlite::Connection::open(scratch.store.path()).unwrap();
    let changed = database.execute("UPDATE tokens SET role = 'own' WHERE name = 'anna'", []).unwrap();
    assert_eq!(changed, 1);
    assert_eq!(scratch.store.find_token(&text).unwrap().unwrap().role, Role::Admin);
    assert_eq!(scratch.store.tokens().unwrap()[0].role.name(), "admin");
}

#[test]
fn tokens_that_follow_each_other_under_one_name_have_different_creation_times() {
    let scratch = scratch();
    let mut last = 0;
    for _ in 0..50 {
        scratch.store.add_token("anna", Role::Use, false).unwrap();
        let made = scratch.store.tokens().unwrap()[0].made.0;
        assert!(made > last, "{made} after {last}");
        last = made;
        scratch.store.revoke_token("anna").unwrap();
    }
    // Also if the clock goes back: the counter keeps the latest time.
    let ahead = last + 1_000_000;
    let database = rusqlite::Connection::open(scratch.store.path()).unwrap();
    database.execute("UPDATE access SET changes = ?1", [ahead]).unwrap();
    scratch.store.add_token("anna", Role::Use, false).unwrap();
    assert_eq!(scratch.store.tokens().unwrap()[0].made.0, ahead + 1);
}

#[test]
fn a_session_is_shared_with_the_token_that_started_it_and_with_no_later_one_of_the_name() {
    let scratch = scratch();
    let store = &scratch.store;
    store.add_token("anna", Role::Use, false).unwrap();
    let made = store.tokens().unwrap()[0].made;
    let begin = |made| {
        let recorder = scratch.begin();
        let id = recorder.id().to_owned();
        store.host_started(&hosted(&id), Some(("anna", made))).unwrap();
        recorder.complete().unwrap();
        id
    };
    let started = begin(made);
    let access = store.token_access().unwrap();
    assert_eq!((&*access[0].token.name, &access[0].sessions), ("anna", &vec![started.clone()]));
    store.revoke_token("anna").unwrap();
    store.add_token("anna", Role::Use, false).unwrap();
    assert_eq!(store.shared_with("anna").unwrap(), [""; 0]);
    // A session that the first token was starting when it was revoked.
    begin(made);
    assert_eq!(store.shared_with("anna").unwrap(), [""; 0]);
}
