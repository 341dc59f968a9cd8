//! Bytes to lines, without I/O: what is a message, what is noise, what is too long.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memchr_iter, memrchr};
use switchboard_acp::Raw;

use switchboard_acp::rpc::{Glimpse, codes};

use crate::SharedText;
use crate::connection::{error_line, failure};
use crate::decoration::{BYTE_ORDER_MARK, leading_decoration};

/// The longest message that is read unless somebody says otherwise.
pub const DEFAULT_MESSAGE_LIMIT: usize = 32 * 1024 * 1024;

/// How much of a line that is set aside is kept to be shown.
const EXCERPT: usize = 1024;

/// What a line of the stream is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// What should be a JSON object or array, as it came, without the line's end.
    Message(SharedText),
    /// Something else, set aside.
    Noise(Noise),
    /// A line over the limit, of which only the beginning was kept.
    TooLong(TooLong),
    /// The stream ended inside a message.
    Unfinished(Noise),
}

/// A line, or a part of one, that is no message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Noise {
    /// What it is.
    pub kind: NoiseKind,
    /// Its beginning, at most 1 KiB, with U+FFFD for what is no UTF-8.
    pub excerpt: String,
    /// Its whole length in bytes.
    pub length: usize,
}

/// Why something is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoiseKind {
    /// A line of other text, such as a log line.
    Text,
    /// An empty line.
    Blank,
    /// Terminal escapes or control characters around a message; the message itself is read.
    Decoration,
    /// A byte-order mark before a message; the message itself is read.
    ByteOrderMark,
    /// A line that is no UTF-8.
    InvalidUtf8,
    /// A message without its end.
    Unfinished,
}

/// A line over the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TooLong {
    /// The limit.
    pub limit: usize,
    /// How long the line was.
    pub length: usize,
    /// Its beginning, at most 1 KiB.
    pub beginning: String,
    /// Its end, at most 1 KiB.
    pub ending: String,
}

/// What stands in for a message that was too long to be read, so that nobody waits for it in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Substitute {
    /// It was an answer: this error is to be taken in its place.
    Answer(String),
    /// It was a request: this error is to be sent back to whoever sent it.
    Refusal(String),
}

impl TooLong {
    /// What stands in for the message; `None` where nobody waits for it, or where its id stands neither at its
    /// beginning nor at its end.
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

    /// What its two ends tell of it.
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

    /// Whether there is nothing to see in it, as in an empty line: not worth a word.
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
            NoiseKind::InvalidUtf8 => "a line that is no UTF-8",
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
    // A character that the cut would split is left out.
    let shown = match std::str::from_utf8(shown) {
        Err(error) if error.error_len().is_none() && shown.len() < bytes.len() => {
            &shown[..error.valid_up_to()]
        }
        _ => shown,
    };
    String::from_utf8_lossy(shown).into_owned()
}

/// An over-long line whose end has not come.
#[derive(Debug)]
struct Passing {
    length: usize,
    beginning: String,
    /// The last bytes so far.
    ending: Vec<u8>,
}

impl Passing {
    /// Of the line more than the limit is there, how much more is a matter of chance.
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

/// Cuts a growing buffer into frames. It never waits and never fails; [`LineReader`](crate::LineReader) is the
/// same over a stream.
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
    /// How much of the buffer is known to hold no line's end.
    searched: usize,
    /// The over-long line that is being passed over.
    passing: Option<Passing>,
    /// A message whose decoration has been handed out before it.
    held: Option<Frame>,
}

impl LineDecoder {
    /// A decoder that takes messages of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        LineDecoder { limit, searched: 0, passing: None, held: None }
    }

    /// Takes the next frame out of the buffer, or wants more bytes in it.
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
                    self.judge(line)
                }
            }
            None if buffer.len() > self.limit => {
                self.passing = Some(Passing::new(buffer, self.limit));
                self.searched = 0;
                // A new buffer, so that the memory that the long line took is given back.
                *buffer = BytesMut::new();
                None
            }
            None => {
                self.searched = buffer.len();
                None
            }
        }
    }

    /// Takes whole messages that `passes` says yes to, each of them, out of the beginning of the buffer and gives them
    /// to `take` as one text, without the last line's end. They have room in `room` bytes with all their lines' ends.
    ///
    /// For who only passes messages on: that costs less for many than for each. Where there is none, `take` is not
    /// called; what is not quite usual is left for [`decode`](LineDecoder::decode).
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

    /// The messages at the beginning of the bytes that `passes` says yes to.
    fn run<'b>(&self, bytes: &'b [u8], mut passes: impl FnMut(&[u8]) -> bool) -> &'b str {
        let mut end = 0;
        for line_end in memchr_iter(b'\n', bytes) {
            let line = &bytes[end..line_end];
            if line.len() > self.limit || !is_like_object(line) || !passes(line) {
                break;
            }
            end = line_end + 1;
        }
        // All at once, and only what will be taken.
        let bytes = &bytes[..end];
        std::str::from_utf8(bytes).unwrap_or_else(|error| {
            let sound = &bytes[..error.valid_up_to()];
            let end = memrchr(b'\n', sound).map_or(0, |end| end + 1);
            std::str::from_utf8(&sound[..end]).unwrap_or_default()
        })
    }

    /// Takes what is left when the stream has ended: call it until there is no more.
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
        match self.judge(line) {
            // A message is whole without its line's end: a part of an object is never JSON.
            Some(Frame::Message(text)) if Raw::parse(&*text).is_err() => {
                Some(Frame::Unfinished(Noise::new(NoiseKind::Unfinished, text.as_bytes())))
            }
            Some(Frame::Noise(noise)) if self.held.is_none() && looks_begun(&noise.excerpt) => {
                Some(Frame::Unfinished(Noise { kind: NoiseKind::Unfinished, ..noise }))
            }
            frame => frame,
        }
    }

    fn judge(&mut self, mut line: Bytes) -> Option<Frame> {
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if is_like_object(&line) {
            return Some(read_text(line));
        }
        Some(self.judge_unusual(&line))
    }

    /// A line that does not begin and end as an object does.
    #[cold]
    fn judge_unusual(&mut self, line: &Bytes) -> Frame {
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

/// Whether a line begins and ends as an object does.
fn is_like_object(line: &[u8]) -> bool {
    matches!((line.first(), line.last()), (Some(b'{'), Some(b'}')))
}

/// Whether noise is really the beginning of a message.
fn looks_begun(excerpt: &str) -> bool {
    excerpt.starts_with(['{', '['])
}

fn read_text(line: Bytes) -> Frame {
    match SharedText::from_bytes(line) {
        Ok(text) => Frame::Message(text),
        Err(bytes) => Frame::Noise(Noise::new(NoiseKind::InvalidUtf8, &bytes)),
    }
}
