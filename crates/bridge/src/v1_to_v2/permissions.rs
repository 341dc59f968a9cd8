//! Permission requests. Version 1 has no words of a prompt apart from the tool call's own: they are put into the
//! call for as long as the question is open.

use switchboard_protocol::rpc::{Request, RequestId, Response};
use switchboard_protocol::{Text, Wire, WireFormat, v1, v2};

use super::{ToClient, V1ToV2};
use crate::Side;
use crate::convert::permission::options_to_v1;
use crate::loss::{At, Notes, Severity};
use crate::shared::Shared;

/// A question that the client has been asked.
#[derive(Debug)]
pub(super) struct Asked {
    /// The agent's id of it.
    pub(super) id: RequestId<'static>,
    session: String,
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

const CANCELLED: &str = r#"{"outcome":{"outcome":"cancelled"}}"#;

impl V1ToV2 {
    pub(super) fn permission(&mut self, request: &Request<'_>, shared: &mut Shared) {
        let params: v2::RequestPermissionRequest<'_> =
            match shared.params(Side::Agent, request, WireFormat::Any) {
                Ok(params) => params,
                Err(error) => return shared.fail(Side::Agent, &request.id, error.to_rpc()),
            };
        let session_id = params.session_id.clone().into_owned();
        let mut notes = Notes::default();
        let options = options_to_v1(params.options, &At::key("options"), &mut notes).unwrap_or_default();
        shared.note(Some(&session_id), "session/request_permission", notes.entries, Side::Client);
        if options.is_empty() {
            shared.respond(Side::Agent, &request.id, CANCELLED);
            let words = format!("[The agent asked \"{}\" in a way that cannot be shown here]", params.title);
            return self.sessions.open(&session_id).say(&session_id, &words, shared);
        }
        let offered = options.iter().map(|option| option.option_id.clone().into_owned()).collect();
        let (call, content, about) = match params.subject {
            Some(v2::RequestPermissionSubject::ToolCall(subject)) => self.embed_prompt(
                &session_id,
                subject.tool_call,
                &params.title,
                params.description.as_ref(),
                shared,
            ),
            other => self.synthesize(&session_id, &params.title, params.description, other, shared),
        };
        let asked = Asked {
            id: request.id.clone().into_owned(),
            session: session_id.clone(),
            call: call.tool_call_id.clone().into_owned(),
            about,
            offered,
        };
        let mut wire = v1::RequestPermissionRequest::new(session_id, call, options);
        (wire.meta, wire.extra) = (params.meta, params.extra);
        let mut text = wire.encode(WireFormat::V1);
        if let Some(content) = content {
            text = with_content(&wire, &content);
        }
        self.to_client.ask(
            &request.id,
            "session/request_permission",
            &text,
            ToClient::Permission(asked),
            shared,
        );
    }

    /// The agent's call with the words of the prompt.
    fn embed_prompt(
        &mut self,
        session_id: &str,
        patch: v2::ToolCallUpdate<'_>,
        title: &str,
        description: Option<&Text<'_>>,
        shared: &mut Shared,
    ) -> (v1::ToolCallUpdate<'static>, Option<String>, About) {
        let session = self.sessions.open(session_id);
        let call_id = patch.tool_call_id.clone().into_owned();
        session.flush_call(session_id, &call_id, shared);
        let (mut wire, replaced) = session.patch(session_id, patch, "session/request_permission", shared);
        let announced = session.calls.get(&call_id).is_some_and(|call| call.announced);
        if !announced {
            session.postpone(&call_id, wire.clone());
        }
        let stored = session.calls.get(&call_id).and_then(|call| call.title.clone());
        let renamed = stored.as_deref() != Some(title);
        wire.title = Some(Text::Owned(title.to_owned()));
        let mut content = None;
        if replaced || description.is_some() {
            content = session.content_of(&call_id, shared.now);
        }
        if let (Some(description), Some(content)) = (description, &mut content) {
            let words = v1::ContentBlock::text(description.clone());
            let mut leading = v1::ToolCallContent::Content(v1::Content::new(words)).encode(WireFormat::V1);
            if content.len() > 2 {
                leading.push(',');
            }
            content.insert_str(1, &leading);
        }
        let about = if renamed || description.is_some() || !announced {
            About::Disguised { content: description.is_some() }
        } else {
            About::Call
        };
        (wire, content, about)
    }

