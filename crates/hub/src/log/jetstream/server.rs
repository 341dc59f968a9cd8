//! NATS servers of the logs: connection, stream, buckets and their requirements.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::Client;
use async_nats::connection::State;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::context::{ContextBuilder, CreateStreamErrorKind, PublishError, PublishErrorKind};
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy, StorageType, Stream,
};
use async_nats::jetstream::{Context, ErrorCode, Message, kv};
use futures_util::StreamExt;
use futures_util::future::join_all;

use super::access::{self, Refusals, check_version};
use super::message::Outgoing;
use super::stream_reader::StreamReader;
use crate::log::jetstream_options::{JetStreamOptions, LogError};

/// The stream with the records of all sessions.
pub(super) const STREAM: &str = "SWITCHBOARD";
/// Subject prefix of records; the session id follows.
const SUBJECT: &str = "switchboard.log.";
/// The bucket with the metadata of sessions.
const SESSIONS: &str = "switchboard-sessions";
/// The bucket with the owners of sessions.
const OWNERS: &str = "switchboard-owners";
/// The bucket with the live hubs.
const HUBS: &str = "switchboard-hubs";
/// Lease duration: time after which the servers expire a hub that does not renew its key.
pub(super) const LEASE_DURATION: Duration = Duration::from_secs(6);
/// Subject prefix of forwarded requests; the name of a hub follows.
const FORWARD_SUBJECT: &str = "switchboard.hub.";
/// Header with the idempotency key of a forwarded request.
pub(super) const TICKET: &str = "Switchboard-Ticket";
/// Time for a reply of another hub before the request is sent again.
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of replicas of each record in a cluster.
const REPLICAS: usize = 3;
/// Timeout of one request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time to make a message durable. Includes the election of a new leader.
pub(super) const DURABLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which the servers are probed after a failure.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The key that a probe writes.
const PROBE_KEY: &str = "_probe";
/// Time without a connection after which writes are refused.
const DISCONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Header of deleted values in a bucket.
const OPERATION: &str = "KV-Operation";
/// Maximum size of headers, subtracted from the maximum message size.
const HEADERS: usize = 1024;

/// Reason why a message is not in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PublishFailure {
    /// Another hub has written to the session.
    Conflict,
    /// The message may or may not be in the stream.
    Unknown(String),
}

/// A connection to the servers.
pub(super) struct Server {
    servers: String,
    context: Context,
    pub(super) stream: Stream,
    pub(super) sessions: kv::Store,
    pub(super) owners: kv::Store,
    pub(super) hubs: kv::Store,
    /// The last error.
    last_error: Mutex<Option<String>>,
    /// Time since which there is no connection.
    disconnected_since: Mutex<Option<Instant>>,
    is_replicated: AtomicBool,
    refusals: Refusals,
}

pub(super) fn subject(session: &str) -> String {
    format!("{SUBJECT}{session}")
}

/// Returns the session of a subject.
pub(super) fn session_of(subject: &str) -> Option<&str> {
    subject.strip_prefix(SUBJECT)
}

impl Server {
    pub(super) async fn connect(options: &JetStreamOptions) -> Result<Self, LogError> {
        let (client, refusals) = access::connect(options).await?;
        let info = client.server_info();
        check_version(&info.version)?;
        let servers = options.servers.clone();
        Server::prepare(client, servers, refusals.clone())
            .await
            .map_err(|error| refusals.error().unwrap_or(error))
    }

    /// Creates the stream and the buckets if necessary, and checks their settings.
    async fn prepare(client: Client, servers: String, refusals: Refusals) -> Result<Self, LogError> {
        let info = client.server_info();
        let context = ContextBuilder::new().timeout(REQUEST_TIMEOUT).build(client);
        let replicas = if info.cluster.is_some() { REPLICAS } else { 1 };
        let stream = stream(&context, replicas).await?;
        let sessions = bucket(&context, SESSIONS, Duration::ZERO, replicas).await?;
        let owners = bucket(&context, OWNERS, Duration::ZERO, replicas).await?;
        let hubs = bucket(&context, HUBS, LEASE_DURATION, replicas).await?;
        let is_replicated = AtomicBool::new(stream.cached_info().config.num_replicas > 1);
        let server = Server {
            servers,
            context,
            stream,
            sessions,
            owners,
            hubs,
            last_error: Mutex::default(),
            disconnected_since: Mutex::default(),
            is_replicated,
            refusals,
        };
        server.check_permissions().await?;
        Ok(server)
    }

