//! Encoding of records as messages of a stream. A message contains one or more records. Each has a header line with
//! channel, time and length, followed by its bytes and a line break. A record above the maximum message size is split
//! into several messages.

use std::fmt::Write as _;

use async_nats::HeaderMap;
use bytes::Bytes;
use switchboard_store::{Channel, MAX_MESSAGE, Moment, Record};

/// Sequence number of the first record of a message.
const FIRST: &str = "Switchboard-First";
/// Number of records that end with a message.
const COUNT: &str = "Switchboard-Count";
/// Number of this part of a split record, starting at 1.
const PART: &str = "Switchboard-Part";
/// Number of parts of a split record.
const PARTS: &str = "Switchboard-Parts";
/// The hub that writes the message.
const HUB: &str = "Switchboard-Hub";
/// Fencing token of that hub for the session. It grows with each change of the owner.
const FENCE: &str = "Switchboard-Fence";
/// Maximum overhead of a record in a message, in bytes.
const FRAME: usize = 64;

/// A message to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outgoing {
    pub(super) first: u64,
    pub(super) count: u64,
    part: u64,
    parts: u64,
    pub(super) payload: Bytes,
}

impl Outgoing {
    /// Returns the message with which a hub starts to write a session with this many records. It contains no records,
    /// but fences off the previous owner.
    pub(super) fn takeover(next: u64) -> Self {
        Outgoing { first: next, count: 0, part: 1, parts: 1, payload: Bytes::new() }
    }

    pub(super) fn headers(&self, hub: &str, fence: u64) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HUB, hub);
        headers.insert(FENCE, fence.to_string());
        headers.insert(FIRST, self.first.to_string());
        headers.insert(COUNT, self.count.to_string());
        if self.parts > 1 {
            headers.insert(PART, self.part.to_string());
            headers.insert(PARTS, self.parts.to_string());
        }
        headers
    }

    /// Returns the deduplication id: unique within the session, except for a repetition of the same message.
    pub(super) fn name(&self, session: &str, fence: u64) -> String {
        let what = if self.count == 0 && self.parts == 1 { 0 } else { self.part };
        format!("{session}.{}.{what}.{fence}", self.first)
    }
}

fn frame(record: &Record, text: &mut Vec<u8>) {
    let mut head = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(head, "{} {} {}", record.channel.code(), record.time.0, record.bytes.len());
    text.extend_from_slice(head.as_bytes());
    text.extend_from_slice(&record.bytes);
    text.push(b'\n');
}

/// Encodes records, the first of which has the number `first`, into messages of at most `limit` bytes.
pub(super) fn messages(first: u64, records: &[Record], limit: usize) -> Vec<Outgoing> {
    let limit = limit.max(1);
    let mut messages: Vec<Outgoing> = Vec::new();
    let mut payload = Vec::new();
    // Number of the first record in the payload.
    let mut begin = first;
    let whole = |first: u64, end: u64, payload: Vec<u8>| Outgoing {
        first,
        count: end - first,
        part: 1,
        parts: 1,
        payload: payload.into(),
    };
    for (sequence, record) in (first..).zip(records) {
        let before = payload.len();
        frame(record, &mut payload);
        if payload.len() <= limit {
            continue;
        }
        let own = payload.split_off(before);
        if before > 0 {
            messages.push(whole(begin, sequence, std::mem::take(&mut payload)));
        }
        if own.len() <= limit {
            (payload, begin) = (own, sequence);
            continue;
        }
        let parts: Vec<&[u8]> = own.chunks(limit).collect();
        let of = parts.len() as u64;
        messages.extend((1..).zip(parts).map(|(part, bytes)| Outgoing {
            first: sequence,
            count: u64::from(part == of),
            part,
            parts: of,
            payload: Bytes::copy_from_slice(bytes),
        }));
        begin = sequence + 1;
    }
    if !payload.is_empty() {
        messages.push(whole(begin, first + records.len() as u64, payload));
    }
    messages
}

/// Returns the number of the first record after a message.
pub(super) fn end(headers: &HeaderMap) -> Option<u64> {
    number(headers, FIRST)?.checked_add(number(headers, COUNT)?)
}

/// Returns the number of records that end with a message.
pub(super) fn count(headers: &HeaderMap) -> Option<u64> {
    number(headers, COUNT)
}

/// Returns the hub that has written a message.
pub(super) fn hub(headers: &HeaderMap) -> Option<&str> {
    headers.get(HUB).map(async_nats::HeaderValue::as_str)
}

/// Returns the fencing token of a message.
pub(super) fn fence(headers: &HeaderMap) -> Option<u64> {
    number(headers, FENCE)
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.as_str().parse().ok()
}

/// Reassembles the records of one session.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    /// The parts of an incomplete record so far, their number, and the number of the record.
    begun: Vec<u8>,
    parts: u64,
    sequence: u64,
}

