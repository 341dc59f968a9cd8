//! Content blocks. Both versions share the type; version 1 knows no others, no icons, and two roles.

use switchboard_acp::v2::{Annotations, ContentBlock, ResourceLink, Role, TextContent};
use switchboard_acp::{Meta, Raw, Text, UnknownVariant, Wire, WireFormat, v2};

use crate::Error;
use crate::convert::{Conversion, meta};
use crate::loss::Severity;

/// A block as version 1 can say it.
pub(crate) fn to_v1<'a>(
    mut block: ContentBlock<'a>,
    cx: &mut Conversion<'_>,
) -> Result<ContentBlock<'a>, Error> {
    if let ContentBlock::ResourceLink(link) = &mut block {
        link_to_v1(link, cx)?;
    } else if let ContentBlock::Unknown(unknown) = &block {
        return stand_in(unknown, cx);
    }
    if let Some(annotations) = annotations_of(&mut block) {
        audience_to_v1(annotations, &mut cx.key("annotations"))?;
    }
    Ok(block)
}

/// A block as version 2 can say it.
pub(crate) fn to_v2<'a>(
    mut block: ContentBlock<'a>,
    cx: &mut Conversion<'_>,
) -> Result<ContentBlock<'a>, Error> {
    if let ContentBlock::ResourceLink(link) = &mut block
        && let Some(icons) = link.extra.remove("icons")
    {
        match Vec::<v2::Icon<'_>>::decode(icons.as_str(), WireFormat::Any) {
            Ok(icons) => link.icons = Some(icons.into_owned()),
            Err(_) => meta::add(&mut link.meta, &meta::Origin::V1.key("icons"), &icons),
        }
    }
    if let Some(annotations) = annotations_of(&mut block)
        && annotations.priority.as_ref().is_some_and(|priority| !(0.0..=1.0).contains(&priority.0.as_f64()))
    {
        let reason = "version 2 has priorities from 0 to 1 only";
        cx.key("annotations").key("priority").lose(Severity::Minor, reason)?;
        annotations.priority = None;
    }
    Ok(block)
}

fn annotations_of<'b, 'a>(block: &'b mut ContentBlock<'a>) -> Option<&'b mut Annotations<'a>> {
    match block {
        ContentBlock::Text(text) => text.annotations.as_deref_mut(),
        ContentBlock::Image(image) => image.annotations.as_deref_mut(),
        ContentBlock::Audio(audio) => audio.annotations.as_deref_mut(),
        ContentBlock::Resource(resource) => resource.annotations.as_deref_mut(),
        ContentBlock::ResourceLink(link) => link.annotations.as_deref_mut(),
        ContentBlock::Unknown(_) => None,
        ContentBlock::More(none) => none.never(),
    }
}

fn link_to_v1(link: &mut ResourceLink<'_>, cx: &mut Conversion<'_>) -> Result<(), Error> {
    if let Some(icons) = link.icons.take() {
        let reason = "version 1 has no icons of links; they go along as metadata";
        cx.key("icons").lose(Severity::Minor, reason)?;
        meta::add(&mut link.meta, meta::ICONS, &meta::raw(&icons));
    }
    let too_large = |size: u64| i64::try_from(size).is_err();
    if link.size.is_some_and(|size| size.get().is_some_and(too_large)) {
        cx.key("size").lose(Severity::Minor, "a size that version 1 cannot hold")?;
        link.size = None;
    }
    Ok(())
}

fn audience_to_v1(annotations: &mut Annotations<'_>, cx: &mut Conversion<'_>) -> Result<(), Error> {
    let is_unknown = |role: &Role| matches!(role, Role::Unknown(_));
    let Some(audience) = &mut annotations.audience else { return Ok(()) };
    if let Some(role) = audience.iter().find(|role| is_unknown(role)) {
        let reason = format!("version 1 knows no audience \"{role}\"");
        cx.key("audience").lose(Severity::Minor, reason)?;
        audience.retain(|role| !is_unknown(role));
    }
    Ok(())
}

/// Words in place of a block that version 1 does not know.
fn stand_in<'a>(unknown: &UnknownVariant<'a>, cx: &mut Conversion<'_>) -> Result<ContentBlock<'a>, Error> {
    let reason = format!("version 1 has no content of type \"{}\"; words stand in its place", unknown.tag);
    cx.lose(Severity::Major, reason)?;
    let mut text = TextContent::new(format!("[unsupported content: {}]", unknown.tag));
    meta::add(&mut text.meta, meta::CONTENT, &whole(unknown, "type"));
    Ok(ContentBlock::Text(text))
}

/// An unknown variant as the object that it came as.
pub(crate) fn whole(unknown: &UnknownVariant<'_>, tag_key: &str) -> Raw<'static> {
    let tag = (Text::Borrowed(tag_key), meta::text(&unknown.tag));
    let others = unknown.entries.iter().map(|(key, value)| (Text::Borrowed(key), value.borrowed()));
    Meta::from_entries([tag].into_iter().chain(others)).as_raw().clone().into_owned()
}

/// The text of a block that is nothing but text, so that it can be joined with others of its kind.
pub(crate) fn plain_text<'b>(block: &'b ContentBlock<'_>) -> Option<&'b str> {
    match block {
        ContentBlock::Text(TextContent { text, annotations: None, meta: None, extra, more: _ })
            if extra.is_empty() =>
        {
            Some(text)
        }
        _ => None,
    }
}
