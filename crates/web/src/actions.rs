//! Executes the actions that a user requests on the page.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_acp::{Wire, WireFormat, v2};
use switchboard_session::{Entry, EntryKind};

use super::lists;
use super::live::{Failure, Live, Said, refused};
use super::mentions;
use super::request::{Action, File, Request};
use super::rule;
use super::user_state::UserState;

/// Maximum number of files that one prompt may mention.
const MAX_MENTIONS: usize = 100;

/// Maximum size of the attachments of one prompt, in bytes of base64.
const MAX_FILES: usize = 24 * 1024 * 1024;

/// Executes a request, and returns the JSON value that the page needs for it.
pub(crate) async fn act(
    user: &UserState,
    live: Option<Arc<Live>>,
    request: Request,
) -> Result<Value, Failure> {
    match &request {
        Request::Start => return user.start().await.map(|()| Value::Null),
        Request::Delete { recording } => return user.delete(recording).await.map(|()| Value::Null),
        Request::Sessions { query, archived, skip } => {
            let any = live.or_else(|| user.any_live());
            let markup = lists::sessions(user, any.as_deref(), query, *archived, *skip).await?;
            return Ok(json!(markup.into_string()));
        }
        Request::New { folder, agent } => {
            let own = user.app.folder.display().to_string();
            let live = user.new_session(agent.as_deref(), folder.as_deref().unwrap_or(&own)).await?;
            return Ok(json!({"recording": live.room.id}));
        }
        Request::Resume { session, folder, agent } => {
            let live = user.adopt(agent.as_deref(), session, folder).await?;
            return Ok(json!({"recording": live.room.id}));
        }
        Request::Archive { session, away: false } => {
            let live = live.or_else(|| user.any_live()).ok_or("no agent is running")?;
            return reply(live.agent.unarchive_session(session).await);
        }
        _ => {}
    }
    let live = live.ok_or("this session is not open here")?;
    if let Some(reason) = live.ended() {
        return Err(format!("the connection to the session is gone: {reason}"));
    }
    match request {
        Request::Prompt { session, text, files, mentions } => {
            let said = Said { text, files, mentions };
            let content = prompt_content(&live, &said)?;
            live.prompt_unless_taken_back(&session, content, said).await.map(|was_sent| json!(was_sent))
        }
        Request::Again { session, position } => {
            let snapshot = live.room.session(&session).ok_or("there is no such session")?;
            let message = snapshot.entry(position).and_then(Entry::as_message);
            let message = message.filter(|message| message.kind() == EntryKind::UserMessage);
            let message = message.ok_or("this is no message of yours")?;
            let blocks =
                message.content().items().filter_map(|item| match (item.text(), item.structured()) {
                    (Some(text), _) => Some(v2::ContentBlock::text(text.to_owned())),
                    (None, block) => block.cloned(),
                });
            live.prompt(&session, blocks.collect()).await.map(|()| Value::Null)
        }
        Request::TakeBack { prompt } => {
            let said = live.take_back(prompt).await?;
            Ok(json!(said))
        }
        Request::Files { query } => {
            let folder = live.folder.clone();
            let paths = tokio::task::spawn_blocking(move || mentions::find(&folder, &query)).await;
            paths.map(|paths| json!(paths)).map_err(|error| error.to_string())
        }
        Request::Steer { session, text, files, mentions } => {
            let content = prompt_content(&live, &Said { text, files, mentions })?;
            live.steer(&session, content).await.map(|()| Value::Null)
        }
        Request::Fork { session } => {
            let copy = live.fork(&session).await?;
            Ok(json!({"recording": copy}))
        }
        Request::Rename { session, title } => {
            reply(live.agent.set_title(&live.wire(&session), title.trim()).await.map(|reply| reply.map(drop)))
        }
        Request::Archive { session, away: true } => {
            reply(live.agent.archive_session(&live.wire(&session)).await)
        }
        Request::Cancel { session } => {
            live.agent.cancel(&live.wire(&session)).await.map_err(|error| error.to_string())?;
            Ok(Value::Null)
        }
        Request::EndAgent => live.end_agent().await.map(|()| Value::Null),
        Request::CancelToolCall { session, id } => {
            reply(live.agent.cancel_tool_call(&live.wire(&session), &id).await)
        }
        Request::CancelTerminal { session, id } => {
            reply(live.agent.cancel_terminal(&live.wire(&session), &id).await)
        }
        Request::Choose { id, option, revision } => {
            live.choose(&id, &option, &revision).await.map(|()| Value::Null)
        }
        Request::Rule { id, revision, decision } => rule::show(user, &live, &id, &revision, decision).await,
        Request::AllowHost { host } => rule::allow_host(user, &host).await,
        Request::SaveRule { id, revision, decision, rule } => {
            rule::save(user, &live, &id, &revision, decision, &rule).await
        }
        Request::Give { id, revision, action, content } => {
            let response = elicitation_response(action, &content)?;
            live.answer_elicitation(&id, &response, &revision).await.map(|()| Value::Null)
        }
        Request::Configure { session, id, value } => configure(&live, session, id, value).await,
        Request::Login { method } => {
            live.login(&method).await?;
            // The session is open already, so the login needs no follow-up.
            if !live.room.id.is_empty() {
                return Ok(Value::Null);
            }
            let folder = live.folder.display().to_string();
            let live = user.new_session(Some(&live.name), &folder).await?;
            Ok(json!({"recording": live.room.id}))
        }
        _ => Err("this request is not possible in this session".to_owned()),
    }
}

