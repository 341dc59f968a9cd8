//! Terminals that an agent runs and the client shows.

use std::sync::Arc;

use switchboard_acp::{AbsolutePath, Base64, v2};

use super::sending::Emitter;
use crate::Error;

/// A running terminal. It ends with [`Terminal::exit`]; a terminal that is still open at the end of the turn
/// is closed with it.
#[derive(Debug)]
pub struct Terminal {
    emitter: Emitter,
    id: Arc<str>,
}

impl Terminal {
    pub(super) async fn open(emitter: Emitter, command: &str, cwd: &str) -> Result<Self, Error> {
        let id = emitter.core.make_id("terminal");
        let update = v2::TerminalUpdate::new(&*id)
            .command(command)
            .cwd(AbsolutePath::parse(cwd).map_err(Error::rule)?);
        emitter.say(update).await?;
        Ok(Terminal { emitter, id })
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Appends output, which may be split anywhere, even inside a character.
    pub async fn output(&self, bytes: &[u8]) -> Result<(), Error> {
        let chunk = v2::TerminalOutputChunk::new(&*self.id, Base64::from_bytes(bytes));
        self.emitter.say(v2::SessionUpdate::TerminalOutputChunk(chunk)).await
    }

    /// Reports the exit of the program with a code.
    pub async fn exit(self, code: i64) -> Result<(), Error> {
        self.end(v2::TerminalExitStatus { exit_code: Some(code), ..v2::TerminalExitStatus::new() }).await
    }

    /// Reports the end of the program by a signal.
    pub async fn killed(self, signal: &str) -> Result<(), Error> {
        self.end(v2::TerminalExitStatus { signal: Some(signal.into()), ..v2::TerminalExitStatus::new() })
            .await
    }

    async fn end(&self, status: v2::TerminalExitStatus<'_>) -> Result<(), Error> {
        self.emitter.say(v2::TerminalUpdate::new(&*self.id).exit_status(status)).await
    }
}
