//! The start of a connection, which detects the kind of server, and complete connections to servers other
//! than hubs.

use std::collections::VecDeque;
use std::time::Duration;

use switchboard_acp::Wire;
use switchboard_acp::rpc::{Outline, RequestId};
use switchboard_peer::{Connected, is_resumable};
use switchboard_transport::{
    DEFAULT_MESSAGE_LIMIT, Frame, LineReader, Outbox, OutboxOptions, RemoteError, RemoteStream, SharedText,
};
use tokio::io::{AsyncRead, DuplexStream, ReadHalf};
use tokio::task::JoinHandle;

use super::attempts::{Attempts, within_patience};
use super::failed;
use crate::outbound_queue::{OutboundLine, OutboundQueue};
use crate::outcome::CommandError;
use crate::{standard_error, stdio};

/// Timeout for closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout for a server's responses after the editor has closed its input.
const LAST_ANSWER: Duration = Duration::from_secs(10);

/// Maximum number of lines held for an editor that does not wait for the handshake.
const MAX_HELD: usize = 64;

/// Standard input and output.
pub(super) struct Pipe {
    pub(super) from_editor: EditorInput,
    pub(super) to_editor: OutboundQueue,
}

/// Input of the editor.
pub(super) struct EditorInput {
    lines: LineReader<Box<dyn AsyncRead + Send + Unpin>>,
    /// Lines that were read before the kind of server was known.
    held: VecDeque<SharedText>,
    pub(super) has_ended: bool,
}

impl EditorInput {
    pub(super) fn new() -> Self {
        let lines = LineReader::new(stdio::input(), DEFAULT_MESSAGE_LIMIT);
        EditorInput { lines, held: VecDeque::new(), has_ended: false }
    }

    /// Returns the next message; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<SharedText> {
        match self.held.pop_front() {
            Some(line) => Some(line),
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Option<SharedText> {
        loop {
            match self.lines.next().await {
                Ok(Some(Frame::Message(line))) => return Some(line),
                Ok(Some(Frame::Noise(noise) | Frame::Unfinished(noise))) => {
                    if !noise.is_blank() {
                        standard_error::say(format!("switchboard: not sent: {noise}"));
                    }
                }
                Ok(Some(Frame::TooLong(line))) => {
                    standard_error::say(format!("switchboard: not sent: {line}"));
                }
                Ok(None) | Err(_) => {
                    self.has_ended = true;
                    return None;
                }
            }
        }
    }

    /// Holds one more line.
    async fn hold(&mut self) {
        if self.has_ended || self.held.len() >= MAX_HELD {
            return std::future::pending().await;
        }
        if let Some(line) = self.read().await {
            self.held.push_back(line);
        }
    }

    /// Returns the next message, or holds one: messages after the handshake may be for a hub.
    async fn next_or_hold(&mut self, holds: bool) -> Option<SharedText> {
        if holds {
            self.hold().await;
            return None;
        }
        self.next().await
    }

    /// Waits until the editor has ended, holding lines up to the limit.
    async fn is_gone(&mut self) {
        while !self.has_ended {
            self.hold().await;
        }
    }

    /// Returns whether no more lines will arrive.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended && self.held.is_empty()
    }
}

/// Result of the start.
pub(super) enum StartResult {
    /// The connection is over.
    Over,
    /// The server is a hub: the editor's first line.
    Hub(SharedText),
}

/// A connection to the server.
pub(super) struct Link {
    pub(super) lines: LinkLines,
    pub(super) outbound: OutboundQueue,
    end: JoinHandle<Result<(), RemoteError>>,
}

/// Lines of the server.
pub(super) struct LinkLines(LineReader<ReadHalf<DuplexStream>>);

