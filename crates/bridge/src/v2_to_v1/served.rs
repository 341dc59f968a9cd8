//! Files and commands that a version 1 agent requests from its client. A version 2 client has neither, so the
//! host serves them inside the session's roots if that is enabled.

use std::collections::HashMap;

use switchboard_acp::rpc::{Message, Request, RequestId, Response, codes};
use switchboard_acp::{AbsolutePath, Base64, Extra, Field, Raw, Text, Wire, WireFormat, v1, v2};

use super::{Session, V2ToV1};
use crate::context::{Context, session_of};
use crate::convert::paths::resolve;
use crate::host::{HostError, TerminalStart, is_inside};
use crate::loss::Severity;
use crate::options::Dialect;
use crate::{Error, Side};

/// The commands that run for the agent.
#[derive(Debug, Default)]
pub(super) struct ServedTerminals {
    known: HashMap<String, ServedTerminal>,
    made: u64,
}

#[derive(Debug)]
struct ServedTerminal {
    session: String,
    output: Vec<u8>,
    limit: usize,
    truncated: bool,
    exit: Option<v1::TerminalExitStatus<'static>>,
    /// Requests of the agent that wait for the exit.
    waiting: Vec<RequestId<'static>>,
}

impl ServedTerminals {
    pub(super) fn is_known(&self, id: &str) -> bool {
        self.known.contains_key(id)
    }

    /// Returns whether a command runs in a session.
    pub(super) fn runs_in(&self, session: &str) -> bool {
        self.known.values().any(|terminal| terminal.session == session && terminal.exit.is_none())
    }

    /// Returns the number of commands and the bytes of their output.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.known.len(), self.known.values().map(|terminal| terminal.output.len()).sum())
    }

    /// Drops the beginning of outputs, longest first, until so many bytes are freed. Returns the bytes freed.
    /// The output is reported as truncated to the agent.
    pub(super) fn forget_output(&mut self, bytes: usize) -> usize {
        let mut freed = 0;
        let mut terminals: Vec<&mut ServedTerminal> = self.known.values_mut().collect();
        // Longest first: few terminals lose output.
        terminals.sort_by_key(|terminal| std::cmp::Reverse(terminal.output.len()));
        for terminal in terminals {
            let kept = (terminal.output.len() / 4).min(KEPT_OUTPUT);
            freed += terminal.output.len() - kept;
            terminal.keep_last(kept);
            if freed >= bytes {
                break;
            }
        }
        freed
    }

    pub(super) fn release_all(&mut self, session: &str, context: &mut Context) {
        let ids: Vec<String> = self
            .known
            .iter()
            .filter(|(_, terminal)| terminal.session == session)
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            // A command must not outlive its session.
            if self.known.remove(&id).is_some_and(|terminal| terminal.exit.is_none()) {
                context.host.kill_terminal(&id);
            }
        }
    }
}

impl ServedTerminal {
    /// Appends output and cuts its beginning. Keeps somewhat more than the limit, so that it is not moved for
    /// every chunk.
    fn append(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
        if self.output.len() > self.limit {
            self.truncated = true;
        }
        if self.output.len() > self.limit.saturating_add(self.limit / 4 + KEPT_OUTPUT) {
            self.keep_last(self.limit);
        }
    }

    fn keep_last(&mut self, count: usize) {
        let cut = self.output.len().saturating_sub(count);
        self.truncated |= cut > 0;
        self.output.drain(..cut);
    }

    /// Returns the last bytes of the output up to the limit, cut at a character boundary.
    fn tail(&self) -> String {
        let mut cut = self.output.len().saturating_sub(self.limit);
        if self.truncated {
            while cut < self.output.len() && self.output[cut] & 0xc0 == 0x80 {
                cut += 1;
            }
        }
        String::from_utf8_lossy(&self.output[cut..]).into_owned()
    }
}

/// Bytes kept of a command's output when the total limit is exceeded.
const KEPT_OUTPUT: usize = 64 * 1024;

/// Returns the error for a path outside the session's directories.
fn outside(path: &str) -> HostError {
    HostError { code: codes::INVALID_PARAMS, message: format!("{path} is outside the session's directories") }
}

