//! The session list and sizes.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Row, params};

use switchboard_acp::Moment;

use crate::error::{Result, StoreError};
use crate::live::failure;
use crate::read::{self, Records, Tail};
use crate::record::{About, Filter, Summary};
use crate::removal;
use crate::segment::{self, Cursor, Folder};
use crate::store::Store;

impl Store {
    /// Returns the matching sessions, latest first.
    pub fn sessions(&self, filter: &Filter) -> Result<Vec<Summary>> {
        let Filter { agent, project, title, since, until, limit, more: _ } = filter;
        let pattern = |part: &Option<String>| part.as_ref().map(|part| format!("%{}%", escaped(part)));
        let project = project.as_ref().map(|project| project.trim_end_matches('/').to_owned());
        let below = project.as_ref().map(|project| format!("{}/%", escaped(project)));
        let recorded = self.with_journal();
        // The time of the last change may only be in a journal, so sort and limit after reading them.
        let (first, most) = if recorded.is_empty() {
            (since.map(|time| time.0), limit.and_then(|limit| i64::try_from(limit).ok()))
        } else {
            (None, None)
        };
        let mut sessions = self.with_reader(|connection| {
            let mut statement = connection.prepare_cached(&format!(
                "{SUMMARY} WHERE closed < 3 AND (?1 IS NULL OR agent LIKE ?1 ESCAPE '\\')
                 AND (?2 IS NULL OR project = ?2 OR project LIKE ?3 ESCAPE '\\')
                 AND (?4 IS NULL OR title LIKE ?4 ESCAPE '\\')
                 AND (?5 IS NULL OR changed >= ?5) AND (?6 IS NULL OR began < ?6)
                 ORDER BY changed DESC, number DESC LIMIT ?7"
            ))?;
            let rows = statement.query_map(
                params![
                    pattern(agent),
                    project,
                    below,
                    pattern(title),
                    first,
                    until.map(|time| time.0),
                    most.unwrap_or(-1)
                ],
                |row| summary(connection, row),
            )?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        if !recorded.is_empty() {
            for session in &mut sessions {
                if let Some(last) = recorded.get(&session.id) {
                    self.add_journal(session, *last)?;
                }
            }
            sessions.retain(|session| since.is_none_or(|since| session.changed >= since));
            sessions.sort_by_key(|session| std::cmp::Reverse(session.changed));
            sessions.truncate(limit.unwrap_or(usize::MAX));
        }
        Ok(sessions)
    }

    /// Returns the sessions that have a journal, with the start of its last segment.
    fn with_journal(&self) -> HashMap<String, u64> {
        // If the folder cannot be read, the list shows the database only.
        let journals = self.folder().journals().unwrap_or_default();
        journals.into_iter().filter_map(|(id, segments)| Some((id, segments.last().copied()?))).collect()
    }

    /// Adds the records that are only in the journal of a session.
    fn add_journal(&self, session: &mut Summary, last: u64) -> Result<()> {
        let end = self.with_reader(|_| {
            segment::end_in(self.folder(), &session.id, last).map_err(|error| failure(error.into()))
        })?;
        if let Some(end) = end.filter(|end| end.next >= session.length) {
            session.length = end.next;
            session.bytes = session.bytes.max(end.bytes);
            session.changed = session.changed.max(end.latest.unwrap_or(session.changed));
        }
        Ok(())
    }

    /// Returns a session by its id, a unique prefix of its id, or an id on the wire. If several have that id,
    /// returns the latest.
    pub fn session(&self, id: &str) -> Result<Summary> {
        let (number, id) = self.number(id)?;
        // Journal first: records that leave it meanwhile are counted in the row.
        let last = self.folder().segments(&id).ok().and_then(|segments| segments.last().copied());
        let mut session = self.with_reader(|connection| {
            connection
                .prepare_cached(&format!("{SUMMARY} WHERE number = ?1"))?
                .query_row([number], |row| summary(connection, row))
        })?;
        if let Some(last) = last {
            self.add_journal(&mut session, last)?;
        }
        Ok(session)
    }

    /// Returns an iterator over the records of a session from a sequence number.
    pub fn read(&self, id: &str, from: u64) -> Result<Records<'_>> {
        let (session, id) = self.number(id)?;
        let end = self.with_reader(|connection| length(connection, self.folder(), session, &id))?;
        Ok(self.records(session, &id, from..end))
    }

    /// Returns an iterator over a range of a session's records. Reuses the position of a reader that was
    /// dropped there.
    pub fn read_part(&self, id: &str, part: Range<u64>) -> Result<Records<'_>> {
        let (session, id) = self.number(id)?;
        Ok(self.records(session, &id, part))
    }

