//! Permission requests and their responses.

use switchboard_acp::v2::{PermissionOption, PermissionOptionKind};
use switchboard_acp::{Text, v1, v2};

use crate::Error;
use crate::convert::meta::{self, Origin};
use crate::convert::{
    Conversion,
    content::{plain_text, whole},
    message::Rest,
};
use crate::loss::Severity;

/// A question for version 1. The caller builds the tool call of its subject.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) session_id: Text<'a>,
    pub(crate) title: Text<'a>,
    pub(crate) description: Option<Text<'a>>,
    pub(crate) subject: Subject<'a>,
    pub(crate) options: Vec<PermissionOption<'a>>,
    pub(crate) rest: Rest<'a>,
}

/// Subject of a question.
#[derive(Debug)]
pub(crate) enum Subject<'a> {
    ToolCall(Box<v2::ToolCallUpdate<'a>>),
    /// A command line and its working directory.
    Command(Text<'a>, Text<'a>),
    /// Anything else.
    Other,
}

/// Splits a question of version 2. Parts of its subject that version 1 does not have are kept as metadata.
pub(crate) fn question_to_v1<'a>(
    request: v2::RequestPermissionRequest<'a>,
    cx: &mut Conversion<'_>,
) -> Result<Question<'a>, Error> {
    let v2::RequestPermissionRequest {
        session_id,
        title,
        description,
        subject,
        options,
        mut meta,
        mut extra,
        more: _,
    } = request;
    meta::disambiguate(&mut meta, Origin::V2, &mut extra, &["toolCall"]);
    let subject = match subject {
        None => Subject::Other,
        Some(v2::RequestPermissionSubject::ToolCall(subject)) => {
            let v2::ToolCallPermissionSubject { tool_call, meta: inner, extra: more, more: _ } = *subject;
            if inner.is_some() || !more.is_empty() {
                let rest = v2::EmptyObject { meta: inner, extra: more, more: switchboard_acp::More };
                meta::add(&mut meta, meta::SUBJECT, &meta::raw(&rest));
            }
            Subject::ToolCall(Box::new(tool_call))
        }
        Some(v2::RequestPermissionSubject::Command(subject)) => {
            let (command, cwd) = (subject.command.clone(), subject.cwd.clone());
            // Keep the subject as metadata if it has more than command and directory.
            if subject != v2::CommandPermissionSubject::new(command.clone(), cwd.clone()) {
                meta::add(&mut meta, meta::SUBJECT, &meta::raw(&subject));
            }
            Subject::Command(command, Text::Owned(cwd.as_str().to_owned()))
        }
        Some(v2::RequestPermissionSubject::Unknown(unknown)) => {
            let reason = format!(
                "version 1 permissions are about tool calls, not \"{}\"; only title and description are shown",
                unknown.tag
            );
            cx.key("subject").report_loss(Severity::Major, reason)?;
            meta::add(&mut meta, meta::SUBJECT, &whole(&unknown, "type"));
            Subject::Other
        }
        Some(v2::RequestPermissionSubject::More(none)) => none.never(),
    };
    let options = options_to_v1(options, &mut cx.key("options"))?;
    Ok(Question { session_id, title, description, subject, options, rest: Rest { meta, extra } })
}

/// Converts options to version 1. An unknown kind is only a hint and must not become an approval.
fn options_to_v1<'a>(
    options: Vec<PermissionOption<'a>>,
    cx: &mut Conversion<'_>,
) -> Result<Vec<PermissionOption<'a>>, Error> {
    let mut kept = Vec::with_capacity(options.len());
    for (index, option) in options.into_iter().enumerate() {
        if let PermissionOptionKind::Unknown(word) = &option.kind {
            let reason = format!("version 1 has no option of kind \"{word}\"; it is not offered");
            cx.item(index).report_loss(Severity::Major, reason)?;
        } else {
            kept.push(option);
        }
    }
    Ok(kept)
}

