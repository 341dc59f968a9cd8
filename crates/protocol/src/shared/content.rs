//! Content blocks: what messages and prompts consist of.

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::json::writer::Writer;
use crate::macros::{object, open_enum, union};
use crate::schema::Schemas;
use crate::wire::Wire;
use crate::{Base64, ByteSize, Meta, Priority, Text};

union! {
    /// One block of content.
    ContentBlock by "type" {
        Text(TextContent<'a>) = "text",
        Image(Box<ImageContent<'a>>) = "image",
        Audio(Box<AudioContent<'a>>) = "audio",
        ResourceLink(Box<ResourceLink<'a>>) = "resource_link",
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
        required text: Text<'a> = "text",
        optional annotations: Box<Annotations<'a>> = "annotations",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A picture.
    ImageContent {
        required data: Base64<'a> = "data",
        required mime_type: Text<'a> = "mimeType",
        optional uri: Text<'a> = "uri",
        optional annotations: Box<Annotations<'a>> = "annotations",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Sound.
    AudioContent {
        required data: Base64<'a> = "data",
        required mime_type: Text<'a> = "mimeType",
        optional annotations: Box<Annotations<'a>> = "annotations",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A reference to something that the agent can read by itself.
    ResourceLink {
        required name: Text<'a> = "name",
        required uri: Text<'a> = "uri",
        optional title: Text<'a> = "title",
        optional description: Text<'a> = "description",
        optional icons: Vec<Icon<'a>> = "icons" @v2,
        optional mime_type: Text<'a> = "mimeType",
        optional size: ByteSize = "size",
        optional annotations: Box<Annotations<'a>> = "annotations",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A picture that stands for a resource.
    Icon {
        required src: Text<'a> = "src",
        optional mime_type: Text<'a> = "mimeType",
        /// Sizes as `48x48`, or `any`.
        optional sizes: Vec<Text<'a>> = "sizes",
        optional theme: IconTheme = "theme",
        optional meta: Meta<'a> = "_meta" @newest,
    }
}

open_enum! {
    /// The background that an icon is made for.
    IconTheme {
        Light = "light",
        Dark = "dark",
    }
}

object! {
    /// A resource with its contents.
    EmbeddedResource {
        required resource: EmbeddedResourceResource<'a> = "resource",
        optional annotations: Box<Annotations<'a>> = "annotations",
        optional meta: Meta<'a> = "_meta",
    }
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
        required text: Text<'a> = "text",
        required uri: Text<'a> = "uri",
        optional mime_type: Text<'a> = "mimeType",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// The bytes of a resource.
    BlobResourceContents {
        required blob: Base64<'a> = "blob",
        required uri: Text<'a> = "uri",
        optional mime_type: Text<'a> = "mimeType",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Hints on who content is for and how much it matters.
    Annotations {
        optional audience: Vec<Role> = "audience",
        optional last_modified: Text<'a> = "lastModified",
        optional priority: Priority<'a> = "priority",
        optional meta: Meta<'a> = "_meta",
    }
}

open_enum! {
    /// A side of the conversation.
    Role {
        User = "user",
        Assistant = "assistant",
    }
}
