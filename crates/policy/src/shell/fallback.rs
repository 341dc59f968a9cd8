//! Possible commands in a line that does not parse.

use super::{Cwd, MAX_PARTS, Part, Word};

/// Splits a line at everything that can begin a command. The result can deny but never allow.
pub(super) fn parts(line: &str) -> Vec<Part> {
    let cuts = [';', '&', '|', '\n', '\r', '(', ')', '{', '}', '`'];
    let pieces = line.split(cuts);
    let mut parts = Vec::new();
    for piece in pieces {
        if parts.len() == MAX_PARTS {
            break;
        }
        let mut words: Vec<Word> =
            piece.split_whitespace().map(clean).filter(|word| !word.text.is_empty()).collect();
        let leading = words
            .iter()
            .take_while(|word| {
                let text = &*word.text;
                const RESERVED: [&str; 10] =
                    ["!", "$", "do", "then", "else", "elif", "if", "while", "until", "time"];
                RESERVED.contains(&text) || super::word::assignment(text).is_some()
            })
            .count();
        words.drain(..leading);
        let is_redirected = piece.trim_start().trim_start_matches(|first: char| first.is_ascii_digit());
        if is_redirected.starts_with(['<', '>']) && words.len() > 1 {
            // The command follows the file.
            parts.push(Part { words: words[1..].to_vec(), cwd: Cwd::Unknown, ..Part::default() });
        }
        if !words.is_empty() {
            parts.push(Part { words, cwd: Cwd::Unknown, ..Part::default() });
        }
    }
    parts
}

fn clean(text: &str) -> Word {
    let mut word = Word::literal(text.replace(['\'', '"', '\\', ',', '<', '>'], ""));
    word.is_open = text.contains(['$', '*', '?', '[']);
    word
}
