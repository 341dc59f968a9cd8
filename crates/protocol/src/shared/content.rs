//! Content blocks of messages and prompts.

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
        /// An image.
        Image(Box<ImageContent<'a>>) = "image",
        /// Audio.
        Audio(Box<AudioContent<'a>>) = "audio",
        /// A reference to a resource that the reader can fetch.
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
        /// Hints about audience and importance.
        optional annotations: Box<Annotations<'a>> = "annotations",
    } with optional _meta
}

object! {
    /// An image.
    ImageContent {
        /// Bytes of the image.
        required data: Base64<'a> = "data",
        /// MIME type of the image.
        required mime_type: Text<'a> = "mimeType",
        /// Source URI of the image.
        optional uri: Text<'a> = "uri",
        /// Hints about audience and importance.
        optional annotations: Box<Annotations<'a>> = "annotations",
    } with optional _meta
}

object! {
    /// Audio.
    AudioContent {
        /// Bytes of the audio.
        required data: Base64<'a> = "data",
        /// MIME type of the audio.
        required mime_type: Text<'a> = "mimeType",
        /// Hints about audience and importance.
        optional annotations: Box<Annotations<'a>> = "annotations",
    } with optional _meta
}

object! {
    /// A reference to a resource that the agent can read itself.
    ResourceLink {
        /// Name for programs.
        required name: Text<'a> = "name",
        /// URI of the resource.
        required uri: Text<'a> = "uri",
        /// Name for display.
        optional title: Text<'a> = "title",
        /// Description of the resource.
        optional description: Text<'a> = "description",
        /// Icons to show next to its name.
        optional icons: Vec<Icon<'a>> = "icons" @v2,
        /// MIME type of the resource.
        optional mime_type: Text<'a> = "mimeType",
        /// Size of the resource in bytes.
        optional size: ByteSize = "size",
        /// Hints about audience and importance.
        optional annotations: Box<Annotations<'a>> = "annotations",
    } with optional _meta
}

object! {
    /// An icon of a resource.
    Icon {
        /// URI of the image. A `data:` URI contains the image.
        required src: Text<'a> = "src",
        /// MIME type of the image.
        optional mime_type: Text<'a> = "mimeType",
        /// Sizes as `48x48`, or `any`.
        optional sizes: Vec<Text<'a>> = "sizes",
        /// Background that it is designed for.
        optional theme: IconTheme = "theme",
    } with optional _meta @newest
}

open_enum! {
    /// Background that an icon is designed for.
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
        /// Hints about audience and importance.
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
        /// URI of the resource.
        required uri: Text<'a> = "uri",
        /// MIME type of the text.
        optional mime_type: Text<'a> = "mimeType",
    } with optional _meta
}

object! {
    /// The bytes of a resource.
    BlobResourceContents {
        /// The bytes.
        required blob: Base64<'a> = "blob",
        /// URI of the resource.
        required uri: Text<'a> = "uri",
        /// MIME type of the bytes.
        optional mime_type: Text<'a> = "mimeType",
    } with optional _meta
}

object! {
    /// Hints about audience and importance of content.
    Annotations {
        /// Intended audience. Without it, the content is for all roles.
        optional audience: Vec<Role> = "audience",
        /// Modification time of the content, as in RFC 3339.
        optional last_modified: Text<'a> = "lastModified",
        /// Importance of the content, from 0 to 1.
        optional priority: Priority<'a> = "priority",
    } with optional _meta
}

open_enum! {
    /// A role in the conversation.
    Role {
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}
