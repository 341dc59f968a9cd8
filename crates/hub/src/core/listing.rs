//! `session/list`. Sessions without a prompt are not listed, because editors open one whenever they start.

use std::cmp::Reverse;

use serde_json::json;
use switchboard_acp::rpc::codes;

use super::Core;
use super::lines::{self, Outcome};
use super::requests::{ClientRequest, Refusal};
use super::session::Session;

/// Maximum number of sessions in one page.
const PAGE: usize = 100;

pub(super) fn list_sessions(core: &mut Core, request: ClientRequest<'_>) -> Result<(), Refusal> {
    let ClientRequest { connection, id, params, .. } = request;
    let Some(client) = core.cx.clients.connections.get(&connection) else { return Ok(()) };
    let folder = lines::text_of(params, "cwd");
    let folder = match &folder {
        // A folder that may not be used has no sessions.
        Some(folder) => Some((core.cx.options.folders)(folder).unwrap_or_else(|_| folder.to_string())),
        None => None,
    };
    let agent = client.is_agent_named.then(|| core.cx.options.agents.get(client.agent)).flatten();
    let after = lines::text_of(params, "cursor");
    let after = match after.as_deref().map(position) {
        Some(None) => {
            let message = "at /params/cursor: invalid cursor; start again without one".to_owned();
            return Err((codes::INVALID_PARAMS, message, None));
        }
        after => after.flatten(),
    };
    let mut sessions: Vec<_> = core
        .sessions
        .values()
        .filter(|session| session.is_visible_to(&client.identity))
        .filter(|session| folder.as_ref().is_none_or(|folder| session.info.folder == *folder))
        .filter(|session| agent.is_none_or(|agent| session.info.agent == *agent))
        .filter(|session| session.next > 0 && session.title().is_some())
        .filter(|session| after.is_none_or(|after| order(session) < after))
        .collect();
    sessions.sort_by_key(|session| Reverse(order(session)));
    let page = &sessions[..sessions.len().min(PAGE)];
    let next = page.last().filter(|_| sessions.len() > PAGE).map(|last| {
        let (changed, id) = order(last);
        format!("{changed}.{id}")
    });
    let mut result =
        json!({"sessions": page.iter().map(|session| session.information()).collect::<Vec<_>>()});
    if let (Some(next), Some(result)) = (next, result.as_object_mut()) {
        result.insert("nextCursor".to_owned(), next.into());
    }
    core.cx.reply(connection, id, Outcome::Result(result.to_string()));
    Ok(())
}

/// Returns the sort key: the session that changed last is listed first.
fn order(session: &Session) -> (i64, &str) {
    (session.info.changed, session.id())
}

/// Parses a page cursor. It contains a position in the order, not a session, which may have moved or been deleted by
/// then.
fn position(cursor: &str) -> Option<(i64, &str)> {
    let (changed, id) = cursor.split_once('.')?;
    Some((changed.parse().ok()?, id))
}
