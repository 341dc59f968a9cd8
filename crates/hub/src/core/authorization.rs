//! What the role of a token allows: one place for every request and notification of a client.
//!
//! Whether a session is visible to a client is decided by [`Session::is_visible_to`](super::session::Session::is_visible_to),
//! where the session is looked up. Here is what may be done with one that is.

use serde_json::json;
use switchboard_acp::Raw;
use switchboard_acp::extensions::{META, is_own_key};
use switchboard_acp::rpc::codes;
use switchboard_store::Role;

use super::method_table::Method;
use super::requests::Refusal;
use super::{ConnectionId, Core, FORBIDDEN, FolderRefusal, lines};

/// How many dropped notifications of one client the operator is told of.
const TOLD_DROPS: usize = 8;

/// Keys of `_meta` that are not options of an agent, beside those of Switchboard and its translation: trace context.
const HARMLESS_META: [&str; 3] = ["traceparent", "tracestate", "baggage"];

impl Core {
    /// Checks what a client wants before anything is done about it.
    pub(super) fn authorize(
        &self,
        connection: ConnectionId,
        method: Method,
        params: Option<&Raw<'_>>,
    ) -> Result<(), Refusal> {
        if let Some(key) = params.and_then(lines::duplicate) {
            // The hub would look at one of the values, and the agent perhaps at the other.
            let key = lines::named(&key).into_owned();
            return Err((codes::INVALID_PARAMS, format!("at /params: the key {key} is there twice"), None));
        }
        self.needs(connection, needed_role(method, params))?;
        if method.ends_here && !lines::is_about_memory(params) {
            return Ok(());
        }
        self.may_pass_options(connection, params)
    }

    /// Checks that the role of a client is at least this one.
    pub(super) fn needs(&self, connection: ConnectionId, needs: Role) -> Result<(), Refusal> {
        let role = self.role(connection);
        if role >= needs {
            return Ok(());
        }
        let message = format!("a token with the role {role} may not do this; it needs {needs}");
        Err((FORBIDDEN, message, Some(json!({"role": role.to_string(), "needs": needs.to_string()}))))
    }

    fn role(&self, connection: ConnectionId) -> Role {
        self.connections.get(&connection).map_or(Role::View, |client| client.who.role)
    }

    /// Checks that a client may pass on what starts programs on the hub's machine or lifts an agent's restrictions.
    fn may_pass_options(&self, connection: ConnectionId, params: Option<&Raw<'_>>) -> Result<(), Refusal> {
        let role = self.role(connection);
        let may = self.options.agent_options;
        if may.is_some_and(|least| role >= least) {
            return Ok(());
        }
        let Some(place) = params.and_then(agent_option) else { return Ok(()) };
        let place = lines::named(&place);
        let message = format!(
            "at /params/{place}: a token with the role {role} may not pass MCP servers or options to the agent, which can \
             start programs on the hub's machine; leave it out, or have the administrator change the setting hub.agent_options"
        );
        let needs = may.map(|least| least.to_string());
        let data = json!({"role": role.to_string(), "needs": needs, "setting": "hub.agent_options"});
        Err((FORBIDDEN, message, Some(data)))
    }

    /// The folder of a session, and parameters that name it and all others as they are after links were followed: a link
    /// may lead elsewhere by the time that the agent looks.
    pub(super) fn folders(&self, params: Option<&Raw<'_>>) -> Result<(String, Raw<'static>), Refusal> {
        let Some(params) = params else { return Err(missing_folder()) };
        let folder = self.folder(Some(params))?;
        let more: Vec<String> =
            self.more_folders(Some(params))?.iter().map(|folder| lines::quoted(folder)).collect();
        let mut changed = vec![("cwd", lines::quoted(&folder))];
        if params.get("additionalDirectories").is_some() {
            changed.push(("additionalDirectories", format!("[{}]", more.join(","))));
        }
        let changed: Vec<(&str, &str)> = changed.iter().map(|(key, text)| (*key, text.as_str())).collect();
        let text = lines::merged(Some(params), &changed);
        // It was an object, and still is.
        Ok((folder, Raw::parse(text).unwrap_or_else(|_| params.to_shared())))
    }

