//! Permission requests. Version 1 has no words of a prompt apart from the tool call's own: they are put into the
//! call for as long as the question is open.

use switchboard_acp::rpc::{Request, RequestId, Response};
use switchboard_acp::{Extra, Raw, Text, WireFormat, v1, v2};

use super::subagents::Standing;
use super::tool_calls::{Call, Layout, Place, put};
use super::{Active, ToClient, V1ToV2};
use crate::Side;
use crate::context::session_of;
use crate::convert::message::Rest;
use crate::convert::permission::{self, Question, SYNTHETIC, Subject};
use crate::loss::Severity;

const METHOD: &str = "session/request_permission";

/// A question that the client has been asked.
#[derive(Debug)]
pub(super) struct OpenPermission {
    pub(super) session: String,
    call: String,
    about: About,
    /// What a sub-agent asked: it is told again with the answer, for clients that show calls by what they are told last.
    asked_by_child: Option<String>,
    offered: Vec<String>,
}

/// What becomes of the call after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// A call of the agent whose words were not changed.
    Call,
    /// A call of the agent that shows the words of the prompt.
    Embedded { content: bool },
    /// A call that exists only to carry the question.
    Synthetic,
}

impl V1ToV2 {
    pub(super) fn permission(&mut self, request: &Request<'_>) {
        if self.to_client.is_full() {
            return self.context.refuse_full(Side::Agent, &request.id);
        }
        let asker = session_of(request.params.as_ref()).unwrap_or_default();
        let standing = self.standing(&asker);
        if standing == Standing::Stranger {
            return self.refuse_strange(&request.id, &asker, METHOD);
        }
        let question = self.context.params(Side::Agent, request).and_then(|params| {
            self.context.convert(Some(&asker), METHOD, "/params", Side::Client, |cx| {
                permission::question_to_v1(params, cx)
            })
        });
        let question = match question {
            Ok(question) => question,
            Err(error) => return self.context.fail(Side::Agent, &request.id, error.to_rpc()),
        };
        let (session_id, question, of_child) = match standing {
            Standing::Child => self.child_question(&asker, question),
            _ => (asker.clone(), question, None),
        };
        let Question { session_id: told_id, title, description, subject, options, rest } = question;
        if options.is_empty() {
            self.context.respond(Side::Agent, &request.id, &permission::cancelled(), &Extra::new());
            let reason = "no option is left that could be chosen";
            self.context.lose(Some(&session_id), METHOD, "", reason, Severity::Major, Side::Client);
            let words = format!("[The agent asked \"{title}\" in a way that cannot be shown here]");
            return self.active(&session_id).say(&words, Rest::default());
        }
        let offered = options.iter().map(|option| option.option_id.clone().into_owned()).collect();
        let (mut tool_call, about) = match subject {
            Subject::ToolCall(call) => {
                self.active(&session_id).embed_prompt(*call, &title, description.as_ref())
            }
            other => self.synthesize(&session_id, &title, description, other),
        };
        if standing == Standing::Child {
            match of_child {
                Some(call) => self.show_subject(&asker, *call, &mut tool_call),
                None => self.show(&asker, 0),
            }
        }
        let asked_by_child = (standing == Standing::Child).then(|| title.into_owned());
        let call = tool_call.tool_call_id.clone().into_owned();
        let asked = OpenPermission { session: session_id, call, about, asked_by_child, offered };
        let Rest { meta, extra } = rest;
        let wire = v1::RequestPermissionRequest {
            session_id: told_id,
            tool_call,
            options,
            meta,
            extra,
            more: switchboard_acp::More,
        };
        self.to_client.ask(request, METHOD, &wire, ToClient::Permission(asked), &mut self.context);
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
                format!("{SYNTHETIC}{}{}", self.context.salt, self.synthetic)
            },
            |id| calls.get(id).is_some(),
        );
        let mut call = v1::ToolCallUpdate::new(made);
        call.title = Some(Text::Owned(title.to_owned()));
        call.kind = Some(v1::ToolKind::Other);
        call.status = Some(v1::ToolCallStatus::Pending);
        // The id of the call shows what its content is, so that the description needs no mark.
        let text =
            |text: String| v1::ToolCallContent::Content(v1::Content::new(v1::ContentBlock::text(text)));
        let mut content: Vec<_> = description.map(|words| text(words.into_owned())).into_iter().collect();
        if let Subject::Command(command, cwd) = subject {
            call.kind = Some(v1::ToolKind::Execute);
            content.push(text(format!("{command}\n\n(in {cwd})")));
        }
        call.content = Some(content).filter(|content| !content.is_empty());
        (call, About::Synthetic)
    }

    pub(super) fn permission_answered(
        &mut self,
        id: &RequestId<'static>,
        asked: &OpenPermission,
        response: Response<'_>,
    ) {
        let selected = self.context.answer_question(id, &asked.session, &asked.offered, response);
        self.remove_prompt(asked, selected);
    }

    /// The agent has taken its question back.
    pub(super) fn permission_withdrawn(&mut self, id: &RequestId<'static>, asked: &OpenPermission) {
        self.context.respond(Side::Agent, id, &permission::cancelled(), &Extra::new());
        self.remove_prompt(asked, false);
    }

    /// Takes the words of the prompt out of the call again.
    fn remove_prompt(&mut self, asked: &OpenPermission, selected: bool) {
        match asked.about {
            About::Call => {}
            About::Embedded { content } => {
                self.active(&asked.session).restore(&asked.call, content);
            }
            About::Synthetic => {
                let status =
                    if selected { v1::ToolCallStatus::Completed } else { v1::ToolCallStatus::Failed };
                let mut wire = v1::ToolCallUpdate::new(&*asked.call);
                wire.title = asked.asked_by_child.as_deref().map(Text::Borrowed);
                wire.status = Some(status);
                self.context.update_v1(&asked.session, v1::SessionUpdate::ToolCallUpdate(Box::new(wire)));
            }
        }
    }
}

impl Active<'_> {
    /// The agent's call with the words of the prompt.
    fn embed_prompt(
        &mut self,
        mut patch: v2::ToolCallUpdate<'_>,
        title: &str,
        description: Option<&Text<'_>>,
    ) -> (v1::ToolCallUpdate<'static>, About) {
        patch.tool_call_id = self.session.own_calls.set_apart(patch.tool_call_id);
        let call_id = patch.tool_call_id.clone().into_owned();
        self.flush_call(&call_id);
        let place = Place { message: METHOD, root: "/params/subject/toolCall" };
        let (mut wire, replaced) = self.patch(patch, place);
        let known = self.session.calls.get(&call_id);
        let announced = known.is_some_and(|call| call.announced);
        let renamed = known.and_then(|call| call.title.as_deref()) != Some(title);
        // Some clients show nothing but the first item of the request, so that a diff must be there, and first.
        let shows_diff = known.is_some_and(Call::shows_diff);
        let changes_content = description.is_some() || known.is_some_and(|call| !call.begins_with_diffs());
        if !announced {
            self.postpone(&call_id, wire.clone());
        }
        if let Some(call) = self.session.calls.get(&call_id) {
            call.complete(&mut wire);
        }
        wire.title = Some(Text::Owned(title.to_owned()));
        if replaced || changes_content || shows_diff {
            let description = description.map(|description| {
                Raw::of(&permission::description_to_v1(description.clone()), WireFormat::V1)
            });
            put(self.content_of(&call_id, Layout::Question { description }), &mut wire.extra);
        }
        let about = if renamed || changes_content || !announced {
            About::Embedded { content: changes_content }
        } else {
            About::Call
        };
        (wire, about)
    }
}
