//! All connections of a server: limits per client, and expiry of unused connections.

use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout};

use super::connection::{Carrier, ServedConnection, ServerConnection};
use super::{Refusal, ServerLimits, close_codes};

/// The connections of a [`router`](super::router).
pub struct Connections<I>(Arc<Registry<I>>);

impl<I> Clone for Connections<I> {
    fn clone(&self) -> Self {
        Connections(Arc::clone(&self.0))
    }
}

impl<I> fmt::Debug for Connections<I> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connections").finish_non_exhaustive()
    }
}

struct Registry<I> {
    limits: Arc<ServerLimits>,
    table: Mutex<Table<I>>,
    /// Notified when the last connection is removed.
    empty: Notify,
}

struct Table<I> {
    entries: HashMap<Arc<str>, Entry<I>>,
    /// Number of connections per identity. A list, because there are far fewer identities than connections.
    counts: Vec<(I, usize)>,
    /// True if new connections are refused.
    is_closed: bool,
}

impl<I: PartialEq> Table<I> {
    fn forget(&mut self, id: &str) {
        let Some(entry) = self.entries.remove(id) else { return };
        if let Some(place) = self.counts.iter().position(|(name, _)| *name == entry.who) {
            self.counts[place].1 -= 1;
            if self.counts[place].1 == 0 {
                self.counts.swap_remove(place);
            }
        }
    }

    /// Ends the connection of this client that has been unused for the longest time, if any is unused.
    fn evict_longest_unused(&mut self, who: &I) {
        let absent = (self.entries.values().filter(|entry| entry.who == *who))
            .filter_map(|entry| Some((entry.shared.unused_since()?, &entry.shared)))
            .min_by_key(|(since, _)| *since);
        if let Some(shared) = absent.map(|(_, shared)| Arc::clone(shared)) {
            shared.end(close_codes::POLICY_VIOLATION, "too many of your connections are open");
            self.forget(&shared.id);
        }
    }
}

struct Entry<I> {
    who: I,
    agent: Option<String>,
    shared: Arc<ServedConnection>,
}

