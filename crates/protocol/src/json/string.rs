//! JSON strings: finding their end, undoing and making escapes.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The place of the first byte at or after `position` that is a quote, a backslash or a control character; the
/// end of the text when there is none.
#[inline(always)]
pub(super) fn find_special(bytes: &[u8], mut position: usize) -> usize {
    let Some(mut rest) = bytes.get(position..) else { return bytes.len() };
    while let Some((word, tail)) = rest.split_first_chunk() {
        let found = special_mask(u64::from_le_bytes(*word));
        if found != 0 {
            return position + found.trailing_zeros() as usize / 8;
        }
        position += 8;
        rest = tail;
    }
    let is_special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    position + rest.iter().position(is_special).unwrap_or(rest.len())
}

/// The high bit of each byte that is special; bytes after the first special one may be marked wrongly.
#[inline(always)]
fn special_mask(word: u64) -> u64 {
    let zero_byte = |value: u64| value.wrapping_sub(ONES) & !value;
    let quotes = zero_byte(word ^ (ONES * b'"' as u64));
    let backslashes = zero_byte(word ^ (ONES * b'\\' as u64));
    let controls = word.wrapping_sub(ONES * 0x20) & !word;
    (quotes | backslashes | controls) & HIGHS
}

/// Reads the escape at `position` (which holds the backslash). Gives the character and where to go on.
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