    fn records(&self, session: i64, id: &str, part: Range<u64>) -> Records<'_> {
        let (next, end) = (part.start, part.end);
        let (ready, journal) = self
            .parked()
            .take(session, next)
            .unwrap_or_else(|| (VecDeque::new(), Cursor::new(self.folder(), id, next)));
        Records { store: self, session, next, end, ready, journal }
    }

    /// Returns an iterator over the records of a session from a sequence number, which waits for new ones.
    pub fn follow(&self, id: &str, from: u64) -> Result<Tail<'_>> {
        let (_, id) = self.number(id)?;
        Ok(Tail { records: self.read(&id, from)?, id })
    }

    pub(crate) fn has(&self, session: i64) -> Result<bool> {
        self.with_reader(|connection| {
            connection
                .prepare_cached("SELECT 1 FROM sessions WHERE number = ?1 AND closed < 3")?
                .exists([session])
        })
    }

    /// Returns the row number of a session and its full id.
    pub(crate) fn number(&self, id: &str) -> Result<(i64, String)> {
        let found = self.with_reader(|connection| {
            let pair = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
            let exact = connection
                .prepare_cached("SELECT number, id FROM sessions WHERE id = ?1 AND closed < 3")?
                .query_row([id], pair)
                .optional()?;
            if let Some(exact) = exact {
                return Ok(vec![exact]);
            }
            let latest = connection
                .prepare_cached(
                    "SELECT number, id FROM sessions WHERE number IN (SELECT session FROM wire_ids WHERE id = ?1)
                     AND closed < 3 ORDER BY changed DESC, number DESC LIMIT 1",
                )?
                .query_row([id], pair)
                .optional()?;
            if let Some(latest) = latest {
                return Ok(vec![latest]);
            }
            let mut statement = connection.prepare_cached(
                "SELECT number, id FROM sessions WHERE closed < 3 AND ?1 <> '' AND id LIKE ?2 ESCAPE '\\'
                 ORDER BY number DESC LIMIT 20",
            )?;
            let beginning = format!("{}%", escaped(id));
            statement.query_map(params![id, beginning], pair)?.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        match found.len() {
            0 => Err(StoreError::UnknownSession { session: id.to_owned() }),
            1 => {
                found.into_iter().next().ok_or_else(|| StoreError::UnknownSession { session: id.to_owned() })
            }
            _ => Err(StoreError::AmbiguousSession {
                prefix: id.to_owned(),
                candidates: found.into_iter().map(|(_, id)| id).collect(),
            }),
        }
    }

    /// Returns the bytes of the file in use, like [`Sizes::used`]. Cheap.
    pub fn used(&self) -> Result<u64> {
        self.with_reader(removal::used)
    }

    /// Returns the sizes of the store on disk.
    pub fn sizes(&self) -> Result<Sizes> {
        self.with_reader(|connection| {
            let sum = |query: &str| {
                connection.query_row(query, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
            };
            Ok(Sizes {
                wire: sum("SELECT coalesce(sum(bytes), 0) FROM sessions")?,
                journal: sum("SELECT coalesce(sum(length(data)), 0) FROM blocks")?
                    + sum("SELECT coalesce(sum(length(data) + 40), 0) FROM contents")?,
                checkpoints: sum("SELECT coalesce(sum(length(data)), 0) FROM checkpoints")?
                    + sum("SELECT coalesce(sum(length(data)), 0) FROM entries")?,
                used: sum("SELECT (page_count - freelist_count) * page_size
                     FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()")?,
                file: sum("SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()")?,
            })
        })
    }
}

/// Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sizes {
    /// Bytes of the records on the wire.
    pub wire: u64,
    /// Compressed blocks and contents.
    pub journal: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Part of the file in use, including the search index.
    pub used: u64,
    /// Size of the file, including the free space of deleted sessions.
    pub file: u64,
}

const SUMMARY: &str = "SELECT number, id, agent, client, project, title, protocol, began, changed, length, bytes, closed FROM sessions";

fn summary(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<Summary> {
    let number: i64 = row.get(0)?;
    let mut ids = connection
        .prepare_cached("SELECT id FROM wire_ids WHERE session = ?1 AND place >= 0 ORDER BY place")?;
    let wire_ids = ids.query_map([number], |row| row.get(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(Summary {
        id: row.get(1)?,
        wire_ids,
        about: About { agent: row.get(2)?, client: row.get(3)?, project: row.get(4)?, title: row.get(5)? },
        protocol: row.get(6)?,
        began: Moment(row.get(7)?),
        changed: Moment(row.get(8)?),
        length: row.get::<_, i64>(9)?.unsigned_abs(),
        bytes: row.get::<_, i64>(10)?.unsigned_abs(),
        closed: row.get::<_, i64>(11)? == 1,
    })
}

/// Escapes a literal part of a LIKE pattern.
fn escaped(part: &str) -> String {
    part.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

/// Returns the number of records of a session, including its journal.
pub(crate) fn length(
    connection: &Connection,
    folder: &Folder,
    session: i64,
    id: &str,
) -> rusqlite::Result<u64> {
    // Journal first: records that are moved out of it meanwhile are then seen in the database.
    let end = segment::end(folder, id).map_err(|error| failure(error.into()))?;
    Ok(read::stored_length(connection, session)?.max(end.map_or(0, |end| end.next)))
}
