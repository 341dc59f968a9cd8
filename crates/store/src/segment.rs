//! The journal of a session: append-only files that hold its records until the writer moves them into the
//! database. A record is appended here before it is delivered to any peer.
//!
//! A journal is a sequence of segments, `ID.N` in the folder `-writers` next to the store, where `N` is the
//! sequence number of the first record. A segment is a sequence of frames: a header of 24 bytes (payload
//! length, record count, sequence number of the first record, checksum), then the records. Lines that arrived
//! together are stored as received, with one record header for all of them. Bytes that the kernel has
//! accepted survive a crash of the process.
//!
//! An incomplete frame at the end of the last segment is an interrupted write. Any other frame that does not
//! match its checksum is damaged: it is skipped, reported as a gap, and reading continues with the next
//! intact frame. The writer keeps a link to a damaged segment in the folder `-damaged` next to the store.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use switchboard_acp::Moment;

use crate::block::{Input, put, unzigzag, zigzag};
use crate::lock::SessionLock;
use crate::private;
use crate::record::{About, Channel, MAX_MESSAGE, Record};

/// Size in bytes at which a recorder starts a new segment.
pub(crate) const SEGMENT: u64 = 4 * 1024 * 1024;
/// Size in bytes at which a frame is written without waiting for more records.
pub(crate) const FRAME: usize = 256 * 1024;
/// Length of a frame header in bytes: payload length, count, first sequence number, checksum.
const HEADER: usize = 24;
/// Maximum payload length of a frame in bytes.
const MAX_PAYLOAD: usize = MAX_MESSAGE + 4 * FRAME;
/// Number of bytes per read.
const READ: u64 = 256 * 1024;
/// Number of bytes searched for the next frame after damage: a full segment plus a frame of maximum size.
const MAX_SEARCH: u64 = SEGMENT + (2 * HEADER + MAX_PAYLOAD) as u64;
/// Bytes hashed per byte searched when looking for the next frame. Messages may contain bytes that look like
/// headers of large frames; without a limit each of them would be hashed to the end of the segment.
const MAX_HASHED: usize = 8;
/// Flag in the channel code: the bytes are several records, separated by newlines.
const LINES: u8 = 0x80;

/// The folder with the journals of a store.
#[derive(Debug, Clone)]
pub(crate) struct Folder(Arc<Path>);

