//! The journal of a session: files to which its records are appended before anybody else gets them, and from which
//! the writer moves them into the store.
//!
//! A journal is a row of segments, `ID.N` in the folder beside the store, where `N` is the number of the first record.
//! A segment is a row of frames: 24 bytes of length, number of records, number of the first record and checksum, and
//! then the records. Lines that came together stand there as they came, with one head for all of them. What is in the
//! kernel survives the process.
//!
//! A frame that is incomplete at the end of the last segment was cut off while it was written. Any other frame that does
//! not match its checksum is damaged: it is skipped, reported as a gap, and reading continues with the next frame that
//! matches its checksum. The writer keeps a link to a damaged segment in the folder `-damaged` beside the store.

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

/// A segment is left for a new one when it has so many bytes.
pub(crate) const SEGMENT: u64 = 4 * 1024 * 1024;
/// A frame is written when it has so many bytes, whoever else wants to add to it.
pub(crate) const FRAME: usize = 256 * 1024;
/// Length, count, first, checksum.
const HEADER: usize = 24;
/// The largest payload of a frame.
const MAX_PAYLOAD: usize = MAX_MESSAGE + 4 * FRAME;
/// How much is read at once.
const READ: u64 = 256 * 1024;
/// The largest part of a segment that is searched for the next frame after damage: a full segment and a largest frame.
const MAX_SEARCH: u64 = SEGMENT + (2 * HEADER + MAX_PAYLOAD) as u64;
/// How many bytes are hashed in the search for the next frame, for each byte that is searched. Messages may contain bytes
/// that look like headers of large frames; without a limit each of them would be hashed to the end of the segment.
const MAX_HASHED: usize = 8;
/// Beside the code of a channel: the bytes are several records, with a line's end between two of them.
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

    /// The sessions that have a journal, each with its segments in their order.
    pub(crate) fn journals(&self) -> std::io::Result<Vec<(String, Vec<u64>)>> {
        let mut journals: std::collections::BTreeMap<String, Vec<u64>> = std::collections::BTreeMap::new();
        self.each(|id, first| journals.entry(id.to_owned()).or_default().push(first))?;
        for segments in journals.values_mut() {
            segments.sort_unstable();
        }
        Ok(journals.into_iter().collect())
    }

    /// The first records of a session's segments, in order.
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

    /// The folder for damaged files: `-damaged` beside the store.
    pub(crate) fn damaged(&self) -> PathBuf {
        let name = self.0.as_os_str().to_string_lossy();
        PathBuf::from(format!("{}-damaged", name.strip_suffix("-writers").unwrap_or(&name)))
    }

    /// Links or copies a damaged segment into the folder for damaged files, so that it remains when the segment is removed.
    pub(crate) fn keep_damaged(&self, id: &str, first: u64) -> std::io::Result<()> {
        let folder = self.damaged();
        private::create_folder(&folder)?;
        let (from, to) = (self.segment(id, first), folder.join(format!("{id}.{first}")));
        match std::fs::hard_link(&from, &to) {
            Ok(()) => Ok(()),
            // Kept before, perhaps by a process that died before it had moved the records.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(_) => private::copy(&from, &to),
        }
    }

    /// The damaged segments of a session that were kept, by the number of their first record.
    pub(crate) fn kept(&self, id: &str) -> std::io::Result<Vec<(u64, PathBuf)>> {
        let kept = Folder(self.damaged().into());
        let segments = kept.segments(id)?;
        Ok(segments.into_iter().map(|first| (first, kept.segment(id, first))).collect())
    }

    /// Makes a segment.
    pub(crate) fn create(&self, id: &str, first: u64) -> std::io::Result<File> {
        private::create_folder(&self.0)?;
        private::options().write(true).create(true).truncate(true).open(self.segment(id, first))
    }

    /// Removes the segments whose records are all before a number. Without one, all.
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

/// What a segment says about its session, for whoever finds it without the store knowing of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) began: i64,
    pub(crate) agent: Option<String>,
    pub(crate) client: Option<String>,
    pub(crate) project: Option<String>,
    pub(crate) title: Option<String>,
    /// How many bytes the records before this segment had on the wire.
    pub(crate) bytes: u64,
}

