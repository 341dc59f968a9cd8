//! Content other than plain text: images, audio, resources, and unknown kinds.

use maud::{Markup, html};
use switchboard_acp::{Base64, ByteSize, Wire, WireFormat, v2};

use super::markdown::is_safe_link;
use super::text::{cut, prose, size, visible, visible_line};
use super::{Part, RenderCache, icons, image, json, markdown};

/// Maximum number of bytes that are shown of a resource's text.
const RESOURCE_BYTES: usize = 256 << 10;
/// Maximum size of playable audio in bytes; larger audio is an attachment.
const LARGEST_SOUND: usize = 8 << 20;
/// Media types of audio that browsers play.
const SOUNDS: [&str; 10] = [
    "audio/aac",
    "audio/flac",
    "audio/mp4",
    "audio/mpeg",
    "audio/ogg",
    "audio/opus",
    "audio/wav",
    "audio/wave",
    "audio/webm",
    "audio/x-wav",
];

/// Renders a block as a part of its own.
pub(super) fn part(key: &str, block: &v2::ContentBlock<'static>, cache: &RenderCache) -> Part {
    cache.part(key, ("block", block), || html! { div.p.block data-part=(key) { (self::block(key, block)) } })
}

fn block(key: &str, block: &v2::ContentBlock<'_>) -> Markup {
    match block {
        v2::ContentBlock::Text(text) => html! { div.md { (markdown::whole(&text.text)) } },
        v2::ContentBlock::Image(image) => picture(&image.mime_type, &image.data, image.uri.as_deref()),
        v2::ContentBlock::Audio(audio) => sound(&audio.mime_type, &audio.data),
        v2::ContentBlock::ResourceLink(link) => resource_link(link),
        v2::ContentBlock::Resource(resource) => match &resource.resource {
            v2::EmbeddedResourceResource::Text(text) => {
                text_resource(key, &text.uri, text.mime_type.as_deref(), &text.text)
            }
            v2::EmbeddedResourceResource::Blob(blob) => {
                let mime_type = blob.mime_type.as_deref().unwrap_or("unknown type");
                if mime_type.starts_with("image/") {
                    picture(mime_type, &blob.blob, Some(&blob.uri))
                } else {
                    attachment(&blob.uri, mime_type, decoded_size(&blob.blob), None)
                }
            }
        },
        v2::ContentBlock::Unknown(unknown) => {
            self::unknown("content", &unknown.tag, &block.encode(WireFormat::Any))
        }
        v2::ContentBlock::More(none) => none.never(),
    }
}

/// Renders content of an unknown kind as JSON.
pub(super) fn unknown(what: &str, tag: &str, json: &str) -> Markup {
    html! {
        div.unknown {
            p.note { "Unknown " (what) ": " code { (visible_line(tag)) } }
            (json::block(json))
        }
    }
}

fn decoded_size(data: &Base64<'_>) -> usize {
    let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
    (data.len() / 4 * 3).saturating_sub(padding)
}

fn picture(mime_type: &str, data: &Base64<'_>, uri: Option<&str>) -> Markup {
    let size = decoded_size(data);
    let name = uri.unwrap_or("Image");
    match image::judge(mime_type, data) {
        Ok(image::Picture { mime_type, width, height }) => html! {
            figure.img {
                button.enlarge type="button" data-action="enlarge" aria-label="Enlarge the image" { img src={ "data:" (mime_type) ";base64," (data.as_str()) } alt="Image from the agent"
                    width=(width) height=(height) loading="lazy" decoding="async"; }
                @if let Some(uri) = uri {
                    figcaption { (visible_line(uri)) }
                }
            }
        },
        Err(reason) => attachment(name, mime_type, size, Some(reason)),
    }
}

fn sound(mime_type: &str, data: &Base64<'_>) -> Markup {
    let size = decoded_size(data);
    match SOUNDS.into_iter().find(|known| *known == mime_type) {
        Some(mime_type) if size <= LARGEST_SOUND => html! {
            audio controls preload="none" src={ "data:" (mime_type) ";base64," (data.as_str()) } {}
        },
        Some(_) => attachment("Sound", mime_type, size, Some("too large to play here")),
        None => attachment("Sound", mime_type, size, Some("not a kind of sound that is played here")),
    }
}

/// Renders the name of content that is not shown.
fn attachment(name: &str, mime_type: &str, bytes: usize, reason: Option<&str>) -> Markup {
    html! {
        p.file-chip {
            (icons::icon("attach")) " "
            span.path { (visible_line(name)) }
            " " span.dim { (visible_line(mime_type)) ", " (size(bytes)) }
            @if let Some(reason) = reason {
                " " span.dim { "(" (reason) ")" }
            }
        }
    }
}

fn resource_link(link: &v2::ResourceLink<'_>) -> Markup {
    let title = link.title.as_deref().unwrap_or(&link.name);
    html! {
        div.file-chip {
            (icons::icon("link")) " "
            @if is_safe_link(&link.uri) {
                a href=(link.uri) title=(switchboard_acp::display::visible_line(&link.uri))
                    rel="noopener noreferrer nofollow" target="_blank" { (visible_line(title)) }
            } @else {
                span.path { (visible_line(title)) }
            }
            " " span.dim.path { (visible_line(&link.uri)) }
            @if let Some(mime_type) = &link.mime_type {
                " " span.dim { (visible_line(mime_type)) }
            }
            @if let Some(bytes) = link.size.and_then(ByteSize::get) {
                " " span.dim { (size(usize::try_from(bytes).unwrap_or(usize::MAX))) }
            }
            @if let Some(description) = &link.description {
                p { (prose(description)) }
            }
        }
    }
}

fn text_resource(key: &str, uri: &str, mime_type: Option<&str>, text: &str) -> Markup {
    let shown = cut(text, RESOURCE_BYTES);
    html! {
        details.raw data-keep={ (key) "resource" } {
            summary {
                span.path { (visible_line(uri)) }
                " " span.dim { @if let Some(kind) = mime_type { (visible_line(kind)) ", " } (size(text.len())) }
            }
            pre { code { (visible(shown)) } }
            @if shown.len() < text.len() {
                p.note { "The first " (size(shown.len())) " are shown." }
            }
        }
    }
}
