//! `switchboard run` on a terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::agent_program::Place;

/// Runs the program on a terminal with typed lines; returns its exit code and the output.
fn typed(arguments: &[&str], lines: &[&str]) -> (i32, String) {
    let place = Place::new();
    typed_to(place.command(arguments), lines)
}

/// The same with any command.
pub(crate) fn typed_to(command: Command, lines: &[&str]) -> (i32, String) {
    typed_after(command, &[("", &lines.concat())])
}

/// The same; each text is typed when the given output appears.
pub(crate) fn typed_after(mut command: Command, steps: &[(&str, &str)]) -> (i32, String) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let path = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let open = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
    command.env("NO_COLOR", "1").env("TERM", "dumb").stdin(open()).stdout(open()).stderr(open());
    let mut child = command.spawn().unwrap();
    // Close our copies of the terminal, so that the output ends with the program.
    drop(command);
    let mut terminal = File::from(terminal);
    let mut steps = steps.iter().peekable();
    let mut shown = Vec::new();
    let mut piece = [0; 4096];
    loop {
        while let Some((_, text)) =
            steps.next_if(|(words, _)| String::from_utf8_lossy(&shown).contains(words))
        {
            terminal.write_all(text.as_bytes()).unwrap();
        }
        let Ok(length @ 1..) = terminal.read(&mut piece) else { break };
        shown.extend_from_slice(&piece[..length]);
    }
    (child.wait().unwrap().code().unwrap(), String::from_utf8_lossy(&shown).replace('\r', ""))
}

/// Removes white space, because messages are wrapped.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn a_form_is_filled_in_field_by_field() {
    for version in [&[][..], &["--protocol", "1"]] {
        let agent = [&["--", env!("CARGO_BIN_EXE_switchboard"), "demo-agent"], version].concat();
        let arguments = [&["run", "form", "--timeout", "50"], &*agent].concat();
        let lines = ["\n", "Ann\n", "1\n", "\n", "2\n", "0.5\n", "y\n", "Monday, 2\n"];
        let (code, shown) = typed(&arguments, &lines);
        assert_eq!(code, 0, "{shown}");
        for words in ["Who are you?", "this field is required", "[2] green", "at most 1", "sent"] {
            assert!(shown.contains(words), "{words} in {shown}");
        }
        let sent = r#"{"name":"Ann","colour":"red","size":5,"share":0.5,"ready":true,"days":["mo","tu"]}"#;
        assert!(in_one_line(&shown).contains(sent), "{shown}");
    }
}

#[test]
fn data_can_be_refused() {
    for (scenario, line, words) in [
        ("form", "/decline\n", "You would rather not say."),
        ("form", "/cancel\n", "No answer."),
        ("page", "no\n", "You would rather not say."),
        ("page", "yes\n", r#"You sent {"action":"accept"}"#),
    ] {
        let (code, shown) = typed(&["run", "demo", scenario, "--timeout", "50"], &[line]);
        assert_eq!(code, 0, "{shown}");
        assert!(in_one_line(&shown).contains(&in_one_line(words)), "{scenario} {line:?}: {shown}");
    }
}

#[test]
fn a_permission_is_asked_for() {
    for (line, code, words) in [("y\n", 0, "Then I go on."), ("2\n", 5, "Then I stop.")] {
        let (ended, shown) = typed(&["run", "demo", "ask", "--timeout", "50"], &["maybe\n", line]);
        assert_eq!(ended, code, "{shown}");
        assert!(shown.contains("please type the number of an option"), "{shown}");
        assert!(in_one_line(&shown).contains(&in_one_line(words)), "{shown}");
    }
}

#[test]
fn two_sub_agents_ask_at_once_and_each_is_named_with_its_question() {
    let (code, shown) = typed(&["run", "demo", "subagents", "--timeout", "50"], &["1\n", "y\n"]);
    assert_eq!(code, 0, "{shown}");
    let first = "sub-agent \"Explorer (Looks for the tests)\" asks:\n? Look into every folder?\n";
    let second = "sub-agent \"Writer\" asks:\n? Write notes.txt?\nNothing is written in truth.\n";
    let (first, second) = (shown.find(first).expect(&shown), shown.find(second).expect(&shown));
    assert!(first < second, "{shown}");
    // On a terminal, thoughts are shown below their agent.
    assert!(shown.contains("⤷ Explorer (Looks for the tests): at work\n    ← Find the tests.\n"), "{shown}");
    assert!(in_one_line(&shown).contains(&in_one_line("Tests have names that say so.")), "{shown}");
    assert!(shown.contains("  ⤷ Checker of Writer: at work\n    ← Check the notes.\n"), "{shown}");
}
