//! Terminal output as plain text.

/// The text that bytes from a terminal amount to, without its control sequences.
pub(crate) fn plain_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => match characters.next() {
                // Until the final byte.
                Some('[') => {
                    for parameter in characters.by_ref() {
                        if ('\u{40}'..='\u{7e}').contains(&parameter) {
                            break;
                        }
                    }
                }
                // Until the bell or the string terminator.
                Some(']' | 'P' | '^' | '_' | 'X') => {
                    while let Some(inside) = characters.next() {
                        if inside == '\u{7}' {
                            break;
                        }
                        if inside == '\u{1b}' {
                            characters.next_if_eq(&'\\');
                            break;
                        }
                    }
                }
                Some('(' | ')' | '*' | '+' | '#' | '%' | ' ') => {
                    characters.next();
                }
                _ => {}
            },
            '\r' => {
                if characters.peek() != Some(&'\n') {
                    plain.push('\n');
                }
            }
            '\u{8}' => {
                if plain.ends_with(|last: char| last != '\n') {
                    plain.pop();
                }
            }
            '\n' | '\t' => plain.push(character),
            _ if character.is_control() => {}
            _ => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::plain_text;

    #[test]
    fn control_sequences_are_gone_and_text_stays() {
        let cases: [(&[u8], &str); 7] = [
            (b"ok\n", "ok\n"),
            (b"\x1b[1;32mgreen\x1b[0m", "green"),
            (b"\x1b]0;title\x07text", "text"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"a\r\nb\rc", "a\nb\nc"),
            (b"ab\x08c\x07", "ac"),
            (b"\xff\xfe\x1b[", "\u{fffd}\u{fffd}"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(plain_text(bytes), expected, "{bytes:?}");
        }
    }
}