impl Folder {
    pub(crate) fn beside(store: &Path) -> Self {
        let mut name = store.as_os_str().to_owned();
        name.push("-writers");
        Folder(PathBuf::from(name).into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the sessions that have a journal, each with its segments in order.
    pub(crate) fn journals(&self) -> std::io::Result<Vec<(String, Vec<u64>)>> {
        let mut journals: std::collections::BTreeMap<String, Vec<u64>> = std::collections::BTreeMap::new();
        self.each(|id, first| journals.entry(id.to_owned()).or_default().push(first))?;
        for segments in journals.values_mut() {
            segments.sort_unstable();
        }
        Ok(journals.into_iter().collect())
    }

    /// Returns the first sequence numbers of a session's segments, in order.
    pub(crate) fn segments(&self, id: &str) -> std::io::Result<Vec<u64>> {
        let mut segments = Vec::new();
        self.each(|session, first| {
            if session == id {
                segments.push(first);
            }
        })?;
        segments.sort_unstable();
        Ok(segments)
    }

    fn each(&self, mut see: impl FnMut(&str, u64)) -> std::io::Result<()> {
        let entries = match std::fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let name = entry?.file_name();
            let parts = name.to_str().and_then(|name| name.rsplit_once('.'));
            if let Some((id, Ok(first))) = parts.map(|(id, first)| (id, first.parse())) {
                see(id, first);
            }
        }
        Ok(())
    }

    fn segment(&self, id: &str, first: u64) -> PathBuf {
        self.0.join(format!("{id}.{first}"))
    }

    /// Returns the folder for damaged files: `-damaged` next to the store.
    pub(crate) fn damaged(&self) -> PathBuf {
        let name = self.0.as_os_str().to_string_lossy();
        PathBuf::from(format!("{}-damaged", name.strip_suffix("-writers").unwrap_or(&name)))
    }

    /// Links or copies a damaged segment into the folder for damaged files, so that it remains when the
    /// segment is removed.
    pub(crate) fn keep_damaged(&self, id: &str, first: u64) -> std::io::Result<()> {
        let folder = self.damaged();
        private::create_folder(&folder)?;
        let (from, to) = (self.segment(id, first), folder.join(format!("{id}.{first}")));
        match std::fs::hard_link(&from, &to) {
            Ok(()) => Ok(()),
            // Already kept, perhaps by a process that died before it had moved the records.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(_) => private::copy(&from, &to),
        }
    }

    /// Returns the damaged segments of a session that were kept, by their first sequence number.
    pub(crate) fn kept(&self, id: &str) -> std::io::Result<Vec<(u64, PathBuf)>> {
        let kept = Folder(self.damaged().into());
        let segments = kept.segments(id)?;
        Ok(segments.into_iter().map(|first| (first, kept.segment(id, first))).collect())
    }

    /// Creates a segment. Truncates an existing one of the same name.
    pub(crate) fn create(&self, id: &str, first: u64) -> std::io::Result<File> {
        private::create_folder(&self.0)?;
        private::options().write(true).create(true).truncate(true).open(self.segment(id, first))
    }

    /// Removes the segments that only have records below `before`, or all segments without it.
    pub(crate) fn remove(&self, id: &str, before: Option<u64>) -> std::io::Result<()> {
        let segments = self.segments(id)?;
        for (index, first) in segments.iter().enumerate() {
            let is_done = match before {
                None => true,
                Some(before) => segments.get(index + 1).is_some_and(|next| *next <= before),
            };
            if is_done {
                std::fs::remove_file(self.segment(id, *first))?;
            }
        }
        Ok(())
    }

    /// Removes the damaged segments of a session that were kept.
    pub(crate) fn remove_kept(&self, id: &str) -> std::io::Result<()> {
        self.kept(id)?.into_iter().try_for_each(|(_, path)| std::fs::remove_file(path))
    }
}

/// The first frame of each segment: session metadata, from which the session can be restored if its database
/// row is lost.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SegmentHead {
    pub(crate) began: i64,
    pub(crate) agent: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) project: Option<String>,
    pub(crate) title: Option<String>,
    /// Bytes on the wire of all records before this segment.
    pub(crate) bytes: u64,
}

impl SegmentHead {
    pub(crate) fn new(about: &About, began: Moment, bytes: u64) -> Self {
        let About { agent, client, project, title } = about.clone();
        SegmentHead { began: began.0, agent, client, project, title, bytes }
    }

    pub(crate) fn about(&self) -> About {
        let SegmentHead { agent, client, project, title, .. } = self.clone();
        About { agent, client, project, title }
    }
}

/// Payload of a frame without records.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    Head(SegmentHead),
    /// The recorder closed the session.
    Closed,
}

/// Buffer for the records of the next frame.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    count: u32,
    /// Bytes of the records on the wire.
    wire: u64,
}

impl Frame {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn count(&self) -> u64 {
        u64::from(self.count)
    }

    pub(crate) fn wire(&self) -> u64 {
        self.wire
    }

