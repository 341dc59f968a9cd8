//! Deleting sessions and giving their room back: in small transactions, so that it takes time in proportion to what is
//! deleted, others are not held up, and a full disk does not prevent it.

use std::io::Write;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, params};

use crate::access;
use crate::error::{Result, StoreError, database};
use crate::lock::SessionLock;
use crate::private;
use crate::queue::Queue;
use crate::search;
use crate::writer::{Command, Writer, transact};

/// How many rows of each kind go in one transaction.
const TEXTS: i64 = 200;
const BLOCKS: i64 = 16;
const CONTENTS: i64 = 32;
const ENTRIES: i64 = 64;
/// How many pages are given back in one transaction.
const PAGES: i64 = 256;
/// How many pages of the index are put together in one transaction.
const MERGE: i64 = 200;
/// A store of an earlier version that is no larger than this is written anew as a whole.
const SMALL: u64 = 64 * 1024 * 1024;
/// What is kept free, so that something can be deleted when the disk is full.
const RESERVE: usize = 1024 * 1024;
/// The smallest share of the usual size that is tried on a full disk.
const SMALLEST: i64 = 64;

/// The file that keeps some room.
pub(crate) fn reserve(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-reserve");
    name.into()
}

/// Gives up the room that is kept. Returns whether there was any.
pub(crate) fn release_reserve(path: &Path) -> bool {
    std::fs::remove_file(reserve(path)).is_ok()
}

/// Keeps some room on the disk, as far as there is any.
pub(crate) fn keep_reserve(path: &Path) {
    let path = reserve(path);
    if path.metadata().is_ok_and(|file| file.len() >= RESERVE as u64) {
        return;
    }
    let written = private::options()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        // Not nothing, which some file systems do not store.
        .and_then(|mut file| file.write_all(&vec![0x5a; RESERVE]));
    if written.is_err() {
        drop(std::fs::remove_file(&path));
    }
}

/// Does something in small transactions until it says that there is no more. On a full disk it is done in the room that
/// was kept, and in the share of the usual size that each step is told.
fn in_steps(
    writer: &mut Writer,
    queue: &Queue<Command>,
    share: &mut i64,
    mut step: impl FnMut(&mut Connection, i64) -> rusqlite::Result<bool>,
) -> Result<()> {
    loop {
        let done = writer.patiently(queue, |writer| {
            step(&mut writer.connection, *share).map_err(|error| database(&writer.path, &error))
        });
        match done {
            Ok(true) => {
                if *share > 1 {
                    // The log's room is used again by the next step.
                    writer.checkpoint();
                }
                writer.pump(queue);
            }
            Ok(false) => return Ok(()),
            Err(StoreError::Full { .. }) if *share < SMALLEST => {
                *share *= 8;
                drop(std::fs::remove_file(reserve(&writer.path)));
                writer.checkpoint();
            }
            Err(error) => return Err(error),
        }
    }
}

/// Deletes a session. From the first transaction on it is not seen any more; if the rest does not succeed, the next
/// program that opens the store goes on with it.
pub(crate) fn delete(writer: &mut Writer, queue: &Queue<Command>, session: i64, id: &str) -> Result<()> {
    let (mut share, mut is_marked) = (1, false);
    in_steps(writer, queue, &mut share, |connection, _| {
        if !is_marked {
            transact(connection, |transaction| {
                access::forget(transaction, id)?;
                transaction.execute("UPDATE sessions SET closed = 3 WHERE number = ?1", [session])
            })?;
        }
        Ok(!std::mem::replace(&mut is_marked, true))
    })?;
    // From here on the session is gone for everybody, whatever becomes of its room.
    let removed = writer.folder.remove(id, None).and_then(|()| writer.folder.remove_kept(id));
    removed
        .map_err(|error| StoreError::Disk { reason: error.to_string() })
        .and_then(|()| {
            in_steps(writer, queue, &mut share, |connection, share| {
                transact(connection, |transaction| delete_some(transaction, session, share))
            })
        })
        .map_err(|error| StoreError::Unfinished { session: id.to_owned(), reason: error.to_string() })
}

