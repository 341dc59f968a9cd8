//! Conversion between structured diffs and ACP version 1 diffs, which are a path with an old and a new text.
//!
//! Both directions convert the wire values field by field. Fields without a counterpart are carried in
//! `_meta` under the keys below.

mod from_v1;
mod read_back;
mod to_v1;

use std::borrow::Cow;

use switchboard_acp::{Extra, Meta, Raw, Text};

pub use from_v1::from_v1;
pub use read_back::read_back;
pub use to_v1::{InV1, to_v1};

/// Key in a version 1 diff's `_meta` for the operation that texts cannot express: `delete`.
pub const OPERATION_KEY: &str = "acp.v2/operation";
/// Key in a version 1 item's `_meta` for the changes of a structured diff, if texts do not express all of
/// them.
pub const CHANGES_KEY: &str = "acp.v2/changes";
/// Key in a version 1 item's `_meta` for the fields of a structured diff's patch other than its text. With
/// [`CHANGES_KEY`], also for its text.
pub const PATCH_KEY: &str = "acp.v2/patch";
/// Key in a version 1 item's `_meta` for the number of items, from this one on, that represent one structured
/// diff.
pub const ITEMS_KEY: &str = "acp.v2/items";

/// Content of the file that a diff concerns, as far as known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAtHand<'a> {
    /// Not checked.
    Unknown,
    /// The file does not exist.
    Absent,
    /// The file exists with this content, from before or after the change.
    Content(Cow<'a, [u8]>),
}

/// Keys and values that are carried for the sender during a conversion.
#[derive(Default)]
struct Carried<'a> {
    meta: Vec<(Text<'a>, Raw<'a>)>,
    extra: Extra<'a>,
}

impl<'a> Carried<'a> {
    fn new(meta: Option<&'a Meta<'_>>, extra: Extra<'a>) -> Self {
        Carried { meta: meta.into_iter().flat_map(Meta::entries).collect(), extra }
    }

    /// Removes an entry of the metadata.
    fn take(&mut self, key: &str) {
        self.meta.retain(|(name, _)| name != key);
    }

    fn set(&mut self, key: &'a str, value: Raw<'a>) {
        self.take(key);
        self.meta.push((Text::Borrowed(key), value));
    }

    /// Returns the metadata and the keys that the target does not define. A key that it does define is moved
    /// to the metadata under a name of the source version.
    fn finish(mut self, version: &str, defined: &[&str]) -> (Option<Meta<'static>>, Extra<'static>) {
        for key in defined {
            if let Some(value) = self.extra.remove(key) {
                self.meta.push((Text::Owned(format!("acp.{version}/{key}")), value));
            }
        }
        let meta = (!self.meta.is_empty()).then(|| Meta::from_entries(self.meta));
        (meta, self.extra.into_owned())
    }
}
