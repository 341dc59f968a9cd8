//! JSON text in and out. A reader of our own, because serde's model cannot say where a fault is, cannot go
//! on after one, and takes arrays for objects and numbers for tags; and because one pass over borrowed text
//! is what makes reading a stream of small updates cheap.

pub(crate) mod pointer;
pub(crate) mod raw;
pub(crate) mod reader;
pub(crate) mod string;
pub(crate) mod writer;
