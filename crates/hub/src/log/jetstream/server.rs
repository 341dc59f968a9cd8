//! The NATS servers that keep the logs: how they are reached, and that they are what is needed.

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
use super::reading::Reading;
use crate::log::servers::{JetStreamOptions, LogError};

/// The stream with the records of all sessions.
pub(super) const STREAM: &str = "SWITCHBOARD";
/// Before the id of a session: the subject of its records.
const SUBJECT: &str = "switchboard.log.";
/// The bucket that says which sessions there are, and whose.
const SESSIONS: &str = "switchboard-sessions";
/// The bucket that says which hub writes a session.
const OWNERS: &str = "switchboard-owners";
/// The bucket that says which hubs are there.
const HUBS: &str = "switchboard-hubs";
/// After how long the servers forget a hub that says nothing.
pub(super) const LEASE: Duration = Duration::from_secs(6);
/// Before the name of a hub: the subject of what others pass on to it.
const PASSED_ON: &str = "switchboard.hub.";
/// The name of what is passed on.
pub(super) const TICKET: &str = "Switchboard-Ticket";
/// How long another hub may take to answer before it is asked again.
const ANSWER: Duration = Duration::from_secs(2);
/// How many servers keep each record, where there are several.
const REPLICAS: usize = 3;
/// How long one request may take.
pub(super) const REQUEST: Duration = Duration::from_secs(5);
/// How long it is tried to make a message safe. Servers that elect a new leader need some of it.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is tried, after a failure, whether the servers take something again.
const PROBE: Duration = Duration::from_secs(1);
/// The key that is written for that.
const PROBED: &str = "_probe";
/// How long a connection may be away before what needs it is refused.
const AWAY: Duration = Duration::from_secs(2);
/// The header of what is no value of a bucket any more.
const OPERATION: &str = "KV-Operation";
/// What headers may take of the largest message.
const HEADERS: usize = 1024;

/// Why a message is not in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotWritten {
    /// Somebody else has written to the session.
    Overtaken,
    /// It may be there, or not.
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
    /// What was wrong when something was last tried.
    trouble: Mutex<Option<String>>,
    /// Since when there is no connection.
    away: Mutex<Option<Instant>>,
    is_replicated: AtomicBool,
    refusals: Refusals,
}

pub(super) fn subject(session: &str) -> String {
    format!("{SUBJECT}{session}")
}

