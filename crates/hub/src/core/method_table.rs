//! Table of the client methods that the hub handles itself, with all their properties.

use switchboard_acp::extensions::{END_AGENT_METHOD, LOSS_METHOD};
use switchboard_store::Role;

/// Form in which a method is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Request,
    Notification,
}

/// Properties of a method.
#[derive(Debug, Clone, Copy)]
pub(super) struct Method {
    name: &'static str,
    /// The form of the method; `None` if both are in use.
    form: Option<Form>,
    /// The least role that may send it; `None` if that depends on whether it names a session.
    pub(super) role: Option<Role>,
    /// True if its parameters are not forwarded, so that they cannot contain agent options.
    pub(super) ends_here: bool,
    /// True if it appends to a log, which must be writable then.
    pub(super) is_logged: bool,
}

const fn row(
    name: &'static str,
    form: Option<Form>,
    role: Option<Role>,
    ends_here: bool,
    is_logged: bool,
) -> Method {
    Method { name, form, role, ends_here, is_logged }
}

const REQUEST: Option<Form> = Some(Form::Request);
const NOTIFICATION: Option<Form> = Some(Form::Notification);

/// Name, form, role, whether it ends here, whether it is logged.
const METHODS: [Method; 14] = [
    row("initialize", REQUEST, Some(Role::View), true, false),
    row("session/list", REQUEST, Some(Role::View), true, false),
    row("session/resume", REQUEST, Some(Role::View), true, false),
    row("session/attach", REQUEST, Some(Role::View), true, false),
    row("session/detach", REQUEST, Some(Role::View), true, false),
    // A notification in the draft. Clients that send a request get a response.
    row("stream/resume", None, Some(Role::View), true, false),
    row("$/cancel_request", NOTIFICATION, Some(Role::View), true, true),
    row(LOSS_METHOD, NOTIFICATION, Some(Role::View), true, true),
    row("session/cancel", NOTIFICATION, Some(Role::Answer), true, true),
    row("session/new", REQUEST, Some(Role::Use), false, true),
    row("session/close", REQUEST, None, true, true),
    row("session/delete", REQUEST, None, true, true),
    row(END_AGENT_METHOD, REQUEST, None, true, true),
    // Older agents have this method, but neither protocol version lists it.
    row("session/set_model", REQUEST, None, false, true),
];

/// Properties of every other method: it is forwarded to the agent.
const FORWARDED: Method = row("", None, None, false, true);

impl Method {
    /// Returns the properties of a message. A known notification that is sent as a request is forwarded to the agent
    /// like an unknown request, so it needs the same role.
    pub(super) fn of(name: &str, form: Form) -> Method {
        let is_it = |known: &&Method| known.name == name && known.form.is_none_or(|known| known == form);
        METHODS.iter().find(is_it).copied().unwrap_or(FORWARDED)
    }
}

/// Returns whether a method needs a response, so that it cannot be a notification.
pub(super) fn is_request(name: &str) -> bool {
    let is_it = |known: &Method| known.name == name && known.form == REQUEST;
    switchboard_acp::is_request(name) || METHODS.iter().any(is_it)
}
