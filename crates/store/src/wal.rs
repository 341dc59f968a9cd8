//! Checks SQLite's write-ahead log. SQLite ignores every frame from the first one that does not match its
//! checksum, because a crash leaves such frames at the end. It cannot distinguish an interrupted write from
//! damage to committed transactions, whose sessions would then disappear silently.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::schema;

/// Length in bytes of the log's header and of each frame's header.
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const MAGIC: u32 = 0x377f_0682;
/// Largest page size of SQLite in bytes.
const MAX_PAGE: u32 = 64 * 1024;
/// Delay before a reader checks again. A live writer completes a frame within this time.
const RECHECK_DELAY: Duration = Duration::from_millis(100);

/// Damage in the store's write-ahead log. The transactions after it are lost, and with them sessions or
/// records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "write-ahead log {} is damaged at byte {offset}; later transactions are lost and sessions may be missing{}",
    path.display(),
    kept.as_ref().map(|kept| format!("; a copy is kept as {}", kept.display())).unwrap_or_default()
)]
#[non_exhaustive]
pub struct LogDamage {
    /// Path of the log.
    pub path: PathBuf,
    /// Byte offset of the first frame that cannot be read.
    pub offset: u64,
    /// Path of the copy made before SQLite overwrites the log.
    pub kept: Option<PathBuf>,
}

/// Running checksum of the log. Each frame continues the checksum of the frame before it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Checksum {
    sums: (u32, u32),
    is_big_endian: bool,
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        let word = |bytes: &[u8]| {
            let word = bytes.try_into().unwrap_or_default();
            if self.is_big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
        };
        let (mut first, mut second) = self.sums;
        for pair in bytes.chunks_exact(8) {
            first = first.wrapping_add(word(&pair[..4])).wrapping_add(second);
            second = second.wrapping_add(word(&pair[4..])).wrapping_add(first);
        }
        self.sums = (first, second);
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// Syncs the log of a store to the disk, with all transactions that are committed.
pub(crate) fn sync(store: &Path) -> std::io::Result<()> {
    match File::open(schema::log(store)) {
        Ok(log) => log.sync_data(),
        // Its transactions are in the file, which SQLite has synced.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the byte offset of the first damage in a log, if there is any.
fn damage(log: &Path) -> std::io::Result<Option<u64>> {
    let file = match File::open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut input = BufReader::with_capacity(256 * 1024, file);
    let mut header = [0; HEADER];
    if !fill(&mut input, &mut header)? || header.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let (magic, page) = (number(&header, 0), number(&header, 8));
    let mut check = Checksum { sums: (0, 0), is_big_endian: magic & 1 == 1 };
    check.add(&header[..24]);
    let is_intact = magic & !1 == MAGIC
        && page.is_power_of_two()
        && (512..=MAX_PAGE).contains(&page)
        && check.sums == (number(&header, 24), number(&header, 28));
    if !is_intact {
        // A log without frames has no data to lose.
        let mut more = [0; FRAME_HEADER];
        return Ok(fill(&mut input, &mut more)?.then_some(0));
    }
    let salts = (number(&header, 16), number(&header, 20));
    let mut frame = vec![0; FRAME_HEADER + page as usize];
    let (mut offset, mut damaged) = (HEADER as u64, None);
    while fill(&mut input, &mut frame)? {
        let salt = (number(&frame, 8), number(&frame, 12));
        check.add(&frame[..8]);
        check.add(&frame[FRAME_HEADER..]);
        // Keep adding to the checksum after damage: it no longer matches, but the salts still identify the
        // generation.
        let is_intact = salt == salts && check.sums == (number(&frame, 16), number(&frame, 20));
        if damaged.is_none() && !is_intact {
            damaged = Some(offset);
        }
        // Frames of an earlier generation of the log follow the last one of this generation: both of their
        // salts differ.
        if let Some(damaged) = damaged
            && (salt.0 == salts.0 || salt.1 == salts.1)
        {
            return Ok(Some(damaged));
        }
        offset += frame.len() as u64;
    }
    Ok(None)
}

/// Fills a buffer. Returns false if the file ends first.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<bool> {
    match input.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Checks a log that other processes may be writing. I/O errors are left to SQLite, which reports them.
pub(crate) fn check(log: &Path) -> Option<LogDamage> {
    let offset = damage(log).ok().flatten()?;
    // Nothing unparks this thread. An early return only makes the second check less reliable.
    std::thread::park_timeout(RECHECK_DELAY);
    let again = damage(log).ok().flatten()?;
    (offset == again).then(|| LogDamage { path: log.to_owned(), offset, kept: None })
}

/// Checks a log. The caller must hold SQLite's write lock until this returns.
pub(crate) fn check_exclusive(log: &Path) -> Option<LogDamage> {
    let offset = damage(log).ok().flatten()?;
    Some(LogDamage { path: log.to_owned(), offset, kept: None })
}

/// Returns true if a log appears damaged. An active writer can have the same effect.
pub(crate) fn seems_damaged(log: &Path) -> bool {
    damage(log).is_ok_and(|damage| damage.is_some())
}