/// The session of a subject.
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

    /// Sees to it that the servers have what is needed.
    async fn prepare(client: Client, servers: String, refusals: Refusals) -> Result<Self, LogError> {
        let info = client.server_info();
        let context = ContextBuilder::new().timeout(REQUEST).build(client);
        let replicas = if info.cluster.is_some() { REPLICAS } else { 1 };
        let stream = stream(&context, replicas).await?;
        let sessions = bucket(&context, SESSIONS, Duration::ZERO, replicas).await?;
        let owners = bucket(&context, OWNERS, Duration::ZERO, replicas).await?;
        let hubs = bucket(&context, HUBS, LEASE, replicas).await?;
        let is_replicated = AtomicBool::new(stream.cached_info().config.num_replicas > 1);
        let server = Server {
            servers,
            context,
            stream,
            sessions,
            owners,
            hubs,
            trouble: Mutex::default(),
            away: Mutex::default(),
            is_replicated,
            refusals,
        };
        server.check_permissions().await?;
        Ok(server)
    }

    /// Sees to it that the servers let this hub write, and hear what others pass on to it. What they do not let it they leave
    /// without an answer.
    async fn check_permissions(&self) -> Result<(), LogError> {
        let buckets = [SESSIONS, OWNERS, HUBS].map(|bucket| format!("$KV.{bucket}.{PROBED}"));
        let writing = join_all([subject(PROBED)].into_iter().chain(buckets).map(|subject| async {
            // Nothing comes of it: it is for a stream that is not there.
            let nothing = PublishMessage::build().expected_stream(PROBED);
            if let Ok(answer) = self.context.send_publish(subject, nothing).await {
                let _ = answer.await;
            }
        }));
        let hearing = async {
            let name = self.unique_name();
            let Ok(mut requests) = self.requests(&name).await else { return };
            let echo = async {
                if let Some(inbox) = requests.next().await.and_then(|request| request.reply) {
                    self.answer(inbox.to_string(), String::new()).await;
                }
            };
            // What matters is what the servers say to it.
            let _ = tokio::join!(
                self.pass_on(&name, String::new(), String::new()),
                tokio::time::timeout(ANSWER, echo)
            );
        };
        tokio::join!(writing, hearing);
        self.refusals.error().map_or(Ok(()), Err)
    }

    /// A name that nobody else has.
    pub(super) fn unique_name(&self) -> String {
        let inbox = self.context.client().new_inbox();
        inbox.rsplit_once('.').map_or_else(|| inbox.clone(), |(_, name)| name.to_owned())
    }

    /// The largest payload that the server takes.
    pub(super) fn limit(&self) -> usize {
        self.context.client().max_payload().saturating_sub(HEADERS).max(HEADERS)
    }

    /// Since when there is no connection.
    fn away(&self) -> Option<Instant> {
        let mut away = locked(&self.away);
        if self.context.client().connection_state() == State::Connected {
            *away = None;
        } else {
            away.get_or_insert_with(Instant::now);
        }
        *away
    }

    /// Why nothing can be written at the moment.
    pub(super) fn problem(&self) -> Option<String> {
        if self.away().is_some_and(|since| since.elapsed() >= AWAY) {
            return Some(format!("the log at {} cannot be reached", self.servers));
        }
        locked(&self.trouble).clone()
    }

    /// Whether several servers have to agree on the order of messages, or one decides by itself.
    pub(super) fn is_replicated(&self) -> bool {
        self.is_replicated.load(Ordering::Relaxed)
    }

    /// Finds out when the servers take something again, for as long as somebody uses this, and whether somebody has changed how
    /// many keep the stream.
    pub(super) fn watch(self: &Arc<Self>) {
        let server = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(PROBE).await;
                let Some(server) = server.upgrade() else { return };
                let is_well = locked(&server.trouble).is_none();
                if !is_well && server.sessions.put(PROBED, Vec::new().into()).await.is_ok() {
                    *locked(&server.trouble) = None;
                }
                if let Ok(info) = server.stream.get_info().await {
                    server.is_replicated.store(info.config.num_replicas > 1, Ordering::Relaxed);
                }
            }
        });
    }

    /// Something did not succeed: nothing is begun until the servers take something again. Gives it in words.
    pub(super) fn fault(&self, reason: &str) -> String {
        let reason = self.refused().unwrap_or_else(|| reason.to_owned());
        let reason = format!("the log at {} does not take it: {reason}", self.servers);
        *locked(&self.trouble) = Some(reason.clone());
        reason
    }

    /// What is behind an error, where the servers have said it beside.
    pub(super) fn explain(&self, error: LogError) -> LogError {
        self.refusals.error().unwrap_or(error)
    }

    /// What the servers do not let this hub do, where that was just found out.
    pub(super) fn refused(&self) -> Option<String> {
        self.refusals.news()
    }

    /// Publishes a message, which is to be the one behind that of this number in the stream. Gives its own number.
    pub(super) async fn publish(
        &self,
        session: &str,
        message: &Outgoing,
        (hub, fence): (&str, u64),
        last: u64,
    ) -> Result<u64, NotWritten> {
        let name = message.name(session, fence);
        // Once for each time that the servers are away, however much there is to write.
        let begun = self.away().unwrap_or_else(Instant::now);
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
                *locked(&self.trouble) = None;
                return Ok(ack.sequence);
            }
            let is_overtaken = published.as_ref().is_err_and(|error| {
                matches!(
                    error.kind(),
                    PublishErrorKind::WrongLastSequence | PublishErrorKind::WrongLastMessageId
                )
            });
            let reason = match published {
                // Perhaps by the same message, of which no answer came.
                Err(_) if is_overtaken => match self.last(session).await {
                    Ok(Some(found)) if is_named(&found, &name) => return Ok(found.sequence),
                    Ok(_) => return Err(NotWritten::Overtaken),
                    Err(reason) => reason,
                },
                // A server knows a message from the moment in which it first sees it, also where it then does not keep it.
                Ok(ack) => match self.stream.get_raw_message(ack.sequence).await {
                    Ok(found) if is_named(&found, &name) => return Ok(found.sequence),
                    _ => match self.last(session).await {
                        Ok(Some(found)) if is_named(&found, &name) => return Ok(found.sequence),
                        Ok(Some(found)) if super::message::fence(&found.headers) > Some(fence) => {
                            return Err(NotWritten::Overtaken);
                        }
                        Ok(_) => "the servers have seen it, and have not kept it".to_owned(),
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
                    let mut reason = in_words(&error);
                    if is_without_room(&error) {
                        reason += "; it needs more room, by `jetstream { max_file }` of the NATS server and on the disk of its `store_dir`";
                    }
                    if !is_passing {
                        return Err(NotWritten::Unknown(self.fault(&reason)));
                    }
                    reason
                }
            };
            if begun.elapsed() >= PATIENCE {
                return Err(NotWritten::Unknown(self.fault(&reason)));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The last message of a session.
    pub(super) async fn last(&self, session: &str) -> Result<Option<StreamMessage>, String> {
        match self.stream.get_last_raw_message_by_subject(&subject(session)).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(in_words(&error)),
        }
    }

    /// Whether a hub that is there writes a session.
    pub(super) async fn is_written(&self, session: &str) -> Result<bool, String> {
        let Some(hub) = self.owners.get(session).await.map_err(|error| in_words(&error))? else {
            return Ok(false);
        };
        let hub = String::from_utf8_lossy(&hub);
        let found = self.hubs.get(&*hub).await.map_err(|error| in_words(&error))?;
        Ok(found.is_some())
    }

    /// Removes the records of a session, and what says that there is one.
    pub(super) async fn remove(&self, session: &str) -> Result<(), String> {
        // First what takes room, since without any nothing can be said about the session.
        self.stream.purge().filter(subject(session)).await.map_err(|error| in_words(&error))?;
        self.sessions.delete(session).await.map_err(|error| in_words(&error))
    }

    /// The number of the last message of the stream.
    pub(super) async fn last_of_all(&self) -> Result<u64, String> {
        let info = self.stream.get_info().await.map_err(|error| in_words(&error))?;
        Ok(info.state.last_sequence)
    }

    /// The records of a session, or of all, from one number in the stream to another; what others write meanwhile would
    /// have no end.
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
                Ok(if sequence < to { Flow::On } else { Flow::Enough })
            })
            .await;
            if let Some(reason) = refusal {
                return Err(reason);
            }
            // Whoever told that there is no more may be behind the others; the leader is not.
            let reason = match read {
                Ok(()) => match self.next_of(&filter, next).await {
                    Ok(more) if more.as_ref().is_none_or(|more| more.sequence > to) => return Ok(()),
                    Ok(_) => "the server is behind the others".to_owned(),
                    Err(reason) => reason,
                },
                Err(reason) => reason,
            };
            if progressed.elapsed() >= PATIENCE {
                return Err(reason);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// The first message from a number on.
    async fn next_of(&self, filter: &str, from: u64) -> Result<Option<StreamMessage>, String> {
        match self.stream.raw_message_builder().sequence(from).next_by_subject(filter).send().await {
            Ok(message) => Ok(Some(message)),
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => Ok(None),
            Err(error) => Err(in_words(&error)),
        }
    }

    /// Whether each of these messages of a session comes next behind the one that it is to follow: nobody else has written between
    /// them.
    pub(super) async fn follow_each_other(
        &self,
        session: &str,
        written: &[(u64, u64)],
    ) -> Result<bool, String> {
        let filter = subject(session);
        for (before, sequence) in written {
            match self.next_of(&filter, before + 1).await? {
                Some(next) if next.sequence == *sequence => {}
                Some(_) => return Ok(false),
                // It was taken, so whoever answers is behind, or it was deleted.
                None => return Err("the server does not have it".to_owned()),
            }
        }
        Ok(true)
    }

    /// How many records a session has by the messages between two numbers; 0 where there are none.
    pub(super) async fn end_between(&self, session: &str, from: u64, to: u64) -> Result<u64, String> {
        let (filter, mut place, mut end) = (subject(session), from + 1, 0);
        while let Some(message) = self.next_of(&filter, place).await?.filter(|found| found.sequence < to) {
            end = end.max(super::message::end(&message.headers).unwrap_or_default());
            place = message.sequence + 1;
        }
        Ok(end)
    }

    /// The sessions that there are.
    pub(super) async fn descriptions(&self, take: impl FnMut(&str, &[u8])) -> Result<(), String> {
        entries(&self.sessions, take).await
    }

    /// The hubs that are there.
    pub(super) async fn hub_entries(&self, take: impl FnMut(&str, &[u8])) -> Result<(), String> {
        entries(&self.hubs, take).await
    }

    /// Where it stands which sessions there are, and which are deleted.
    pub(super) fn descriptions_from(&self) -> (&Stream, String) {
        (&self.sessions.stream, format!("$KV.{SESSIONS}.>"))
    }

    /// The session that a message from there says is deleted.
    pub(super) fn deleted<'m>(&self, message: &'m Message) -> Option<&'m str> {
        let is_gone = message.headers.as_ref().is_some_and(|headers| headers.get(OPERATION).is_some());
        message.subject.strip_prefix(&self.sessions.prefix).filter(|_| is_gone)
    }

    /// What other hubs pass on to the hub of this name.
    pub(super) async fn requests(&self, name: &str) -> Result<async_nats::Subscriber, String> {
        let subscribed = self.context.client().subscribe(format!("{PASSED_ON}{name}")).await;
        subscribed.map_err(|error| in_words(&error))
    }

    /// Passes something on to another hub, and gives what it answers in time.
    pub(super) async fn pass_on(&self, hub: &str, key: String, message: String) -> Option<String> {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert(TICKET, key);
        let request =
            async_nats::Request::new().headers(headers).payload(message.into()).timeout(Some(ANSWER));
        let answer = self.context.client().send_request(format!("{PASSED_ON}{hub}"), request).await.ok()?;
        String::from_utf8(answer.payload.to_vec()).ok()
    }

    /// Answers another hub.
    pub(super) async fn answer(&self, inbox: String, text: String) {
        // Who did not get it asks again.
        let _ = self.context.client().publish(inbox, text.into()).await;
    }
}

