//! Quoting of path names that would break a header line, as in Git.

use std::borrow::Cow;

/// Appends `prefix` and `path` as one name, in double quotes if a byte needs escaping.
///
/// Control characters, the double quote, the backslash and bytes that are not UTF-8 are escaped. Other
/// characters stay unchanged (Git's `core.quotePath=false`): Git accepts them, and they are readable.
pub(crate) fn write_name(out: &mut Vec<u8>, prefix: &[u8], path: &[u8]) {
    if !needs_quotes(prefix) && !needs_quotes(path) {
        out.extend_from_slice(prefix);
        out.extend_from_slice(path);
        return;
    }
    out.push(b'"');
    for part in [prefix, path] {
        for chunk in part.utf8_chunks() {
            for byte in chunk.valid().bytes() {
                write_escaped(out, byte);
            }
            for &byte in chunk.invalid() {
                write_octal(out, byte);
            }
        }
    }
    out.push(b'"');
}

fn needs_quotes(name: &[u8]) -> bool {
    name.iter().any(|&byte| byte < 0x20 || matches!(byte, b'"' | b'\\' | 0x7f))
        || str::from_utf8(name).is_err()
}

fn write_escaped(out: &mut Vec<u8>, byte: u8) {
    let letter = match byte {
        0x07 => b'a',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0b => b'v',
        0x0c => b'f',
        b'\r' => b'r',
        b'"' => b'"',
        b'\\' => b'\\',
        0..0x20 | 0x7f => return write_octal(out, byte),
        _ => return out.push(byte),
    };
    out.extend_from_slice(&[b'\\', letter]);
}

fn write_octal(out: &mut Vec<u8>, byte: u8) {
    out.extend_from_slice(&[b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]);
}

/// Parses a name in double quotes at the start of `text`. Returns the name and the rest. `None` if the quotes
/// are not closed or an escape is invalid.
pub(crate) fn read_quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::with_capacity(rest.len());
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((name, rest)),
            b'\\' => {
                let (&escape, after) = rest.split_first()?;
                rest = after;
                name.push(match escape {
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => {
                        let (digits, after) = rest.split_at_checked(2)?;
                        rest = after;
                        digits.iter().try_fold(escape - b'0', |value, &digit| {
                            matches!(digit, b'0'..=b'7').then(|| value << 3 | (digit - b'0'))
                        })?
                    }
                    _ => return None,
                });
            }
            _ => name.push(byte),
        }
    }
}

/// Parses a complete field that is a name, quoted or not.
pub(crate) fn read_name(field: &[u8]) -> Option<Cow<'_, [u8]>> {
    if field.starts_with(b"\"") {
        let (name, rest) = read_quoted(field)?;
        rest.is_empty().then_some(Cow::Owned(name))
    } else {
        Some(Cow::Borrowed(field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &[u8], written: &str) {
        let mut out = Vec::new();
        write_name(&mut out, b"a/", path);
        assert_eq!(String::from_utf8_lossy(&out), written);
        let read = read_name(&out).expect("what was written is read");
        assert_eq!(read.strip_prefix(b"a/"), Some(path));
    }

    #[test]
    fn names_are_quoted_only_where_they_must_be() {
        check(b"plain.txt", "a/plain.txt");
        check(b"with space", "a/with space");
        check("größe/日本".as_bytes(), "a/größe/日本");
        check(b"tab\there", r#""a/tab\there""#);
        check(b"say \"hi\"", r#""a/say \"hi\"""#);
        check(b"back\\slash", r#""a/back\\slash""#);
        check(b"bell\x07\x01\x7f", r#""a/bell\a\001\177""#);
        check(b"latin\xe9", r#""a/latin\351""#);
        check("é\n".as_bytes(), "\"a/é\\n\"");
    }

    #[test]
    fn broken_quotes_are_refused() {
        for text in ["\"open", "\"bad\\q\"", "\"\\40\"", "\"\\400\"", "\"a\"b", "\"\\"] {
            assert_eq!(read_name(text.as_bytes()), None, "{text}");
        }
    }
}
