//! Content blocks. Both versions share the type; version 1 has no unknown blocks, no icons, and only two
//! roles.

use switchboard_acp::v2::{Annotations, ContentBlock, ResourceLink, Role, TextContent};
use switchboard_acp::{Meta, Raw, Text, UnknownVariant, Wire, WireFormat, v2};

use crate::Error;
use crate::convert::{Conversion, meta};
use crate::loss::Severity;

/// Converts a block to version 1.
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

/// Converts a block to version 2.
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
        cx.key("annotations").key("priority").report_loss(Severity::Minor, reason)?;
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
        let reason = "version 1 has no icons of links; they are kept as metadata";
        cx.key("icons").report_loss(Severity::Minor, reason)?;
        meta::add(&mut link.meta, meta::ICONS, &meta::raw(&icons));
    }
    let too_large = |size: u64| i64::try_from(size).is_err();
    if link.size.is_some_and(|size| size.get().is_some_and(too_large)) {
        cx.key("size").report_loss(Severity::Minor, "the size is out of range in version 1")?;
        link.size = None;
    }
    Ok(())
}

fn audience_to_v1(annotations: &mut Annotations<'_>, cx: &mut Conversion<'_>) -> Result<(), Error> {
    let is_unknown = |role: &Role| matches!(role, Role::Unknown(_));
    let Some(audience) = &mut annotations.audience else { return Ok(()) };
    if let Some(role) = audience.iter().find(|role| is_unknown(role)) {
        let reason = format!("version 1 has no audience \"{role}\"");
        cx.key("audience").report_loss(Severity::Minor, reason)?;
        audience.retain(|role| !is_unknown(role));
    }
    Ok(())
}

/// Returns a text block in place of a block that version 1 does not have.
fn stand_in<'a>(unknown: &UnknownVariant<'a>, cx: &mut Conversion<'_>) -> Result<ContentBlock<'a>, Error> {
    let reason =
        format!("version 1 has no content of type \"{}\"; a text is shown in its place", unknown.tag);
    cx.report_loss(Severity::Major, reason)?;
    let mut text = TextContent::new(format!("[unsupported content: {}]", unknown.tag));
    meta::add(&mut text.meta, meta::CONTENT, &whole(unknown, "type"));
    Ok(ContentBlock::Text(text))
}

/// Returns an unknown variant as its original JSON object.
pub(crate) fn whole(unknown: &UnknownVariant<'_>, tag_key: &str) -> Raw<'static> {
    let tag = (Text::Borrowed(tag_key), meta::text(&unknown.tag));
    let others = unknown.entries.iter().map(|(key, value)| (Text::Borrowed(key), value.borrowed()));
    Meta::from_entries([tag].into_iter().chain(others)).as_raw().clone().into_owned()
}

/// Returns the text of a plain text block, which can be joined with adjacent ones.
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
