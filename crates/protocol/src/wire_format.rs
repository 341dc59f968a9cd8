/// Which revision of the protocol a text is in, or is to be written in.
///
/// Version 2 exists in two revisions that both call themselves `2`; they are called *dialects* here.
/// The types hold both. Reading in one dialect accepts exactly what that dialect allows, reading as
/// [`WireFormat::Any`] accepts either, and writing as `Any` writes a form that both read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WireFormat {
    /// Protocol version 1: closed unions and enums.
    V1,
    /// Version 2 as in the published proposals of July 2026 (`patch.diff`, `_meta` replaced as a whole).
    #[default]
    Spec,
    /// Version 2 as in the newest published draft (`patch.text`, `_meta` merged key by key).
    Newest,
    /// Version 2 of a peer whose dialect is not known.
    Any,
}

impl WireFormat {
    /// Whether unknown enum values and union variants are part of the protocol's contract.
    pub(crate) fn is_open(self) -> bool {
        self != WireFormat::V1
    }

    /// Whether things that only the newest dialect has are read as known.
    pub(crate) fn has_newest(self) -> bool {
        matches!(self, WireFormat::Newest | WireFormat::Any)
    }

    /// Whether things that the newest draft calls unstable are read as known. The `spec` dialect has none of them.
    pub(crate) fn has_unstable(self) -> bool {
        self != WireFormat::Spec
    }

    /// Whether things that version 1 lacks are read as known.
    pub(crate) fn has_v2(self) -> bool {
        self != WireFormat::V1
    }
}
