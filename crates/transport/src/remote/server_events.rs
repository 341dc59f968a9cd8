//! Decoder for server-sent events.
//!
//! Not a library such as `sse-stream`, because those buffer an event without limit until it ends, so a server
//! could exhaust the client's memory. This decoder limits an event while it arrives.

use bytes::{Buf, BytesMut};

/// An event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServerEvent {
    /// Data of the event.
    pub(super) data: String,
    /// Id of the event, from which the stream can be resumed.
    pub(super) id: Option<String>,
}

/// Splits bytes into events. Ignores fields other than `data` and `id`.
#[derive(Debug)]
pub(super) struct EventDecoder {
    buffer: BytesMut,
    /// Number of bytes in the buffer already searched for a line end.
    searched: usize,
    event: ServerEvent,
    has_data: bool,
    limit: usize,
}

/// Error: an event exceeds the maximum message length.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventTooLong;

impl EventDecoder {
    pub(super) fn new(limit: usize) -> Self {
        let event = ServerEvent::default();
        EventDecoder { buffer: BytesMut::new(), searched: 0, event, has_data: false, limit }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete event.
    pub(super) fn next(&mut self) -> Result<Option<ServerEvent>, EventTooLong> {
        while let Some(found) = memchr::memchr2(b'\n', b'\r', &self.buffer[self.searched..]) {
            let end = self.searched + found;
            let mut next = end + 1;
            if self.buffer[end] == b'\r' {
                match self.buffer.get(next) {
                    Some(b'\n') => next += 1,
                    Some(_) => {}
                    // It may be the first half of CR LF.
                    None => return self.within_limit(),
                }
            }
            let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
            self.buffer.advance(next);
            self.searched = 0;
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                if std::mem::take(&mut self.has_data) {
                    return Ok(Some(event));
                }
                // An event with only an id updates the last id too.
                self.event.id = event.id;
                continue;
            }
            self.field(&line);
            self.within_limit()?;
        }
        self.searched = self.buffer.len();
        self.within_limit()
    }

    fn within_limit(&self) -> Result<Option<ServerEvent>, EventTooLong> {
        // The field name and the line end do not count.
        let is_within = self.event.data.len() + self.buffer.len() <= self.limit + 16;
        if is_within { Ok(None) } else { Err(EventTooLong) }
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(decoder: &mut EventDecoder) -> Vec<ServerEvent> {
        std::iter::from_fn(|| decoder.next().expect("short")).collect()
    }

    fn event(data: &str, id: Option<&str>) -> ServerEvent {
        ServerEvent { data: data.to_owned(), id: id.map(str::to_owned) }
    }

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let text = ": waiting\n\nid: 1\r\ndata: {\"a\":\r\ndata:1}\r\n\r\nevent: message\rdata: ü\r\rretry: 3\n\ndata\n\n";
        let expected = [event("{\"a\":\n1}", Some("1")), event("ü", None), event("", None)];
        for step in 1..text.len() {
            let mut decoder = EventDecoder::new(100);
            let mut found = Vec::new();
            for part in text.as_bytes().chunks(step) {
                decoder.push(part);
                found.extend(events(&mut decoder));
            }
            assert_eq!(found, expected, "in parts of {step} bytes");
        }
    }

    #[test]
    fn an_event_without_end_is_refused_at_the_limit() {
        let mut decoder = EventDecoder::new(1000);
        let mut pushed = 0;
        let refused = loop {
            decoder.push(b"data: 0123456789");
            pushed += 16;
            if decoder.next().is_err() {
                break pushed;
            }
        };
        assert!((1000..1100).contains(&refused), "at {refused}");
        let mut decoder = EventDecoder::new(1000);
        let refused = (0..200).position(|_| {
            decoder.push(b"data: 0123456789\n");
            decoder.next().is_err()
        });
        assert!(refused.is_some_and(|count| count < 110), "{refused:?}");
    }
}
