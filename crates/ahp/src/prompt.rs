//! Prompts of clients as content of the Agent Client Protocol.

use ahp_types::state::{Message, MessageAttachment};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use switchboard_acp::Base64;
use switchboard_acp::v2::{self, ContentBlock};

use crate::wire::file_name;

/// Kinds of content that an agent accepts in prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Accepts {
    pub(crate) image: bool,
    pub(crate) audio: bool,
    pub(crate) embedded: bool,
}

/// Returns the content of a prompt. Fails if there is none.
pub(crate) fn content(message: &Message, accepts: Accepts) -> Result<Vec<ContentBlock<'static>>, String> {
    let mut blocks = Vec::new();
    if !message.text.is_empty() {
        blocks.push(ContentBlock::text(message.text.clone()));
    }
    for attachment in message.attachments.iter().flatten() {
        blocks.extend(block(attachment, &message.text, accepts));
    }
    if blocks.is_empty() { Err("the prompt is empty".to_owned()) } else { Ok(blocks) }
}

fn block(attachment: &MessageAttachment, prompt: &str, accepts: Accepts) -> Option<ContentBlock<'static>> {
    // The model sees the name where it cannot see the content.
    let named = |label: &str| Some(ContentBlock::text(format!("[attachment: {label}]")));
    match attachment {
        MessageAttachment::Simple(simple) => match &simple.model_representation {
            Some(text) => Some(ContentBlock::text(text.clone())),
            // A completion, which is part of the text.
            None if simple.range.is_some() || prompt.contains(&simple.label) => None,
            None => named(&simple.label),
        },
        MessageAttachment::Resource(resource) => {
            let name = if resource.label.is_empty() { file_name(&resource.uri) } else { &resource.label };
            Some(ContentBlock::ResourceLink(Box::new(v2::ResourceLink::new(
                name.to_owned(),
                resource.uri.clone(),
            ))))
        }
        MessageAttachment::EmbeddedResource(embedded) => {
            let kind = embedded.content_type.clone();
            let bytes = BASE64.decode(&embedded.data).ok();
            let Some(bytes) = bytes else { return named(&embedded.label) };
            let data = Base64::from_bytes(&bytes);
            let uri = format!("attachment:///{}", crate::wire::encoded(&embedded.label));
            if kind.starts_with("image/") && accepts.image {
                return Some(ContentBlock::Image(Box::new(v2::ImageContent::new(data, kind))));
            }
            if kind.starts_with("audio/") && accepts.audio {
                return Some(ContentBlock::Audio(Box::new(v2::AudioContent::new(data, kind))));
            }
            let text = String::from_utf8(bytes).ok();
            match (text, accepts.embedded) {
                (Some(text), true) => {
                    let contents = v2::TextResourceContents::new(text, uri).mime_type(kind);
                    let resource = v2::EmbeddedResource::new(v2::EmbeddedResourceResource::Text(contents));
                    Some(ContentBlock::Resource(Box::new(resource)))
                }
                (Some(text), false) => Some(ContentBlock::text(format!(
                    "{}:\n{}",
                    embedded.label,
                    crate::content::code_block("", &text)
                ))),
                (None, true) => {
                    let contents = v2::BlobResourceContents::new(data, uri).mime_type(kind);
                    let resource = v2::EmbeddedResource::new(v2::EmbeddedResourceResource::Blob(contents));
                    Some(ContentBlock::Resource(Box::new(resource)))
                }
                (None, false) => named(&embedded.label),
            }
        }
        MessageAttachment::Annotations(_) | MessageAttachment::Chat(_) => {
            named("of a kind that this host cannot read")
        }
        MessageAttachment::Unknown(value) => {
            named(value.get("label").and_then(Value::as_str).unwrap_or("of an unknown kind"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn blocks(attachments: &Value, accepts: Accepts) -> Vec<ContentBlock<'static>> {
        let message = json!({"text": "look", "origin": {"kind": "user"}, "attachments": attachments});
        content(&serde_json::from_value(message).unwrap(), accepts).unwrap()
    }

    #[test]
    fn attachments_become_what_the_agent_accepts() {
        let all = Accepts { image: true, audio: true, embedded: true };
        let attachments = json!([
            {"type": "simple", "label": "/review", "modelRepresentation": "review"},
            {"type": "resource", "label": "a.rs", "uri": "file:///w/a.rs"},
            {"type": "embeddedResource", "label": "pic", "data": "AAEC", "contentType": "image/png"},
            {"type": "embeddedResource", "label": "t", "data": "aGk=", "contentType": "text/plain"},
            {"type": "embeddedResource", "label": "broken", "data": "!", "contentType": "text/plain"},
            {"type": "later", "label": "new"},
        ]);
        let kinds = |blocks: Vec<ContentBlock<'_>>| {
            blocks.iter().map(ContentBlock::tag).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kinds(blocks(&attachments, all)), "text text resource_link image resource text text");
        assert_eq!(
            kinds(blocks(&attachments, Accepts::default())),
            "text text resource_link text text text text"
        );
    }

    #[test]
    fn an_empty_prompt_is_an_error() {
        let message = serde_json::from_value(json!({"text": "", "origin": {"kind": "user"}})).unwrap();
        assert!(content(&message, Accepts::default()).is_err());
    }
}
