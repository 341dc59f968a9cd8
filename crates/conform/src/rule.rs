//! What a rule is.

use switchboard_acp::{Side, Version};

/// How much a rule weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strength {
    /// The specification says must: who breaks it does not conform.
    Must,
    /// A must for those who advertise the capability.
    Capability,
    /// The specification says should. It is reported and does not count.
    Should,
    /// The specification is silent or peers disagree. What happened is told and never judged.
    Recorded,
}

impl Strength {
    /// The word for it in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Strength::Must => "must",
            Strength::Capability => "capability",
            Strength::Should => "should",
            Strength::Recorded => "recorded",
        }
    }

    /// Whether breaking the rule means not to conform.
    pub fn counts(self) -> bool {
        matches!(self, Strength::Must | Strength::Capability)
    }
}

/// Who has to keep a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Party {
    /// The agent.
    Agent,
    /// The client.
    Client,
    /// Whoever sends.
    Both,
}

impl Party {
    /// Whether a side has to keep it.
    pub fn includes(self, side: Side) -> bool {
        match self {
            Party::Agent => side == Side::Agent,
            Party::Client => side == Side::Client,
            Party::Both => true,
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Party::Agent => "agent",
            Party::Client => "client",
            Party::Both => "both",
        }
    }
}

/// In which versions a rule holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Versions {
    /// Version 1.
    V1,
    /// Version 2, both dialects.
    V2,
    /// Version 2, only its newest dialect.
    V2Newest,
    /// All of them.
    All,
}

impl Versions {
    /// Whether it holds in a version.
    pub fn includes(self, version: Version) -> bool {
        match self {
            Versions::V1 => version == Version::V1,
            Versions::V2 | Versions::V2Newest => version == Version::V2,
            Versions::All => true,
        }
    }

    /// The words for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Versions::V1 => "1",
            Versions::V2 => "2",
            Versions::V2Newest => "2 (newest dialect)",
            Versions::All => "1 and 2",
        }
    }
}

/// Where a rule can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seen {
    /// In any conversation.
    Recorded,
    /// Only by asking a peer that runs.
    Live,
}

/// A rule of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// Its name in reports, baselines and on the command line.
    pub id: &'static str,
    /// In which versions it holds.
    pub versions: Versions,
    /// Who has to keep it.
    pub party: Party,
    /// How much it weighs.
    pub strength: Strength,
    /// For [`Strength::Capability`]: the capability, as a JSON pointer into what the agent advertises.
    pub capability: &'static str,
    /// The ids of the official kit's requirements that it covers.
    pub official: &'static [&'static str],
    /// What it asks for.
    pub text: &'static str,
    /// Where the specification says so: document and heading.
    pub citation: &'static str,
    /// The smallest thing that breaks it.
    pub violation: &'static str,
    /// What to change.
    pub fix: &'static str,
    /// Where it can be seen.
    pub seen: Seen,
}
