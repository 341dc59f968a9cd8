//! Hostile and malformed input: always a clear error, never a panic.

use std::fmt::Write;

use switchboard_acp::check::{Checker, Rules};
use switchboard_acp::rpc::Message;
use switchboard_acp::{Field, Wire, WireFormat, v2, wire_type};

/// Returns the error of decoding a text strictly as a type of the newest dialect.
fn error(type_name: &str, text: &str) -> String {
    match wire_type(type_name, WireFormat::Newest).unwrap().rewrite(text, WireFormat::Newest) {
        Ok(written) => panic!("accepted as {written}"),
        Err(error) => error.to_string(),
    }
}

/// Returns a tolerantly decoded tool call update and its diagnostics.
fn tolerated(text: &str) -> (String, Vec<String>) {
    let (written, diagnostics) = wire_type("ToolCallUpdate", WireFormat::Any)
        .unwrap()
        .rewrite_tolerant(text, WireFormat::Any)
        .unwrap();
    (written, diagnostics.iter().map(ToString::to_string).collect())
}

#[test]
fn errors_say_where_what_was_expected_and_what_was_found() {
    let cases = [
        ("ToolCallUpdate", r#"{"toolCallId":7}"#, "at /toolCallId: expected a string, found the number 7"),
        ("ToolCallUpdate", r#"["c"]"#, "expected an object, found an array"),
        (
            "ToolCallUpdate",
            r#"{"toolCallId":"c","title":42}"#,
            "at /title: expected a string, found the number 42",
        ),
        (
            "ToolCallUpdate",
            r#"{"toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"a"}},{"type":"diff"}]}"#,
            "at /content/1: expected the key \"changes\", found an object without it",
        ),
        (
            "ToolCallUpdate",
            r#"{"toolCallId":"c","locations":[{"path":"a.rs"}]}"#,
            "at /locations/0/path: expected an absolute path, found the string \"a.rs\"",
        ),
        (
            "RequestPermissionOutcome",
            r#"{"outcome":1,"optionId":"a"}"#,
            "at /outcome: expected a string, found the number 1",
        ),
        (
            "SessionUpdate",
            r#"{"a/b":{"~":1}}"#,
            "expected the key \"sessionUpdate\", found an object without it",
        ),
        (
            "AgentMessage",
            r#"{"messageId":"m","content":[{"type":"image","data":"no base64","mimeType":"image/png"}]}"#,
            "at /content/0/data: expected base64 (standard alphabet, padded), found the string \"no base64\"",
        ),
        (
            "Annotations",
            r#"{"priority":1.5}"#,
            "at /priority: expected a number from 0 to 1, found the number 1.5",
        ),
        (
            "TerminalSize",
            r#"{"cols":0,"rows":1}"#,
            "at /cols: expected an integer from 1 to 65535, found the number 0",
        ),
        (
            "ToolCallUpdate",
            r#"{"toolCallId":"c","toolCallId":"d"}"#,
            "at /toolCallId: expected the key \"toolCallId\" once, found it twice",
        ),
        (
            "ToolCallUpdate",
            r#"{"toolCallId":"c","x":1,"x":2}"#,
            "expected the key \"x\" once, found it twice",
        ),
        (
            "ToolCallUpdate",
            r#"{"toolCallId":"c""#,
            "expected a comma or a closing brace, found the end of the text",
        ),
        ("ToolCallUpdate", r#"{"toolCallId":"c",}"#, "expected a key in quotes, found '}' at byte 18"),
        ("ToolCallUpdate", r#"{"toolCallId":"c"} x"#, "expected the end of the text, found 'x' at byte 19"),
        ("ToolCallUpdate", "", "expected an object, found the end of the text"),
    ];
    for (type_name, text, expected) in cases {
        assert_eq!(error(type_name, text), expected, "{text}");
    }
}

#[test]
fn a_tag_twice_is_an_error_wherever_it_stands() {
    for text in [
        r#"{"type":"text","type":"image","text":"a"}"#,
        r#"{"text":"a","type":"text","type":"text"}"#,
        r#"{"type":"_x","type":"_y"}"#,
    ] {
        assert!(error("ContentBlock", text).contains("\"type\" once"), "{text}");
    }
}

#[test]
fn texts_that_are_not_json_are_refused() {
    let texts = [
        "nul",
        "tru",
        "{",
        "[",
        "\"",
        "{\"a\"}",
        "{\"a\":}",
        "[1,]",
        "01",
        "1.",
        "-",
        "1e",
        "+1",
        ".5",
        "NaN",
        "'a'",
        "{a:1}",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\u{1}\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\u{feff}1",
        "[1 2]",
        "{\"a\":1 \"b\":2}",
        "{,}",
        "[,]",
        "1 1",
        "\0",
        "{\"a\":\0}",
    ];
    for text in texts {
        let update = format!(r#"{{"toolCallId":"c","rawInput":{text}}}"#);
        assert!(v2::ToolCallUpdate::decode(&update, WireFormat::Any).is_err(), "{text}");
        let tolerant = v2::ToolCallUpdate::decode_tolerant(&update, WireFormat::Any);
        assert!(tolerant.is_err(), "what is not JSON is not tolerated: {text}");
        assert!(switchboard_acp::Raw::parse(text).is_err(), "{text}");
    }
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    for depth in [127, 200, 100_000] {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let text = format!(r#"{{"toolCallId":"c","rawInput":{nested}}}"#);
        let outcome = v2::ToolCallUpdate::decode(&text, WireFormat::Any);
        assert_eq!(outcome.is_ok(), depth <= 127, "{depth}");
        if let Err(error) = outcome {
            assert!(error.to_string().contains("at most 128 levels"), "{error}");
        }
    }
}

#[test]
fn bytes_that_are_not_utf_8_are_one_error_for_their_line() {
    let mut checker = Checker::new(Rules::default());
    let verdict = checker.check(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}");
    assert_eq!(verdict.errors[0].message, "expected UTF-8, found the byte 0xff at 27");
    assert!(
        checker
            .check(br#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#)
            .is_valid()
    );
}

#[test]
fn many_unknown_keys_cost_time_in_proportion() {
    let mut text = String::from(r#"{"toolCallId":"c""#);
    for key in 0..200_000 {
        write!(text, r#","k{key}":0"#).unwrap();
    }
    text.push('}');
    let update = v2::ToolCallUpdate::decode(&text, WireFormat::Any).unwrap();
    assert_eq!(update.extra.iter().count(), 200_000);
}

#[test]
fn many_malformed_items_give_a_bounded_report() {
    let items = vec!["{}"; 100_000].join(",");
    let text = format!(r#"{{"toolCallId":"c","locations":[{{"path":"/a"}},{items}]}}"#);
    let (update, diagnostics) = v2::ToolCallUpdate::decode_tolerant(&text, WireFormat::Any).unwrap();
    assert_eq!(update.locations.value().unwrap().len(), 1);
    assert_eq!(diagnostics.len(), 101);
    assert_eq!(diagnostics[100].found, "99900 more");
}

#[test]
fn tolerant_reading_leaves_out_what_is_malformed_and_says_so() {
    let (written, reports) = tolerated(r#"{"toolCallId":"c","title":42,"status":"completed","_meta":"x"}"#);
    assert_eq!(written, r#"{"toolCallId":"c","status":"completed"}"#);
    assert_eq!(
        reports,
        [
            "at /title: expected a string, found the number 42",
            "at /_meta: expected an object, found the string \"x\"",
        ]
    );
    let (written, reports) =
        tolerated(r#"{"toolCallId":"c","locations":[{"line":4},{"path":"/a","line":1.5}]}"#);
    assert_eq!(written, r#"{"toolCallId":"c","locations":[{"path":"/a"}]}"#);
    assert_eq!(reports.len(), 2);
}

#[test]
fn a_list_of_malformed_items_is_left_alone_and_never_cleared() {
    for content in [r#"[{"type":"diff"},{"no":"type"}]"#, "[null]", r#"{"type":"content"}"#] {
        let text = format!(r#"{{"toolCallId":"c","content":{content}}}"#);
        let (update, diagnostics) = v2::ToolCallUpdate::decode_tolerant(&text, WireFormat::Any).unwrap();
        assert_eq!(update.content, Field::Keep, "{content}");
        assert!(!diagnostics.is_empty());
    }
}

#[test]
fn tolerant_reading_keeps_permissions_strict() {
    let request = |options: &str, subject: &str| {
        let text = format!(r#"{{"sessionId":"s","title":"t","options":{options},"subject":{subject}}}"#);
        v2::RequestPermissionRequest::decode_tolerant(&text, WireFormat::Any)
            .map(|(request, _)| request.options.len())
    };
    let allow = r#"{"optionId":"a","name":"Allow","kind":"allow_once"}"#;
    assert_eq!(request(&format!("[{allow}]"), "null"), Ok(1));
    assert!(request(&format!(r#"[{allow},{{"optionId":"r","name":"Reject"}}]"#), "null").is_err());
    assert!(request(&format!("[{allow},{allow}]"), "null").is_err());
    assert!(request("[]", "null").is_err());
    assert!(request(&format!("[{allow}]"), r#"{"type":"tool_call"}"#).is_err());
    assert!(request(&format!("[{allow}]"), r#""tool_call""#).is_err());
}

#[test]
fn a_relative_path_is_kept_and_reported_when_reading_tolerantly() {
    let (written, reports) = tolerated(r#"{"toolCallId":"c","locations":[{"path":"src/a.rs"}]}"#);
    assert_eq!(written, r#"{"toolCallId":"c","locations":[{"path":"src/a.rs"}]}"#);
    assert_eq!(reports, ["at /locations/0/path: expected an absolute path, found the string \"src/a.rs\""]);
}

#[test]
fn paths_are_judged_alike_on_every_host() {
    for path in ["/", "/w/a", "C:\\\\w", "c:/w", "\\\\\\\\server\\\\share", "\\\\\\\\?\\\\C:\\\\x"] {
        let text = format!(r#"{{"path":"{path}"}}"#);
        assert!(v2::ToolCallLocation::decode(&text, WireFormat::Any).is_ok(), "{path}");
    }
    for path in
        ["", "a", "./a", "../a", "C:", "C:a", "1:/a", "\\\\a", "\\\\\\\\", "~/a", "file:///a", "/a\\u0000b"]
    {
        let text = format!(r#"{{"path":"{path}"}}"#);
        assert!(v2::ToolCallLocation::decode(&text, WireFormat::Any).is_err(), "{path}");
    }
}

#[test]
fn a_tag_is_found_wherever_it_stands_and_never_taken_from_elsewhere() {
    let kind = |text: &str| match v2::SessionUpdate::decode(text, WireFormat::Any) {
        Ok(update) => update.tag().to_owned(),
        Err(error) => error.to_string(),
    };
    let chunk =
        r#"{"messageId":"m","content":{"type":"text","text":"a"},"sessionUpdate":"agent_message_chunk"}"#;
    assert_eq!(kind(chunk), "agent_message_chunk");
    assert_eq!(kind(&chunk.replace('}', " }").replace(':', " : ")), "agent_message_chunk");
    let elsewhere = r#"{"toolCallId":"c","sessionUpdate":"tool_call_update","rawOutput":{"sessionUpdate":"agent_message"}}"#;
    assert_eq!(kind(elsewhere), "tool_call_update");
    let same = r#"{"toolCallId":"c","sessionUpdate":"tool_call_update","rawOutput":{"sessionUpdate":"tool_call_update"}}"#;
    assert_eq!(kind(same), "tool_call_update");
    let quoted = r#"{"toolCallId":"c","sessionUpdate":"tool_call_update","title":"\"sessionUpdate\":\"agent_message"}"#;
    assert_eq!(kind(quoted), "tool_call_update");
    let nowhere = r#"{"toolCallId":"c","rawOutput":{"sessionUpdate":"tool_call_update"}}"#;
    assert!(kind(nowhere).contains("sessionUpdate"), "{}", kind(nowhere));
    let twice = r#"{"sessionUpdate":"agent_message","messageId":"m","sessionUpdate":"agent_message"}"#;
    assert!(kind(twice).contains("once"), "{}", kind(twice));
    let middle =
        r#"{"messageId":"m","sessionUpdate":"agent_message","_meta":{},"sessionUpdate":"agent_message"}"#;
    assert!(kind(middle).contains("once"), "{}", kind(middle));
    let spaced = r#"{"messageId":"m", "sessionUpdate":"agent_message"}"#;
    assert_eq!(kind(spaced), "agent_message");
    let alone = r#"{"sessionUpdate":"_x"}"#;
    assert_eq!(kind(alone), "_x");
    let no_comma = r#"{"messageId":"m""sessionUpdate":"agent_message"}"#;
    assert!(kind(no_comma).contains("a comma"), "{}", kind(no_comma));
    let unknown = r#"{"n":1,"sessionUpdate":"_mine"}"#;
    assert_eq!(kind(unknown), "_mine");
    assert_eq!(
        v2::SessionUpdate::decode(unknown, WireFormat::Any).unwrap().encode(WireFormat::Any),
        r#"{"sessionUpdate":"_mine","n":1}"#
    );
}

#[test]
fn diagnostics_of_a_wrongly_guessed_tag_are_not_repeated() {
    let text = r#"{"toolCallId":"c","locations":[{"path":5},{"path":"/a"}],"sessionUpdate":"tool_call_update",
        "rawOutput":{"sessionUpdate":"agent_message"}}"#;
    let (update, diagnostics) = v2::SessionUpdate::decode_tolerant(text, WireFormat::Any).unwrap();
    assert_eq!((update.tag(), diagnostics.len()), ("tool_call_update", 1));
}

#[test]
fn of_several_faults_in_a_string_the_first_is_told() {
    for (text, expected) in [
        ("\"a\\n\\q\u{1}\"", "an escape sequence of JSON"),
        ("\"a\\n\u{1}\\q\"", "an escaped control character"),
        ("\"a\\n\\ud800\"", "a pair of surrogates"),
        ("\"a\\n\\q", "an escape sequence of JSON"),
        ("\"a\\nb", "a closing quote"),
        ("\"a\\", "an escape sequence of JSON"),
    ] {
        let block = format!(r#"{{"type":"text","text":{text}"#);
        let error = v2::ContentBlock::decode(&block, WireFormat::Any).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let escaped = r#"{"type":"text","text":"a\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00z"}"#;
    let block = v2::ContentBlock::decode(escaped, WireFormat::Any).unwrap();
    assert_eq!(block.as_text(), Some("a\"\\/\u{8}\u{c}\n\r\tä😀z"));
}

#[test]
fn keys_are_known_in_any_order_spelled_with_escapes_and_between_spaces() {
    let expected = v2::ToolCallUpdate::decode(
        r#"{"toolCallId":"c","title":"T","kind":"read","status":"failed","rawInput":{}}"#,
        WireFormat::Any,
    );
    for text in [
        r#"{"rawInput":{},"status":"failed","kind":"read","title":"T","toolCallId":"c"}"#,
        r#"{ "status" : "failed" ,"title" :"T", "rawInput":{},"kind":"read","toolCallId":"c" }"#,
        r#"{"tool\u0043allId":"c","titl\u0065":"T","kind":"read","rawInput":{},"status":"failed"}"#,
    ] {
        assert_eq!(v2::ToolCallUpdate::decode(text, WireFormat::Any), expected, "{text}");
    }
}

#[test]
fn an_id_against_the_rules_is_read_and_judged_wrong() {
    for id in ["1.5", "1.0", "-0.0", "1e3", "9223372036854775808", "123456789012345678901234567890"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"_x"}}"#);
        let read = Message::decode(&text, WireFormat::Any).unwrap();
        assert_eq!(read.encode(WireFormat::Any), text);
        for format in [WireFormat::V1, WireFormat::Spec, WireFormat::Newest] {
            assert!(Message::decode(&text, format).is_err(), "{text} in {format:?}");
            let (tolerated, faults) = <Message<'_> as Wire>::decode_tolerant(&text, format).unwrap();
            assert_eq!((tolerated, faults[0].pointer.as_str()), (read.clone(), "/id"));
        }
        for revision in [WireFormat::V1, WireFormat::Spec, WireFormat::Newest, WireFormat::Any] {
            let verdict = Checker::new(Rules { revision, ..Rules::default() }).check(text.as_bytes());
            assert_eq!(verdict.errors[0].pointer, "/id", "{text}");
        }
    }
    for id in ["true", "[]", "{}"] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"_x"}}"#);
        assert!(Message::decode(&text, WireFormat::Any).is_err(), "{text}");
    }
}