impl V2ToV1 {
    /// Handles the client's response about a file. If it fails, for example because the client has gone, the
    /// host's file is used.
    pub(super) fn client_file(
        &mut self,
        id: &RequestId<'static>,
        request: &Request<'_>,
        response: Response<'_>,
    ) {
        // Fall back to the host only if the client does not know the method. Other errors are real.
        let is_unknown = response.outcome.as_ref().is_err_and(|error| error.code == codes::METHOD_NOT_FOUND);
        if is_unknown && self.context.options.serve_files {
            return self.file_request(request);
        }
        self.context.pass_answer(Side::Agent, id, response);
    }

    /// Sends the state of a client terminal that a message contains.
    pub(super) fn client_terminal(&mut self, from: Side, message: &Message<'_>) {
        let event = self.client_terminals.as_mut().and_then(|known| known.take(from, message));
        if let Some((session, update)) = event.and_then(|event| event.update) {
            self.active(&session).recorded_terminal(update);
        }
    }

    pub(super) fn file_request(&mut self, request: &Request<'_>) {
        let session_id = session_of(request.params.as_ref()).unwrap_or_default();
        if !self.context.options.serve_files {
            return self.refuse_service(request, &session_id, "reads and writes no files");
        }
        let session = self.sessions.open(&session_id);
        // Reported once per session: the agent reads saved files only.
        if !session.warned_of_files {
            session.warned_of_files = true;
            let reason = "files are read from disk; unsaved changes of the editor are not visible";
            let method = &request.method;
            self.context.report_loss(
                Some(&session_id),
                method,
                "/result/content",
                reason,
                Severity::Minor,
                Side::Agent,
            );
        }
        report_lost_rest(request, &session_id, &mut self.context);
        let outcome = match &*request.method {
            "fs/read_text_file" => session.read_file(request.params_text(), &mut self.context),
            _ => session.write_file(request.params_text(), &mut self.context),
        };
        match outcome {
            Ok(result) => self.context.respond(Side::Agent, &request.id, &result, &Extra::new()),
            Err(error) => self.context.refuse(Side::Agent, &request.id, error.code, error.message),
        }
    }

    pub(super) fn terminal_request(&mut self, request: &Request<'_>) {
        let session_id = session_of(request.params.as_ref()).unwrap_or_default();
        if !self.context.options.serve_terminals {
            return self.refuse_service(request, &session_id, "runs no commands");
        }
        report_lost_rest(request, &session_id, &mut self.context);
        // Creating has no terminal id yet.
        if request.method == "terminal/create" {
            match self.create_terminal(request.params_text()) {
                Ok(result) => self.context.respond(Side::Agent, &request.id, &result, &Extra::new()),
                Err(error) => self.context.refuse(Side::Agent, &request.id, error.code, error.message),
            }
            return;
        }
        let reference = v1::TerminalReference::decode(request.params_text(), WireFormat::V1);
        let terminal_id = reference.map(|reference| reference.terminal_id.into_owned()).unwrap_or_default();
        // The session must match: an agent must not reach terminals of other sessions.
        let Some(terminal) =
            self.terminals.known.get_mut(&terminal_id).filter(|known| known.session == session_id)
        else {
            let message = format!("terminal {terminal_id} does not exist");
            return self.context.refuse(Side::Agent, &request.id, codes::RESOURCE_NOT_FOUND, message);
        };
        match &*request.method {
            "terminal/output" => {
                let output = terminal.tail();
                let mut wire = v1::TerminalOutputResponse::new(output, terminal.truncated);
                wire.exit_status = terminal.exit.clone();
                self.context.respond(Side::Agent, &request.id, &wire, &Extra::new());
            }
            "terminal/wait_for_exit" => match &terminal.exit {
                Some(exit) => self.context.respond(Side::Agent, &request.id, exit, &Extra::new()),
                // Answered when the command exits.
                None => terminal.waiting.push(request.id.clone().into_owned()),
            },
            "terminal/kill" => {
                if terminal.exit.is_none() {
                    self.context.host.kill_terminal(&terminal_id);
                }
                self.context.done(Side::Agent, &request.id);
            }
            _ => {
                // Release: remove the entry first, so that the exit is not reported for it.
                let is_running = terminal.exit.is_none();
                self.terminals.known.remove(&terminal_id);
                if is_running {
                    self.context.host.kill_terminal(&terminal_id);
                }
                self.context.done(Side::Agent, &request.id);
            }
        }
    }

    /// Refuses a request that neither the client nor the host serves.
    fn refuse_service(&mut self, request: &Request<'_>, session_id: &str, what: &str) {
        let reason = format!("a version 2 client {what}; the agent was refused");
        let session = (!session_id.is_empty()).then_some(session_id);
        self.context.report_loss(session, &request.method, "", reason, Severity::Major, Side::Client);
        let message = format!("{}: the client {what}", request.method);
        self.context.refuse(Side::Agent, &request.id, codes::METHOD_NOT_FOUND, message);
    }

