//! Splits bytes into lines without I/O and classifies them: message, noise, too long.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memchr_iter, memrchr};
use switchboard_acp::Raw;

use switchboard_acp::rpc::{Glimpse, codes};

use crate::SharedText;
use crate::connection::{error_line, failure};
use crate::decoration::{BYTE_ORDER_MARK, leading_decoration};

/// Default maximum message length in bytes.
pub const DEFAULT_MESSAGE_LIMIT: usize = 32 * 1024 * 1024;

/// Length in bytes of the excerpt of a line that is not a message.
const EXCERPT: usize = 1024;

/// A classified line of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Text that should be a JSON object or array, without the newline.
    Message(SharedText),
    /// A line that is not a message.
    Noise(Noise),
    /// A line beyond the length limit. Only its start and end are kept.
    TooLong(TooLong),
    /// The stream ended inside a message.
    Unfinished(Noise),
}

/// A line, or part of a line, that is not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Noise {
    /// Kind.
    pub kind: NoiseKind,
    /// Start of the text, at most 1 KiB, with U+FFFD for invalid UTF-8.
    pub excerpt: String,
    /// Total length in bytes.
    pub length: usize,
}

/// Reason why a line is not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoiseKind {
    /// Other text, such as a log line.
    Text,
    /// An empty line.
    Blank,
    /// Terminal escapes or control characters around a message. The message itself is read.
    Decoration,
    /// A byte-order mark before a message. The message itself is read.
    ByteOrderMark,
    /// Invalid UTF-8.
    InvalidUtf8,
    /// An incomplete message.
    Unfinished,
}

/// A line beyond the length limit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLong {
    /// Limit in bytes.
    pub limit: usize,
    /// Length of the line in bytes.
    pub length: usize,
    /// Start of the line, at most 1 KiB.
    pub beginning: String,
    /// End of the line, at most 1 KiB.
    pub ending: String,
}

/// Replacement for a message that was too long to read, so that its request does not stay pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Substitute {
    /// The message was a response: process this error in its place.
    Answer(String),
    /// The message was a request: return this error to its sender.
    Refusal(String),
}

impl TooLong {
    /// Returns the replacement. `None` for a notification, or if the id is in neither the start nor the end.
    pub fn substitute(&self) -> Option<Substitute> {
        let Glimpse { id, has_method, .. } = self.glimpse();
        let id = id?;
        let error = |code, words: String| error_line(&id, &failure(code, words));
        Some(if has_method {
            Substitute::Refusal(error(codes::INVALID_REQUEST, self.to_string()))
        } else {
            let TooLong { length, limit, .. } = self;
            let words = format!("the answer has {length} bytes, over the limit of {limit}");
            Substitute::Answer(error(codes::INTERNAL_ERROR, words))
        })
    }

    /// Parses the start and the end of the message.
    pub(crate) fn glimpse(&self) -> Glimpse {
        let mut glimpse = Glimpse::of(&self.beginning);
        glimpse.add_ending(&self.ending);
        glimpse
    }
}

impl Noise {
    pub(crate) fn new(kind: NoiseKind, bytes: &[u8]) -> Self {
        Noise { kind, excerpt: excerpt(bytes), length: bytes.len() }
    }

    /// Returns true if there is nothing to show, as in an empty line.
    pub fn is_blank(&self) -> bool {
        self.excerpt.trim().is_empty()
    }
}

impl fmt::Display for Noise {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            NoiseKind::Text => "a line that is no message",
            NoiseKind::Blank => return formatter.write_str("an empty line"),
            NoiseKind::Decoration => "terminal escapes around a message",
            NoiseKind::ByteOrderMark => return formatter.write_str("a byte-order mark"),
            NoiseKind::InvalidUtf8 => "a line that is not valid UTF-8",
            NoiseKind::Unfinished => "the end of the stream inside a message",
        };
        write!(formatter, "{what}: {:?}", self.excerpt)
    }
}

impl fmt::Display for TooLong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a line of {} bytes, over the limit of {}", self.length, self.limit)
    }
}

fn excerpt(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(EXCERPT)];
    // Leave out a character that the cut would split.
    let shown = match std::str::from_utf8(shown) {
        Err(error) if error.error_len().is_none() && shown.len() < bytes.len() => {
            &shown[..error.valid_up_to()]
        }
        _ => shown,
    };
    String::from_utf8_lossy(shown).into_owned()
}

/// An overlong line that has not ended yet.
#[derive(Debug)]
struct Passing {
    length: usize,
    beginning: String,
    /// The last bytes so far.
    ending: Vec<u8>,
}

