//! Values with a rule that their JSON type does not express.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Value, json};

use crate::error::{DecodeError, Problem, Read};
use crate::json::raw::first_duplicate;
use crate::json::reader::Reader;
use crate::json::writer::Writer;
use crate::schema::Schemas;
use crate::wire::{Wire, own};
use crate::{Raw, Text, WireFormat};

/// Checks an unknown enum value: an error in version 1, a remark if reserved.
#[cold]
pub(crate) fn check_unknown_value(
    reader: &mut Reader<'_>,
    open: bool,
    offset: usize,
    text: &str,
) -> Read<()> {
    if !open {
        return reader.broken_rule(offset, "a value of version 1");
    }
    if !text.starts_with('_') {
        reader.remark(offset, || {
            format!("a value that the protocol defines; \"{text}\" is reserved for later versions")
        });
    }
    Ok(())
}

/// Declares a string type with a rule. A violation is an error; with `kept`, it is noted but kept in tolerant
/// reading.
macro_rules! text_type {
    (
        $(#[doc = $doc:expr])*
        $name:ident $(kept $kept:tt)? rule($text:ident, $revision:pat) $rule:block schema($schema_revision:pat) $schema:block
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub struct $name<'a>(Text<'a>);

        impl<'a> $name<'a> {
            /// Creates a value from a text that satisfies the rule of this type.
            pub fn parse(text: impl Into<Text<'a>>) -> Result<Self, DecodeError> {
                let text = text.into();
                match Self::validate(&text, WireFormat::Any) {
                    None => Ok($name(text)),
                    Some(rule) => Err(DecodeError::rule(rule, &text)),
                }
            }

            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Returns the text, consuming the value.
            pub fn into_text(self) -> Text<'a> {
                self.0
            }

            /// Returns the expectation of this type if the text violates it.
            pub fn broken_rule(&self, revision: WireFormat) -> Option<&'static str> {
                Self::validate(&self.0, revision)
            }

            fn validate($text: &str, $revision: WireFormat) -> Option<&'static str> $rule
        }

        impl Deref for $name<'_> {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name<'_> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl<'a> TryFrom<&'a str> for $name<'a> {
            type Error = DecodeError;

            fn try_from(text: &'a str) -> Result<Self, DecodeError> {
                Self::parse(text)
            }
        }

        impl<'a> TryFrom<String> for $name<'a> {
            type Error = DecodeError;

            fn try_from(text: String) -> Result<Self, DecodeError> {
                Self::parse(text)
            }
        }

        impl<'a> TryFrom<Text<'a>> for $name<'a> {
            type Error = DecodeError;

            fn try_from(text: Text<'a>) -> Result<Self, DecodeError> {
                Self::parse(text)
            }
        }

        impl<'a> Wire<'a> for $name<'a> {
            type Owned = $name<'static>;

            fn into_owned(self) -> $name<'static> {
                $name(own(self.0))
            }

            fn read(reader: &mut Reader<'a>) -> Read<Self> {
                let offset = reader.position();
                let text = reader.read_string()?;
                match Self::validate(&text, reader.revision()) {
                    Some(rule) => text_type!(@fault $($kept)? reader offset rule)?,
                    None => {}
                }
                Ok($name(text))
            }

            fn write(&self, writer: &mut Writer<'_>) {
                writer.string(&self.0);
            }

            fn schema(schemas: &mut Schemas) -> Value {
                let $schema_revision = schemas.revision();
                $schema
            }
        }
    };
    (@fault yes $reader:ident $offset:ident $rule:ident) => { $reader.broken_rule($offset, $rule) };
    (@fault $reader:ident $offset:ident $rule:ident) => {
        $reader.fault::<()>($offset, Problem::Rule($rule.into()))
    };
}

text_type! {
    /// A path that is absolute on POSIX (`/w/a`) or on Windows (`C:\w\a`, `\\server\share`), with the same
    /// result on every host.
    ///
    /// In tolerant reading, a relative path of a peer is kept and reported, because omitting it would hide a
    /// file. So check [`AbsolutePath::broken_rule`] before accessing the disk. [`AbsolutePath::parse`]
    /// refuses relative paths.
    ///
    /// ```
    /// use switchboard_acp::AbsolutePath;
    ///
    /// assert!(AbsolutePath::parse("/w/a.txt").is_ok());
    /// assert!(AbsolutePath::parse(r"C:\w\a.txt").is_ok());
    /// assert_eq!(AbsolutePath::parse("x").unwrap_err().to_string(), r#"expected an absolute path, found the string "x""#);
    /// ```
    AbsolutePath kept yes
    rule(path, _) { (!is_absolute(path.as_bytes())).then_some("an absolute path") }
    schema(_) {
        json!({
            "type": "string",
            // From the root on POSIX; from a drive or a share on Windows. Without NUL bytes.
            "pattern": r"^(?:/|[A-Za-z]:[/\\]|\\\\[^/\\\u0000])[^\u0000]*$",
            "description": "An absolute path.",
        })
    }
}

