//! Following other hubs: copies their records to the store and reports them, together with created and deleted sessions
//! and forwarded requests.

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
use super::mirror::{self, MirrorPosition};
use super::server::{Server, locked, session_of};
use super::stream_reader::StreamReader;
use super::{LocalLog, Writers};
use crate::core::SessionId;
use crate::log::{ClusterEvent, SessionLog};
use crate::service::Event;

/// Maximum number of messages that are handled at once.
const PORTION: usize = 256;
/// Time without records after which the recorder of another hub's session is closed.
const QUIET: Duration = Duration::from_secs(30);
/// Interval at which the position of the copy is saved.
const NOTE: Duration = Duration::from_secs(2);
/// Pause before a failed operation is retried.
const PAUSE: Duration = Duration::from_millis(250);

/// Task that follows other hubs.
pub(super) struct Follower {
    pub(super) name: Arc<str>,
    pub(super) server: Arc<Server>,
    pub(super) store: Store,
    pub(super) local: Arc<Mutex<LocalLog>>,
    pub(super) writers: Arc<Mutex<Writers>>,
    pub(super) events: mpsc::Sender<Event>,
}

/// The hub has ended.
struct Stopped;

impl Follower {
    /// Follows the records until the hub ends.
    pub(super) async fn records(self: Arc<Self>) {
        let Some(mut position) = MirrorPosition::read(&self.store) else { return };
        let mut known: HashMap<SessionId, (Assembler, Instant)> = HashMap::new();
        let mut noted = Instant::now();
        loop {
            let from = DeliverPolicy::ByStartSequence { start_sequence: position.sequence + 1 };
            let opened = StreamReader::open(&self.server.stream, super::server::subject("*"), from).await;
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
                if self.take(&portion, &mut position, &mut known).await.is_err() {
                    return;
                }
                if noted.elapsed() >= NOTE {
                    noted = Instant::now();
                    // If this fails, the next start reads more than necessary.
                    let _ = position.write(&self.store);
                    if self.copy_uncertain().await.is_err() {
                        return;
                    }
                    self.close_quiet(&mut known);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Copies messages to the store, then reports them. Records that cannot be stored now are copied later.
    async fn take(
        &self,
        portion: &[Message],
        position: &mut MirrorPosition,
        known: &mut HashMap<SessionId, (Assembler, Instant)>,
    ) -> Result<(), Stopped> {
        let mut batches: Vec<(SessionId, Arc<str>, Vec<Record>)> = Vec::new();
        for message in portion {
            let Ok(sequence) = message.info().map(|info| info.stream_sequence) else { continue };
            // Advanced even for skipped messages. A crash before the position is saved only reads them again.
            position.sequence = sequence;
            let Some(session) = session_of(&message.subject).map(SessionId::from) else { continue };
            if !known.contains_key(&session) && !self.ensure_session(&session).await? {
                continue;
            }
            let no_headers = HeaderMap::new();
            let headers = message.headers.as_ref().unwrap_or(&no_headers);
            let (assembler, at) =
                known.entry(Arc::clone(&session)).or_insert_with(|| (Assembler::default(), Instant::now()));
            *at = Instant::now();
            // Own messages are in the store already; only their position in the stream matters.
            if locked(&self.writers).observe(&self.name, &session, sequence, headers) {
                assembler.skip(headers, &message.payload);
                continue;
            }
            let records = assembler.take(headers, &message.payload).unwrap_or_default();
            let by = hub(headers).unwrap_or_default();
            let kept = locked(&self.local).take(&session, &records);
            // A gap: the store lacks earlier records of the session. They are copied from the stream.
            if kept.is_err() && mirror::copy(&self.server, &self.local, &session, sequence).await.is_err() {
                locked(&self.writers).uncertain.insert(session);
                continue;
            }
            let hub: Arc<str> = by.into();
            match batches.last_mut() {
                Some((of, by, more)) if *of == session && *by == hub => more.extend(records),
                _ => batches.push((session, hub, records)),
            }
        }
        if batches.is_empty() {
            return Ok(());
        }
        // Durable in the store before the core hears of them, because clients are served from the store.
        let failed = locked(&self.local).write();
        batches.retain(|(session, ..)| failed.iter().all(|(failed, _)| failed != session));
        locked(&self.writers).uncertain.extend(failed.into_iter().map(|(session, _)| session));
        for (session, hub, records) in batches {
            self.emit(ClusterEvent::Records { session, hub, records }).await?;
        }
        Ok(())
    }

    /// Copies records that the store may lack: those that this hub may have written without an acknowledgement and
    /// skipped as its own, and those that could not be stored when they arrived.
    async fn copy_uncertain(&self) -> Result<(), Stopped> {
        let uncertain: Vec<SessionId> = locked(&self.writers).uncertain.iter().cloned().collect();
        for session in uncertain {
            if !self.ensure_session(&session).await? {
                continue;
            }
            // Acquiring the session has copied it.
            let is_owned = locked(&self.writers).sessions.contains_key(&session);
            let copied = if is_owned { Ok(None) } else { self.copy_session(&session).await };
            let copied = match copied {
                Ok(copied) => copied,
                // The servers cannot be reached: retried later.
                Err(_) if self.server.problem().is_some() => return Ok(()),
                Err(_) => continue,
            };
            locked(&self.writers).uncertain.remove(&session);
            if let Some((hub, record)) = copied {
                self.emit(ClusterEvent::Records { session, hub, records: vec![record] }).await?;
            }
        }
        Ok(())
    }

    /// Copies all records of a session. Returns the last one, and the hub that wrote it.
    async fn copy_session(&self, session: &SessionId) -> Result<Option<(Arc<str>, Record)>, String> {
        let Some(last) = self.server.last(session).await? else { return Ok(None) };
        let by: Arc<str> = hub(&last.headers).unwrap_or_default().into();
        let copied = mirror::copy(&self.server, &self.local, session, last.sequence).await?;
        Ok(copied.last.map(|record| (by, record)))
    }

    async fn emit(&self, event: ClusterEvent) -> Result<(), Stopped> {
        self.events.send(Event::Cluster(event)).await.map_err(|_| Stopped)
    }

    /// Returns whether a session exists. A session that another hub has just created is added to the store. If this
    /// cannot be determined, it is checked later.
    async fn ensure_session(&self, session: &SessionId) -> Result<bool, Stopped> {
        if self.store.hosted(session).is_ok_and(|hosted| hosted.is_some()) {
            return Ok(true);
        }
        let Ok(text) = self.server.sessions.get(&**session).await else {
            locked(&self.writers).uncertain.insert(Arc::clone(session));
            return Ok(false);
        };
        let Some(known) = text.and_then(|text| super::description(session, &text)) else {
            locked(&self.writers).uncertain.remove(session);
            return Ok(false);
        };
        if mirror::add_session(&self.store, session, &known).is_err() {
            locked(&self.writers).uncertain.insert(Arc::clone(session));
            return Ok(false);
        }
        self.emit(ClusterEvent::SessionCreated(known)).await?;
        Ok(true)
    }

    fn close_quiet(&self, known: &mut HashMap<SessionId, (Assembler, Instant)>) {
        let writers = locked(&self.writers);
        let mut local = locked(&self.local);
        known.retain(|session, (_, at)| {
            let is_quiet = at.elapsed() >= QUIET;
            // The owner keeps its recorder; only the copies of other hubs' sessions are closed.
            if is_quiet && !writers.sessions.contains_key(session) {
                local.close_session(session);
            }
            !is_quiet
        });
    }

    /// Follows the deletion of sessions until the hub ends.
    pub(super) async fn deletions(self: Arc<Self>) {
        while !self.events.is_closed() {
            let (stream, filter) = self.server.descriptions_from();
            if let Ok(mut messages) = StreamReader::open(stream, filter, DeliverPolicy::LastPerSubject).await
            {
                while let Ok((message, _)) = messages.next().await {
                    let Some(id) = self.server.deleted(&message) else { continue };
                    if self.store.hosted(id).is_ok_and(|hosted| hosted.is_some()) {
                        let id = SessionId::from(id);
                        // Removed from the owned sessions first, so that nothing is appended to a deleted session.
                        locked(&self.writers).sessions.remove(&id);
                        let removed = locked(&self.local).remove(&id);
                        removed.await;
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Receives forwarded requests until the hub ends.
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
                let asked = ClusterEvent::Request { key: key.to_string(), inbox: inbox.to_string(), message };
                if self.emit(asked).await.is_err() {
                    return;
                }
            }
        }
    }
}
