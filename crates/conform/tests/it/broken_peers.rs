//! For each rule that can be seen in a conversation a peer that breaks it and no other: a conversation of peers that keep
//! everything, with one fault put in.

use std::collections::BTreeSet;

use serde_json::Value;
use switchboard_conform::{
    Evaluator, Findings, RULES, RecordingJudge, RuleId, Seen, Status, Strength, Verdict,
};
use switchboard_protocol::Side;

/// A client of version 1 that says little of itself, and an agent that can a lot. `C` and `A` say who speaks.
const V1: &[&str] = &[
    /* 1 */
    r#"C {"id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
    /* 2 */
    r#"A {"id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"list":{},"resume":{},"close":{},"delete":{}}},"agentInfo":{"name":"a","version":"1"},"authMethods":[{"id":"login","name":"Log in"}]}}"#,
    /* 3 */ r#"C {"id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#,
    /* 4 */
    r#"A {"id":1,"result":{"sessionId":"s-1","modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"},{"id":"code","name":"Code"}]},"configOptions":[{"id":"model","name":"Model","type":"select","currentValue":"a","options":[{"value":"a","name":"A"},{"value":"b","name":"B"}]},{"id":"effort","name":"Effort","type":"select","currentValue":"low","options":[{"value":"low","name":"Low"}]}]}}"#,
    /* 5 */
    r#"C {"id":2,"method":"session/prompt","params":{"sessionId":"s-1","prompt":[{"type":"text","text":"go"}]}}"#,
    /* 6 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call","toolCallId":"c-1","title":"Read","kind":"read","status":"pending","locations":[{"path":"/w/a"}]}}}"#,
    /* 7 */
    r#"A {"id":0,"method":"session/request_permission","params":{"sessionId":"s-1","toolCall":{"toolCallId":"c-1"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]}}"#,
    /* 8 */ r#"C {"id":0,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}"#,
    /* 9 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c-1","status":"completed"}}}"#,
    /* 10 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Done."}}}}"#,
    /* 11 */ r#"A {"id":2,"result":{"stopReason":"end_turn"}}"#,
    /* 12 */
    r#"C {"id":3,"method":"session/prompt","params":{"sessionId":"s-1","prompt":[{"type":"text","text":"again"}]}}"#,
    /* 13 */
    r#"A {"id":1,"method":"session/request_permission","params":{"sessionId":"s-1","toolCall":{"toolCallId":"c-1"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}}"#,
    /* 14 */ r#"C {"method":"session/cancel","params":{"sessionId":"s-1"}}"#,
    /* 15 */ r#"C {"id":1,"result":{"outcome":{"outcome":"cancelled"}}}"#,
    /* 16 */ r#"A {"id":3,"result":{"stopReason":"cancelled"}}"#,
    /* 17 */ r#"C {"id":4,"method":"session/set_mode","params":{"sessionId":"s-1","modeId":"code"}}"#,
    /* 18 */ r#"A {"id":4,"result":{}}"#,
    /* 19 */
    r#"C {"id":5,"method":"session/set_config_option","params":{"sessionId":"s-1","configId":"model","value":"b"}}"#,
    /* 20 */
    r#"A {"id":5,"result":{"configOptions":[{"id":"model","name":"Model","type":"select","currentValue":"b","options":[{"value":"a","name":"A"},{"value":"b","name":"B"}]},{"id":"effort","name":"Effort","type":"select","currentValue":"low","options":[{"value":"low","name":"Low"}]}]}}"#,
    /* 21 */
    r#"C {"id":6,"method":"session/prompt","params":{"sessionId":"s-1","prompt":[{"type":"text","text":"long"}]}}"#,
    /* 22 */ r#"C {"id":7,"method":"session/close","params":{"sessionId":"s-1"}}"#,
    /* 23 */ r#"A {"id":6,"result":{"stopReason":"cancelled"}}"#,
    /* 24 */ r#"A {"id":7,"result":{}}"#,
    /* 25 */
    r#"C {"id":8,"method":"session/load","params":{"sessionId":"s-1","cwd":"/w","mcpServers":[]}}"#,
    /* 26 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"go"}}}}"#,
    /* 27 */ r#"A {"id":8,"result":{}}"#,
    /* 28 */ r#"C {"id":9,"method":"session/resume","params":{"sessionId":"s-1","cwd":"/w"}}"#,
    /* 29 */ r#"A {"id":9,"result":{}}"#,
    /* 30 */ r#"C {"id":10,"method":"session/list","params":{"cwd":"/w"}}"#,
    /* 31 */ r#"A {"id":10,"result":{"sessions":[{"sessionId":"s-1","cwd":"/w"}]}}"#,
    /* 32 */ r#"C {"id":11,"method":"session/delete","params":{"sessionId":"s-1"}}"#,
    /* 33 */ r#"A {"id":11,"result":{}}"#,
    /* 34 */ r#"C {"id":12,"method":"session/delete","params":{"sessionId":"s-1"}}"#,
    /* 35 */ r#"A {"id":12,"result":{}}"#,
    /* 36 */ r#"C {"id":13,"method":"_acme/ping"}"#,
    /* 37 */ r#"A {"id":13,"error":{"code":-32601,"message":"Method not found"}}"#,
    /* 38 */ r#"C {"id":14,"method":"session/list","params":{}}"#,
    /* 39 */ r#"A {"id":14,"result":{"sessions":[]}}"#,
];

