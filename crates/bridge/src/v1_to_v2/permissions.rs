//! Permission requests. Version 1 has no title or description apart from the tool call's own, so they are put
//! into the tool call while the question is pending.

use switchboard_acp::rpc::{Request, RequestId, Response};
use switchboard_acp::{Extra, Raw, Text, WireFormat, v1, v2};

use super::subagents::SessionRelation;
use super::tool_calls::{Call, CallPosition, Layout, put};
use super::{Active, ToClient, V1ToV2};
use crate::Side;
use crate::context::session_of;
use crate::convert::message::Rest;
use crate::convert::permission::{self, Question, SYNTHETIC, Subject};
use crate::loss::Severity;

const METHOD: &str = "session/request_permission";

/// A pending question to the client.
#[derive(Debug)]
pub(super) struct OpenPermission {
    pub(super) session: String,
    call: String,
    change: CallChange,
    /// Question text of a sub-agent. It is sent again with the answer, for clients that show calls as last
    /// updated.
    asked_by_child: Option<String>,
    offered: Vec<String>,
}

/// Treatment of the tool call after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallChange {
    /// A call of the agent that was not changed.
    Call,
    /// A call of the agent that shows the question's title and description.
    Embedded { content: bool },
    /// A call that only carries the question.
    Synthetic,
}

impl V1ToV2 {
    pub(super) fn permission(&mut self, request: &Request<'_>) {
        // Checked first: nothing below may change tool calls for a question that is never asked.
        if self.to_client.is_full() {
            return self.context.refuse_full(Side::Agent, &request.id);
        }
        let asker = session_of(request.params.as_ref()).unwrap_or_default();
        let relation = self.relation(&asker);
        // The client has no session in which it could show the question.
        if relation == SessionRelation::Unknown {
            return self.refuse_unlinked(&request.id, &asker, METHOD);
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
        // Questions of sub-agents are asked in the session that the client opened.
        let (session_id, question, of_child) = match relation {
            SessionRelation::Child => self.child_question(&asker, question),
            _ => (asker.clone(), question, None),
        };
        let Question { session_id: told_id, title, description, subject, options, rest } = question;
        // Fail closed: without a valid option the answer is `cancelled`, and the user sees that a question
        // was dropped.
        if options.is_empty() {
            self.context.respond(Side::Agent, &request.id, &permission::cancelled(), &Extra::new());
            let reason = "no option is left to choose from";
            self.context.report_loss(Some(&session_id), METHOD, "", reason, Severity::Major, Side::Client);
            let words = format!("[The agent asked \"{title}\" in a way that cannot be shown here]");
            return self.active(&session_id).say(&words, Rest::default());
        }
        let offered = options.iter().map(|option| option.option_id.clone().into_owned()).collect();
        let (mut tool_call, change) = match subject {
            Subject::ToolCall(call) => {
                self.active(&session_id).embed_prompt(*call, &title, description.as_ref())
            }
            other => self.synthesize(&session_id, &title, description, other),
        };
        // The content of the sub-agent's call is added to the call that carries the question.
        if relation == SessionRelation::Child {
            match of_child {
                Some(call) => self.show_subject(&asker, *call, &mut tool_call),
                None => self.show(&asker, 0),
            }
        }
        let asked_by_child = (relation == SessionRelation::Child).then(|| title.into_owned());
        let call = tool_call.tool_call_id.clone().into_owned();
        let asked = OpenPermission { session: session_id, call, change, asked_by_child, offered };
        let Rest { meta, extra } = rest;
        let wire = v1::RequestPermissionRequest {
            session_id: told_id,
            tool_call,
            options,
            meta,
            extra,
            more: switchboard_acp::More,
        };
        // Sent last: all updates that the question refers to precede it.
        self.to_client.ask(request, METHOD, &wire, ToClient::Permission(asked), &mut self.context);
    }

    /// Creates a tool call that carries a question without one.
    fn synthesize(
        &mut self,
        session_id: &str,
        title: &str,
        description: Option<Text<'_>>,
        subject: Subject<'_>,
    ) -> (v1::ToolCallUpdate<'static>, CallChange) {
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
        // The call's id identifies the layout of its content, so the description needs no mark.
        let text =
            |text: String| v1::ToolCallContent::Content(v1::Content::new(v1::ContentBlock::text(text)));
        let mut content: Vec<_> = description.map(|words| text(words.into_owned())).into_iter().collect();
        if let Subject::Command(command, cwd) = subject {
            call.kind = Some(v1::ToolKind::Execute);
            content.push(text(format!("{command}\n\n(in {cwd})")));
        }
        call.content = Some(content).filter(|content| !content.is_empty());
        (call, CallChange::Synthetic)
    }

    pub(super) fn permission_answered(
        &mut self,
        id: &RequestId<'static>,
        asked: &OpenPermission,
        response: Response<'_>,
    ) {
        // The agent gets its answer before the tool call is restored.
        let selected = self.context.answer_question(id, &asked.session, &asked.offered, response);
        self.remove_prompt(asked, selected);
    }

    /// Handles the agent's cancellation of a question.
    pub(super) fn permission_cancelled(&mut self, id: &RequestId<'static>, asked: &OpenPermission) {
        self.context.respond(Side::Agent, id, &permission::cancelled(), &Extra::new());
        self.remove_prompt(asked, false);
    }

    /// Removes the question's text from the tool call.
    fn remove_prompt(&mut self, asked: &OpenPermission, selected: bool) {
        match asked.change {
            CallChange::Call => {}
            CallChange::Embedded { content } => {
                // Title and content return to the agent's own.
                self.active(&asked.session).restore(&asked.call, content);
            }
            CallChange::Synthetic => {
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
    /// Returns the agent's tool call with the question's title and description.
    fn embed_prompt(
        &mut self,
        mut patch: v2::ToolCallUpdate<'_>,
        title: &str,
        description: Option<&Text<'_>>,
    ) -> (v1::ToolCallUpdate<'static>, CallChange) {
        patch.tool_call_id = self.session.own_calls.disambiguate(patch.tool_call_id);
        let call_id = patch.tool_call_id.clone().into_owned();
        // The client must have all content before the question changes its order.
        self.flush_call(&call_id);
        let place = CallPosition { message: METHOD, root: "/params/subject/toolCall" };
        let (mut wire, replaced) = self.patch(patch, place);
        let known = self.session.calls.get(&call_id);
        // Compare before the question's title is applied.
        let announced = known.is_some_and(|call| call.announced);
        let renamed = known.and_then(|call| call.title.as_deref()) != Some(title);
        // Some clients show only the first item of the request, so a diff must be present and first.
        let shows_diff = known.is_some_and(Call::shows_diff);
        let changes_content = description.is_some() || known.is_some_and(|call| !call.begins_with_diffs());
        // An unannounced call stays unannounced: the question must not create it twice.
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
        // Remember the changes to undo after the answer.
        let change = if renamed || changes_content || !announced {
            CallChange::Embedded { content: changes_content }
        } else {
            CallChange::Call
        };
        (wire, change)
    }
}