/// Converts the description of a question to content of its tool call. A mark distinguishes it from other
/// content when the question is translated back.
pub(crate) fn description_to_v1(description: Text<'_>) -> v1::ToolCallContent<'_> {
    let mut content = v1::Content::new(v1::ContentBlock::text(description));
    meta::add(&mut content.meta, meta::DESCRIPTION, &meta::raw(&true));
    v1::ToolCallContent::Content(content)
}

/// Prefix of the ids of tool calls that only carry a question without a tool call of its own.
pub(crate) const SYNTHETIC: &str = "bridge-perm-";

/// Removes and returns the description of a version 2 question from the content of its tool call, after a
/// round trip through version 1.
fn take_description<'a>(call: &mut v1::ToolCallUpdate<'a>) -> Option<Text<'a>> {
    let is_synthetic = call.tool_call_id.starts_with(SYNTHETIC);
    // Such a call has the description and, if the subject is a command, the command after it.
    let of_command = usize::from(call.kind == Some(v1::ToolKind::Execute));
    let items = call.content.as_mut()?;
    let has_description = is_synthetic && items.len() == 1 + of_command;
    let place = items.iter().enumerate().position(|(index, item)| match item {
        v1::ToolCallContent::Content(item) => {
            let is_marked = item.meta.as_ref().is_some_and(|meta| meta.get(meta::DESCRIPTION).is_some());
            (is_marked || (has_description && index == 0)) && plain_text(&item.content).is_some()
        }
        _ => false,
    })?;
    let v1::ToolCallContent::Content(item) = items.remove(place) else { return None };
    // An empty list would clear content; the call keeps its content instead.
    call.content = call.content.take().filter(|items| !items.is_empty());
    plain_text(&item.content).map(|text| Text::Owned(text.to_owned()))
}

/// Converts a question of version 1 with the converter of the caller for its tool call. `title` is the
/// question's title.
pub(crate) fn question_to_v2<'a>(
    request: v1::RequestPermissionRequest<'a>,
    title: Text<'a>,
    convert_call: impl FnOnce(v1::ToolCallUpdate<'a>) -> Result<v2::ToolCallUpdate<'a>, Error>,
) -> Result<v2::RequestPermissionRequest<'a>, Error> {
    let v1::RequestPermissionRequest { session_id, mut tool_call, options, mut meta, mut extra, more: _ } =
        request;
    let description = take_description(&mut tool_call);
    meta::disambiguate(&mut meta, Origin::V1, &mut extra, &["title", "description", "subject"]);
    let subject = v2::ToolCallPermissionSubject::new(convert_call(tool_call)?);
    let subject = Some(v2::RequestPermissionSubject::ToolCall(Box::new(subject)));
    Ok(v2::RequestPermissionRequest {
        session_id,
        title,
        description,
        subject,
        options,
        meta,
        extra,
        more: switchboard_acp::More,
    })
}

/// Validates an answer: only an option that was offered counts as selected, anything else as `cancelled`.
/// Also returns whether an option was selected.
pub(crate) fn answer<'a>(
    answer: v2::RequestPermissionResponse<'a>,
    offered: &[String],
    cx: &mut Conversion<'_>,
) -> Result<(v2::RequestPermissionResponse<'a>, bool), Error> {
    let v2::RequestPermissionResponse { outcome, meta, extra, more: _ } = answer;
    let is_offered = |id: &str| offered.iter().any(|known| known == id);
    let (outcome, is_selected) = match outcome {
        v2::RequestPermissionOutcome::Cancelled(mark) => {
            (v2::RequestPermissionOutcome::Cancelled(mark), false)
        }
        v2::RequestPermissionOutcome::Selected(choice) if is_offered(&choice.option_id) => {
            (v2::RequestPermissionOutcome::Selected(choice), true)
        }
        v2::RequestPermissionOutcome::Selected(_) | v2::RequestPermissionOutcome::Unknown(_) => {
            let reason = "the answer is unknown or was not offered; it counts as cancelled";
            cx.key("outcome").report_loss(Severity::Major, reason)?;
            (cancelled_outcome(), false)
        }
        v2::RequestPermissionOutcome::More(none) => none.never(),
    };
    Ok((v2::RequestPermissionResponse { outcome, meta, extra, more: switchboard_acp::More }, is_selected))
}

/// Returns the response `cancelled`.
pub(crate) fn cancelled() -> v2::RequestPermissionResponse<'static> {
    v2::RequestPermissionResponse::new(cancelled_outcome())
}

fn cancelled_outcome() -> v2::RequestPermissionOutcome<'static> {
    v2::RequestPermissionOutcome::Cancelled(v2::EmptyObject::new())
}

/// Formats a command as text, for peers that do not support commands as subjects.
pub(crate) fn command_in_words(subject: &v2::CommandPermissionSubject<'_>) -> String {
    format!("{}\n\n(in {})", subject.command, subject.cwd)
}
