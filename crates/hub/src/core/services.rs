//! Files and terminals of version 1 clients, for version 1 agents.
//!
//! An agent learns the capabilities of its client once, when its process starts. Sessions whose clients offer different
//! capabilities thus run in different processes of one agent. A client with terminals has its own process, because only
//! that client knows the terminals it has created.

use serde_json::{Value, json};
use switchboard_acp::Raw;
use switchboard_acp::extensions::{META, V1_FILES, V1_TERMINALS};

use super::ConnectionId;

/// Capabilities that a client offers to agents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Services {
    pub(crate) reads_files: bool,
    pub(crate) writes_files: bool,
    /// The client itself, if it offers terminals.
    pub(crate) commands_of: Option<ConnectionId>,
}

impl Services {
    /// Reads the offer of a version 1 client from its capabilities, as translated by the bridge.
    pub(super) fn of(capabilities: &Raw<'_>, connection: ConnectionId) -> Self {
        let files = V1_FILES.of(capabilities);
        let has = |key: &str| {
            files.as_ref().and_then(|files| files.get(key)).is_some_and(|flag| flag.as_str() == "true")
        };
        Services {
            reads_files: has("readTextFile"),
            writes_files: has("writeTextFile"),
            commands_of: V1_TERMINALS.is_set(capabilities).then_some(connection),
        }
    }

    pub(crate) fn has_files(self) -> bool {
        self.reads_files || self.writes_files
    }

    /// Returns the capabilities of the hub as the client of an agent.
    pub(super) fn capabilities(self) -> Value {
        let mut capabilities = json!({"elicitation": {"form": {}, "url": {}}});
        if self.has_files() {
            let files = json!({"readTextFile": self.reads_files, "writeTextFile": self.writes_files});
            capabilities[META][V1_FILES.name()] = files;
        }
        if self.commands_of.is_some() {
            capabilities[META][V1_TERMINALS.name()] = true.into();
        }
        capabilities
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_offered_the_capabilities_of_its_client() {
        let none = Raw::parse("{}").unwrap();
        assert_eq!(Services::of(&none, 1), Services::default());
        assert_eq!(Services::default().capabilities(), json!({"elicitation": {"form": {}, "url": {}}}));
        let offered =
            r#"{"_meta":{"acp.v1/fs":{"readTextFile":true,"writeTextFile":false},"acp.v1/terminal":true}}"#;
        let services = Services::of(&Raw::parse(offered).unwrap(), 7);
        let wanted = Services { reads_files: true, writes_files: false, commands_of: Some(7) };
        assert_eq!(services, wanted);
        let capabilities = Raw::from(services.capabilities());
        assert_eq!(Services::of(&capabilities, 7), wanted);
        for odd in [r#"{"_meta":{"acp.v1/fs":[true],"acp.v1/terminal":"true"}}"#, r#"{"_meta":7}"#, "[]"] {
            assert_eq!(Services::of(&Raw::parse(odd).unwrap(), 1), Services::default(), "{odd}");
        }
    }
}
