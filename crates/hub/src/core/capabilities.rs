//! Capabilities of the hub, merged into those of an agent.

use switchboard_acp::Raw;
use switchboard_acp::extensions::AGENT_VERSION;

use super::agent_process::Description;
use super::lines::merged;

/// Transport capability for resumable streams. The draft requires a number of events; the hub can replay the whole log,
/// so the number is large.
pub(crate) const RESUMABLE: &str =
    r#"{"resumable":{"retentionMessages":2147483647,"retentionSeconds":2147483647}}"#;

/// Returns whether an agent supports renaming its sessions.
pub(super) fn has_titles(description: &Description) -> bool {
    let title = Raw::parse(description.result.as_str()).ok();
    let title = title
        .as_ref()
        .and_then(|agent| agent.get("capabilities")?.get("session")?.get("title").map(Raw::into_owned));
    title.is_some_and(|title| title.is_object())
}

/// Returns the result of `initialize`: the agent's own, with the capabilities of the hub added.
pub(super) fn of_hub(description: &Description) -> String {
    let Ok(agent) = Raw::parse(description.result.as_str()) else { return "{}".to_owned() };
    let capabilities = agent.get("capabilities");
    let session = capabilities.as_ref().and_then(|known| known.get("session").map(Raw::into_owned));
    let session =
        merged(session.as_ref().filter(|known| known.is_object()), &[("delete", "{}"), ("title", "{}")]);
    let capabilities = merged(
        capabilities.as_ref().filter(|known| known.is_object()),
        &[("session", &session), ("transport", RESUMABLE)],
    );
    let merged_result = merged(Some(&agent), &[("protocolVersion", "2"), ("capabilities", &*capabilities)]);
    match Raw::parse(merged_result.as_str()) {
        Ok(merged_result) => AGENT_VERSION.set(&merged_result, u64::from(description.version)).to_string(),
        Err(_) => merged_result,
    }
}
