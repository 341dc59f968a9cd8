//! The connection of an editor to a hub: it is restored whenever it breaks, unnoticed by the editor.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use switchboard_acp::detect::Handshake;
use switchboard_acp::extensions::LOSS_METHOD;
use switchboard_acp::rpc::{Message, Outline};
use switchboard_acp::{Correlator, Raw, Wire, WireFormat};
use switchboard_bridge::{BridgeOptions, Driver, Loss, Outputs, Port, Side, Version};
use switchboard_peer::{Connected, ResumableClient, ResumableOutput};
use switchboard_transport::{
    Remote, RemoteError, RemoteStream, SharedText, invalid_line_answer, unique_salt,
};
use tokio::sync::Notify;

use super::attempts::{Attempts, within_patience};
use super::pipe::{Link, LinkEnd, LinkLines, Pipe};
use crate::outbound_queue::{OutboundLine, OutboundQueue};
use crate::outcome::{CommandError, Outcome};
use crate::{losses, standard_error, stdio};

/// Time for the hub's responses after the editor has closed its input: the editor may be a script that still
/// reads.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Maximum wait at the end for an editor that does not read.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of tracked pending requests.
const UNANSWERED: usize = 10_000;

/// The connection of an editor to a hub.
pub(super) struct HubLink {
    client: ResumableClient,
    /// Translator for a version 1 editor: the hub gets version 2.
    driver: Option<Driver>,
    /// Lines of the translator that are not forwarded yet.
    translated: Vec<(Side, String)>,
    link: Option<Link>,
    taken_up: Arc<Notify>,
    /// The hub's id of the current or last connection.
    connection_id: Option<String>,
    unanswered: Correlator<()>,
    /// Set if the hub refuses to continue on this connection.
    is_refused: bool,
    /// A connection without any received data.
    is_new: Option<Connected>,
    /// Set if this connection delivered a line for the editor.
    is_useful: bool,
}

type Attempt = Pin<Box<dyn Future<Output = Result<(RemoteStream, Connected), RemoteError>> + Send>>;

impl HubLink {
    /// Creates a link for an editor with this handshake.
    pub(super) fn new(initialize: &str) -> Result<Self, CommandError> {
        let mut seed = [0; 16];
        getrandom::fill(&mut seed)
            .map_err(|error| CommandError::failed(format!("this machine has no random numbers: {error}")))?;
        let (name, mut count) = (u128::from_le_bytes(seed), 0_u64);
        let mut client = ResumableClient::new(move || {
            count += 1;
            format!("{name:032x}-{count}")
        });
        let version = match Message::decode(initialize, WireFormat::Any) {
            Ok(Message::Request(request)) => Handshake::of_request(request.params.as_ref()).version,
            _ => Version::V2,
        };
        let options = BridgeOptions {
            is_shared: true,
            id_salt: unique_salt(),
            ..BridgeOptions::between(Version::V1, Version::V2)
        };
        let driver = (version == Version::V1).then(|| Driver::new(options));
        if driver.is_some() {
            client = client.without_cursors();
        }
        Ok(HubLink {
            client,
            driver,
            translated: Vec::new(),
            link: None,
            taken_up: Arc::default(),
            connection_id: None,
            unanswered: Correlator::new(UNANSWERED),
            is_refused: false,
            is_new: None,
            is_useful: false,
        })
    }

    /// Runs until the editor has ended, or the hub refuses the connection.
    pub(super) async fn run(
        mut self,
        pipe: &mut Pipe,
        attempts: &mut Attempts<'_>,
        initialize: &SharedText,
    ) -> Result<Outcome, CommandError> {
        self.take_from_editor(pipe, initialize);
        let result = self.serve(pipe, attempts).await;
        if let Err(error) = &result {
            let reason = error.to_string();
            self.client.give_up(&reason);
            self.carry(pipe);
            let outputs = self.driver.as_mut().map(|driver| driver.agent_ended(&reason, &[]));
            self.take_translated(outputs);
            self.carry(pipe);
        }
        if let Some(driver) = &self.driver {
            losses::report(driver.bridge().losses());
        }
        // An editor that does not read is not awaited.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, pipe.to_editor.flush()).await;
        if let Some(link) = self.link.take() {
            link.leave().await;
        }
        result.map(|()| Outcome::Fine)
    }