const V2: &[&str] = &[
    /* 1 */
    r#"C {"id":0,"method":"initialize","params":{"protocolVersion":2,"capabilities":{},"info":{"name":"c","version":"1"}}}"#,
    /* 2 */
    r#"A {"id":0,"result":{"protocolVersion":2,"capabilities":{"session":{"delete":{}}},"info":{"name":"a","version":"1"},"authMethods":[{"type":"agent","methodId":"login","name":"Log in"}]}}"#,
    /* 3 */ r#"C {"id":1,"method":"session/new","params":{"cwd":"/w"}}"#,
    /* 4 */
    r#"A {"id":1,"result":{"sessionId":"s-1","configOptions":[{"configId":"model","name":"Model","type":"select","currentValue":"a","options":[{"value":"a","name":"A"},{"value":"b","name":"B"}]},{"configId":"fast","name":"Fast","type":"boolean","currentValue":true}]}}"#,
    /* 5 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"available_commands_update","availableCommands":[{"type":"command","name":"web","description":"Search"}]}}}"#,
    /* 6 */
    r#"C {"id":2,"method":"session/prompt","params":{"sessionId":"s-1","prompt":[{"type":"text","text":"go"}]}}"#,
    /* 7 */ r#"A {"id":2,"result":{"messageId":"u-1"}}"#,
    /* 8 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"user_message","messageId":"u-1","content":[{"type":"text","text":"go"}]}}}"#,
    /* 9 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"state_update","state":"running"}}}"#,
    /* 10 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c-1","title":"Edit","name":"edit","kind":"edit","status":"pending","locations":[{"path":"/w/a"}],"content":[{"type":"diff","changes":[{"operation":"modify","path":"/w/a","fileType":"text"}],"patch":{"format":"git_patch","text":"diff --git /w/a /w/a\n--- /w/a\n+++ /w/a\n@@ -1 +1 @@\n-x\n+y\n"}}]}}}"#,
    /* 11 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"state_update","state":"requires_action"}}}"#,
    /* 12 */
    r#"A {"id":0,"method":"session/request_permission","params":{"sessionId":"s-1","title":"Edit a?","subject":{"type":"tool_call","toolCall":{"toolCallId":"c-1"}},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"},{"optionId":"n","name":"No","kind":"reject_once"}]}}"#,
    /* 13 */ r#"C {"id":0,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}"#,
    /* 14 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"state_update","state":"running"}}}"#,
    /* 15 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call_content_chunk","toolCallId":"c-1","content":{"type":"content","content":{"type":"text","text":"ok"}}}}}"#,
    /* 16 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"terminal_update","terminalId":"t-1","command":"ls","cwd":"/w"}}}"#,
    /* 17 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"terminal_output_chunk","terminalId":"t-1","data":"b2sK"}}}"#,
    /* 18 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[{"content":"Read","priority":"high","status":"pending"}]}}}}"#,
    /* 19 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","messageId":"m-1","content":{"type":"text","text":"Done."}}}}"#,
    /* 20 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}}}"#,
    /* 21 */
    r#"C {"id":3,"method":"session/prompt","params":{"sessionId":"s-1","prompt":[{"type":"text","text":"again"}]}}"#,
    /* 22 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"state_update","state":"running"}}}"#,
    /* 23 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"user_message","messageId":"u-2","content":[{"type":"text","text":"again"}]}}}"#,
    /* 24 */ r#"A {"id":3,"result":{"messageId":"u-2"}}"#,
    /* 25 */ r#"C {"method":"session/cancel","params":{"sessionId":"s-1"}}"#,
    /* 26 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}}}"#,
    /* 27 */
    r#"C {"id":4,"method":"session/set_config_option","params":{"sessionId":"s-1","configId":"model","type":"id","value":"b"}}"#,
    /* 28 */
    r#"A {"id":4,"result":{"configOptions":[{"configId":"model","name":"Model","type":"select","currentValue":"b","options":[{"value":"a","name":"A"},{"value":"b","name":"B"}]},{"configId":"fast","name":"Fast","type":"boolean","currentValue":true}]}}"#,
    /* 29 */
    r#"C {"id":5,"method":"session/prompt","params":{"sessionId":"s-1","prompt":[{"type":"text","text":"long"}]}}"#,
    /* 30 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"state_update","state":"running"}}}"#,
    /* 31 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"user_message","messageId":"u-3","content":[{"type":"text","text":"long"}]}}}"#,
    /* 32 */ r#"A {"id":5,"result":{"messageId":"u-3"}}"#,
    /* 33 */ r#"C {"id":6,"method":"session/close","params":{"sessionId":"s-1"}}"#,
    /* 34 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}}}"#,
    /* 35 */ r#"A {"id":6,"result":{}}"#,
    /* 36 */
    r#"C {"id":7,"method":"session/resume","params":{"sessionId":"s-1","cwd":"/w","replayFrom":{"type":"start"}}}"#,
    /* 37 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"user_message","messageId":"u-1","content":[{"type":"text","text":"go"}]}}}"#,
    /* 38 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message","messageId":"m-1","content":[]}}}"#,
    /* 39 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","messageId":"m-1","content":{"type":"text","text":"Done."}}}}"#,
    /* 40 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"state_update","state":"idle"}}}"#,
    /* 41 */ r#"A {"id":7,"result":{}}"#,
    /* 42 */ r#"C {"id":8,"method":"session/resume","params":{"sessionId":"s-1","cwd":"/w"}}"#,
    /* 43 */
    r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"state_update","state":"idle"}}}"#,
    /* 44 */ r#"A {"id":8,"result":{}}"#,
    /* 45 */ r#"C {"id":9,"method":"session/list","params":{"cwd":"/w"}}"#,
    /* 46 */ r#"A {"id":9,"result":{"sessions":[{"sessionId":"s-1","cwd":"/w"}]}}"#,
    /* 47 */ r#"C {"id":10,"method":"session/delete","params":{"sessionId":"s-1"}}"#,
    /* 48 */ r#"A {"id":10,"result":{}}"#,
    /* 49 */ r#"C {"id":11,"method":"session/list","params":{}}"#,
    /* 50 */ r#"A {"id":11,"result":{"sessions":[]}}"#,
];

