//! Prints the comparison of the transport. The library describes the measurements.

fn main() {
    switchboard_transport_bench::run();
}
