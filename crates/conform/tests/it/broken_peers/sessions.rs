//! Peers that break rules about sessions, turns and options.

use super::Broken;
use super::Fault::{Add, Edit, Remove};
use super::conversations::{V1, V2};

const NOTICE: &str = r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"notice","severity":"info","title":"Hi"}}}"#;
const CHUNK_V1: &str = r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"late"}}}}"#;
const CHUNK_V2: &str = r#"A {"method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","messageId":"m-1","content":{"type":"text","text":"late"}}}}"#;

pub(super) const BROKEN: &[Broken] = &[
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
];
