//! Content blocks: what messages and prompts consist of.

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::json::writer::Writer;
use crate::macros::{object, open_enum, union};
use crate::schema::Schemas;
use crate::wire::Wire;
use crate::{Base64, ByteSize, Priority, Text};

union! {
    /// One block of content.
    ContentBlock by "type" {
        /// Plain text or Markdown.
        Text(TextContent<'a>) = "text",
        /// A picture.
        Image(Box<ImageContent<'a>>) = "image",
        /// Sound.
        Audio(Box<AudioContent<'a>>) = "audio",
        /// A reference to something that the reader can fetch.
        ResourceLink(Box<ResourceLink<'a>>) = "resource_link",
        /// A resource with its contents.
        Resource(Box<EmbeddedResource<'a>>) = "resource",
    }
}

impl<'a> ContentBlock<'a> {
    /// A block of plain text or Markdown.
    pub fn text(text: impl Into<Text<'a>>) -> Self {
        ContentBlock::Text(TextContent::new(text))
    }

    /// The text, where this is a block of text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            ContentBlock::Text(text) => Some(&text.text),
            _ => None,
        }
    }
}

object! {
    /// Plain text or Markdown.
    TextContent {
        /// The text.
        required text: Text<'a> = "text",
        /// Hints on who it is for and how much it matters.
        optional annotations: Box<Annotations<'a>> = "annotations",
    } with optional _meta
}

object! {
    /// A picture.
    ImageContent {
        /// The picture's bytes.
        required data: Base64<'a> = "data",
        /// The picture's format, as a MIME type.
        required mime_type: Text<'a> = "mimeType",
        /// Where the picture comes from.
        optional uri: Text<'a> = "uri",
        /// Hints on who it is for and how much it matters.
        optional annotations: Box<Annotations<'a>> = "annotations",
    } with optional _meta
}

object! {
    /// Sound.
    AudioContent {
        /// The sound's bytes.
        required data: Base64<'a> = "data",
        /// The sound's format, as a MIME type.
        required mime_type: Text<'a> = "mimeType",
        /// Hints on who it is for and how much it matters.
        optional annotations: Box<Annotations<'a>> = "annotations",
    } with optional _meta
}

object! {
    /// A reference to something that the agent can read by itself.
    ResourceLink {
        /// The name that programs use.
        required name: Text<'a> = "name",
        /// Where the resource is.
        required uri: Text<'a> = "uri",
        /// The name that people read.
        optional title: Text<'a> = "title",
        /// What the resource is.
        optional description: Text<'a> = "description",
        /// Pictures to show beside its name.
        optional icons: Vec<Icon<'a>> = "icons" @v2,
        /// The resource's format, as a MIME type.
        optional mime_type: Text<'a> = "mimeType",
        /// How large the resource is, in bytes.
        optional size: ByteSize = "size",
        /// Hints on who it is for and how much it matters.
        optional annotations: Box<Annotations<'a>> = "annotations",
    } with optional _meta
}

object! {
    /// A picture that stands for a resource.
    Icon {
        /// Where the picture is; a `data:` address holds it whole.
        required src: Text<'a> = "src",
        /// The picture's format, as a MIME type.
        optional mime_type: Text<'a> = "mimeType",
        /// Sizes as `48x48`, or `any`.
        optional sizes: Vec<Text<'a>> = "sizes",
        /// The background that it is made for.
        optional theme: IconTheme = "theme",
    } with optional _meta @newest
}

open_enum! {
    /// The background that an icon is made for.
    IconTheme {
        /// A light background.
        Light = "light",
        /// A dark background.
        Dark = "dark",
    }
}

object! {
    /// A resource with its contents.
    EmbeddedResource {
        /// The contents.
        required resource: EmbeddedResourceResource<'a> = "resource",
        /// Hints on who it is for and how much it matters.
        optional annotations: Box<Annotations<'a>> = "annotations",
    } with optional _meta
}

/// The contents of an embedded resource. There is no tag: the key `text` or `blob` decides.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EmbeddedResourceResource<'a> {
    /// Text.
    Text(TextResourceContents<'a>),
    /// Bytes.
    Blob(BlobResourceContents<'a>),
}

impl<'a> Wire<'a> for EmbeddedResourceResource<'a> {
    type Owned = EmbeddedResourceResource<'static>;

    fn into_owned(self) -> EmbeddedResourceResource<'static> {
        match self {
            EmbeddedResourceResource::Text(text) => EmbeddedResourceResource::Text(text.into_owned()),
            EmbeddedResourceResource::Blob(blob) => EmbeddedResourceResource::Blob(blob.into_owned()),
        }
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let place = reader.place();
        reader.begin_object()?;
        let mut first = true;
        let mut blob = false;
        let mut text = false;
        while let Some(key) = reader.next_key(&mut first)? {
            text |= key == "text";
            blob |= key == "blob";
            reader.skip_value()?;
        }
        reader.rewind(place);
        if text {
            Wire::read(reader).map(EmbeddedResourceResource::Text)
        } else if blob {
            Wire::read(reader).map(EmbeddedResourceResource::Blob)
        } else {
            reader.fault(place.offset(), Problem::Expected("an object with \"text\" or \"blob\"".into()))
        }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            EmbeddedResourceResource::Text(text) => text.write(writer),
            EmbeddedResourceResource::Blob(blob) => blob.write(writer),
        }
    }

    fn schema(schemas: &mut Schemas) -> Value {
        schemas.define("EmbeddedResourceResource", |schemas| {
            let text = TextResourceContents::schema(schemas);
            let blob = BlobResourceContents::schema(schemas);
            json!({"description": "Contents as text or as bytes.", "anyOf": [text, blob]})
        })
    }
}

object! {
    /// The text of a resource.
    TextResourceContents {
        /// The text.
        required text: Text<'a> = "text",
        /// Where the resource comes from.
        required uri: Text<'a> = "uri",
        /// The text's format, as a MIME type.
        optional mime_type: Text<'a> = "mimeType",
    } with optional _meta
}

object! {
    /// The bytes of a resource.
    BlobResourceContents {
        /// The bytes.
        required blob: Base64<'a> = "blob",
        /// Where the resource comes from.
        required uri: Text<'a> = "uri",
        /// The format of the bytes, as a MIME type.
        optional mime_type: Text<'a> = "mimeType",
    } with optional _meta
}

object! {
    /// Hints on who content is for and how much it matters.
    Annotations {
        /// Who the content is for; everybody when missing.
        optional audience: Vec<Role> = "audience",
        /// When the content changed last, as in RFC 3339.
        optional last_modified: Text<'a> = "lastModified",
        /// How much the content matters, from 0 to 1.
        optional priority: Priority<'a> = "priority",
    } with optional _meta
}

open_enum! {
    /// A side of the conversation.
    Role {
        /// The person.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}
