//! Peers without faults.

/// A version 1 client with few capabilities and an agent with many. `C` and `A` mark the sender.
pub(super) const V1: &[&str] = &[
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

pub(super) const V2: &[&str] = &[
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
