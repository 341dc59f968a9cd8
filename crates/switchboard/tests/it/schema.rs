use crate::program::switchboard;

#[test]
fn prints_a_definition_for_each_type() {
    for arguments in [&["schema"][..], &["schema", "--dialect", "spec"], &["schema", "--protocol", "v1"]] {
        let run = switchboard(arguments, b"");
        assert_eq!(run.code, 0);
        let schema: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
        assert!(schema["$defs"]["SessionUpdate"]["anyOf"].is_array(), "{arguments:?}");
    }
}
