//! Child processes: starting, supervising, and ending them with all their descendants.

mod child;
mod confinement;
mod group;
mod input;
mod output;
mod program;
mod standard_error;
mod watchdog;

pub use child::{Child, Exit};
pub use confinement::{Confined, Confinement, ConfinementNotice, OutputListener, ProgramStart};
pub use input::ChildInput;
pub use output::ChildOutput;
pub use program::{Grace, ProcessLease, Program, Spawned};
pub use standard_error::{StandardErrorLine, StandardErrorLines};
