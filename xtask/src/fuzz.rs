//! Fuzzing for a short while, from the test vectors as seeds.

use std::path::Path;
use std::process::Command;

use crate::root;

/// Writes a seed for each test vector.
fn write_seeds(corpus: &Path) -> Result<(), String> {
    let folder = root().join("fixtures").join("vectors");
    let describe = |error: std::io::Error| format!("cannot make seeds for fuzzing: {error}");
    std::fs::create_dir_all(corpus).map_err(describe)?;
    for entry in std::fs::read_dir(&folder).map_err(describe)? {
        let path = entry.map_err(describe)?.path();
        let text = std::fs::read_to_string(&path).map_err(describe)?;
        let vectors: Vec<serde_json::Value> =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        for (index, vector) in vectors.iter().enumerate() {
            let (Some(revision), Some(kind)) = (vector["revision"].as_str(), vector["kind"].as_str()) else {
                continue;
            };
            let seed = format!("{revision} {kind}\n{}", vector["json"]);
            std::fs::write(corpus.join(format!("{file}-{index}")), seed).map_err(describe)?;
        }
    }
    Ok(())
}

/// Runs each fuzz target for so many seconds.
pub(crate) fn run(seconds: u32) -> Result<(), String> {
    let folder = root().join("fuzz");
    write_seeds(&folder.join("corpus").join("decode"))?;
    // The sanitizer hooks that fuzzing needs are not in the stable compiler's promise.
    crate::run(
        Command::new("cargo")
            .current_dir(&folder)
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["fuzz", "run", "decode", "--"])
            .args([
                format!("-max_total_time={seconds}"),
                "-verbosity=0".into(),
                "-print_final_stats=1".into(),
            ]),
    )
}
