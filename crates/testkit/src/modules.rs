//! Detection of test files that are not compiled.

use std::path::Path;

/// Panics unless `main.rs` in the folder declares every other file and folder there. An undeclared file would
/// silently not be compiled.
pub fn assert_every_file_is_a_module(folder: impl AsRef<Path>) {
    let folder = folder.as_ref();
    let main = std::fs::read_to_string(folder.join("main.rs")).expect("the folder has a main.rs");
    for entry in std::fs::read_dir(folder).expect("the folder can be listed") {
        let name = entry.expect("the folder can be listed").file_name().to_string_lossy().into_owned();
        let module = name.trim_end_matches(".rs");
        assert!(
            module == "main" || main.lines().any(|line| line == format!("mod {module};")),
            "{name} is not declared in {}",
            folder.join("main.rs").display()
        );
    }
}
