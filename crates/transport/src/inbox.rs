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
use crate::envelope::{Envelope, Unreadable};
use crate::incoming::{BatchAnswers, Cancellation};
use crate::invalid_line::invalid_line_answer;
use crate::{
    Anomaly, Answer, ClosureCause, Direction, Error, Event, Frame, IncomingNotification, IncomingRequest,
    LineReader, Match, Noise, NoiseKind, Outbox, Seen, SharedText, TooLong,
};

/// How long a peer that reads no more must be silent until it counts as gone.
const LAST_OUTPUT: Duration = Duration::from_millis(300);

/// The stream that an inbox reads.
pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;

/// Hands out what the peer sends, in order.
///
/// There is no queue between the stream and this: what nobody asks for is not read, so a slow consumer slows the
/// peer. For the same reason somebody must always ask: answers to calls are taken off the stream here, after all
/// that came before them. Handle a request that takes long, or makes calls itself, in a task of its own.
#[derive(Debug)]
pub struct Inbox {
    lines: Lines,
    shared: Arc<ConnectionInner>,
    /// Entries of a batch that are not looked at yet.
    batch: VecDeque<BatchEntry>,
    /// Answers of the connection itself that are not queued yet.
    replies: VecDeque<String>,
    end: Option<ClosureCause>,
    closed: bool,
}

/// What came: a message that was taken before its envelope was read, or an event.
#[derive(Debug)]
pub enum Received<T> {
    /// What was made of the message that was taken.
    Taken(T),
    /// Anything else.
    Event(Event),
}

/// A message that came in a batch.
#[derive(Debug)]
struct BatchEntry {
    line: SharedText,
    envelope: Result<Envelope, Unreadable>,
    answers: Arc<BatchAnswers>,
}

enum Taking<T> {
    Event(Event),
    Taken(T),
    Nothing,
    End,
}

