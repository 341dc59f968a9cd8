//! Diffs as ACP version 1 has them, a path with an old and a new text, from and to structured ones.
//!
//! Both directions take the wire values apart field by field: what the other version has no place for travels in
//! `_meta`, under the keys below.

mod from_v1;
mod read_back;
mod to_v1;

use std::borrow::Cow;

use switchboard_acp::{Extra, Meta, Raw, Text};

pub use from_v1::from_v1;
pub use read_back::read_back;
pub use to_v1::{InV1, to_v1};

/// The key in a version 1 diff's `_meta` that carries the operation which texts cannot say: `delete`.
pub const OPERATION_KEY: &str = "acp.v2/operation";
/// The key in a version 1 item's `_meta` that carries the changes of a structured diff, where texts do not say all of
/// them.
pub const CHANGES_KEY: &str = "acp.v2/changes";
/// The key in a version 1 item's `_meta` that carries what a structured diff's patch has beside its text; where
/// [`CHANGES_KEY`] is there too, also its text.
pub const PATCH_KEY: &str = "acp.v2/patch";
/// The key in a version 1 item's `_meta` that carries how many items, from this one on, stand for one structured diff.
pub const ITEMS_KEY: &str = "acp.v2/items";

/// What is known of the file that a diff is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAtHand<'a> {
    /// Nobody looked.
    Unknown,
    /// There is no such file.
    Absent,
    /// It is there, with this content. Whether that is from before or after the change is not known.
    Content(Cow<'a, [u8]>),
}

/// The keys and values that a value keeps for its sender, while it changes its version.
#[derive(Default)]
struct Carried<'a> {
    meta: Vec<(Text<'a>, Raw<'a>)>,
    extra: Extra<'a>,
}

impl<'a> Carried<'a> {
    fn new(meta: Option<&'a Meta<'_>>, extra: Extra<'a>) -> Self {
        Carried { meta: meta.into_iter().flat_map(Meta::entries).collect(), extra }
    }

    /// Takes an entry of the metadata out.
    fn take(&mut self, key: &str) {
        self.meta.retain(|(name, _)| name != key);
    }

    fn set(&mut self, key: &'a str, value: Raw<'a>) {
        self.take(key);
        self.meta.push((Text::Borrowed(key), value));
    }

    /// The metadata, and the keys that the target does not define. One that it does define is not the sender's there,
    /// and goes into the metadata under a name of the version that it comes from.
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
