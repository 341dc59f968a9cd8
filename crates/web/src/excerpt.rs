//! Excerpts of messages, for lists.

/// Maximum length of an excerpt, in characters.
const LONGEST: usize = 160;

/// Returns the beginning of a message's text or title if it has one, otherwise of its JSON without the envelope.
pub(crate) fn excerpt(text: &str) -> String {
    let behind = |key: &&str| text.find(*key).map(|place| place + key.len());
    let words = [r#""text":""#, r#""title":""#].iter().filter_map(behind).min();
    let value = [r#""update":"#, r#""params":"#, r#""result":"#, r#""error":"#].iter().find_map(behind);
    let telling: String = match (words, value) {
        (Some(words), _) => beginning(&text[words..]),
        (None, value) => text[value.unwrap_or(0)..].chars().take(LONGEST).collect(),
    };
    // Many fonts lack a glyph for ␊.
    switchboard_acp::display::visible_line(&telling).replace('␊', "↵")
}

/// Returns the beginning of a JSON string without escapes. `text` starts after the opening quote.
fn beginning(text: &str) -> String {
    let mut end = 0;
    for _ in 0..LONGEST {
        match unit(&text[end..]) {
            Some(length) => end += length,
            None => break,
        }
    }
    let escaped = &text[..end];
    serde_json::from_str(&format!("\"{escaped}\"")).unwrap_or_else(|_| escaped.to_owned())
}

/// Returns the length in bytes of the first character, which may be an escape, or `None` at the end of the string.
fn unit(text: &str) -> Option<usize> {
    let first = text.chars().next().filter(|first| *first != '"')?;
    if first != '\\' {
        return Some(first.len_utf8());
    }
    let first = escape(text)?;
    // A character above U+FFFF is a surrogate pair of escapes.
    let is_half = first.get(2..4).is_some_and(|digits| ("D8".."DC").contains(&&*digits.to_ascii_uppercase()));
    let second = if is_half { escape(&text[first.len()..]) } else { None };
    Some(first.len() + second.map_or(0, str::len))
}

/// Returns the escape at the start of a text.
fn escape(text: &str) -> Option<&str> {
    match text.as_bytes() {
        [b'\\', b'u', ..] => text.get(..6),
        [b'\\', _, ..] => text.get(..2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: &str) {
        assert_eq!(excerpt(message), expected, "{message}");
    }

    #[test]
    fn words_are_shown_without_escapes() {
        check(r#"{"text":"You chose \"Yes\".","more":"x"}"#, "You chose \"Yes\".");
        check(r#"{"title":"a\\\"b\\"}"#, r#"a\"b\"#);
        check(r#"{"text":"a\n\tb\/c \u00fc \uD83D\ude00 \u202e"}"#, "a↵ b/c ü 😀 <U+202E>");
        check(r#"{"text":""}"#, "");
        check(r#"{"title":"Write?","content":{"text":"much"}}"#, "Write?");
        check(r#"{"text":"words","title":"T"}"#, "words");
        check(r#"{"params":{"a":"\"b"}}"#, r#"{"a":"\"b"}}"#);
    }

    #[test]
    fn incomplete_strings_are_shown_as_far_as_valid() {
        for (text, expected) in [
            (r#"{"text":"cut off"#, "cut off"),
            (r#"{"text":"cut off\"#, "cut off"),
            (r#"{"text":"cut \u00"#, "cut "),
            (r#"{"text":"half \ud83d"}"#, r"half \ud83d"),
            (r#"{"text":"half \ud83d\n"}"#, r"half \ud83d\n"),
            (r#"{"text":"odd \xü"}"#, r"odd \xü"),
            (r#"{"text":"odd \ü"}"#, "odd "),
            (r#"{"text":"odd \uüüüü"}"#, r"odd \uüüüü"),
        ] {
            check(text, expected);
        }
    }

    #[test]
    fn it_is_short_however_long_the_message_is() {
        for letter in ["a", "ü", r"\n", r"\u00e4", r"\ud83d\ude00", r#"\""#] {
            let message = format!(r#"{{"text":"{}"}}"#, letter.repeat(10_000));
            assert_eq!(excerpt(&message).chars().count(), LONGEST, "{letter}");
        }
    }
}