    /// A call that carries a question which is about none.
    fn synthesize(
        &mut self,
        session_id: &str,
        title: &str,
        description: Option<Text<'_>>,
        subject: Option<v2::RequestPermissionSubject<'_>>,
        shared: &mut Shared,
    ) -> (v1::ToolCallUpdate<'static>, Option<String>, About) {
        self.synthetic += 1;
        let mut call = v1::ToolCallUpdate::new(format!("bridge-perm-{}", self.synthetic));
        call.title = Some(Text::Owned(title.to_owned()));
        call.kind = Some(v1::ToolKind::Other);
        call.status = Some(v1::ToolCallStatus::Pending);
        let mut words: Vec<String> = description.map(Text::into_owned).into_iter().collect();
        match subject {
            None => {}
            Some(v2::RequestPermissionSubject::Command(command)) => {
                call.kind = Some(v1::ToolKind::Execute);
                words.push(format!("{}\n\n(in {})", command.command, command.cwd));
            }
            Some(other) => {
                let reason = format!(
                    "version 1 permissions are about tool calls, not \"{}\"; only the words are shown",
                    other.tag()
                );
                shared.lose(
                    Some(session_id),
                    "session/request_permission",
                    "subject",
                    reason,
                    Severity::Major,
                    Side::Client,
                );
            }
        }
        if !words.is_empty() {
            let item =
                |text: String| v1::ToolCallContent::Content(v1::Content::new(v1::ContentBlock::text(text)));
            call.content = Some(words.into_iter().map(item).collect());
        }
        (call, None, About::Synthetic)
    }

    pub(super) fn permission_answered(&mut self, asked: &Asked, response: Response<'_>, shared: &mut Shared) {
        let mut selected = false;
        match response.outcome {
            Err(error) => shared.fail(Side::Agent, &asked.id, error),
            Ok(result) => {
                let answer = v1::RequestPermissionResponse::decode_tolerant(result.as_str(), WireFormat::V1);
                selected = matches!(
                    &answer,
                    Ok((v1::RequestPermissionResponse {
                        outcome: v1::RequestPermissionOutcome::Selected(choice), ..
                    }, _)) if asked.offered.iter().any(|offered| *offered == choice.option_id)
                );
                let is_cancelled = matches!(
                    &answer,
                    Ok((
                        v1::RequestPermissionResponse {
                            outcome: v1::RequestPermissionOutcome::Cancelled(_),
                            ..
                        },
                        _
                    ))
                );
                if selected || is_cancelled {
                    shared.respond(Side::Agent, &asked.id, result.as_str());
                } else {
                    // Whatever it was, it was no approval.
                    let reason = "an answer that was not offered counts as none";
                    shared.lose(
                        Some(&asked.session),
                        "session/request_permission",
                        "outcome",
                        reason,
                        Severity::Major,
                        Side::Agent,
                    );
                    shared.respond(Side::Agent, &asked.id, CANCELLED);
                }
            }
        }
        self.undisguise(asked, selected, shared);
    }

    /// The agent has taken its question back.
    pub(super) fn permission_withdrawn(&mut self, asked: &Asked, shared: &mut Shared) {
        shared.respond(Side::Agent, &asked.id, CANCELLED);
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
                let update = v1::SessionUpdate::ToolCallUpdate(Box::new(wire));
                let params = v1::SessionNotification::new(&*asked.session, update);
                shared.send_update(Side::Client, &params, WireFormat::V1);
            }
        }
    }
}

/// The request as text, with content that is text already.
fn with_content(wire: &v1::RequestPermissionRequest<'_>, content: &str) -> String {
    let mut text = String::from(r#"{"sessionId":"#);
    wire.session_id.encode_into(&mut text, WireFormat::V1);
    text.push_str(r#","toolCall":"#);
    wire.tool_call.encode_into(&mut text, WireFormat::V1);
    text.pop();
    text.push_str(r#","content":"#);
    text.push_str(content);
    text.push_str(r#"},"options":"#);
    wire.options.encode_into(&mut text, WireFormat::V1);
    if let Some(meta) = &wire.meta {
        text.push_str(r#","_meta":"#);
        meta.encode_into(&mut text, WireFormat::V1);
    }
    for (key, value) in wire.extra.iter() {
        text.push(',');
        Text::Borrowed(key).encode_into(&mut text, WireFormat::V1);
        text.push(':');
        value.encode_into(&mut text, WireFormat::V1);
    }
    text.push('}');
    text
}
