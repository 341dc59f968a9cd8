//! The reading side of a connection.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use switchboard_acp::rpc::{
    BatchFault, CancelRequestNotification, RequestId, RpcError, batch_entries, codes, is_batch,
};
use switchboard_acp::{Wire, WireFormat};
use tokio::io::AsyncRead;
use tokio::sync::watch;

use crate::connection::{CANCEL_REQUEST, ConnectionInner, Waiter, error_line, failure, method_not_found};
use crate::envelope::{Envelope, InvalidLine};
use crate::incoming::{BatchAnswers, Cancellation};
use crate::invalid_line::invalid_line_answer;
use crate::{
    Anomaly, Answer, ClosureCause, Direction, Error, Event, Frame, IncomingNotification, IncomingRequest,
    LineReader, Match, Noise, NoiseKind, Outbox, SharedText, TapEvent, TooLong,
};

/// Silence after which a peer that has closed its input counts as gone.
const FINAL_SILENCE: Duration = Duration::from_millis(300);

/// Stream that an inbox reads.
pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;

/// Receives the peer's messages in order.
///
/// There is no queue between the stream and this: messages are read only when requested, so a slow consumer
/// slows the peer (backpressure). For the same reason it must be polled continuously: responses to calls are
/// read from the stream here, after all messages that precede them. Handle a request that takes long, or
/// makes calls itself, in its own task.
#[derive(Debug)]
pub struct Inbox {
    lines: Lines,
    shared: Arc<ConnectionInner>,
    /// Entries of a batch that are not processed yet.
    batch: VecDeque<BatchEntry>,
    /// Responses of the connection itself that are not queued yet.
    replies: VecDeque<String>,
    end: Option<ClosureCause>,
    closed: bool,
}

/// Result of [`Inbox::next_or`]: a message taken before its envelope was parsed, or an event.
#[derive(Debug)]
pub enum Received<T> {
    /// Value that `take` returned for the message.
    Taken(T),
    /// Any other message.
    Event(Event),
}

/// A message of a batch.
#[derive(Debug)]
struct BatchEntry {
    line: SharedText,
    envelope: Result<Envelope, InvalidLine>,
    answers: Arc<BatchAnswers>,
}

enum Step<T> {
    Event(Event),
    Taken(T),
    Nothing,
    End,
}

/// Wrapper that hides the reader in debug output.
struct Lines(LineReader<Input>);

impl std::fmt::Debug for Lines {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("LineReader")
    }
}

impl Inbox {
    pub(crate) fn new(lines: LineReader<Input>, shared: Arc<ConnectionInner>) -> Self {
        let (batch, replies) = (VecDeque::new(), VecDeque::new());
        Inbox { lines: Lines(lines), shared, batch, replies, end: None, closed: false }
    }

