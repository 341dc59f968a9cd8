//! Formatting of JSON for display. Works on the text, so that numbers keep their spelling.

use std::hash::Hash;

use maud::{Markup, html};

use super::text::{cut, size, visible};

/// Maximum number of bytes that are shown of a value.
const SHOWN_BYTES: usize = 256 << 10;
/// Maximum number of indented levels.
const DEEPEST_INDENT: usize = 40;

/// Returns JSON with line breaks and indentation. Invalid JSON passes through nearly unchanged.
pub(super) fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth: usize = 0;
    let mut in_string = false;
    let mut escaped = false;
    let mut characters = json.chars().peekable();
    let new_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth.min(DEEPEST_INDENT)));
    };
    while let Some(character) = characters.next() {
        if in_string {
            out.push(character);
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
            continue;
        }
        match character {
            '"' => {
                in_string = true;
                out.push('"');
            }
            '{' | '[' => {
                out.push(character);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(close) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ if character.is_ascii_whitespace() => {}
            _ => out.push(character),
        }
    }
    out
}

/// Renders a value as a code block.
pub(crate) fn block(json: &str) -> Markup {
    let shown = cut(json, SHOWN_BYTES);
    html! {
        pre.json { code { (visible(&indented(shown))) } }
        @if shown.len() < json.len() {
            p.note { "The first " (size(shown.len())) " of " (size(json.len())) " are shown." }
        }
    }
}

/// Renders a value in a fold.
pub(super) fn folded(label: &str, keep: &str, json: &str) -> Markup {
    html! {
        details.raw data-keep=(keep) {
            summary { (label) }
            (block(json))
        }
    }
}

/// Returns the cache key of a value: the bytes that are shown, and the total length.
pub(super) fn source(json: &str) -> impl Hash {
    (json.len(), cut(json, SHOWN_BYTES).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_indented_and_numbers_keep_their_spelling() {
        assert_eq!(
            indented(r#"{"a":[1.0,1e3,{}],"b":"x\",{","c":[ ]}"#),
            "{\n  \"a\": [\n    1.0,\n    1e3,\n    {}\n  ],\n  \"b\": \"x\\\",{\",\n  \"c\": []\n}"
        );
    }

    #[test]
    fn depth_does_not_cost_its_square() {
        let deep = "[".repeat(100_000);
        assert!(indented(&deep).len() < deep.len() * (2 + 2 * DEEPEST_INDENT));
    }

    #[test]
    fn long_values_are_cut_visibly() {
        let long = format!("\"{}\"", "é".repeat(SHOWN_BYTES));
        assert!(block(&long).0.contains("The first 256.0 KiB of 512.0 KiB are shown."));
    }
}
