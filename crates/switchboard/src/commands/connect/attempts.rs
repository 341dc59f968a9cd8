//! Connection attempts with backoff.

use std::time::Duration;

use switchboard_peer::Connected;
use switchboard_transport::{Remote, RemoteError, RemoteStream};
use tokio::time::Instant;

use super::{Arguments, failed, server};
use crate::outcome::CommandError;
use crate::standard_error;

/// Minimum and maximum delay between two attempts.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// Timeout of one attempt.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The server with its current token, which may change.
pub(super) struct Server {
    pub(super) remote: Remote,
    pub(super) token: Option<String>,
}

/// State of the connection attempts and the delay before the next one.
pub(super) struct Attempts<'a> {
    arguments: &'a Arguments,
    pause: Duration,
    /// The token of the last attempt.
    token: Option<String>,
    /// Time of the connection loss, and its reported reason.
    lost: Option<(Instant, String)>,
    /// Set after the first success: later refusals may be temporary.
    was_in: bool,
    /// Set after the warning that the token is sent unencrypted.
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

    /// Returns the server with the current token.
    pub(super) fn server(&mut self) -> Result<Remote, CommandError> {
        let warns = !std::mem::replace(&mut self.has_warned, true);
        let Server { remote, token } = server(self.arguments, warns)?;
        self.token = token;
        Ok(remote)
    }

    /// Returns the delay before the next attempt.
    pub(super) fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).clamp(SHORTEST, LONGEST);
        jittered(pause)
    }

    /// Resets the delay, because the lost connection transferred data.
    pub(super) fn was_useful(&mut self) {
        self.was_in = true;
        self.pause = SHORTEST;
    }

    /// Handles a new connection. Reports it if the loss was reported.
    pub(super) fn succeeded(&mut self, how: Connected) {
        self.was_in = true;
        if let Some((since, _)) = self.lost.take() {
            let how = match how {
                Connected::Resumed => ", session resumed",
                Connected::Anew => "",
            };
            let seconds = since.elapsed().as_secs_f64();
            standard_error::say(format!("switchboard: reconnected after {seconds:.1} s{how}"));
        }
    }

    /// Handles a failed attempt or a lost connection. Fails if retrying is useless.
    pub(super) fn failed(&mut self, error: &RemoteError) -> Result<(), CommandError> {
        if let RemoteError::Refused { status, wants_token, .. } = error {
            // Also if the server applies a rate limit: it will not accept this token later either.
            if *wants_token {
                // The hub may have been restarted with a new token.
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
        self.report_lost(error.to_string());
        Ok(())
    }

    /// Handles settings that are unusable now, such as a missing token file, which may come back.
    pub(super) fn unusable(&mut self, error: &CommandError) {
        self.report_lost(error.to_string());
    }

    /// Reports the loss, but not the same reason repeatedly.
    fn report_lost(&mut self, reason: String) {
        match &mut self.lost {
            Some((_, said)) if *said == reason => {}
            Some((_, said)) => {
                standard_error::say(format!("switchboard: {reason}; still retrying"));
                *said = reason;
            }
            None => {
                standard_error::say(format!("switchboard: {reason}; retrying"));
                self.lost = Some((Instant::now(), reason));
            }
        }
    }
}

/// Limits the duration of one attempt.
pub(super) async fn within_patience(
    attempt: impl Future<Output = Result<RemoteStream, RemoteError>>,
    remote: &Remote,
) -> Result<RemoteStream, RemoteError> {
    match tokio::time::timeout(TIMEOUT, attempt).await {
        Ok(result) => result,
        Err(_) => Err(remote.no_answer(TIMEOUT)),
    }
}

/// Returns a random delay between half and all of this one, so that many clients do not reconnect at once.
fn jittered(pause: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without randomness they reconnect at once, which is acceptable.
    let _ = getrandom::fill(&mut bytes);
    let part = f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX);
    pause.mul_f64(0.5 + part / 2.0)
}
