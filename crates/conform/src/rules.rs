//! All rules, as data.

use crate::rule::{Party, Rule, Seen, Strength, Versions};

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
    (@seen Live) => { Seen::Live };
    (@seen) => { Seen::Recorded };
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
        "Every line is one JSON-RPC message and nothing else."
        "Transports: stdio" "starting up..." "Write logs to standard error, and each message on one line of its own.";
    Utf8 "transport-utf8": All Both Must "" ["ACP-TRANSPORT-002"]
        "Messages are UTF-8." "Transports: stdio" "{\"jsonrpc\":\"2.0\",...\\xff...}" "Encode output as UTF-8, whatever the locale says.";
    NoBatch "rpc-no-batch": All Both Must "" ["ACP-BATCH-202"]
        "Messages are sent one by one, never as an array." "Newest SDKs: batches are refused; version 1 never had them"
        "[{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",...}]" "Send each message on a line of its own.";
    BatchRefused "rpc-batch-refused": All Both Must "" ["ACP-BATCH-201"]
        "An array is answered by one error -32600 with the id null, or entry by entry." "JSON-RPC 2.0: Batch"
        "[] answered by {\"id\":null,\"error\":{\"code\":-32603,...}}" "Answer an array that is not taken with -32600 and the id null.";
    Envelope "rpc-envelope": All Both Must "" []
        "A message says \"jsonrpc\":\"2.0\" and is a request, a notification or a response." "JSON-RPC 2.0: Request object, Response object"
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
        "The id of a request is not used again while it waits for its answer." "JSON-RPC 2.0: Request object"
        "two requests with the id 3, the first not answered yet" "Count ids up.";
    IdEcho "rpc-id-echo": All Both Must "" ["ACP-JSONRPC-001"]
        "A response has the id of a request, in the same form: a string stays a string." "JSON-RPC 2.0: Response object"
        "request 2 answered under \"2\"" "Send the id back as it came.";
    AnsweredOnce "rpc-answered-once": All Both Must "" []
        "A request is answered once." "JSON-RPC 2.0: Response object"
        "two responses with the id 4" "Remember which requests are answered.";
    Answered "rpc-answered": All Both Must "" ["ACP-EXT-001"]
        "Every request is answered, also one that is not known." "JSON-RPC 2.0: Response object; Extensibility"
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"_acme/ping\"} without an answer" "Answer what is not known with -32601.";
    NotificationUnanswered "rpc-notification-unanswered": All Both Must "" ["ACP-JSONRPC-003" "ACP-CANCEL-205"]
        "Notifications are not answered." "JSON-RPC 2.0: Notification"
        "session/cancel answered by {\"id\":null,\"error\":{\"code\":-32601,...}}" "Answer only what has an id.";
    MethodForm "rpc-method-form": All Both Must "" []
        "Requests of the protocol have an id, its notifications have none." "Protocol overview: communication model"
        "session/cancel with an id" "Send session/cancel, session/update and $/cancel_request as notifications, the rest as requests.";
    MethodDirection "rpc-method-direction": All Both Must "" []
        "Each side calls only the methods of the other." "Protocol overview: methods"
        "a client that sends session/update" "Call the methods that the other side has.";
    UnknownMethod "rpc-unknown-method": All Both Should "" ["ACP-JSONRPC-004"]
        "A request with an unknown method is refused with -32601." "JSON-RPC 2.0: Error object"
        "_acme/ping answered by {\"code\":-32603,...}" "Answer unknown methods with -32601.";
    AliveAfterError "rpc-alive-after-error": All Agent Should "" ["ACP-JSONRPC-005"]
        "A request that fails does not end the connection." "JSON-RPC 2.0: Error object"
        "no answer to anything after an error" "Answer with an error and go on." Live;
    ErrorMessage "rpc-error-message": All Both Should "" ["ACP-ERROR-001"]
        "The message of an error is one line and not empty." "JSON-RPC 2.0: Error object"
        "{\"code\":-32603,\"message\":\"\"}" "Say in one sentence what went wrong; details belong into \"data\".";
    CancelOwnRequest "rpc-cancel-own": All Both Should "" []
        "$/cancel_request names a request that its sender has made." "Cancellation: $/cancel_request"
        "{\"method\":\"$/cancel_request\",\"params\":{\"requestId\":99}}" "Cancel the ids that you gave out.";
    ParseError "rpc-parse-error": All Agent Recorded "" ["ACP-INFO-PARSE-001"]
        "What is answered to a line that is no JSON." "JSON-RPC 2.0: Error object" "-" "-" Live;
    InvalidRequest "rpc-invalid-request": All Agent Recorded "" ["ACP-INFO-INVALIDREQ-001"]
        "What is answered to JSON that is no message." "JSON-RPC 2.0: Error object" "-" "-" Live;

    // initialize
    InitFirst "init-first": All Client Must "" []
        "A connection begins with initialize." "Initialization"
        "session/new before initialize" "Initialize, wait for the answer, then open sessions.";
    InitAnswer "init-answer": All Agent Must "" ["ACP-INIT-001" "ACP-INIT-202"]
        "initialize succeeds, with an integer as protocolVersion; only -32022 may say that there is no common version." "Initialization: version negotiation"
        "{\"result\":{\"protocolVersion\":\"1\"}}" "Answer each initialize, whatever version it asks for.";
    InitVersionV1 "init-version-1": V1 Agent Must "" ["ACP-INIT-002"]
        "Asked for version 1, an agent that has it answers 1." "Initialization: version negotiation"
        "asked for 1, answered 3" "Answer the version that was asked for, if you have it.";
    InitEcho "init-version-echo": All Agent Must "" ["ACP-INIT-003" "ACP-INIT-201"]
        "The version in the answer is one that the agent speaks, and its body is of that version: the number is never merely repeated."
        "Initialization: version negotiation" "asked for 65535, answered 65535" "Answer the highest version that you have, at most the one that was asked for.";
    InitSchema "init-schema": All Agent Must "" ["ACP-SCHEMA-001"]
        "The answer to initialize is as the schema says." "Schema: InitializeResponse"
        "{\"agentCapabilities\":{\"loadSession\":\"yes\"}}" "Compare with `switchboard schema`.";
    InitRequestSchema "init-request-schema": All Client Must "" []
        "initialize is asked as the schema of the asked version says." "Schema: InitializeRequest"
        "{\"protocolVersion\":\"1\"}" "Compare with `switchboard schema`.";
    AgentInfoV1 "init-agent-info": V1 Agent Should "" ["ACP-INIT-004"]
        "The agent says its name and version." "Initialization: implementation information"
        "an answer without agentInfo" "Send agentInfo with name and version.";
    InfoV2 "init-info": V2 Agent Must "" ["ACP-INIT-203"]
        "The agent says its name and version in info, and neither is empty." "Initialization"
        "{\"info\":{\"name\":\"\"}}" "Send info with name and version.";
    ClientInfoV1 "init-client-info-1": V1 Client Should "" []
        "The client says its name and version." "Initialization: implementation information"
        "initialize without clientInfo" "Send clientInfo with name and version.";
    ClientInfoV2 "init-client-info-2": V2 Client Must "" []
        "The client says its name and version in info, and neither is empty." "Initialization"
        "initialize without info" "Send info with name and version.";
    Markers "init-capability-markers": V2 Both Must "" ["ACP-INIT-204"]
        "A capability is an object, or missing, or null; never a boolean." "Initialization: capabilities"
        "{\"capabilities\":{\"session\":true}}" "Send {} for what is supported and nothing for the rest.";
    ForeignVersion "init-foreign-version": All Client Must "" []
        "A client that gets a version above the one it asked for does not go on." "Initialization: version negotiation"
        "asked for 1, answered 2, then session/new" "Close the connection and tell the user.";
    CapabilityKeys "ext-capability-keys": All Both Should "" ["ACP-EXT-202"]
        "What is no capability of the protocol is advertised in _meta." "Extensibility: advertising custom capabilities"
        "{\"agentCapabilities\":{\"turbo\":true}}" "Put it into _meta of the capabilities.";

    // Login
    AuthIdsUnique "auth-ids-unique": All Agent Should "" ["ACP-AUTH-001" "ACP-AUTH-201"]
        "The ways to log in have different ids." "Authentication"
        "two methods with the id login" "Give each an id of its own.";
    AuthTerminal "auth-terminal-unadvertised": All Agent Must "" ["ACP-AUTH-002" "ACP-AUTH-202"]
        "Logins in a terminal are offered only to clients that advertise auth.terminal." "Authentication: terminal methods"
        "{\"type\":\"terminal\",...} to a client without auth.terminal" "Look at the client's capabilities first.";
    AuthType "auth-type": V2 Agent Must "" ["ACP-AUTH-206"]
        "The type of a login is agent, terminal or begins with an underscore." "Authentication"
        "{\"type\":\"sso\",\"methodId\":\"a\",\"name\":\"A\"}" "Begin types of your own with _.";
    AuthEnvironment "auth-environment": V2 Agent Must "" ["ACP-AUTH-207"]
        "args of a terminal login are strings, env are {name, value} with different names." "Authentication: terminal methods"
        "{\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"A\",\"value\":\"2\"}]}" "Name each variable once.";
    LoginHelps "auth-login-helps": All Agent Capability "" ["ACP-AUTH-003" "ACP-AUTH-204"]
        "After a login that succeeded, session/new does not ask for one." "Authentication"
        "authenticate answered {}, then session/new answered -32000" "Keep the login for the connection.";
    LoginOffered "auth-login-offered": All Client Must "" []
        "A client logs in only by a method that was offered." "Authentication"
        "authenticate with a methodId that is not in authMethods" "Use an id of authMethods.";
    NoLoginNeeded "auth-not-needed": All Agent Should "" ["ACP-AUTH-005" "ACP-AUTH-205"]
        "An agent without authMethods does not ask for a login." "Authentication"
        "authMethods [] and session/new answered -32000" "Offer a method, or do not ask.";
    Logout "auth-logout": All Agent Capability "" ["ACP-AUTH-004" "ACP-AUTH-203"]
        "A logout that is offered works." "Authentication: logout" "logout answered -32601" "Implement what is advertised.";

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
        "A client answers what it advertises, and does not call it unknown." "Initialization: client capabilities"
        "fs.readTextFile true, and fs/read_text_file answered -32601" "Advertise only what is there.";

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
        "{\"cwd\":\".\",...}" "Make paths absolute before they are sent.";
    ClientParams "client-schema": All Client Must "" []
        "What a client sends is as the schema of its method says." "Schema"
        "session/new of version 1 without mcpServers" "Compare with `switchboard schema`.";
    ClientAnswers "client-answer-schema": All Client Must "" []
        "What a client answers is as the schema of the method says." "Schema"
        "a permission answered by {\"outcome\":\"selected\"}" "Compare with `switchboard schema`.";
    ClientSession "client-session-known": All Client Must "" []
        "A client works only in sessions that it opened." "Session setup: session id"
        "session/prompt with an id that no answer gave" "Use the id of the answer.";
    KnownMode "client-mode-known": V1 Client Must "" []
        "session/set_mode names one of the modes that the agent gave." "Session modes"
        "{\"modeId\":\"yolo\"}" "Use an id of availableModes.";
    KnownOption "client-option-known": All Client Must "" []
        "session/set_config_option names an option that the agent gave, and one of its values." "Session config options"
        "{\"configId\":\"model\",\"value\":\"none of them\"}" "Use the ids and values of configOptions.";

    // Sessions
    SessionIdV1 "session-new-1": V1 Agent Must "" ["ACP-SESSION-001"]
        "session/new gives the id of the session." "Session setup: creating a session"
        "{\"result\":{}}" "Answer with sessionId.";
    SessionIdV2 "session-new-2": V2 Agent Capability "/session" []
        "session/new gives the id of the session, also without mcpServers." "Session setup: creating a session"
        "{\"result\":{}}" "Answer with sessionId.";
    DistinctV1 "session-ids-distinct-1": V1 Agent Must "" ["ACP-SESSION-002"]
        "Each new session has an id of its own." "Session setup: session id"
        "two answers with the same sessionId" "Make ids that do not come twice.";
    DistinctV2 "session-ids-distinct-2": V2 Agent Capability "/session" []
        "Each new session has an id of its own." "Session setup: session id"
        "two answers with the same sessionId" "Make ids that do not come twice.";
    UpdateSessionV1 "update-session-1": V1 Agent Must "" ["ACP-PROMPT-002"]
        "Updates are about a session that the client opened." "Prompt turn: agent reports output"
        "session/update with an id that no answer gave" "Send the id of the session that works.";
    UpdateSessionV2 "update-session-2": V2 Agent Capability "/session" []
        "Updates are about a session that the client opened, or a sub-agent's that was announced." "Prompt lifecycle"
        "session/update with an id that no answer gave" "Send the id of the session that works.";
    UpdateSchemaV1 "update-schema-1": V1 Agent Must "" []
        "Updates are as the schema says." "Schema: SessionNotification"
        "{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"c\"}" "Compare with `switchboard schema --protocol v1`.";
    UpdateSchemaV2 "update-schema-2": V2 Agent Capability "/session" ["ACP-PROMPT-205"]
        "Updates are as the schema says." "Schema: SessionUpdate"
        "{\"sessionUpdate\":\"usage_update\"}" "Compare with `switchboard schema`.";
    CallSchemaV1 "agent-call-schema-1": V1 Agent Must "" []
        "Requests and notifications of the agent are as the schema says." "Schema"
        "session/request_permission without options" "Compare with `switchboard schema --protocol v1`.";
    CallSchemaV2 "agent-call-schema-2": V2 Agent Capability "/session" []
        "Requests and notifications of the agent are as the schema says." "Schema"
        "elicitation/create without message" "Compare with `switchboard schema`.";
    AnswerSchemaV1 "agent-answer-schema-1": V1 Agent Must "" []
        "Answers of the agent are as the schema says." "Schema"
        "{\"modes\":[]}" "Compare with `switchboard schema --protocol v1`.";
    AnswerSchemaV2 "agent-answer-schema-2": V2 Agent Capability "/session" []
        "Answers of the agent are as the schema says." "Schema"
        "{\"configOptions\":{}}" "Compare with `switchboard schema`.";
    RootKeys "schema-root-keys": All Both Should "" ["ACP-SCHEMA-002"]
        "Types of the protocol have no keys of one's own beside _meta." "Extensibility: the _meta field"
        "{\"stopReason\":\"end_turn\",\"cost\":1}" "Put it into _meta.";
    EmptyResult "schema-empty-result": All Both Should "" ["ACP-LOAD-003"]
        "An empty result is {}, not null." "Schema"
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":null}" "Answer {}.";
    MetaObject "meta-object": All Both Should "" ["ACP-META-201"]
        "_meta is an object or null." "Extensibility: the _meta field" "{\"_meta\":\"x\"}" "Send an object.";
    MethodName "ext-method-name": V2 Both Capability "/session" ["ACP-CLIENTCAP-202"]
        "A method that is not of the protocol begins with an underscore; fs/* and terminal/* of version 1 are not of version 2." "Extensibility: extension methods"
        "{\"method\":\"acme/ping\"}" "Begin methods of your own with _.";
    MethodNameV1 "ext-method-name-1": V1 Both Should "" []
        "A method that is not of the protocol begins with an underscore." "Extensibility: extension methods"
        "{\"method\":\"acme/ping\"}" "Begin methods of your own with _.";
    UnknownSession "session-unknown": All Agent Recorded "" ["ACP-INFO-UNKNOWNSESSION-001"]
        "What is answered to a prompt in a session that is not there." "Session setup" "-" "-" Live;

    // Loading and resuming sessions
    LoadReplay "load-replay-before-answer": V1 Agent Capability "/loadSession" ["ACP-LOAD-002"]
        "session/load gives the whole history before its answer." "Session setup: loading a session"
        "a user_message_chunk after the answer to session/load" "Answer when the last update of the history is sent.";
    ResumeNoHistoryV1 "resume-no-history-1": V1 Agent Capability "/sessionCapabilities/resume" ["ACP-RESUME-002"]
        "session/resume gives no history." "Session setup: resuming a session"
        "an agent_message_chunk between session/resume and its answer" "Send the history only for session/load.";
    ReplayBefore "resume-replay-before-answer": V2 Agent Capability "/session" ["ACP-RESUME-202"]
        "With replayFrom the history comes before the answer." "Session setup: resuming a session"
        "a user_message after the answer to session/resume" "Answer when the last update of the history is sent.";
    NoReplay "resume-no-replay": V2 Agent Capability "/session" ["ACP-RESUME-203"]
        "Without replayFrom there is no history." "Session setup: resuming a session"
        "an agent_message between session/resume without replayFrom and its answer" "Send the history only when asked for it.";
    ReplayIds "resume-same-ids": V2 Agent Capability "/session" ["ACP-RESUME-204"]
        "The messages of the history have the ids that they had." "Session setup: resuming a session"
        "user_message u-1 comes back as u-9" "Keep the ids with the messages.";
    ReplaySeeds "resume-chunk-seeded": V2 Agent Capability "/session" ["ACP-RESUME-205"]
        "In a history, chunks come after a whole message of the same id, so that nothing is shown twice." "Message updates: shiny future; Session setup: resuming a session"
        "an agent_message_chunk in the history without an agent_message before" "Send the message with content [] first, or whole.";
    ResumeState "resume-state": V2Newest Agent Capability "/session" []
        "session/resume tells the state of the session before its answer." "Session setup: resuming a session"
        "session/resume answered without a state_update" "Send state_update after the history and before the answer.";
    ReplayLive "resume-no-notice": V2 Agent Capability "/session" []
        "Notices are about the moment and no part of a history." "Session updates: notice"
        "a notice between session/resume and its answer" "Leave notices out of the history.";
    ListMatches "list-cwd": All Agent Capability "" ["ACP-LIST-002" "ACP-LIST-202" "ACP-LIST-203"]
        "session/list with a cwd lists only sessions of that folder." "Session list"
        "{\"cwd\":\"/a\"} answered by a session with cwd /b" "Filter by cwd.";
    ListPaths "list-absolute-cwd": All Agent Capability "" ["ACP-LIST-204"]
        "The cwd of a listed session is absolute." "Session list" "{\"sessionId\":\"s\",\"cwd\":\"src\"}" "Keep the absolute path.";
    ListArray "list-array": All Agent Capability "" ["ACP-LIST-001" "ACP-LIST-201"]
        "session/list answers with a list of sessions." "Session list" "{\"result\":{}}" "Answer {\"sessions\":[...]}, if need be empty.";
    DeleteGone "delete-gone": All Agent Capability "" ["ACP-DELETE-202"]
        "A deleted session is in no list any more." "Session delete"
        "session/delete answered {}, and session/list has it" "Take it out of the list.";
    DeleteAgain "delete-again": All Agent Should "" ["ACP-DELETE-002" "ACP-DELETE-203"]
        "Deleting a session that is gone succeeds." "Session delete"
        "the second session/delete answered -32002" "Answer {}.";
    CloseCancelsV1 "close-cancels-1": V1 Agent Capability "/sessionCapabilities/close" ["ACP-CLOSE-002"]
        "session/close during a prompt cancels it: the prompt is answered with cancelled." "Session close"
        "session/close, then the prompt answered end_turn" "Cancel the turn first.";
    CloseCancelsV2 "close-cancels-2": V2 Agent Capability "/session" ["ACP-CANCEL-208" "ACP-CLOSE-202"]
        "session/close during work ends it with idle and cancelled, before its answer." "Session close"
        "session/close answered without idle/cancelled" "Cancel the work first.";
    CloseSilent "close-silent": All Agent Capability "" []
        "Nothing is sent for a session that was closed." "Session close"
        "session/update after the answer to session/close" "Stop what works for the session.";

    // Turns of version 1
    StopReasonV1 "prompt-stop-reason": V1 Agent Must "" ["ACP-PROMPT-001"]
        "A prompt is answered with a stopReason of the protocol." "Prompt turn: stop reasons"
        "{\"result\":{\"stopReason\":\"done\"}}" "Use end_turn, max_tokens, max_turn_requests, refusal or cancelled.";
    CancelV1 "cancel-stop-reason-1": V1 Agent Must "" ["ACP-CANCEL-001"]
        "A prompt that was cancelled is answered with cancelled, not with an error." "Prompt turn: cancellation"
        "session/cancel, then {\"stopReason\":\"end_turn\"}" "Turn abort errors into the stop reason cancelled.";
    CancelQuietV1 "cancel-quiet-1": V1 Agent Must "" ["ACP-CANCEL-002"]
        "After the answer to a cancelled prompt nothing more comes of the turn." "Prompt turn: cancellation"
        "an agent_message_chunk after {\"stopReason\":\"cancelled\"}" "Send what is left, then answer.";
    TurnQuiet "prompt-updates-before-answer": V1 Agent Should "" []
        "The updates of a turn come before the answer to its prompt." "Prompt turn"
        "an agent_message_chunk after {\"stopReason\":\"end_turn\"}" "Answer the prompt last.";
    PermissionsCancelled "cancel-answers-questions": All Client Must "" []
        "A client that cancels answers the open permission requests of the session with cancelled." "Prompt turn: cancellation"
        "session/cancel, then a permission answered with selected" "Answer what is open with cancelled when you cancel.";
    Announced "tool-call-announced": V1 Agent Should "" []
        "A tool call is announced by tool_call before it is updated." "Tool calls: creating"
        "tool_call_update for an id that no tool_call had" "Send tool_call first.";

    // Turns of version 2
    PromptMessageId "prompt-message-id": V2Newest Agent Capability "/session" ["ACP-PROMPT-201"]
        "The answer to a prompt has the id of the user's message." "Prompt lifecycle: accepting a prompt"
        "{\"result\":{}}" "Answer {\"messageId\":...}.";
    PromptEchoed "prompt-user-message": V2Newest Agent Capability "/session" ["ACP-PROMPT-203"]
        "The user's message is told, under the id of the answer, before the work ends." "Prompt lifecycle: accepting a prompt; Message updates"
        "idle without a user_message of the prompt" "Send user_message when the prompt is taken.";
    PromptIds "prompt-ids-distinct": V2 Agent Capability "/session" ["ACP-PATCH-203"]
        "Two prompts have two message ids." "Message updates"
        "two prompts answered with the same messageId" "Make ids that do not come twice.";
    PromptLateError "prompt-late-error": V2 Agent Capability "/session" []
        "A prompt whose message was told is not answered with an error any more." "Prompt lifecycle: accepting a prompt"
        "user_message, then the prompt answered with an error" "End the work with stopReason error.";
    RunningFirst "state-running": V2 Agent Capability "/session" ["ACP-STATE-201"]
        "Work that ends has begun: idle with a stop reason comes after running." "Prompt lifecycle: states"
        "session/prompt, then idle with end_turn, without running" "Send running when the work begins.";
    StopReasonV2 "state-stop-reason": V2 Agent Capability "/session" ["ACP-STATE-203" "ACP-CANCEL-207"]
        "idle at the end of work has a stopReason that is defined or begins with an underscore." "Prompt lifecycle: stop reasons"
        "running, then {\"state\":\"idle\"}" "Say why the work ended.";
    ReachesIdle "state-idle": V2 Agent Capability "/session" ["ACP-STATE-202" "ACP-PROMPTCAP-001" "ACP-PROMPTCAP-002" "ACP-PROMPTCAP-003"]
        "Work that began ends with idle." "Prompt lifecycle: states" "running and never idle" "Send idle in the end, whatever happened." Live;
    RunningAgain "state-running-again": V2 Agent Capability "/session" []
        "After requires_action and the answer, running tells that work goes on." "Prompt lifecycle: states"
        "requires_action, the answer, idle with end_turn" "Send running when the last question is answered.";
    RequiresAction "state-requires-action": V2 Agent Should "" ["ACP-PATCH-209"]
        "An agent that waits for the user says requires_action." "Prompt lifecycle: states"
        "session/request_permission answered without requires_action before" "Send requires_action beside the question.";
    CancelV2 "cancel-stop-reason-2": V2 Agent Capability "/session" ["ACP-CANCEL-201" "ACP-CANCEL-203"]
        "Work that was cancelled ends with idle and cancelled." "Prompt lifecycle: cancellation"
        "session/cancel, then idle with end_turn" "Turn abort errors into the stop reason cancelled.";
    CancelQuietV2 "cancel-quiet-2": V2 Agent Capability "/session" ["ACP-CANCEL-202"]
        "After idle and cancelled nothing more comes of the work." "Prompt lifecycle: cancellation"
        "an agent_message_chunk after idle with cancelled" "Send what is left, then idle.";

    // Permissions
    PermissionShape "permission-shape": V2 Agent Capability "/session" ["ACP-PERM-201"]
        "A permission request has a title that is not empty and at least one option with optionId, name and kind." "Permission requests: what we propose"
        "{\"title\":\"\",\"options\":[]}" "Send a title and options.";
    PermissionIdsV1 "permission-option-ids-1": V1 Agent Must "" []
        "The options of a permission request have different ids." "Tool calls: permission options"
        "two options with the id yes" "Give each an id of its own.";
    PermissionIdsV2 "permission-option-ids-2": V2 Agent Capability "/session" []
        "The options of a permission request have different ids." "Tool calls: permission options"
        "two options with the id yes" "Give each an id of its own.";
    PermissionOffered "permission-answer-offered": All Client Must "" []
        "The option that is selected was offered." "Tool calls: requesting permission"
        "{\"outcome\":\"selected\",\"optionId\":\"nobody offered this\"}" "Answer with one of the optionIds.";
    PermissionKind "permission-option-kind": V2 Agent Capability "/session" []
        "The kind of an option is defined or begins with an underscore." "Tool calls: permission options"
        "{\"kind\":\"maybe\"}" "Begin kinds of your own with _.";
    SubjectType "permission-subject": V2 Agent Capability "/session" []
        "A subject has a type that is defined or begins with an underscore, and what that type needs." "Permission requests: what we propose"
        "{\"subject\":{\"toolCall\":{...}}}" "Send {\"type\":\"tool_call\",\"toolCall\":{...}}.";

    // Tool calls, messages, plans, terminals of version 2
    UpdateKind "update-kind": V2 Agent Capability "/session" []
        "The kind of an update is defined or begins with an underscore; tool_call, plan and current_mode_update of version 1 are not of version 2." "Tool call updates: implementation details; Extensibility"
        "{\"sessionUpdate\":\"tool_call\",...}" "Begin kinds of your own with _; send tool_call_update.";
    ToolCallId "tool-call-id": V2 Agent Capability "/session" ["ACP-PATCH-204"]
        "Updates and chunks of a tool call name it." "Tool call updates: what we propose"
        "{\"sessionUpdate\":\"tool_call_update\",\"title\":\"Read\"}" "Send toolCallId.";
    ToolCallChunk "tool-call-chunk": V2 Agent Capability "/session" []
        "A chunk of a tool call has one content item, {\"type\":\"content\",...} or a diff, not a list and not a bare block." "Tool calls: streaming content"
        "{\"sessionUpdate\":\"tool_call_content_chunk\",\"toolCallId\":\"c\",\"content\":[]}" "Send one item a chunk.";
    ToolCallTitle "tool-call-title": V2 Agent Should "" ["ACP-PATCH-208"]
        "The first report of a tool call has a title." "Tool call updates: what we propose"
        "{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"new\"}" "Send title with the first update.";
    ToolCallName "tool-call-name": V2 Agent Should "" []
        "The name of a tool call stays the same." "Tool calls: reporting"
        "name Read, then name Write" "Send name once.";
    ToolCallKind "tool-call-kind": V2 Agent Capability "/session" ["ACP-ENUM-201"]
        "The kind of a tool call is defined or begins with an underscore." "Tool calls: reporting"
        "{\"kind\":\"compile\"}" "Begin kinds of your own with _.";
    ToolCallStatus "tool-call-status": V2 Agent Capability "/session" []
        "The status of a tool call is defined or begins with an underscore." "Tool calls: status"
        "{\"status\":\"running\"}" "Use pending, in_progress, completed, failed, cancelled, paused.";
    LocationPathsV1 "absolute-paths-1": V1 Agent Must "" []
        "Paths are absolute: in locations, diffs, files and terminals." "Protocol overview: argument requirements"
        "{\"locations\":[{\"path\":\"src/a.rs\"}]}" "Make paths absolute before they are sent.";
    LocationPathsV2 "absolute-paths-2": V2 Agent Capability "/session" []
        "Paths are absolute: in locations, lists and questions." "Tool calls: following the agent"
        "{\"locations\":[{\"path\":\"src/a.rs\"}]}" "Make paths absolute before they are sent.";
    ToolCallFinal "tool-call-final": All Agent Recorded "" []
        "A tool call that is over begins again." "Tool calls: status" "-" "-";
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
        "Each piece of a terminal's output is base64 by itself." "Terminals"
        "{\"data\":\"plain text\"}" "Encode the bytes of each piece.";
    Commands "commands-type": V2Newest Agent Capability "/session" []
        "Commands have a type." "Slash commands"
        "{\"availableCommands\":[{\"name\":\"web\",\"description\":\"Search\"}]}" "Send \"type\":\"command\" with each.";
    OpenValues "enum-values": V2 Both Should "" ["ACP-ENUM-202"]
        "Other values of one's own begin with an underscore, too." "Extensibility"
        "{\"category\":\"speed\"}" "Begin values of your own with _.";

    // Diffs
    DiffChanges "diff-changes": V2 Agent Capability "/session" []
        "A diff has a list of changes; path, oldText and newText of version 1 are no diff of version 2." "Diff content: what we propose"
        "{\"type\":\"diff\",\"path\":\"/a\",\"newText\":\"x\"}" "Send changes, and patch where there is text to show.";
    DiffPaths "diff-absolute-paths": V2 Agent Capability "/session" []
        "Paths of changes and patches are absolute." "Diff content: what we propose"
        "{\"operation\":\"add\",\"path\":\"a.txt\"}" "Make paths absolute.";
    DiffHeaders "diff-patch-headers": V2 Agent Should "" []
        "The headers of a patch have absolute paths, without the a/ and b/ of Git." "Diff content: what we propose"
        "diff --git a/a.txt b/a.txt" "Write the paths of the changes into the headers.";
    DiffOldPath "diff-old-path": V2 Agent Capability "/session" []
        "A move or copy says where it comes from." "Diff content: what we propose"
        "{\"operation\":\"move\",\"path\":\"/b\"}" "Send oldPath.";
    DiffAgrees "diff-patch-agrees": V2 Agent Capability "/session" []
        "Changes and patch say the same, and the patch is a git patch." "Diff content: what we propose; why include both"
        "changes modify /a, the patch is of /b" "Make both from the same change.";
    DiffOperation "diff-operation": V2 Agent Capability "/session" []
        "The operation of a change is defined or begins with an underscore." "Diff content: what we propose"
        "{\"operation\":\"touch\",\"path\":\"/a\"}" "Use add, delete, modify, move, copy.";
    DiffPatch "diff-patch": V2 Agent Should "" []
        "A change of text comes with a patch." "Diff content: what we propose"
        "{\"operation\":\"modify\",\"path\":\"/a\",\"fileType\":\"text\"} without patch" "Send the patch.";

    // Options and modes
    ConfigValue "config-current-value": All Agent Capability "" ["ACP-CONFIG-001" "ACP-CONFIG-201" "ACP-CONFIG-204"]
        "The current value of an option is one of its values, and each value and id comes once." "Session config options"
        "{\"currentValue\":\"x\",\"options\":[{\"value\":\"a\",\"name\":\"A\"}]}" "Offer the value that is set.";
    ConfigComplete "config-complete": All Agent Capability "" ["ACP-CONFIG-002" "ACP-CONFIG-202" "ACP-CONFIG-206"]
        "session/set_config_option answers with all options, the new value among them." "Session config options"
        "only the option that changed, or its old value" "Answer the whole list as it is now.";
    ModesCurrent "modes-current": V1 Agent Capability "" ["ACP-MODES-001" "ACP-MODES-002"]
        "The current mode is one of the modes that are there." "Session modes"
        "{\"currentModeId\":\"x\",\"availableModes\":[{\"id\":\"a\",\"name\":\"A\"}]}" "Name a mode of the list.";

    // Observable only with a live peer
    PromptExtras "prompt-resource-link": All Agent Should "" ["ACP-PROMPT-003"]
        "A link to a resource is taken in a prompt." "Content: resource link" "a resource_link answered -32602" "Take it as text, if need be.";
    PromptContentTaken "prompt-advertised-content": All Agent Capability "" []
        "Content that is advertised is taken in a prompt." "Content" "an image answered -32602 though advertised" "Advertise only what is taken.";
    PromptMeta "prompt-meta": All Agent Should "" ["ACP-META-001"]
        "A prompt with _meta is taken." "Extensibility: the _meta field" "_meta answered -32602" "Ignore what is not known in _meta.";
    IgnoresNotification "ext-notification-ignored": All Agent Should "" ["ACP-EXT-201"]
        "A notification that is not known is ignored." "Extensibility" "the connection ends after _acme/hello" "Ignore it." Live;
    LoadWorks "load-works": V1 Agent Capability "/loadSession" ["ACP-LOAD-001"]
        "session/load of a session that is there works." "Session setup: loading a session" "session/load answered -32601" "Implement what is advertised.";
    ResumeWorksV1 "resume-works-1": V1 Agent Capability "/sessionCapabilities/resume" ["ACP-RESUME-001"]
        "session/resume of a session that is there works." "Session setup: resuming a session" "session/resume answered -32601" "Implement what is advertised.";
    ResumeWorksV2 "resume-works-2": V2 Agent Capability "/session" ["ACP-RESUME-201"]
        "session/resume of a session that is there works." "Session setup: resuming a session" "session/resume answered -32601" "It is part of the session capability.";
    CloseWorks "close-works": All Agent Capability "" ["ACP-CLOSE-001" "ACP-CLOSE-201"]
        "session/close of a session at rest works." "Session close" "session/close answered -32601" "Implement what is advertised.";
    DeleteWorks "delete-works": All Agent Capability "" ["ACP-DELETE-001" "ACP-DELETE-201"]
        "session/delete works." "Session delete" "session/delete answered -32601" "Implement what is advertised.";
    DirectoriesWork "directories-work": All Agent Capability "" ["ACP-ADDDIRS-001" "ACP-ADDDIRS-201" "ACP-ADDDIRS-202"]
        "additionalDirectories is taken." "Session setup" "session/new with it answered -32602" "Implement what is advertised.";
    CancelLatency "cancel-latency": All Agent Recorded "" ["ACP-CANCEL-204"]
        "How long it takes until cancelled work ends." "Prompt turn: cancellation" "-" "-" Live;
    Shutdown "process-exits": All Agent Should "" ["ACP-SHUTDOWN-001"]
        "The agent exits when its standard input closes." "Transports: stdio: shutdown" "the process stays" "End when reading ends." Live;
    StandardError "process-stderr": All Agent Recorded "" ["ACP-STDERR-001"]
        "What the agent writes to standard error." "Transports: stdio" "-" "-" Live;
    Survives "client-survives": All Client Must "" []
        "A client survives what the protocol allows, known to it or not, and goes on." "Extensibility; Message updates; Tool call updates"
        "a client that ends at an unknown update" "Skip what cannot be read, and tell the user." Live;
    Tolerates "client-tolerates-faults": All Client Should "" []
        "A client survives what a faulty agent sends: noise between messages, malformed fields, in version 1 unknown values." "Error handling"
        "a client that ends at a line of log" "Skip the line or the update, and tell the user." Live;
    AnswersAll "client-answers-questions": All Client Must "" []
        "A client answers each of several questions that are open at once." "Tool calls: requesting permission"
        "the second of two permission requests is never answered" "Keep a list of open questions." Live;
    Transcript "client-transcript": All Client Must "" []
        "What a client shows is what the updates make: chunks append, content replaces, null clears, a history is shown once." "Message updates; Tool call updates"
        "chunks A and B, then the message C, shown as ABC" "Apply updates in the order in which they come." Live;
}
