//! Compressed blocks of records. A block is one zstd frame with a checksum, so that damage is detected.

use std::ops::Range;
use std::sync::Arc;

use switchboard_acp::Moment;

use crate::record::{Channel, Record};

/// Compression level: good compression of JSON at several hundred megabytes per second.
const LEVEL: i32 = 6;
/// Maximum unpacked size of a block in bytes, regardless of its header.
const MAX_UNPACKED: usize = 256 * 1024 * 1024;

/// Part of a record: bytes, or a reference to content stored elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Bytes(&'a [u8]),
    Content(u64),
}

/// Packs records whose bytes are already cut into pieces.
pub(crate) fn pack(records: &[Record], pieces: &[Vec<Piece<'_>>]) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut body = Vec::new();
    let mut peers: Vec<&Arc<str>> = Vec::new();
    put(&mut head, records.len() as u64);
    let mut before = 0;
    for (record, pieces) in records.iter().zip(pieces) {
        put(&mut head, zigzag(record.time.0.wrapping_sub(before)));
        before = record.time.0;
        head.push(record.channel.code());
        put(&mut head, u64::from(record.protocol));
        match peers.iter().position(|peer| **peer == record.peer) {
            Some(place) => put(&mut head, place as u64),
            None => {
                put(&mut head, peers.len() as u64);
                put(&mut head, record.peer.len() as u64);
                head.extend_from_slice(record.peer.as_bytes());
                peers.push(&record.peer);
            }
        }
        put(&mut head, pieces.len() as u64);
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => {
                    put(&mut head, (bytes.len() as u64) << 1);
                    body.extend_from_slice(bytes);
                }
                Piece::Content(number) => put(&mut head, number << 1 | 1),
            }
        }
    }
    let mut plain = Vec::with_capacity(head.len() + body.len() + 10);
    put(&mut plain, head.len() as u64);
    plain.append(&mut head);
    plain.append(&mut body);
    compress(&plain)
}

/// Unpacks the wanted records of a decompressed block, whose first record has a given sequence number.
/// Returns them with the number of records in the block. `content` loads referenced content.
pub(crate) fn unpack<E>(
    plain: &[u8],
    first: u64,
    wanted: &Range<u64>,
    mut content: impl FnMut(u64) -> Result<Vec<u8>, E>,
) -> Result<Result<(Vec<Record>, u64), String>, E> {
    let broken = || Ok(Err("its records are inconsistent".to_owned()));
    let mut start = Input(plain);
    let Some(mut head) = start.number().and_then(|length| start.take(length)).map(Input) else {
        return broken();
    };
    let mut body = start;
    let Some(count) = head.number() else { return broken() };
    let mut records = Vec::new();
    let mut peers: Vec<Arc<str>> = Vec::new();
    let mut time = 0_i64;
    for index in 0..count {
        let mut next = || -> Option<(Channel, u16, Arc<str>, u64)> {
            time = time.wrapping_add(unzigzag(head.number()?));
            let channel = Channel::from_code(*head.take(1)?.first()?)?;
            let protocol = u16::try_from(head.number()?).ok()?;
            let place = usize::try_from(head.number()?).ok()?;
            if place == peers.len() {
                let length = head.number()?;
                peers.push(std::str::from_utf8(head.take(length)?).ok()?.into());
            }
            Some((channel, protocol, Arc::clone(peers.get(place)?), head.number()?))
        };
        let Some((channel, protocol, peer, pieces)) = next() else { return broken() };
        let is_urgent = wanted.contains(&(first + index));
        let mut bytes = Vec::new();
        for _ in 0..pieces {
            let Some(piece) = head.number() else { return broken() };
            if piece & 1 == 1 {
                if is_urgent {
                    bytes.extend_from_slice(&content(piece >> 1)?);
                }
            } else if let Some(part) = body.take(piece >> 1) {
                if is_urgent {
                    bytes.extend_from_slice(part);
                }
            } else {
                return broken();
            }
        }
        if !is_urgent {
            continue;
        }
        records.push(Record { sequence: first + index, time: Moment(time), channel, peer, protocol, bytes });
    }
    Ok(Ok((records, count)))
}

pub(crate) fn compress(plain: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.include_checksum(true)?;
    compressor.compress(plain)
}

pub(crate) fn decompress(data: &[u8]) -> std::io::Result<Vec<u8>> {
    let size = zstd::zstd_safe::get_frame_content_size(data).ok().flatten().unwrap_or(0);
    if size > MAX_UNPACKED as u64 {
        return Err(std::io::Error::other("its declared size exceeds the limit"));
    }
    zstd::bulk::decompress(data, usize::try_from(size).unwrap_or(0))
}

pub(crate) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

pub(crate) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (part, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_gives_back_what_was_packed() {
        let mut records: Vec<Record> = (0..9_u64)
            .map(|number| Record {
                sequence: 40 + number,
                time: Moment(1_000_000 - 77 * number as i64 * i64::from(number as u32 % 2)),
                channel: Channel::from_code(number as u8).unwrap(),
                peer: if number % 2 == 0 { "a".into() } else { "".into() },
                protocol: number as u16,
                bytes: vec![b'x'; number as usize],
            })
            .collect();
        let pieces: Vec<_> = records
            .iter()
            .map(|record| vec![Piece::Bytes(&record.bytes), Piece::Content(7), Piece::Bytes(b"end")])
            .collect();
        let data = pack(&records, &pieces).unwrap();
        let unpacked = |data: &[u8], wanted: Range<u64>| {
            let plain = decompress(data).map_err(|error| error.to_string())?;
            unpack::<()>(&plain, 40, &wanted, |number| Ok(vec![number as u8])).unwrap()
        };
        for record in &mut records {
            record.bytes.extend_from_slice(b"\x07end");
        }
        assert_eq!(unpacked(&data, 0..u64::MAX), Ok((records.clone(), 9)));
        assert_eq!(unpacked(&data, 42..45), Ok((records[2..5].to_vec(), 9)));
        for cut in 0..data.len() {
            assert!(unpacked(&data[..cut], 0..u64::MAX).is_err());
        }
        for place in 0..data.len() {
            let mut damaged = data.clone();
            damaged[place] ^= 0x10;
            // Some bits of the frame header are unused.
            let found = unpacked(&damaged, 0..u64::MAX);
            assert!(found.is_err() || found == Ok((records.clone(), 9)), "{place}");
        }
    }
}
