//! Content blocks. Both versions share the type; version 1 knows no others, no icons, and two roles.

use switchboard_protocol::v2::{Annotations, ContentBlock, ResourceLink, Role, TextContent};
use switchboard_protocol::{Extra, Raw, Text, UnknownVariant};

use crate::Error;
use crate::convert::meta;
use crate::loss::{At, Notes, Severity};

/// A block as version 1 can say it.
pub(crate) fn to_v1<'a>(
    mut block: ContentBlock<'a>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<ContentBlock<'a>, Error> {
    let annotations = match &mut block {
        ContentBlock::Text(text) => &mut text.annotations,
        ContentBlock::Image(image) => &mut image.annotations,
        ContentBlock::Audio(audio) => &mut audio.annotations,
        ContentBlock::Resource(resource) => &mut resource.annotations,
        ContentBlock::ResourceLink(link) => {
            link_to_v1(link, at, notes)?;
            &mut link.annotations
        }
        ContentBlock::Unknown(unknown) => return stand_in(unknown, at, notes),
    };
    if let Some(annotations) = annotations {
        audience_to_v1(annotations, at, notes)?;
    }
    Ok(block)
}

fn link_to_v1(link: &mut ResourceLink<'_>, at: &At<'_>, notes: &mut Notes) -> Result<(), Error> {
    if let Some(icons) = link.icons.take() {
        notes.lose(
            Severity::Minor,
            &at.then("icons"),
            "version 1 has no icons of links; they go along as metadata",
        )?;
        link.meta = Some(meta::with_entry(link.meta.take(), meta::ICONS, &meta::raw(&icons)));
    }
    let too_large = |size: u64| i64::try_from(size).is_err();
    if link.size.is_some_and(|size| size.get().is_some_and(too_large)) {
        notes.lose(Severity::Minor, &at.then("size"), "a size that version 1 cannot hold")?;
        link.size = None;
    }
    Ok(())
}

fn audience_to_v1(annotations: &mut Annotations<'_>, at: &At<'_>, notes: &mut Notes) -> Result<(), Error> {
    let is_unknown = |role: &Role| matches!(role, Role::Unknown(_));
    let Some(audience) = &mut annotations.audience else { return Ok(()) };
    if let Some(role) = audience.iter().find(|role| is_unknown(role)) {
        let reason = format!("version 1 knows no audience \"{role}\"");
        notes.lose(Severity::Minor, &at.then("annotations.audience"), reason)?;
        audience.retain(|role| !is_unknown(role));
    }
    Ok(())
}

/// Words in place of a block that version 1 does not know.
fn stand_in<'a>(
    unknown: &UnknownVariant<'a>,
    at: &At<'_>,
    notes: &mut Notes,
) -> Result<ContentBlock<'a>, Error> {
    let reason = format!("version 1 has no content of type \"{}\"; words stand in its place", unknown.tag);
    notes.lose(Severity::Major, at, reason)?;
    let payload = whole(unknown, "type");
    let mut text = TextContent::new(format!("[unsupported content: {}]", unknown.tag));
    text.meta = Some(meta::with_entry(None, meta::CONTENT, &payload));
    Ok(ContentBlock::Text(text))
}

/// An unknown variant as the object that it came as.
pub(crate) fn whole(unknown: &UnknownVariant<'_>, tag_key: &str) -> Raw<'static> {
    let tag = (Text::Borrowed(tag_key), meta::text(&unknown.tag));
    let others = unknown.entries.iter().map(|(key, value)| (Text::Borrowed(key), value.borrowed()));
    switchboard_protocol::Meta::from_entries([tag].into_iter().chain(others)).as_raw().clone().into_owned()
}

/// The text of a block that is nothing but text, so that it can be joined with others of its kind.
pub(crate) fn plain_text<'b>(block: &'b ContentBlock<'_>) -> Option<&'b str> {
    match block {
        ContentBlock::Text(text)
            if text.annotations.is_none() && text.meta.is_none() && text.extra == Extra::new() =>
        {
            Some(&text.text)
        }
        _ => None,
    }
}
