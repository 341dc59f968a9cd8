//! Indexes records in blocks for search and folds them into checkpoints: after recording, in small
//! transactions, by any process that has the store open.

use rusqlite::{Connection, OptionalExtension, params};

use crate::read::{self, Batch};
use crate::search;
use crate::window;
use crate::writer::transact;

/// Bytes of messages indexed in one transaction.
const STEP: u64 = 1024 * 1024;

struct Behind {
    indexed: u64,
    indexed_bytes: u64,
    length: u64,
    bytes: u64,
}

fn unindexed(connection: &Connection, session: i64) -> rusqlite::Result<Option<Behind>> {
    connection
        .prepare_cached(
            "SELECT indexed, indexed_bytes, length, bytes FROM sessions
             WHERE number = ?1 AND indexed < length AND closed < 3",
        )?
        .query_row([session], |row| {
            let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
            Ok(Behind {
                indexed: number(0)?,
                indexed_bytes: number(1)?,
                length: number(2)?,
                bytes: number(3)?,
            })
        })
        .optional()
}

/// Returns the number of bytes of a session that are in blocks but not indexed.
pub(crate) fn behind(connection: &Connection, session: i64) -> rusqlite::Result<u64> {
    Ok(unindexed(connection, session)?.map_or(0, |behind| behind.bytes.saturating_sub(behind.indexed_bytes)))
}

/// Indexes part of a session. Returns false if there was nothing to do.
pub(crate) fn step(connection: &mut Connection, session: i64) -> rusqlite::Result<bool> {
    let Some(behind) = unindexed(connection, session)? else { return Ok(false) };
    let (mut at, mut bytes) = (behind.indexed, 0);
    let mut found = Vec::new();
    // Read and tokenize before the transaction starts, so that other processes wait as little as possible.
    while bytes < STEP {
        match read::stored(connection, session, at, behind.length)? {
            Batch::Records(records) => {
                at = records.last().map_or(behind.length, |record| record.sequence + 1);
                bytes += records.iter().map(|record| record.bytes.len() as u64).sum::<u64>();
                found.push(search::gather(&records));
            }
            Batch::Gap { to, .. } => at = to.max(at + 1),
            Batch::End => {
                at = at.max(behind.length);
                break;
            }
        }
    }
    // Texts, progress and checkpoint change in one transaction. After a crash the same part is indexed again.
    let indexed_bytes = behind.indexed_bytes + bytes;
    transact(connection, |transaction| {
        // Another process may have indexed this part in the meantime; its work is kept.
        let is_ours = unindexed(transaction, session)?.is_some_and(|now| now.indexed == behind.indexed);
        if is_ours {
            for gathered in &found {
                search::index(transaction, session, gathered)?;
            }
            transaction
                .prepare_cached("UPDATE sessions SET indexed = ?2, indexed_bytes = ?3 WHERE number = ?1")?
                .execute(params![session, at as i64, indexed_bytes as i64])?;
            window::checkpoint_if_due(transaction, session, at, indexed_bytes)?;
        }
        Ok(())
    })?;
    Ok(true)
}

/// Makes a part of some session searchable, if there is one that needs it.
pub(crate) fn step_anywhere(connection: &mut Connection) -> rusqlite::Result<bool> {
    let session = connection
        .prepare_cached("SELECT number FROM sessions WHERE indexed < length AND closed < 3 LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?;
    session.map_or(Ok(false), |session| step(connection, session))
}
