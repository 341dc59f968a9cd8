//! The three macros that declare all wire types. Each generates the Rust type, its parser and writer, its
//! JSON Schema, and its owned form, so that these cannot diverge. Not serde: parsing is tolerant where a
//! declaration permits it and locates each error, and writing preserves everything that was read.

/// Declares an object with known keys. Other keys are kept in `extra`.
///
/// A field is `KIND name: Type = "key"`, where the kind is one of
/// - `required`: must be present;
/// - `strict_required`: the same, and a malformed list item makes the list malformed even in tolerant
///   reading;
/// - `optional`: may be missing, `null` means missing;
/// - `optional_whole`: the same, and a list with a malformed item is malformed as a whole;
/// - `strict_optional`: the same, but a malformed value is an error even in tolerant reading;
/// - `defaulted`, `strict_defaulted`: may be missing, but is never `null`;
/// - `patch`: three states.
///
/// `@newest`, `@v2` or `@unstable` after the key: other revisions do not have the key. Every field has a doc
/// comment, which is also in the JSON Schema. `with KIND _meta` after the fields: metadata.
macro_rules! object {
    (
        $(#[doc = $doc:expr])*
        $name:ident $(rules $rules:ident)? $(shape $shape:ident)? { $($fields:tt)* }
        with $kind:ident _meta $(@ $since:ident)?
    ) => {
        $crate::macros::object! {
            $(#[doc = $doc])*
            $name $(rules $rules)? $(shape $shape)? {
                $($fields)*
                /// Metadata: custom keys of the sender that the protocol does not define.
                $kind meta: $crate::Meta<'a> = "_meta" $(@ $since)?,
            }
        }
    };
    (
        $(#[doc = $doc:expr])*
        $name:ident $(rules $rules:ident)? $(shape $shape:ident)? {
            $( $(#[doc = $field_doc:expr])*
               $kind:ident $field:ident : $type:ty = $key:literal $(@ $since:ident)? ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[deny(missing_docs)]
        pub struct $name<'a> {
            $( $(#[doc = $field_doc])* pub $field: $crate::macros::field_type!($kind $type), )*
            /// Unknown keys, kept unchanged.
            pub extra: $crate::Extra<'a>,
            #[doc(hidden)]
            pub more: $crate::More,
        }

        impl<'a> $name<'a> {
            $crate::macros::constructor! { $name [] [] $( [$kind $field $type] )* }
            $( $crate::macros::setter! { $kind $field $type } )*
        }

        impl<'a> $crate::wire::Object<'a> for $name<'a> {
            fn read_body(
                reader: &mut $crate::json::reader::Reader<'a>,
                body: &mut $crate::wire::Body,
            ) -> $crate::error::Read<Self> {
                #[allow(non_camel_case_types)]
                #[derive(Clone, Copy)]
                enum Known { $($field),* }
                static KEYS: &[$crate::json::reader::KnownKey] =
                    &[$($crate::json::reader::KnownKey::new(concat!("\"", $key, "\":"))),*];
                const KNOWN: &[Known] = &[$(Known::$field),*];
                $( let mut $field: $crate::macros::slot_type!($kind $type) = Default::default(); )*
                let mut extra = $crate::Extra::new();
                #[allow(unused_mut, unused_variables)]
                let mut seen = 0u64;
                let mut expected = 0;
                while let Some(key) = body.next_known_key(reader, KEYS, &mut expected)? {
                    let index = match key {
                        $crate::json::reader::Key::Known(index) => index,
                        $crate::json::reader::Key::Other(key) => {
                            body.unknown_key(reader, key, &mut extra)?;
                            continue;
                        }
                    };
                    match KNOWN[index] {
                        $( Known::$field $(if $crate::macros::is_known!(reader, $since))? => {
                            body.once(reader, &mut seen, Known::$field as u32, $key)?;
                            $crate::wire::fill(&mut $field, $crate::macros::read_field!($kind reader));
                        } )*
                        // A key of other revisions.
                        #[allow(unreachable_patterns)]
                        _ => {
                            body.unknown_key(reader, KEYS[index].name().into(), &mut extra)?;
                        }
                    }
                }
                body.no_duplicates(reader, &extra)?;
                let value = $name {
                    $( $field: $crate::macros::take_slot!($kind $field reader body $key), )*
                    extra,
                    more: $crate::More,
                };
                $( $rules(&value, reader, body.start)?; )?
                Ok(value)
            }

            fn write_body(&self, writer: &mut $crate::json::writer::Writer<'_>) {
                $( $crate::macros::write_field!($kind self.$field, $key, writer); )*
                writer.extra(&self.extra);
            }
        }

        impl<'a> $crate::wire::Wire<'a> for $name<'a> {
            type Owned = $name<'static>;

            fn into_owned(self) -> $name<'static> {
                $name {
                    $( $field: $crate::macros::own_field!($kind self.$field), )*
                    extra: self.extra.into_owned(),
                    more: $crate::More,
                }
            }

            fn read(reader: &mut $crate::json::reader::Reader<'a>) -> $crate::error::Read<Self> {
                let mut body = $crate::wire::Body::open(reader)?;
                $crate::wire::Object::read_body(reader, &mut body)
            }

            fn write(&self, writer: &mut $crate::json::writer::Writer<'_>) {
                writer.begin_object();
                $crate::wire::Object::write_body(self, writer);
                writer.end_object();
            }

            fn schema(schemas: &mut $crate::schema::Schemas) -> serde_json::Value {
                schemas.define(stringify!($name), |schemas| {
                    #[allow(unused_mut)]
                    let mut schema =
                        $crate::schema::ObjectSchema::new(concat!($($doc, "\n"),*), schemas.revision());
                    $(
                        if $crate::macros::in_schema!(schemas $($since)?) {
                            let value = <$type as $crate::wire::Wire<'a>>::schema(schemas);
                            schema.field(
                                $key,
                                $crate::macros::presence!($kind),
                                concat!($($field_doc, "\n"),*),
                                value,
                            );
                        }
                    )*
                    #[allow(unused_mut)]
                    let mut schema = schema.finish();
                    $( $shape(&mut schema, schemas.revision()); )?
                    schema
                })
            }
        }

        $crate::macros::serde_forms!($name);
    };
}

/// Declares an object whose type depends on the value of one key. Unknown values are kept as a whole.
///
/// `in both_versions`: version 1 permits unknown variants too. `requires [...]`: keys that an unknown variant
/// must have, as strings; `with [...]`: with any value. `rules`: a check of the whole value. `implied
/// module`: the default of a missing tag. `untagged Variant(Type)`: the variant without a tag.
macro_rules! union {
    (
        $(#[doc = $doc:expr])*
        $name:ident by $tag:literal $(in $openness:ident)?
        $(requires [$($required:literal),*])?
        $(with [$($present:literal),*])?
        $(rules $rules:ident)?
        $(shape $shape:ident)?
        $(implied $implied:ident)?
        $(untagged $(#[doc = $bare_doc:expr])* $bare:ident($bare_type:ty))?
        {
            $( $(#[doc = $variant_doc:expr])*
               $variant:ident($type:ty) = $value:literal $(@ $since:ident)? ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[deny(missing_docs)]
        pub enum $name<'a> {
            $( $(#[doc = $variant_doc])* $variant($type), )*
            $( $(#[doc = $bare_doc])* $bare($bare_type), )?
            /// An unknown variant, kept unchanged.
            Unknown($crate::wire::UnknownVariant<'a>),
            #[doc(hidden)]
            More($crate::NoMore),
        }

        impl<'a> $name<'a> {
            /// Returns the value of the tag on the wire. Empty for a variant without one.
            pub fn tag(&self) -> &str {
                match self {
                    $( $name::$variant(_) => $value, )*
                    $( $name::$bare(_) => "", )?
                    $name::Unknown(unknown) => &unknown.tag,
                    $name::More(none) => none.never(),
                }
            }

            /// Returns the unknown variant, if it is one.
            pub fn as_unknown(&self) -> Option<&$crate::wire::UnknownVariant<'a>> {
                match self {
                    $name::Unknown(unknown) => Some(unknown),
                    _ => None,
                }
            }
        }

        impl<'a> $crate::wire::Object<'a> for $name<'a> {
            fn read_body(
                reader: &mut $crate::json::reader::Reader<'a>,
                body: &mut $crate::wire::Body,
            ) -> $crate::error::Read<Self> {
                let opening = reader.place();
                const TAG: &str = concat!("\"", $tag, "\":");
                if let Some(tag) = body.first_tag(reader, $tag, TAG)? {
                    return Self::read_variant(reader, body, tag, opening);
                }
                if let Some((mut guess, tag)) = body.guess_tag(reader, $tag, TAG) {
                    let noted = reader.tolerated_count();
                    match Self::read_variant(reader, &mut guess, tag, opening) {
                        Ok(value) => return Ok(value),
                        Err(_) => reader.forget_since(opening, noted),
                    }
                }
                let tag = body.find_tag(reader, $tag)?;
                $(
                    let tag = match tag {
                        Some(tag) => Some(tag),
                        None => $implied::find(reader, body)?.map(std::borrow::Cow::Borrowed),
                    };
                )?
                let Some(tag) = tag else {
                    $(
                        return <$bare_type as $crate::wire::Object<'a>>::read_body(reader, body).map($name::$bare);
                    )?
                    #[allow(unreachable_code)]
                    return body.missing_tag(reader, $tag);
                };
                Self::read_variant(reader, body, tag, opening)
            }

            fn write_body(&self, writer: &mut $crate::json::writer::Writer<'_>) {
                match self {
                    $( $name::$variant(value) => {
                        writer.prepared(concat!(",\"", $tag, "\":\"", $value, "\""));
                        $crate::wire::Object::write_body(value, writer);
                    } )*
                    $( $name::$bare(value) => $crate::wire::Object::write_body(value, writer), )?
                    $name::Unknown(unknown) => {
                        writer.key($tag);
                        writer.string(&unknown.tag);
                        writer.extra(&unknown.entries);
                    }
                    $name::More(none) => none.never(),
                }
            }
        }

        impl<'a> $name<'a> {
            /// Reads the variant of the tag.
            #[allow(unused_variables, unused_mut)]
            fn read_variant(
                reader: &mut $crate::json::reader::Reader<'a>,
                body: &mut $crate::wire::Body,
                tag: $crate::Text<'a>,
                opening: $crate::json::reader::ReaderPosition,
            ) -> $crate::error::Read<Self> {
                let start = body.start;
                let open = $crate::macros::is_open!(reader.revision(), $($openness)?);
                let value = match &*tag {
                    $( $value $(if $crate::macros::is_known!(reader, $since))? => {
                        $crate::wire::Object::read_body(reader, body).map($name::$variant)
                    } )*
                    $(
                        _ if !open => {
                            body.forget_tag(reader, opening);
                            <$bare_type as $crate::wire::Object<'a>>::read_body(reader, body).map($name::$bare)
                        }
                    )?
                    _ => {
                        let required: &[&'static str] = &[$($($required),*)?];
                        let present: &[&'static str] = &[$($($present),*)?];
                        if !open {
                            reader.broken_rule(start, format!("a variant of version 1, not \"{tag}\""))?;
                        }
                        $crate::wire::UnknownVariant::read_body(reader, body, tag, required, present)
                            .map($name::Unknown)
                    }
                }?;
                $( $rules(&value, reader, start)?; )?
                Ok(value)
            }
        }

        impl<'a> $crate::wire::Wire<'a> for $name<'a> {
            type Owned = $name<'static>;

            fn into_owned(self) -> $name<'static> {
                match self {
                    $( $name::$variant(value) => $name::$variant($crate::wire::Wire::into_owned(value)), )*
                    $( $name::$bare(value) => $name::$bare($crate::wire::Wire::into_owned(value)), )?
                    $name::Unknown(unknown) => $name::Unknown(unknown.into_owned()),
                    $name::More(none) => none.never(),
                }
            }

            fn read(reader: &mut $crate::json::reader::Reader<'a>) -> $crate::error::Read<Self> {
                let mut body = $crate::wire::Body::open(reader)?;
                $crate::wire::Object::read_body(reader, &mut body)
            }

            fn write(&self, writer: &mut $crate::json::writer::Writer<'_>) {
                writer.begin_object();
                $crate::wire::Object::write_body(self, writer);
                writer.end_object();
            }

            fn schema(schemas: &mut $crate::schema::Schemas) -> serde_json::Value {
                schemas.define(stringify!($name), |schemas| {
                    let mut schema = $crate::schema::UnionSchema::new($tag, concat!($($doc, "\n"),*));
                    $(
                        if $crate::macros::in_schema!(schemas $($since)?) {
                            let value = <$type as $crate::wire::Wire<'a>>::schema(schemas);
                            schema.variant($value, concat!($($variant_doc, "\n"),*), &value);
                        }
                    )*
                    $(
                        let bare = <$bare_type as $crate::wire::Wire<'a>>::schema(schemas);
                        schema.untagged(bare);
                    )?
                    $( schema.implied($implied::allowed(schemas.revision())); )?
                    let open = $crate::macros::is_open!(schemas.revision(), $($openness)?);
                    #[allow(unused_mut)]
                    let mut schema = schema.finish(open, &[$($($required),*)?], &[$($($present),*)?]);
                    $( $shape(&mut schema, schemas.revision()); )?
                    schema
                })
            }
        }

        $crate::macros::serde_forms!($name);
    };
}

/// Declares a string with known values. Others are kept, in version 2 only or `in both_versions`.
macro_rules! open_enum {
    (
        $(#[doc = $doc:expr])*
        $name:ident $(default $default:ident)? $(in $openness:ident)? {
            $( $(#[doc = $variant_doc:expr])* $variant:ident = $value:literal $(@ $since:ident)? ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[deny(missing_docs)]
        pub enum $name {
            $( $(#[doc = $variant_doc])* $variant, )*
            /// An unknown value, kept unchanged.
            Unknown(Box<str>),
            #[doc(hidden)]
            More($crate::NoMore),
        }

        impl $name {
            /// Returns the value on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $( $name::$variant => $value, )*
                    $name::Unknown(value) => value,
                    $name::More(none) => none.never(),
                }
            }

            /// Returns true for a custom value, which has a leading underscore.
            pub fn is_custom(&self) -> bool {
                matches!(self, $name::Unknown(value) if value.starts_with('_'))
            }

            /// Returns true for an unknown value that is reserved for a later version of the protocol.
            pub fn is_reserved(&self) -> bool {
                matches!(self, $name::Unknown(value) if !value.starts_with('_'))
            }
        }

        $(
            #[allow(clippy::derivable_impls)]
            impl Default for $name {
                fn default() -> Self {
                    $name::$default
                }
            }
        )?

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                match value {
                    $( $value => $name::$variant, )*
                    _ => $name::Unknown(value.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl<'a> $crate::wire::Wire<'a> for $name {
            type Owned = $name;

            fn into_owned(self) -> $name {
                self
            }

            fn read(reader: &mut $crate::json::reader::Reader<'a>) -> $crate::error::Read<Self> {
                let offset = reader.position();
                let text = reader.read_string()?;
                match &*text {
                    $( $value $(if $crate::macros::is_known!(reader, $since))? => Ok($name::$variant), )*
                    _ => {
                        let open = $crate::macros::is_open!(reader.revision(), $($openness)?);
                        $crate::values::check_unknown_value(reader, open, offset, &text)?;
                        Ok($name::from(&*text))
                    }
                }
            }

            fn write(&self, writer: &mut $crate::json::writer::Writer<'_>) {
                writer.string(self.as_str());
            }

            fn schema(schemas: &mut $crate::schema::Schemas) -> serde_json::Value {
                let open = $crate::macros::is_open!(schemas.revision(), $($openness)?);
                schemas.define(stringify!($name), |_schemas| {
                    let mut known = Vec::new();
                    $(
                        if $crate::macros::in_schema!(_schemas $($since)?) {
                            known.push(($value, concat!($($variant_doc, "\n"),*)));
                        }
                    )*
                    $crate::schema::enum_schema(open, concat!($($doc, "\n"),*), &known)
                })
            }
        }

        $crate::macros::serde_forms!(plain $name);
    };
}

macro_rules! field_type {
    (required $type:ty) => { $type };
    (strict_required $type:ty) => { $type };
    (patch $type:ty) => { $crate::Field<$type> };
    ($kind:ident $type:ty) => { Option<$type> };
}

macro_rules! slot_type {
    (patch $type:ty) => { $crate::Field<$type> };
    ($kind:ident $type:ty) => { Option<$type> };
}

macro_rules! read_field {
    (required $reader:ident) => {
        Some($crate::wire::Wire::read($reader)?)
    };
    (strict_required $reader:ident) => {
        Some($reader.keeping_all_items($crate::wire::Wire::read)?)
    };
    (optional $reader:ident) => {
        $crate::wire::read_optional($reader)?
    };
    (optional_whole $reader:ident) => {
        $crate::wire::read_optional_whole($reader)?
    };
    (strict_optional $reader:ident) => {
        $crate::wire::read_strict_optional($reader)?
    };
    (defaulted $reader:ident) => {
        $crate::wire::read_defaulted($reader)?
    };
    (strict_defaulted $reader:ident) => {
        $crate::wire::read_strict_defaulted($reader)?
    };
    (patch $reader:ident) => {
        $crate::wire::read_patch($reader)?
    };
}

macro_rules! take_slot {
    (required $field:ident $reader:ident $body:ident $key:literal) => {
        match $field {
            Some(value) => value,
            None => return $reader.fault($body.start, $crate::error::Problem::Missing($key)),
        }
    };
    (strict_required $field:ident $reader:ident $body:ident $key:literal) => {
        $crate::macros::take_slot!(required $field $reader $body $key)
    };
    ($kind:ident $field:ident $reader:ident $body:ident $key:literal) => { $field };
}

macro_rules! write_field {
    (required $value:expr, $key:literal, $writer:ident) => {
        $writer.prepared(concat!(",\"", $key, "\":"));
        $crate::wire::Wire::write(&$value, $writer);
    };
    (strict_required $value:expr, $key:literal, $writer:ident) => {
        $crate::macros::write_field!(required $value, $key, $writer);
    };
    (patch $value:expr, $key:literal, $writer:ident) => {
        match &$value {
            $crate::Field::Keep => {}
            $crate::Field::Clear => $writer.prepared(concat!(",\"", $key, "\":null")),
            $crate::Field::Set(value) => {
                $writer.prepared(concat!(",\"", $key, "\":"));
                $crate::wire::Wire::write(value, $writer);
            }
        }
    };
    ($kind:ident $value:expr, $key:literal, $writer:ident) => {
        if let Some(value) = &$value {
            $writer.prepared(concat!(",\"", $key, "\":"));
            $crate::wire::Wire::write(value, $writer);
        }
    };
}

macro_rules! own_field {
    (required $value:expr) => {
        $crate::wire::Wire::into_owned($value)
    };
    (strict_required $value:expr) => {
        $crate::wire::Wire::into_owned($value)
    };
    ($kind:ident $value:expr) => {
        $value.map($crate::wire::Wire::into_owned)
    };
}

macro_rules! presence {
    (required) => {
        $crate::schema::Presence::Required
    };
    (strict_required) => {
        $crate::schema::Presence::Required
    };
    (defaulted) => {
        $crate::schema::Presence::Defaulted
    };
    (strict_defaulted) => {
        $crate::schema::Presence::Defaulted
    };
    ($kind:ident) => {
        $crate::schema::Presence::Nullable
    };
}

macro_rules! is_known {
    ($reader:ident, newest) => {
        $reader.revision().has_newest()
    };
    ($reader:ident, v2) => {
        $reader.revision().has_v2()
    };
    ($reader:ident, unstable) => {
        $reader.revision().has_unstable()
    };
}

macro_rules! is_open {
    ($revision:expr, ) => {
        $revision.is_open()
    };
    ($revision:expr, both_versions) => {
        true
    };
}

macro_rules! in_schema {
    ($schemas:ident) => {
        true
    };
    ($schemas:ident newest) => {
        $schemas.revision().has_newest()
    };
    ($schemas:ident v2) => {
        $schemas.revision().has_v2()
    };
    ($schemas:ident unstable) => {
        $schemas.revision().has_unstable()
    };
}

/// Generates `new` with the required fields as arguments.
macro_rules! constructor {
    ($name:ident [$($argument:ident $type:ty,)*] [$($other:ident,)*]
     [required $field:ident $field_type:ty] $($rest:tt)*) => {
        $crate::macros::constructor! {
            $name [$($argument $type,)* $field $field_type,] [$($other,)*] $($rest)*
        }
    };
    ($name:ident [$($argument:ident $type:ty,)*] [$($other:ident,)*]
     [strict_required $field:ident $field_type:ty] $($rest:tt)*) => {
        $crate::macros::constructor! {
            $name [$($argument $type,)* $field $field_type,] [$($other,)*] $($rest)*
        }
    };
    ($name:ident [$($argument:ident $type:ty,)*] [$($other:ident,)*]
     [$kind:ident $field:ident $field_type:ty] $($rest:tt)*) => {
        $crate::macros::constructor! {
            $name [$($argument $type,)*] [$($other,)* $field,] $($rest)*
        }
    };
    ($name:ident [$($argument:ident $type:ty,)*] [$($other:ident,)*]) => {
        /// Creates a value with its required fields only.
        #[allow(clippy::new_without_default)]
        pub fn new($($argument: impl Into<$type>),*) -> Self {
            $name {
                $($argument: $argument.into(),)*
                $($other: Default::default(),)*
                extra: $crate::Extra::new(),
                more: $crate::More,
            }
        }
    };
}

/// Generates a setter for a field that `new` omits.
macro_rules! setter {
    (required $field:ident $type:ty) => {};
    (strict_required $field:ident $type:ty) => {};
    (patch $field:ident $type:ty) => {
        /// Sets the field of this name.
        #[must_use]
        pub fn $field(mut self, $field: impl Into<$type>) -> Self {
            self.$field = $crate::Field::Set($field.into());
            self
        }
    };
    ($kind:ident $field:ident $type:ty) => {
        /// Sets the field of this name.
        #[must_use]
        pub fn $field(mut self, $field: impl Into<$type>) -> Self {
            self.$field = Some($field.into());
            self
        }
    };
}

/// Generates serde's traits, for values inside other structs: strict, in the `spec` dialect.
macro_rules! serde_forms {
    (plain $name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text =
                    <std::borrow::Cow<'de, str> as serde::Deserialize<'de>>::deserialize(deserializer)?;
                Ok($name::from(&*text))
            }
        }
    };
    ($name:ident) => {
        impl serde::Serialize for $name<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::interop::serialize(self, serializer)
            }
        }

        impl<'de: 'a, 'a> serde::Deserialize<'de> for $name<'a> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::interop::deserialize(deserializer)
            }
        }
    };
}

pub(crate) use {
    constructor, field_type, in_schema, is_known, is_open, object, open_enum, own_field, presence,
    read_field, serde_forms, setter, slot_type, take_slot, union, write_field,
};
