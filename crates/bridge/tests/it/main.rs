//! Tests of the bridge, in one program.
#![allow(clippy::unwrap_used)]
#![allow(clippy::needless_pass_by_value, reason = "values are written in place")]

mod hostile;
mod properties;
mod recordings;
mod served;
mod sessions;
mod stateless;
mod support;
mod tool_calls;
mod traces;
mod turns;

#[test]
fn every_file_here_is_declared() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    let source = include_str!("main.rs");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(module == "main" || source.contains(&format!("mod {module};")), "{name} is not declared");
    }
}
