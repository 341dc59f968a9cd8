//! Prints the comparison of the bridge: `cargo xtask bench-bridge`. The library describes the measurements.

fn main() {
    switchboard_transport_bench::run_bridging();
}
