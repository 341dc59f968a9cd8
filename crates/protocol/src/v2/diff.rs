//! Diffs: changed files with their operations and, if useful, Git patch text.

use serde_json::{Value, json};

use crate::error::{Problem, Read};
use crate::json::reader::Reader;
use crate::json::writer::Writer;
use crate::macros::{object, open_enum, union};
use crate::schema::{ObjectSchema, Presence, Schemas};
use crate::wire::{Body, Object, Wire, read_optional};
use crate::{AbsolutePath, Extra, Meta, Text, WireFormat};

object! {
    /// Changes to files. The list of changes is authoritative; the patch may cover only part of it.
    Diff {
        /// All changed paths.
        required changes: Vec<DiffChange<'a>> = "changes",
        /// Patch text for all or some of the changes.
        optional patch: DiffPatch<'a> = "patch",
    } with optional _meta
}

union! {
    /// One change to one path.
    DiffChange by "operation" {
        /// The path is new.
        Add(DiffPathChange<'a>) = "add",
        /// The path was deleted.
        Delete(DiffPathChange<'a>) = "delete",
        /// The path has other content or another mode.
        Modify(DiffPathChange<'a>) = "modify",
        /// The file was moved from the old path.
        Move(DiffPathPairChange<'a>) = "move",
        /// The file was copied from the old path, which still exists.
        Copy(DiffPathPairChange<'a>) = "copy",
    }
}

impl<'a> DiffChange<'a> {
    /// Returns the path after the change, or the deleted path. `None` for an unknown operation without one.
    pub fn path(&self) -> Option<Text<'_>> {
        match self {
            DiffChange::Add(change) | DiffChange::Delete(change) | DiffChange::Modify(change) => {
                Some(Text::Borrowed(change.path.as_str()))
            }
            DiffChange::Move(change) | DiffChange::Copy(change) => Some(Text::Borrowed(change.path.as_str())),
            DiffChange::Unknown(unknown) => unknown.text("path"),
            DiffChange::More(none) => none.never(),
        }
    }

    /// Returns the source path of a move or copy.
    pub fn old_path(&self) -> Option<&AbsolutePath<'a>> {
        match self {
            DiffChange::Move(change) | DiffChange::Copy(change) => Some(&change.old_path),
            _ => None,
        }
    }

    /// Returns the file type, if given.
    pub fn file_type(&self) -> Option<&DiffFileType> {
        match self {
            DiffChange::Add(change) | DiffChange::Delete(change) | DiffChange::Modify(change) => {
                change.file_type.as_ref()
            }
            DiffChange::Move(change) | DiffChange::Copy(change) => change.file_type.as_ref(),
            DiffChange::Unknown(_) => None,
            DiffChange::More(none) => none.never(),
        }
    }
}

object! {
    /// A change of one path.
    DiffPathChange {
        /// Path after the change. For a deleted file, its former path.
        required path: AbsolutePath<'a> = "path",
        /// File type. Missing if unknown.
        optional file_type: DiffFileType = "fileType",
        /// MIME type of the content. Missing if unknown.
        optional mime_type: Text<'a> = "mimeType",
    } with optional _meta
}

object! {
    /// A change with a source path.
    DiffPathPairChange {
        /// Source path of the move or copy.
        required old_path: AbsolutePath<'a> = "oldPath",
        /// Path after the change.
        required path: AbsolutePath<'a> = "path",
        /// File type. Missing if unknown.
        optional file_type: DiffFileType = "fileType",
        /// MIME type of the content. Missing if unknown.
        optional mime_type: Text<'a> = "mimeType",
    } with optional _meta
}

open_enum! {
    /// Type of a changed file.
    DiffFileType {
        /// Text.
        Text = "text",
        /// Not text.
        Binary = "binary",
        /// A directory.
        Directory = "directory",
        /// A symbolic link.
        Symlink = "symlink",
    }
}

open_enum! {
    /// Format of a patch's text.
    DiffPatchFormat {
        /// One or more `diff --git` sections with absolute paths.
        GitPatch = "git_patch",
    }
}

/// Patch text. Its key is `diff` in the `spec` dialect and `text` in the newest. For a reader of unknown
/// dialect it is written under both.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DiffPatch<'a> {
    /// Format of the text.
    pub format: DiffPatchFormat,
    /// The patch.
    pub text: Text<'a>,
    /// Metadata. Only in the newest dialect.
    pub meta: Option<Meta<'a>>,
    /// Unknown keys, kept unchanged. If a sender of unknown dialect sent two different texts, the unused one
    /// is here.
    pub extra: Extra<'a>,
}

impl<'a> DiffPatch<'a> {
    /// Creates a Git patch.
    pub fn git(text: impl Into<Text<'a>>) -> Self {
        DiffPatch { format: DiffPatchFormat::GitPatch, text: text.into(), meta: None, extra: Extra::new() }
    }
}

impl<'a> Object<'a> for DiffPatch<'a> {
    fn read_body(reader: &mut Reader<'a>, body: &mut Body) -> Read<Self> {
        let revision = reader.revision();
        let (mut format, mut text, mut diff, mut meta) = (None, None, None, None);
        let mut extra = Extra::new();
        let mut seen = 0;
        while let Some(key) = reader.next_key(&mut body.first)? {
            match &*key {
                "format" => {
                    body.once(reader, &mut seen, 0, "format")?;
                    format = Some(Wire::read(reader)?);
                }
                "text" if revision.has_newest() => {
                    body.once(reader, &mut seen, 1, "text")?;
                    text = Some(reader.read_string()?);
                }
                "diff" if revision != WireFormat::Newest => {
                    body.once(reader, &mut seen, 2, "diff")?;
                    diff = Some(reader.read_string()?);
                }
                "_meta" if revision.has_newest() => {
                    body.once(reader, &mut seen, 3, "_meta")?;
                    meta = read_optional(reader)?;
                }
                _ => body.unknown_key(reader, key, &mut extra)?,
            }
        }
        body.no_duplicates(reader, &extra)?;
        let Some(format) = format else {
            return reader.fault(body.start, Problem::Missing("format"));
        };
        let text = match (text, diff) {
            (Some(text), Some(diff)) => {
                if text != diff {
                    let rule = || "the same patch under \"text\" and \"diff\"; \"text\" is used".to_owned();
                    reader.remark(body.start, rule);
                    let mut kept = String::new();
                    Writer::new(&mut kept, revision).string(&diff);
                    extra.push(Text::Borrowed("diff"), crate::Raw::from_checked(kept));
                }
                text
            }
            (Some(text), None) | (None, Some(text)) => text,
            (None, None) => {
                let key = if revision == WireFormat::Spec { "diff" } else { "text" };
                return reader.fault(body.start, Problem::Missing(key));
            }
        };
        Ok(DiffPatch { format, text, meta, extra })
    }

    fn write_body(&self, writer: &mut Writer<'_>) {
        writer.key("format");
        self.format.write(writer);
        // A reader of a known dialect gets the text under its key. One of unknown dialect gets both keys,
        // with both texts if the sender sent two different ones.
        let own_key = match writer.revision() {
            WireFormat::Spec => Some("diff"),
            WireFormat::Newest => Some("text"),
            WireFormat::Any | WireFormat::V1 => None,
        };
        let written = |key: &str| own_key.is_none_or(|own| own == key);
        for key in ["text", "diff"] {
            if written(key) && (own_key.is_some() || self.extra.get(key).is_none()) {
                writer.key(key);
                writer.string(&self.text);
            }
        }
        if let Some(meta) = &self.meta {
            writer.key("_meta");
            meta.write(writer);
        }
        for (key, value) in self.extra.iter().filter(|(key, _)| own_key != Some(*key)) {
            writer.entry(key, value);
        }
    }
}

impl<'a> Wire<'a> for DiffPatch<'a> {
    type Owned = DiffPatch<'static>;