impl<'a> AbsolutePath<'a> {
    /// Creates a path as a peer sent it, which may violate the rule, to forward it.
    pub fn as_sent(path: impl Into<Text<'a>>) -> Self {
        AbsolutePath(path.into())
    }

    /// Returns true if a path is absolute, on POSIX or Windows.
    pub fn is_absolute(path: impl AsRef<[u8]>) -> bool {
        is_absolute(path.as_ref())
    }
}

fn is_absolute(bytes: &[u8]) -> bool {
    let is_separator = |byte: &u8| matches!(byte, b'/' | b'\\');
    let drive = || {
        bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.get(1) == Some(&b':')
            && bytes.get(2).is_some_and(is_separator)
    };
    let share = || bytes.starts_with(b"\\\\") && bytes.get(2).is_some_and(|byte| !is_separator(byte));
    !bytes.contains(&0) && (bytes.starts_with(b"/") || drive() || share())
}

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

text_type! {
    /// Bytes in base64, standard alphabet, padded.
    Base64
    rule(text, _) { (!is_base64(text)).then_some("base64 (standard alphabet, padded)") }
    schema(_) {
        json!({
            "type": "string",
            "contentEncoding": "base64",
            // Repeat the class four times instead of {4}: only the former works for megabytes in JavaScript
            // engines.
            "pattern": concat!(
                "^(?:[A-Za-z0-9+/][A-Za-z0-9+/][A-Za-z0-9+/][A-Za-z0-9+/])*",
                "(?:[A-Za-z0-9+/][A-Za-z0-9+/]==|[A-Za-z0-9+/][A-Za-z0-9+/][A-Za-z0-9+/]=)?$",
            ),
        })
    }
}

fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let padding = bytes.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    bytes.len().is_multiple_of(4) && bytes[..bytes.len() - padding].iter().all(is_digit)
}

impl Base64<'_> {
    /// Encodes bytes.
    pub fn from_bytes(bytes: &[u8]) -> Base64<'static> {
        Base64(Cow::Owned(BASE64.encode(bytes)))
    }

    /// Decodes the bytes. Empty if the text is not base64, which a decoded value never is.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes
    }

    /// Appends the bytes to a buffer.
    pub fn append_to(&self, buffer: &mut Vec<u8>) {
        let length = buffer.len();
        if BASE64.decode_vec(&*self.0, buffer).is_err() {
            buffer.truncate(length);
        }
    }
}

text_type! {
    /// A text that is not empty.
    NonEmptyText
    rule(text, _) { text.is_empty().then_some("a text that is not empty") }
    schema(_) { json!({"type": "string", "minLength": 1}) }
}

text_type! {
    /// Unit of a cost: three capital letters in the `spec` dialect, any unit in the newest.
    Currency
    rule(text, revision) {
        let capitals = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase());
        (revision == WireFormat::Spec && !capitals).then_some("a currency of three capital letters")
    }
    schema(revision) {
        if revision == WireFormat::Spec {
            json!({"type": "string", "pattern": "^[A-Z]{3}$"})
        } else {
            json!({"type": "string"})
        }
    }
}

text_type! {
    /// The keyword `object`, which a form's schema must have.
    ObjectKeyword
    rule(text, _) { (text != "object").then_some("the string \"object\"") }
    schema(_) { json!({"const": "object"}) }
}

impl Default for ObjectKeyword<'_> {
    fn default() -> Self {
        ObjectKeyword(Cow::Borrowed("object"))
    }
}

/// A number with its original spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Number<'a>(Text<'a>);

impl<'a> Number<'a> {
    /// Parses the JSON form of a number.
    pub fn parse(text: impl Into<Text<'a>>) -> Result<Self, DecodeError> {
        let text = text.into();
        let mut reader = Reader::new(&text, WireFormat::Any);
        let outcome = reader.read_number("a number").and_then(|_| reader.finish());
        match outcome {
            Ok(()) => Ok(Number(text)),
            Err(fault) => Err(DecodeError::new(&fault, &text)),
        }
    }

