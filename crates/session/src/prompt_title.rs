//! Titles for sessions whose agent sets none.

use switchboard_acp::Raw;
use switchboard_acp::rpc::Message;

/// Maximum length of a title in characters.
const LENGTH: usize = 80;

/// Returns a title for the content blocks of a prompt: the first non-blank line of text, at most 80
/// characters. A prompt without text is named by its first block. `None` for a prompt without blocks.
///
/// ```
/// use switchboard_acp::Raw;
/// use switchboard_session::prompt_title;
///
/// let prompt = Raw::parse(r#"[{"type":"image","data":""},{"type":"text","text":"\n Fix it.\nSoon."}]"#)?;
/// assert_eq!(prompt_title(&prompt).as_deref(), Some("Fix it."));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn prompt_title(blocks: &Raw<'_>) -> Option<String> {
    let shortened = |line: &str| line.trim().chars().take(LENGTH).collect::<String>();
    let first_line = |text: String| text.lines().find(|line| !line.trim().is_empty()).map(shortened);
    if let Some(title) = blocks.items().find_map(|block| block.text("text").and_then(first_line)) {
        return Some(title);
    }
    let block = blocks.items().next()?;
    let name = ["title", "name"].iter().find_map(|key| block.text(key).and_then(first_line));
    name.or_else(|| Some(format!("[{}]", shortened(&block.text("type").unwrap_or_default()))))
}

/// Returns the session id and the title from a message: a prompt, or an update that repeats one.
pub fn prompt_title_in(message: &Message<'_>) -> Option<(String, String)> {
    let (params, title) = match message {
        Message::Request(request) if request.method == "session/prompt" => {
            let params = request.params.as_ref()?;
            (params, prompt_title(&params.get("prompt")?)?)
        }
        Message::Notification(notification) if notification.method == "session/update" => {
            let params = notification.params.as_ref()?;
            let update = params.get("update")?;
            let content = match update.text("sessionUpdate").as_deref() {
                Some("user_message") => update.get("content")?,
                Some("user_message_chunk") => Raw::array([update.get("content")?]),
                _ => return None,
            };
            (params, prompt_title(&content)?)
        }
        _ => return None,
    };
    Some((params.text("sessionId")?, title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_acp::WireFormat;

    #[test]
    fn a_title_is_the_first_line_of_text_or_the_name_of_what_is_attached() {
        let title = |blocks: &str| prompt_title(&Raw::parse(blocks.to_owned()).unwrap());
        for (blocks, expected) in [
            (r#"[{"type":"text","text":" \n\tone \ntwo"}]"#, Some("one")),
            (r#"[{"type":"text","text":" "},{"type":"text","text":"two"}]"#, Some("two")),
            (r#"[{"type":"resource_link","name":"a.txt","uri":"file:///a.txt"}]"#, Some("a.txt")),
            (r#"[{"type":"image","data":"","mimeType":"image/png"}]"#, Some("[image]")),
            (r#"[{"type":"text","text":" "}]"#, Some("[text]")),
            ("[]", None),
            ("{}", None),
            ("7", None),
        ] {
            assert_eq!(title(blocks).as_deref(), expected, "{blocks}");
        }
        let long = format!(r#"[{{"type":"text","text":"{}"}}]"#, "ä".repeat(200));
        assert_eq!(title(&long).unwrap().chars().count(), 80);
    }

    #[test]
    fn a_prompt_and_an_update_that_repeats_it_name_the_session() {
        let title = |line: &str| prompt_title_in(&Message::decode(line, WireFormat::Any).unwrap());
        let text = r#"{"type":"text","text":"Go"}"#;
        for line in [
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{{"sessionId":"s","prompt":[{text}]}}}}"#
            ),
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"user_message_chunk","content":{text}}}}}}}"#
            ),
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"user_message","messageId":"m","content":[{text}]}}}}}}"#
            ),
        ] {
            assert_eq!(title(&line), Some(("s".to_owned(), "Go".to_owned())), "{line}");
        }
        let other = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"No"}}}}"#;
        assert_eq!(title(other), None);
    }
}
