//! Peers that break rules about content: messages, tool calls, permissions, plans and terminals.

use super::Broken;
use super::Fault::{Add, Edit, Remove};
use super::conversations::{V1, V2};

pub(super) const BROKEN: &[Broken] = &[
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
    ("tool-call-announced", V1, &[Edit(9, r#""c-1""#, r#""c-9""#)], &[9]),
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
        "diff-patch-headers",
        V2,
        &[Edit(
            10,
            r"diff --git /w/a /w/a\n--- /w/a\n+++ /w/a\n",
            r"diff --git a/w/a b/w/a\n--- a/w/a\n+++ b/w/a\n",
        )],
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
];