    pub(crate) fn from_checked(text: &'a str) -> Self {
        Number(Cow::Borrowed(text))
    }

    /// Returns the spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the nearest floating-point number.
    pub fn as_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }
}

impl From<i64> for Number<'static> {
    fn from(number: i64) -> Self {
        Number(Cow::Owned(number.to_string()))
    }
}

impl TryFrom<f64> for Number<'static> {
    type Error = DecodeError;

    fn try_from(number: f64) -> Result<Self, DecodeError> {
        Number::parse(number.to_string())
    }
}

impl fmt::Display for Number<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<'a> Wire<'a> for Number<'a> {
    type Owned = Number<'static>;

    fn into_owned(self) -> Number<'static> {
        Number(own(self.0))
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Number(Cow::Borrowed(reader.read_number("a number")?)))
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.literal(&self.0);
    }

    fn schema(_: &mut Schemas) -> Value {
        json!({"type": "number"})
    }
}

/// A number from 0 to 1. Version 1 accepts any number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Priority<'a>(pub Number<'a>);

impl<'a> Wire<'a> for Priority<'a> {
    type Owned = Priority<'static>;

    fn into_owned(self) -> Priority<'static> {
        Priority(Wire::into_owned(self.0))
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let offset = reader.position();
        let number = Number::read(reader)?;
        if reader.revision().has_v2() && !(0.0..=1.0).contains(&number.as_f64()) {
            return reader.fault(offset, Problem::Rule("a number from 0 to 1".into()));
        }
        Ok(Priority(number))
    }

    fn write(&self, writer: &mut Writer<'_>) {
        self.0.write(writer);
    }

    fn schema(schemas: &mut Schemas) -> Value {
        if schemas.revision().has_v2() {
            json!({"type": "number", "minimum": 0, "maximum": 1})
        } else {
            json!({"type": "number"})
        }
    }
}

/// A line number, from 1. Some senders write 0 to mean none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LineNumber(u32);

impl LineNumber {
    /// Returns the line number, from 1.
    pub fn get(self) -> Option<u32> {
        (self.0 > 0).then_some(self.0)
    }
}

impl From<u32> for LineNumber {
    fn from(line: u32) -> Self {
        LineNumber(line)
    }
}

impl<'a> Wire<'a> for LineNumber {
    type Owned = LineNumber;

    fn into_owned(self) -> LineNumber {
        self
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let offset = reader.position();
        let line = u32::read(reader)?;
        if line == 0 && reader.revision() == WireFormat::Newest {
            return reader.fault(offset, Problem::Rule("a line number from 1".into()));
        }
        Ok(LineNumber(line))
    }

    fn write(&self, writer: &mut Writer<'_>) {
        // The newest dialect has no line 0, which a reader of unknown dialect may speak; `null` is equivalent
        // there.
        if self.0 == 0 && matches!(writer.revision(), WireFormat::Newest | WireFormat::Any) {
            writer.literal("null");
        } else {
            writer.display(self.0);
        }
    }

    fn schema(schemas: &mut Schemas) -> Value {
        let minimum = u8::from(schemas.revision() == WireFormat::Newest);
        json!({"type": "integer", "minimum": minimum, "maximum": u32::MAX})
    }
}

/// A size in bytes: signed in version 1 and the `spec` dialect, unsigned in the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteSize {
    negative: bool,
    magnitude: u64,
}

impl ByteSize {
    /// Returns the size if it is not negative.
    pub fn get(self) -> Option<u64> {
        (!self.negative).then_some(self.magnitude)
    }
}

impl From<u64> for ByteSize {
    fn from(size: u64) -> Self {
        ByteSize { negative: false, magnitude: size }
    }
}

impl<'a> Wire<'a> for ByteSize {
    type Owned = ByteSize;

    fn into_owned(self) -> ByteSize {
        self
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let place = reader.place();
        if reader.revision().has_newest()
            && let Ok(size) = u64::read(reader)
        {
            return Ok(size.into());
        }
        reader.rewind(place);
        let size = i64::read(reader)?;
        if reader.revision() == WireFormat::Newest {
            return reader.fault(place.offset(), Problem::Rule("an integer of 64 bits, not negative".into()));
        }
        Ok(ByteSize { negative: size < 0, magnitude: size.unsigned_abs() })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        match (self.negative, writer.revision()) {
            // The newest dialect has no negative size; `null` is equivalent there.
            (true, WireFormat::Newest) => writer.literal("null"),
            (true, _) => writer.display(format_args!("-{}", self.magnitude)),
            (false, _) => writer.display(self.magnitude),
        }
    }