/// What a bucket has at this moment.
async fn entries(bucket: &kv::Store, mut take: impl FnMut(&str, &[u8])) -> Result<(), String> {
    let prefix = &bucket.prefix;
    drain(&bucket.stream, format!("{prefix}>"), DeliverPolicy::LastPerSubject, |message, _| {
        let is_gone = message.headers.as_ref().is_some_and(|headers| headers.get(OPERATION).is_some());
        if let Some(id) = message.subject.strip_prefix(prefix.as_str()).filter(|_| !is_gone) {
            take(id, &message.payload);
        }
        Ok(Flow::On)
    })
    .await
}

/// Whether more is wanted of a stream.
enum Flow {
    On,
    Enough,
}

/// Reads what a stream has at this moment, each message with how many follow.
async fn drain(
    stream: &Stream,
    filter: String,
    policy: DeliverPolicy,
    mut take: impl FnMut(Message, u64) -> Result<Flow, String>,
) -> Result<(), String> {
    let mut reading = Reading::open(stream, filter, policy).await?;
    // What is forgotten or replaced before it is told still counts as to come: nobody may wait for it.
    let mut left = reading.pending;
    while left > 0 {
        let next = tokio::time::timeout(REQUEST, reading.next()).await;
        let (message, pending) = next.map_err(|_| "the server does not tell what it has".to_owned())??;
        left = match take(message, pending)? {
            Flow::On => pending.min(left - 1),
            Flow::Enough => 0,
        };
    }
    Ok(())
}

