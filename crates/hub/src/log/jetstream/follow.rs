//! What other hubs do: the records that they write come into the store and are told, as are sessions that they begin or delete,
//! and what they pass on to this one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use async_nats::jetstream::stream::Stream;
use futures_util::{FutureExt, StreamExt};
use switchboard_store::{Record, Store};
use tokio::sync::mpsc;

use super::message::{Assembler, fence, hub};
use super::server::{Server, in_words, locked, session_of};
use super::view::{self, Place};
use super::{LocalLog, Writers};
use crate::core::SessionId;
use crate::log::{News, SessionLog};
use crate::service::Event;

/// How many messages are taken at once.
const PORTION: usize = 256;
/// After how long without records the recorder of a session that another hub writes is closed.
const QUIET: Duration = Duration::from_secs(30);
/// How often it is written down how far the store is.
const NOTE: Duration = Duration::from_secs(2);
/// How long to wait before what has failed is tried again.
const PAUSE: Duration = Duration::from_millis(250);

/// Who takes what other hubs do.
pub(super) struct Follower {
    pub(super) name: Arc<str>,
    pub(super) server: Arc<Server>,
    pub(super) store: Store,
    pub(super) local: Arc<Mutex<LocalLog>>,
    pub(super) writers: Arc<Mutex<Writers>>,
    pub(super) events: mpsc::Sender<Event>,
}

/// Whoever is told has ended.
struct Ended;

