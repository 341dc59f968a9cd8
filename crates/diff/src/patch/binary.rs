//! Binary content in patch text: base 85 of zlib of the content or a delta.

use std::borrow::Cow;

use super::model::{BinaryHunk, BinaryMethod};

const ALPHABET: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
/// Maximum number of bytes encoded in one line of base 85 text.
const LINE: usize = 52;
/// Compression level, the same as Git's default.
const COMPRESSION: u8 = 6;

impl BinaryHunk<'static> {
    /// Creates a hunk with the whole content, compressed.
    pub fn literal(content: &[u8]) -> Self {
        let compressed = miniz_oxide::deflate::compress_to_vec_zlib(content, COMPRESSION);
        let mut encoded = Vec::with_capacity(compressed.len() / LINE * 67 + 67);
        for chunk in compressed.chunks(LINE) {
            encode_line(&mut encoded, chunk);
        }
        BinaryHunk { method: BinaryMethod::Literal, size: content.len() as u64, encoded: Cow::Owned(encoded) }
    }
}

impl BinaryHunk<'_> {
    /// Returns the content that the hunk produces from `base`, the content of the other side.
    ///
    /// `None` if the data is invalid, does not have its declared size, or exceeds `limit` bytes.
    pub fn content(&self, base: &[u8], limit: u64) -> Option<Vec<u8>> {
        let size = usize::try_from(self.size).ok().filter(|_| self.size <= limit)?;
        let mut compressed = Vec::with_capacity(self.encoded.len() / 5 * 4);
        for line in self.encoded.split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                decode_line(&mut compressed, line)?;
            }
        }
        let data = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(&compressed, size).ok()?;
        if data.len() != size {
            return None;
        }
        match self.method {
            BinaryMethod::Literal => Some(data),
            BinaryMethod::Delta => apply_delta(base, &data, limit),
        }
    }
}

fn encode_line(out: &mut Vec<u8>, chunk: &[u8]) {
    // Chunks are never empty and never longer than a line, so the length has a letter.
    let length = chunk.len() as u8;
    out.push(if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 });
    for word in chunk.chunks(4) {
        let mut bytes = [0; 4];
        bytes[..word.len()].copy_from_slice(word);
        let mut number = u32::from_be_bytes(bytes);
        let mut digits = [0; 5];
        for digit in digits.iter_mut().rev() {
            *digit = ALPHABET[(number % 85) as usize];
            number /= 85;
        }
        out.extend_from_slice(&digits);
    }
    out.push(b'\n');
}

/// Returns the number of encoded bytes and the digits of a line of base 85 text. `None` for another line.
fn split_line(line: &[u8]) -> Option<(usize, &[u8])> {
    let (&letter, digits) = line.split_first()?;
    let length = match letter {
        b'A'..=b'Z' => usize::from(letter - b'A') + 1,
        b'a'..=b'z' => usize::from(letter - b'a') + 27,
        _ => return None,
    };
    (digits.len() == length.div_ceil(4) * 5).then_some((length, digits))
}

/// Returns true if a line has the form of binary data.
pub(super) fn is_binary_line(line: &[u8]) -> bool {
    split_line(line).is_some_and(|(_, digits)| digits.iter().all(|digit| ALPHABET.contains(digit)))
}

fn decode_line(out: &mut Vec<u8>, line: &[u8]) -> Option<()> {
    let (length, digits) = split_line(line)?;
    let end = out.len() + length;
    for word in digits.chunks(5) {
        let number = word.iter().try_fold(0u32, |number, digit| {
            let value = ALPHABET.iter().position(|letter| letter == digit)? as u32;
            number.checked_mul(85)?.checked_add(value)
        })?;
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.truncate(end);
    Some(())
}

/// Applies Git's delta: two sizes, then instructions to copy from the base or to insert.
fn apply_delta(base: &[u8], delta: &[u8], limit: u64) -> Option<Vec<u8>> {
    let mut delta = delta.iter().copied();
    if read_size(&mut delta)? != base.len() as u64 {
        return None;
    }
    let size = read_size(&mut delta).filter(|&size| size <= limit)?;
    let mut out = Vec::new();
    while let Some(instruction) = delta.next() {
        if instruction & 0x80 != 0 {
            let mut field = |bits: std::ops::Range<u8>| {
                bits.clone().try_fold(0usize, |value, bit| {
                    let present = instruction >> bit & 1 != 0;
                    let byte = if present { delta.next()? } else { 0 };
                    Some(value | usize::from(byte) << (8 * (bit - bits.start)))
                })
            };
            let offset = field(0..4)?;
            let length = match field(4..7)? {
                0 => 0x1_0000,
                length => length,
            };
            out.extend_from_slice(base.get(offset..offset.checked_add(length)?)?);
        } else if instruction == 0 {
            return None;
        } else {
            for _ in 0..instruction {
                out.push(delta.next()?);
            }
        }
        if out.len() as u64 > size {
            return None;
        }
    }
    (out.len() as u64 == size).then_some(out)
}

fn read_size(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut size = 0u64;
    for shift in (0..63).step_by(7) {
        let byte = bytes.next()?;
        size |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(size);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_read_as_it_was_written() {
        for length in [0, 1, 3, 4, 5, 51, 52, 53, 1000, 70_000] {
            let content: Vec<u8> =
                (0..length).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            let hunk = BinaryHunk::literal(&content);
            assert_eq!(hunk.content(b"", 1 << 20).as_deref(), Some(&*content), "{length} bytes");
        }
    }

    #[test]
    fn a_literal_larger_than_the_limit_or_its_claim_is_refused() {
        let mut hunk = BinaryHunk::literal(&[7; 1000]);
        assert_eq!(hunk.content(b"", 999), None);
        hunk.size = 500;
        assert_eq!(hunk.content(b"", 1 << 20), None);
        hunk.size = u64::MAX;
        assert_eq!(hunk.content(b"", u64::MAX), None);
    }

    #[test]
    fn a_delta_copies_and_inserts() {
        let base = b"hello, world";
        // Sizes 12 and 9; copy 7 bytes from 0; insert "ab".
        let delta = [12, 9, 0x90, 7, 2, b'a', b'b'];
        assert_eq!(apply_delta(base, &delta, 100).as_deref(), Some(&b"hello, ab"[..]));
        assert_eq!(apply_delta(b"other", &delta, 100), None, "wrong base");
        assert_eq!(apply_delta(base, &[12, 9, 0x91, 8, 7, 2, b'a', b'b'], 100), None, "outside the base");
        assert_eq!(apply_delta(base, &[12, 9, 0], 100), None, "reserved instruction");
        assert_eq!(apply_delta(base, &[12, 9, 5, b'a'], 100), None, "ends early");
        assert_eq!(apply_delta(base, &[12, 0x80, 0x80, 0x80], 100), None, "size ends early");
    }

    #[test]
    fn broken_text_is_refused() {
        for line in [&b"\x01"[..], b"A", b"Aabcd", b"A~~~~~", b"A\"\"\"\"\"", b"B000000"] {
            assert_eq!(decode_line(&mut Vec::new(), line), None, "{}", line.escape_ascii());
        }
    }
}
