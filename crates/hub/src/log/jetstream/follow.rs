//! What other hubs do: the records that they write come into the store and are told, as are sessions that they begin or delete,
//! and what they pass on to this one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::DeliverPolicy;
use futures_util::StreamExt;
use switchboard_store::{Record, Store};
use tokio::sync::mpsc;

use super::message::{Assembler, hub};
use super::reading::Reading;
use super::server::{Server, locked, session_of};
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
            let from = DeliverPolicy::ByStartSequence { start_sequence: place.sequence + 1 };
            let opened = Reading::open(&self.server.stream, super::server::subject("*"), from).await;
            let Ok(mut messages) = opened else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let mut is_broken = false;
            while !is_broken {
                let mut portion = Vec::new();
                match tokio::time::timeout(NOTE, messages.next()).await {
                    Ok(Ok((message, _))) => portion.push(message),
                    Ok(Err(_)) => is_broken = true,
                    Err(_) => {}
                }
                while !is_broken
                    && portion.len() < PORTION
                    && let Some(next) = messages.next_now()
                {
                    match next {
                        Ok((message, _)) => portion.push(message),
                        Err(_) => is_broken = true,
                    }
                }
                if self.take(&portion, &mut place, &mut known).await.is_err() {
                    return;
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
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Takes messages: first into the store, then they are told. What cannot be kept now is copied later.
    async fn take(
        &self,
        portion: &[Message],
        place: &mut Place,
        known: &mut HashMap<SessionId, (Assembler, Instant)>,
    ) -> Result<(), Ended> {
        let mut news: Vec<(SessionId, Arc<str>, Vec<Record>)> = Vec::new();
        for message in portion {
            let Ok(sequence) = message.info().map(|info| info.stream_sequence) else { continue };
            place.sequence = sequence;
            let Some(session) = session_of(&message.subject).map(SessionId::from) else { continue };
            if !known.contains_key(&session) && !self.knows(&session).await? {
                continue;
            }
            let no_headers = HeaderMap::new();
            let headers = message.headers.as_ref().unwrap_or(&no_headers);
            let (assembler, at) =
                known.entry(Arc::clone(&session)).or_insert_with(|| (Assembler::default(), Instant::now()));
            *at = Instant::now();
            if locked(&self.writers).see(&self.name, &session, sequence, headers) {
                assembler.pass_over(headers, &message.payload);
                continue;
            }
            let records = assembler.take(headers, &message.payload).unwrap_or_default();
            let by = hub(headers).unwrap_or_default();
            let kept = locked(&self.local).take(&session, &records);
            if kept.is_err() && view::copy(&self.server, &self.local, &session, sequence).await.is_err() {
                locked(&self.writers).unsure.insert(session);
                continue;
            }
            let hub: Arc<str> = by.into();
            match news.last_mut() {
                Some((of, by, more)) if *of == session && *by == hub => more.extend(records),
                _ => news.push((session, hub, records)),
            }
        }
        if news.is_empty() {
            return Ok(());
        }
        let failed = locked(&self.local).write();
        news.retain(|(session, ..)| failed.iter().all(|(failed, _)| failed != session));
        locked(&self.writers).unsure.extend(failed.into_iter().map(|(session, _)| session));
        for (session, hub, records) in news {
            self.tell(News::Records { session, hub, records }).await?;
        }
        Ok(())
    }

    /// Copies what the store may not have: what this hub may have written without hearing so, and passed over when it came
    /// back as its own, and what could not be kept when it came.
    async fn look_at_unsure(&self) -> Result<(), Ended> {
        let unsure: Vec<SessionId> = locked(&self.writers).unsure.iter().cloned().collect();
        for session in unsure {
            if !self.knows(&session).await? {
                continue;
            }
            // Taking it over has copied it.
            let is_written = locked(&self.writers).known.contains_key(&session);
            let copied = if is_written { Ok(None) } else { self.copy_all(&session).await };
            let copied = match copied {
                Ok(copied) => copied,
                // The servers are away: later.
                Err(_) if self.server.problem().is_some() => return Ok(()),
                Err(_) => continue,
            };
            locked(&self.writers).unsure.remove(&session);
            if let Some((hub, record)) = copied {
                self.tell(News::Records { session, hub, records: vec![record] }).await?;
            }
        }
        Ok(())
    }

    /// Copies all that there is of a session. Gives its last record, and the hub that has written to it last.
    async fn copy_all(&self, session: &SessionId) -> Result<Option<(Arc<str>, Record)>, String> {
        let Some(last) = self.server.last(session).await? else { return Ok(None) };
        let by: Arc<str> = hub(&last.headers).unwrap_or_default().into();
        let copied = view::copy(&self.server, &self.local, session, last.sequence).await?;
        Ok(copied.last.map(|record| (by, record)))
    }

    async fn tell(&self, news: News) -> Result<(), Ended> {
        self.events.send(Event::News(news)).await.map_err(|_| Ended)
    }

    /// Whether there is such a session; one that another hub has just begun comes into the store. Where that cannot be found
    /// out it is looked at later.
    async fn knows(&self, session: &SessionId) -> Result<bool, Ended> {
        if self.store.hosted(session).is_ok_and(|hosted| hosted.is_some()) {
            return Ok(true);
        }
        let Ok(text) = self.server.sessions.get(&**session).await else {
            locked(&self.writers).unsure.insert(Arc::clone(session));
            return Ok(false);
        };
        let Some(known) = text.and_then(|text| super::description(session, &text)) else {
            locked(&self.writers).unsure.remove(session);
            return Ok(false);
        };
        if view::mirror(&self.store, session, &known).is_err() {
            locked(&self.writers).unsure.insert(Arc::clone(session));
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
            if let Ok(mut messages) = Reading::open(stream, filter, DeliverPolicy::LastPerSubject).await {
                while let Ok((message, _)) = messages.next().await {
                    let Some(id) = self.server.deleted(&message) else { continue };
                    if self.store.hosted(id).is_ok_and(|hosted| hosted.is_some()) {
                        let id = SessionId::from(id);
                        locked(&self.writers).known.remove(&id);
                        let removed = locked(&self.local).remove(&id);
                        removed.await;
                    }
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