/// Deletes a part of a session. Says whether there was anything.
fn delete_some(transaction: &Transaction<'_>, session: i64, share: i64) -> rusqlite::Result<bool> {
    let some = |usual: i64| (usual / share).max(1);
    let mut deleted = 0;
    for (table, key, limit) in
        [("blocks", "number", BLOCKS), ("checkpoints", "sequence", BLOCKS), ("replaced", "run", ENTRIES)]
    {
        deleted += transaction
            .prepare_cached(&format!(
                "DELETE FROM {table} WHERE session = ?1 AND {key} IN
                 (SELECT {key} FROM {table} WHERE session = ?1 LIMIT ?2)"
            ))?
            .execute([session, some(limit)])?;
    }
    deleted += transaction
        .prepare_cached(
            "DELETE FROM entries WHERE session = ?1 AND (place, position, sequence) IN
             (SELECT place, position, sequence FROM entries WHERE session = ?1 LIMIT ?2)",
        )?
        .execute([session, some(ENTRIES)])?;
    let used = transaction
        .prepare_cached("SELECT content FROM content_uses WHERE session = ?1 LIMIT ?2")?
        .query_map([session, some(CONTENTS)], |row| row.get::<_, i64>(0))?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for content in &used {
        transaction
            .prepare_cached("DELETE FROM content_uses WHERE content = ?1 AND session = ?2")?
            .execute(params![content, session])?;
        transaction
            .prepare_cached(
                "DELETE FROM contents WHERE number = ?1
                 AND NOT EXISTS (SELECT 1 FROM content_uses WHERE content = ?1)",
            )?
            .execute([content])?;
    }
    if deleted > 0 || !used.is_empty() {
        return Ok(true);
    }
    // Only now, because the index grows at first, into the room that has become free.
    if search::forget_some(transaction, session, some(TEXTS))? {
        return Ok(true);
    }
    transaction.execute("DELETE FROM wire_ids WHERE session = ?1", [session])?;
    transaction.execute("DELETE FROM sessions WHERE number = ?1", [session])?;
    Ok(false)
}

/// Bytes of the file that are in use.
pub(crate) fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let used = "SELECT (page_count - freelist_count) * page_size
         FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()";
    connection.prepare_cached(used)?.query_row([], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

/// Deletes the oldest sessions that nobody records while the file has more bytes than this in use. Returns their ids.
pub(crate) fn make_room(writer: &mut Writer, queue: &Queue<Command>, most: u64) -> Result<Vec<String>> {
    let mut deleted = Vec::new();
    let is_too_full = |writer: &mut Writer| {
        writer.patiently(queue, |writer| {
            used(&writer.connection).map(|used| used > most).map_err(|error| database(&writer.path, &error))
        })
    };
    if !is_too_full(writer)? {
        return Ok(deleted);
    }
    // What sessions that were deleted before have left in the index takes room, too.
    merge_index(writer, queue, &mut 1)?;
    let oldest: Vec<(i64, String)> = writer.patiently(queue, |writer| {
        let list = |connection: &Connection| {
            connection
                .prepare_cached("SELECT number, id FROM sessions WHERE closed < 3 ORDER BY changed, number")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()
        };
        list(&writer.connection).map_err(|error| database(&writer.path, &error))
    })?;
    for (session, id) in oldest {
        if !is_too_full(writer)? {
            break;
        }
        if writer.is_live(&id) {
            continue;
        }
        // A lock that is taken belongs to a recorder.
        let Ok(_lock) = SessionLock::take(&writer.path, &id) else { continue };
        match delete(writer, queue, session, &id) {
            // What is left of it goes later; it is not listed any more.
            Ok(()) | Err(StoreError::Unfinished { .. }) => {}
            Err(error) => return Err(error),
        }
        merge_index(writer, queue, &mut 1)?;
        deleted.push(id);
    }
    Ok(deleted)
}

/// Puts parts of the index together, which takes out what is left in it of deleted words. Where it has no room for that,
/// they stay.
pub(crate) fn merge_index(writer: &mut Writer, queue: &Queue<Command>, share: &mut i64) -> Result<()> {
    let mut merges = 0;
    let merged = in_steps(writer, queue, share, |connection, share| {
        merges += 1;
        let pages = (MERGE / share).max(1);
        Ok(merges < 1000 && transact(connection, |transaction| search::merge_some(transaction, pages))?)
    });
    match merged {
        // It makes the index smaller in the end, and may need room before that.
        Ok(()) | Err(StoreError::Full { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives the room of what was deleted back to the file system.
pub(crate) fn shrink(writer: &mut Writer, queue: &Queue<Command>) -> Result<()> {
    let mut share = 1;
    merge_index(writer, queue, &mut share)?;
    let number = |connection: &Connection, pragma: &str| {
        connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0))
    };
    let is_incremental = writer.patiently(queue, |writer| {
        number(&writer.connection, "auto_vacuum").map_err(|error| database(&writer.path, &error))
    })?;
    if is_incremental == 0 {
        // Made by an earlier version. One that is large stays as it is, since everybody would have to wait: its room is
        // used for what is recorded later.
        let size = writer.path.metadata().map_or(u64::MAX, |file| file.len());
        if size <= SMALL {
            writer.patiently(queue, |writer| {
                writer
                    .connection
                    .execute_batch("PRAGMA auto_vacuum = INCREMENTAL; VACUUM;")
                    .map_err(|error| database(&writer.path, &error))
            })?;
        }
    } else {
        in_steps(writer, queue, &mut share, |connection, share| {
            let pages = (PAGES / share).max(1);
            let mut statement = connection.prepare_cached(&format!("PRAGMA incremental_vacuum({pages})"))?;
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            drop(rows);
            drop(statement);
            Ok(number(connection, "freelist_count")? > 0)
        })?;
    }
    writer.checkpoint();
    keep_reserve(&writer.path);
    Ok(())
}