    fn create_terminal(&mut self, params: &str) -> Result<v1::CreateTerminalResponse<'static>, HostError> {
        let invalid = |message: String| HostError { code: codes::INVALID_PARAMS, message };
        let params = v1::CreateTerminalRequest::decode(params, WireFormat::V1)
            .map_err(|error| invalid(error.to_string()))?;
        let limits = &self.context.options.limits;
        // Before any process is started.
        if self.terminals.known.len() >= limits.requests {
            return Err(HostError::failed("too many terminals; release some of them"));
        }
        let most = limits.content;
        let session_id = params.session_id.clone().into_owned();
        let session = self.sessions.open(&session_id);
        let cwd =
            params.cwd.as_ref().map(|cwd| session.resolve(cwd)).or_else(|| session.roots.first().cloned());
        let Some(cwd) = cwd else { return Err(invalid("the session has no directory".to_owned())) };
        // By name only; the host resolves links.
        if !is_inside(&cwd, &session.roots) {
            return Err(outside(&cwd));
        }
        let terminal_id = loop {
            self.terminals.made += 1;
            let id = format!("bridge-term-{}", self.terminals.made);
            // The agent may have terminals with its own ids.
            if !session.terminals.contains(&id) {
                break id;
            }
        };
        let start = TerminalStart {
            terminal_id: terminal_id.clone(),
            command: params.command.clone().into_owned(),
            args: params.args.unwrap_or_default().into_iter().map(Text::into_owned).collect(),
            env: params
                .env
                .unwrap_or_default()
                .into_iter()
                .map(|variable| (variable.name.into_owned(), variable.value.into_owned()))
                .collect(),
            cwd: cwd.clone(),
        };
        // Nothing is stored if the start fails.
        self.context.host.start_terminal(&start, &session.roots)?;
        let limit = params.output_byte_limit.and_then(|limit| usize::try_from(limit).ok());
        self.terminals.known.insert(
            terminal_id.clone(),
            ServedTerminal {
                session: session_id.clone(),
                output: Vec::new(),
                limit: limit.unwrap_or(most).min(most),
                truncated: false,
                exit: None,
                waiting: Vec::new(),
            },
        );
        let mut line = vec![start.command.clone()];
        line.extend(start.args);
        let mut update = v2::TerminalUpdate::new(terminal_id.clone());
        update.command = Field::Set(Text::Owned(line.join(" ")));
        update.cwd = Field::Set(AbsolutePath::as_sent(cwd));
        // A client whose dialect has no terminals cannot cancel them either.
        if self.context.peers.client_dialect != Some(Dialect::Spec) {
            let mut capabilities = v2::CancelCapabilities::new();
            capabilities.cancel = Some(v2::EmptyObject::new());
            update.capabilities = Field::Set(capabilities);
        }
        // The client must know the terminal before its first output.
        self.context.update_v2(&session_id, update.into());
        Ok(v1::CreateTerminalResponse::new(terminal_id))
    }

    pub(super) fn cancel_terminal(&mut self, request: &Request<'_>) -> Result<(), Error> {
        let params: v2::CancelTerminalRequest<'_> = self.context.params(Side::Client, request)?;
        report_lost_rest(request, &params.session_id, &mut self.context);
        let running = self
            .terminals
            .known
            .get(&*params.terminal_id)
            .is_some_and(|terminal| terminal.exit.is_none() && terminal.session == params.session_id);
        if !running {
            let reason = "no running terminal has this id";
            return Err(Error::unrepresentable("terminal/cancel", reason));
        }
        self.context.host.kill_terminal(&params.terminal_id);
        self.context.done(Side::Client, &request.id);
        Ok(())
    }

    /// Handles output of a command.
    pub(super) fn output_of(&mut self, terminal_id: &str, bytes: &[u8]) {
        // Output after a release is dropped.
        let Some(terminal) = self.terminals.known.get_mut(terminal_id) else { return };
        // Stored before it is sent: the agent may ask for it at once.
        terminal.append(bytes);
        let chunk = v2::TerminalOutputChunk::new(terminal_id, Base64::from_bytes(bytes));
        self.context.update_v2(&terminal.session, v2::SessionUpdate::TerminalOutputChunk(chunk));
    }

    /// Handles the exit of a command.
    pub(super) fn exit_of(&mut self, terminal_id: &str, exit_code: Option<i64>, signal: Option<&str>) {
        let Some(terminal) = self.terminals.known.get_mut(terminal_id) else { return };
        let mut exit = v1::TerminalExitStatus::new();
        exit.exit_code = exit_code.and_then(|code| u32::try_from(code).ok());
        exit.signal = signal.map(|signal| Text::Owned(signal.to_owned()));
        // Waiting requests of the agent first, then the client.
        for id in terminal.waiting.drain(..) {
            self.context.respond(Side::Agent, &id, &exit, &Extra::new());
        }
        terminal.exit = Some(exit);
        let mut status = v2::TerminalExitStatus::new();
        status.exit_code = exit_code;
        status.signal = signal.map(Text::Borrowed);
        let mut update = v2::TerminalUpdate::new(terminal_id);
        update.exit_status = Field::Set(status);
        // An exited command can no longer be cancelled.
        update.capabilities = Field::Clear;
        self.context.update_v2(&terminal.session, update.into());
    }
}

