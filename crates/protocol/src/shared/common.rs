//! Small things that occur everywhere.

use crate::Text;
use crate::macros::object;

object! {
    /// Capability marker: an object, usually empty. A missing marker means no support.
    EmptyObject {
    } with optional _meta
}

object! {
    /// Empty result of a method.
    EmptyResponse {
    } with optional _meta
}

object! {
    /// Name and version of a program.
    Implementation {
        /// Name for programs.
        required name: Text<'a> = "name",
        /// Name for display.
        optional title: Text<'a> = "title",
        /// Version, for logs and bug reports.
        required version: Text<'a> = "version",
    } with optional _meta
}

object! {
    /// An environment variable.
    EnvVariable {
        /// Name of the variable.
        required name: Text<'a> = "name",
        /// Value of the variable.
        required value: Text<'a> = "value",
    } with optional _meta
}

object! {
    /// An HTTP header.
    HttpHeader {
        /// Name of the header.
        required name: Text<'a> = "name",
        /// Value of the header.
        required value: Text<'a> = "value",
    } with optional _meta
}