impl LinkLines {
    /// Returns the next message; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<SharedText> {
        loop {
            match self.0.next().await {
                Ok(Some(Frame::Message(line))) => return Some(line),
                Ok(Some(Frame::TooLong(line))) => {
                    standard_error::say(format!("switchboard: from the server: {line}"));
                }
                Ok(Some(Frame::Noise(_) | Frame::Unfinished(_))) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

/// End of a connection.
pub(super) enum LinkEnd {
    /// Without an error.
    Fine,
    Failed(RemoteError),
}

impl Link {
    /// Splits the stream into its halves.
    pub(super) fn new(stream: RemoteStream) -> Self {
        let RemoteStream { reader, writer, end, connection_id: _, taken_up: _ } = stream;
        let options = OutboxOptions { stall: None, ..OutboxOptions::default() };
        let outbound = OutboundQueue::over(Outbox::new(writer, options));
        let lines = LinkLines(LineReader::new(reader, DEFAULT_MESSAGE_LIMIT));
        Link { lines, outbound, end }
    }

    /// Returns the reason for the end.
    pub(super) async fn ended(self) -> LinkEnd {
        let Link { lines, outbound, end } = self;
        drop((lines, outbound));
        match end.await {
            Ok(Ok(())) | Err(_) => LinkEnd::Fine,
            Ok(Err(error)) => LinkEnd::Failed(error),
        }
    }

    /// Closes it after everything is sent.
    pub(super) async fn leave(mut self) {
        self.outbound.close();
        // A server that does not read is not awaited.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.ended()).await;
    }
}

impl Pipe {
    /// Connects to the server and forwards the editor's messages unchanged. If it answers as a hub, the
    /// connection is replaced by a resumable one; with any other server it runs to its end.
    pub(super) async fn begin(&mut self, attempts: &mut Attempts<'_>) -> Result<StartResult, CommandError> {
        let mut first = None;
        loop {
            let remote = attempts.server()?;
            let error = match within_patience(remote.connect(), &remote).await {
                Ok(stream) => {
                    let mut link = Link::new(stream);
                    if first.is_none() && !self.from_editor.is_over() {
                        first = self.first_line(&mut link).await;
                    }
                    match self.talk(&mut link, first.as_ref()).await {
                        ConversationEnd::Hub => {
                            attempts.succeeded(Connected::Anew);
                            link.leave().await;
                            return Ok(first.map_or(StartResult::Over, StartResult::Hub));
                        }
                        ConversationEnd::OverAfterAll => {
                            self.to_editor.flush().await;
                            return match link.ended().await {
                                LinkEnd::Fine => Ok(StartResult::Over),
                                LinkEnd::Failed(error) => Err(failed(&error)),
                            };
                        }
                        ConversationEnd::NoAnswer => match link.ended().await {
                            LinkEnd::Fine => return Ok(StartResult::Over),
                            LinkEnd::Failed(error) => error,
                        },
                    }
                }
                Err(error) => error,
            };
            if self.from_editor.has_ended {
                return Err(failed(&error));
            }
            attempts.failed(&error)?;
            // A closed editor is not awaited.
            tokio::select! {
                () = tokio::time::sleep(attempts.next_pause()) => {}
                () = self.from_editor.is_gone() => return Err(failed(&error)),
            }
        }
    }

    /// Waits for the editor's first line. The server may send something or close before that.
    async fn first_line(&mut self, link: &mut Link) -> Option<SharedText> {
        loop {
            tokio::select! {
                line = self.from_editor.next() => return line,
                line = link.lines.next() => match line {
                    Some(line) => self.to_editor.push(OutboundLine::Forwarded(line)),
                    None => return self.from_editor.next().await,
                },
                () = self.to_editor.send_first() => {}
            }
        }
    }

    async fn talk(&mut self, link: &mut Link, first: Option<&SharedText>) -> ConversationEnd {
        let mut asked = first.and_then(|line| id_of_initialize(line));
        let mut is_answered = false;
        let (mut has_left, mut farewell) = (false, None);
        if let Some(line) = first {
            link.outbound.push(OutboundLine::Forwarded(line.clone()));
        }
        loop {
            if self.to_editor.is_closed() {
                link.outbound.close();
                return ConversationEnd::OverAfterAll;
            }
            if self.from_editor.is_over() && !has_left {
                if asked.is_none() {
                    has_left = true;
                    link.outbound.close();
                } else if farewell.is_none() {
                    farewell = Some(tokio::time::Instant::now() + LAST_ANSWER);
                }
            }
            tokio::select! {
                line = link.lines.next(), if self.to_editor.has_room() => match line {
                    Some(line) => {
                        is_answered = true;
                        if asked.as_ref().is_some_and(|asked| answers(&line, asked)) {
                            asked = None;
                            if is_resumable(&line) {
                                return ConversationEnd::Hub;
                            }
                        }
                        self.to_editor.push(OutboundLine::Forwarded(line));
                    }
                    None if is_answered || has_left => return ConversationEnd::OverAfterAll,
                    None => return ConversationEnd::NoAnswer,
                },
                line = self.from_editor.next_or_hold(asked.is_some()), if !has_left && link.outbound.has_room() => {
                    if let Some(line) = line {
                        link.outbound.push(OutboundLine::Forwarded(line));
                    }
                }
                () = self.to_editor.send_first() => {}
                () = link.outbound.send_first(), if !has_left => {}
                () = stdio::sleep_until(farewell), if farewell.is_some() => asked = None,
            }
        }
    }
}

enum ConversationEnd {
    Hub,
    /// A conversation ended.
    OverAfterAll,
    /// The connection ended before any message.
    NoAnswer,
}

fn id_of_initialize(line: &str) -> Option<RequestId<'static>> {
    match Outline::of(line)? {
        Outline::Request { id, method } if method == "initialize" => Some(id.into_owned()),
        _ => None,
    }
}

fn answers(line: &str, asked: &RequestId<'_>) -> bool {
    matches!(Outline::of(line), Some(Outline::Response { id }) if id == *asked)
}