    /// Returns the next event, or `None` after [`Event::Closed`]. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        match self.next_or(|_| None::<Infallible>).await? {
            Received::Event(event) => Some(event),
            Received::Taken(never) => match never {},
        }
    }

    /// Like [`Inbox::next`], but offers every message to `take` first, before its envelope is parsed. If most
    /// messages are notifications of one kind, this avoids parsing them twice. `take` must return `None` for
    /// requests and responses. A batch is offered as a whole, then each of its messages.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), switchboard_transport::Error> {
    /// use switchboard_acp::rpc::Expected;
    /// use switchboard_acp::{WireFormat, v2};
    /// use switchboard_transport::{Connection, ConnectionOptions, Json, Received, SharedText};
    ///
    /// let (mut client, agent) = Connection::pair(ConnectionOptions::default(), ConnectionOptions::default());
    /// let update = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"m",
    ///     "content":{"type":"text","text":"hello"}}}"#;
    /// let update = v2_update(update);
    /// agent.caller.notify("session/update", Json::of(&update, WireFormat::Any)).await?;
    ///
    /// let take = |line: &SharedText| match Expected::<v2::UpdateSessionNotification<'_>>::decode(line, WireFormat::Any) {
    ///     Ok(Expected::Params(update)) => Some(update.session_id.into_owned()),
    ///     Ok(Expected::Other(_)) | Err(_) => None,
    /// };
    /// assert!(matches!(client.inbox.next_or(take).await, Some(Received::Taken(id)) if id == "s"));
    /// # fn v2_update(text: &str) -> v2::UpdateSessionNotification<'_> {
    /// #     switchboard_acp::Wire::decode(text, WireFormat::Any).unwrap()
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next_or<T>(
        &mut self,
        mut take: impl FnMut(&SharedText) -> Option<T>,
    ) -> Option<Received<T>> {
        loop {
            match self.step(&mut take).await {
                Step::Event(event) => return Some(Received::Event(event)),
                Step::Taken(taken) => return Some(Received::Taken(taken)),
                Step::Nothing => {}
                Step::End => return None,
            }
        }
    }

    /// Like [`Inbox::next_or`], but returns after every frame, with `Some(None)` for a frame that is not an
    /// event, such as a response or a cancellation. For callers that account for those frames too.
    pub async fn frame_or<T>(
        &mut self,
        mut take: impl FnMut(&SharedText) -> Option<T>,
    ) -> Option<Option<Received<T>>> {
        match self.step(&mut take).await {
            Step::Event(event) => Some(Some(Received::Event(event))),
            Step::Taken(taken) => Some(Some(Received::Taken(taken))),
            Step::Nothing => Some(None),
            Step::End => None,
        }
    }

    /// Processes one frame. A frame that is not an event, such as a response, is a step too, so that the task
    /// that waits for it runs first.
    async fn step<T>(&mut self, take: &mut impl FnMut(&SharedText) -> Option<T>) -> Step<T> {
        // One read may return thousands of frames. Yield, or timers would wait for the last of them.
        tokio::task::coop::consume_budget().await;
        if let Some(entry) = self.batch.pop_front() {
            if let Some(taken) = take(&entry.line) {
                return Step::Taken(taken);
            }
            let event = self.take_entry(entry);
            return self.deliver(event);
        }
        // Send own responses before reading on. Remove each one only after it was sent, because this future
        // may be dropped while it waits.
        while let Some(reply) = self.replies.front() {
            // If the peer cannot be written to, reading will fail too.
            let _ = self.shared.outbox.send(reply).await;
            self.replies.pop_front();
        }
        if self.closed {
            return Step::End;
        }
        // Report the end only after all own responses were sent, and fail pending calls before the event.
        if let Some(cause) = &self.end {
            let closure = self.shared.closure(cause.clone()).await;
            self.shared.close_calls(&closure);
            self.closed = true;
            return Step::Event(Event::Closed(closure));
        }
        // Reading has priority over a closed input: the peer's last messages are processed before the
        // connection ends.
        let read = tokio::select! {
            biased;
            read = self.lines.0.next() => read,
            cause = input_closed(&self.shared.outbox) => {
                self.end = Some(cause);
                return Step::Nothing;
            }
        };
        match read {
            Ok(Some(frame)) => {
                if let Frame::Message(line) = &frame {
                    self.show(TapEvent::Message { direction: Direction::Received, line });
                    if let Some(taken) = take(line) {
                        return Step::Taken(taken);
                    }
                }
                let event = self.take_frame(frame);
                return self.deliver(event);
            }
            Ok(None) => self.end = Some(ClosureCause::EndOfStream),
            Err(error) => self.end = Some(ClosureCause::ReadFailed(Arc::new(error))),
        }
        Step::Nothing
    }

    /// Returns the event of a message, and shows anomalies to the tap.
    fn deliver<T>(&self, event: Option<Event>) -> Step<T> {
        if let Some(Event::Anomaly(anomaly)) = &event {
            self.show(TapEvent::Anomaly(anomaly));
        }
        event.map_or(Step::Nothing, Step::Event)
    }

    fn show(&self, seen: TapEvent<'_>) {
        if let Some(tap) = &self.shared.options.tap {
            tap.see(seen);
        }
    }

    /// Drives the connection until `future` completes, for example the response to a call. Events are passed
    /// to `handle`. A response is observed after all messages that precede it and before all that follow.
    /// Once the connection is closed, only the future is awaited.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), switchboard_transport::Error> {
    /// use switchboard_transport::{Answer, Connection, ConnectionOptions, Event, Json};
    ///
    /// let (mut client, mut agent) = Connection::pair(ConnectionOptions::default(), ConnectionOptions::default());
    /// tokio::spawn(async move {
    ///     agent.caller.notify("hello", Json::default()).await.unwrap();
    ///     while let Some(event) = agent.inbox.next().await {
    ///         if let Event::Request(request) = event {
    ///             request.respond(Json::default()).await.unwrap();
    ///         }
    ///     }
    /// });
    /// let mut greeted = false;
    /// let call = client.caller.call("initialize", Json::default());
    /// let answer = client.inbox.until(call, |event| greeted |= matches!(event, Event::Notification(_))).await?;
    /// assert!(greeted && matches!(answer, Answer::Result(_)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn until<T>(&mut self, future: impl Future<Output = T>, mut handle: impl FnMut(Event)) -> T {
        tokio::pin!(future);
        let mut take_none = |_: &SharedText| None::<Infallible>;
        loop {
            tokio::select! {
                biased;
                output = &mut future => return output,
                step = self.step(&mut take_none) => match step {
                    Step::Event(event) => handle(event),
                    Step::Taken(never) => match never {},
                    Step::Nothing => {}
                    Step::End => return future.await,
                },
            }
        }
    }

    fn take_frame(&mut self, frame: Frame) -> Option<Event> {
        match frame {
            Frame::Message(line) if !is_batch(&line) => match Envelope::read(&line) {
                Ok(envelope) => self.take_message(line, envelope, None),
                Err(unreadable) if self.refuse_invalid(&line) => {
                    Some(Event::Anomaly(Anomaly::Malformed { line, reason: unreadable.reason }))
                }
                Err(unreadable) => self.take_unreadable(line, unreadable),
            },
            Frame::Message(line) if self.refuse_invalid(&line) => {
                let reason = "several messages in an array".to_owned();
                Some(Event::Anomaly(Anomaly::Malformed { line, reason }))
            }
            Frame::Message(line) => self.take_batch(&line),
            Frame::Noise(noise) => {
                if !noise.is_blank() {
                    self.refuse_invalid(&noise.excerpt);
                }
                Some(Event::Anomaly(Anomaly::Noise(noise)))
            }
            Frame::Unfinished(noise) => Some(Event::Anomaly(Anomaly::Unfinished(noise))),
            Frame::TooLong(too_long) => Some(self.take_too_long(too_long)),
        }
    }

    /// Responds to an invalid line if the options say so. Returns true if it did.
    #[cold]
    fn refuse_invalid(&mut self, text: &str) -> bool {
        let answer = self.shared.options.refuses_invalid_lines.then(|| invalid_line_answer(text)).flatten();
        let is_refused = answer.is_some();
        if let Some(answer) = answer {
            self.reply(answer, None);
        }
        is_refused
    }

    /// Processes a message. `batch` collects the responses of the batch that it is in.
    fn take_message(
        &mut self,
        line: SharedText,
        envelope: Envelope,
        batch: Option<&Arc<BatchAnswers>>,
    ) -> Option<Event> {
        match envelope {
            Envelope::Notification { method, params } => {
                if &*method == CANCEL_REQUEST {
                    self.cancel(params.as_deref().unwrap_or("{}"));
                    return None;
                }
                if !self.shared.options.is_known(&method) {
                    return Some(Event::Anomaly(Anomaly::UnknownMethod { method, wants_answer: false }));
                }
                Some(Event::Notification(IncomingNotification { line, method, params }))
            }
            Envelope::Response { id, outcome } => self.take_answer(line, id, outcome),
            Envelope::Request { id, method, params } => {
                if !self.shared.options.is_known(&method) {
                    self.reply(error_line(&id, &method_not_found(&method)), batch);
                    return Some(Event::Anomaly(Anomaly::UnknownMethod { method, wants_answer: true }));
                }
                let (cancel, cancellation) = watch::channel(false);
                // Register the request before it becomes an event, so that a cancellation that follows finds
                // it.
                let opened = self.shared.state().requests.incoming.open(id.clone(), cancel);
                if let Err(reason) = opened {
                    self.reply(error_line(&id, &failure(codes::INVALID_REQUEST, reason.to_string())), batch);
                    return Some(Event::Anomaly(Anomaly::Refused { id, method, reason }));
                }
                Some(Event::Request(IncomingRequest {
                    id,
                    line,
                    method,
                    params,
                    cancellation: Cancellation(cancellation),
                    shared: Arc::clone(&self.shared),
                    batch: batch.cloned(),
                    answered: false,
                }))
            }
        }
    }

    fn take_answer(
        &mut self,
        line: SharedText,
        id: RequestId<'static>,
        outcome: Result<SharedText, RpcError<'static>>,
    ) -> Option<Event> {
        // Remove the call from the table first: a second response must be recognized as a duplicate.
        let matched = self.shared.state().requests.outgoing.answer(&id);
        let anomaly = match (matched, outcome) {
            (Match::Waiting(waiter), outcome) => {
                let answer = outcome.map_or_else(Answer::Error, Answer::Result);
                // The call may have been dropped in the meantime.
                let _ = waiter.answer.send(Ok(answer));
                return None;
            }
            (_, Err(error)) if id == RequestId::Null => Anomaly::ErrorWithoutRequest(error),
            (Match::Late, _) => Anomaly::LateAnswer { id, line },
            (Match::Second, _) => Anomaly::SecondAnswer { id, line },
            (Match::NeverAsked, _) => Anomaly::UnaskedAnswer { id, line },
        };
        Some(Event::Anomaly(anomaly))
    }

    /// Cancels a request of the peer. Ignores an unknown or answered request, as the protocol requires.
    fn cancel(&self, params: &str) {
        let Ok(cancel) = CancelRequestNotification::decode(params, WireFormat::Any) else { return };
        if let Some(open) = self.shared.state().requests.incoming.get(&cancel.request_id.into_owned()) {
            open.send_replace(true);
        }
    }

    #[cold]
    fn take_batch(&mut self, line: &SharedText) -> Option<Event> {
        let refuse = |inbox: &mut Self, reason: String| {
            inbox.reply(error_line(&RequestId::Null, &failure(codes::INVALID_REQUEST, reason.clone())), None);
            Some(Event::Anomaly(Anomaly::Malformed { line: line.clone(), reason }))
        };
        let limit = self.shared.options.batch_limit;
        let entries = match batch_entries(line, limit) {
            Ok(entries) if entries.is_empty() => return refuse(self, "an empty batch".into()),
            Ok(entries) => entries,
            Err(BatchFault::TooMany { limit }) => {
                return refuse(self, format!("a batch of more than {limit} messages"));
            }
            // A line that starts with a bracket is more often a log line than a malformed batch.
            Err(BatchFault::NotJson(_)) => return Some(noise(line)),
        };
        let read = |entry: &&str| {
            let entry = line.part(entry);
            let envelope = Envelope::read(&entry);
            (entry, envelope)
        };
        let entries: Vec<_> = entries.iter().map(read).collect();
        let wants_answer = |(_, envelope): &&(SharedText, Result<Envelope, InvalidLine>)| match envelope {
            Ok(envelope) => matches!(envelope, Envelope::Request { .. }),
            Err(unreadable) => !unreadable.is_answer(),
        };
        // Count the expected responses before processing any entry, or the batch could be sent too early.
        let answers = Arc::new(BatchAnswers::new(entries.iter().filter(wants_answer).count()));
        let entry = |(line, envelope)| BatchEntry { line, envelope, answers: Arc::clone(&answers) };
        self.batch.extend(entries.into_iter().map(entry));
        None
    }

    fn take_entry(&mut self, entry: BatchEntry) -> Option<Event> {
        let BatchEntry { line, envelope, answers } = entry;
        match envelope {
            Ok(envelope) => self.take_message(line, envelope, Some(&answers)),
            Err(unreadable) if unreadable.is_answer() => self.take_unreadable(line, unreadable),
            Err(unreadable) => {
                let id = unreadable.glimpse.id.unwrap_or(RequestId::Null);
                let error = failure(codes::INVALID_REQUEST, unreadable.reason.clone());
                self.reply(error_line(&id, &error), Some(&answers));
                let reason = unreadable.reason;
                Some(Event::Anomaly(Anomaly::Malformed { line, reason }))
            }
        }
    }

    /// Processes a line that looks like an object but is not a message.
    #[cold]
    fn take_unreadable(&mut self, line: SharedText, unreadable: InvalidLine) -> Option<Event> {
        let InvalidLine { syntax, reason, glimpse } = unreadable;
        let id = glimpse.id.unwrap_or(RequestId::Null);
        if glimpse.has_outcome && !glimpse.has_method {
            let malformed = |waiter: &Waiter| Error::AnswerMalformed {
                method: waiter.method.clone(),
                reason: reason.clone(),
            };
            self.fail_call(&id, malformed);
        } else if glimpse.has_method || glimpse.has_version {
            let code = if syntax { codes::PARSE_ERROR } else { codes::INVALID_REQUEST };
            self.reply(error_line(&id, &failure(code, reason.clone())), None);
        } else {
            // Other JSON, or output intended for people.
            return Some(noise(&line));
        }
        Some(Event::Anomaly(Anomaly::Malformed { line, reason }))
    }

    #[cold]
    fn take_too_long(&mut self, too_long: TooLong) -> Event {
        let glimpse = too_long.glimpse();
        let TooLong { length, limit, .. } = too_long;
        match glimpse.id {
            Some(id) if glimpse.has_method => {
                let error = failure(codes::INVALID_REQUEST, too_long.to_string());
                self.reply(error_line(&id, &error), None);
            }
            Some(id) => self.fail_call(&id, |waiter| Error::AnswerTooLong {
                method: waiter.method.clone(),
                length,
                limit,
            }),
            None => {}
        }
        Event::Anomaly(Anomaly::TooLong(too_long))
    }

    /// Fails the call that an unusable response belongs to.
    fn fail_call(&mut self, id: &RequestId<'_>, error: impl FnOnce(&Waiter) -> Error) {
        if let Match::Waiting(waiter) = self.shared.state().requests.outgoing.answer(id) {
            let error = error(&waiter);
            let _ = waiter.answer.send(Err(error));
        }
    }

    fn reply(&mut self, line: String, batch: Option<&Arc<BatchAnswers>>) {
        match batch {
            Some(batch) => self.replies.extend(batch.add(&line)),
            None => self.replies.push_back(line),
        }
    }
}

impl InvalidLine {
    fn is_answer(&self) -> bool {
        self.glimpse.has_outcome && !self.glimpse.has_method
    }
}

/// Waits until the peer has closed its input and then been silent for [`FINAL_SILENCE`]. An exiting process
/// closes its input shortly before its output, which may still contain messages.
async fn input_closed(outbox: &Outbox) -> ClosureCause {
    match outbox.closed().await {
        cause @ ClosureCause::InputClosed => {
            tokio::time::sleep(FINAL_SILENCE).await;
            cause
        }
        _ => std::future::pending().await,
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // Responses are not read any more, so pending calls must fail.
        self.shared.close_calls_here();
    }
}

fn noise(line: &SharedText) -> Event {
    Event::Anomaly(Anomaly::Noise(Noise::new(NoiseKind::Text, line.as_bytes())))
}