    async fn serve(&mut self, pipe: &mut Pipe, attempts: &mut Attempts<'_>) -> Result<(), CommandError> {
        let mut farewell = None;
        let (mut due, mut attempt): (_, Option<Attempt>) = (None, None);
        loop {
            self.carry(pipe);
            if std::mem::take(&mut self.is_useful) {
                attempts.was_useful();
            }
            if self.is_refused {
                self.is_refused = false;
                self.lost(attempts).await?;
            }
            if pipe.to_editor.is_closed() || (farewell.is_some() && self.unanswered.is_empty()) {
                return Ok(());
            }
            if self.link.is_none() && attempt.is_none() && due.is_none() {
                due = Some(tokio::time::Instant::now() + attempts.next_pause());
            }
            let deadline = self.driver.as_ref().and_then(Driver::next_deadline).map(Into::into);
            let takes_from_editor = farewell.is_none() && self.takes_from_editor(pipe);
            let is_linked = self.link.is_some();
            let (lines, outbound) = match &mut self.link {
                Some(Link { lines, outbound, .. }) => (Some(lines), Some(outbound)),
                None => (None, None),
            };
            tokio::select! {
                line = next_of(lines), if is_linked && pipe.to_editor.has_room() => match line {
                    Some(line) => {
                        // Over HTTP a connection is only established when data arrives.
                        if let Some(how) = self.is_new.take() {
                            attempts.succeeded(how);
                        }
                        self.client.handle(Side::Agent, &line);
                    }
                    None => self.lost(attempts).await?,
                },
                line = pipe.from_editor.next(), if takes_from_editor => match line {
                    Some(line) => self.take_from_editor(pipe, &line),
                    None => farewell = Some(tokio::time::Instant::now() + LAST_ANSWERS),
                },
                outcome = outcome_of(&mut attempt), if attempt.is_some() => {
                    attempt = None;
                    match outcome {
                        Ok((stream, how)) => self.connected(stream, how),
                        Err(error) => attempts.failed(&error)?,
                    }
                }
                () = stdio::sleep_until(due), if due.is_some() => {
                    due = None;
                    attempt = self.next_attempt(attempts);
                }
                () = self.taken_up.notified(), if is_linked => self.client.refreshed(),
                () = send_first_of(outbound), if is_linked => {}
                () = pipe.to_editor.send_first() => {}
                () = stdio::sleep_until(farewell), if farewell.is_some() => return Ok(()),
                () = stdio::sleep_until(deadline), if deadline.is_some() => {
                    let outputs = self.driver.as_mut().map(Driver::tick);
                    self.take_translated(outputs);
                }
            }
        }
    }

    /// Returns whether the queues accept lines of the editor and responses to it.
    fn takes_from_editor(&self, pipe: &Pipe) -> bool {
        let takes = self.link.as_ref().is_none_or(|link| link.outbound.has_room());
        takes && self.client.has_open_send_window() && pipe.to_editor.keeps_up()
    }

    /// Returns the next attempt; `None` if the settings are unusable now.
    fn next_attempt(&mut self, attempts: &mut Attempts<'_>) -> Option<Attempt> {
        let earlier = self.connection_id.clone().filter(|_| self.client.is_resumable());
        let remote = match attempts.server() {
            Ok(remote) => remote.exact(),
            Err(error) => {
                attempts.unusable(&error);
                return None;
            }
        };
        Some(Box::pin(async move { reach(&remote, earlier.as_deref()).await }))
    }

    fn connected(&mut self, stream: RemoteStream, how: Connected) {
        self.connection_id.clone_from(&stream.connection_id);
        self.taken_up = Arc::clone(&stream.taken_up);
        self.link = Some(Link::new(stream));
        self.is_new = Some(how);
        self.client.connected(how);
    }

    /// Handles the loss of the connection.
    async fn lost(&mut self, attempts: &mut Attempts<'_>) -> Result<(), CommandError> {
        self.client.lost();
        let Some(link) = self.link.take() else { return Ok(()) };
        match link.ended().await {
            LinkEnd::Failed(error) => attempts.failed(&error),
            LinkEnd::Fine => Ok(()),
        }
    }

