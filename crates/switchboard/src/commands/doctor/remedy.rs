//! Remedies for agents that do not start, by the cause that can be seen from outside: the program's file, the interpreter
//! that its first line names, the error.

use std::path::Path;

use switchboard_acp::rpc::codes;
use switchboard_peer::Error as PeerError;
use switchboard_transport::{Error, Program, Remote};

use crate::agents::KnownAgent;
use crate::handshake;

/// The longest first line that is read of a script.
const MAX_FIRST_LINE: usize = 256;

/// Returns the remedy for a program that cannot be found or started.
pub(super) fn of_missing(error: &Error, install: &str) -> String {
    match error {
        Error::ProgramNotFound { not_executable: Some(path), .. } => {
            format!("make it executable: chmod +x {}", path.display())
        }
        Error::ProgramNotStarted { path, .. } => of_interpreter(path)
            .unwrap_or_else(|| format!("run {} by hand to see the reason", path.display())),
        _ => install.to_owned(),
    }
}

/// Returns the remedy for an agent that was started and did not complete the handshake.
pub(super) fn of_handshake(
    error: &PeerError,
    command: &str,
    program: &Program,
    known: Option<&KnownAgent>,
) -> String {
    if Remote::is_address(command) {
        return "check the address and the token, and that the server is running".to_owned();
    }
    match error {
        PeerError::UnknownVersion(version) => {
            return format!(
                "update Switchboard, which knows versions 1 and 2 and not {version}, or use an older agent"
            );
        }
        PeerError::NotInitialized(refusal) if refusal.code == codes::UNSUPPORTED_PROTOCOL_VERSION => {
            return "update Switchboard, which knows versions 1 and 2, or use another version of the agent"
                .to_owned();
        }
        _ => {}
    }
    if let Some(remedy) = program.locate().ok().and_then(|path| of_interpreter(&path)) {
        return remedy;
    }
    if handshake::is_too_late(error) {
        return "check that the command starts an ACP agent and not its terminal program; --timeout gives it more time"
            .to_owned();
    }
    match known {
        Some(known) => {
            format!("run its command by hand to see the reason; to install it again: {}", known.install)
        }
        None => "run its command by hand to see the reason; it may need an option to speak ACP".to_owned(),
    }
}

/// Returns the remedy for a script whose interpreter is missing, by the script's first line.
fn of_interpreter(path: &Path) -> Option<String> {
    let line = first_line(path)?;
    let mut words = line.strip_prefix("#!")?.split_whitespace();
    let interpreter = words.next()?;
    if !Path::new(interpreter).exists() {
        return Some(format!(
            "the first line of {} names {interpreter}, which does not exist: install it or change the line",
            path.display()
        ));
    }
    if !interpreter.ends_with("/env") {
        return None;
    }
    let program = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    if Program::new(program).locate().is_ok() {
        return None;
    }
    Some(match program {
        "node" => "install Node.js, or put `node` on the PATH: the agent is a Node.js program".to_owned(),
        other => format!("install `{other}`, or put it on the PATH: the agent is a program for it"),
    })
}

/// Returns the first line of a file, if it is text.
fn first_line(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_FIRST_LINE as u64).read_to_end(&mut bytes).ok()?;
    let line = bytes.split(|byte| *byte == b'\n').next()?;
    String::from_utf8(line.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interpreter_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let script = |text: &str| {
            let path = folder.path().join("agent");
            std::fs::write(&path, text).unwrap();
            of_interpreter(&path)
        };
        assert!(
            script("#!/no/such/python3 -u\n").unwrap().contains("/no/such/python3, which does not exist")
        );
        assert!(
            script("#!/usr/bin/env -S no-such-runtime --flag\n")
                .unwrap()
                .contains("install `no-such-runtime`")
        );
        for fine in ["#!/bin/sh\n", "#!/usr/bin/env sh\n", "\u{7f}ELF", "", "#!\n"] {
            assert_eq!(script(fine), None, "{fine:?}");
        }
    }
}
