//! JSON parser and writer. Not serde, because its model cannot locate an error, cannot continue after one,
//! and accepts arrays for objects and numbers for tags. A single pass over borrowed text also makes a stream
//! of small updates cheap to read: folding a session is 4 to 5 times as fast as with the official types,
//! which use serde.

pub(crate) mod pointer;
pub(crate) mod raw;
pub(crate) mod reader;
pub(crate) mod string;
pub(crate) mod writer;
