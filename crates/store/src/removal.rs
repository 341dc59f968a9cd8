//! Deletes sessions and returns their space to the file system. Works in small transactions, so that the time
//! is proportional to the amount deleted, other processes are not blocked, and a full disk does not prevent
//! it.

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

/// Maximum rows of each table deleted in one transaction.
const TEXTS: i64 = 200;
const BLOCKS: i64 = 16;
const CONTENTS: i64 = 32;
const ENTRIES: i64 = 64;
/// Pages returned to the file system in one transaction.
const PAGES: i64 = 256;
/// Index pages merged in one transaction.
const MERGE: i64 = 200;
/// Size in bytes up to which a store of an earlier version is rewritten as a whole.
const SMALL: u64 = 64 * 1024 * 1024;
/// Size in bytes of the reserve file, which keeps space free for deleting sessions on a full disk.
const RESERVE: usize = 1024 * 1024;
/// Largest divisor of the transaction size that is tried on a full disk.
const SMALLEST: i64 = 64;

/// Returns the path of the reserve file.
pub(crate) fn reserve(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-reserve");
    name.into()
}

/// Removes the reserve file. Returns false if there was none.
pub(crate) fn release_reserve(path: &Path) -> bool {
    std::fs::remove_file(reserve(path)).is_ok()
}

/// Creates the reserve file if the disk has space for it.
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
        // Not zeros, which some file systems do not allocate.
        .and_then(|mut file| file.write_all(&vec![0x5a; RESERVE]));
    if written.is_err() {
        drop(std::fs::remove_file(&path));
    }
}

/// Repeats `step` in small transactions until it returns false. On a full disk, releases the reserve and
/// divides the transaction size by `share`, which is passed to each step.
fn in_steps(
    writer: &mut Writer,
    queue: &Queue<Command>,
    share: &mut i64,
    mut step: impl FnMut(&mut Connection, i64) -> rusqlite::Result<bool>,
) -> Result<()> {
    loop {
        let done = writer.retry_while_busy(queue, |writer| {
            step(&mut writer.connection, *share).map_err(|error| database(&writer.path, &error))
        });
        match done {
            Ok(true) => {
                if *share > 1 {
                    // Let the next step reuse the log's space.
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

/// Deletes a session. It is invisible after the first transaction. If the rest fails, the next process that
/// opens the store continues.
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
    // From here on the session is deleted for all readers, even if freeing its space fails.
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

/// Deletes part of a session. Returns false once nothing is left.
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
    // The index grows before it shrinks, so delete from it last, when the other tables have freed space.
    if search::forget_some(transaction, session, some(TEXTS))? {
        return Ok(true);
    }
    transaction.execute("DELETE FROM wire_ids WHERE session = ?1", [session])?;
    transaction.execute("DELETE FROM sessions WHERE number = ?1", [session])?;
    Ok(false)
}

/// Returns the number of bytes in use in the file.
pub(crate) fn used(connection: &Connection) -> rusqlite::Result<u64> {
    let used = "SELECT (page_count - freelist_count) * page_size
         FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()";
    connection.prepare_cached(used)?.query_row([], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

/// Deletes the oldest sessions that are not being recorded while more than `most` bytes are in use. Returns
/// their ids.
pub(crate) fn make_room(writer: &mut Writer, queue: &Queue<Command>, most: u64) -> Result<Vec<String>> {
    let mut deleted = Vec::new();
    let is_too_full = |writer: &mut Writer| {
        writer.retry_while_busy(queue, |writer| {
            used(&writer.connection).map(|used| used > most).map_err(|error| database(&writer.path, &error))
        })
    };
    if !is_too_full(writer)? {
        return Ok(deleted);
    }
    // Remains of previously deleted sessions in the index take space too, so merge before deleting more
    // sessions.
    merge_index(writer, queue, &mut 1)?;
    let oldest: Vec<(i64, String)> = writer.retry_while_busy(queue, |writer| {
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
        // The lock is held by a recorder.
        let Ok(_lock) = SessionLock::take(&writer.path, &id) else { continue };
        match delete(writer, queue, session, &id) {
            // The session is no longer listed. The rest is removed later.
            Ok(()) | Err(StoreError::Unfinished { .. }) => {}
            Err(error) => return Err(error),
        }
        merge_index(writer, queue, &mut 1)?;
        deleted.push(id);
    }
    Ok(deleted)
}

/// Merges parts of the index, which removes the remains of deleted words. Does nothing if the disk has too
/// little space.
pub(crate) fn merge_index(writer: &mut Writer, queue: &Queue<Command>, share: &mut i64) -> Result<()> {
    let mut merges = 0;
    let merged = in_steps(writer, queue, share, |connection, share| {
        merges += 1;
        let pages = (MERGE / share).max(1);
        Ok(merges < 1000 && transact(connection, |transaction| search::merge_some(transaction, pages))?)
    });
    match merged {
        // Merging shrinks the index in the end, but needs space first.
        Ok(()) | Err(StoreError::Full { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the space of deleted sessions to the file system.
pub(crate) fn shrink(writer: &mut Writer, queue: &Queue<Command>) -> Result<()> {
    let mut share = 1;
    merge_index(writer, queue, &mut share)?;
    let number = |connection: &Connection, pragma: &str| {
        connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get::<_, i64>(0))
    };
    let is_incremental = writer.retry_while_busy(queue, |writer| {
        number(&writer.connection, "auto_vacuum").map_err(|error| database(&writer.path, &error))
    })?;
    if is_incremental == 0 {
        // Created by an earlier version. `VACUUM` would block all users of a large file, so its free pages
        // are only reused for new records.
        let size = writer.path.metadata().map_or(u64::MAX, |file| file.len());
        if size <= SMALL {
            writer.retry_while_busy(queue, |writer| {
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
