//! The output of programs, made harmless and honest.

use switchboard_acp::display::visible;

/// What a program wrote to its terminal, without the escapes for colours and the like, which are common there. The
/// rest is made visible.
pub(crate) fn terminal_output(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(place) = rest.find('\u{1B}') {
        plain.push_str(&rest[..place]);
        rest = &rest[place..];
        let length = sequence_length(rest);
        if length == 0 {
            plain.push('\u{1B}');
            rest = &rest[1..];
        } else {
            rest = &rest[length..];
        }
    }
    plain.push_str(rest);
    visible(&plain).into_owned()
}

/// The length of a complete control sequence at the start; 0 where there is none.
fn sequence_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    if bytes.get(1) != Some(&b'[') {
        return 0;
    }
    let end = bytes[2..].iter().position(|byte| !(0x20..=0x3F).contains(byte));
    match end {
        Some(end) if (0x40..=0x7E).contains(&bytes[2 + end]) => end + 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::terminal_output;

    #[test]
    fn output_of_programs_loses_its_colours_only() {
        assert_eq!(terminal_output("\u{1B}[1;32mgrün\u{1B}[0m\r\n".as_bytes()), "grün\n");
        assert_eq!(terminal_output(b"\x1B]0;title\x07 \x1B[31"), "␛]0;title␇ ␛[31");
        assert_eq!(terminal_output(b"\xC3"), "\u{FFFD}");
        assert_eq!(terminal_output("\u{1B}é\u{1B}".as_bytes()), "␛é␛");
    }
}
