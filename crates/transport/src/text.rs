//! Shared text, and text that is known to be JSON.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use bytes::Bytes;
use bytestring::ByteString;
use switchboard_acp::{Raw, Wire, WireFormat};

/// UTF-8 text in a buffer shared by clones and parts.
///
/// A received message is part of the buffer of one read, together with its neighbours. To keep a short
/// message for a long time, keep a [`SharedText::detached`] copy, which does not hold the whole buffer.
///
/// ```
/// use switchboard_transport::SharedText;
///
/// let line = SharedText::from(r#"{"id":7}"#.to_owned());
/// let id = line.part(&line[6..7]);
/// drop(line);
/// assert_eq!(&*id, "7");
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct SharedText(ByteString);

impl SharedText {
    /// Converts bytes to text. Returns the bytes if they are not valid UTF-8.
    pub(crate) fn from_bytes(bytes: Bytes) -> Result<Self, Bytes> {
        match ByteString::try_from(bytes.clone()) {
            Ok(text) => Ok(SharedText(text)),
            Err(_) => Err(bytes),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a part of this text in the same buffer.
    ///
    /// # Panics
    /// If `part` does not lie inside this text.
    #[must_use]
    pub fn part(&self, part: &str) -> SharedText {
        SharedText(self.0.slice_ref(part))
    }

    /// Copies the text into its own buffer.
    #[must_use]
    pub fn detached(&self) -> SharedText {
        SharedText(ByteString::from(self.as_str().to_owned()))
    }

    /// Returns the buffer.
    pub fn into_bytes(self) -> Bytes {
        self.0.into_bytes()
    }

    /// Returns a part of this text if `text` lies inside it, else a copy.
    pub(crate) fn part_or_copy(&self, text: &str) -> SharedText {
        let (whole, part) = (self.as_bytes().as_ptr_range(), text.as_bytes().as_ptr_range());
        if whole.start <= part.start && part.end <= whole.end { self.part(text) } else { text.into() }
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        SharedText(text.into())
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        SharedText(text.to_owned().into())
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), formatter)
    }
}

impl fmt::Display for SharedText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self)
    }
}

/// One JSON value as text on one line: parameters or a result to send.
///
/// ```
/// use switchboard_acp::{Raw, WireFormat, v2};
/// use switchboard_transport::Json;
///
/// let close = v2::CloseSessionRequest::new("s-1");
/// assert_eq!(Json::of(&close, WireFormat::Spec).as_str(), r#"{"sessionId":"s-1"}"#);
/// assert_eq!(Json::from(Raw::parse("[1,\n2]")?).as_str(), "[1, 2]");
/// assert_eq!(Json::default().as_str(), "{}");
/// # Ok::<(), switchboard_acp::DecodeError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Json<'a>(Cow<'a, str>);

impl<'a> Json<'a> {
    /// Encodes a protocol value in the wire format of a revision.
    pub fn of<'w>(value: &impl Wire<'w>, revision: WireFormat) -> Self {
        Json(on_one_line(Cow::Owned(value.encode(revision))))
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Json<'_> {
    /// Returns the empty object.
    fn default() -> Self {
        Json(Cow::Borrowed("{}"))
    }
}

impl<'a> From<Raw<'a>> for Json<'a> {
    fn from(raw: Raw<'a>) -> Self {
        Json(on_one_line(Cow::Owned(raw.as_str().to_owned())))
    }
}

impl<'a> From<&'a Raw<'_>> for Json<'a> {
    fn from(raw: &'a Raw<'_>) -> Self {
        Json(on_one_line(Cow::Borrowed(raw.as_str())))
    }
}

impl From<serde_json::Value> for Json<'static> {
    fn from(value: serde_json::Value) -> Self {
        Json(Cow::Owned(value.to_string()))
    }
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Replaces newlines with spaces. In JSON, a raw newline can only be white space between tokens.
pub(crate) fn on_one_line(text: Cow<'_, str>) -> Cow<'_, str> {
    if memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_none() {
        return text;
    }
    Cow::Owned(text.replace(['\n', '\r'], " "))
}