    pub(crate) fn push(&mut self, record: &Record) {
        let Record { sequence: _, time, channel, peer, protocol, bytes } = record;
        self.head((*time, channel.code(), *protocol), peer, bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.count += 1;
        self.wire += bytes.len() as u64;
    }

    /// Adds a header for lines that are written after the frame's own bytes, so that they need not be copied.
    pub(crate) fn push_lines(&mut self, (time, channel, protocol): (Moment, Channel, u16), lines: &[u8]) {
        self.head((time, channel.code() | LINES, protocol), "", lines.len());
        let ends = memchr::memchr_iter(b'\n', lines).count();
        self.count += ends as u32 + 1;
        self.wire += (lines.len() - ends) as u64;
    }

    fn head(&mut self, (time, code, protocol): (Moment, u8, u16), peer: &str, length: usize) {
        if self.bytes.is_empty() {
            self.bytes.resize(HEADER, 0);
        }
        put(&mut self.bytes, zigzag(time.0));
        self.bytes.push(code);
        put(&mut self.bytes, u64::from(protocol));
        put(&mut self.bytes, peer.len() as u64);
        self.bytes.extend_from_slice(peer.as_bytes());
        put(&mut self.bytes, length as u64);
    }

    /// Fills in the header and returns the bytes of the frame. `rest` is the part of the payload that the
    /// caller writes after them.
    pub(crate) fn finish(&mut self, first: u64, rest: &[u8]) -> &[u8] {
        let length = (self.bytes.len() - HEADER + rest.len()) as u32;
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.bytes[4..8].copy_from_slice(&self.count.to_le_bytes());
        self.bytes[8..16].copy_from_slice(&first.to_le_bytes());
        // The checksum covers the header fields too, so that a changed length or sequence number is detected.
        let check = checksum(&[&self.bytes[..16], &self.bytes[HEADER..], rest]);
        self.bytes[16..HEADER].copy_from_slice(&check);
        &self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        // Release the memory of an exceptionally large message.
        self.bytes.shrink_to(2 * FRAME);
        self.count = 0;
        self.wire = 0;
    }

    /// Returns a frame that holds a note.
    pub(crate) fn note(note: &Note, first: u64) -> Vec<u8> {
        let mut frame = Frame { bytes: vec![0; HEADER], ..Frame::default() };
        // Serializing cannot fail: a note has only strings and numbers.
        frame.bytes.extend_from_slice(&serde_json::to_vec(note).unwrap_or_default());
        frame.finish(first, &[]).to_vec()
    }
}

fn checksum(parts: &[&[u8]]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut check = [0; 8];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    check
}

/// Content of a frame.
enum FrameContent<'a> {
    Records { count: u32, payload: &'a [u8] },
    Note(Note),
}

/// The fields of a frame's header.
#[derive(Clone, Copy)]
struct Header {
    length: usize,
    count: u32,
    first: u64,
}

impl Header {
    /// Parses the header at the start of `bytes`. Does not verify the checksum.
    fn read(bytes: &[u8]) -> Option<Self> {
        let field = |range: std::ops::Range<usize>| bytes.get(range)?.try_into().ok();
        Some(Header {
            length: u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize,
            count: u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?),
            first: u64::from_le_bytes(field(8..16)?),
        })
        .filter(|_| bytes.len() >= HEADER)
    }

    /// Returns true if `payload` matches this header and the checksum in `bytes`, which start with a header.
    fn matches(self, bytes: &[u8], payload: &[u8]) -> bool {
        let mut fields = [0; 16];
        fields[..4].copy_from_slice(&(self.length as u32).to_le_bytes());
        fields[4..8].copy_from_slice(&self.count.to_le_bytes());
        fields[8..].copy_from_slice(&self.first.to_le_bytes());
        bytes.get(16..HEADER).is_some_and(|check| checksum(&[&fields, payload]) == check)
    }
}

/// Reason why there is no intact frame at an offset.
enum FrameFault {
    /// The frame needs this many bytes, more than are available.
    Incomplete(usize),
    /// The checksum does not match, or the header is implausible.
    Damaged,
}

/// Parses the frame at the start of `bytes`: its first sequence number, its content and its length in bytes.
fn frame(bytes: &[u8]) -> Result<(u64, FrameContent<'_>, usize), FrameFault> {
    // Check the length before anything else: a damaged one could ask for gigabytes.
    let header = Header::read(bytes).ok_or(FrameFault::Incomplete(HEADER))?;
    if header.length > MAX_PAYLOAD {
        return Err(FrameFault::Damaged);
    }
    let end = HEADER + header.length;
    let payload = bytes.get(HEADER..end).ok_or(FrameFault::Incomplete(end))?;
    if !header.matches(bytes, payload) {
        return Err(FrameFault::Damaged);
    }
    let content = match header.count {
        0 => FrameContent::Note(serde_json::from_slice(payload).map_err(|_| FrameFault::Damaged)?),
        count => FrameContent::Records { count, payload },
    };
    Ok((header.first, content, end))
}

