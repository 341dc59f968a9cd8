//! What the agent asks of the user: permissions and data. These are things of their own, several at once,
//! and never parts of a tool call.

use std::fmt;
use std::sync::Arc;

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Extra, Meta, Moment, Side, Wire, v2};

/// Who settled a question.
///
/// ```
/// use switchboard_session::Decider;
///
/// assert_eq!(Decider::from("user"), Decider::User);
/// assert_eq!(Decider::Rule("tests only".into()).to_string(), "rule tests only");
/// assert_eq!(Decider::from("rule tests only"), Decider::Rule("tests only".into()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decider {
    /// The client, of which nothing more is known: its answer was seen on the wire.
    Client,
    /// The agent took the question back.
    Agent,
    /// Somebody who was asked.
    User,
    /// A rule, by its name.
    Rule(Arc<str>),
    /// A choice that was made before and was to be remembered.
    Remembered,
    /// Nobody: the connection is gone.
    ConnectionEnd,
    /// Somebody else, in the caller's words.
    Other(Arc<str>),
}

const CONNECTION_END: &str = "end of the connection";

impl From<Side> for Decider {
    fn from(side: Side) -> Self {
        match side {
            Side::Client => Decider::Client,
            Side::Agent => Decider::Agent,
        }
    }
}

impl From<&str> for Decider {
    fn from(name: &str) -> Self {
        match name {
            "client" => Decider::Client,
            "agent" => Decider::Agent,
            "user" => Decider::User,
            "remembered" => Decider::Remembered,
            CONNECTION_END => Decider::ConnectionEnd,
            _ => match name.strip_prefix("rule ") {
                Some(rule) => Decider::Rule(rule.into()),
                None => Decider::Other(name.into()),
            },
        }
    }
}

impl fmt::Display for Decider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decider::Client => formatter.write_str("client"),
            Decider::Agent => formatter.write_str("agent"),
            Decider::User => formatter.write_str("user"),
            Decider::Rule(name) => write!(formatter, "rule {name}"),
            Decider::Remembered => formatter.write_str("remembered"),
            Decider::ConnectionEnd => formatter.write_str(CONNECTION_END),
            Decider::Other(name) => formatter.write_str(name),
        }
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement<A> {
    /// Nobody has answered yet.
    Pending,
    /// It was answered.
    Answered {
        /// The answer.
        answer: A,
        /// Who answered.
        by: Decider,
        /// When.
        at: Moment,
    },
    /// It was taken back, or dismissed without a choice. This is no approval.
    Cancelled {
        /// Who did.
        by: Decider,
        /// When.
        at: Moment,
    },
    /// It was answered with something that is no choice: an outcome that nobody here knows, an option that was not
    /// offered, or what cannot be read. This is no approval.
    NotAnApproval {
        /// What was answered, in words.
        reason: Arc<str>,
        /// Who did.
        by: Decider,
        /// When.
        at: Moment,
    },
}

impl<A> Settlement<A> {
    /// Whether an answer is still awaited.
    pub fn is_pending(&self) -> bool {
        matches!(self, Settlement::Pending)
    }
}

/// A permission that the agent asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Permission {
    pub(crate) id: RequestId<'static>,
    pub(crate) title: Arc<str>,
    pub(crate) description: Option<Arc<str>>,
    pub(crate) subject: Option<Arc<v2::RequestPermissionSubject<'static>>>,
    pub(crate) options: Arc<[v2::PermissionOption<'static>]>,
    pub(crate) meta: Option<Meta<'static>>,
    pub(crate) extra: Extra<'static>,
    pub(crate) opened_at: Moment,
    pub(crate) position: usize,
    pub(crate) settlement: Settlement<Arc<str>>,
    pub(crate) revision: u64,
    pub(crate) content_revision: u64,
}

impl Permission {
    pub(crate) fn new(
        id: &RequestId<'_>,
        request: &v2::RequestPermissionRequest<'_>,
        at: Moment,
        position: usize,
    ) -> Self {
        let own_option = |option: &v2::PermissionOption<'_>| option.clone().into_owned();
        Permission {
            id: id.clone().into_owned(),
            title: (*request.title).into(),
            description: request.description.as_deref().map(Into::into),
            subject: request.subject.as_ref().map(|subject| Arc::new(subject.clone().into_owned())),
            options: request.options.iter().map(own_option).collect(),
            meta: request.meta.as_ref().map(|meta| meta.clone().into_owned()),
            extra: request.extra.clone().into_owned(),
            opened_at: at,
            position,
            settlement: Settlement::Pending,
            revision: 0,
            content_revision: 0,
        }
    }

