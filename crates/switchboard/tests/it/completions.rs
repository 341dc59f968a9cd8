//! Completions and manual pages.

use std::process::Command;

use crate::agent_program::Place;
use crate::program::switchboard;

#[test]
fn each_shell_gets_completions_that_name_every_command() {
    let commands = ["agents", "bridge", "doctor", "open", "run", "serve", "sessions"];
    for (shell, check) in [("bash", Some("bash")), ("zsh", None), ("fish", None)] {
        let run = switchboard(&["completions", shell], b"");
        assert_eq!(run.code, 0, "{}", run.stderr);
        for command in commands {
            assert!(run.stdout.contains(command), "{command} for {shell}");
        }
        let Some(program) = check else { continue };
        let place = Place::new();
        place.write("work/completions", &run.stdout);
        let script = "source ./completions && COMP_WORDS=(switchboard doc) COMP_CWORD=1 && _switchboard switchboard doc switchboard && echo \"${COMPREPLY[@]}\"";
        let output = Command::new(program).args(["-c", script]).current_dir(place.work()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "doctor\n", "{output:?}");
    }
    assert_eq!(switchboard(&["completions", "tcsh"], b"").code, 2);
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let place = Place::new();
    let run = place.run(&["man", "pages"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let page = |name: &str| std::fs::read_to_string(place.work().join("pages").join(name)).unwrap();
    assert!(page("switchboard.1").contains("switchboard\\-doctor(1)"), "{}", page("switchboard.1"));
    assert!(page("switchboard-run.1").contains("\\-\\-handshake\\-timeout"));
    assert!(page("switchboard-agents-add.1").contains("\\-\\-replace"));
    place.write("work/file", "");
    let run = place.run(&["man", "file"]);
    assert!(run.code == 1 && run.stderr.contains("cannot write to file"), "{}", run.stderr);
}