impl Head {
    pub(crate) fn new(about: &About, began: Moment, bytes: u64) -> Self {
        let About { agent, client, project, title } = about.clone();
        Head { began: began.0, agent, client, project, title, bytes }
    }

    pub(crate) fn about(&self) -> About {
        let Head { agent, client, project, title, .. } = self.clone();
        About { agent, client, project, title }
    }
}

/// What stands in a frame without records.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Note {
    Head(Head),
    /// The recorder said goodbye.
    Closed,
}

/// Records on their way into a frame.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    count: u32,
    /// How many bytes the records had on the wire.
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

    /// Makes room for lines that are written behind the frame's own bytes, without being copied.
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

    /// The bytes of the frame, whose first record has a number, but for the `rest` that follows them.
    pub(crate) fn finish(&mut self, first: u64, rest: &[u8]) -> &[u8] {
        let length = (self.bytes.len() - HEADER + rest.len()) as u32;
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.bytes[4..8].copy_from_slice(&self.count.to_le_bytes());
        self.bytes[8..16].copy_from_slice(&first.to_le_bytes());
        let check = checksum(&[&self.bytes[..16], &self.bytes[HEADER..], rest]);
        self.bytes[16..HEADER].copy_from_slice(&check);
        &self.bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        // One large message must not hold its room for ever.
        self.bytes.shrink_to(2 * FRAME);
        self.count = 0;
        self.wire = 0;
    }

    /// A frame with a note.
    pub(crate) fn note(note: &Note, first: u64) -> Vec<u8> {
        let mut frame = Frame { bytes: vec![0; HEADER], ..Frame::default() };
        // A note has only strings and numbers, which can always be written.
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

/// What a frame holds.
enum Content<'a> {
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
    /// Reads the header at the beginning of some bytes, whether or not its checksum matches.
    fn read(bytes: &[u8]) -> Option<Self> {
        let field = |range: std::ops::Range<usize>| bytes.get(range)?.try_into().ok();
        Some(Header {
            length: u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize,
            count: u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?),
            first: u64::from_le_bytes(field(8..16)?),
        })
        .filter(|_| bytes.len() >= HEADER)
    }

    /// Whether a payload belongs to this header according to the checksum in `bytes`, which begin with a header.
    fn matches(self, bytes: &[u8], payload: &[u8]) -> bool {
        let mut fields = [0; 16];
        fields[..4].copy_from_slice(&(self.length as u32).to_le_bytes());
        fields[4..8].copy_from_slice(&self.count.to_le_bytes());
        fields[8..].copy_from_slice(&self.first.to_le_bytes());
        bytes.get(16..HEADER).is_some_and(|check| checksum(&[&fields, payload]) == check)
    }
}

/// Why there is no frame at a place.
enum Fault {
    /// The frame needs so many bytes, which is more than there are.
    Incomplete(usize),
    /// The bytes are not those that were written.
    Damaged,
}

/// The frame at the beginning of some bytes: the number of its first record, what it holds, and its length.
fn frame(bytes: &[u8]) -> Result<(u64, Content<'_>, usize), Fault> {
    let header = Header::read(bytes).ok_or(Fault::Incomplete(HEADER))?;
    if header.length > MAX_PAYLOAD {
        return Err(Fault::Damaged);
    }
    let end = HEADER + header.length;
    let payload = bytes.get(HEADER..end).ok_or(Fault::Incomplete(end))?;
    if !header.matches(bytes, payload) {
        return Err(Fault::Damaged);
    }
    let content = match header.count {
        0 => Content::Note(serde_json::from_slice(payload).map_err(|_| Fault::Damaged)?),
        count => Content::Records { count, payload },
    };
    Ok((header.first, content, end))
}

