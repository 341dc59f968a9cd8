//! Messages of a stream in their order, from a place on.

use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::pull::{Config, Stream as Messages};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::stream::Stream;
use futures_util::{FutureExt, StreamExt};

use super::server::in_words;

/// How long the server may keep a request for messages that are not there yet.
const EXPIRES: Duration = Duration::from_secs(10);
/// How often it says meanwhile that it still does. Silence for twice as long means that it does not.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// After how long without a request the server forgets what was read last.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// How many messages are asked for at once.
const BATCH: usize = 500;

/// Reads a stream until something is wrong; then another one goes on behind the last message that came. The client's own
/// ordered consumer is not used: it takes a minute to find out that its server has forgotten it, and begins again at the
/// stream's beginning where it had got nothing.
pub(super) struct Reading {
    messages: Messages,
    /// How many messages have come.
    count: u64,
    /// How many there were to come at the beginning.
    pub(super) pending: u64,
}

impl Reading {
    pub(super) async fn open(stream: &Stream, filter: String, from: DeliverPolicy) -> Result<Self, String> {
        Reading::with(stream, filter, from, false).await
    }

    /// Reads what the messages say about themselves alone.
    pub(super) async fn of_headers(
        stream: &Stream,
        filter: String,
        from: DeliverPolicy,
    ) -> Result<Self, String> {
        Reading::with(stream, filter, from, true).await
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
        let consumer = stream.create_consumer(config).await.map_err(|error| in_words(&error))?;
        let pending = consumer.cached_info().num_pending;
        let messages = consumer.stream().max_messages_per_batch(BATCH).expires(EXPIRES).heartbeat(HEARTBEAT);
        let messages = messages.messages().await.map_err(|error| in_words(&error))?;
        Ok(Reading { messages, count: 0, pending })
    }

    /// The next message, and how many follow.
    pub(super) async fn next(&mut self) -> Result<(Message, u64), String> {
        let next = self.messages.next().await;
        self.check(next)
    }

    /// The next message, if it is there.
    pub(super) fn next_now(&mut self) -> Option<Result<(Message, u64), String>> {
        let next = self.messages.next().now_or_never()?;
        Some(self.check(next))
    }

    fn check<E: std::error::Error>(
        &mut self,
        next: Option<Result<Message, E>>,
    ) -> Result<(Message, u64), String> {
        let message = next.ok_or("the server has ended what it told")?.map_err(|error| in_words(&error))?;
        let info = message.info().map_err(|error| error.to_string())?;
        let (number, pending) = (info.consumer_sequence, info.pending);
        self.count += 1;
        // What was on its way when a connection broke is not sent again.
        if number != self.count {
            return Err(format!("the server has told {number} messages, and {} have come", self.count));
        }
        Ok((message, pending))
    }
}
