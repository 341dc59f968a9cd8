//! JSON strings: end detection, unescaping and escaping.

/// Returns the position of the first quote, backslash or control character at or after `position`, or the end
/// of the text.
#[inline(always)]
pub(super) fn find_special(bytes: &[u8], position: usize) -> usize {
    let Some(mut rest) = bytes.get(position..) else { return bytes.len() };
    while let Some((block, behind)) = rest.split_first_chunk() {
        if let Some(found) = first_special(u128::from_le_bytes(*block)) {
            return bytes.len() - rest.len() + found;
        }
        rest = behind;
    }
    let start = bytes.len() - rest.len();
    match bytes.last_chunk::<16>() {
        // Treat the last bytes as a block, without those already checked. The zeros after them count as
        // special.
        Some(last) if !rest.is_empty() => {
            let block = u128::from_le_bytes(*last) >> (8 * (16 - rest.len()));
            start + first_special(block).unwrap_or_default()
        }
        _ => start + find_in_short(rest),
    }
}

/// Like [`find_special`], for fewer than sixteen bytes, as in nearly all ids and words that are written.
/// Checks the first and the last bytes, which may overlap, at once.
#[inline(always)]
fn find_in_short(bytes: &[u8]) -> usize {
    let word = |half: &[u8; 4]| u128::from(u32::from_le_bytes(*half));
    let (size, block) = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) => {
            (8, u128::from(u64::from_le_bytes(*first)) | u128::from(u64::from_le_bytes(*last)) << 64)
        }
        _ => match (bytes.first_chunk(), bytes.last_chunk()) {
            (Some(first), Some(last)) => (4, word(first) | word(last) << 32 | u128::MAX << 64),
            _ => return bytes.iter().position(is_special).unwrap_or(bytes.len()),
        },
    };
    match first_special(block) {
        Some(place) if place < size => place,
        Some(place) => place + bytes.len() - 2 * size,
        None => bytes.len(),
    }
}

fn is_special(byte: &u8) -> bool {
    *byte < 0x20 || matches!(byte, b'"' | b'\\')
}

/// Returns the position of the first special byte among sixteen.
#[inline(always)]
fn first_special(block: u128) -> Option<usize> {
    // Check both words before deciding, because a mispredicted branch costs more.
    let (low, high) = (special_mask(block as u64), special_mask((block >> 64) as u64));
    if low | high == 0 {
        return None;
    }
    let bits = if low == 0 { 64 + high.trailing_zeros() } else { low.trailing_zeros() };
    Some(bits as usize / 8)
}

/// Returns the high bit of each special byte. Bytes after the first special one may be marked wrongly.
#[inline(always)]
fn special_mask(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // Flipping one bit moves the quote right after the control characters, and nothing else there.
    let quotes_and_controls = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
    let backslashes = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    (quotes_and_controls | backslashes) & !word & HIGHS
}

/// Returns the position of the last quote.
pub(super) fn find_last_quote(bytes: &[u8]) -> Option<usize> {
    const ONES: u128 = u128::from_le_bytes([0x01; 16]);
    const LOWS: u128 = u128::from_le_bytes([0x7f; 16]);
    let mut rest = bytes;
    while let Some((before, block)) = rest.split_last_chunk() {
        let others = u128::from_le_bytes(*block) ^ (ONES * b'"' as u128);
        // The high bit of each byte that is a quote, exactly.
        let quotes = !(((others & LOWS) + LOWS) | others | LOWS);
        if quotes != 0 {
            return Some(rest.len() - 1 - quotes.leading_zeros() as usize / 8);
        }
        rest = before;
    }
    rest.iter().rposition(|byte| *byte == b'"')
}

/// Reads the escape at `position`, which is a backslash. Returns the character and the next position.
pub(super) fn read_escape(bytes: &[u8], position: usize) -> Result<(char, usize), &'static str> {
    let simple = |character| Ok((character, position + 2));
    match bytes.get(position + 1) {
        Some(b'"') => simple('"'),
        Some(b'\\') => simple('\\'),
        Some(b'/') => simple('/'),
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'u') => {
            let first = read_hex(bytes, position + 2)?;
            if !(0xd800..0xe000).contains(&first) {
                let character = char::from_u32(first).ok_or("a Unicode character")?;
                return Ok((character, position + 6));
            }
            let lone = "a pair of surrogates, not a lone one";
            if first >= 0xdc00 || bytes.get(position + 6..position + 8) != Some(b"\\u") {
                return Err(lone);
            }
            let second = read_hex(bytes, position + 8)?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(lone);
            }
            let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            Ok((char::from_u32(code).ok_or(lone)?, position + 12))
        }
        _ => Err("an escape sequence of JSON"),
    }
}

fn read_hex(bytes: &[u8], position: usize) -> Result<u32, &'static str> {
    let digits = bytes.get(position..position + 4).ok_or("four hexadecimal digits")?;
    digits.iter().try_fold(0, |number, &digit| {
        let value = (digit as char).to_digit(16).ok_or("four hexadecimal digits")?;
        Ok(number * 16 + value)
    })
}

/// Writes a string with its quotes.
pub(super) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    let mut position = 0;
    loop {
        let found = find_special(bytes, position);
        if found == bytes.len() {
            break;
        }
        out.push_str(&text[copied..found]);
        match bytes[found] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.push_str("\\u00");
                out.push(HEX[usize::from(control >> 4)] as char);
                out.push(HEX[usize::from(control & 15)] as char);
            }
        }
        position = found + 1;
        copied = position;
    }
    out.push_str(&text[copied..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_bytes_are_found_wherever_they_stand() {
        for length in 0..50 {
            for byte in 0..=255 {
                for place in 0..length {
                    let mut bytes = vec![b'a' + (place % 3) as u8; length];
                    bytes[place] = byte;
                    for start in [0, place, place + 1, length, length + 2] {
                        let rest = bytes.iter().enumerate().skip(start);
                        let expected = rest.map(|(place, byte)| (place, is_special(byte)));
                        let expected =
                            expected.filter(|(_, special)| *special).map(|(place, _)| place).next();
                        assert_eq!(
                            find_special(&bytes, start),
                            expected.unwrap_or(length),
                            "{bytes:?} {start}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_of_several_special_bytes_is_found() {
        let mut bytes = [b'"', b'\\', b'\n', 0x00, 0x7f, 0x80, b'!', b'#', b'x', 0x1f, 0x20, 0xff];
        for _ in 0..bytes.len() {
            bytes.rotate_left(1);
            let expected = bytes.iter().position(is_special).unwrap();
            assert_eq!(find_special(&bytes, 0), expected);
            for word in bytes.windows(8) {
                let mask = special_mask(u64::from_le_bytes(word.try_into().unwrap()));
                let expected = word.iter().position(is_special).unwrap_or(8);
                assert_eq!(mask.trailing_zeros() as usize / 8, expected, "{word:?}");
            }
            let padded = [[b'x'; 21].as_slice(), &bytes, b"tail"].concat();
            assert_eq!(find_special(&padded, 3), 21 + expected);
        }
    }

    #[test]
    fn the_last_quote_is_found_wherever_it_stands() {
        for length in 0..50 {
            for place in 0..length {
                for around in [b'!', b'#', 0x00, 0xa2, 0xff] {
                    let mut bytes = vec![around; length];
                    assert_eq!(find_last_quote(&bytes), None);
                    bytes[place] = b'"';
                    bytes[place / 2] = b'"';
                    assert_eq!(find_last_quote(&bytes), Some(place), "{bytes:?}");
                }
            }
        }
    }
}
