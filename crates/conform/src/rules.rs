//! All rules, as data.

use crate::rule::{Party, Rule, Strength, TestKind, Versions};

macro_rules! rules {
    ($(
        $name:ident $id:literal: $versions:ident $party:ident $strength:ident $capability:literal [$($official:literal)*]
        $text:literal $citation:literal $violation:literal $fix:literal $($live:ident)?;
    )*) => {
        /// Identifier of a rule in the code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum RuleId { $($name,)* }

        /// All rules, in the order of [`RuleId`].
        pub const RULES: &[Rule] = &[$(Rule {
            id: $id,
            versions: Versions::$versions,
            party: Party::$party,
            strength: Strength::$strength,
            capability: $capability,
            official: &[$($official),*],
            text: $text,
            citation: $citation,
            violation: $violation,
            fix: $fix,
            seen: rules!(@seen $($live)?),
        },)*];

        impl RuleId {
            /// All rule identifiers.
            pub const ALL: &[RuleId] = &[$(RuleId::$name,)*];
        }
    };
    (@seen Live) => { TestKind::Live };
    (@seen) => { TestKind::Recorded };
}

impl RuleId {
    /// Returns the rule.
    pub fn rule(self) -> &'static Rule {
        // The table has the same order.
        &RULES[self as usize]
    }

    /// Returns the rule with a name: its own, or one of the official kit's if only one rule covers that.
    pub fn find(name: &str) -> Option<Self> {
        let own = RuleId::ALL.iter().find(|id| id.rule().id.eq_ignore_ascii_case(name));
        own.or_else(|| {
            RuleId::ALL.iter().find(|id| id.rule().official.iter().any(|id| id.eq_ignore_ascii_case(name)))
        })
        .copied()
    }
}

