//! Room to grow: what keeps the code of others from breaking when a wire type gets a field or a variant.
//!
//! `#[non_exhaustive]` would do it for others, and for the crates of this repository as well, where the conversion between
//! versions must not compile as long as a field is forgotten. So objects have a field, and unions and enums a variant, that the
//! documentation does not show: the compiler tells others to write `..` and `_`, and the crates that are released together name it.

use std::convert::Infallible;

/// Stands in a wire object for the fields to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct More;

/// Stands in a union or an enum for the variants to come. There is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NoMore(Infallible);

impl NoMore {
    /// What would come of it.
    pub fn never<T>(&self) -> T {
        match self.0 {}
    }
}