impl Assembler {
    /// Returns the records that a message completes; `None` if it was not written by a hub.
    pub(super) fn take(&mut self, headers: &HeaderMap, payload: &[u8]) -> Option<Vec<Record>> {
        let (first, count) = (number(headers, FIRST)?, number(headers, COUNT)?);
        let Some(parts) = number(headers, PARTS) else {
            // An incomplete record of a previous writer was never completed, so it does not exist.
            self.begun.clear();
            return records(first, count, payload);
        };
        let part = number(headers, PART)?;
        if part == 1 {
            (self.begun, self.parts, self.sequence) = (Vec::new(), 0, first);
        }
        let follows = part == self.parts + 1 && first == self.sequence && part <= parts;
        if !follows || self.begun.len() + payload.len() > MAX_MESSAGE + FRAME {
            return None;
        }
        self.begun.extend_from_slice(payload);
        self.parts = part;
        if part < parts {
            return Some(Vec::new());
        }
        records(first, count, &std::mem::take(&mut self.begun))
    }

    /// Skips a message whose records are already known. It may contain the first part of a record whose rest is not.
    pub(super) fn skip(&mut self, headers: &HeaderMap, payload: &[u8]) {
        if number(headers, PARTS).is_none() {
            self.begun.clear();
        } else {
            let _ = self.take(headers, payload);
        }
    }
}

fn records(first: u64, count: u64, mut rest: &[u8]) -> Option<Vec<Record>> {
    let mut records = Vec::new();
    while !rest.is_empty() {
        let line = rest.iter().take(FRAME).position(|byte| *byte == b'\n')?;
        let (head, behind) = rest.split_at_checked(line)?;
        let mut words = std::str::from_utf8(head).ok()?.split(' ');
        let channel = Channel::from_code(words.next()?.parse().ok()?)?;
        let time = Moment(words.next()?.parse().ok()?);
        let length: usize = words.next()?.parse().ok()?;
        let bytes = behind.get(1..length.checked_add(1)?)?;
        rest = behind.get(length + 1..)?.strip_prefix(b"\n")?;
        let mut record = Record::new(channel, bytes).at(time).with_protocol(2);
        record.sequence = first.checked_add(records.len() as u64)?;
        records.push(record);
    }
    (records.len() as u64 == count).then_some(records)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(text: &str, sequence: u64) -> Record {
        let mut record = Record::new(Channel::ToClient, text).at(Moment(-5)).with_protocol(2);
        record.sequence = sequence;
        record
    }

    proptest! {
        #[test]
        fn split_records_are_reassembled(
            texts in prop::collection::vec("[a\n ]{0,90}", 0..20), first in 0..3_u64, limit in 1..200_usize,
            at_hand in 0..30_usize,
        ) {
            let records: Vec<Record> =
                (first..).zip(&texts).map(|(sequence, text)| record(text, sequence)).collect();
            let messages = messages(first, &records, limit);
            let mut assembler = Assembler::default();
            let mut next = first;
            let mut found = Vec::new();
            for (number, message) in messages.iter().enumerate() {
                prop_assert!(message.payload.len() <= limit);
                // A reader that has lost a session may continue in the middle of a record.
                if number < at_hand {
                    assembler.skip(&message.headers("hub", 1), &message.payload);
                    next = end(&message.headers("hub", 1)).unwrap();
                    found.extend(records[found.len()..(next - first) as usize].iter().cloned());
                    continue;
                }
                found.extend(assembler.take(&message.headers("hub", 1), &message.payload).unwrap());
                next = end(&message.headers("hub", 1)).unwrap();
                prop_assert_eq!(next, first + found.len() as u64);
            }
            prop_assert_eq!(next, first + records.len() as u64);
            prop_assert_eq!(found, records);
        }

        #[test]
        fn arbitrary_payloads_are_not_records(payload in prop::collection::vec(any::<u8>(), 0..100), cut in 0..100_usize) {
            let mut headers = HeaderMap::new();
            let mut assembler = Assembler::default();
            prop_assert_eq!(assembler.take(&headers, &payload), None);
            headers.insert(FIRST, u64::MAX.to_string());
            headers.insert(COUNT, "1");
            prop_assert_eq!(end(&headers), None);
            let _ = assembler.take(&headers, &payload);
            let message = messages(7, &[record("text", 7)], 100).remove(0);
            let part = message.payload.get(..cut.min(message.payload.len() - 1)).unwrap();
            prop_assert_eq!(assembler.take(&message.headers("hub", 1), part), None);
        }
    }

    #[test]
    fn an_incomplete_record_does_not_exist() {
        let cut = messages(3, &[record(&"x".repeat(50), 3)], 20);
        let (last, begun) = cut.split_last().unwrap();
        let mut assembler = Assembler::default();
        for message in begun {
            assert_eq!(assembler.take(&message.headers("hub", 1), &message.payload), Some(vec![]));
            assert_eq!(end(&message.headers("hub", 1)), Some(3));
        }
        // Another writer does not know about it.
        let other = messages(3, &[record("y", 3)], 100).remove(0);
        assert_eq!(assembler.take(&other.headers("hub", 1), &other.payload), Some(vec![record("y", 3)]));
        assert_eq!(assembler.take(&last.headers("hub", 1), &last.payload), None);
    }
}
