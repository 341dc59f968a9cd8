//! The trait of all wire types, and implementations for basic types.

use std::borrow::Cow;
use std::num::NonZeroU16;

use serde_json::{Value, json};

use crate::error::{DecodeError, Diagnostic, Problem, Read};
use crate::json::raw::{Extra, Raw};
use crate::json::reader::{Key, KnownKey, LastMember, NextKey, Reader};
use crate::json::writer::Writer;
use crate::schema::Schemas;
use crate::{Text, WireFormat};

/// A protocol value: decodes itself from JSON text, borrowing from it, and encodes itself.
///
/// ```
/// use switchboard_acp::{WireFormat, Wire, v2};
///
/// let text = r#"{"sessionUpdate":"tool_call_update","toolCallId":"c-7","status":null}"#;
/// let update = v2::SessionUpdate::decode(text, WireFormat::Spec)?;
/// assert_eq!(update.encode(WireFormat::Spec), text);
/// # Ok::<(), switchboard_acp::DecodeError>(())
/// ```
pub trait Wire<'a>: Sized {
    /// The owned form of the type.
    type Owned: 'static;

    /// Decodes strictly: fails at the first error.
    fn decode(text: &'a str, revision: WireFormat) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(text, revision);
        read_whole(&mut reader)
    }

    /// Decodes tolerantly: malformed optional fields and array items are omitted and reported. A list without
    /// any readable item is omitted as a whole, never emptied, since an empty list means "clear". Fails if a
    /// required value is missing or malformed.
    fn decode_tolerant(text: &'a str, revision: WireFormat) -> Result<(Self, Vec<Diagnostic>), DecodeError> {
        let mut reader = Reader::new(text, revision).tolerant();
        let value = read_whole(&mut reader)?;
        let diagnostics = reader.take_tolerated().locate(text);
        Ok((value, diagnostics))
    }

    /// Returns the JSON text of this value, on one line.
    ///
    /// The revision selects the form where the dialects differ. Features that the reader's dialect lacks are
    /// not omitted: they are unknown keys for the reader, which it must skip.
    fn encode(&self, revision: WireFormat) -> String {
        let mut out = String::new();
        self.encode_into(&mut out, revision);
        out
    }

    /// Appends the JSON text of this value.
    fn encode_into(&self, out: &mut String, revision: WireFormat) {
        self.write(&mut Writer::new(out, revision));
    }

    /// Converts the value to an owned one.
    fn into_owned(self) -> Self::Owned;

    #[doc(hidden)]
    fn read(reader: &mut Reader<'a>) -> Read<Self>;

    #[doc(hidden)]
    fn write(&self, writer: &mut Writer<'_>);

    #[doc(hidden)]
    fn schema(schemas: &mut Schemas) -> Value;
}

/// Reads a value that must be the whole text.
pub(crate) fn read_whole<'a, T: Wire<'a>>(reader: &mut Reader<'a>) -> Result<T, DecodeError> {
    let outcome = T::read(reader).and_then(|value| reader.finish().map(|()| value));
    outcome.map_err(|fault| DecodeError::new(&fault, reader.text()))
}

/// A wire type whose JSON is an object, so that a union can add its tag to the keys.
pub trait Object<'a>: Wire<'a> {
    #[doc(hidden)]
    fn read_body(reader: &mut Reader<'a>, body: &mut Body) -> Read<Self>;

    #[doc(hidden)]
    fn write_body(&self, writer: &mut Writer<'_>);
}

/// An object being read, with the tags of its unions.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Body {
    pub(crate) start: usize,
    pub(crate) first: bool,
    tags: [Option<Tag>; 2],
    /// A guessed tag that was not confirmed yet.
    guess: Option<Guess>,
}

#[derive(Debug, Clone, Copy)]
struct Tag {
    name: &'static str,
    seen: bool,
}

/// A member of an object that is guessed to be its tag.
#[derive(Debug, Clone, Copy)]
struct Guess {
    /// Index of the tag.
    tag: usize,
    member: LastMember,
}

impl Body {
    #[inline]
    pub(crate) fn open(reader: &mut Reader<'_>) -> Read<Self> {
        let start = reader.position();
        reader.begin_object()?;
        Ok(Body { start, first: true, tags: [None; 2], guess: None })
    }

    /// Returns the next key, with the position at its value. `None` after the closing brace.
    #[inline(always)]
    pub(crate) fn next_known_key<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        keys: &'static [KnownKey],
        expected: &mut usize,
    ) -> Read<Option<Key<'a>>> {
        if self.guess.is_some() {
            self.pass_guess(reader);
        }
        match reader.expect_key(self.first, keys, *expected) {
            NextKey::Known(index) => {
                self.first = false;
                *expected = index + 1;
                Ok(Some(Key::Known(index)))
            }
            NextKey::End => Ok(None),
            NextKey::Unclear => reader.find_key(&mut self.first, keys, expected),
        }
    }

    /// Skips the guessed tag if it is next: a member of the object starts here, so the guess is right.
    fn pass_guess(&mut self, reader: &mut Reader<'_>) {
        if let Some(Guess { tag, member }) = self.guess
            && reader.pass_member(member)
        {
            self.guess = None;
            self.mark_seen(tag);
        }
    }

    /// Returns the union's tag if it is the first key. `quoted` is that key in quotes, with a colon.
    #[inline]
    pub(crate) fn first_tag<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        name: &'static str,
        quoted: &'static str,
    ) -> Read<Option<Text<'a>>> {
        if !self.first || !reader.take_text(quoted) {
            return Ok(None);
        }
        self.first = false;
        reader.skip_whitespace();
        let tag = reader.read_string()?;
        self.add_tag(Tag { name, seen: true });
        Ok(Some(tag))
    }

    /// Guesses the tag. Many agents write it last. If the last member of the whole text looks like it, the
    /// object is read accordingly, without a first pass to find it; the guess is verified when the tag is
    /// reached.
    pub(crate) fn guess_tag<'a>(
        &self,
        reader: &Reader<'a>,
        name: &'static str,
        quoted: &'static str,
    ) -> Option<(Body, Text<'a>)> {
        let member = reader.last_member(quoted)?;
        let mut body = self.clone();
        let tag = body.add_tag(Tag { name, seen: false });
        body.guess = Some(Guess { tag, member });
        Some((body, Text::Borrowed(reader.text_of(member))))
    }

    /// Returns the union's tag. If it is the first key, reading continues after it. Otherwise the preceding
    /// keys are skipped once to find it, and then read.
    #[inline]
    pub(crate) fn find_tag<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        name: &'static str,
    ) -> Read<Option<Text<'a>>> {
        let place = reader.place();
        let first = self.first;
        let mut passed = false;
        while let Some(key) = reader.next_key(&mut self.first)? {
            if key == name {
                let tag = reader.read_string()?;
                self.add_tag(Tag { name, seen: !passed });
                if passed {
                    reader.rewind(place);
                    self.first = first;
                }
                return Ok(Some(tag));
            }
            passed = true;
            reader.pass_over()?;
        }
        reader.rewind(place);
        self.first = first;
        Ok(None)
    }

    /// Reports a missing tag, or invalid JSON, which takes precedence.
    #[cold]
    pub(crate) fn missing_tag<T>(&mut self, reader: &mut Reader<'_>, name: &'static str) -> Read<T> {
        while reader.next_key(&mut self.first)?.is_some() {
            reader.skip_value()?;
        }
        reader.fault(self.start, Problem::Missing(name))
    }

    fn add_tag(&mut self, tag: Tag) -> usize {
        let free = usize::from(self.tags[0].is_some());
        self.tags[free] = Some(tag);
        free
    }

    fn mark_seen(&mut self, tag: usize) {
        if let Some(tag) = &mut self.tags[tag] {
            tag.seen = true;
        }
    }

    /// Treats the tag like any other key again, from the start of the object.
    pub(crate) fn forget_tag(
        &mut self,
        reader: &mut Reader<'_>,
        opening: crate::json::reader::ReaderPosition,
    ) {
        reader.rewind(opening);
        self.tags = [None; 2];
        self.guess = None;
        self.first = true;
    }

    /// Keeps an unknown key.
    #[cold]
    pub(crate) fn unknown_key<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        key: Text<'a>,
        extra: &mut Extra<'a>,
    ) -> Read<()> {
        let offset = reader.position();
        let is_it = |tag: &Option<Tag>| tag.is_some_and(|tag| tag.name == key);
        if let Some(index) = self.tags.iter().position(is_it) {
            if self.tags[index].is_some_and(|tag| tag.seen) {
                return reader.fault(offset, Problem::Duplicate(key.into_owned()));
            }
            self.mark_seen(index);
            return match self.guess.take_if(|guess| guess.tag == index) {
                Some(guess) if reader.read_string()? == reader.text_of(guess.member) => Ok(()),
                Some(_) => wrong_guess(reader),
                None => reader.skip_value(),
            };
        }
        reader.remark(offset, || format!("only keys of the protocol beside \"_meta\", not \"{key}\""));
        let value = reader.read_raw()?;
        extra.push(key, value);
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn no_duplicates(&self, reader: &Reader<'_>, extra: &Extra<'_>) -> Read<()> {
        if self.guess.is_some() {
            return wrong_guess(reader);
        }
        match extra.duplicate() {
            Some(key) => reader.fault(self.start, Problem::Duplicate(key.to_owned())),
            None => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn once(&self, reader: &Reader<'_>, seen: &mut u64, bit: u32, key: &'static str) -> Read<()> {
        if *seen & (1 << bit) != 0 {
            return reader.fault(reader.position(), Problem::Duplicate(key.to_owned()));
        }
        *seen |= 1 << bit;
        Ok(())
    }
}

/// Creates an error that is never shown, because the object is read again.
#[cold]
fn wrong_guess<T>(reader: &Reader<'_>) -> Read<T> {
    reader.expected("another tag")
}

/// An unknown union variant: its tag and all other keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnknownVariant<'a> {
    /// Value of the union's tag.
    pub tag: Text<'a>,
    /// All other keys, in order.
    pub entries: Extra<'a>,
}

impl<'a> UnknownVariant<'a> {
    /// Returns true for a custom variant, which has a leading underscore.
    pub fn is_custom(&self) -> bool {
        self.tag.starts_with('_')
    }

    /// Returns true if the value is reserved for a later version of the protocol.
    pub fn is_reserved(&self) -> bool {
        !self.is_custom()
    }

    /// Returns the string under a key.
    pub fn text(&self, key: &str) -> Option<Text<'_>> {
        self.entries.get(key)?.as_text()
    }

    pub(crate) fn read_body(
        reader: &mut Reader<'a>,
        body: &mut Body,
        tag: Text<'a>,
        required: &[&'static str],
        present: &[&'static str],
    ) -> Read<Self> {
        if reader.revision().is_open() && !tag.starts_with('_') {
            reader.remark(body.start, || {
                format!("a value that the protocol defines; \"{tag}\" is reserved for later versions")
            });
        }
        let mut entries = Extra::new();
        // Keys of an unknown variant cannot be checked, so there are no remarks about them.
        while let Some(key) = reader.next_key(&mut body.first)? {
            let known_tag = body.tags.iter().flatten().any(|known| known.name == key);
            if known_tag {
                body.unknown_key(reader, key, &mut entries)?;
                continue;
            }
            if required.contains(&&*key) && reader.peek() != Some(b'"') {
                return reader.expected("a string");
            }
            let value = reader.read_raw()?;
            entries.push(key, value);
        }
        body.no_duplicates(reader, &entries)?;
        for key in required.iter().chain(present) {
            if entries.get(key).is_none() {
                return reader.fault(body.start, Problem::Missing(key));
            }
        }
        Ok(UnknownVariant { tag, entries })
    }

    /// Converts the variant to an owned one.
    pub fn into_owned(self) -> UnknownVariant<'static> {
        UnknownVariant { tag: own(self.tag), entries: self.entries.into_owned() }
    }
}

pub(crate) fn own(text: Text<'_>) -> Text<'static> {
    Cow::Owned(text.into_owned())
}

/// Returns true if the array starts with an object that has a key. Keeps the position.
pub(crate) fn first_item_has_key(reader: &mut Reader<'_>, wanted: &str) -> Read<bool> {
    let place = reader.place();
    reader.begin_array()?;
    let mut found = false;
    if reader.next_item(true)? && reader.peek() == Some(b'{') {
        reader.begin_object()?;
        let mut first = true;
        while let Some(key) = reader.next_key(&mut first)? {
            found |= key == wanted;
            reader.skip_value()?;
        }
    }
    reader.rewind(place);
    Ok(found)
}

// ----- reading of object fields

/// Puts a value into an empty slot, as ensured by [`Body::once`].
// Nothing needs to be dropped, and the value needs no temporary storage.
#[inline(always)]
pub(crate) fn fill<T>(slot: &mut T, value: T) {
    std::mem::forget(std::mem::replace(slot, value));
}

/// Reads a value. `null` is equivalent to a missing key.
#[inline]
pub(crate) fn read_optional<'a, T: Wire<'a>>(reader: &mut Reader<'a>) -> Read<Option<T>> {
    if reader.take_null()? { Ok(None) } else { reader.leave_out(T::read) }
}

/// Like [`read_optional`], but a list with a malformed item is omitted as a whole.
pub(crate) fn read_optional_whole<'a, T: Wire<'a>>(reader: &mut Reader<'a>) -> Read<Option<T>> {
    if reader.take_null()? {
        return Ok(None);
    }
    reader.leave_out(|reader| reader.keeping_all_items(T::read))
}

/// Like [`read_optional`], but a malformed value is an error in tolerant reading too.
pub(crate) fn read_strict_optional<'a, T: Wire<'a>>(reader: &mut Reader<'a>) -> Read<Option<T>> {
    if reader.take_null()? { Ok(None) } else { reader.keeping_all_items(T::read).map(Some) }
}

/// Reads a value that may be missing, but not `null`.
pub(crate) fn read_defaulted<'a, T: Wire<'a>>(reader: &mut Reader<'a>) -> Read<Option<T>> {
    if reader.revision() == WireFormat::Any && reader.take_null()? {
        return Ok(None);
    }
    reader.leave_out(T::read)
}

/// Like [`read_defaulted`], but in tolerant reading only `null` is accepted, no other malformed value.
pub(crate) fn read_strict_defaulted<'a, T: Wire<'a>>(reader: &mut Reader<'a>) -> Read<Option<T>> {
    let forgiving = reader.is_tolerant() || reader.revision() == WireFormat::Any;
    if forgiving && reader.take_null()? {
        return Ok(None);
    }
    reader.keeping_all_items(T::read).map(Some)
}

#[inline]
pub(crate) fn read_patch<'a, T: Wire<'a>>(reader: &mut Reader<'a>) -> Read<crate::Field<T>> {
    use crate::Field;
    if reader.take_null()? {
        return Ok(Field::Clear);
    }
    Ok(match reader.leave_out(T::read)? {
        Some(value) => Field::Set(value),
        None => Field::Keep,
    })
}

// ----- basic types

impl<'a> Wire<'a> for Text<'a> {
    type Owned = Text<'static>;

    fn into_owned(self) -> Text<'static> {
        own(self)
    }

    #[inline]
    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        reader.read_string()
    }

    #[inline]
    fn write(&self, writer: &mut Writer<'_>) {
        writer.string(self);
    }

    fn schema(_: &mut Schemas) -> Value {
        json!({"type": "string"})
    }
}

