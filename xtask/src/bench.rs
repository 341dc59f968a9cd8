//! Benchmarks that need third-party programs.

use std::process::Command;

use crate::setup::target;
use crate::{cargo, root, run};

/// The official conductor, with the features for version 2.
const CONDUCTOR: [&str; 3] = ["agent-client-protocol-conductor@5.0.0", "--features", "unstable_protocol_v2"];

/// Compares `switchboard bridge` with a plain pipe and with the official conductor, which is installed for
/// it.
pub(crate) fn bridge() -> Result<(), String> {
    let peers = target().join("peers");
    let conductor = peers.join("bin").join("agent-client-protocol-conductor");
    if !conductor.exists() {
        run(Command::new("cargo").args(["install", "--locked"]).args(CONDUCTOR).arg("--root").arg(&peers))?;
    }
    cargo(["build", "--release", "--locked"])?;
    run(Command::new("cargo")
        .args(["bench", "--bench", "bridging", "--manifest-path"])
        .arg(root().join("crates/transport-bench/Cargo.toml"))
        .arg("--target-dir")
        .arg(target().join("transport-bench"))
        .arg("--")
        .arg(target().join("release").join("switchboard"))
        .arg(conductor))
}

/// Compares the log at a NATS server with plain publishes there and with the store, and two hubs of one log
/// with one.
pub(crate) fn log() -> Result<(), String> {
    let package = ["--release", "--locked", "--package", "switchboard-hub", "--all-features", "--lib"];
    run(Command::new("cargo").arg("test").args(package).args([
        "--",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
        "jetstream::bench",
    ]))?;
    let package = ["--profile", "release", "--locked", "--package", "switchboard"];
    run(Command::new("cargo").arg("bench").args(package).args(["--bench", "hub", "--", "cluster"]))
}

/// Runs load against a release build of `switchboard serve`, and against server and client of the official
/// SDK. Names select measurements: `flood`, `crowd`, `idle`, `deaf`, `restart`.
pub(crate) fn hub(names: &[&str]) -> Result<(), String> {
    let official = target().join("interop");
    run(Command::new("cargo")
        .args(["build", "--release", "--locked", "--features", "remote", "--manifest-path"])
        .arg(root().join("crates/interop/Cargo.toml"))
        .arg("--target-dir")
        .arg(&official))?;
    run(Command::new("cargo")
        .args([
            "bench",
            "--profile",
            "release",
            "--locked",
            "--package",
            "switchboard",
            "--bench",
            "hub",
            "--",
        ])
        .arg("--official")
        .arg(official.join("release"))
        .args(names))
}
