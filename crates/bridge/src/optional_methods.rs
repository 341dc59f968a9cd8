//! Optional session methods of an agent.

use switchboard_acp::{v1, v2};

use crate::Error;

/// Optional session methods that the agent announced in its handshake. Nothing is known before the handshake.
#[derive(Debug, Default, Clone)]
pub(crate) struct OptionalMethods {
    said: Option<Methods>,
}

#[derive(Debug, Clone, Copy)]
struct Methods {
    fork: bool,
    title: bool,
    archive: bool,
    status: bool,
}

impl OptionalMethods {
    pub(crate) fn in_v1(offered: Option<&v1::SessionCapabilities<'_>>) -> Self {
        let has = |is_there: fn(&v1::SessionCapabilities<'_>) -> bool| offered.is_some_and(is_there);
        let said = Methods {
            fork: has(|offered| offered.fork.is_some()),
            title: has(|offered| offered.title.is_some()),
            archive: has(|offered| offered.archive.is_some()),
            status: has(|offered| offered.status.is_some()),
        };
        OptionalMethods { said: Some(said) }
    }

    pub(crate) fn in_v2(offered: &v2::SessionCapabilities<'_>) -> Self {
        let said = Methods {
            fork: offered.fork.is_some(),
            title: offered.title.is_some(),
            archive: offered.archive.is_some(),
            status: offered.status.is_some(),
        };
        OptionalMethods { said: Some(said) }
    }

    /// Returns an error with an alternative if the agent does not have a method.
    pub(crate) fn check(&self, method: &str) -> Result<(), Error> {
        let Some(Methods { fork, title, archive, status }) = self.said else { return Ok(()) };
        let reason = match method {
            "session/fork" if !fork => {
                "the agent cannot fork sessions; create a session and repeat the context in its first prompt"
            }
            "session/set_title" if !title => "the agent cannot rename sessions; keep the title in the client",
            "session/archive" | "session/unarchive" if !archive => {
                "the agent cannot archive sessions; hide the session in the client, or delete it"
            }
            "session/status" if !status => {
                "the agent cannot report the status of a session that is not open on this connection; use session/list"
            }
            _ => return Ok(()),
        };
        Err(Error::MethodMissing { method: method.to_owned(), reason: reason.to_owned() })
    }
}
