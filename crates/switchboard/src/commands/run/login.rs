//! Instructions for a missing login.

use switchboard_acp::display::visible_line;
use switchboard_acp::v2;
use switchboard_peer::AgentDescription;

use crate::outcome::CommandError;

/// Returns the login methods as text.
pub(in crate::commands) fn ways(agent: &AgentDescription) -> impl Iterator<Item = String> {
    agent.auth_methods.iter().map(|method| match method {
        v2::AuthMethod::Agent(method) => {
            let (id, name) = (visible_line(&method.method_id), visible_line(&method.name));
            format!("login method: {name} (--login {id})")
        }
        v2::AuthMethod::Terminal(method) => {
            let (name, arguments) = (visible_line(&method.name), method.args.iter().flatten());
            let arguments: String =
                arguments.map(|argument| format!(" {}", visible_line(argument))).collect();
            format!("login method: {name} (in a terminal, run the agent's program with:{arguments})")
        }
        v2::AuthMethod::Unknown(method) => {
            format!("login method: {}", visible_line(&method.text("name").unwrap_or_default()))
        }
        v2::AuthMethod::More(none) => none.never(),
    })
}

/// Checks that the agent has a login method that can be used here.
pub(super) fn check(agent: &AgentDescription, id: &str) -> Result<(), CommandError> {
    let is_it = |method: &v2::AuthMethod<'_>| matches!(method, v2::AuthMethod::Agent(method) if method.method_id == id);
    if agent.auth_methods.iter().any(is_it) {
        return Ok(());
    }
    let name = visible_line(agent.name());
    let failed = CommandError::usage(format!("{name} has no login method \"{id}\" that can be used here"));
    Err(ways(agent).fold(failed, CommandError::hint))
}
