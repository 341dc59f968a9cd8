//! Prints how the bridge compares: `cargo xtask bench-bridge`. See the library for what is measured.

fn main() {
    switchboard_transport_bench::run_bridging();
}