    /// The id of the request on the wire.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// The headline of the prompt.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// More words of the prompt.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// What it is about. A client that does not know the kind shows title, description and options.
    pub fn subject(&self) -> Option<&v2::RequestPermissionSubject<'static>> {
        self.subject.as_deref()
    }

    /// The tool call that it is about, where it is about one. It may not be known.
    pub fn tool_call_id(&self) -> Option<&str> {
        match self.subject()? {
            v2::RequestPermissionSubject::ToolCall(subject) => Some(&subject.tool_call.tool_call_id),
            v2::RequestPermissionSubject::Command(subject) => subject.tool_call_id.as_deref(),
            v2::RequestPermissionSubject::Unknown(_) => None,
            v2::RequestPermissionSubject::More(none) => none.never(),
        }
    }

    /// What the user can choose from.
    pub fn options(&self) -> &[v2::PermissionOption<'static>] {
        &self.options
    }

    /// Metadata of the request.
    pub fn meta(&self) -> Option<&Meta<'static>> {
        self.meta.as_ref()
    }

    /// Keys of the request that the protocol does not define.
    pub fn extra(&self) -> &Extra<'static> {
        &self.extra
    }

    /// When it was made.
    pub fn opened_at(&self) -> Moment {
        self.opened_at
    }

    /// How many entries the transcript had then: where to show it.
    pub fn position(&self) -> usize {
        self.position
    }

    /// What became of it; the answer is the id of an option.
    pub fn settlement(&self) -> &Settlement<Arc<str>> {
        &self.settlement
    }

    /// The option that was chosen, if one was.
    pub fn chosen(&self) -> Option<&v2::PermissionOption<'static>> {
        match &self.settlement {
            Settlement::Answered { answer, .. } => self.option(answer),
            Settlement::Pending | Settlement::Cancelled { .. } | Settlement::NotAnApproval { .. } => None,
        }
    }

    /// Whether the user said yes. Everything else, also a choice of an unknown kind, is no.
    pub fn is_granted(&self) -> bool {
        let kind = self.chosen().map(|option| &option.kind);
        matches!(kind, Some(v2::PermissionOptionKind::AllowOnce | v2::PermissionOptionKind::AllowAlways))
    }

    pub(crate) fn option(&self, id: &str) -> Option<&v2::PermissionOption<'static>> {
        self.options.iter().find(|option| option.option_id == id)
    }

    /// The session's revision at which it last changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The session's revision at which what is asked last changed: the words of the prompt, its subject and options,
    /// or the tool call that it is about, as it is folded. Who shows the question remembers this number, and refuses
    /// an answer that was given to an older one.
    pub fn content_revision(&self) -> u64 {
        self.content_revision
    }
}

/// Data that the agent asks the user for.
#[derive(Debug, Clone, PartialEq)]
pub struct Elicitation {
    pub(crate) id: RequestId<'static>,
    pub(crate) request: Arc<v2::CreateElicitationRequest<'static>>,
    pub(crate) opened_at: Moment,
    pub(crate) position: usize,
    pub(crate) settlement: Settlement<Arc<v2::CreateElicitationResponse<'static>>>,
    pub(crate) completed: bool,
    pub(crate) revision: u64,
}

impl Elicitation {
    /// The id of the request on the wire.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// What is asked, and how.
    pub fn request(&self) -> &v2::CreateElicitationRequest<'static> {
        &self.request
    }

    /// When it was made.
    pub fn opened_at(&self) -> Moment {
        self.opened_at
    }

    /// How many entries the transcript had then: where to show it.
    pub fn position(&self) -> usize {
        self.position
    }

    /// What became of it. An answer of an unknown kind is to be handled as `cancel`.
    pub fn settlement(&self) -> &Settlement<Arc<v2::CreateElicitationResponse<'static>>> {
        &self.settlement
    }

    /// Whether the agent said that the web page is done with.
    pub fn is_completed(&self) -> bool {
        self.completed
    }

    /// The session's revision at which it last changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The id that a web page's completion names.
    pub(crate) fn page(&self) -> Option<&str> {
        match &*self.request {
            v2::CreateElicitationRequest::Url(url) => Some(&url.elicitation_id),
            _ => None,
        }
    }
}