/// Returns the offset of the next intact frame in bytes that start with a damaged one. `expected` is the
/// sequence number that should follow.
fn next_frame(bytes: &[u8], expected: u64) -> Option<usize> {
    let is_plausible = |at: usize| {
        let header = bytes.get(at..).and_then(Header::read)?;
        let is_near = header.first.checked_sub(expected).is_some_and(|ahead| ahead <= bytes.len() as u64);
        let is_small = header.length <= MAX_PAYLOAD && header.count as usize <= header.length + 1;
        (is_near && is_small && at + HEADER + header.length <= bytes.len()).then_some(header.length)
    };
    // Most damage leaves the length intact. The bytes of the damaged frame are then skipped as a whole,
    // because an agent may have sent a message that contains a valid frame.
    let end = Header::read(bytes).map_or(0, |header| HEADER + header.length);
    if end > 0 && is_plausible(end).is_some() && frame(&bytes[end..]).is_ok() {
        return Some(end);
    }
    // Otherwise try every offset whose header is plausible, with a bounded amount of hashing.
    let mut budget = MAX_HASHED * bytes.len();
    for at in 1..bytes.len() {
        let Some(length) = is_plausible(at) else { continue };
        budget = budget.checked_sub(length)?;
        if frame(&bytes[at..]).is_ok() {
            // If the damaged frame seems to reach to the end, accept a candidate only if intact frames follow
            // it to the end.
            return Some(at).filter(|at| end != bytes.len() || is_row_of_frames(&bytes[*at..]));
        }
    }
    None
}

/// Returns true if the bytes consist of intact frames only.
fn is_row_of_frames(mut bytes: &[u8]) -> bool {
    while let Ok((_, _, length)) = frame(bytes) {
        bytes = &bytes[length..];
    }
    bytes.is_empty()
}

/// Counts the records that are lost after the last intact frame of a journal without a recorder. An
/// interrupted write is not a loss, because its records were not delivered to any peer.
fn lost_records(bytes: &[u8]) -> u64 {
    let (mut lost, mut rest) = (0, bytes);
    // Zeros are blocks that never reached the disk.
    while let Some(header) = Header::read(rest).filter(|_| rest.iter().any(|byte| *byte != 0)) {
        let Some(payload) = rest.get(HEADER..HEADER.saturating_add(header.length)) else {
            // Interrupted write, unless the checksum matches with the actual length.
            let payload = &rest[HEADER..];
            let is_damaged = Header { length: payload.len(), ..header }.matches(rest, payload);
            return lost + if is_damaged { u64::from(header.count) } else { 0 };
        };
        let counted = count(payload);
        let is_counted = Header { count: counted, ..header }.matches(rest, payload);
        lost += match header.count {
            _ if is_counted => u64::from(counted),
            likely if likely as usize <= payload.len() => u64::from(likely),
            _ => u64::from(counted.max(1)),
        };
        rest = &rest[HEADER + header.length..];
    }
    lost
}

/// Counts the records of a payload up to the first that cannot be parsed.
fn count(payload: &[u8]) -> u32 {
    let mut count = 0;
    let mut input = Input(payload);
    while let Some((_, is_lines, bytes)) = piece(&mut input) {
        count += 1 + if is_lines { memchr::memchr_iter(b'\n', bytes).count() as u32 } else { 0 };
    }
    count
}

/// Passes the records of a payload to `take`, starting with sequence number `from`. The first record has
/// number `first`.
fn unpack(payload: &[u8], first: u64, from: u64, mut take: impl FnMut(Record)) {
    let mut sequence = first;
    let mut input = Input(payload);
    while let Some((head, is_lines, mut bytes)) = piece(&mut input) {
        loop {
            let end = memchr::memchr(b'\n', bytes).filter(|_| is_lines);
            let line = &bytes[..end.unwrap_or(bytes.len())];
            if sequence >= from {
                take(Record { sequence, bytes: line.to_vec(), ..head.clone() });
            }
            sequence += 1;
            match end {
                Some(end) => bytes = &bytes[end + 1..],
                None => break,
            }
        }
    }
}

/// Parses the next record of a payload. Returns it without its bytes, a flag that says if they are several
/// lines, and the bytes.
fn piece<'a>(input: &mut Input<'a>) -> Option<(Record, bool, &'a [u8])> {
    let time = Moment(unzigzag(input.number()?));
    let code = *input.take(1)?.first()?;
    let channel = Channel::from_code(code & !LINES)?;
    let protocol = u16::try_from(input.number()?).ok()?;
    let length = input.number()?;
    let peer = std::str::from_utf8(input.take(length)?).ok()?.into();
    let length = input.number()?;
    let bytes = input.take(length)?;
    let head = Record { sequence: 0, time, channel, peer, protocol, bytes: Vec::new() };
    Some((head, code & LINES != 0, bytes))
}

