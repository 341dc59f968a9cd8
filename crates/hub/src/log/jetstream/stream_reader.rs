//! Reading messages of a stream in order, from a position on.

use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::pull::{Config, Stream as Messages};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::stream::Stream;
use futures_util::{FutureExt, StreamExt};

use super::server::error_text;

/// Time for which the server holds a request for messages that do not exist yet.
const EXPIRES: Duration = Duration::from_secs(10);
/// Interval of heartbeats during that time. Silence for twice as long means that the request is lost.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Time without a request after which the server drops the consumer.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// Number of messages per request.
const BATCH: usize = 500;

/// Reads a stream until an error; the caller then opens another reader after the last message. The client library's
/// ordered consumer is not used: it takes a minute to notice that the server has dropped it, and restarts at the
/// beginning of the stream if it had received nothing.
pub(super) struct StreamReader {
    messages: Messages,
    /// Number of messages received.
    count: u64,
    /// Number of pending messages when the reader was opened.
    pub(super) pending: u64,
}

impl StreamReader {
    pub(super) async fn open(stream: &Stream, filter: String, from: DeliverPolicy) -> Result<Self, String> {
        StreamReader::with(stream, filter, from, false).await
    }

    /// Reads the headers of messages only.
    pub(super) async fn of_headers(
        stream: &Stream,
        filter: String,
        from: DeliverPolicy,
    ) -> Result<Self, String> {
        StreamReader::with(stream, filter, from, true).await
    }

    async fn with(
        stream: &Stream,
        filter: String,
        from: DeliverPolicy,
        headers_only: bool,
    ) -> Result<Self, String> {
        let config = Config {
            headers_only,
            filter_subject: filter,
            deliver_policy: from,
            ack_policy: AckPolicy::None,
            max_deliver: 1,
            inactive_threshold: FORGOTTEN,
            num_replicas: 1,
            memory_storage: true,
            ..Config::default()
        };
        let consumer = stream.create_consumer(config).await.map_err(|error| error_text(&error))?;
        let pending = consumer.cached_info().num_pending;
        let messages = consumer.stream().max_messages_per_batch(BATCH).expires(EXPIRES).heartbeat(HEARTBEAT);
        let messages = messages.messages().await.map_err(|error| error_text(&error))?;
        Ok(StreamReader { messages, count: 0, pending })
    }

    /// Returns the next message, and the number of messages after it.
    pub(super) async fn next(&mut self) -> Result<(Message, u64), String> {
        let next = self.messages.next().await;
        self.check(next)
    }

    /// Returns the next message, if it is available.
    pub(super) fn next_now(&mut self) -> Option<Result<(Message, u64), String>> {
        let next = self.messages.next().now_or_never()?;
        Some(self.check(next))
    }

    fn check<E: std::error::Error>(
        &mut self,
        next: Option<Result<Message, E>>,
    ) -> Result<(Message, u64), String> {
        let message =
            next.ok_or("the server closed the stream of messages")?.map_err(|error| error_text(&error))?;
        let info = message.info().map_err(|error| error.to_string())?;
        let (number, pending) = (info.consumer_sequence, info.pending);
        self.count += 1;
        // Messages in transit are not sent again after a connection breaks.
        if number != self.count {
            return Err(format!("the server delivered {number} messages, but {} were received", self.count));
        }
        Ok((message, pending))
    }
}
