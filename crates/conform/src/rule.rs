//! Structure of a rule.

use switchboard_acp::{Side, Version};

/// Strength of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strength {
    /// A "must" of the specification: breaking it means not conformant.
    Must,
    /// A "must" for peers that advertise the capability.
    Capability,
    /// A "should" of the specification. Reported, but without effect on the verdict.
    Should,
    /// The specification is silent or peers disagree. Observations are reported and never judged.
    Recorded,
}

impl Strength {
    /// Returns the strength as a word for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Strength::Must => "must",
            Strength::Capability => "capability",
            Strength::Should => "should",
            Strength::Recorded => "recorded",
        }
    }

    /// Returns whether breaking the rule means not conformant.
    pub fn counts(self) -> bool {
        matches!(self, Strength::Must | Strength::Capability)
    }
}

/// The side that has to keep a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Party {
    /// The agent.
    Agent,
    /// The client.
    Client,
    /// The sender.
    Both,
}

impl Party {
    /// Returns whether a side has to keep it.
    pub fn includes(self, side: Side) -> bool {
        match self {
            Party::Agent => side == Side::Agent,
            Party::Client => side == Side::Client,
            Party::Both => true,
        }
    }

    /// Returns the side as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Party::Agent => "agent",
            Party::Client => "client",
            Party::Both => "both",
        }
    }
}

/// Protocol versions of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Versions {
    /// Version 1.
    V1,
    /// Version 2, both dialects.
    V2,
    /// Version 2, newest dialect only.
    V2Newest,
    /// All versions.
    All,
}

impl Versions {
    /// Returns whether the rule applies to a version.
    pub fn includes(self, version: Version) -> bool {
        match self {
            Versions::V1 => version == Version::V1,
            Versions::V2 | Versions::V2Newest => version == Version::V2,
            Versions::All => true,
        }
    }

    /// Returns the versions as words.
    pub fn as_str(self) -> &'static str {
        match self {
            Versions::V1 => "1",
            Versions::V2 => "2",
            Versions::V2Newest => "2 (newest dialect)",
            Versions::All => "1 and 2",
        }
    }
}

/// Kind of test that can observe a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TestKind {
    /// Any conversation.
    Recorded,
    /// Only a live peer.
    Live,
}

/// A rule of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// Name in reports, baselines and on the command line.
    pub id: &'static str,
    /// Versions in which it applies.
    pub versions: Versions,
    /// The side that has to keep it.
    pub party: Party,
    /// Its strength.
    pub strength: Strength,
    /// For [`Strength::Capability`]: the capability as a JSON pointer into the agent's capabilities.
    pub capability: &'static str,
    /// The ids of the official kit's requirements that it covers.
    pub official: &'static [&'static str],
    /// The requirement.
    pub text: &'static str,
    /// Citation of the specification: document and heading.
    pub citation: &'static str,
    /// A minimal violation.
    pub violation: &'static str,
    /// Advice for a fix.
    pub fix: &'static str,
    /// Kind of test that can observe it.
    pub seen: TestKind,
}
