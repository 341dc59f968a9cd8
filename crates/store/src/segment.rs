//! The journal of a session: files to which its records are appended before anybody else gets them, and from which
//! the writer moves them into the store.
//!
//! A journal is a row of segments, `ID.N` in the folder beside the store, where `N` is the number of the first record.
//! A segment is a row of frames: 24 bytes of length, number of records, number of the first record and checksum, and
//! then the records. Lines that came together stand there as they came, with one head for all of them. What is in the
//! kernel survives the process; a frame that is cut off or wrong ends its segment.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use switchboard_acp::Moment;

use crate::block::{Input, put, unzigzag, zigzag};
use crate::private;
use crate::record::{About, Channel, MAX_MESSAGE, Record};

/// A segment is left for a new one when it has so many bytes.
pub(crate) const SEGMENT: u64 = 4 * 1024 * 1024;
/// A frame is written when it has so many bytes, whoever else wants to add to it.
pub(crate) const FRAME: usize = 256 * 1024;
/// Length, count, first, checksum.
const HEADER: usize = 24;
/// How much is read at once.
const READ: u64 = 256 * 1024;
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
    Records { first: u64, payload: &'a [u8] },
    Note(Note),
}

/// The frame at the beginning of some bytes, with its length. `Err` says how many bytes it would need.
fn frame(bytes: &[u8]) -> Result<(Content<'_>, usize), Option<usize>> {
    let field = |range: std::ops::Range<usize>| bytes.get(range).ok_or(Some(HEADER));
    let length = field(0..4)?.iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
    let count = field(4..8)?.iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    let first = field(8..16)?.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let check = field(16..HEADER)?;
    if length > MAX_MESSAGE + 4 * FRAME {
        return Err(None);
    }
    let payload = bytes.get(HEADER..HEADER + length).ok_or(Some(HEADER + length))?;
    if checksum(&[&bytes[..16], payload]) != check {
        return Err(None);
    }
    let content = if count == 0 {
        Content::Note(serde_json::from_slice(payload).map_err(|_| None)?)
    } else {
        Content::Records { first, payload }
    };
    Ok((content, HEADER + length))
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
    /// Nothing before this number, which is there.
    Missing {
        to: u64,
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
}

#[derive(Debug)]
struct Open {
    first: u64,
    file: File,
    offset: u64,
}

impl Cursor {
    pub(crate) fn new(folder: &Folder, id: &str, next: u64) -> Self {
        let folder = folder.clone();
        Cursor { folder, id: id.into(), next, segment: None, has_looked: false, head: None, closed: false }
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
            ..*self
        }
    }

    /// The number of the record that is read next.
    pub(crate) fn next(&self) -> u64 {
        self.next
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
                let segments = self.folder.segments(&self.id)?;
                let behind = segments.into_iter().find(|first| *first > self.next);
                return Ok(behind.map_or(Found::End, |to| Found::Missing { to }));
            }
            let records = self.frames(limit)?;
            if !records.is_empty() {
                self.has_looked = false;
                return Ok(Found::Records(records));
            }
            match self.successor()? {
                None => {
                    self.has_looked = true;
                    return Ok(Found::End);
                }
                Some(_) if !looked_again => looked_again = true,
                Some(first) if first <= self.next => {
                    self.segment = None;
                    looked_again = false;
                }
                Some(to) => return Ok(Found::Missing { to }),
            }
        }
    }

    /// The segment behind the open one. Who looks again and again, as a writer of many sessions does, looks for the one that
    /// follows, and not at all that there are: where something is missing before it, it has been found the first time.
    fn successor(&self) -> std::io::Result<Option<u64>> {
        let Some(open) = &self.segment else { return Ok(None) };
        if self.has_looked {
            let follows = self.next > open.first && self.folder.segment(&self.id, self.next).try_exists()?;
            return Ok(follows.then_some(self.next));
        }
        Ok(self.folder.segments(&self.id)?.into_iter().find(|first| *first > open.first))
    }

    /// Goes on behind what is missing.
    pub(crate) fn skip_to(&mut self, next: u64) {
        self.next = next;
        self.segment = None;
    }

    /// Opens the segment that the next record is in. Says whether there is one.
    fn open(&mut self) -> std::io::Result<bool> {
        self.has_looked = false;
        let segments = self.folder.segments(&self.id)?;
        let Some(first) = segments.into_iter().rev().find(|first| *first <= self.next) else {
            return Ok(false);
        };
        match File::open(self.folder.segment(&self.id, first)) {
            Ok(file) => self.segment = Some(Open { first, file, offset: 0 }),
            // It was moved into the store at this moment.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn frames(&mut self, limit: usize) -> std::io::Result<Vec<Record>> {
        let Some(open) = &mut self.segment else { return Ok(Vec::new()) };
        let mut records = Vec::new();
        let (mut buffer, mut wanted, mut taken) = (Vec::new(), READ, 0);
        while taken < limit {
            buffer.clear();
            open.file.seek(SeekFrom::Start(open.offset))?;
            (&open.file).take(wanted).read_to_end(&mut buffer)?;
            let mut at = 0;
            let needed = loop {
                let (content, length) = match frame(&buffer[at..]) {
                    Ok(found) => found,
                    Err(needed) => break needed,
                };
                at += length;
                match content {
                    Content::Note(Note::Head(head)) => self.head = Some(head),
                    Content::Note(Note::Closed) => self.closed = true,
                    Content::Records { first, payload } => {
                        self.closed = false;
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
            match needed {
                _ if at > 0 => wanted = READ,
                // The frame goes on behind what was read, if the file does.
                Some(needed) if buffer.len() as u64 == wanted => wanted = needed as u64,
                _ => break,
            }
        }
        Ok(records)
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
    let mut cursor = Cursor::new(folder, id, first);
    match File::open(folder.segment(id, first)) {
        Ok(file) => cursor.segment = Some(Open { first, file, offset: 0 }),
        // It was moved into the store at this moment.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut end = End { next: first, bytes: 0, latest: None, closed: false };
    loop {
        let records = cursor.frames(FRAME)?;
        if records.is_empty() {
            break;
        }
        for record in records {
            end.next = record.sequence + 1;
            end.bytes += record.bytes.len() as u64;
            end.latest = end.latest.max(Some(record.time));
        }
    }
    let Some(head) = &cursor.head else { return Ok(None) };
    end.bytes += head.bytes;
    end.closed = cursor.closed;
    Ok(Some(end))
}