fn reply(reply: switchboard_peer::Reply<()>) -> Result<Value, Failure> {
    reply.map_err(|error| error.to_string())?.map_err(|error| refused(&error))?;
    Ok(Value::Null)
}

/// Returns the content blocks of a prompt. Attachments use the forms that the agent's capabilities accept.
fn prompt_content(live: &Live, said: &Said) -> Result<Vec<v2::ContentBlock<'static>>, Failure> {
    let Said { text, files, mentions } = said;
    if files.iter().map(|file| file.data.len()).sum::<usize>() > MAX_FILES {
        return Err("the files are too large to send".to_owned());
    }
    let session = live.agent.description().capabilities.session.as_ref();
    let takes = session.and_then(|session| session.prompt.as_ref());
    let mut content = Vec::new();
    if !text.trim().is_empty() {
        content.push(v2::ContentBlock::text(text.clone()));
    }
    let embeds = takes.is_some_and(|takes| takes.embedded_context.is_some());
    for path in mentions.iter().take(MAX_MENTIONS) {
        content.push(mentions::block(&live.folder, path, embeds)?);
    }
    for file in files {
        let File { name, mime, data } = file;
        let mime = if mime.is_empty() { "application/octet-stream" } else { mime };
        let block = if mime.starts_with("image/") {
            takes
                .and_then(|takes| takes.image.as_ref())
                .map(|_| json!({"type": "image", "data": data, "mimeType": mime}))
        } else if mime.starts_with("audio/") {
            takes
                .and_then(|takes| takes.audio.as_ref())
                .map(|_| json!({"type": "audio", "data": data, "mimeType": mime}))
        } else {
            let uri = format!("attachment:{}", name.replace([' ', '#', '?', '%'], "_"));
            let bytes = base64_bytes(data).ok_or_else(|| format!("{name} is damaged"))?;
            takes.and_then(|takes| takes.embedded_context.as_ref()).map(|_| match String::from_utf8(bytes) {
                Ok(text) => {
                    json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": text}})
                }
                Err(_) => {
                    json!({"type": "resource", "resource": {"uri": uri, "mimeType": mime, "blob": data}})
                }
            })
        };
        let block = block.ok_or_else(|| format!("the agent does not take {name} ({mime})"))?;
        let block = block.to_string();
        let block = v2::ContentBlock::decode(&block, WireFormat::Any)
            .map_err(|reason| format!("{name} cannot be sent: {reason}"))?;
        content.push(block.into_owned());
    }
    if content.is_empty() {
        return Err("the prompt is empty".to_owned());
    }
    Ok(content)
}

fn base64_bytes(data: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(data).ok()
}

fn elicitation_response(
    action: Action,
    content: &serde_json::Map<String, Value>,
) -> Result<v2::CreateElicitationResponse<'static>, Failure> {
    let response = match action {
        Action::Accept => json!({"action": "accept", "content": content}),
        Action::Decline => json!({"action": "decline"}),
        Action::Cancel => json!({"action": "cancel"}),
    };
    v2::CreateElicitationResponse::decode(&response.to_string(), WireFormat::Any)
        .map(Wire::into_owned)
        .map_err(|reason| format!("this cannot be sent: {reason}"))
}

async fn configure(live: &Live, session: String, id: String, value: Value) -> Result<Value, Failure> {
    let kind = if value.is_boolean() { "boolean" } else { "id" };
    let request =
        json!({"type": kind, "sessionId": live.wire(&session), "configId": id, "value": value}).to_string();
    let request = v2::SetSessionConfigOptionRequest::decode(&request, WireFormat::Any)
        .map_err(|reason| format!("this value cannot be set: {reason}"))?;
    live.agent
        .set_config_option(&request)
        .await
        .map_err(|error| error.to_string())?
        .map_err(|error| refused(&error))?;
    Ok(Value::Null)
}