/// Finds the next intact frame in bytes that begin with a damaged one, in which a record with the number `expected` should
/// follow.
fn next_frame(bytes: &[u8], expected: u64) -> Option<usize> {
    let is_plausible = |at: usize| {
        let header = bytes.get(at..).and_then(Header::read)?;
        let is_near = header.first.checked_sub(expected).is_some_and(|ahead| ahead <= bytes.len() as u64);
        let is_small = header.length <= MAX_PAYLOAD && header.count as usize <= header.length + 1;
        (is_near && is_small && at + HEADER + header.length <= bytes.len()).then_some(header.length)
    };
    // Most damage leaves the length intact. The bytes of the damaged frame are then skipped as a whole, because an agent
    // may have sent a message that contains a frame.
    let end = Header::read(bytes).map_or(0, |header| HEADER + header.length);
    if end > 0 && is_plausible(end).is_some() && frame(&bytes[end..]).is_ok() {
        return Some(end);
    }
    let mut budget = MAX_HASHED * bytes.len();
    for at in 1..bytes.len() {
        let Some(length) = is_plausible(at) else { continue };
        budget = budget.checked_sub(length)?;
        if frame(&bytes[at..]).is_ok() {
            // Within what seems to be one frame up to the end, only whole frames up to the end are believed.
            return Some(at).filter(|at| end != bytes.len() || is_row_of_frames(&bytes[*at..]));
        }
    }
    None
}

/// Whether bytes are intact frames and nothing else.
fn is_row_of_frames(mut bytes: &[u8]) -> bool {
    while let Ok((_, _, length)) = frame(bytes) {
        bytes = &bytes[length..];
    }
    bytes.is_empty()
}