impl<'a> Wire<'a> for bool {
    type Owned = bool;

    fn into_owned(self) -> bool {
        self
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        reader.read_boolean()
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.literal(if *self { "true" } else { "false" });
    }

    fn schema(_: &mut Schemas) -> Value {
        json!({"type": "boolean"})
    }
}

impl<'a> Wire<'a> for Raw<'a> {
    type Owned = Raw<'static>;

    fn into_owned(self) -> Raw<'static> {
        Raw::into_owned(self)
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        reader.read_raw()
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.raw(self);
    }

    fn schema(_: &mut Schemas) -> Value {
        crate::schema::anything()
    }
}

/// Integers of a machine type. `1.0` and `1e3` are integers in JSON Schema, so they are accepted.
macro_rules! integer {
    ($($type:ty: $what:literal, $minimum:expr, $maximum:expr;)*) => {$(
        impl<'a> Wire<'a> for $type {
            type Owned = $type;

            fn into_owned(self) -> $type {
                self
            }

            fn read(reader: &mut Reader<'a>) -> Read<Self> {
                let offset = reader.position();
                let spelled = reader.read_number($what)?;
                let integer = spelled.parse::<$type>().ok().or_else(|| {
                    let number = spelled.parse::<f64>().ok()?;
                    let exact = number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
                    exact.then(|| (number as i64).to_string().parse().ok())?
                });
                match integer {
                    Some(integer) => Ok(integer),
                    None => reader.fault(offset, Problem::Expected($what.into())),
                }
            }

            fn write(&self, writer: &mut Writer<'_>) {
                writer.display(self);
            }

            fn schema(_: &mut Schemas) -> Value {
                json!({"type": "integer", "minimum": $minimum, "maximum": $maximum})
            }
        }
    )*};
}

