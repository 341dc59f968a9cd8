use crate::error::Result;
use crate::record::{About, Item, Record};
use crate::recorder::{Receipt, Recorder};
use crate::store::Store;

/// What records need from wherever they are kept, so that a replicated log can take the place of the file.
///
/// Whoever implements it promises that a record is durable when its receipt says so, that the numbers of a
/// session have no gaps, and that only one writer at a time has a session.
pub trait Journal: Send + Sync {
    /// Begins a session.
    fn begin(&self, about: &About) -> Result<Box<dyn Append>>;

    /// Reads a session from a sequence number on.
    fn read<'j>(&'j self, id: &str, from: u64) -> Result<Box<dyn Iterator<Item = Result<Item>> + 'j>>;
}

/// Writes one session of a [`Journal`].
pub trait Append: Send {
    /// The session's id.
    fn id(&self) -> &str;

    /// Appends a record.
    fn append(&mut self, record: Record) -> Result<Receipt>;

    /// Ends the session, when all its records are durable.
    fn close(self: Box<Self>) -> Result<()>;
}

impl Journal for Store {
    fn begin(&self, about: &About) -> Result<Box<dyn Append>> {
        Ok(Box::new(Store::begin(self, about)?))
    }

    fn read<'j>(&'j self, id: &str, from: u64) -> Result<Box<dyn Iterator<Item = Result<Item>> + 'j>> {
        Ok(Box::new(Store::read(self, id, from)?))
    }
}

impl Append for Recorder {
    fn id(&self) -> &str {
        Recorder::id(self)
    }

    fn append(&mut self, record: Record) -> Result<Receipt> {
        Recorder::append(self, record)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Recorder::close(*self)
    }
}