    fn into_owned(self) -> DiffPatch<'static> {
        DiffPatch {
            format: self.format,
            text: Wire::into_owned(self.text),
            meta: self.meta.map(Wire::into_owned),
            extra: self.extra.into_owned(),
        }
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let mut body = Body::open(reader)?;
        Object::read_body(reader, &mut body)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.begin_object();
        self.write_body(writer);
        writer.end_object();
    }

    fn schema(schemas: &mut Schemas) -> Value {
        schemas.define("DiffPatch", |schemas| {
            let revision = schemas.revision();
            let mut schema = ObjectSchema::new("Text that shows the changes.", revision);
            let format = DiffPatchFormat::schema(schemas);
            schema.field("format", Presence::Required, "How to read the text.", format);
            let (text, diff) = match revision {
                WireFormat::Spec => (None, Some(Presence::Required)),
                WireFormat::Newest => (Some(Presence::Required), None),
                WireFormat::Any | WireFormat::V1 => (Some(Presence::NotNull), Some(Presence::NotNull)),
            };
            for (key, presence) in [("text", text), ("diff", diff)] {
                if let Some(presence) = presence {
                    schema.field(key, presence, "The patch itself.", json!({"type": "string"}));
                }
            }
            if revision.has_newest() {
                let doc = "Metadata: keys of the sender's own, which the protocol does not define.";
                schema.field("_meta", Presence::Nullable, doc, Meta::schema(schemas));
            }
            let mut schema = schema.finish();
            if revision == WireFormat::Any {
                schema["anyOf"] = json!([{"required": ["text"]}, {"required": ["diff"]}]);
            }
            schema
        })
    }
}

crate::macros::serde_forms!(DiffPatch);
