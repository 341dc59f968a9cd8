/// Revision of the protocol of a text.
///
/// Version 2 exists in two revisions that both call themselves `2`, here called *dialects*. The types
/// represent both. Decoding in one dialect accepts exactly that dialect, decoding as [`WireFormat::Any`]
/// accepts either, and encoding as `Any` writes a form that both can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WireFormat {
    /// Protocol version 1: closed unions and enums.
    V1,
    /// Version 2 as in the published proposals of July 2026 (`patch.diff`, `_meta` replaced as a whole).
    #[default]
    Spec,
    /// Version 2 as in the newest published draft (`patch.text`, `_meta` merged key by key).
    Newest,
    /// Version 2 of a peer with an unknown dialect.
    Any,
}

impl WireFormat {
    /// Returns true if unknown enum values and union variants are permitted.
    pub(crate) fn is_open(self) -> bool {
        self != WireFormat::V1
    }

    /// Returns true if features of the newest dialect are known.
    pub(crate) fn has_newest(self) -> bool {
        matches!(self, WireFormat::Newest | WireFormat::Any)
    }

    /// Returns true if unstable features of the newest draft are known. The `spec` dialect has none.
    pub(crate) fn has_unstable(self) -> bool {
        self != WireFormat::Spec
    }

    /// Returns true if features that version 1 lacks are known.
    pub(crate) fn has_v2(self) -> bool {
        self != WireFormat::V1
    }
}