/// Whether servers do not take something because they are full.
fn is_without_room(error: &PublishError) -> bool {
    let codes = [
        ErrorCode::INSUFFICIENT_RESOURCES,
        ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ErrorCode::STREAM_STORE_FAILED,
    ];
    let source = std::error::Error::source(error);
    let told = source.and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>());
    told.is_some_and(|told| codes.contains(&told.error_code()))
}

pub(super) fn is_named(message: &StreamMessage, name: &str) -> bool {
    message.headers.get(async_nats::header::NATS_MESSAGE_ID).is_some_and(|found| found.as_str() == name)
}

/// What an error says, with what it is made of.
pub(super) fn in_words(error: &dyn std::error::Error) -> String {
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

const NOT_ENABLED: &str = "JetStream is not enabled at the NATS server";
const ENABLE: &str =
    "start it with `nats-server --jetstream`, or set `jetstream {}` in its configuration and for the account";

const NO_ANSWER: &str = "JetStream at the NATS server does not answer";
const MAJORITY: &str =
    "most servers of a cluster must run and reach each other at their `cluster { listen }`";

/// The stream for the records, which is made where it is not there.
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
            _ => not_made(&format!("the stream {STREAM}"), &in_words(&error), replicas),
        })?;
    let found = &stream.info().await.map_err(|error| not_made(STREAM, &in_words(&error), replicas))?.config;
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
            format!("change it with `nats stream edit {STREAM}`; records could be lost with it"),
        )),
    }
}

/// A bucket, which is made where it is not there. Not as the client would: that asks servers of version 2.9 something that it
/// does not understand the answer of, and reads from servers that may be behind.
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
    let failed = |reason: &str| not_made(&format!("the bucket {name}"), reason, replicas);
    context.get_or_create_stream(wanted).await.map_err(|error| failed(&in_words(&error)))?;
    context.get_key_value(name).await.map_err(|error| failed(&in_words(&error)))
}

fn not_made(what: &str, reason: &str, replicas: usize) -> LogError {
    let problem = format!("{what} cannot be made at the NATS server: {reason}");
    let hint = if reason.contains("not enabled") {
        ENABLE.to_owned()
    } else if replicas > 1 {
        format!("a cluster needs {replicas} servers with JetStream, and room in `jetstream {{ store_dir }}`")
    } else {
        "see that the account may use JetStream and that there is room in `jetstream { store_dir }`"
            .to_owned()
    };
    LogError::new(problem, hint)
}
