//! Small things that occur everywhere.

use crate::macros::object;
use crate::{Meta, Text};

object! {
    /// A mark of support: an object, usually empty. A missing mark means no support.
    EmptyObject {
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// The answer of a method that has nothing to tell.
    EmptyResponse {
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// Name and version of a program.
    Implementation {
        /// The name that programs use.
        required name: Text<'a> = "name",
        /// The name that people read.
        optional title: Text<'a> = "title",
        required version: Text<'a> = "version",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A variable of a process's environment.
    EnvVariable {
        required name: Text<'a> = "name",
        required value: Text<'a> = "value",
        optional meta: Meta<'a> = "_meta",
    }
}

object! {
    /// A header of HTTP requests.
    HttpHeader {
        required name: Text<'a> = "name",
        required value: Text<'a> = "value",
        optional meta: Meta<'a> = "_meta",
    }
}