    /// Checks the permissions to write, and to receive forwarded requests. Servers do not respond to operations that
    /// are not permitted.
    async fn check_permissions(&self) -> Result<(), LogError> {
        let buckets = [SESSIONS, OWNERS, HUBS].map(|bucket| format!("$KV.{bucket}.{PROBE_KEY}"));
        let writing = join_all([subject(PROBE_KEY)].into_iter().chain(buckets).map(|subject| async {
            // Has no effect, because it expects a stream that does not exist.
            let nothing = PublishMessage::build().expected_stream(PROBE_KEY);
            if let Ok(answer) = self.context.send_publish(subject, nothing).await {
                let _ = answer.await;
            }
        }));
        let subscribing = async {
            let name = self.unique_name();
            let Ok(mut requests) = self.requests(&name).await else { return };
            let read_back = async {
                if let Some(inbox) = requests.next().await.and_then(|request| request.reply) {
                    self.answer(inbox.to_string(), String::new()).await;
                }
            };
            // Only refusals matter, not the results.
            let _ = tokio::join!(
                self.forward(&name, String::new(), String::new()),
                tokio::time::timeout(REPLY_TIMEOUT, read_back)
            );
        };
        tokio::join!(writing, subscribing);
        self.refusals.error().map_or(Ok(()), Err)
    }

    /// Returns a unique name.
    pub(super) fn unique_name(&self) -> String {
        let inbox = self.context.client().new_inbox();
        inbox.rsplit_once('.').map_or_else(|| inbox.clone(), |(_, name)| name.to_owned())
    }

    /// Returns the maximum payload of a message.
    pub(super) fn limit(&self) -> usize {
        self.context.client().max_payload().saturating_sub(HEADERS).max(HEADERS)
    }

    /// Returns the time since which there is no connection.
    fn disconnected_since(&self) -> Option<Instant> {
        let mut disconnected_since = locked(&self.disconnected_since);
        if self.context.client().connection_state() == State::Connected {
            *disconnected_since = None;
        } else {
            disconnected_since.get_or_insert_with(Instant::now);
        }
        *disconnected_since
    }

    /// Returns the reason why nothing can be written at the moment.
    pub(super) fn problem(&self) -> Option<String> {
        if self.disconnected_since().is_some_and(|since| since.elapsed() >= DISCONNECT_LIMIT) {
            return Some(format!("cannot reach the log at {}", self.servers));
        }
        locked(&self.last_error).clone()
    }

    /// Returns whether several servers have to agree on the order of messages.
    pub(super) fn is_replicated(&self) -> bool {
        self.is_replicated.load(Ordering::Relaxed)
    }