    fn take_from_editor(&mut self, pipe: &mut Pipe, line: &str) {
        // Before the translation: the hub would refuse it, and a translation splits arrays.
        if let Some(answer) = invalid_line_answer(line) {
            return self.send_to_editor(pipe, answer);
        }
        if let Some(Outline::Request { id, .. }) = Outline::of(line) {
            self.unanswered.open_or_evict(Side::Client, &id, ());
        }
        match &mut self.driver {
            Some(driver) => {
                let outputs = driver.receive(Side::Client, line);
                self.take_translated(Some(outputs));
            }
            None => self.client.handle(Side::Client, line),
        }
        self.carry(pipe);
    }

    /// Forwards all queued lines until none are left.
    fn carry(&mut self, pipe: &mut Pipe) {
        loop {
            let outputs: Vec<ResumableOutput> = self.client.drain().collect();
            let is_quiet = outputs.is_empty();
            for output in outputs {
                match output {
                    ResumableOutput::Line { to: Side::Agent, line } => {
                        if let Some(link) = &mut self.link {
                            link.outbound.push(OutboundLine::Made(line));
                        }
                    }
                    ResumableOutput::Line { to: Side::Client, line } => {
                        self.is_useful = true;
                        match &mut self.driver {
                            Some(driver) => {
                                let outputs = driver.receive(Side::Agent, &line);
                                self.take_translated(Some(outputs));
                            }
                            None => self.send_to_editor(pipe, line),
                        }
                    }
                    ResumableOutput::Gap { session, reason } => standard_error::say(format!(
                        "switchboard: session {session} continues, but updates may be missing: {reason}"
                    )),
                    ResumableOutput::SessionLost { session, reason } => {
                        standard_error::say(format!("switchboard: session {session} is lost: {reason}"));
                    }
                    ResumableOutput::Refused { reason } => {
                        standard_error::say(format!("switchboard: the hub refuses to continue: {reason}"));
                        self.is_refused = true;
                    }
                    _ => {}
                }
            }
            let translated = std::mem::take(&mut self.translated);
            if is_quiet && translated.is_empty() {
                return;
            }
            for (to, line) in translated {
                match to {
                    Side::Client => self.send_to_editor(pipe, line),
                    Side::Agent => self.client.handle(Side::Client, &line),
                }
            }
        }
    }

    /// Stores the translator's output for either side; [`HubLink::carry`] forwards it. No line is forwarded
    /// unchanged, because the versions differ.
    fn take_translated(&mut self, outputs: Option<Outputs>) {
        if let Some(outputs) = outputs {
            let _ = outputs.deliver(self);
        }
    }

    fn send_to_editor(&mut self, pipe: &mut Pipe, line: String) {
        if let Some(Outline::Response { id }) = Outline::of(&line) {
            self.unanswered.answered(Side::Agent, &id);
        }
        pipe.to_editor.push(OutboundLine::Made(line));
    }
}

impl Port for HubLink {
    fn send(&mut self, to: Side, line: String) {
        self.translated.push((to, line));
    }

    fn report_loss(&mut self, loss: Loss) {
        // The hub has the session's log, so the loss is recorded there.
        if let Some(session) = &loss.session {
            let params = serde_json::json!({"sessionId": session, "loss": &loss});
            let line = Message::notification(LOSS_METHOD, Raw::from(params)).encode(WireFormat::Any);
            self.client.handle(Side::Client, &line);
        }
    }
}

/// Resumes the connection, or creates a new one.
async fn reach(remote: &Remote, earlier: Option<&str>) -> Result<(RemoteStream, Connected), RemoteError> {
    if let Some(earlier) = earlier {
        match within_patience(remote.resume(earlier), remote).await {
            Ok(stream) => return Ok((stream, Connected::Resumed)),
            // The hub was restarted, or the connection has expired.
            Err(RemoteError::Refused { status, .. }) if status.as_u16() == 404 => {}
            Err(error) => return Err(error),
        }
    }
    within_patience(remote.connect(), remote).await.map(|stream| (stream, Connected::Anew))
}

async fn next_of(lines: Option<&mut LinkLines>) -> Option<SharedText> {
    match lines {
        Some(lines) => lines.next().await,
        None => std::future::pending().await,
    }
}

async fn send_first_of(outbound: Option<&mut OutboundQueue>) {
    match outbound {
        Some(outbound) => outbound.send_first().await,
        None => std::future::pending().await,
    }
}

async fn outcome_of(attempt: &mut Option<Attempt>) -> Result<(RemoteStream, Connected), RemoteError> {
    match attempt {
        Some(attempt) => attempt.await,
        None => std::future::pending().await,
    }
}
