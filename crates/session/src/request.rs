//! Questions of the agent to the user: permissions and elicitations. They are independent of tool calls, and
//! several can be pending.

use std::fmt;
use std::sync::Arc;

use switchboard_acp::rpc::RequestId;
use switchboard_acp::{Extra, Meta, Moment, Side, Wire, v2};

/// Author of a decision about a question.
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
    /// The client, without further information: its answer was seen on the wire.
    Client,
    /// The agent, which cancelled the question.
    Agent,
    /// A user who was asked.
    User,
    /// A policy rule, by its name.
    Rule(Arc<str>),
    /// A remembered choice.
    Remembered,
    /// The end of the connection.
    ConnectionEnd,
    /// Another author, described by the caller.
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

/// State of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement<A> {
    /// Not answered yet.
    Pending,
    /// Answered.
    Answered {
        /// The answer.
        answer: A,
        /// Author of the answer.
        by: Decider,
        /// Time of the answer.
        at: Moment,
    },
    /// Cancelled, or dismissed without a choice. Not an approval.
    Cancelled {
        /// Author.
        by: Decider,
        /// Time.
        at: Moment,
    },
    /// Answered with something that is not a choice: an unknown outcome, an option that was not offered, or
    /// unreadable data. Not an approval.
    NotAnApproval {
        /// The answer in words.
        reason: Arc<str>,
        /// Author.
        by: Decider,
        /// Time.
        at: Moment,
    },
}

impl<A> Settlement<A> {
    /// Returns true if the request is pending.
    pub fn is_pending(&self) -> bool {
        matches!(self, Settlement::Pending)
    }
}

/// A permission request of the agent.
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

    /// Returns the id of the request on the wire.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// Returns the title of the prompt.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the description of the prompt.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns the subject. A client that does not know its kind shows title, description and options.
    pub fn subject(&self) -> Option<&v2::RequestPermissionSubject<'static>> {
        self.subject.as_deref()
    }

    /// Returns the tool call of the subject, if there is one. It may not be known.
    pub fn tool_call_id(&self) -> Option<&str> {
        match self.subject()? {
            v2::RequestPermissionSubject::ToolCall(subject) => Some(&subject.tool_call.tool_call_id),
            v2::RequestPermissionSubject::Command(subject) => subject.tool_call_id.as_deref(),
            v2::RequestPermissionSubject::Unknown(_) => None,
            v2::RequestPermissionSubject::More(none) => none.never(),
        }
    }

    /// Returns the options.
    pub fn options(&self) -> &[v2::PermissionOption<'static>] {
        &self.options
    }

    /// Returns the metadata of the request.
    pub fn meta(&self) -> Option<&Meta<'static>> {
        self.meta.as_ref()
    }

    /// Returns the unknown keys of the request.
    pub fn extra(&self) -> &Extra<'static> {
        &self.extra
    }

    /// Returns the time of the request.
    pub fn opened_at(&self) -> Moment {
        self.opened_at
    }

    /// Returns the number of entries in the transcript at that time, which is the position to show it.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the state. The answer is the id of an option.
    pub fn settlement(&self) -> &Settlement<Arc<str>> {
        &self.settlement
    }

    /// Returns the selected option, if any.
    pub fn chosen(&self) -> Option<&v2::PermissionOption<'static>> {
        match &self.settlement {
            Settlement::Answered { answer, .. } => self.option(answer),
            Settlement::Pending | Settlement::Cancelled { .. } | Settlement::NotAnApproval { .. } => None,
        }
    }

    /// Returns true if the user allowed it. Everything else, including an option of an unknown kind, counts
    /// as rejected.
    pub fn is_granted(&self) -> bool {
        let kind = self.chosen().map(|option| &option.kind);
        matches!(kind, Some(v2::PermissionOptionKind::AllowOnce | v2::PermissionOptionKind::AllowAlways))
    }

    pub(crate) fn option(&self, id: &str) -> Option<&v2::PermissionOption<'static>> {
        self.options.iter().find(|option| option.option_id == id)
    }

    /// Returns the session's revision at which it last changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the session's revision at which the question last changed: its text, subject and options, or
    /// the tool call that it refers to. A client remembers this number with the displayed question, so that
    /// answers to an older one are refused.
    pub fn content_revision(&self) -> u64 {
        self.content_revision
    }
}

/// An elicitation: a request of the agent for data.
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
    /// Returns the id of the request on the wire.
    pub fn id(&self) -> &RequestId<'static> {
        &self.id
    }

    /// Returns the request.
    pub fn request(&self) -> &v2::CreateElicitationRequest<'static> {
        &self.request
    }

    /// Returns the time of the request.
    pub fn opened_at(&self) -> Moment {
        self.opened_at
    }

    /// Returns the number of entries in the transcript at that time, which is the position to show it.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the state. An answer of an unknown kind counts as `cancel`.
    pub fn settlement(&self) -> &Settlement<Arc<v2::CreateElicitationResponse<'static>>> {
        &self.settlement
    }

    /// Returns true if the agent reported that the user has finished the web page.
    pub fn is_completed(&self) -> bool {
        self.completed
    }

    /// Returns the session's revision at which it last changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the id with which the completion of a web page refers to it.
    pub(crate) fn page(&self) -> Option<&str> {
        match &*self.request {
            v2::CreateElicitationRequest::Url(url) => Some(&url.elicitation_id),
            _ => None,
        }
    }
}
