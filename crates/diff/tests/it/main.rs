//! The integration tests of the crate, in one binary.
#![allow(clippy::unwrap_used)]

mod anything;
mod applying;
mod building;
mod checking;
mod git_judges;
mod hostile;
mod reading;
mod repository;
mod support;
mod texts;
mod wire;

/// A file that is not declared above would not be compiled, and nobody would notice.
#[test]
fn every_file_is_a_declared_module() {
    let main = include_str!("main.rs");
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    for entry in std::fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".rs").unwrap();
        assert!(module == "main" || main.contains(&format!("\nmod {module};\n")), "{name} is not declared");
    }
}