impl Follower {
    /// Follows what is written, until the hub ends.
    pub(super) async fn records(self: Arc<Self>) {
        let Some(mut place) = Place::read(&self.store) else { return };
        let mut known: HashMap<SessionId, (Assembler, Instant)> = HashMap::new();
        let mut noted = Instant::now();
        loop {
            let policy = DeliverPolicy::ByStartSequence { start_sequence: place.sequence + 1 };
            let opened = open(&self.server.stream, super::server::subject("*"), policy).await;
            let Ok(mut messages) = opened else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            loop {
                let next = tokio::time::timeout(NOTE, messages.next()).await;
                let mut portion = Vec::new();
                match next {
                    Ok(Some(Ok(message))) => portion.push(message),
                    Ok(_) => break,
                    Err(_) => {}
                }
                let mut is_broken = false;
                while portion.len() < PORTION
                    && let Some(next) = messages.next().now_or_never()
                {
                    match next {
                        Some(Ok(message)) => portion.push(message),
                        _ => {
                            is_broken = true;
                            break;
                        }
                    }
                }
                match self.take(&portion, &mut known).await {
                    Ok(Some(last)) => place.sequence = last,
                    Ok(None) => {}
                    Err(Ended) => return,
                }
                if noted.elapsed() >= NOTE {
                    noted = Instant::now();
                    // The next start reads more than it needs to, where this fails.
                    let _ = place.write(&self.store);
                    if self.look_at_unsure().await.is_err() {
                        return;
                    }
                    self.close_quiet(&mut known);
                }
                if is_broken {
                    break;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Takes messages: first into the store, then they are told. Gives the number of the last one.
    async fn take(
        &self,
        portion: &[Message],
        known: &mut HashMap<SessionId, (Assembler, Instant)>,
    ) -> Result<Option<u64>, Ended> {
        let mut last = None;
        let mut news: Vec<(SessionId, Arc<str>, Vec<Record>)> = Vec::new();
        for message in portion {
            last = message.info().ok().map(|info| info.stream_sequence).or(last);
            let Some(session) = session_of(&message.subject).map(SessionId::from) else { continue };
            if !known.contains_key(&session) && !self.knows(&session).await? {
                continue;
            }
            let no_headers = HeaderMap::new();
            let headers = message.headers.as_ref().unwrap_or(&no_headers);
            let (assembler, at) =
                known.entry(Arc::clone(&session)).or_insert_with(|| (Assembler::default(), Instant::now()));
            *at = Instant::now();
            let records = assembler.take(headers, &message.payload).unwrap_or_default();
            let by = hub(headers).unwrap_or_default();
            if self.is_at_hand(&session, by, fence(headers).unwrap_or_default()) {
                continue;
            }
            let kept = locked(&self.local).take(&session, &records);
            if kept.is_err() && view::copy(&self.server, &self.local, &session).await.is_err() {
                // It is read anew when somebody wants to write it.
                continue;
            }
            let hub: Arc<str> = by.into();
            match news.last_mut() {
                Some((of, by, more)) if *of == session && *by == hub => more.extend(records),
                _ => news.push((session, hub, records)),
            }
        }
        if news.is_empty() {
            return Ok(last);
        }
        // Those that cannot be written are copied when somebody wants them.
        let _ = locked(&self.local).write();
        for (session, hub, records) in news {
            self.tell(News::Records { session, hub, records }).await?;
        }
        Ok(last)
    }

    /// Whether this hub has what a message says, because it writes the session. It does not any more where another one has
    /// written under a larger number.
    fn is_at_hand(&self, session: &SessionId, by: &str, fence: u64) -> bool {
        let mut writers = locked(&self.writers);
        let Some(writer) = writers.known.get(session) else { return false };
        if by == &*self.name || fence < writer.fence {
            return true;
        }
        writers.known.remove(session);
        writers.lost.push((Arc::clone(session), "another hub has gone on with it".to_owned()));
        false
    }

    /// Copies what this hub may have written without hearing so: what came back of it was passed over as its own.
    async fn look_at_unsure(&self) -> Result<(), Ended> {
        let unsure: Vec<SessionId> = locked(&self.writers).unsure.iter().cloned().collect();
        for session in unsure {
            let is_written = locked(&self.writers).known.contains_key(&session);
            let copied = match is_written {
                // Taking it over has copied it.
                true => Ok(None),
                false => view::copy(&self.server, &self.local, &session).await,
            };
            // The servers are away: later.
            let Ok(last) = copied else { return Ok(()) };
            locked(&self.writers).unsure.remove(&session);
            if let Some(record) = last {
                self.tell(News::Records { session, hub: Arc::clone(&self.name), records: vec![record] })
                    .await?;
            }
        }
        Ok(())
    }

    async fn tell(&self, news: News) -> Result<(), Ended> {
        self.events.send(Event::News(news)).await.map_err(|_| Ended)
    }

    /// Whether there is such a session; one that another hub has just begun comes into the store.
    async fn knows(&self, session: &SessionId) -> Result<bool, Ended> {
        if self.store.hosted(session).is_ok_and(|hosted| hosted.is_some()) {
            return Ok(true);
        }
        let text = self.server.sessions.get(&**session).await.ok().flatten();
        let Some(known) = text.and_then(|text| super::description(session, &text)) else { return Ok(false) };
        if view::mirror(&self.store, session, &known).is_err() {
            return Ok(false);
        }
        self.tell(News::Began(known)).await?;
        Ok(true)
    }

    fn close_quiet(&self, known: &mut HashMap<SessionId, (Assembler, Instant)>) {
        let writers = locked(&self.writers);
        let mut local = locked(&self.local);
        known.retain(|session, (_, at)| {
            let is_quiet = at.elapsed() >= QUIET;
            if is_quiet && !writers.known.contains_key(session) {
                local.rest(session);
            }
            !is_quiet
        });
    }

    /// Follows which sessions are deleted, until the hub ends.
    pub(super) async fn deletions(self: Arc<Self>) {
        while !self.events.is_closed() {
            let (stream, filter) = self.server.descriptions_from();
            let Ok(mut messages) = open(stream, filter, DeliverPolicy::LastPerSubject).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            while let Some(Ok(message)) = messages.next().await {
                let Some(id) = self.server.deleted(&message) else { continue };
                if self.store.hosted(id).is_ok_and(|hosted| hosted.is_some()) {
                    let id = SessionId::from(id);
                    locked(&self.writers).known.remove(&id);
                    let removed = locked(&self.local).remove(&id);
                    removed.await;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Takes what other hubs pass on to this one, until the hub ends.
    pub(super) async fn requests(self: Arc<Self>) {
        while !self.events.is_closed() {
            let Ok(mut requests) = self.server.requests(&self.name).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            while let Some(request) = requests.next().await {
                let key = request.headers.as_ref().and_then(|headers| headers.get(super::server::TICKET));
                let (Some(key), Some(inbox)) = (key, &request.reply) else { continue };
                let Ok(message) = String::from_utf8(request.payload.to_vec()) else { continue };
                let asked = News::Asked { key: key.to_string(), inbox: inbox.to_string(), message };
                if self.tell(asked).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn open(stream: &Stream, filter: String, policy: DeliverPolicy) -> Result<Ordered, String> {
    let config = OrderedConfig { filter_subject: filter, deliver_policy: policy, ..OrderedConfig::default() };
    let consumer = stream.create_consumer(config).await.map_err(|error| in_words(&error))?;
    consumer.messages().await.map_err(|error| in_words(&error))
}
