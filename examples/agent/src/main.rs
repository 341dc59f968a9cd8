//! An agent that edits files. Told `notes.txt: buy milk`, it appends that line to the file: it shows the change as a diff,
//! asks, and makes it.
//!
//! With `--version-1` it speaks version 1 of the protocol alone, as most agents do: something to try a bridge with.

use std::path::{Component, Path, PathBuf};

use switchboard_peer::diff::{BuildOptions, build_from_bytes};
use switchboard_peer::{
    AbsolutePath, Agent, Connection, Error, Introduction, Turn, Versions, agent_connection_options,
    serve_versions, v2,
};

struct Editor;

impl Agent for Editor {
    fn introduce(&self) -> Introduction {
        Introduction::new("example-editor", env!("CARGO_PKG_VERSION"))
    }

    async fn prompt(&self, turn: &Turn) -> Result<v2::StopReason, Error> {
        let prompt = turn.text();
        let Some((name, line)) = prompt.split_once(": ") else {
            turn.say("Write `FILE: TEXT`, and I append the text to the file.").await?;
            return Ok(v2::StopReason::EndTurn);
        };
        let path = file_of_session(turn, name)?;
        let old = std::fs::read(&path).ok();
        let mut new = old.clone().unwrap_or_default();
        new.extend_from_slice(line.as_bytes());
        new.push(b'\n');

        turn.say(&format!("I append a line to {name}.")).await?;
        let location = path.to_str().ok_or_else(|| Error::failed("the path is no text"))?;
        let location = AbsolutePath::parse(location.to_owned()).map_err(Error::failed)?;
        let call = turn
            .tool_call(&format!("Edit {name}"))
            .kind(v2::ToolKind::Edit)
            .locations([v2::ToolCallLocation::new(location).line(line_count(&new))])
            .announce()
            .await?;
        let built = build_from_bytes(&path, old.as_deref(), Some(&new), &BuildOptions::default());
        call.diff(&built.diff).await?;

        // The question is about the call, and so about the diff in it.
        if turn.ask(&format!("Change {name}?")).about(&call).ask().await?.is_allowed() {
            call.begin().await?;
            match std::fs::write(&path, &new) {
                Ok(()) => call.complete().await?,
                Err(error) => call.fail(&error.to_string()).await?,
            }
        } else {
            call.fail("The user did not want that.").await?;
        }
        Ok(v2::StopReason::EndTurn)
    }
}

/// The file of that name in the session's folder, and nowhere else.
fn file_of_session(turn: &Turn, name: &str) -> Result<PathBuf, Error> {
    match Path::new(name).components().collect::<Vec<_>>()[..] {
        [Component::Normal(name)] => Ok(Path::new(turn.session().cwd()).join(name)),
        _ => Err(Error::failed(format!("`{name}` is not the name of a file in the session's folder"))),
    }
}

fn line_count(content: &[u8]) -> u32 {
    let lines = content.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(lines).unwrap_or(u32::MAX)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let is_old = std::env::args().any(|argument| argument == "--version-1");
    let versions = if is_old { Versions::One } else { Versions::Both };
    let connection = Connection::new(tokio::io::stdin(), tokio::io::stdout(), agent_connection_options());
    serve_versions(Editor, connection, versions).await
}