/// Known keys of the requests that are served here.
const KNOWN: [&str; 11] = [
    "sessionId",
    "path",
    "line",
    "limit",
    "content",
    "command",
    "args",
    "env",
    "cwd",
    "outputByteLimit",
    "terminalId",
];

/// Reports unknown keys of a request that is served here.
fn report_lost_rest(request: &Request<'_>, session_id: &str, context: &mut Context) {
    let reason = "the request is served by the bridge";
    let toward = if request.method == "terminal/cancel" { Side::Agent } else { Side::Client };
    let (session, method) = (Some(session_id), &*request.method);
    // Unknown keys are reported even if the request is served.
    let Some(params) = &request.params else { return };
    for (key, _) in params.entries().filter(|(key, _)| !KNOWN.contains(&&**key)) {
        let pointer = format!("/params/{}", key.replace('~', "~0").replace('/', "~1"));
        context.report_loss(session, method, &pointer, reason, Severity::Minor, toward);
    }
    let env = params.get("env");
    let variables =
        env.as_ref().and_then(|env| Vec::<v1::EnvVariable<'_>>::decode(env.as_str(), WireFormat::V1).ok());
    for (index, variable) in variables.unwrap_or_default().into_iter().enumerate() {
        let v1::EnvVariable { name: _, value: _, meta, extra, more: _ } = variable;
        let root = format!("/params/env/{index}");
        context.report_lost_rest(session, method, &root, (meta.as_ref(), &extra), reason, toward);
    }
}

impl Session {
    /// Resolves a path relative to the session's directory.
    fn resolve(&self, path: &str) -> String {
        let directory = self.roots.first();
        directory.and_then(|directory| resolve(path, directory)).unwrap_or_else(|| path.to_owned())
    }

    fn read_file(&self, params: &str, context: &mut Context) -> Result<Raw<'static>, HostError> {
        let params = v1::ReadTextFileRequest::decode(params, WireFormat::V1)
            .map_err(|error| HostError { code: codes::INVALID_PARAMS, message: error.to_string() })?;
        let path = self.resolve(&params.path);
        // Checked after the path is resolved, so that relative paths cannot escape.
        if !is_inside(&path, &self.roots) {
            return Err(outside(&path));
        }
        let content = context.host.read_text_file(&path, &self.roots)?;
        // Lines are 1-based; both parameters are optional.
        let first = params.line.map_or(0, |line| (line as usize).saturating_sub(1));
        let count = params.limit.map_or(usize::MAX, |limit| limit as usize);
        let content = if first == 0 && count == usize::MAX {
            content
        } else {
            content.split_inclusive('\n').skip(first).take(count).collect()
        };
        Ok(Raw::of(&v1::ReadTextFileResponse::new(content), WireFormat::V1))
    }

    fn write_file(&self, params: &str, context: &mut Context) -> Result<Raw<'static>, HostError> {
        let params = v1::WriteTextFileRequest::decode(params, WireFormat::V1)
            .map_err(|error| HostError { code: codes::INVALID_PARAMS, message: error.to_string() })?;
        let path = self.resolve(&params.path);
        // Checked after the path is resolved, so that relative paths cannot escape.
        if !is_inside(&path, &self.roots) {
            return Err(outside(&path));
        }
        context.host.write_text_file(&path, &params.content, &self.roots)?;
        Ok(Raw::of(&v1::EmptyResponse::new(), WireFormat::V1))
    }
}