impl<I: Clone + PartialEq + Send + Sync + 'static> Connections<I> {
    pub(super) fn new(limits: Arc<ServerLimits>) -> Self {
        let table = Table { entries: HashMap::new(), counts: Vec::new(), is_closed: false };
        Connections(Arc::new(Registry { limits, table: Mutex::new(table), empty: Notify::new() }))
    }

    fn table(&self) -> MutexGuard<'_, Table<I>> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limits(&self) -> &Arc<ServerLimits> {
        &self.0.limits
    }

    /// Returns the number of connections, including those that a client may still reconnect to.
    pub fn count(&self) -> usize {
        self.table().entries.len()
    }

    /// Ends the connections of all matching identities with 4401, for example after a token was revoked.
    pub fn close_of(&self, is_meant: impl Fn(&I) -> bool) {
        self.close(&is_meant, close_codes::UNAUTHORIZED, "the token is no longer valid");
    }

    /// Ends all connections with 1001 and refuses new ones. Waits up to `patience` until clients have been
    /// notified.
    pub async fn shut_down(&self, patience: Duration) {
        // Refuse new connections first, or one could be created after the others were ended.
        self.table().is_closed = true;
        self.close(&|_| true, close_codes::GOING_AWAY, "the server is shutting down");
        let gone = async {
            loop {
                let empty = self.0.empty.notified();
                if self.table().entries.is_empty() {
                    break;
                }
                empty.await;
            }
        };
        // Clients that do not respond are abandoned.
        let _ = timeout(patience, gone).await;
    }

    fn close(&self, is_meant: &dyn Fn(&I) -> bool, code: u16, reason: &str) {
        let meant: Vec<Arc<ServedConnection>> = (self.table().entries.values())
            .filter(|entry| is_meant(&entry.who))
            .map(|entry| Arc::clone(&entry.shared))
            .collect();
        for shared in meant {
            shared.end(code, reason);
        }
    }

    /// Creates a connection, if the limits allow one more.
    pub(super) fn open(
        &self,
        who: I,
        agent: Option<String>,
        carrier: Carrier,
    ) -> Result<ServerConnection, Refusal> {
        let id = random_id()?;
        let limits = self.limits();
        let mut table = self.table();
        if table.is_closed {
            return Err(Refusal::later(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"));
        }
        let of_one = |table: &Table<I>| {
            table.counts.iter().find(|(name, _)| *name == who).map_or(0, |(_, count)| *count)
        };
        // A client that reconnects without its connection id leaves an unused connection each time, so evict
        // one of its own.
        if table.entries.len() >= limits.connections || of_one(&table) >= limits.connections_of_one {
            table.evict_longest_unused(&who);
        }
        if table.entries.len() >= limits.connections {
            return Err(Refusal::later(StatusCode::SERVICE_UNAVAILABLE, "too many connections are open"));
        }
        if of_one(&table) >= limits.connections_of_one {
            let reason = "too many of your connections are open; close some with DELETE";
            return Err(Refusal::later(StatusCode::TOO_MANY_REQUESTS, reason));
        }
        let known = table.counts.iter().position(|(name, _)| *name == who);
        let place = known.unwrap_or_else(|| {
            table.counts.push((who.clone(), 0));
            table.counts.len() - 1
        });
        table.counts[place].1 += 1;
        let connection = ServerConnection::begin(Arc::clone(&id), carrier, Arc::clone(limits));
        let shared = Arc::clone(&connection.outgoing.0);
        table.entries.insert(id, Entry { who, agent, shared: Arc::clone(&shared) });
        drop(table);
        // The task starts after the entry is in the table, because it removes it at the end.
        tokio::spawn(self.clone().keep(shared));
        Ok(connection)
    }

    /// Returns a live connection of this client with this agent. Others cannot find out that it exists.
    pub(super) fn find(
        &self,
        id: &str,
        who: &I,
        agent: Option<&str>,
        carrier: Carrier,
    ) -> Option<Arc<ServedConnection>> {
        let table = self.table();
        let entry = table.entries.get(id)?;
        let is_meant = entry.who == *who
            && entry.agent.as_deref() == agent
            && entry.shared.carrier == carrier
            && entry.shared.is_open();
        is_meant.then(|| Arc::clone(&entry.shared))
    }

    /// Supervises a connection: ends it if it is unused for the grace time or the program drops it, and
    /// removes it from the table when it has ended and its last reader has left.
    async fn keep(self, shared: Arc<ServedConnection>) {
        loop {
            let program_left = async {
                match shared.incoming() {
                    Some(incoming) => incoming.closed().await,
                    None if shared.ending().is_some() => std::future::pending().await,
                    None => {}
                }
            };
            // Read the time once: the checks below must refer to the same idle period.
            let absent = shared.unused_since();
            let grace = async {
                match absent {
                    Some(since) => sleep_until(since + shared.limits.grace).await,
                    None => std::future::pending().await,
                }
            };
            if shared.ending().is_some() && absent.is_some() {
                break;
            }
            tokio::select! {
                () = shared.changed.notified() => {}
                () = program_left => shared.end(close_codes::INTERNAL_ERROR, "the server ended the connection"),
                () = grace => {
                    // A client may have reconnected at the last moment.
                    if shared.unused_since() == absent {
                        shared.end(close_codes::POLICY_VIOLATION, "the connection was unused for too long");
                    }
                }
            }
        }
        let mut table = self.table();
        table.forget(&shared.id);
        if table.entries.is_empty() {
            table.entries.shrink_to_fit();
            self.0.empty.notify_waiters();
        }
    }
}

fn random_id() -> Result<Arc<str>, Refusal> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the operating system provides no random numbers: {error}"),
        )
    })?;
    let mut id = String::with_capacity(32);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(id, "{byte:02x}");
    }
    Ok(id.into())
}