    /// Probes the servers after a failure, and watches the number of replicas, for as long as the connection is used.
    pub(super) fn watch(self: &Arc<Self>) {
        let server = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(PROBE_INTERVAL).await;
                let Some(server) = server.upgrade() else { return };
                let is_well = locked(&server.last_error).is_none();
                if !is_well && server.sessions.put(PROBE_KEY, Vec::new().into()).await.is_ok() {
                    *locked(&server.last_error) = None;
                }
                if let Ok(info) = server.stream.get_info().await {
                    server.is_replicated.store(info.config.num_replicas > 1, Ordering::Relaxed);
                }
            }
        });
    }

    /// Records a failure: writes are refused until a probe succeeds. Returns the text of the error.
    pub(super) fn record_failure(&self, reason: &str) -> String {
        let reason = self.refused().unwrap_or_else(|| reason.to_owned());
        let reason = format!("the log at {} refuses writes: {reason}", self.servers);
        *locked(&self.last_error) = Some(reason.clone());
        reason
    }

    /// Replaces an error by the refusal that caused it, if the servers have reported one.
    pub(super) fn explain(&self, error: LogError) -> LogError {
        self.refusals.error().unwrap_or(error)
    }

    /// Takes the last refusal of the servers.
    pub(super) fn refused(&self) -> Option<String> {
        self.refusals.take_refusal()
    }

    /// Publishes a message with the expected last sequence of its session. Returns its own sequence.
    pub(super) async fn publish(
        &self,
        session: &str,
        message: &Outgoing,
        (hub, fence): (&str, u64),
        last: u64,
    ) -> Result<u64, PublishFailure> {
        let name = message.name(session, fence);
        // Waits once per outage, however many messages there are.
        let begun = self.disconnected_since().unwrap_or_else(Instant::now);
        loop {
            let publish = PublishMessage::build()
                .payload(message.payload.clone())
                .headers(message.headers(hub, fence))
                .message_id(&name)
                .expected_last_subject_sequence(last);
            let published = async { self.context.send_publish(subject(session), publish).await?.await };
            let published = published.await;
            if let Ok(ack) = &published
                && !ack.duplicate
            {
                *locked(&self.last_error) = None;
                return Ok(ack.sequence);
            }
            let is_overtaken = published.as_ref().is_err_and(|error| {
                matches!(
                    error.kind(),
                    PublishErrorKind::WrongLastSequence | PublishErrorKind::WrongLastMessageId
                )
            });
            let reason = match published {
                // The conflict may be caused by the same message, whose acknowledgement was lost.
                Err(_) if is_overtaken => match self.last(session).await {
                    Ok(Some(found)) if has_message_id(&found, &name) => return Ok(found.sequence),
                    Ok(_) => return Err(PublishFailure::Conflict),
                    Err(reason) => reason,
                },
                // A server deduplicates by id from the first time it sees a message, even if it then did not store it.
                Ok(ack) => match self.stream.get_raw_message(ack.sequence).await {
                    Ok(found) if has_message_id(&found, &name) => return Ok(found.sequence),
                    _ => match self.last(session).await {
                        Ok(Some(found)) if has_message_id(&found, &name) => return Ok(found.sequence),
                        Ok(Some(found)) if super::message::fence(&found.headers) > Some(fence) => {
                            return Err(PublishFailure::Conflict);
                        }
                        Ok(_) => "the servers have received the message but not stored it".to_owned(),
                        Err(reason) => reason,
                    },
                },
                Err(error) => {
                    let is_passing = matches!(
                        error.kind(),
                        PublishErrorKind::TimedOut
                            | PublishErrorKind::BrokenPipe
                            | PublishErrorKind::StreamNotFound
                    );
                    let mut reason = error_text(&error);
                    if is_storage_full(&error) {
                        reason += "; increase `jetstream { max_file }` of the NATS server, and check the free space of its `store_dir`";
                    }
                    if !is_passing {
                        return Err(PublishFailure::Unknown(self.record_failure(&reason)));
                    }
                    reason
                }
            };
            if begun.elapsed() >= DURABLE_TIMEOUT {
                return Err(PublishFailure::Unknown(self.record_failure(&reason)));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the last message of a session.
    pub(super) async fn last(&self, session: &str) -> Result<Option<StreamMessage>, String> {
        match self.stream.get_last_raw_message_by_subject(&subject(session)).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(error_text(&error)),
        }
    }

    /// Returns whether a live hub owns a session.
    pub(super) async fn is_owned(&self, session: &str) -> Result<bool, String> {
        let Some(hub) = self.owners.get(session).await.map_err(|error| error_text(&error))? else {
            return Ok(false);
        };
        let hub = String::from_utf8_lossy(&hub);
        let found = self.hubs.get(&*hub).await.map_err(|error| error_text(&error))?;
        Ok(found.is_some())
    }

    /// Removes the records of a session and its metadata.
    pub(super) async fn remove(&self, session: &str) -> Result<(), String> {
        // First the records, which free space: without space, nothing can be written about the session.
        self.stream.purge().filter(subject(session)).await.map_err(|error| error_text(&error))?;
        self.sessions.delete(session).await.map_err(|error| error_text(&error))
    }

    /// Returns the sequence of the last message of the stream.
    pub(super) async fn last_sequence(&self) -> Result<u64, String> {
        let info = self.stream.get_info().await.map_err(|error| error_text(&error))?;
        Ok(info.state.last_sequence)
    }

    /// Reads the records of a session, or of all, between two sequences. The upper limit is necessary because others
    /// keep writing.
    pub(super) async fn read(
        &self,
        session: Option<&str>,
        (from, to): (u64, u64),
        mut take: impl FnMut(Message, u64) -> Result<(), String>,
    ) -> Result<(), String> {
        let filter = subject(session.unwrap_or("*"));
        let mut next = from.max(1);
        let mut progressed = Instant::now();
        while next <= to {
            let policy = DeliverPolicy::ByStartSequence { start_sequence: next };
            let mut refusal = None;
            let read = drain(&self.stream, filter.clone(), policy, |message, pending| {
                let sequence = message.info().map_err(|error| error.to_string())?.stream_sequence;
                if let Err(reason) = take(message, pending) {
                    refusal = Some(reason.clone());
                    return Err(reason);
                }
                (next, progressed) = (sequence + 1, Instant::now());
                Ok(if sequence < to { ReadControl::Continue } else { ReadControl::Stop })
            })
            .await;
            if let Some(reason) = refusal {
                return Err(reason);
            }
            // The server that reported the end may be behind the leader.
            let reason = match read {
                Ok(()) => match self.next_of(&filter, next).await {
                    Ok(more) if more.as_ref().is_none_or(|more| more.sequence > to) => return Ok(()),
                    Ok(_) => "the server is behind the others".to_owned(),
                    Err(reason) => reason,
                },
                Err(reason) => reason,
            };
            if progressed.elapsed() >= DURABLE_TIMEOUT {
                return Err(reason);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Returns the first message from a sequence on.
    async fn next_of(&self, filter: &str, from: u64) -> Result<Option<StreamMessage>, String> {
        match self.stream.raw_message_builder().sequence(from).next_by_subject(filter).send().await {
            Ok(message) => Ok(Some(message)),
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(error_text(&error)),
        }
    }

    /// Returns whether each of these messages of a session directly follows its expected predecessor, so that no other
    /// hub has written in between.
    pub(super) async fn are_consecutive(
        &self,
        session: &str,
        written: &[(u64, u64)],
    ) -> Result<bool, String> {
        let filter = subject(session);
        for (before, sequence) in written {
            match self.next_of(&filter, before + 1).await? {
                Some(next) if next.sequence == *sequence => {}
                Some(_) => return Ok(false),
                // The message was acknowledged, so the server is behind, or it was deleted.
                None => return Err("the server does not have the message".to_owned()),
            }
        }
        Ok(true)
    }

    /// Returns the number of records of a session according to the messages between two sequences; 0 if there are none.
    pub(super) async fn end_between(&self, session: &str, from: u64, to: u64) -> Result<u64, String> {
        let (filter, mut position, mut end) = (subject(session), from + 1, 0);
        while let Some(message) = self.next_of(&filter, position).await?.filter(|found| found.sequence < to) {
            end = end.max(super::message::end(&message.headers).unwrap_or_default());
            position = message.sequence + 1;
        }
        Ok(end)
    }

    /// Passes the metadata of all sessions to `take`.
    pub(super) async fn descriptions(&self, take: impl FnMut(&str, &[u8])) -> Result<(), String> {
        entries(&self.sessions, take).await
    }

    /// Passes the entries of all live hubs to `take`.
    pub(super) async fn hub_entries(&self, take: impl FnMut(&str, &[u8])) -> Result<(), String> {
        entries(&self.hubs, take).await
    }

    /// Returns the stream and the filter for changes of the sessions bucket.
    pub(super) fn descriptions_from(&self) -> (&Stream, String) {
        (&self.sessions.stream, format!("$KV.{SESSIONS}.>"))
    }

    /// Returns the session that such a message deletes.
    pub(super) fn deleted<'m>(&self, message: &'m Message) -> Option<&'m str> {
        let is_gone = message.headers.as_ref().is_some_and(|headers| headers.get(OPERATION).is_some());
        message.subject.strip_prefix(&self.sessions.prefix).filter(|_| is_gone)
    }

    /// Subscribes to the requests that are forwarded to this hub.
    pub(super) async fn requests(&self, name: &str) -> Result<async_nats::Subscriber, String> {
        let subscribed = self.context.client().subscribe(format!("{FORWARD_SUBJECT}{name}")).await;
        subscribed.map_err(|error| error_text(&error))
    }

    /// Forwards a request to another hub. Returns its reply, or `None` after a timeout.
    pub(super) async fn forward(&self, hub: &str, key: String, message: String) -> Option<String> {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert(TICKET, key);
        let request =
            async_nats::Request::new().headers(headers).payload(message.into()).timeout(Some(REPLY_TIMEOUT));
        let answer =
            self.context.client().send_request(format!("{FORWARD_SUBJECT}{hub}"), request).await.ok()?;
        String::from_utf8(answer.payload.to_vec()).ok()
    }

    /// Replies to another hub.
    pub(super) async fn answer(&self, inbox: String, text: String) {
        // A hub without a reply sends its request again.
        let _ = self.context.client().publish(inbox, text.into()).await;
    }
}

/// Passes the current entries of a bucket to `take`.
async fn entries(bucket: &kv::Store, mut take: impl FnMut(&str, &[u8])) -> Result<(), String> {
    let prefix = &bucket.prefix;
    drain(&bucket.stream, format!("{prefix}>"), DeliverPolicy::LastPerSubject, |message, _| {
        let is_gone = message.headers.as_ref().is_some_and(|headers| headers.get(OPERATION).is_some());
        if let Some(id) = message.subject.strip_prefix(prefix.as_str()).filter(|_| !is_gone) {
            take(id, &message.payload);
        }
        Ok(ReadControl::Continue)
    })
    .await
}

/// Control of reading a stream.
enum ReadControl {
    Continue,
    Stop,
}

/// Passes the current messages of a stream to `take`, each with the number of messages after it.
async fn drain(
    stream: &Stream,
    filter: String,
    policy: DeliverPolicy,
    mut take: impl FnMut(Message, u64) -> Result<ReadControl, String>,
) -> Result<(), String> {
    let mut reader = StreamReader::open(stream, filter, policy).await?;
    // Messages that expire or are replaced before they are delivered still count as pending, so the end is not waited
    // for.
    let mut left = reader.pending;
    while left > 0 {
        let next = tokio::time::timeout(REQUEST_TIMEOUT, reader.next()).await;
        let (message, pending) =
            next.map_err(|_| "the server does not respond with its entries".to_owned())??;
        left = match take(message, pending)? {
            ReadControl::Continue => pending.min(left - 1),
            ReadControl::Stop => 0,
        };
    }
    Ok(())
}

/// Returns whether the servers refuse a message because they are full.
fn is_storage_full(error: &PublishError) -> bool {
    let codes = [
        ErrorCode::INSUFFICIENT_RESOURCES,
        ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ErrorCode::STREAM_STORE_FAILED,
    ];
    let source = std::error::Error::source(error);
    let told = source.and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>());
    told.is_some_and(|told| codes.contains(&told.error_code()))
}

pub(super) fn has_message_id(message: &StreamMessage, name: &str) -> bool {
    message.headers.get(async_nats::header::NATS_MESSAGE_ID).is_some_and(|found| found.as_str() == name)
}

/// Returns the text of an error and its causes.
pub(super) fn error_text(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        source = error.source();
    }
    words
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

const NOT_ENABLED: &str = "JetStream is not enabled on the NATS server";
const ENABLE: &str =
    "start it with `nats-server --jetstream`, or set `jetstream {}` in its configuration and for the account";

const NO_ANSWER: &str = "JetStream on the NATS server does not respond";
const MAJORITY: &str =
    "a majority of the cluster's servers must run and reach each other at `cluster { listen }`";

/// Opens or creates the stream of records.
async fn stream(context: &Context, replicas: usize) -> Result<Stream, LogError> {
    let wanted = Config {
        name: STREAM.to_owned(),
        description: Some("The sessions of switchboard hubs".to_owned()),
        subjects: vec![subject("*")],
        retention: RetentionPolicy::Limits,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: replicas,
        ..Config::default()
    };
    let mut stream =
        context.get_or_create_stream(wanted.clone()).await.map_err(|error| match error.kind() {
            CreateStreamErrorKind::JetStreamUnavailable => LogError::new(NOT_ENABLED, ENABLE),
            CreateStreamErrorKind::TimedOut => LogError::new(NO_ANSWER, MAJORITY),
            _ => setup_error(&format!("the stream {STREAM}"), &error_text(&error), replicas),
        })?;
    let found =
        &stream.info().await.map_err(|error| setup_error(STREAM, &error_text(&error), replicas))?.config;
    let differs = [
        ("subjects", format!("{:?}", wanted.subjects), format!("{:?}", found.subjects)),
        ("retention", format!("{:?}", wanted.retention), format!("{:?}", found.retention)),
        ("discard", format!("{:?}", wanted.discard), format!("{:?}", found.discard)),
        ("storage", format!("{:?}", wanted.storage), format!("{:?}", found.storage)),
        ("max_age", "0ns".to_owned(), format!("{:?}", found.max_age)),
        ("max_msgs", "-1".to_owned(), found.max_messages.to_string()),
        ("max_msgs_per_subject", "-1".to_owned(), found.max_messages_per_subject.to_string()),
        ("max_msg_size", "-1".to_owned(), found.max_message_size.to_string()),
        ("no_ack", "false".to_owned(), found.no_ack.to_string()),
        ("sealed", "false".to_owned(), found.sealed.to_string()),
        ("deny_purge", "false".to_owned(), found.deny_purge.to_string()),
    ];
    match differs.into_iter().find(|(_, wanted, found)| wanted != found) {
        None => Ok(stream),
        Some((setting, wanted, found)) => Err(LogError::new(
            format!("the stream {STREAM} has the setting {setting} {found} instead of {wanted}"),
            format!("change it with `nats stream edit {STREAM}`; records could be lost otherwise"),
        )),
    }
}

/// Opens or creates a bucket. The client library's own function is not used: it sends servers of version 2.9 a request
/// whose response it does not understand, and reads from servers that may be behind.
async fn bucket(
    context: &Context,
    name: &str,
    max_age: Duration,
    replicas: usize,
) -> Result<kv::Store, LogError> {
    let wanted = Config {
        name: format!("KV_{name}"),
        subjects: vec![format!("$KV.{name}.>")],
        max_messages_per_subject: 1,
        max_age,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: replicas,
        allow_rollup: true,
        deny_delete: true,
        ..Config::default()
    };
    let failed = |reason: &str| setup_error(&format!("the bucket {name}"), reason, replicas);
    context.get_or_create_stream(wanted).await.map_err(|error| failed(&error_text(&error)))?;
    context.get_key_value(name).await.map_err(|error| failed(&error_text(&error)))
}

fn setup_error(what: &str, reason: &str, replicas: usize) -> LogError {
    let problem = format!("cannot create {what} on the NATS server: {reason}");
    let hint = if reason.contains("not enabled") {
        ENABLE.to_owned()
    } else if replicas > 1 {
        format!(
            "a cluster needs {replicas} servers with JetStream, and free space in `jetstream {{ store_dir }}`"
        )
    } else {
        "check that the account may use JetStream and that `jetstream { store_dir }` has free space"
            .to_owned()
    };
    LogError::new(problem, hint)
}