    /// The folder that a request names, if sessions may work there.
    pub(super) fn folder(&self, params: Option<&Raw<'_>>) -> Result<String, Refusal> {
        let Some(cwd) = lines::text_of(params, "cwd") else { return Err(missing_folder()) };
        self.more_folders(params)?;
        (self.options.folders)(&cwd).map_err(|refusal| refused("cwd", &cwd, refusal))
    }

    /// The additional folders that a request names, if sessions may work in all of them.
    pub(super) fn more_folders(&self, params: Option<&Raw<'_>>) -> Result<Vec<String>, Refusal> {
        const KEY: &str = "additionalDirectories";
        let Some(more) = params.and_then(|params| params.get(KEY)) else { return Ok(Vec::new()) };
        let wrong = || {
            let message = format!("at /params/{KEY}: expected a list of absolute paths");
            (codes::INVALID_PARAMS, message, None)
        };
        if more.as_str() == "null" {
            return Ok(Vec::new());
        }
        if !more.as_str().starts_with('[') {
            return Err(wrong());
        }
        let resolve = |folder: Raw<'_>| {
            let folder = folder.as_text().ok_or_else(wrong)?.into_owned();
            (self.options.folders)(&folder).map_err(|refusal| refused(KEY, &folder, refusal))
        };
        more.items().map(resolve).collect()
    }

    /// Tells the operator of a notification that nothing was done about: its client gets no answer that could say so.
    pub(super) fn drop_notification(&mut self, connection: ConnectionId, method: &str, reason: &str) {
        let Some(client) = self.connections.get_mut(&connection) else { return };
        client.dropped += 1;
        if client.dropped > TOLD_DROPS {
            return;
        }
        let end = if client.dropped == TOLD_DROPS {
            "; more of this client are dropped without a word"
        } else {
            ""
        };
        let (who, method) = (client.who.name.clone(), lines::named(method));
        self.tell(format!("dropped the notification {method} of {who}: {reason}{end}"));
    }
}

/// Returns the least role that a request or notification needs.
fn needed_role(method: Method, params: Option<&Raw<'_>>) -> Role {
    match method.role {
        // What the agent itself remembers may be anybody's.
        _ if lines::is_about_memory(params) => Role::Admin,
        Some(role) => role,
        // In a session that the client sees.
        None if lines::text_of(params, "sessionId").is_some() => Role::Use,
        // Everything else concerns the agent as a whole, such as its login.
        None => Role::Admin,
    }
}

/// Where parameters hold what only some may pass on.
fn agent_option(params: &Raw<'_>) -> Option<String> {
    let is_empty = |value: &Raw<'_>| {
        value.as_str() == "null" || (value.as_str().starts_with('[') && value.items().next().is_none())
    };
    if params.get("mcpServers").is_some_and(|servers| !is_empty(&servers)) {
        return Some("mcpServers".to_owned());
    }
    let meta = params.get(META).filter(|meta| meta.as_str() != "null")?;
    if !meta.is_object() {
        return Some(META.to_owned());
    }
    let is_harmless = |key: &str| HARMLESS_META.contains(&key) || is_own_key(key);
    let key = meta.entries().map(|(key, _)| key.into_owned()).find(|key| !is_harmless(key));
    key.map(|key| format!("{META}/{key}"))
}

fn missing_folder() -> Refusal {
    (codes::INVALID_PARAMS, "at /params/cwd: the session's folder is missing".to_owned(), None)
}

fn refused(place: &str, folder: &str, FolderRefusal { reason, roots }: FolderRefusal) -> Refusal {
    let folder = lines::named(folder);
    let data = json!({"folder": folder, "roots": roots});
    (codes::INVALID_PARAMS, format!("at /params/{place}: {folder}: {reason}"), Some(data))
}
