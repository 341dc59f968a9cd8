//! Authorization by role: one place for every request and notification of a client.
//!
//! [`Session::is_visible_to`](super::session::Session::is_visible_to) decides which sessions a client sees, where the
//! session is looked up. This module decides which actions are allowed on a visible session.

use serde_json::json;
use switchboard_acp::Raw;
use switchboard_acp::extensions::{META, is_own_key};
use switchboard_acp::rpc::codes;
use switchboard_store::Role;

use super::clients::Clients;
use super::method_table::Method;
use super::requests::Refusal;
use super::{ConnectionId, CoreOptions, FORBIDDEN, FolderRefusal, lines};

/// Keys of `_meta` that are not agent options, in addition to those of Switchboard and its translation: trace context.
const HARMLESS_META: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// The rights of clients.
pub(super) struct Access<'a> {
    options: &'a CoreOptions,
    clients: &'a Clients,
}

impl<'a> Access<'a> {
    pub(super) fn new(options: &'a CoreOptions, clients: &'a Clients) -> Self {
        Access { options, clients }
    }

    /// Checks a message of a client before anything is done with it.
    pub(super) fn authorize(
        &self,
        connection: ConnectionId,
        method: Method,
        params: Option<&Raw<'_>>,
    ) -> Result<(), Refusal> {
        if let Some(key) = params.and_then(lines::duplicate_key) {
            // With a duplicate key, the hub might check one value and the agent use the other.
            let key = lines::truncated(&key).into_owned();
            return Err((codes::INVALID_PARAMS, format!("at /params: duplicate key {key}"), None));
        }
        self.require_role(connection, needed_role(method, params))?;
        if method.ends_here && !lines::is_about_agent_sessions(params) {
            return Ok(());
        }
        self.may_pass_options(connection, params)
    }

    /// Checks that the role of a client is at least `needs`.
    pub(super) fn require_role(&self, connection: ConnectionId, needs: Role) -> Result<(), Refusal> {
        let role = self.role(connection);
        if role >= needs {
            return Ok(());
        }
        let message = format!("the role {role} of this token does not allow this; it needs the role {needs}");
        Err((FORBIDDEN, message, Some(json!({"role": role.to_string(), "needs": needs.to_string()}))))
    }

    fn role(&self, connection: ConnectionId) -> Role {
        self.clients.connections.get(&connection).map_or(Role::View, |client| client.identity.role)
    }

    /// Checks that a client may pass options that start programs on the hub's machine or lift an agent's restrictions.
    fn may_pass_options(&self, connection: ConnectionId, params: Option<&Raw<'_>>) -> Result<(), Refusal> {
        let role = self.role(connection);
        let may = self.options.agent_options;
        if may.is_some_and(|least| role >= least) {
            return Ok(());
        }
        let Some(pointer) = params.and_then(agent_option) else { return Ok(()) };
        let pointer = lines::truncated(&pointer);
        let message = format!(
            "at /params/{pointer}: the role {role} of this token may not pass MCP servers or agent options, which can \
             start programs on the hub's machine; omit it, or ask the administrator to change hub.agent_options"
        );
        let needs = may.map(|least| least.to_string());
        let data = json!({"role": role.to_string(), "needs": needs, "setting": "hub.agent_options"});
        Err((FORBIDDEN, message, Some(data)))
    }

    /// Returns the folder of a session, and the parameters with all folders as canonical paths. A symbolic link might
    /// point elsewhere by the time the agent resolves it.
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
        // `params` was an object and still is one.
        Ok((folder, Raw::parse(text).unwrap_or_else(|_| params.to_shared())))
    }

    /// Returns the folder that a request names, if sessions may work in it.
    pub(super) fn folder(&self, params: Option<&Raw<'_>>) -> Result<String, Refusal> {
        let Some(cwd) = lines::text_of(params, "cwd") else { return Err(missing_folder()) };
        self.more_folders(params)?;
        (self.options.folders)(&cwd).map_err(|refusal| folder_error("cwd", &cwd, refusal))
    }

    /// Returns the additional folders that a request names, if sessions may work in all of them.
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
            (self.options.folders)(&folder).map_err(|refusal| folder_error(KEY, &folder, refusal))
        };
        more.items().map(resolve).collect()
    }

    /// Returns all folders of a session.
    pub(super) fn roots(&self, folder: &str, params: &Raw<'_>) -> Result<Vec<String>, Refusal> {
        let more = self.more_folders(Some(params))?;
        Ok([folder.to_owned()].into_iter().chain(more).collect())
    }
}

/// Returns the least role that a request or notification needs.
fn needed_role(method: Method, params: Option<&Raw<'_>>) -> Role {
    match method.role {
        // The agent's own sessions may belong to any user.
        _ if lines::is_about_agent_sessions(params) => Role::Admin,
        Some(role) => role,
        // The request names a session, which must be visible to the client.
        None if lines::text_of(params, "sessionId").is_some() => Role::Use,
        // Every other method concerns the agent as a whole, for example its login.
        None => Role::Admin,
    }
}

/// Returns the JSON pointer of an option that only some roles may pass.
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
    (codes::INVALID_PARAMS, "at /params/cwd: missing working folder".to_owned(), None)
}

fn folder_error(pointer: &str, folder: &str, FolderRefusal { reason, roots }: FolderRefusal) -> Refusal {
    let folder = lines::truncated(folder);
    let data = json!({"folder": folder, "roots": roots});
    (codes::INVALID_PARAMS, format!("at /params/{pointer}: {folder}: {reason}"), Some(data))
}
