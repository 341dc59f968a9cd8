//! Landlock scopes: no abstract sockets, signals and traces out of the sandbox. Without rules for files, because those
//! would keep the agent's own bubblewrap from mounting.

use landlock::{ABI, Access, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope};

/// Restricts this process and its children. Fails if the kernel has no scopes.
pub(crate) fn apply() -> Result<(), String> {
    let failed = |error: &dyn std::error::Error| format!("Landlock: {error}");
    let status = Ruleset::default()
        // Never less than was asked for without notice.
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::from_all(ABI::V6))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(|error| failed(&error))?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        other => Err(format!("Landlock: {other:?}")),
    }
}

/// Returns whether the kernel has scopes, without restricting this process.
pub(crate) fn are_there() -> bool {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::from_all(ABI::V6))
        .and_then(Ruleset::create)
        .is_ok()
}