integer! {
    u16: "an integer from 0 to 65535", u16::MIN, u16::MAX;
    NonZeroU16: "an integer from 1 to 65535", 1, u16::MAX;
    u32: "an integer from 0 to 4294967295", u32::MIN, u32::MAX;
    i32: "an integer of 32 bits", i32::MIN, i32::MAX;
    u64: "an integer of 64 bits, not negative", u64::MIN, u64::MAX;
    i64: "an integer of 64 bits", i64::MIN, i64::MAX;
}

impl<'a, T: Wire<'a>> Wire<'a> for Vec<T> {
    type Owned = Vec<T::Owned>;

    fn into_owned(self) -> Self::Owned {
        self.into_iter().map(T::into_owned).collect()
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let keep_all = reader.take_keep_all_items();
        let offset = reader.position();
        reader.begin_array()?;
        let mut items = Vec::new();
        let mut left_out = false;
        let mut first = true;
        while reader.next_item(first)? {
            first = false;
            let place = reader.place();
            match T::read(reader) {
                Ok(item) => items.push(item),
                Err(fault) if keep_all => return Err(fault),
                Err(fault) => {
                    reader.recover(place, fault)?;
                    left_out = true;
                }
            }
        }
        if left_out && items.is_empty() {
            let rule = "at least one well-formed item, since an empty list would mean to clear it";
            return reader.fault(offset, Problem::Rule(rule.into()));
        }
        Ok(items)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.begin_array();
        for item in self {
            writer.separate();
            item.write(writer);
        }
        writer.end_array();
    }

    fn schema(schemas: &mut Schemas) -> Value {
        json!({"type": "array", "items": T::schema(schemas)})
    }
}

/// A large or rare part of a value, boxed to keep the enclosing value small.
impl<'a, T: Wire<'a>> Wire<'a> for Box<T> {
    type Owned = Box<T::Owned>;

    fn into_owned(self) -> Self::Owned {
        Box::new((*self).into_owned())
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        T::read(reader).map(Box::new)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        (**self).write(writer);
    }

    fn schema(schemas: &mut Schemas) -> Value {
        T::schema(schemas)
    }
}

impl<'a, T: Object<'a>> Object<'a> for Box<T> {
    fn read_body(reader: &mut Reader<'a>, body: &mut Body) -> Read<Self> {
        T::read_body(reader, body).map(Box::new)
    }

    fn write_body(&self, writer: &mut Writer<'_>) {
        (**self).write_body(writer);
    }
}