/// How many records are lost in the bytes after the last intact frame of a journal that is not written any more. Bytes that
/// a write has left when it was cut off are none: nobody has got those records.
fn lost_records(bytes: &[u8]) -> u64 {
    let (mut lost, mut rest) = (0, bytes);
    // Zeros are blocks that never got to the disk.
    while let Some(header) = Header::read(rest).filter(|_| rest.iter().any(|byte| *byte != 0)) {
        let Some(payload) = rest.get(HEADER..HEADER.saturating_add(header.length)) else {
            // Cut off, unless the checksum matches once the length is that of the bytes that are there.
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

/// Counts the records of a payload, as far as it can be read.
fn count(payload: &[u8]) -> u32 {
    let mut count = 0;
    let mut input = Input(payload);
    while let Some((_, is_lines, bytes)) = piece(&mut input) {
        count += 1 + if is_lines { memchr::memchr_iter(b'\n', bytes).count() as u32 } else { 0 };
    }
    count
}

/// Gives the records of a payload whose first one has a number, from another number on.
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

/// The next record of a payload, still without its bytes, and whether these are several lines.
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

/// What a journal has at a place.
#[derive(Debug)]
pub(crate) enum Found {
    Records(Vec<Record>),
    /// Nothing, so far.
    End,
    /// No record before this number.
    Missing {
        to: u64,
        /// The first record of the segment whose damage is the reason.
        damaged: Option<u64>,
    },
}

/// A place in the journal of a session.
#[derive(Debug)]
pub(crate) struct Cursor {
    folder: Folder,
    id: Arc<str>,
    next: u64,
    segment: Option<Open>,
    /// Whether all segments were looked through since something was last found.
    has_looked: bool,
    /// What the segments said about the session, once one was read.
    pub(crate) head: Option<Head>,
    /// Whether the recorder has said goodbye.
    pub(crate) closed: bool,
    /// The segments that there are, for who reads many journals and needs no news.
    listed: Option<Arc<[u64]>>,
    /// Whether nothing is appended any more. The writer knows; readers look at the session's lock when they need to know.
    complete: Option<bool>,
}

#[derive(Debug)]
struct Open {
    first: u64,
    file: File,
    offset: u64,
    /// The number of the record that follows the last frame that was read.
    next: u64,
    /// The number of the record that the next frame begins with, where it is not the wanted one.
    jump: Option<u64>,
    /// Whether a damaged frame was skipped.
    is_damaged: bool,
    /// Where and at which length of the file no intact frame was found after a damaged one.
    searched: Option<(u64, u64)>,
}

/// Why reading frames ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Enough was read.
    Limit,
    /// The segment ends here, so far.
    End,
    /// The bytes that follow are not a frame.
    Fault,
    /// The next frame begins with this record, which is not the wanted one.
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

    /// A place in a journal whose segments are known, so that the folder need not be read for each of many journals.
    pub(crate) fn listed(folder: &Folder, id: &str, next: u64, segments: &[u64]) -> Self {
        Cursor { listed: Some(segments.into()), ..Cursor::new(folder, id, next) }
    }

    fn segments(&self) -> std::io::Result<Vec<u64>> {
        match &self.listed {
            Some(listed) => Ok(listed.to_vec()),
            None => self.folder.segments(&self.id),
        }
    }

    /// Says whether something may still be appended, for the writer of the session.
    pub(crate) fn set_complete(&mut self, is_complete: bool) {
        self.complete = Some(is_complete);
    }

    /// Whether it has found its place.
    pub(crate) fn is_open(&self) -> bool {
        self.segment.is_some()
    }

    /// The place, of which nothing is left here.
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

    /// The number of the record that is read next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The file of the segment that begins with a record.
    pub(crate) fn path(&self, first: u64) -> PathBuf {
        self.folder.segment(&self.id, first)
    }

    /// The number of the first record of the segment that is being read.
    pub(crate) fn segment_start(&self) -> u64 {
        self.segment.as_ref().map_or(0, |open| open.first)
    }

    /// The records that stand here, about so many bytes of them.
    pub(crate) fn read(&mut self, limit: usize) -> std::io::Result<Found> {
        // A segment that was opened before its successor may have got more in between: hence the second look.
        let mut looked_again = false;
        loop {
            if self.segment.is_none() && !self.open()? {
                let segments = self.segments()?;
                let behind = segments.into_iter().find(|first| *first > self.next);
                return Ok(behind.map_or(Found::End, |to| Found::Missing { to, damaged: None }));
            }
            let (records, stop) = self.frames(limit)?;
            if !records.is_empty() {
                self.has_looked = false;
                return Ok(Found::Records(records));
            }
            match stop {
                Stop::Jump(to) => return Ok(self.missing(to, stop)),
                Stop::Fault if self.skip_damage()? => continue,
                Stop::Limit | Stop::End | Stop::Fault => {}
            }
            match self.successor()? {
                None => {
                    if stop == Stop::Fault
                        && let Some(to) = self.damaged_end()?
                    {
                        return Ok(self.missing(to, stop));
                    }
                    // Behind damage the next segment has another number than the next record.
                    self.has_looked = stop != Stop::Fault;
                    return Ok(Found::End);
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

    fn missing(&self, to: u64, stop: Stop) -> Found {
        let damaged = self.segment.as_ref().filter(|open| open.is_damaged || stop == Stop::Fault);
        Found::Missing { to, damaged: damaged.map(|open| open.first) }
    }

    /// Reads what follows the last frame of the open segment, within bounds.
    fn rest(open: &Open) -> std::io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        (&open.file).seek(SeekFrom::Start(open.offset))?;
        (&open.file).take(MAX_SEARCH).read_to_end(&mut rest)?;
        Ok(rest)
    }

    /// Moves to the next intact frame of the segment. Returns whether there is one.
    fn skip_damage(&mut self) -> std::io::Result<bool> {
        let Some(open) = &mut self.segment else { return Ok(false) };
        let at = (open.offset, open.file.metadata()?.len());
        if open.searched == Some(at) {
            return Ok(false);
        }
        let rest = Cursor::rest(open)?;
        // It may have been written completely by now.
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

    /// The number after the records that are lost at the end of the last segment. `None` where none are, or where the
    /// recorder may be writing at this moment.
    fn damaged_end(&self) -> std::io::Result<Option<u64>> {
        let Some(open) = &self.segment else { return Ok(None) };
        let is_complete = self.complete.unwrap_or_else(|| !SessionLock::is_taken_in(&self.folder, &self.id));
        if !is_complete {
            return Ok(None);
        }
        let rest = Cursor::rest(open)?;
        // It may have been written completely by now, and be read with the next look.
        let lost = if frame(&rest).is_ok() { 0 } else { lost_records(&rest) };
        Ok(Some(open.next + lost).filter(|to| *to > self.next))
    }

    /// The segment behind the open one. Who looks again and again, as a writer of many sessions does, looks for the one that
    /// follows, and not at all that there are: where something is missing before it, it has been found the first time.
    fn successor(&self) -> std::io::Result<Option<u64>> {
        let Some(open) = &self.segment else { return Ok(None) };
        if self.has_looked {
            let follows = self.next > open.first && self.folder.segment(&self.id, self.next).try_exists()?;
            return Ok(follows.then_some(self.next));
        }
        Ok(self.segments()?.into_iter().find(|first| *first > open.first))
    }

    /// Goes on behind what is missing.
    pub(crate) fn skip_to(&mut self, next: u64) {
        self.next = next;
        // After damage the open segment is at the right place already.
        if self.segment.as_ref().is_none_or(|open| open.jump != Some(next)) {
            self.segment = None;
        }
    }

    /// Opens the segment that the next record is in. Says whether there is one.
    fn open(&mut self) -> std::io::Result<bool> {
        self.has_looked = false;
        let segments = self.segments()?;
        let Some(first) = segments.into_iter().rev().find(|first| *first <= self.next) else {
            return Ok(false);
        };
        match File::open(self.folder.segment(&self.id, first)) {
            Ok(file) => {
                self.segment = Some(Open {
                    first,
                    file,
                    offset: 0,
                    next: first,
                    jump: None,
                    is_damaged: false,
                    searched: None,
                });
            }
            // It was moved into the store at this moment.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn frames(&mut self, limit: usize) -> std::io::Result<(Vec<Record>, Stop)> {
        let Some(open) = &mut self.segment else { return Ok((Vec::new(), Stop::End)) };
        let mut records = Vec::new();
        let (mut buffer, mut wanted, mut taken) = (Vec::new(), READ, 0);
        while taken < limit {
            buffer.clear();
            open.file.seek(SeekFrom::Start(open.offset))?;
            (&open.file).take(wanted).read_to_end(&mut buffer)?;
            if buffer.is_empty() {
                return Ok((records, Stop::End));
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
                if first > self.next {
                    open.offset += at as u64;
                    open.jump = Some(first);
                    return Ok((records, Stop::Jump(first)));
                }
                at += length;
                match content {
                    Content::Note(Note::Head(head)) => self.head = Some(head),
                    Content::Note(Note::Closed) => self.closed = true,
                    Content::Records { count, payload } => {
                        self.closed = false;
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
                // The frame goes on behind what was read, if the file does.
                Some(Fault::Incomplete(needed)) if buffer.len() as u64 == wanted => wanted = needed as u64,
                _ => return Ok((records, Stop::Fault)),
            }
        }
        Ok((records, Stop::Limit))
    }
}

/// Where a journal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// The number of the next record.
    pub(crate) next: u64,
    /// How many bytes all records have on the wire.
    pub(crate) bytes: u64,
    /// The latest time in the last segment.
    pub(crate) latest: Option<Moment>,
    /// Whether the recorder has said goodbye.
    pub(crate) closed: bool,
}

/// Where the journal of a session ends, if there is one.
pub(crate) fn end(folder: &Folder, id: &str) -> std::io::Result<Option<End>> {
    match folder.segments(id)?.pop() {
        Some(last) => end_in(folder, id, last),
        None => Ok(None),
    }
}

/// The same where it is known which segment is the last. It looks at no other file: who asks about each of many sessions
/// has listed them all at once.
pub(crate) fn end_in(folder: &Folder, id: &str, first: u64) -> std::io::Result<Option<End>> {
    let mut cursor = Cursor::listed(folder, id, first, &[first]);
    if !cursor.open()? {
        // It was moved into the store at this moment.
        return Ok(None);
    }
    let mut end = End { next: first, bytes: 0, latest: None, closed: false };
    loop {
        match cursor.read(FRAME)? {
            Found::Records(records) => {
                for record in records {
                    end.next = record.sequence + 1;
                    end.bytes += record.bytes.len() as u64;
                    end.latest = end.latest.max(Some(record.time));
                }
            }
            Found::Missing { to, .. } => {
                end.next = to;
                cursor.skip_to(to);
            }
            Found::End => break,
        }
    }
    end.bytes += cursor.head.as_ref().map_or(0, |head| head.bytes);
    end.closed = cursor.closed;
    Ok(Some(end))
}
