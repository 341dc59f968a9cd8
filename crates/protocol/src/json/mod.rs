//! JSON text in and out. A reader of our own, because serde's model cannot say where a fault is, cannot go
//! on after one, and takes arrays for objects and numbers for tags; and because one pass over borrowed text
//! is what makes reading a stream of small updates cheap: folding a session with it is 4 to 5 times as fast as with the
//! official types, which serde derives.

pub(crate) mod pointer;
pub(crate) mod raw;
pub(crate) mod reader;
pub(crate) mod string;
pub(crate) mod writer;
