//! Forward compatibility: prevents that dependents break when a wire type gets a field or a variant.
//!
//! `#[non_exhaustive]` would also apply to the crates of this repository, where the conversion between
//! versions must not compile if a field is forgotten. So objects have a hidden field, and unions and enums a
//! hidden variant: the compiler requires `..` and `_` from dependents, and the crates that are released
//! together name it.

use std::convert::Infallible;

/// Placeholder in a wire object for future fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct More;

/// Placeholder in a union or an enum for future variants. Has no values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NoMore(Infallible);

impl NoMore {
    /// Converts the impossible value to any type.
    pub fn never<T>(&self) -> T {
        match self.0 {}
    }
}
