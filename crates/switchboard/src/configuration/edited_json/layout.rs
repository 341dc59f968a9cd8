//! Layout of inserted text, which follows the existing layout.

use serde_json::Value;

use super::Container;

/// The layout of a text.
pub(super) struct Layout {
    /// Indentation of one level.
    unit: String,
    line_end: &'static str,
}

impl Layout {
    pub(super) fn of(text: &str, root: &Container) -> Self {
        let first = root.items.first().and_then(|item| own_line(text, item.start));
        let unit = first.filter(|unit| !unit.is_empty()).unwrap_or("  ").to_owned();
        Layout { unit, line_end: if text.contains("\r\n") { "\r\n" } else { "\n" } }
    }

    /// Returns the text of a value that replaces another.
    pub(super) fn replacing(&self, text: &str, place: usize, value: &Value) -> String {
        self.render(value, Some(indentation(text, place)))
    }

    /// Returns the text with a value added at the end of an object or a list.
    pub(super) fn inserted(&self, text: &str, node: &Container, key: Option<&str>, value: &Value) -> String {
        let member = |indent: Option<&str>| {
            let value = self.render(value, indent);
            key.map_or_else(|| value.clone(), |key| format!("{}: {value}", Value::from(key)))
        };
        let end = node.span.end - 1;
        let Some(last) = node.items.last() else {
            // Comments keep their position.
            let inner = text[node.span.start + 1..end].trim_end();
            let place = node.span.start + 1 + inner.len();
            let outer = indentation(text, node.span.start);
            let indent = format!("{outer}{}", self.unit);
            let (line_end, member) = (self.line_end, member(Some(&indent)));
            return format!("{}{line_end}{indent}{member}{line_end}{outer}{}", &text[..place], &text[end..]);
        };
        let after = node.trailing_comma().map_or(last.end, |comma| comma + 1);
        let comma = if node.trailing_comma().is_none() { "," } else { "" };
        let closing_comma = if node.trailing_comma().is_some() { "," } else { "" };
        let (before, rest) = text.split_at(after);
        match own_line(text, last.start) {
            Some(indent) => {
                // A comment after the last item stays with it.
                let (comment, rest) = rest.split_at(rest_of_line(rest).unwrap_or(0));
                let member = member(Some(indent));
                format!("{before}{comma}{comment}{}{indent}{member}{closing_comma}{rest}", self.line_end)
            }
            None => format!("{before}{comma} {}{closing_comma}{rest}", member(None)),
        }
    }

    /// Formats a value over several lines, or on one without indentation. Lists of plain values are on one
    /// line.
    fn render(&self, value: &Value, indent: Option<&str>) -> String {
        let is_plain = |value: &Value| !value.is_object() && !value.is_array();
        match value {
            Value::Object(members) if !members.is_empty() => {
                let inner = indent.map(|indent| format!("{indent}{}", self.unit));
                let members: Vec<String> = members
                    .iter()
                    .map(|(key, value)| {
                        format!("{}: {}", Value::from(key.as_str()), self.render(value, inner.as_deref()))
                    })
                    .collect();
                match (indent, inner) {
                    (Some(indent), Some(inner)) => {
                        let separator = format!(",{}{inner}", self.line_end);
                        let line_end = self.line_end;
                        format!("{{{line_end}{inner}{}{line_end}{indent}}}", members.join(&separator))
                    }
                    _ => format!("{{{}}}", members.join(", ")),
                }
            }
            Value::Array(items) if items.iter().all(is_plain) => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                format!("[{}]", items.join(", "))
            }
            other => other.to_string(),
        }
    }
}

/// Returns the text without an item, including its line if it has one of its own.
pub(super) fn without(text: &str, node: &Container, place: usize) -> String {
    let item = &node.items[place];
    let next = node.items.get(place + 1);
    let mut start = item.start;
    let mut end = item.end;
    if let Some(comma) = node.commas.get(place) {
        end = comma + 1;
    }
    let mut kept = String::new();
    match (own_line(text, item.start), rest_of_line(&text[end..])) {
        (Some(indent), Some(rest)) if text[..item.start - indent.len()].ends_with('\n') => {
            start -= indent.len();
            end += rest;
            let line_end = text[end..].find('\n').map_or(0, |place| place + 1);
            end += line_end;
        }
        _ => {
            if let Some(next) = next {
                // A comment before the next item belongs to that.
                let gap = text[end..next.start].chars().take_while(|character| character.is_whitespace());
                end += gap.map(char::len_utf8).sum::<usize>();
            }
        }
    }
    let comma_before = place.checked_sub(1).and_then(|previous| node.commas.get(previous));
    if let (None, None, Some(&comma)) = (next, node.trailing_comma(), comma_before) {
        // It was the last item: the comma before it would become a trailing one.
        kept.push_str(&text[..comma]);
        let between = &text[comma + 1..start];
        kept.push_str(if between.trim().is_empty() && !between.contains('\n') { "" } else { between });
    } else {
        kept.push_str(&text[..start]);
    }
    kept.push_str(&text[end..]);
    kept
}

/// Returns the white space before a position, if nothing else precedes it on its line.
fn own_line(text: &str, place: usize) -> Option<&str> {
    let line = text[..place].rfind('\n')? + 1;
    let before = &text[line..place];
    before.chars().all(|character| character == ' ' || character == '\t').then_some(before)
}

/// Returns the white space at the beginning of a position's line.
fn indentation(text: &str, place: usize) -> &str {
    let line = text[..place].rfind('\n').map_or(0, |end| end + 1);
    let line = &text[line..place];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// Returns the length of the rest of a line without its end, if that is only white space and a comment.
fn rest_of_line(text: &str) -> Option<usize> {
    let line = text.split('\n').next().unwrap_or_default();
    let line = line.strip_suffix('\r').unwrap_or(line);
    let content = line.trim_start();
    let is_comment = content.starts_with("//")
        || content
            .strip_prefix("/*")
            .and_then(|comment| comment.split_once("*/"))
            .is_some_and(|(_, rest)| rest.trim().is_empty());
    (content.is_empty() && text.contains('\n') || is_comment).then_some(line.len())
}