/// A fault: another line in the place of one, a line more behind one, or one less.
enum Fault {
    /// In this line, the first text is replaced by the second.
    Edit(u64, &'static str, &'static str),
    /// Behind this line.
    Add(u64, &'static str),
    Remove(u64),
}
use Fault::{Add, Edit, Remove};

/// A rule, who breaks it, how, and the messages that are told.
type Broken = (&'static str, &'static [&'static str], &'static [Fault], &'static [u64]);

const NOTICE: &str = r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"notice","severity":"info","title":"Hi"}}}"#;
const CHUNK_V1: &str = r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"late"}}}}"#;
const CHUNK_V2: &str = r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","messageId":"m-1","content":{"type":"text","text":"late"}}}}"#;
const ELICIT: &str = r#"A {"id":5,"method":"elicitation/create","params":{"sessionId":"s-1","mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}}"#;

const BROKEN: &[Broken] = &[
    ("transport-json-line", V1, &[Add(9, "A starting up")], &[10]),
    ("transport-utf8", V1, &[Add(9, "A \u{FFFD}")], &[10]),
    (
        "rpc-no-batch",
        V2,
        &[Edit(
            47,
            r#"C {"id":10,"method":"session/delete","params":{"sessionId":"s-1"}}"#,
            r#"C [{"jsonrpc":"2.0","id":10,"method":"session/delete","params":{"sessionId":"s-1"}}]"#,
        )],
        &[47],
    ),
    ("rpc-envelope", V1, &[Edit(18, r#"{"id":4"#, r#"{"jsonrpc":"1.0","id":4"#)], &[18]),
    ("rpc-result-or-error", V1, &[Edit(18, r#","result":{}"#, "")], &[18]),
    (
        "rpc-error-object",
        V1,
        &[Edit(37, r#"{"code":-32601,"message":"Method not found"}"#, r#""no""#)],
        &[37],
    ),
    ("rpc-request-id", V1, &[Edit(36, r#""id":13"#, r#""id":13.5"#), Remove(37)], &[36]),
    (
        "rpc-id-in-use",
        V2,
        &[
            Edit(49, r#""id":11"#, r#""id":10"#),
            Edit(50, r#""id":11"#, r#""id":10"#),
            Remove(48),
            Edit(47, "session/delete", "session/prompt"),
            Edit(47, r#""s-1""#, r#""s-1","prompt":[{"type":"text","text":"x"}]"#),
        ],
        &[48],
    ),
    ("rpc-id-echo", V1, &[Edit(39, r#""id":14"#, r#""id":"14""#)], &[39]),
    ("rpc-answered-once", V1, &[Add(18, r#"A {"id":4,"result":{}}"#)], &[19]),
    ("rpc-answered", V1, &[Remove(37)], &[36]),
    (
        "rpc-notification-unanswered",
        V1,
        &[Add(14, r#"A {"id":null,"error":{"code":-32601,"message":"Method not found"}}"#)],
        &[15],
    ),
    (
        "rpc-method-form",
        V1,
        &[Edit(14, r#"{"method":"session/cancel""#, r#"{"id":99,"method":"session/cancel""#)],
        &[14],
    ),
    (
        "rpc-method-direction",
        V1,
        &[Add(
            39,
            r#"C {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}"#,
        )],
        &[40],
    ),
    ("rpc-unknown-method", V1, &[Edit(37, "-32601", "-32603")], &[37]),
    ("rpc-error-message", V1, &[Edit(37, "Method not found", "")], &[37]),
    ("rpc-cancel-own", V1, &[Add(36, r#"C {"method":"$/cancel_request","params":{"requestId":99}}"#)], &[37]),
    (
        "init-first",
        V1,
        &[Edit(
            1,
            r#"C {"id":0,"method":"initialize""#,
            r#"C {"id":50,"method":"session/list","params":{}}
C {"id":0,"method":"initialize""#,
        )],
        &[1],
    ),
    ("init-answer", V1, &[Edit(2, r#""protocolVersion":1"#, r#""protocolVersion":"1""#)], &[2]),
    ("init-version-1", V1, &[Edit(2, r#""protocolVersion":1"#, r#""protocolVersion":0"#)], &[2]),
    (
        "init-version-echo",
        V1,
        &[
            Edit(1, r#""protocolVersion":1"#, r#""protocolVersion":65535,"info":{"name":"c","version":"1"}"#),
            Edit(2, r#""protocolVersion":1"#, r#""protocolVersion":65535"#),
        ],
        &[2],
    ),
    ("init-schema", V1, &[Edit(2, r#""loadSession":true"#, r#""loadSession":"yes""#)], &[2]),
    ("init-request-schema", V1, &[Edit(1, r#""clientCapabilities":{}"#, r#""clientCapabilities":7"#)], &[1]),
    ("init-agent-info", V1, &[Edit(2, r#","agentInfo":{"name":"a","version":"1"}"#, "")], &[2]),
    ("init-info", V2, &[Edit(2, r#""name":"a""#, r#""name":"""#)], &[2]),
    ("init-client-info-1", V1, &[Edit(1, r#","clientInfo":{"name":"c","version":"1"}"#, "")], &[1]),
    ("init-client-info-2", V2, &[Edit(1, r#","info":{"name":"c","version":"1"}"#, "")], &[1]),
    ("init-capability-markers", V2, &[Edit(2, r#""delete":{}"#, r#""delete":true"#)], &[2]),
    (
        "init-foreign-version",
        V2,
        &[Edit(
            1,
            r#""protocolVersion":2,"capabilities":{},"info":{"name":"c","version":"1"}"#,
            r#""protocolVersion":1,"clientInfo":{"name":"c","version":"1"}"#,
        )],
        &[3, 6, 21, 27, 29, 33, 36, 42, 45, 47, 49],
    ),
    (
        "ext-capability-keys",
        V1,
        &[Edit(2, r#""loadSession":true"#, r#""loadSession":true,"turbo":true"#)],
        &[2],
    ),
    (
        "auth-ids-unique",
        V1,
        &[Edit(
            2,
            r#"[{"id":"login","name":"Log in"}]"#,
            r#"[{"id":"login","name":"Log in"},{"id":"login","name":"Again"}]"#,
        )],
        &[2],
    ),
    ("auth-terminal-unadvertised", V2, &[Edit(2, r#""type":"agent""#, r#""type":"terminal""#)], &[2]),
    ("auth-type", V2, &[Edit(2, r#""type":"agent""#, r#""type":"sso""#)], &[2]),
    (
        "auth-environment",
        V2,
        &[
            Edit(1, r#""capabilities":{}"#, r#""capabilities":{"auth":{"terminal":{}}}"#),
            Edit(
                2,
                r#""type":"agent""#,
                r#""type":"terminal","env":[{"name":"A","value":"1"},{"name":"A","value":"2"}]"#,
            ),
        ],
        &[2],
    ),
    (
        "auth-login-helps",
        V1,
        &[Add(
            39,
            "C {\"id\":15,\"method\":\"authenticate\",\"params\":{\"methodId\":\"login\"}}\nA {\"id\":15,\"result\":{}}\nC {\"id\":16,\"method\":\"session/new\",\"params\":{\"cwd\":\"/w\",\"mcpServers\":[]}}\nA {\"id\":16,\"error\":{\"code\":-32000,\"message\":\"Log in\"}}",
        )],
        &[43],
    ),
    (
        "auth-login-offered",
        V1,
        &[Add(39, r#"C {"id":15,"method":"authenticate","params":{"methodId":"other"}}"#)],
        &[40],
    ),
    (
        "auth-not-needed",
        V1,
        &[
            Edit(2, r#","authMethods":[{"id":"login","name":"Log in"}]"#, ""),
            Add(
                39,
                "C {\"id\":16,\"method\":\"session/new\",\"params\":{\"cwd\":\"/w\",\"mcpServers\":[]}}\nA {\"id\":16,\"error\":{\"code\":-32000,\"message\":\"Log in\"}}",
            ),
        ],
        &[41],
    ),
    (
        "auth-logout",
        V1,
        &[
            Edit(2, r#""loadSession":true"#, r#""loadSession":true,"auth":{"logout":{}}"#),
            Add(
                39,
                "C {\"id\":15,\"method\":\"logout\",\"params\":{}}\nA {\"id\":15,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}",
            ),
        ],
        &[41],
    ),
    (
        "client-files-unadvertised",
        V1,
        &[Add(9, r#"A {"id":5,"method":"fs/read_text_file","params":{"sessionId":"s-1","path":"/w/a"}}"#)],
        &[10],
    ),
    (
        "client-terminal-unadvertised",
        V1,
        &[Add(9, r#"A {"id":5,"method":"terminal/create","params":{"sessionId":"s-1","command":"ls"}}"#)],
        &[10],
    ),
    ("client-elicitation-unadvertised-1", V1, &[Add(9, ELICIT)], &[10]),
    ("client-elicitation-unadvertised-2", V2, &[Add(9, ELICIT)], &[10]),
    ("client-updates-unadvertised", V1, &[Add(9, NOTICE)], &[10]),
    (
        "config-boolean-unadvertised",
        V1,
        &[Edit(
            4,
            r#""configOptions":["#,
            r#""configOptions":[{"id":"x","name":"X","type":"boolean","currentValue":true},"#,
        )],
        &[4],
    ),
    (
        "client-serves-advertised",
        V1,
        &[
            Edit(1, r#""clientCapabilities":{}"#, r#""clientCapabilities":{"fs":{"readTextFile":true}}"#),
            Add(
                9,
                "A {\"id\":5,\"method\":\"fs/read_text_file\",\"params\":{\"sessionId\":\"s-1\",\"path\":\"/w/a\"}}\nC {\"id\":5,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}",
            ),
        ],
        &[11],
    ),
    ("agent-method-unadvertised", V1, &[Edit(2, r#""loadSession":true,"#, "")], &[25]),
    (
        "agent-content-unadvertised",
        V1,
        &[Edit(
            5,
            r#"{"type":"text","text":"go"}"#,
            r#"{"type":"image","data":"b2sK","mimeType":"image/png"}"#,
        )],
        &[5],
    ),
    (
        "agent-mcp-unadvertised",
        V1,
        &[Edit(
            3,
            r#""mcpServers":[]"#,
            r#""mcpServers":[{"type":"http","name":"m","url":"http://x","headers":[]}]"#,
        )],
        &[3],
    ),
    (
        "agent-directories-unadvertised",
        V1,
        &[Edit(3, r#""mcpServers":[]"#, r#""mcpServers":[],"additionalDirectories":["/v"]"#)],
        &[3],
    ),
    ("client-absolute-paths", V1, &[Edit(3, r#""/w""#, r#"".""#)], &[3]),
    ("client-schema", V1, &[Edit(3, r#","mcpServers":[]"#, "")], &[3]),
    (
        "client-answer-schema",
        V1,
        &[Edit(8, r#"{"outcome":{"outcome":"selected","optionId":"y"}}"#, r#"{"outcome":"selected"}"#)],
        &[8],
    ),
    (
        "client-session-known",
        V1,
        &[Add(
            39,
            r#"C {"id":15,"method":"session/prompt","params":{"sessionId":"s-9","prompt":[{"type":"text","text":"x"}]}}"#,
        )],
        &[40],
    ),
    ("client-mode-known", V1, &[Edit(17, r#""modeId":"code""#, r#""modeId":"yolo""#)], &[17]),
    (
        "client-option-known",
        V1,
        &[Edit(19, r#""configId":"model""#, r#""configId":"colour""#), Remove(20)],
        &[19],
    ),
    (
        "session-new-1",
        V1,
        &[Add(
            39,
            "C {\"id\":15,\"method\":\"session/new\",\"params\":{\"cwd\":\"/w\",\"mcpServers\":[]}}\nA {\"id\":15,\"result\":{}}",
        )],
        &[41],
    ),
    (
        "session-new-2",
        V2,
        &[Add(
            50,
            "C {\"id\":15,\"method\":\"session/new\",\"params\":{\"cwd\":\"/w\"}}\nA {\"id\":15,\"result\":{}}",
        )],
        &[52],
    ),
    (
        "session-ids-distinct-1",
        V1,
        &[Add(
            39,
            "C {\"id\":15,\"method\":\"session/new\",\"params\":{\"cwd\":\"/w\",\"mcpServers\":[]}}\nA {\"id\":15,\"result\":{\"sessionId\":\"s-1\"}}",
        )],
        &[41],
    ),
    (
        "session-ids-distinct-2",
        V2,
        &[Add(
            50,
            "C {\"id\":15,\"method\":\"session/new\",\"params\":{\"cwd\":\"/w\"}}\nA {\"id\":15,\"result\":{\"sessionId\":\"s-1\"}}",
        )],
        &[52],
    ),
    ("update-session-1", V1, &[Edit(10, r#""s-1""#, r#""s-7""#)], &[10]),
    ("update-session-2", V2, &[Edit(19, r#""s-1""#, r#""s-7""#), Remove(38), Remove(39)], &[19]),
    ("update-schema-1", V1, &[Edit(10, r#"{"type":"text","text":"Done."}"#, r#"{"type":"text"}"#)], &[10]),
    (
        "update-schema-2",
        V2,
        &[Add(
            18,
            r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"usage_update"}}}"#,
        )],
        &[19],
    ),
    ("agent-call-schema-1", V1, &[Edit(7, r#""toolCall":{"toolCallId":"c-1"},"#, "")], &[7]),
    (
        "agent-call-schema-2",
        V2,
        &[
            Edit(1, r#""capabilities":{}"#, r#""capabilities":{"elicitation":{"form":{}}}"#),
            Add(
                9,
                r#"A {"id":5,"method":"elicitation/create","params":{"sessionId":"s-1","mode":"form","requestedSchema":{"type":"object","properties":{}}}}"#,
            ),
        ],
        &[10],
    ),
    ("agent-answer-schema-1", V1, &[Edit(4, r#""sessionId":"s-1""#, r#""sessionId":"s-1","_meta":7"#)], &[4]),
    (
        "agent-answer-schema-2",
        V2,
        &[Edit(4, r#""sessionId":"s-1""#, r#""sessionId":"s-1","availableCommands":7"#)],
        &[4],
    ),
    (
        "schema-root-keys",
        V1,
        &[Edit(11, r#""stopReason":"end_turn""#, r#""stopReason":"end_turn","cost":1"#)],
        &[11],
    ),
    ("schema-empty-result", V1, &[Edit(18, r#""result":{}"#, r#""result":null"#)], &[18]),
    ("meta-object", V2, &[Edit(19, r#""messageId":"m-1""#, r#""messageId":"m-1","_meta":"x""#)], &[19]),
    (
        "ext-method-name",
        V2,
        &[Add(19, r#"A {"id":5,"method":"fs/read_text_file","params":{"sessionId":"s-1","path":"/w/a"}}"#)],
        &[20],
    ),
    ("ext-method-name-1", V1, &[Add(9, r#"A {"method":"acme/hello"}"#)], &[10]),
    ("load-replay-before-answer", V1, &[Add(27, CHUNK_V1)], &[28]),
    ("resume-no-history-1", V1, &[Add(28, CHUNK_V1)], &[29]),
    ("resume-replay-before-answer", V2, &[Add(41, CHUNK_V2)], &[42]),
    ("resume-no-replay", V2, &[Add(42, CHUNK_V2)], &[43]),
    ("resume-same-ids", V2, &[Edit(37, r#""u-1""#, r#""u-9""#)], &[37]),
    ("resume-chunk-seeded", V2, &[Remove(38)], &[38]),
    ("resume-state", V2, &[Remove(43)], &[43]),
    ("resume-no-notice", V2, &[Add(37, NOTICE)], &[38]),
    ("list-cwd", V2, &[Edit(46, r#""cwd":"/w""#, r#""cwd":"/v""#)], &[46]),
    (
        "list-absolute-cwd",
        V2,
        &[Edit(45, r#"{"cwd":"/w"}"#, "{}"), Edit(46, r#""cwd":"/w""#, r#""cwd":"w""#)],
        &[46],
    ),
    ("list-array", V1, &[Edit(39, r#"{"sessions":[]}"#, "{}")], &[39]),
    (
        "delete-gone",
        V2,
        &[Edit(50, r#"{"sessions":[]}"#, r#"{"sessions":[{"sessionId":"s-1","cwd":"/w"}]}"#)],
        &[50],
    ),
    (
        "delete-again",
        V1,
        &[Edit(35, r#""result":{}"#, r#""error":{"code":-32002,"message":"No such session"}"#)],
        &[35],
    ),
    ("close-cancels-1", V1, &[Edit(23, "cancelled", "end_turn")], &[23]),
    ("close-cancels-2", V2, &[Remove(34)], &[34]),
    (
        "close-silent",
        V2,
        &[Add(
            35,
            r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"usage_update","used":1,"size":2}}}"#,
        )],
        &[36],
    ),
    ("prompt-stop-reason", V1, &[Edit(11, "end_turn", "done")], &[11]),
    ("cancel-stop-reason-1", V1, &[Edit(16, "cancelled", "end_turn")], &[16]),
    ("cancel-quiet-1", V1, &[Add(16, CHUNK_V1)], &[17]),
    ("prompt-updates-before-answer", V1, &[Add(11, CHUNK_V1)], &[12]),
    (
        "cancel-answers-questions",
        V1,
        &[Edit(15, r#"{"outcome":"cancelled"}"#, r#"{"outcome":"selected","optionId":"y"}"#)],
        &[15],
    ),
    ("tool-call-announced", V1, &[Edit(9, r#""c-1""#, r#""c-9""#)], &[9]),
    ("prompt-message-id", V2, &[Edit(7, r#"{"messageId":"u-1"}"#, "{}")], &[7]),
    ("prompt-user-message", V2, &[Remove(8), Remove(37)], &[19]),
    ("prompt-ids-distinct", V2, &[Edit(24, "u-2", "u-1"), Edit(23, "u-2", "u-1")], &[24]),
    (
        "prompt-late-error",
        V2,
        &[Edit(24, r#""result":{"messageId":"u-2"}"#, r#""error":{"code":-32603,"message":"Failed"}"#)],
        &[24],
    ),
    ("state-running", V2, &[Remove(9), Remove(14), Remove(11), Remove(12), Remove(13)], &[15]),
    ("state-stop-reason", V2, &[Edit(20, r#","stopReason":"end_turn""#, "")], &[20]),
    ("state-running-again", V2, &[Remove(14)], &[19]),
    ("state-requires-action", V2, &[Remove(11)], &[11]),
    ("cancel-stop-reason-2", V2, &[Edit(26, "cancelled", "end_turn")], &[26]),
    ("cancel-quiet-2", V2, &[Add(26, CHUNK_V2)], &[27]),
    ("permission-shape", V2, &[Edit(12, "Edit a?", "")], &[12]),
    ("permission-option-ids-1", V1, &[Edit(7, r#""optionId":"n""#, r#""optionId":"y""#)], &[7]),
    ("permission-option-ids-2", V2, &[Edit(12, r#""optionId":"n""#, r#""optionId":"y""#)], &[12]),
    ("permission-answer-offered", V2, &[Edit(13, r#""optionId":"y""#, r#""optionId":"z""#)], &[13]),
    ("permission-option-kind", V2, &[Edit(12, "allow_once", "maybe")], &[12]),
    ("permission-subject", V2, &[Edit(12, r#""type":"tool_call","#, "")], &[12]),
    (
        "update-kind",
        V2,
        &[Add(
            18,
            r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call","toolCallId":"c-1","title":"x"}}}"#,
        )],
        &[19],
    ),
    (
        "tool-call-id",
        V2,
        &[Add(
            18,
            r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call_update","status":"completed"}}}"#,
        )],
        &[19],
    ),
    (
        "tool-call-chunk",
        V2,
        &[Edit(
            15,
            r#"{"type":"content","content":{"type":"text","text":"ok"}}"#,
            r#"{"type":"text","text":"ok"}"#,
        )],
        &[15],
    ),
    ("tool-call-title", V2, &[Edit(10, r#""title":"Edit","#, "")], &[10]),
    (
        "tool-call-name",
        V2,
        &[Add(
            18,
            r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c-1","name":"write"}}}"#,
        )],
        &[19],
    ),
    ("tool-call-kind", V2, &[Edit(10, r#""kind":"edit""#, r#""kind":"compile""#)], &[10]),
    ("tool-call-status", V2, &[Edit(10, r#""status":"pending""#, r#""status":"running""#)], &[10]),
    ("absolute-paths-1", V1, &[Edit(6, r#""/w/a""#, r#""a""#)], &[6]),
    (
        "absolute-paths-2",
        V2,
        &[Edit(10, r#""locations":[{"path":"/w/a"}]"#, r#""locations":[{"path":"a"}]"#)],
        &[10],
    ),
    ("message-id", V2, &[Edit(19, r#""messageId":"m-1","#, ""), Remove(38), Remove(39)], &[19]),
    (
        "message-content",
        V2,
        &[Edit(8, r#"[{"type":"text","text":"go"}]"#, r#"{"type":"text","text":"go"}"#)],
        &[8],
    ),
    ("plan-id", V2, &[Edit(18, r#""planId":"p","#, "")], &[18]),
    ("plan-values", V2, &[Edit(18, "high", "urgent")], &[18]),
    (
        "terminal-cwd",
        V2,
        &[Add(
            17,
            r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"terminal_update","terminalId":"t-1","cwd":"/v"}}}"#,
        )],
        &[18],
    ),
    ("terminal-data", V2, &[Edit(17, "b2sK", "plain text")], &[17]),
    ("commands-type", V2, &[Edit(5, r#""type":"command","#, "")], &[5]),
    ("enum-values", V2, &[Edit(4, r#""name":"Model","#, r#""name":"Model","category":"speed","#)], &[4]),
    (
        "diff-changes",
        V2,
        &[Add(
            18,
            r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c-1","content":[{"type":"diff","path":"/w/a","newText":"x"}]}}}"#,
        )],
        &[19],
    ),
    (
        "diff-absolute-paths",
        V2,
        &[Edit(10, r#""operation":"modify","path":"/w/a""#, r#""operation":"modify","path":"a""#)],
        &[10],
    ),
    (
        "diff-old-path",
        V2,
        &[Add(
            18,
            r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c-1","content":[{"type":"diff","changes":[{"operation":"move","path":"/w/b"}]}]}}}"#,
        )],
        &[19],
    ),
    (
        "diff-patch-agrees",
        V2,
        &[Edit(10, r#""operation":"modify","path":"/w/a""#, r#""operation":"modify","path":"/w/b""#)],
        &[10],
    ),
    (
        "diff-operation",
        V2,
        &[Add(
            18,
            r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c-1","content":[{"type":"diff","changes":[{"operation":"touch","path":"/w/b"}]}]}}}"#,
        )],
        &[19],
    ),
    (
        "diff-patch",
        V2,
        &[Add(
            18,
            r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c-1","content":[{"type":"diff","changes":[{"operation":"modify","path":"/w/b","fileType":"text"}]}]}}}"#,
        )],
        &[19],
    ),
    ("config-current-value", V2, &[Edit(4, r#""currentValue":"a""#, r#""currentValue":"z""#)], &[4]),
    ("config-complete", V2, &[Edit(28, r#""currentValue":"b""#, r#""currentValue":"a""#)], &[28]),
    ("modes-current", V1, &[Edit(4, r#""currentModeId":"ask""#, r#""currentModeId":"none""#)], &[4]),
    (
        "load-works",
        V1,
        &[Remove(26), Edit(27, r#""result":{}"#, r#""error":{"code":-32601,"message":"Method not found"}"#)],
        &[26],
    ),
    (
        "resume-works-1",
        V1,
        &[Edit(29, r#""result":{}"#, r#""error":{"code":-32601,"message":"Method not found"}"#)],
        &[29],
    ),
    (
        "resume-works-2",
        V2,
        &[Remove(43), Edit(44, r#""result":{}"#, r#""error":{"code":-32601,"message":"Method not found"}"#)],
        &[43],
    ),
    (
        "close-works",
        V1,
        &[Edit(24, r#""result":{}"#, r#""error":{"code":-32601,"message":"Method not found"}"#)],
        &[24],
    ),
    (
        "delete-works",
        V2,
        &[Edit(48, r#""result":{}"#, r#""error":{"code":-32601,"message":"Method not found"}"#)],
        &[48],
    ),
    (
        "directories-work",
        V2,
        &[
            Edit(2, r#""delete":{}"#, r#""delete":{},"additionalDirectories":{}"#),
            Add(
                50,
                "C {\"id\":15,\"method\":\"session/new\",\"params\":{\"cwd\":\"/w\",\"additionalDirectories\":[\"/v\"]}}\nA {\"id\":15,\"error\":{\"code\":-32602,\"message\":\"No\"}}",
            ),
        ],
        &[52],
    ),
    (
        "prompt-resource-link",
        V1,
        &[
            Edit(
                12,
                r#"{"type":"text","text":"again"}"#,
                r#"{"type":"resource_link","name":"a","uri":"file:///a"}"#,
            ),
            Remove(13),
            Remove(14),
            Remove(15),
            Edit(16, r#""result":{"stopReason":"cancelled"}"#, r#""error":{"code":-32602,"message":"No"}"#),
        ],
        &[13],
    ),
    (
        "prompt-meta",
        V1,
        &[
            Edit(12, r#""sessionId":"s-1""#, r#""sessionId":"s-1","_meta":{"a":1}"#),
            Remove(13),
            Remove(14),
            Remove(15),
            Edit(16, r#""result":{"stopReason":"cancelled"}"#, r#""error":{"code":-32602,"message":"No"}"#),
        ],
        &[13],
    ),
    (
        "prompt-advertised-content",
        V1,
        &[
            Edit(2, r#""loadSession":true"#, r#""loadSession":true,"promptCapabilities":{"image":true}"#),
            Edit(
                12,
                r#"{"type":"text","text":"again"}"#,
                r#"{"type":"image","data":"b2sK","mimeType":"image/png"}"#,
            ),
            Remove(13),
            Remove(14),
            Remove(15),
            Edit(16, r#""result":{"stopReason":"cancelled"}"#, r#""error":{"code":-32602,"message":"No"}"#),
        ],
        &[13],
    ),
    (
        "rpc-batch-refused",
        V1,
        &[
            Add(39, r#"A {"id":null,"error":{"code":-32603,"message":"What?"}}"#),
            Edit(
                38,
                r#"C {"id":14,"method":"session/list","params":{}}"#,
                r#"C {"id":14,"method":"session/list","params":{}}
C []"#,
            ),
        ],
        &[41],
    ),
];

fn conversation(base: &[&str], faults: &[Fault]) -> Vec<String> {
    let mut lines: Vec<Option<String>> = base.iter().map(|line| Some((*line).to_owned())).collect();
    for fault in faults {
        match fault {
            Edit(number, before, after) => {
                let line = lines[*number as usize - 1].as_mut().unwrap();
                assert!(line.contains(before), "line {number} has no {before}");
                *line = line.replacen(before, after, 1);
            }
            Add(number, more) => {
                let line = lines[*number as usize - 1].as_mut().unwrap();
                line.push('\n');
                line.push_str(more);
            }
            Remove(number) => lines[*number as usize - 1] = None,
        }
    }
    lines.iter().flatten().flat_map(|line| line.lines()).map(str::to_owned).collect()
}

fn findings(lines: &[String]) -> Findings {
    let mut evaluator = Evaluator::new(None);
    for (place, line) in lines.iter().enumerate() {
        let (side, text) = line.split_at(2);
        let from = if side == "C " { Side::Client } else { Side::Agent };
        let text = if text.starts_with('{') && !text.contains("\"jsonrpc\"") {
            text.replacen('{', r#"{"jsonrpc":"2.0","#, 1)
        } else {
            text.to_owned()
        };
        evaluator.message(place as u64 + 1, from, &text);
    }
    evaluator.finish()
}

#[test]
fn peers_that_keep_everything_break_nothing() {
    for base in [V1, V2] {
        let report = findings(&conversation(base, &[])).report("base");
        let broken: Vec<_> = report.failed().map(|judged| (judged.rule.rule().id, &judged.reason)).collect();
        assert_eq!((report.verdict, broken), (Verdict::Conformant, Vec::new()));
    }
}

#[test]
fn each_broken_peer_breaks_exactly_its_rule() {
    let mut problems = Vec::new();
    for (id, base, faults, expected) in BROKEN {
        let report = findings(&conversation(base, faults)).report(*id);
        let broken: Vec<_> = report
            .failed()
            .map(|judged| {
                let numbers: Vec<_> = judged.failures.iter().map(|failure| failure.message).collect();
                (judged.rule.rule().id, numbers, judged.reason.clone())
            })
            .collect();
        let rule = RuleId::find(id).unwrap_or_else(|| panic!("no rule {id}")).rule();
        let as_expected = matches!(&*broken, [(found, numbers, _)] if found == id && numbers == expected);
        let verdict = if rule.strength.counts() { Verdict::NotConformant } else { Verdict::Conformant };
        // An array breaks the rule for who sends it, too.
        let is_batch = *id == "rpc-batch-refused" && broken.len() == 2;
        if !is_batch && (!as_expected || report.verdict != verdict) {
            problems.push(format!("{id} at {expected:?}: {broken:?}, {}", report.verdict.as_str()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_rule_has_one_broken_peer() {
    let mut seen = BTreeSet::new();
    for (id, ..) in BROKEN {
        assert!(seen.insert(*id), "{id} twice");
    }
    let missing: Vec<_> = RULES
        .iter()
        .filter(|rule| rule.seen == Seen::Recorded && rule.strength != Strength::Recorded)
        .map(|rule| rule.id)
        .filter(|id| !seen.contains(id))
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_recording_that_ends_anywhere_breaks_nothing() {
    for base in [V1, V2] {
        for end in 0..base.len() {
            let report = findings(&conversation(&base[..end], &[])).report("cut");
            assert_eq!(
                report.failed().count(),
                0,
                "cut behind line {end}: {:?}",
                report.failed().collect::<Vec<_>>()
            );
            if end < 2 {
                assert_eq!(report.verdict, Verdict::NotJudged);
            }
        }
    }
}

#[test]
fn a_recording_without_its_beginning_breaks_nothing() {
    for base in [V1, V2] {
        for start in 1..base.len() {
            let report = findings(&conversation(&base[start..], &[])).report("cut");
            assert_eq!(
                report.failed().count(),
                0,
                "cut before line {}: {:?}",
                start + 1,
                report.failed().collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn a_line_that_is_lost_breaks_nothing() {
    for base in [V1, V2] {
        for lost in 0..base.len() {
            let mut judge = RecordingJudge::new(None);
            for (place, line) in base.iter().enumerate() {
                let side = if line.starts_with('C') { "client->agent" } else { "agent->client" };
                let message = line[2..].replacen('{', r#"{"jsonrpc":"2.0","#, 1);
                let line = format!(r#"{{"dir":"{side}","msg":{message}}}"#);
                let end = if place == lost { line.len() / 2 } else { line.len() };
                judge.line(place as u64 + 1, &line.as_bytes()[..end]);
            }
            assert_eq!(judge.gaps(), 1);
            let report = judge.finish().report("damaged");
            assert_eq!(
                report.failed().count(),
                0,
                "line {}: {:?}",
                lost + 1,
                report.failed().collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn what_is_only_recorded_never_fails() {
    let again = r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c-1","status":"in_progress"}}}"#;
    let lines = conversation(
        V1,
        &[Edit(
            9,
            "\"completed\"}}}",
            "\"completed\"}}}\nA {\"method\":\"session/update\",\"params\":{\"sessionId\":\"s-1\",\"update\":{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"c-1\",\"status\":\"in_progress\"}}}",
        )],
    );
    assert_eq!(lines[9], again);
    let report = findings(&lines).report("again");
    let judged = report.rules.iter().find(|judged| judged.rule == RuleId::ToolCallFinal).unwrap();
    assert_eq!(
        (judged.status, judged.failures[0].message, report.verdict),
        (Status::Pass, 10, Verdict::Conformant)
    );
}

#[test]
fn the_json_has_exactly_the_promised_keys() {
    let json = findings(&conversation(V1, &[])).report("x").to_json();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(keys(&json), ["rules", "subject", "verdict"].map(str::to_owned).into());
    for rule in json["rules"].as_array().unwrap() {
        assert_eq!(keys(rule), ["id", "messages", "reason", "status", "strength"].map(str::to_owned).into());
    }
}