/// Result of reading a journal at an offset.
#[derive(Debug)]
pub(crate) enum JournalRead {
    Records(Vec<Record>),
    /// No more records so far.
    End,
    /// No records below `to`.
    Missing {
        to: u64,
        /// First sequence number of the damaged segment that is the cause, if there is one.
        damaged: Option<u64>,
    },
}

/// A read position in the journal of a session.
#[derive(Debug)]
pub(crate) struct Cursor {
    folder: Folder,
    id: Arc<str>,
    next: u64,
    segment: Option<OpenSegment>,
    /// True if all segments were listed since a record was last found.
    has_looked: bool,
    /// Session metadata from the last segment header read.
    pub(crate) head: Option<SegmentHead>,
    /// True if the recorder has closed the session.
    pub(crate) closed: bool,
    /// Fixed list of segments, for callers that read many journals and do not need newer segments.
    listed: Option<Arc<[u64]>>,
    /// True if no more records will be appended. Set by the writer; readers check the session's lock instead.
    complete: Option<bool>,
}

#[derive(Debug)]
struct OpenSegment {
    first: u64,
    file: File,
    offset: u64,
    /// Sequence number after the last frame read.
    next: u64,
    /// First sequence number of the next frame, if it is not the wanted one.
    jump: Option<u64>,
    /// True if a damaged frame was skipped.
    is_damaged: bool,
    /// Offset and file length at which no intact frame was found after a damaged one.
    searched: Option<(u64, u64)>,
}

/// Reason why reading frames stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopReason {
    /// The byte limit is reached.
    Limit,
    /// End of the segment so far.
    End,
    /// The following bytes are not an intact frame.
    Fault,
    /// The next frame starts with this sequence number, which is not the wanted one.
    Jump(u64),
}

impl Cursor {
    pub(crate) fn new(folder: &Folder, id: &str, next: u64) -> Self {
        let folder = folder.clone();
        Cursor {
            folder,
            id: id.into(),
            next,
            segment: None,
            has_looked: false,
            head: None,
            closed: false,
            listed: None,
            complete: None,
        }
    }

    /// Creates a cursor in a journal whose segments are already listed, so that the folder is not read for
    /// each of many journals.
    pub(crate) fn listed(folder: &Folder, id: &str, next: u64, segments: &[u64]) -> Self {
        Cursor { listed: Some(segments.into()), ..Cursor::new(folder, id, next) }
    }

    fn segments(&self) -> std::io::Result<Vec<u64>> {
        match &self.listed {
            Some(listed) => Ok(listed.to_vec()),
            None => self.folder.segments(&self.id),
        }
    }

    /// Sets if more records may be appended. For the writer of the session, which does not need to check the
    /// lock.
    pub(crate) fn set_complete(&mut self, is_complete: bool) {
        self.complete = Some(is_complete);
    }

    /// Returns true if a segment is open.
    pub(crate) fn is_open(&self) -> bool {
        self.segment.is_some()
    }

    /// Moves the read position out of `self`, which keeps no open file.
    pub(crate) fn take(&mut self) -> Self {
        Cursor {
            folder: self.folder.clone(),
            id: Arc::clone(&self.id),
            segment: self.segment.take(),
            head: self.head.take(),
            listed: self.listed.take(),
            ..*self
        }
    }

    /// Returns the sequence number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the path of the segment that starts with `first`.
    pub(crate) fn path(&self, first: u64) -> PathBuf {
        self.folder.segment(&self.id, first)
    }

    /// Returns the first sequence number of the open segment, 0 if none is open.
    pub(crate) fn segment_start(&self) -> u64 {
        self.segment.as_ref().map_or(0, |open| open.first)
    }

