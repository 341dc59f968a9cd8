//! The program as its users run it, all tests in one binary.
// Tests hand `json!` values to small functions; a reference there would only be noise.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod agent_program;
mod agents;
mod bridge;
mod check;
mod convert;
mod demo_agent;
mod diff;
mod fold;
mod history;
mod interop;
mod program;
mod replay;
mod run;
mod schema;
mod sessions;
mod terminal;
mod web;

#[test]
fn every_test_file_is_a_module() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
    let main = std::fs::read_to_string(format!("{folder}/main.rs")).unwrap();
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        assert!(
            module == "main" || main.contains(&format!("mod {module};")),
            "{name} is not declared in main.rs"
        );
    }
}
