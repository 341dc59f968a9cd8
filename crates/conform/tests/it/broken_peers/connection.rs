//! Peers that break rules about lines, JSON-RPC, the handshake and methods.

use super::Broken;
use super::Fault::{Add, Edit, Remove};
use super::conversations::{V1, V2};

const NOTICE: &str = r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"notice","severity":"info","title":"Hi"}}}"#;
const ELICIT: &str = r#"A {"id":5,"method":"elicitation/create","params":{"sessionId":"s-1","mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}}"#;

pub(super) const BROKEN: &[Broken] = &[
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
