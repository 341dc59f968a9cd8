//! Permission requests. Version 1 has no words of a prompt apart from the tool call's own: they are put into the
//! call for as long as the question is open.

use switchboard_protocol::rpc::{Request, RequestId, Response};
use switchboard_protocol::{Extra, Raw, Text, Wire, WireFormat, v1, v2};

use super::tool_calls::Place;
use super::{ToClient, V1ToV2};
use crate::Side;
use crate::bridge::refuse_full;
use crate::convert::message::Rest;
use crate::convert::permission::{self, Question, Subject};
use crate::loss::Severity;
use crate::shared::{Shared, session_of};

const METHOD: &str = "session/request_permission";

/// A question that the client has been asked.
#[derive(Debug)]
pub(super) struct Asked {
    /// The agent's id of it.
    pub(super) id: RequestId<'static>,
    pub(super) session: String,
    call: String,
    about: About,
    offered: Vec<String>,
}

/// What becomes of the call after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// A call of the agent whose words were not changed.
    Call,
    /// A call of the agent that shows the words of the prompt.
    Disguised { content: bool },
    /// A call that exists only to carry the question.
    Synthetic,
}

impl V1ToV2 {
    pub(super) fn permission(&mut self, request: &Request<'_>, shared: &mut Shared) {
        if self.to_client.is_full() {
            return refuse_full(shared, Side::Agent, &request.id);
        }
        let session_id = session_of(request.params.as_ref()).unwrap_or_default();
        let question = shared.params(Side::Agent, request).and_then(|params| {
            shared.convert(Some(&session_id), METHOD, "/params", Side::Client, |cx| {
                permission::question_to_v1(params, cx)
            })
        });
        let question = match question {
            Ok(question) => question,
            Err(error) => return shared.fail(Side::Agent, &request.id, error.to_rpc()),
        };
        let Question { session_id: told_id, title, description, subject, options, rest } = question;
        if options.is_empty() {
            shared.respond(Side::Agent, &request.id, &permission::cancelled(), &Extra::new());
            let reason = "no option is left that could be chosen";
            shared.lose(Some(&session_id), METHOD, "", reason, Severity::Major, Side::Client);
            let words = format!("[The agent asked \"{title}\" in a way that cannot be shown here]");
            return self.sessions.open(&session_id).say(&session_id, &words, Rest::default(), shared);
        }
        let offered = options.iter().map(|option| option.option_id.clone().into_owned()).collect();
        let (tool_call, about) = match subject {
            Subject::ToolCall(call) => {
                self.embed_prompt(&session_id, *call, &title, description.as_ref(), shared)
            }
            other => self.synthesize(&session_id, &title, description, other),
        };
        let asked = Asked {
            id: request.id.clone().into_owned(),
            session: session_id,
            call: tool_call.tool_call_id.clone().into_owned(),
            about,
            offered,
        };
        let Rest { meta, extra } = rest;
        let wire = v1::RequestPermissionRequest { session_id: told_id, tool_call, options, meta, extra };
        self.to_client.ask(request, METHOD, &wire, ToClient::Permission(asked), shared);
    }

    /// The agent's call with the words of the prompt.
    fn embed_prompt(
        &mut self,
        session_id: &str,
        mut patch: v2::ToolCallUpdate<'_>,
        title: &str,
        description: Option<&Text<'_>>,
        shared: &mut Shared,
    ) -> (v1::ToolCallUpdate<'static>, About) {
        let session = self.sessions.open(session_id);
        patch.tool_call_id = session.own_calls.set_apart(patch.tool_call_id);
        let call_id = patch.tool_call_id.clone().into_owned();
        session.flush_call(session_id, &call_id, shared);
        let place = Place { message: METHOD, root: "/params/subject/toolCall" };
        let (mut wire, replaced) = session.patch(session_id, patch, place, shared);
        let announced = session.calls.get(&call_id).is_some_and(|call| call.announced);
        if !announced {
            session.postpone(session_id, &call_id, wire.clone(), shared);
        }
        let stored = session.calls.get(&call_id).and_then(|call| call.title.clone());
        let renamed = stored.as_deref() != Some(title);
        wire.title = Some(Text::Owned(title.to_owned()));
        let leading = description.map(|description| {
            let words = v1::ContentBlock::text(description.clone());
            Raw::of(&v1::ToolCallContent::Content(v1::Content::new(words)), WireFormat::V1)
        });
        if replaced || leading.is_some() {
            let content = session.content_of(&call_id, leading, shared.now);
            super::tool_calls::put(content, &mut wire.extra);
        }
        let about = if renamed || description.is_some() || !announced {
            About::Disguised { content: description.is_some() }
        } else {
            About::Call
        };
        (wire, about)
    }

    /// A call that carries a question which is about none.
    fn synthesize(
        &mut self,
        session_id: &str,
        title: &str,
        description: Option<Text<'_>>,
        subject: Subject<'_>,
    ) -> (v1::ToolCallUpdate<'static>, About) {
        let session = self.sessions.open(session_id);
        let calls = &session.calls;
        let made = session.own_calls.make(
            || {
                self.synthetic += 1;
                format!("bridge-perm-{}", self.synthetic)
            },
            |id| calls.get(id).is_some(),
        );
        let mut call = v1::ToolCallUpdate::new(made);
        call.title = Some(Text::Owned(title.to_owned()));
        call.kind = Some(v1::ToolKind::Other);
        call.status = Some(v1::ToolCallStatus::Pending);
        let mut words: Vec<String> = description.map(Text::into_owned).into_iter().collect();
        if let Subject::Command(command, cwd) = subject {
            call.kind = Some(v1::ToolKind::Execute);
            words.push(format!("{command}\n\n(in {cwd})"));
        }
        if !words.is_empty() {
            let item =
                |text: String| v1::ToolCallContent::Content(v1::Content::new(v1::ContentBlock::text(text)));
            call.content = Some(words.into_iter().map(item).collect());
        }
        (call, About::Synthetic)
    }

    pub(super) fn permission_answered(&mut self, asked: &Asked, response: Response<'_>, shared: &mut Shared) {
        let selected = shared.answer_question(&asked.id, &asked.session, &asked.offered, response);
        self.undisguise(asked, selected, shared);
    }

    /// The agent has taken its question back.
    pub(super) fn permission_withdrawn(&mut self, asked: &Asked, shared: &mut Shared) {
        shared.respond(Side::Agent, &asked.id, &permission::cancelled(), &Extra::new());
        self.undisguise(asked, false, shared);
    }

    /// Takes the words of the prompt out of the call again.
    fn undisguise(&mut self, asked: &Asked, selected: bool, shared: &mut Shared) {
        match asked.about {
            About::Call => {}
            About::Disguised { content } => {
                if let Some(session) = self.sessions.get_mut(&asked.session) {
                    session.restore(&asked.session, &asked.call, content, shared);
                }
            }
            About::Synthetic => {
                let status =
                    if selected { v1::ToolCallStatus::Completed } else { v1::ToolCallStatus::Failed };
                let mut wire = v1::ToolCallUpdate::new(&*asked.call);
                wire.status = Some(status);
                shared.update_v1(&asked.session, v1::SessionUpdate::ToolCallUpdate(Box::new(wire)));
            }
        }
    }
}