    /// Reads the records at this position, about `limit` bytes of them.
    pub(crate) fn read(&mut self, limit: usize) -> std::io::Result<JournalRead> {
        // A segment may have grown between reading its end and finding its successor. Read it once more
        // before moving on, or the records appended in between would be skipped.
        let mut looked_again = false;
        loop {
            if self.segment.is_none() && !self.open()? {
                let segments = self.segments()?;
                let behind = segments.into_iter().find(|first| *first > self.next);
                return Ok(behind.map_or(JournalRead::End, |to| JournalRead::Missing { to, damaged: None }));
            }
            // Return records that were read before a fault first. The next call finds the fault again.
            let (records, stop) = self.frames(limit)?;
            if !records.is_empty() {
                self.has_looked = false;
                return Ok(JournalRead::Records(records));
            }
            match stop {
                StopReason::Jump(to) => return Ok(self.missing(to, stop)),
                StopReason::Fault if self.skip_damage()? => continue,
                StopReason::Limit | StopReason::End | StopReason::Fault => {}
            }
            match self.successor()? {
                None => {
                    if stop == StopReason::Fault
                        && let Some(to) = self.damaged_end()?
                    {
                        return Ok(self.missing(to, stop));
                    }
                    // After damage the next segment's number may differ from the next record's, so list all
                    // segments again.
                    self.has_looked = stop != StopReason::Fault;
                    return Ok(JournalRead::End);
                }
                Some(_) if !looked_again => looked_again = true,
                Some(first) if first <= self.next => {
                    self.segment = None;
                    looked_again = false;
                }
                Some(to) => return Ok(self.missing(to, stop)),
            }
        }
    }

    fn missing(&self, to: u64, stop: StopReason) -> JournalRead {
        let damaged = self.segment.as_ref().filter(|open| open.is_damaged || stop == StopReason::Fault);
        JournalRead::Missing { to, damaged: damaged.map(|open| open.first) }
    }

    /// Reads the bytes after the last frame of the open segment, at most [`MAX_SEARCH`].
    fn rest(open: &OpenSegment) -> std::io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        (&open.file).seek(SeekFrom::Start(open.offset))?;
        (&open.file).take(MAX_SEARCH).read_to_end(&mut rest)?;
        Ok(rest)
    }

    /// Moves to the next intact frame of the segment. Returns false if there is none.
    fn skip_damage(&mut self) -> std::io::Result<bool> {
        let Some(open) = &mut self.segment else { return Ok(false) };
        let at = (open.offset, open.file.metadata()?.len());
        if open.searched == Some(at) {
            return Ok(false);
        }
        let rest = Cursor::rest(open)?;
        // The write may have completed since the failed read.
        if frame(&rest).is_ok() {
            return Ok(true);
        }
        let Some(found) = next_frame(&rest, open.next) else {
            open.searched = Some(at);
            return Ok(false);
        };
        open.offset += found as u64;
        open.is_damaged = true;
        Ok(true)
    }

    /// Returns the sequence number after the records lost at the end of the last segment. `None` if none are
    /// lost, or if a recorder may still be writing.
    fn damaged_end(&self) -> std::io::Result<Option<u64>> {
        let Some(open) = &self.segment else { return Ok(None) };
        let is_complete = self.complete.unwrap_or_else(|| !SessionLock::is_taken_in(&self.folder, &self.id));
        if !is_complete {
            return Ok(None);
        }
        let rest = Cursor::rest(open)?;
        // The write may have completed; the next read then returns it.
        let lost = if frame(&rest).is_ok() { 0 } else { lost_records(&rest) };
        Ok(Some(open.next + lost).filter(|to| *to > self.next))
    }

    /// Returns the segment after the open one. A cursor that polls checks only for the segment that starts
    /// with the next record, because an earlier gap was already found when all segments were listed.
    fn successor(&self) -> std::io::Result<Option<u64>> {
        let Some(open) = &self.segment else { return Ok(None) };
        if self.has_looked {
            let follows = self.next > open.first && self.folder.segment(&self.id, self.next).try_exists()?;
            return Ok(follows.then_some(self.next));
        }
        Ok(self.segments()?.into_iter().find(|first| *first > open.first))
    }

    /// Continues at `next`, after missing records.
    pub(crate) fn skip_to(&mut self, next: u64) {
        self.next = next;
        // After damage the open segment is already at the right offset.
        if self.segment.as_ref().is_none_or(|open| open.jump != Some(next)) {
            self.segment = None;
        }
    }

    /// Opens the segment that contains the next record. Returns false if there is none.
    fn open(&mut self) -> std::io::Result<bool> {
        self.has_looked = false;
        let segments = self.segments()?;
        let Some(first) = segments.into_iter().rev().find(|first| *first <= self.next) else {
            return Ok(false);
        };
        match File::open(self.folder.segment(&self.id, first)) {
            Ok(file) => {
                self.segment = Some(OpenSegment {
                    first,
                    file,
                    offset: 0,
                    next: first,
                    jump: None,
                    is_damaged: false,
                    searched: None,
                });
            }
            // The writer moved it into the database in the meantime.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn frames(&mut self, limit: usize) -> std::io::Result<(Vec<Record>, StopReason)> {
        let Some(open) = &mut self.segment else { return Ok((Vec::new(), StopReason::End)) };
        let mut records = Vec::new();
        let (mut buffer, mut wanted, mut taken) = (Vec::new(), READ, 0);
        while taken < limit {
            buffer.clear();
            open.file.seek(SeekFrom::Start(open.offset))?;
            (&open.file).take(wanted).read_to_end(&mut buffer)?;
            if buffer.is_empty() {
                return Ok((records, StopReason::End));
            }
            let mut at = 0;
            let fault = loop {
                if at == buffer.len() {
                    break None;
                }
                let (first, content, length) = match frame(&buffer[at..]) {
                    Ok(found) => found,
                    Err(fault) => break Some(fault),
                };
                // Keep the offset of this frame: after the gap is reported, reading continues here.
                if first > self.next {
                    open.offset += at as u64;
                    open.jump = Some(first);
                    return Ok((records, StopReason::Jump(first)));
                }
                at += length;
                match content {
                    FrameContent::Note(Note::Head(head)) => self.head = Some(head),
                    FrameContent::Note(Note::Closed) => self.closed = true,
                    FrameContent::Records { count, payload } => {
                        self.closed = false;
                        // The cursor may start in the middle of a segment: records below `next` are skipped.
                        open.next = open.next.max(first + u64::from(count));
                        unpack(payload, first, self.next, |record| {
                            if record.sequence == self.next {
                                taken += record.bytes.len() + 1;
                                self.next += 1;
                                records.push(record);
                            }
                        });
                    }
                }
                if taken >= limit {
                    break None;
                }
            };
            open.offset += at as u64;
            match fault {
                _ if at > 0 => wanted = READ,
                // The frame is longer than the buffer: read it as a whole, if the file has that many bytes.
                Some(FrameFault::Incomplete(needed)) if buffer.len() as u64 == wanted => {
                    wanted = needed as u64;
                }
                _ => return Ok((records, StopReason::Fault)),
            }
        }
        Ok((records, StopReason::Limit))
    }
}

