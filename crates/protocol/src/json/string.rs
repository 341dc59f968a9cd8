//! JSON strings: finding their end, undoing and making escapes.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The place of the first byte at or after `position` that is a quote, a backslash or a control character; the
/// end of the text when there is none.
#[inline(always)]
pub(super) fn find_special(bytes: &[u8], mut position: usize) -> usize {
    // Two words at a time: which of them has it is not known before both are looked at, and guessing wrong costs more.
    while let Some(block) = bytes.get(position..).and_then(<[u8]>::first_chunk) {
        let block = u128::from_le_bytes(*block);
        let (low, high) = (special_mask(block as u64), special_mask((block >> 64) as u64));
        if low | high != 0 {
            let bits = if low == 0 { 64 + high.trailing_zeros() } else { low.trailing_zeros() };
            return position + bits as usize / 8;
        }
        position += 16;
    }
    let is_special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    let rest = bytes.get(position..).unwrap_or_default();
    rest.iter().position(is_special).map_or(bytes.len(), |found| position + found)
}

/// The high bit of each byte that is special; bytes after the first special one may be marked wrongly.
#[inline(always)]
fn special_mask(word: u64) -> u64 {
    // Turning one bit over puts the quote right behind the control characters, and moves nothing else there.
    let quotes_and_controls = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
    let backslashes = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    (quotes_and_controls | backslashes) & !word & HIGHS
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
