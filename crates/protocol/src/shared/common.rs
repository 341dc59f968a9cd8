//! Small things that occur everywhere.

use crate::Text;
use crate::macros::object;

object! {
    /// A mark of support: an object, usually empty. A missing mark means no support.
    EmptyObject {
    } with optional _meta
}

object! {
    /// The answer of a method that has nothing to tell.
    EmptyResponse {
    } with optional _meta
}

object! {
    /// Name and version of a program.
    Implementation {
        /// The name that programs use.
        required name: Text<'a> = "name",
        /// The name that people read.
        optional title: Text<'a> = "title",
        /// The version, for logs and bug reports.
        required version: Text<'a> = "version",
    } with optional _meta
}

object! {
    /// A variable of a process's environment.
    EnvVariable {
        /// The variable's name.
        required name: Text<'a> = "name",
        /// The variable's value.
        required value: Text<'a> = "value",
    } with optional _meta
}

object! {
    /// A header of HTTP requests.
    HttpHeader {
        /// The header's name.
        required name: Text<'a> = "name",
        /// The header's value.
        required value: Text<'a> = "value",
    } with optional _meta
}