/// End of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// Next sequence number.
    pub(crate) next: u64,
    /// Bytes of all records on the wire.
    pub(crate) bytes: u64,
    /// Latest time in the last segment.
    pub(crate) latest: Option<Moment>,
    /// True if the recorder closed the session.
    pub(crate) closed: bool,
}

/// Returns the end of a session's journal. `None` if there is no journal.
pub(crate) fn end(folder: &Folder, id: &str) -> std::io::Result<Option<End>> {
    match folder.segments(id)?.pop() {
        Some(last) => end_in(folder, id, last),
        None => Ok(None),
    }
}

/// Like [`end`], with the last segment known. Reads that file only, so that the caller can list the folder
/// once for many sessions.
pub(crate) fn end_in(folder: &Folder, id: &str, first: u64) -> std::io::Result<Option<End>> {
    let mut cursor = Cursor::listed(folder, id, first, &[first]);
    if !cursor.open()? {
        // The writer moved it into the database in the meantime.
        return Ok(None);
    }
    let mut end = End { next: first, bytes: 0, latest: None, closed: false };
    loop {
        match cursor.read(FRAME)? {
            JournalRead::Records(records) => {
                for record in records {
                    end.next = record.sequence + 1;
                    end.bytes += record.bytes.len() as u64;
                    end.latest = end.latest.max(Some(record.time));
                }
            }
            JournalRead::Missing { to, .. } => {
                end.next = to;
                cursor.skip_to(to);
            }
            JournalRead::End => break,
        }
    }
    end.bytes += cursor.head.as_ref().map_or(0, |head| head.bytes);
    end.closed = cursor.closed;
    Ok(Some(end))
}
