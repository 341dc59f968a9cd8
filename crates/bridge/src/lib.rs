//! Translation between the versions of ACP.

mod elements;
mod error;
mod loss;
mod side;
mod stateless;

pub use error::Error;
pub use loss::{Loss, LossReport, Note, Severity};
pub use side::{Moment, Side, Version};
pub use stateless::{Converted, Stateless, update_to_v1, update_to_v2};
