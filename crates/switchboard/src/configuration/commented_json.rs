//! JSON as editors' settings have it: with comments and with commas behind the last item.

use serde_json::Value;

/// The value of the text. Comments and superfluous commas become white space, so that places in errors are right.
pub(crate) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    serde_json::from_str(&without_comments(text))
}

fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    // Where a comma stands behind which nothing but white space has come.
    let mut comma = None;
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = match character {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => character.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        if token.starts_with("//") || token.starts_with("/*") {
            plain.extend(token.chars().map(|character| if character == '\n' { '\n' } else { ' ' }));
            continue;
        }
        match character {
            ',' => comma = Some(plain.len()),
            '}' | ']' => {
                if let Some(place) = comma.take() {
                    plain.replace_range(place..=place, " ");
                }
            }
            other if other.is_whitespace() => {}
            _ => comma = None,
        }
        plain.push_str(token);
    }
    plain
}

/// The length of the string at the start, with its quotes; all of the text when it does not end.
pub(super) fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (place, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return place + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::parse;
    use serde_json::json;

    #[test]
    fn comments_and_last_commas_are_passed_over() {
        let check = |text: &str, expected| assert_eq!(parse(text).unwrap(), expected, "{text}");
        check("{// c\n\"a\": 1, /* , */ }", json!({"a": 1}));
        check("[1, 2, // end\n ]", json!([1, 2]));
        check(
            r#"{"a": "// no, \" comment ,]", "b": [",}",],}"#,
            json!({"a": "// no, \" comment ,]", "b": [",}"]}),
        );
        check("\u{FEFF}{} /* open", json!({}));
        check("[\"ü\", /* ü */ 1,]", json!(["ü", 1]));
    }

    #[test]
    fn what_is_wrong_stays_wrong() {
        for text in ["[1,,2]", "{\"a\" 1}", "\"open", "// only a comment"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
