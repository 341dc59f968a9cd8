//! Small values that a hub keeps between launches, by name.

use rusqlite::{OptionalExtension, Transaction};

use crate::access::Change;
use crate::error::Result;
use crate::store::Store;

/// Maximum size of a value in bytes.
const MAX_VALUE: usize = 4 * 1024 * 1024;

/// Inserts, replaces or deletes a value. The table is created on first use: stores of earlier versions lack it.
pub(crate) fn keep(transaction: &Transaction<'_>, name: &str, value: Option<&str>) -> rusqlite::Result<()> {
    transaction.execute(
        "CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        [],
    )?;
    match value {
        Some(value) => transaction.execute("INSERT OR REPLACE INTO kept VALUES (?1, ?2)", [name, value])?,
        None => transaction.execute("DELETE FROM kept WHERE name = ?1", [name])?,
    };
    Ok(())
}

impl Store {
    /// Keeps a value under a name, or deletes it. Waits for the store's writer. A value above 4 MiB is not kept.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// let store = switchboard_store::Store::open(folder.path().join("sessions.sqlite3"))?;
    /// store.keep("notify", Some("{}"))?;
    /// assert_eq!(store.kept("notify")?.as_deref(), Some("{}"));
    /// store.keep("notify", None)?;
    /// assert_eq!(store.kept("notify")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep(&self, name: &str, value: Option<&str>) -> Result<()> {
        let value = value.filter(|value| value.len() <= MAX_VALUE).map(str::to_owned);
        self.change(Change::Keep { name: name.to_owned(), value }, "").map(drop)
    }

    /// Returns the value kept under a name.
    pub fn kept(&self, name: &str) -> Result<Option<String>> {
        self.read_access(|connection| {
            let exists = connection
                .prepare_cached("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'kept'")?
                .exists([])?;
            if !exists {
                return Ok(None);
            }
            let mut statement = connection.prepare_cached("SELECT value FROM kept WHERE name = ?1")?;
            statement.query_row([name], |row| row.get(0)).optional()
        })
    }
}
