//! The sessions of a hub: whose they are, and which agent has them.

use rusqlite::{OptionalExtension, Row, Transaction, params};

use switchboard_acp::Moment;

use crate::access::Change;
use crate::error::Result;
use crate::store::Store;

/// What a hub knows of a session beside its records, so that it finds it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosted {
    /// The id of its recording, which is also what clients call it.
    pub id: String,
    /// The agent's name in the hub.
    pub agent: String,
    /// What the agent calls it.
    pub agent_session: String,
    /// The name of the token that began it.
    pub owner: String,
    /// The folder that it works in.
    pub folder: String,
    /// Whether it was closed, so that nobody can go on with it.
    pub closed: bool,
}

impl Hosted {
    /// Says whether there is such a recording.
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
    /// Writes down that a hub has a session, or what has changed about that. Waits for the store's writer.
    pub fn host(&self, hosted: &Hosted) -> Result<()> {
        self.change(Change::Host { hosted: hosted.clone(), starter: None }, "").map(drop)
    }

    /// Writes down that a hub has a new session, and shares it in the same transaction with the token that started it, so
    /// that a crash leaves no session that its starter cannot see. `starter` is the token's name and creation time; where
    /// there is no such token any more, the session is shared with none.
    pub fn host_started(&self, hosted: &Hosted, starter: Option<(&str, Moment)>) -> Result<()> {
        let starter = starter.map(|(name, made)| (name.to_owned(), made));
        self.change(Change::Host { hosted: hosted.clone(), starter }, "").map(drop)
    }

    /// A session of a hub, by the whole id of its recording.
    pub fn hosted(&self, id: &str) -> Result<Option<Hosted>> {
        self.read_access(|connection| {
            connection
                .prepare_cached(&format!("{HOSTED} WHERE id = ?1"))?
                .query_row([id], Hosted::read)
                .optional()
        })
    }

    /// All sessions of hubs, also those that were closed, the earliest first.
    pub fn all_hosted(&self) -> Result<Vec<Hosted>> {
        self.read_access(|connection| {
            connection
                .prepare_cached(&format!("{HOSTED} ORDER BY id"))?
                .query_map([], Hosted::read)?
                .collect()
        })
    }
}