impl Passing {
    /// Creates the state from the part of the line that was read, which exceeds the limit.
    fn new(line: &[u8], limit: usize) -> Self {
        let beginning = excerpt(&line[..line.len().min(limit)]);
        let mut passing = Passing { length: 0, beginning, ending: Vec::new() };
        passing.pass(line);
        passing
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        self.ending.extend_from_slice(&bytes[bytes.len().saturating_sub(EXCERPT)..]);
        let surplus = self.ending.len().saturating_sub(EXCERPT);
        self.ending.drain(..surplus);
    }

    fn finish(self, limit: usize) -> TooLong {
        let Passing { length, beginning, ending } = self;
        // The cut may have split a character.
        let start = ending.iter().take_while(|byte| **byte & 0xC0 == 0x80).count();
        let ending = String::from_utf8_lossy(&ending[start..]).into_owned();
        TooLong { limit, length, beginning, ending }
    }
}

/// Splits a growing buffer into frames. Never waits and never fails. [`LineReader`](crate::LineReader) does
/// the same for a stream.
///
/// ```
/// use switchboard_transport::{Frame, LineDecoder};
///
/// let mut decoder = LineDecoder::new(1024);
/// let mut buffer = bytes::BytesMut::from("starting...\n{\"id\":1}\r\n{\"id");
/// assert!(matches!(decoder.decode(&mut buffer), Some(Frame::Noise(_))));
/// assert!(matches!(decoder.decode(&mut buffer), Some(Frame::Message(text)) if &*text == r#"{"id":1}"#));
/// assert_eq!(decoder.decode(&mut buffer), None);
/// assert!(matches!(decoder.finish(&mut buffer), Some(Frame::Unfinished(_))));
/// assert_eq!(decoder.finish(&mut buffer), None);
/// ```
#[derive(Debug)]
pub struct LineDecoder {
    limit: usize,
    /// Number of bytes in the buffer that are known to contain no newline.
    searched: usize,
    /// The overlong line that is being skipped.
    passing: Option<Passing>,
    /// A message whose decoration was returned first.
    held: Option<Frame>,
}

