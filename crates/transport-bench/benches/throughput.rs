//! Prints how the transport compares; see the library for what is measured.

fn main() {
    switchboard_transport_bench::run();
}
