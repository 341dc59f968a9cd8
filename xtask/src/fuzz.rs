//! Short fuzzing runs with the test vectors as seeds.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::root;

/// Writes seeds from the test vectors: a value for `decode`, its patches for `patch`, its updates for `fold`,
/// and the lines of a trace for `bridge`.
fn write_seeds(corpora: &Path) -> Result<(), String> {
    let describe = |error: std::io::Error| format!("cannot make seeds for fuzzing: {error}");
    let write = |target: &str, name: &str, seed: &str| {
        let folder = corpora.join(target);
        std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join(name), seed))
            .map_err(describe)
    };
    for entry in std::fs::read_dir(root().join("fixtures").join("vectors")).map_err(describe)? {
        let path = entry.map_err(describe)?.path();
        let text = std::fs::read_to_string(&path).map_err(describe)?;
        let vectors: Vec<Value> =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let file = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        for (index, vector) in vectors.iter().enumerate() {
            if let Some(steps) = vector["steps"].as_array() {
                let versions = if vector["topology"] == "v1client-v2agent" { "14" } else { "23" };
                let lines = steps.iter().filter(|step| step["dir"] == "in").map(|step| {
                    let mut message = step["msg"].clone();
                    message["jsonrpc"] = Value::from("2.0");
                    format!("\n{}{message}", if step["at"] == "client" { ">" } else { "" })
                });
                write(
                    "bridge",
                    &format!("{file}-{index}"),
                    &format!("{versions}{}", lines.collect::<String>()),
                )?;
            }
            let (Some(revision), Some(kind)) = (vector["revision"].as_str(), vector["kind"].as_str()) else {
                continue;
            };
            let name = format!("{file}-{index}");
            let value = &vector["json"];
            write("decode", &name, &format!("{revision} {kind}\n{value}"))?;
            for (key, patch) in [("text", &value["patch"]["text"]), ("diff", &value["patch"]["diff"])] {
                if let Some(patch) = patch.as_str() {
                    write("patch", &format!("{name}-{key}"), patch)?;
                }
            }
            if let Some(updates) = value["updates"].as_array() {
                let lines: Vec<_> = updates.iter().map(Value::to_string).collect();
                write("fold", &name, &lines.join("\n"))?;
            }
        }
    }
    Ok(())
}

/// Runs each fuzz target for so many seconds.
pub(crate) fn run(seconds: u32) -> Result<(), String> {
    let folder = root().join("fuzz");
    write_seeds(&folder.join("corpus"))?;
    for target in ["bridge", "decode", "fold", "patch", "policy", "proxy"] {
        // The stable compiler does not support the sanitizer hooks that fuzzing needs.
        crate::run(
            Command::new("cargo")
                .current_dir(&folder)
                .env("RUSTC_BOOTSTRAP", "1")
                // Our code has no `unsafe`; without the address sanitizer it builds and runs in half the
                // time.
                .args(["fuzz", "run", "--sanitizer", "none", target, "--"])
                .args([&format!("-max_total_time={seconds}"), "-verbosity=0", "-print_final_stats=1"]),
        )?;
    }
    Ok(())
}
