//! One attempt after the other to reach the server.

use std::time::Duration;

use switchboard_peer::Connected;
use switchboard_transport::{Remote, RemoteError, RemoteStream};
use tokio::time::Instant;

use super::{Arguments, failed, server};
use crate::outcome::CommandError;
use crate::standard_error;

/// The shortest and the longest time between two attempts.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// How long a server may take to let us in.
const PATIENCE: Duration = Duration::from_secs(20);

/// The server as it is reached now: the token may be another one next time.
pub(super) struct Server {
    pub(super) remote: Remote,
    pub(super) token: Option<String>,
}

/// Attempts to reach the server: what they have come to, and when the next one is due.
pub(super) struct Attempts<'a> {
    arguments: &'a Arguments,
    pause: Duration,
    /// The token of the last attempt.
    token: Option<String>,
    /// Since when there is no connection, and what was said of it.
    lost: Option<(Instant, String)>,
    /// The server has let us in once: so it is there, and what it has against us now may pass.
    was_in: bool,
    /// It was said that the token can be read on its way.
    has_warned: bool,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(arguments: &'a Arguments) -> Self {
        Attempts {
            arguments,
            pause: Duration::ZERO,
            token: None,
            lost: None,
            was_in: false,
            has_warned: false,
        }
    }

    /// The server, with the token of now.
    pub(super) fn server(&mut self) -> Result<Remote, CommandError> {
        let warns = !std::mem::replace(&mut self.has_warned, true);
        let Server { remote, token } = server(self.arguments, warns)?;
        self.token = token;
        Ok(remote)
    }

    /// How long to wait before the next attempt.
    pub(super) fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).clamp(SHORTEST, LONGEST);
        jittered(pause)
    }

    /// A connection that was lost has been of use: the next attempt need not wait for long.
    pub(super) fn was_useful(&mut self) {
        self.was_in = true;
        self.pause = SHORTEST;
    }

    /// There is a connection. Says so, where it was said that there was none.
    pub(super) fn succeeded(&mut self, how: Connected) {
        self.was_in = true;
        if let Some((since, _)) = self.lost.take() {
            let how = match how {
                Connected::Resumed => ", where it broke",
                Connected::Anew => "",
            };
            let seconds = since.elapsed().as_secs_f64();
            standard_error::say(format!("switchboard: connected again after {seconds:.1} s{how}"));
        }
    }

    /// An attempt has failed, or a connection is lost. An error where it is of no use to try on.
    pub(super) fn failed(&mut self, error: &RemoteError) -> Result<(), CommandError> {
        if let RemoteError::Refused { status, wants_token, .. } = error {
            // Also where the server has had too many wrong ones: it will not take this one later either.
            if *wants_token {
                // The hub may have been started anew, with a new token.
                let is_new = server(self.arguments, false).is_ok_and(|server| server.token != self.token);
                if !is_new {
                    return Err(failed(error));
                }
                self.pause = Duration::ZERO;
            }
            let may_pass = matches!(status.as_u16(), 401 | 408 | 425 | 429) || status.is_server_error();
            if !may_pass && !self.was_in {
                return Err(failed(error));
            }
        }
        if !self.was_in && self.arguments.no_wait {
            return Err(failed(error));
        }
        self.say_lost(error.to_string());
        Ok(())
    }

    /// What is needed for an attempt is not there now, such as the file with the token; it may come back.
    pub(super) fn unusable(&mut self, error: &CommandError) {
        self.say_lost(error.to_string());
    }

    /// Says that there is no connection, but not the same thing again and again.
    fn say_lost(&mut self, reason: String) {
        match &mut self.lost {
            Some((_, said)) if *said == reason => {}
            Some((_, said)) => {
                standard_error::say(format!("switchboard: {reason}; trying on"));
                *said = reason;
            }
            None => {
                standard_error::say(format!("switchboard: {reason}; trying again"));
                self.lost = Some((Instant::now(), reason));
            }
        }
    }
}

/// Lets one attempt take its time, but not for ever.
pub(super) async fn within_patience(
    attempt: impl Future<Output = Result<RemoteStream, RemoteError>>,
    remote: &Remote,
) -> Result<RemoteStream, RemoteError> {
    match tokio::time::timeout(PATIENCE, attempt).await {
        Ok(result) => result,
        Err(_) => Err(remote.no_answer(PATIENCE)),
    }
}

/// A time between the half and the whole of this one, so that many who were cut off do not come back at once.
fn jittered(pause: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without chance they come at once, which is no reason not to come.
    let _ = getrandom::fill(&mut bytes);
    let part = f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX);
    pause.mul_f64(0.5 + part / 2.0)
}
