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
                "the agent cannot copy a session, nor can anybody else give a new one its memory: open a new session and \
                 tell it what matters"
            }
            "session/set_title" if !title => {
                "the agent gives its sessions their titles itself: keep another title where you list them"
            }
            "session/archive" | "session/unarchive" if !archive => {
                "the agent has no archive: hide the session where you list it, or delete it if the agent can"
            }
            "session/status" if !status => {
                "the agent does not tell, and the session is not open on this connection: look for it with session/list"
            }
            _ => return Ok(()),
        };
        Err(Error::MethodMissing { method: method.to_owned(), reason: reason.to_owned() })
    }
}
