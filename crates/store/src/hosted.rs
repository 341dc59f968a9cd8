//! The sessions of a hub: their owners and agents.

use rusqlite::{OptionalExtension, Row, Transaction, params};

use switchboard_acp::Moment;

use crate::access::Change;
use crate::error::Result;
use crate::store::Store;

/// Hub metadata of a session, stored so that the hub can resume the session after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosted {
    /// Id of the recording, which is also the session id for clients.
    pub id: String,
    /// Name of the agent in the hub's configuration.
    pub agent: String,
    /// Session id that the agent uses.
    pub agent_session: String,
    /// Name of the token that started the session.
    pub owner: String,
    /// Working folder of the session.
    pub folder: String,
    /// True if the session was closed and cannot be resumed.
    pub closed: bool,
}

impl Hosted {
    /// Inserts or replaces the row. Returns false if there is no such recording.
    pub(crate) fn save(&self, transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
        let Hosted { id, agent, agent_session, owner, folder, closed } = self;
        let saved = transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO hosted (id, agent, agent_session, owner, folder, closed)
                 SELECT id, ?2, ?3, ?4, ?5, ?6 FROM sessions WHERE id = ?1 AND closed < 3",
            )?
            .execute(params![id, agent, agent_session, owner, folder, closed])?;
        Ok(saved > 0)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Hosted {
            id: row.get(0)?,
            agent: row.get(1)?,
            agent_session: row.get(2)?,
            owner: row.get(3)?,
            folder: row.get(4)?,
            closed: row.get(5)?,
        })
    }
}

const HOSTED: &str = "SELECT id, agent, agent_session, owner, folder, closed FROM hosted";

impl Store {
    /// Adds a session to the hub's sessions or updates it. Waits for the store's writer.
    pub fn host(&self, hosted: &Hosted) -> Result<()> {
        self.change(Change::Host { hosted: hosted.clone(), starter: None }, "").map(drop)
    }

    /// Adds a new session to the hub's sessions and shares it with the token that started it, in one
    /// transaction, so that a crash leaves no session that its starter cannot see. `starter` is the token's
    /// name and creation time. If that token no longer exists, the session is not shared.
    pub fn host_started(&self, hosted: &Hosted, starter: Option<(&str, Moment)>) -> Result<()> {
        let starter = starter.map(|(name, made)| (name.to_owned(), made));
        self.change(Change::Host { hosted: hosted.clone(), starter }, "").map(drop)
    }

    /// Returns a hub session by the full id of its recording.
    pub fn hosted(&self, id: &str) -> Result<Option<Hosted>> {
        self.read_access(|connection| {
            connection
                .prepare_cached(&format!("{HOSTED} WHERE id = ?1"))?
                .query_row([id], Hosted::read)
                .optional()
        })
    }

    /// Returns all hub sessions including closed ones, oldest first.
    pub fn all_hosted(&self) -> Result<Vec<Hosted>> {
        self.read_access(|connection| {
            connection
                .prepare_cached(&format!("{HOSTED} ORDER BY id"))?
                .query_map([], Hosted::read)?
                .collect()
        })
    }
}