    fn schema(schemas: &mut Schemas) -> Value {
        match schemas.revision() {
            WireFormat::Newest => json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}),
            WireFormat::Any => json!({"type": "integer", "minimum": i64::MIN, "maximum": u64::MAX}),
            WireFormat::V1 | WireFormat::Spec => {
                json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX})
            }
        }
    }
}

/// Metadata: an object with custom keys of the sender.
///
/// One word in size, because every value has it and it is usually absent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Meta<'a>(Box<Raw<'a>>);

impl<'a> Meta<'a> {
    /// Parses the JSON text of an object.
    pub fn parse(text: impl Into<Text<'a>>) -> Result<Self, DecodeError> {
        let raw = Raw::parse(text)?;
        if raw.is_object() {
            Ok(Meta(Box::new(raw)))
        } else {
            Err(DecodeError::whole_text("an object", "another value"))
        }
    }

    /// Returns the JSON text.
    pub fn as_raw(&self) -> &Raw<'a> {
        &self.0
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<Raw<'_>> {
        self.0.get(key)
    }

    /// Returns the keys and values in order.
    pub fn entries(&self) -> impl Iterator<Item = (Text<'_>, Raw<'_>)> {
        self.0.entries()
    }

    /// Creates an object with these entries.
    pub fn from_entries<'e>(entries: impl IntoIterator<Item = (Text<'e>, Raw<'e>)>) -> Meta<'static> {
        let mut text = String::new();
        let mut writer = Writer::new(&mut text, WireFormat::Any);
        writer.begin_object();
        for (key, value) in entries {
            writer.entry(&key, &value);
        }
        writer.end_object();
        Meta(Box::new(Raw::from_checked(text)))
    }
}

impl From<serde_json::Map<String, Value>> for Meta<'static> {
    fn from(map: serde_json::Map<String, Value>) -> Self {
        Meta(Box::new(Raw::from(Value::Object(map))))
    }
}

impl<'a> Wire<'a> for Meta<'a> {
    type Owned = Meta<'static>;

    fn into_owned(self) -> Meta<'static> {
        Meta(Box::new((*self.0).into_owned()))
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        if reader.peek() != Some(b'{') {
            return reader.expected("an object");
        }
        Ok(Meta(Box::new(reader.read_raw()?)))
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.raw(&self.0);
    }

    fn schema(_: &mut Schemas) -> Value {
        json!({"type": "object"})
    }
}

/// An object whose keys are data, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Map<'a, T>(Vec<(Text<'a>, T)>);

impl<'a, T> Map<'a, T> {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&T> {
        self.0.iter().find_map(|(name, value)| (name == key).then_some(value))
    }

    /// Returns the keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

impl<'a, T> Default for Map<'a, T> {
    fn default() -> Self {
        Map(Vec::new())
    }
}

impl<'a, T> FromIterator<(Text<'a>, T)> for Map<'a, T> {
    fn from_iter<I: IntoIterator<Item = (Text<'a>, T)>>(entries: I) -> Self {
        Map(entries.into_iter().collect())
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Map<'a, T> {
    type Owned = Map<'static, T::Owned>;

    fn into_owned(self) -> Self::Owned {
        self.0.into_iter().map(|(key, value)| (own(key), value.into_owned())).collect()
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let offset = reader.position();
        reader.begin_object()?;
        let mut first = true;
        let mut entries: Vec<(Text<'a>, T)> = Vec::new();
        while let Some(key) = reader.next_key(&mut first)? {
            entries.push((key, T::read(reader)?));
        }
        match first_duplicate(entries.iter().map(|(key, _)| &**key)) {
            Some(key) => reader.fault(offset, Problem::Duplicate(key.to_owned())),
            None => Ok(Map(entries)),
        }
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.begin_object();
        for (key, value) in &self.0 {
            writer.separate();
            writer.string(key);
            writer.literal(":");
            value.write(writer);
        }
        writer.end_object();
    }

    fn schema(schemas: &mut Schemas) -> Value {
        json!({"type": "object", "additionalProperties": T::schema(schemas)})
    }
}