rules! {
    // Lines and JSON-RPC
    JsonLine "transport-json-line": All Both Must "" ["ACP-TRANSPORT-001" "ACP-TRANSPORT-201" "ACP-TRANSPORT-203"]
        "Every line is exactly one JSON-RPC message."
        "Transports: stdio" "starting up..." "Write logs to standard error, and each message on a separate line.";
    Utf8 "transport-utf8": All Both Must "" ["ACP-TRANSPORT-002"]
        "Messages are UTF-8." "Transports: stdio" "{\"jsonrpc\":\"2.0\",...\\xff...}" "Encode output as UTF-8, independent of the locale.";
    NoBatch "rpc-no-batch": All Both Must "" ["ACP-BATCH-202"]
        "Messages are sent one by one, never as an array." "Newest SDKs: batches are refused; version 1 never had them"
        "[{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",...}]" "Send each message on a separate line.";
    BatchRefused "rpc-batch-refused": All Both Must "" ["ACP-BATCH-201"]
        "An array is answered by one error -32600 with the id null, or entry by entry." "JSON-RPC 2.0: Batch"
        "[] answered by {\"id\":null,\"error\":{\"code\":-32603,...}}" "Answer an unsupported array with -32600 and the id null.";
    Envelope "rpc-envelope": All Both Must "" []
        "A message has \"jsonrpc\":\"2.0\" and is a request, a notification or a response." "JSON-RPC 2.0: Request object, Response object"
        "{\"id\":1,\"result\":{}}" "Write \"jsonrpc\":\"2.0\" into each message, and an id into each response.";
    ResultOrError "rpc-result-or-error": All Both Must "" ["ACP-JSONRPC-002"]
        "A response has either a result or an error." "JSON-RPC 2.0: Response object"
        "{\"jsonrpc\":\"2.0\",\"id\":1}" "Send exactly one of \"result\" and \"error\"; an empty result is {}.";
    ErrorObject "rpc-error-object": All Both Must "" []
        "An error has an integer code and a message that is a string." "JSON-RPC 2.0: Error object"
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":\"no\"}" "Send {\"code\": integer, \"message\": string}.";
    RequestIdForm "rpc-request-id": All Both Must "" []
        "The id of a request is a string or an integer; in the newest dialect of version 2 it is never null." "JSON-RPC 2.0: Request object"
        "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"session/list\"}" "Use integers or strings as ids.";
    IdInUse "rpc-id-in-use": All Both Must "" []
        "The id of a pending request is not reused." "JSON-RPC 2.0: Request object"
        "two requests with the id 3, the first not answered yet" "Increment ids.";
    IdEcho "rpc-id-echo": All Both Must "" ["ACP-JSONRPC-001"]
        "A response has the id of a request, in the same form: a string stays a string." "JSON-RPC 2.0: Response object"
        "request 2 answered under \"2\"" "Return the id unchanged.";
    AnsweredOnce "rpc-answered-once": All Both Must "" []
        "A request is answered once." "JSON-RPC 2.0: Response object"
        "two responses with the id 4" "Track the answered requests.";
    Answered "rpc-answered": All Both Must "" ["ACP-EXT-001"]
        "Every request is answered, also one with an unknown method." "JSON-RPC 2.0: Response object; Extensibility"
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"_acme/ping\"} without an answer" "Answer unknown methods with -32601.";
    NotificationUnanswered "rpc-notification-unanswered": All Both Must "" ["ACP-JSONRPC-003" "ACP-CANCEL-205"]
        "Notifications are not answered." "JSON-RPC 2.0: Notification"
        "session/cancel answered by {\"id\":null,\"error\":{\"code\":-32601,...}}" "Answer only messages with an id.";
    MethodForm "rpc-method-form": All Both Must "" []
        "Requests of the protocol have an id, its notifications have none." "Protocol overview: communication model"
        "session/cancel with an id" "Send session/cancel, session/update and $/cancel_request as notifications, the rest as requests.";
    MethodDirection "rpc-method-direction": All Both Must "" []
        "Each side calls only the methods of the other." "Protocol overview: methods"
        "a client that sends session/update" "Call only methods of the other side.";
    UnknownMethod "rpc-unknown-method": All Both Should "" ["ACP-JSONRPC-004"]
        "A request with an unknown method is refused with -32601." "JSON-RPC 2.0: Error object"
        "_acme/ping answered by {\"code\":-32603,...}" "Answer unknown methods with -32601.";
    AliveAfterError "rpc-alive-after-error": All Agent Should "" ["ACP-JSONRPC-005"]
        "A request that fails does not end the connection." "JSON-RPC 2.0: Error object"
        "no answer to anything after an error" "Answer with an error and keep the connection." Live;
    ErrorMessage "rpc-error-message": All Both Should "" ["ACP-ERROR-001"]
        "The message of an error is one line and not empty." "JSON-RPC 2.0: Error object"
        "{\"code\":-32603,\"message\":\"\"}" "Describe the problem in one sentence; put details into \"data\".";
    CancelOwnRequest "rpc-cancel-own": All Both Should "" []
        "$/cancel_request names a request that its sender has made." "Cancellation: $/cancel_request"
        "{\"method\":\"$/cancel_request\",\"params\":{\"requestId\":99}}" "Cancel only your own request ids.";
    ParseError "rpc-parse-error": All Agent Recorded "" ["ACP-INFO-PARSE-001"]
        "The response to a line that is not JSON." "JSON-RPC 2.0: Error object" "-" "-" Live;
    InvalidRequest "rpc-invalid-request": All Agent Recorded "" ["ACP-INFO-INVALIDREQ-001"]
        "The response to JSON that is not a message." "JSON-RPC 2.0: Error object" "-" "-" Live;

    // initialize
    InitFirst "init-first": All Client Must "" []
        "A connection begins with initialize." "Initialization"
        "session/new before initialize" "Initialize, wait for the answer, then open sessions.";
    InitAnswer "init-answer": All Agent Must "" ["ACP-INIT-001" "ACP-INIT-202"]
        "initialize succeeds, with an integer as protocolVersion; only -32022 may say that there is no common version." "Initialization: version negotiation"
        "{\"result\":{\"protocolVersion\":\"1\"}}" "Answer each initialize, whatever version it asks for.";
    InitVersionV1 "init-version-1": V1 Agent Must "" ["ACP-INIT-002"]
        "If the client requests version 1, an agent that supports it answers 1." "Initialization: version negotiation"
        "asked for 1, answered 3" "Answer with the requested version, if you support it.";
    InitEcho "init-version-echo": All Agent Must "" ["ACP-INIT-003" "ACP-INIT-201"]
        "The version in the response is one that the agent supports, and the response has the format of that version: the requested number is never merely repeated."
        "Initialization: version negotiation" "asked for 65535, answered 65535" "Answer with your highest version that is not above the requested one.";
    InitSchema "init-schema": All Agent Must "" ["ACP-SCHEMA-001"]
        "The response to initialize matches the schema." "Schema: InitializeResponse"
        "{\"agentCapabilities\":{\"loadSession\":\"yes\"}}" "Compare with `switchboard schema`.";
    InitRequestSchema "init-request-schema": All Client Must "" []
        "The initialize request matches the schema of the requested version." "Schema: InitializeRequest"
        "{\"protocolVersion\":\"1\"}" "Compare with `switchboard schema`.";
    AgentInfoV1 "init-agent-info": V1 Agent Should "" ["ACP-INIT-004"]
        "The agent sends its name and version." "Initialization: implementation information"
        "an answer without agentInfo" "Send agentInfo with name and version.";
    InfoV2 "init-info": V2 Agent Must "" ["ACP-INIT-203"]
        "The agent sends its name and version in info, and neither is empty." "Initialization"
        "{\"info\":{\"name\":\"\"}}" "Send info with name and version.";
    ClientInfoV1 "init-client-info-1": V1 Client Should "" []
        "The client sends its name and version." "Initialization: implementation information"
        "initialize without clientInfo" "Send clientInfo with name and version.";
    ClientInfoV2 "init-client-info-2": V2 Client Must "" []
        "The client sends its name and version in info, and neither is empty." "Initialization"
        "initialize without info" "Send info with name and version.";
    Markers "init-capability-markers": V2 Both Must "" ["ACP-INIT-204"]
        "A capability is an object, or missing, or null; never a boolean." "Initialization: capabilities"
        "{\"capabilities\":{\"session\":true}}" "Send {} for supported capabilities and omit the others.";
    ForeignVersion "init-foreign-version": All Client Must "" []
        "A client that gets a version above the requested one does not continue." "Initialization: version negotiation"
        "asked for 1, answered 2, then session/new" "Close the connection and inform the user.";
    CapabilityKeys "ext-capability-keys": All Both Should "" ["ACP-EXT-202"]
        "Capabilities that are not part of the protocol are advertised in _meta." "Extensibility: advertising custom capabilities"
        "{\"agentCapabilities\":{\"turbo\":true}}" "Put it into _meta of the capabilities.";

    // Login
    AuthIdsUnique "auth-ids-unique": All Agent Should "" ["ACP-AUTH-001" "ACP-AUTH-201"]
        "Login methods have unique ids." "Authentication"
        "two methods with the id login" "Use unique ids.";
    AuthTerminal "auth-terminal-unadvertised": All Agent Must "" ["ACP-AUTH-002" "ACP-AUTH-202"]
        "Logins in a terminal are offered only to clients that advertise auth.terminal." "Authentication: terminal methods"
        "{\"type\":\"terminal\",...} to a client without auth.terminal" "Look at the client's capabilities first.";
    AuthType "auth-type": V2 Agent Must "" ["ACP-AUTH-206"]
        "The type of a login is agent, terminal or begins with an underscore." "Authentication"
        "{\"type\":\"sso\",\"methodId\":\"a\",\"name\":\"A\"}" "Start custom types with _.";
    AuthEnvironment "auth-environment": V2 Agent Must "" ["ACP-AUTH-207"]
        "args of a terminal login are strings, and env has {name, value} with unique names." "Authentication: terminal methods"
        "{\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"A\",\"value\":\"2\"}]}" "Name each variable once.";
    LoginHelps "auth-login-helps": All Agent Capability "" ["ACP-AUTH-003" "ACP-AUTH-204"]
        "After a successful login, session/new does not require a login." "Authentication"
        "authenticate answered {}, then session/new answered -32000" "Keep the login for the connection.";
    LoginOffered "auth-login-offered": All Client Must "" []
        "A client logs in only with an offered method." "Authentication"
        "authenticate with a methodId that is not in authMethods" "Use an id of authMethods.";
    NoLoginNeeded "auth-not-needed": All Agent Should "" ["ACP-AUTH-005" "ACP-AUTH-205"]
        "An agent without authMethods does not require a login." "Authentication"
        "authMethods [] and session/new answered -32000" "Offer a login method, or require no login.";
    Logout "auth-logout": All Agent Capability "" ["ACP-AUTH-004" "ACP-AUTH-203"]
        "An advertised logout works." "Authentication: logout" "logout answered -32601" "Implement all advertised methods.";

    // Methods that the client has not advertised
    FileAccess "client-files-unadvertised": V1 Agent Must "" ["ACP-CLIENTCAP-001"]
        "fs/read_text_file and fs/write_text_file are called only if the client advertises them." "File system: checking support"
        "fs/write_text_file to a client without fs.writeTextFile" "Look at clientCapabilities.fs.";
    TerminalAccess "client-terminal-unadvertised": V1 Agent Must "" ["ACP-CLIENTCAP-002"]
        "terminal/* is called only if the client advertises terminal." "Terminals: checking support"
        "terminal/create to a client without terminal" "Look at clientCapabilities.terminal.";
    ElicitationV1 "client-elicitation-unadvertised-1": V1 Agent Must "" ["ACP-CLIENTCAP-003"]
        "elicitation/create is called only if the client advertises its mode." "Elicitation"
        "elicitation/create to a client without elicitation" "Look at clientCapabilities.elicitation.";
    ElicitationV2 "client-elicitation-unadvertised-2": V2 Agent Capability "/session" ["ACP-CLIENTCAP-201"]
        "elicitation/create is called only if the client advertises its mode." "Elicitation"
        "elicitation/create to a client without elicitation" "Look at capabilities.elicitation of the client.";
    UpdatesUnadvertised "client-updates-unadvertised": V1 Agent Must "" []
        "notice and compaction updates go only to clients that advertise session.notices and session.compaction." "Session updates"
        "{\"sessionUpdate\":\"notice\",...} to a client without session.notices" "Look at clientCapabilities.session.";
    BooleanOption "config-boolean-unadvertised": V1 Agent Must "" ["ACP-CONFIG-003"]
        "Boolean options go only to clients that advertise session.configOptions.boolean." "Session config options"
        "{\"type\":\"boolean\",...} to a client without it" "Look at clientCapabilities.session.configOptions.";
    ServesAdvertised "client-serves-advertised": All Client Must "" []
        "A client does not answer advertised methods with \"method not found\"." "Initialization: client capabilities"
        "fs.readTextFile true, and fs/read_text_file answered -32601" "Advertise only implemented methods.";

    // Methods that the agent has not advertised
    CallsAdvertised "agent-method-unadvertised": All Client Must "" []
        "A client calls only methods that the agent advertises." "Initialization: agent capabilities"
        "session/load to an agent without loadSession" "Look at the agent's capabilities.";
    PromptContent "agent-content-unadvertised": All Client Must "" []
        "Images, audio and embedded resources are sent only to agents that advertise them." "Content; Initialization: prompt capabilities"
        "an image in the prompt of an agent without image" "Look at the agent's prompt capabilities.";
    McpTransport "agent-mcp-unadvertised": All Client Must "" []
        "MCP servers are given only with transports that the agent advertises; version 1 always has stdio." "Session setup: MCP servers"
        "{\"type\":\"sse\",...} to an agent without it" "Look at the agent's MCP capabilities.";
    DirectoriesAdvertised "agent-directories-unadvertised": All Client Must "" []
        "additionalDirectories goes only to agents that advertise it." "Session setup"
        "additionalDirectories to an agent without it" "Look at the agent's session capabilities.";
    ClientPaths "client-absolute-paths": All Client Must "" []
        "cwd and additionalDirectories are absolute paths." "Session setup: working directory"
        "{\"cwd\":\".\",...}" "Make paths absolute before sending them.";
    ClientParams "client-schema": All Client Must "" []
        "Requests and notifications of the client match the schema." "Schema"
        "session/new of version 1 without mcpServers" "Compare with `switchboard schema`.";
    ClientAnswers "client-answer-schema": All Client Must "" []
        "Responses of the client match the schema." "Schema"
        "a permission answered by {\"outcome\":\"selected\"}" "Compare with `switchboard schema`.";
    ClientSession "client-session-known": All Client Must "" []
        "A client uses only sessions that it opened." "Session setup: session id"
        "session/prompt with an id that was never returned" "Use the id of the response.";
    KnownMode "client-mode-known": V1 Client Must "" []
        "session/set_mode uses one of the agent's modes." "Session modes"
        "{\"modeId\":\"yolo\"}" "Use an id of availableModes.";
    KnownOption "client-option-known": All Client Must "" []
        "session/set_config_option uses one of the agent's options, and one of its values." "Session config options"
        "{\"configId\":\"model\",\"value\":\"none of them\"}" "Use the ids and values of configOptions.";

    // Sessions
    SessionIdV1 "session-new-1": V1 Agent Must "" ["ACP-SESSION-001"]
        "session/new returns the id of the session." "Session setup: creating a session"
        "{\"result\":{}}" "Answer with sessionId.";
    SessionIdV2 "session-new-2": V2 Agent Capability "/session" []
        "session/new returns the id of the session, also without mcpServers." "Session setup: creating a session"
        "{\"result\":{}}" "Answer with sessionId.";
    DistinctV1 "session-ids-distinct-1": V1 Agent Must "" ["ACP-SESSION-002"]
        "Each new session has a unique id." "Session setup: session id"
        "two answers with the same sessionId" "Create unique ids.";
    DistinctV2 "session-ids-distinct-2": V2 Agent Capability "/session" []
        "Each new session has a unique id." "Session setup: session id"
        "two answers with the same sessionId" "Create unique ids.";
    UpdateSessionV1 "update-session-1": V1 Agent Must "" ["ACP-PROMPT-002"]
        "Updates belong to a session that the client opened." "Prompt turn: agent reports output"
        "session/update with an id that was never returned" "Send the id of the session that the update belongs to.";
    UpdateSessionV2 "update-session-2": V2 Agent Capability "/session" []
        "Updates belong to a session that the client opened, or to an announced sub-agent." "Prompt lifecycle"
        "session/update with an id that was never returned" "Send the id of the session that the update belongs to.";
    UpdateSchemaV1 "update-schema-1": V1 Agent Must "" []
        "Updates match the schema." "Schema: SessionNotification"
        "{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c\"}" "Compare with `switchboard schema --protocol v1`.";
    UpdateSchemaV2 "update-schema-2": V2 Agent Capability "/session" ["ACP-PROMPT-205"]
        "Updates match the schema." "Schema: SessionUpdate"
        "{\"sessionUpdate\":\"usage_update\"}" "Compare with `switchboard schema`.";
    CallSchemaV1 "agent-call-schema-1": V1 Agent Must "" []
        "Requests and notifications of the agent match the schema." "Schema"
        "session/request_permission without options" "Compare with `switchboard schema --protocol v1`.";
    CallSchemaV2 "agent-call-schema-2": V2 Agent Capability "/session" []
        "Requests and notifications of the agent match the schema." "Schema"
        "elicitation/create without message" "Compare with `switchboard schema`.";
    AnswerSchemaV1 "agent-answer-schema-1": V1 Agent Must "" []
        "Responses of the agent match the schema." "Schema"
        "{\"modes\":[]}" "Compare with `switchboard schema --protocol v1`.";
    AnswerSchemaV2 "agent-answer-schema-2": V2 Agent Capability "/session" []
        "Responses of the agent match the schema." "Schema"
        "{\"configOptions\":{}}" "Compare with `switchboard schema`.";
    RootKeys "schema-root-keys": All Both Should "" ["ACP-SCHEMA-002"]
        "Types of the protocol have no custom keys outside _meta." "Extensibility: the _meta field"
        "{\"stopReason\":\"end_turn\",\"cost\":1}" "Put it into _meta.";
    EmptyResult "schema-empty-result": All Both Should "" ["ACP-LOAD-003"]
        "An empty result is {}, not null." "Schema"
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}" "Answer {}.";
    MetaObject "meta-object": All Both Should "" ["ACP-META-201"]
        "_meta is an object or null." "Extensibility: the _meta field" "{\"_meta\":\"x\"}" "Send an object.";
    MethodName "ext-method-name": V2 Both Capability "/session" ["ACP-CLIENTCAP-202"]
        "A custom method begins with an underscore; fs/* and terminal/* of version 1 are not part of version 2." "Extensibility: extension methods"
        "{\"method\":\"acme/ping\"}" "Start custom methods with _.";
    MethodNameV1 "ext-method-name-1": V1 Both Should "" []
        "A custom method begins with an underscore." "Extensibility: extension methods"
        "{\"method\":\"acme/ping\"}" "Start custom methods with _.";
    UnknownSession "session-unknown": All Agent Recorded "" ["ACP-INFO-UNKNOWNSESSION-001"]
        "The response to a prompt in an unknown session." "Session setup" "-" "-" Live;

    // Loading and resuming sessions
    LoadReplay "load-replay-before-answer": V1 Agent Capability "/loadSession" ["ACP-LOAD-002"]
        "session/load sends the whole history before its response." "Session setup: loading a session"
        "a user_message_chunk after the answer to session/load" "Send the response after the last update of the history.";
    ResumeNoHistoryV1 "resume-no-history-1": V1 Agent Capability "/sessionCapabilities/resume" ["ACP-RESUME-002"]
        "session/resume sends no history." "Session setup: resuming a session"
        "an agent_message_chunk between session/resume and its answer" "Send the history only for session/load.";
    ReplayBefore "resume-replay-before-answer": V2 Agent Capability "/session" ["ACP-RESUME-202"]
        "With replayFrom, the history is sent before the response." "Session setup: resuming a session"
        "a user_message after the answer to session/resume" "Send the response after the last update of the history.";
    NoReplay "resume-no-replay": V2 Agent Capability "/session" ["ACP-RESUME-203"]
        "Without replayFrom, no history is sent." "Session setup: resuming a session"
        "an agent_message between session/resume without replayFrom and its answer" "Send the history only on request.";
    ReplayIds "resume-same-ids": V2 Agent Capability "/session" ["ACP-RESUME-204"]
        "Messages of the history keep their ids." "Session setup: resuming a session"
        "user_message u-1 comes back as u-9" "Store the ids with the messages.";
    ReplaySeeds "resume-chunk-seeded": V2 Agent Capability "/session" ["ACP-RESUME-205"]
        "In a history, chunks follow a whole message of the same id, so that nothing is shown twice." "Message updates: shiny future; Session setup: resuming a session"
        "an agent_message_chunk in the history without an agent_message before" "Send the message with content [] first, or whole.";
    ResumeState "resume-state": V2Newest Agent Capability "/session" []
        "session/resume sends the state of the session before its response." "Session setup: resuming a session"
        "session/resume answered without a state_update" "Send state_update after the history and before the answer.";
    ReplayLive "resume-no-notice": V2 Agent Capability "/session" []
        "Notices are not part of a history." "Session updates: notice"
        "a notice between session/resume and its answer" "Leave notices out of the history.";
    ListMatches "list-cwd": All Agent Capability "" ["ACP-LIST-002" "ACP-LIST-202" "ACP-LIST-203"]
        "session/list with a cwd lists only sessions of that directory." "Session list"
        "{\"cwd\":\"/a\"} answered by a session with cwd /b" "Filter by cwd.";
    ListPaths "list-absolute-cwd": All Agent Capability "" ["ACP-LIST-204"]
        "The cwd of a listed session is absolute." "Session list" "{\"sessionId\":\"s\",\"cwd\":\"src\"}" "Store the absolute path.";
    ListArray "list-array": All Agent Capability "" ["ACP-LIST-001" "ACP-LIST-201"]
        "session/list answers with a list of sessions." "Session list" "{\"result\":{}}" "Answer {\"sessions\":[...]}, if need be empty.";
    DeleteGone "delete-gone": All Agent Capability "" ["ACP-DELETE-202"]
        "A deleted session is no longer listed." "Session delete"
        "session/delete answered {}, and session/list has it" "Remove it from the list.";
    DeleteAgain "delete-again": All Agent Should "" ["ACP-DELETE-002" "ACP-DELETE-203"]
        "Deleting a deleted session succeeds." "Session delete"
        "the second session/delete answered -32002" "Answer {}.";
    CloseCancelsV1 "close-cancels-1": V1 Agent Capability "/sessionCapabilities/close" ["ACP-CLOSE-002"]
        "session/close during a prompt cancels it: the prompt is answered with cancelled." "Session close"
        "session/close, then the prompt answered end_turn" "Cancel the turn first.";
    CloseCancelsV2 "close-cancels-2": V2 Agent Capability "/session" ["ACP-CANCEL-208" "ACP-CLOSE-202"]
        "session/close during work ends it with idle and cancelled, before its response." "Session close"
        "session/close answered without idle/cancelled" "Cancel the work first.";
    CloseSilent "close-silent": All Agent Capability "" []
        "No message is sent for a closed session." "Session close"
        "session/update after the answer to session/close" "Stop all work of the session.";

    // Turns of version 1
    StopReasonV1 "prompt-stop-reason": V1 Agent Must "" ["ACP-PROMPT-001"]
        "A prompt is answered with a stopReason of the protocol." "Prompt turn: stop reasons"
        "{\"result\":{\"stopReason\":\"done\"}}" "Use end_turn, max_tokens, max_turn_requests, refusal or cancelled.";
    CancelV1 "cancel-stop-reason-1": V1 Agent Must "" ["ACP-CANCEL-001"]
        "A cancelled prompt is answered with cancelled, not with an error." "Prompt turn: cancellation"
        "session/cancel, then {\"stopReason\":\"end_turn\"}" "Convert abort errors to the stop reason cancelled.";
    CancelQuietV1 "cancel-quiet-1": V1 Agent Must "" ["ACP-CANCEL-002"]
        "After the response to a cancelled prompt, the turn has no more updates." "Prompt turn: cancellation"
        "an agent_message_chunk after {\"stopReason\":\"cancelled\"}" "Send the remaining updates, then the response.";
    TurnQuiet "prompt-updates-before-answer": V1 Agent Should "" []
        "The updates of a turn are sent before the response to its prompt." "Prompt turn"
        "an agent_message_chunk after {\"stopReason\":\"end_turn\"}" "Answer the prompt last.";
    PermissionsCancelled "cancel-answers-questions": All Client Must "" []
        "A client that cancels answers the pending permission requests of the session with cancelled." "Prompt turn: cancellation"
        "session/cancel, then a permission answered with selected" "When you cancel, answer pending permission requests with cancelled.";
    Announced "tool-call-announced": V1 Agent Should "" []
        "A tool call is announced with tool_call before it is updated." "Tool calls: creating"
        "tool_call_update with an id that no tool_call had" "Send tool_call first.";

    // Turns of version 2
    PromptMessageId "prompt-message-id": V2Newest Agent Capability "/session" ["ACP-PROMPT-201"]
        "The response to a prompt has the id of the user message." "Prompt lifecycle: accepting a prompt"
        "{\"result\":{}}" "Answer {\"messageId\":...}.";
    PromptEchoed "prompt-user-message": V2Newest Agent Capability "/session" ["ACP-PROMPT-203"]
        "The user message is sent, with the id of the response, before the work ends." "Prompt lifecycle: accepting a prompt; Message updates"
        "idle without a user_message of the prompt" "Send user_message when the prompt is accepted.";
    PromptIds "prompt-ids-distinct": V2 Agent Capability "/session" ["ACP-PATCH-203"]
        "Different prompts have different message ids." "Message updates"
        "two prompts answered with the same messageId" "Create unique ids.";
    PromptLateError "prompt-late-error": V2 Agent Capability "/session" []
        "A prompt whose user message was sent is not answered with an error." "Prompt lifecycle: accepting a prompt"
        "user_message, then the prompt answered with an error" "End the work with stopReason error.";
    RunningFirst "state-running": V2 Agent Capability "/session" ["ACP-STATE-201"]
        "idle with a stop reason follows running." "Prompt lifecycle: states"
        "session/prompt, then idle with end_turn, without running" "Send running when the work begins.";
    StopReasonV2 "state-stop-reason": V2 Agent Capability "/session" ["ACP-STATE-203" "ACP-CANCEL-207"]
        "idle at the end of work has a stopReason that is defined or begins with an underscore." "Prompt lifecycle: stop reasons"
        "running, then {\"state\":\"idle\"}" "Send the stop reason.";
    ReachesIdle "state-idle": V2 Agent Capability "/session" ["ACP-STATE-202" "ACP-PROMPTCAP-001" "ACP-PROMPTCAP-002" "ACP-PROMPTCAP-003"]
        "Work that has started ends with idle." "Prompt lifecycle: states" "running and never idle" "Send idle at the end, also after a failure." Live;
    RunningAgain "state-running-again": V2 Agent Capability "/session" []
        "After requires_action and the answer, running shows that work continues." "Prompt lifecycle: states"
        "requires_action, the answer, idle with end_turn" "Send running when the last question is answered.";
    RequiresAction "state-requires-action": V2 Agent Should "" ["ACP-PATCH-209"]
        "An agent that waits for the user sends requires_action." "Prompt lifecycle: states"
        "session/request_permission answered without requires_action before" "Send requires_action together with the request.";
    CancelV2 "cancel-stop-reason-2": V2 Agent Capability "/session" ["ACP-CANCEL-201" "ACP-CANCEL-203"]
        "Cancelled work ends with idle and cancelled." "Prompt lifecycle: cancellation"
        "session/cancel, then idle with end_turn" "Convert abort errors to the stop reason cancelled.";
    CancelQuietV2 "cancel-quiet-2": V2 Agent Capability "/session" ["ACP-CANCEL-202"]
        "After idle and cancelled, the work has no more updates." "Prompt lifecycle: cancellation"
        "an agent_message_chunk after idle with cancelled" "Send the remaining updates, then idle.";

    // Permissions
    PermissionShape "permission-shape": V2 Agent Capability "/session" ["ACP-PERM-201"]
        "A permission request has a title that is not empty and at least one option with optionId, name and kind." "Permission requests: what we propose"
        "{\"title\":\"\",\"options\":[]}" "Send a title and options.";
    PermissionIdsV1 "permission-option-ids-1": V1 Agent Must "" []
        "The options of a permission request have unique ids." "Tool calls: permission options"
        "two options with the id yes" "Use unique ids.";
    PermissionIdsV2 "permission-option-ids-2": V2 Agent Capability "/session" []
        "The options of a permission request have unique ids." "Tool calls: permission options"
        "two options with the id yes" "Use unique ids.";
    PermissionOffered "permission-answer-offered": All Client Must "" []
        "The selected option was offered." "Tool calls: requesting permission"
        "{\"outcome\":\"selected\",\"optionId\":\"not offered\"}" "Answer with one of the optionIds.";
    PermissionKind "permission-option-kind": V2 Agent Capability "/session" []
        "The kind of an option is defined or begins with an underscore." "Tool calls: permission options"
        "{\"kind\":\"maybe\"}" "Start custom kinds with _.";
    SubjectType "permission-subject": V2 Agent Capability "/session" []
        "A subject has a type that is defined or begins with an underscore, and the fields of that type." "Permission requests: what we propose"
        "{\"subject\":{\"toolCall\":{...}}}" "Send {\"type\":\"tool_call\",\"toolCall\":{...}}.";

    // Tool calls, messages, plans, terminals of version 2
    UpdateKind "update-kind": V2 Agent Capability "/session" []
        "The kind of an update is defined or begins with an underscore; tool_call, plan and current_mode_update of version 1 are not part of version 2." "Tool call updates: implementation details; Extensibility"
        "{\"sessionUpdate\":\"tool_call\",...}" "Start custom kinds with _; send tool_call_update.";
    ToolCallId "tool-call-id": V2 Agent Capability "/session" ["ACP-PATCH-204"]
        "Updates and chunks of a tool call have its toolCallId." "Tool call updates: what we propose"
        "{\"sessionUpdate\":\"tool_call_update\",\"title\":\"Read\"}" "Send toolCallId.";
    ToolCallChunk "tool-call-chunk": V2 Agent Capability "/session" []
        "A chunk of a tool call has one content item, {\"type\":\"content\",...} or a diff, not a list and not a bare block." "Tool calls: streaming content"
        "{\"sessionUpdate\":\"tool_call_content_chunk\",\"toolCallId\":\"c\",\"content\":[]}" "Send one item per chunk.";
    ToolCallTitle "tool-call-title": V2 Agent Should "" ["ACP-PATCH-208"]
        "The first update of a tool call has a title." "Tool call updates: what we propose"
        "{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"new\"}" "Send title with the first update.";
    ToolCallName "tool-call-name": V2 Agent Should "" []
        "The name of a tool call stays the same." "Tool calls: reporting"
        "name Read, then name Write" "Send name once.";
    ToolCallKind "tool-call-kind": V2 Agent Capability "/session" ["ACP-ENUM-201"]
        "The kind of a tool call is defined or begins with an underscore." "Tool calls: reporting"
        "{\"kind\":\"compile\"}" "Start custom kinds with _.";
    ToolCallStatus "tool-call-status": V2 Agent Capability "/session" []
        "The status of a tool call is defined or begins with an underscore." "Tool calls: status"
        "{\"status\":\"running\"}" "Use pending, in_progress, completed, failed, cancelled, paused.";
    LocationPathsV1 "absolute-paths-1": V1 Agent Must "" []
        "Paths are absolute: in locations, diffs, files and terminals." "Protocol overview: argument requirements"
        "{\"locations\":[{\"path\":\"src/a.rs\"}]}" "Make paths absolute before sending them.";
    LocationPathsV2 "absolute-paths-2": V2 Agent Capability "/session" []
        "Paths are absolute: in locations, lists and permission requests." "Tool calls: following the agent"
        "{\"locations\":[{\"path\":\"src/a.rs\"}]}" "Make paths absolute before sending them.";
    ToolCallFinal "tool-call-final": All Agent Recorded "" []
        "A finished tool call is started again." "Tool calls: status" "-" "-";
    MessageId "message-id": V2 Agent Capability "/session" ["ACP-PATCH-201"]
        "Messages and their chunks have a messageId." "Message updates: what we propose"
        "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{...}}" "Send messageId.";
    MessageContent "message-content": V2 Agent Capability "/session" []
        "A whole message has a list of content or null, a chunk has one block." "Message updates: what we propose"
        "{\"sessionUpdate\":\"agent_message\",\"messageId\":\"m\",\"content\":{...}}" "Send a list in messages and a block in chunks.";
    PlanId "plan-id": V2 Agent Capability "/session" ["ACP-PATCH-205"]
        "Every plan has a planId." "Plans" "{\"plan\":{\"type\":\"items\",\"entries\":[]}}" "Send planId.";
    PlanValues "plan-values": V2 Agent Capability "/session" []
        "Priorities and statuses of a plan are defined or begin with an underscore." "Plans"
        "{\"priority\":\"urgent\"}" "Use high, medium, low; pending, in_progress, completed, cancelled.";
    TerminalCwd "terminal-cwd": V2 Agent Capability "/session" ["ACP-PATCH-206"]
        "The cwd of a terminal is absolute and stays the same." "Terminals"
        "cwd /a, then cwd /b" "Send cwd once.";
    TerminalData "terminal-data": V2 Agent Capability "/session" ["ACP-PATCH-207"]
        "Each chunk of terminal output is separately encoded as base64." "Terminals"
        "{\"data\":\"plain text\"}" "Encode the bytes of each chunk.";
    Commands "commands-type": V2Newest Agent Capability "/session" []
        "Commands have a type." "Slash commands"
        "{\"availableCommands\":[{\"name\":\"web\",\"description\":\"Search\"}]}" "Send \"type\":\"command\" with each command.";
    OpenValues "enum-values": V2 Both Should "" ["ACP-ENUM-202"]
        "Other custom values begin with an underscore as well." "Extensibility"
        "{\"category\":\"speed\"}" "Start custom values with _.";

    // Diffs
    DiffChanges "diff-changes": V2 Agent Capability "/session" []
        "A diff has a list of changes; path, oldText and newText belong to version 1." "Diff content: what we propose"
        "{\"type\":\"diff\",\"path\":\"/a\",\"newText\":\"x\"}" "Send changes, and a patch for text.";
    DiffPaths "diff-absolute-paths": V2 Agent Capability "/session" []
        "Paths of changes and patches are absolute." "Diff content: what we propose"
        "{\"operation\":\"add\",\"path\":\"a.txt\"}" "Make paths absolute.";
    DiffHeaders "diff-patch-headers": V2 Agent Should "" []
        "The headers of a patch have absolute paths, without the a/ and b/ of Git." "Diff content: what we propose"
        "diff --git a/a.txt b/a.txt" "Use the paths of the changes in the headers.";
    DiffOldPath "diff-old-path": V2 Agent Capability "/session" []
        "A move or copy has its source path." "Diff content: what we propose"
        "{\"operation\":\"move\",\"path\":\"/b\"}" "Send oldPath.";
    DiffAgrees "diff-patch-agrees": V2 Agent Capability "/session" []
        "Changes and patch agree, and the patch is a Git patch." "Diff content: what we propose; why include both"
        "changes modify /a, the patch is of /b" "Make both from the same change.";
    DiffOperation "diff-operation": V2 Agent Capability "/session" []
        "The operation of a change is defined or begins with an underscore." "Diff content: what we propose"
        "{\"operation\":\"touch\",\"path\":\"/a\"}" "Use add, delete, modify, move, copy.";
    DiffPatch "diff-patch": V2 Agent Should "" []
        "A change of text has a patch." "Diff content: what we propose"
        "{\"operation\":\"modify\",\"path\":\"/a\",\"fileType\":\"text\"} without patch" "Send the patch.";

    // Options and modes
    ConfigValue "config-current-value": All Agent Capability "" ["ACP-CONFIG-001" "ACP-CONFIG-201" "ACP-CONFIG-204"]
        "The current value of an option is one of its values, and values and ids are unique." "Session config options"
        "{\"currentValue\":\"x\",\"options\":[{\"value\":\"a\",\"name\":\"A\"}]}" "Include the current value in the options.";
    ConfigComplete "config-complete": All Agent Capability "" ["ACP-CONFIG-002" "ACP-CONFIG-202" "ACP-CONFIG-206"]
        "session/set_config_option returns all options, including the new value." "Session config options"
        "only the option that changed, or its old value" "Return the complete current list.";
    ModesCurrent "modes-current": V1 Agent Capability "" ["ACP-MODES-001" "ACP-MODES-002"]
        "The current mode is one of the available modes." "Session modes"
        "{\"currentModeId\":\"x\",\"availableModes\":[{\"id\":\"a\",\"name\":\"A\"}]}" "Use a mode of the list.";

    // Observable only with a live peer
    PromptExtras "prompt-resource-link": All Agent Should "" ["ACP-PROMPT-003"]
        "A prompt with a resource link is accepted." "Content: resource link" "a resource_link answered -32602" "Accept it, as text if necessary.";
    PromptContentTaken "prompt-advertised-content": All Agent Capability "" []
        "A prompt with advertised content is accepted." "Content" "an image answered -32602 though advertised" "Advertise only supported content.";
    PromptMeta "prompt-meta": All Agent Should "" ["ACP-META-001"]
        "A prompt with _meta is accepted." "Extensibility: the _meta field" "_meta answered -32602" "Ignore unknown keys in _meta.";
    IgnoresNotification "ext-notification-ignored": All Agent Should "" ["ACP-EXT-201"]
        "An unknown notification is ignored." "Extensibility" "the connection ends after _acme/hello" "Ignore it." Live;
    LoadWorks "load-works": V1 Agent Capability "/loadSession" ["ACP-LOAD-001"]
        "session/load of an existing session works." "Session setup: loading a session" "session/load answered -32601" "Implement all advertised methods.";
    ResumeWorksV1 "resume-works-1": V1 Agent Capability "/sessionCapabilities/resume" ["ACP-RESUME-001"]
        "session/resume of an existing session works." "Session setup: resuming a session" "session/resume answered -32601" "Implement all advertised methods.";
    ResumeWorksV2 "resume-works-2": V2 Agent Capability "/session" ["ACP-RESUME-201"]
        "session/resume of an existing session works." "Session setup: resuming a session" "session/resume answered -32601" "It is part of the session capability.";
    CloseWorks "close-works": All Agent Capability "" ["ACP-CLOSE-001" "ACP-CLOSE-201"]
        "session/close of an idle session works." "Session close" "session/close answered -32601" "Implement all advertised methods.";
    DeleteWorks "delete-works": All Agent Capability "" ["ACP-DELETE-001" "ACP-DELETE-201"]
        "session/delete works." "Session delete" "session/delete answered -32601" "Implement all advertised methods.";
    DirectoriesWork "directories-work": All Agent Capability "" ["ACP-ADDDIRS-001" "ACP-ADDDIRS-201" "ACP-ADDDIRS-202"]
        "additionalDirectories is accepted." "Session setup" "session/new with it answered -32602" "Implement all advertised methods.";
    CancelLatency "cancel-latency": All Agent Recorded "" ["ACP-CANCEL-204"]
        "The time until cancelled work ends." "Prompt turn: cancellation" "-" "-" Live;
    Shutdown "process-exits": All Agent Should "" ["ACP-SHUTDOWN-001"]
        "The agent exits when its standard input closes." "Transports: stdio: shutdown" "the process keeps running" "Exit at the end of standard input." Live;
    StandardError "process-stderr": All Agent Recorded "" ["ACP-STDERR-001"]
        "The output of the agent on standard error." "Transports: stdio" "-" "-" Live;
    Survives "client-survives": All Client Must "" []
        "A client keeps working after every valid message, also one with unknown content." "Extensibility; Message updates; Tool call updates"
        "a client that exits on an unknown update" "Skip unreadable updates, and inform the user." Live;
    Tolerates "client-tolerates-faults": All Client Should "" []
        "A client keeps working after faults of the agent: invalid lines between messages, malformed fields, in version 1 unknown values." "Error handling"
        "a client that exits on a log line" "Skip the line or the update, and inform the user." Live;
    AnswersAll "client-answers-questions": All Client Must "" []
        "A client answers each of several pending requests." "Tool calls: requesting permission"
        "the second of two permission requests is never answered" "Keep a list of pending requests." Live;
    Transcript "client-transcript": All Client Must "" []
        "A client shows the result of the updates: chunks append, content replaces, null clears, a history is shown once." "Message updates; Tool call updates"
        "chunks A and B, then the message C, shown as ABC" "Apply updates in order." Live;
}