impl LineDecoder {
    /// Creates a decoder for messages of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        LineDecoder { limit, searched: 0, passing: None, held: None }
    }

    /// Takes the next frame out of the buffer. `None` if more bytes are needed.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Option<Frame> {
        if let Some(frame) = self.held.take() {
            return Some(frame);
        }
        let end = memchr(b'\n', &buffer[self.searched..]).map(|offset| self.searched + offset);
        if let Some(mut passing) = self.passing.take() {
            match end {
                Some(end) => {
                    passing.pass(&buffer[..end]);
                    buffer.advance(end + 1);
                    return Some(Frame::TooLong(passing.finish(self.limit)));
                }
                None => {
                    passing.pass(buffer);
                    buffer.clear();
                    self.passing = Some(passing);
                    return None;
                }
            }
        }
        match end {
            Some(end) => {
                self.searched = 0;
                let mut line = buffer.split_to(end + 1).freeze();
                line.truncate(end);
                if end > self.limit {
                    Some(Frame::TooLong(Passing::new(&line, self.limit).finish(self.limit)))
                } else {
                    self.classify(line)
                }
            }
            None if buffer.len() > self.limit => {
                self.passing = Some(Passing::new(buffer, self.limit));
                self.searched = 0;
                // Replace the buffer to release the memory of the long line.
                *buffer = BytesMut::new();
                None
            }
            None => {
                self.searched = buffer.len();
                None
            }
        }
    }

    /// Takes consecutive messages from the start of the buffer while `passes` returns true, and passes them
    /// to `take` as one text without the last newline. Together with their newlines they fit into `room`
    /// bytes.
    ///
    /// Cheaper than single messages for programs that only forward them. If there is none, `take` is not
    /// called; unusual lines are left for [`decode`](LineDecoder::decode).
    ///
    /// ```
    /// use switchboard_transport::{Frame, LineDecoder};
    ///
    /// let mut decoder = LineDecoder::new(1024);
    /// let mut buffer = bytes::BytesMut::from("{\"a\":1}\n{\"a\":2}\n{\"b\":3}\n");
    /// let begins_with_a = |line: &[u8]| line.starts_with(b"{\"a\"");
    /// let run = decoder.decode_run(&mut buffer, 1024, begins_with_a, str::to_owned);
    /// assert_eq!(run.as_deref(), Some("{\"a\":1}\n{\"a\":2}"));
    /// assert!(matches!(decoder.decode(&mut buffer), Some(Frame::Message(text)) if &*text == r#"{"b":3}"#));
    /// ```
    pub fn decode_run<T>(
        &mut self,
        buffer: &mut BytesMut,
        room: usize,
        passes: impl FnMut(&[u8]) -> bool,
        take: impl FnOnce(&str) -> T,
    ) -> Option<T> {
        if self.held.is_some() || self.passing.is_some() {
            return None;
        }
        let run = self.run(&buffer[..buffer.len().min(room)], passes);
        let taken = take(run.strip_suffix('\n')?);
        let length = run.len();
        buffer.advance(length);
        self.searched = 0;
        Some(taken)
    }

    /// Returns the leading messages for which `passes` returns true.
    fn run<'b>(&self, bytes: &'b [u8], mut passes: impl FnMut(&[u8]) -> bool) -> &'b str {
        let mut end = 0;
        for line_end in memchr_iter(b'\n', bytes) {
            let line = &bytes[end..line_end];
            if line.len() > self.limit || !is_like_object(line) || !passes(line) {
                break;
            }
            end = line_end + 1;
        }
        // Validate UTF-8 once, and only for the part that is taken.
        let bytes = &bytes[..end];
        std::str::from_utf8(bytes).unwrap_or_else(|error| {
            let sound = &bytes[..error.valid_up_to()];
            let end = memrchr(b'\n', sound).map_or(0, |end| end + 1);
            std::str::from_utf8(&sound[..end]).unwrap_or_default()
        })
    }

    /// Takes the rest after the stream has ended. Call it until it returns `None`.
    pub fn finish(&mut self, buffer: &mut BytesMut) -> Option<Frame> {
        if let Some(frame) = self.decode(buffer) {
            return Some(frame);
        }
        self.searched = 0;
        if let Some(passing) = self.passing.take() {
            return Some(Frame::TooLong(passing.finish(self.limit)));
        }
        if buffer.is_empty() {
            return None;
        }
        let line = buffer.split().freeze();
        match self.classify(line) {
            // A message is complete without its newline: a part of an object is never valid JSON.
            Some(Frame::Message(text)) if Raw::parse(&*text).is_err() => {
                Some(Frame::Unfinished(Noise::new(NoiseKind::Unfinished, text.as_bytes())))
            }
            Some(Frame::Noise(noise)) if self.held.is_none() && looks_begun(&noise.excerpt) => {
                Some(Frame::Unfinished(Noise { kind: NoiseKind::Unfinished, ..noise }))
            }
            frame => frame,
        }
    }

    fn classify(&mut self, mut line: Bytes) -> Option<Frame> {
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if is_like_object(&line) {
            return Some(read_text(line));
        }
        Some(self.classify_unusual(&line))
    }

    /// Classifies a line that does not start and end like an object.
    #[cold]
    fn classify_unusual(&mut self, line: &Bytes) -> Frame {
        let start = leading_decoration(line);
        if start == line.len() {
            let kind = if line.iter().all(u8::is_ascii_whitespace) {
                NoiseKind::Blank
            } else {
                NoiseKind::Decoration
            };
            return Frame::Noise(Noise::new(kind, line));
        }
        if !matches!(line[start], b'{' | b'[') {
            let kind = match std::str::from_utf8(line) {
                Ok(_) => NoiseKind::Text,
                Err(_) => NoiseKind::InvalidUtf8,
            };
            return Frame::Noise(Noise::new(kind, line));
        }
        let mut end = line.len();
        if let Some(last) = line.iter().rposition(|byte| matches!(byte, b'}' | b']'))
            && last >= start
            && leading_decoration(&line[last + 1..]) == line.len() - last - 1
        {
            end = last + 1;
        }
        let message = read_text(line.slice(start..end));
        let around = [&line[..start], &line[end..]].concat();
        if around.iter().all(u8::is_ascii_whitespace) {
            return message;
        }
        let kind = if around == BYTE_ORDER_MARK { NoiseKind::ByteOrderMark } else { NoiseKind::Decoration };
        self.held = Some(message);
        Frame::Noise(Noise::new(kind, &around))
    }
}

/// Returns true if a line starts and ends like an object.
fn is_like_object(line: &[u8]) -> bool {
    matches!((line.first(), line.last()), (Some(b'{'), Some(b'}')))
}

/// Returns true if noise is the start of a message.
fn looks_begun(excerpt: &str) -> bool {
    excerpt.starts_with(['{', '['])
}

fn read_text(line: Bytes) -> Frame {
    match SharedText::from_bytes(line) {
        Ok(text) => Frame::Message(text),
        Err(bytes) => Frame::Noise(Noise::new(NoiseKind::InvalidUtf8, &bytes)),
    }
}