/// The reader, which has nothing to show in a debug print.
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

    /// The next event; `None` after [`Event::Closed`]. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Event> {
        match self.next_or(|_| None::<Infallible>).await? {
            Received::Event(event) => Some(event),
            Received::Taken(never) => match never {},
        }
    }

    /// As [`Inbox::next`], but every message is first offered to `take` as it came, before its envelope is read. On
    /// a connection where most messages are notifications of one kind this saves reading them twice. `take` must
    /// leave alone what is a request or an answer; a batch is offered as a whole, and then each of its messages.
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
                Taking::Event(event) => return Some(Received::Event(event)),
                Taking::Taken(taken) => return Some(Received::Taken(taken)),
                Taking::Nothing => {}
                Taking::End => return None,
            }
        }
    }

    /// As [`Inbox::next_or`], but comes back after every frame, with `Some(None)` after one that was no event, such
    /// as an answer or the cancellation of a request: for whoever keeps account of those too.
    pub async fn frame_or<T>(
        &mut self,
        mut take: impl FnMut(&SharedText) -> Option<T>,
    ) -> Option<Option<Received<T>>> {
        match self.step(&mut take).await {
            Taking::Event(event) => Some(Some(Received::Event(event))),
            Taking::Taken(taken) => Some(Some(Received::Taken(taken))),
            Taking::Nothing => Some(None),
            Taking::End => None,
        }
    }

    /// Takes one frame off the stream. A frame that is no event, such as an answer, is a step too, so that
    /// whoever waited for it can go first.
    async fn step<T>(&mut self, take: &mut impl FnMut(&SharedText) -> Option<T>) -> Taking<T> {
        // One read may bring thousands of frames: without this, timers would wait for the last of them.
        tokio::task::coop::consume_budget().await;
        if let Some(entry) = self.batch.pop_front() {
            if let Some(taken) = take(&entry.line) {
                return Taking::Taken(taken);
            }
            let event = self.take_entry(entry);
            return self.told(event);
        }
        while let Some(reply) = self.replies.front() {
            // A peer that cannot be written to will be gone for the reader too.
            let _ = self.shared.outbox.send(reply).await;
            self.replies.pop_front();
        }
        if self.closed {
            return Taking::End;
        }
        if let Some(cause) = &self.end {
            let closure = self.shared.closure(cause.clone()).await;
            self.shared.close_calls(&closure);
            self.closed = true;
            return Taking::Event(Event::Closed(closure));
        }
        let read = tokio::select! {
            biased;
            read = self.lines.0.next() => read,
            cause = input_closed(&self.shared.outbox) => {
                self.end = Some(cause);
                return Taking::Nothing;
            }
        };
        match read {
            Ok(Some(frame)) => {
                if let Frame::Message(line) = &frame {
                    self.show(Seen::Message { direction: Direction::Received, line });
                    if let Some(taken) = take(line) {
                        return Taking::Taken(taken);
                    }
                }
                let event = self.take_frame(frame);
                return self.told(event);
            }
            Ok(None) => self.end = Some(ClosureCause::EndOfStream),
            Err(error) => self.end = Some(ClosureCause::ReadFailed(Arc::new(error))),
        }
        Taking::Nothing
    }

    /// Hands out what came of a message.
    fn told<T>(&self, event: Option<Event>) -> Taking<T> {
        if let Some(Event::Anomaly(anomaly)) = &event {
            self.show(Seen::Anomaly(anomaly));
        }
        event.map_or(Taking::Nothing, Taking::Event)
    }

    fn show(&self, seen: Seen<'_>) {
        if let Some(tap) = &self.shared.options.tap {
            tap.see(seen);
        }
    }

    /// Drives the connection until a future of one's own is done, such as the answer to a call; events go to
    /// `handle`. An answer is seen after all that came before it and before all that came after it. Once the
    /// connection is closed the future is awaited alone.
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
                    Taking::Event(event) => handle(event),
                    Taking::Taken(never) => match never {},
                    Taking::Nothing => {}
                    Taking::End => return future.await,
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

    /// Answers a line that holds no message, where this side does. Says whether it did.
    #[cold]
    fn refuse_invalid(&mut self, text: &str) -> bool {
        let answer = self.shared.options.refuses_invalid_lines.then(|| invalid_line_answer(text)).flatten();
        let is_refused = answer.is_some();
        if let Some(answer) = answer {
            self.reply(answer, None);
        }
        is_refused
    }

    /// A message by itself, or with the answers of the batch that it is in.
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
        let matched = self.shared.state().requests.outgoing.answer(&id);
        let anomaly = match (matched, outcome) {
            (Match::Waiting(waiter), outcome) => {
                let answer = outcome.map_or_else(Answer::Error, Answer::Result);
                // Nobody may be waiting any more: the call is being dropped at this moment.
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

    /// The peer takes a request back. One that is unknown or answered is passed over, as the protocol says.
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
            // A line that begins with a bracket is more often a log line than a broken batch.
            Err(BatchFault::NotJson(_)) => return Some(noise(line)),
        };
        let read = |entry: &&str| {
            let entry = line.part(entry);
            let envelope = Envelope::read(&entry);
            (entry, envelope)
        };
        let entries: Vec<_> = entries.iter().map(read).collect();
        let wants_answer = |(_, envelope): &&(SharedText, Result<Envelope, Unreadable>)| match envelope {
            Ok(envelope) => matches!(envelope, Envelope::Request { .. }),
            Err(unreadable) => !unreadable.is_answer(),
        };
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

    /// A line that begins as an object does and is no message.
    #[cold]
    fn take_unreadable(&mut self, line: SharedText, unreadable: Unreadable) -> Option<Event> {
        let Unreadable { syntax, reason, glimpse } = unreadable;
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
            // JSON of another kind, or what a program printed for people to read.
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

    /// Fails the call that an unusable answer belongs to.
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

impl Unreadable {
    fn is_answer(&self) -> bool {
        self.glimpse.has_outcome && !self.glimpse.has_method
    }
}

/// Waits until the peer has closed its input and has then said nothing for a while. A process that ends closes its
/// input a moment before its output, in which there may still be something.
async fn input_closed(outbox: &Outbox) -> ClosureCause {
    match outbox.closed().await {
        cause @ ClosureCause::InputClosed => {
            tokio::time::sleep(LAST_OUTPUT).await;
            cause
        }
        _ => std::future::pending().await,
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // Nobody will take answers off the stream any more.
        self.shared.close_calls_here();
    }
}

fn noise(line: &SharedText) -> Event {
    Event::Anomaly(Anomaly::Noise(Noise::new(NoiseKind::Text, line.as_bytes())))
}
