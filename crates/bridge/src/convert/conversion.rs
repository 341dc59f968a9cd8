//! What every conversion is given: where it is in the message, and what becomes of that which has no place in the other
//! version.

use std::fmt;

use switchboard_acp::{Extra, Meta};

use crate::Error;
use crate::loss::{Note, Severity, element_of};

/// A place in a message: a pointer that is put together only when there is something to say about it.
#[derive(Debug, Clone, Copy)]
struct At<'p> {
    parent: Option<&'p At<'p>>,
    step: PathPart<'p>,
}

#[derive(Debug, Clone, Copy)]
enum PathPart<'p> {
    /// A pointer to where the conversion began.
    Root(&'p str),
    Key(&'p str),
    Index(usize),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(formatter)?;
        }
        match self.step {
            PathPart::Root(pointer) => formatter.write_str(pointer),
            PathPart::Key(key) => write!(formatter, "/{}", key.replace('~', "~0").replace('/', "~1")),
            PathPart::Index(index) => write!(formatter, "/{index}"),
        }
    }
}

/// What the conversions of one message could not carry over, and whether they may go on then.
#[derive(Debug)]
pub(crate) struct Losses {
    pub(crate) entries: Vec<Note>,
    fails: bool,
}

impl Losses {
    /// For conversions that leave out what they cannot say.
    pub(crate) fn noted() -> Self {
        Losses { entries: Vec::new(), fails: false }
    }

    /// For conversions that fail rather than leave something out.
    pub(crate) fn refused() -> Self {
        Losses { entries: Vec::new(), fails: true }
    }

    /// A conversion of what stands at `root`, a JSON pointer into a message of this kind.
    pub(crate) fn at<'c>(&'c mut self, message: &'c str, root: &'c str) -> Conversion<'c> {
        Conversion { message, at: At { parent: None, step: PathPart::Root(root) }, losses: self }
    }
}

/// One conversion.
#[derive(Debug)]
pub(crate) struct Conversion<'c> {
    message: &'c str,
    at: At<'c>,
    losses: &'c mut Losses,
}

impl Conversion<'_> {
    /// The same for the value of a key.
    pub(crate) fn key<'k>(&'k mut self, key: &'k str) -> Conversion<'k> {
        let at = At { parent: Some(&self.at), step: PathPart::Key(key) };
        Conversion { message: self.message, at, losses: &mut *self.losses }
    }

    /// The same for an item of a list.
    pub(crate) fn item(&mut self, index: usize) -> Conversion<'_> {
        let at = At { parent: Some(&self.at), step: PathPart::Index(index) };
        Conversion { message: self.message, at, losses: &mut *self.losses }
    }

    /// Converts all items of a list.
    pub(crate) fn each<T, U>(
        &mut self,
        items: Vec<T>,
        mut convert: impl FnMut(T, &mut Conversion<'_>) -> Result<U, Error>,
    ) -> Result<Vec<U>, Error> {
        items.into_iter().enumerate().map(|(index, item)| convert(item, &mut self.item(index))).collect()
    }

    /// The error that says that what stands here cannot be said at all.
    pub(crate) fn error(&self, reason: impl Into<String>) -> Error {
        Error::Unrepresentable { element: self.element(), reason: reason.into() }
    }

    /// What stands here has no place in the other version: it is left out, or all fails.
    pub(crate) fn lose(&mut self, severity: Severity, reason: impl Into<String>) -> Result<(), Error> {
        if self.losses.fails {
            return Err(self.error(reason));
        }
        self.omit(severity, reason);
        Ok(())
    }

    /// What stands here may be left out even where nothing else may, as long as that is reported.
    pub(crate) fn omit(&mut self, severity: Severity, reason: impl Into<String>) {
        let note =
            Note { element: self.element(), pointer: self.at.to_string(), reason: reason.into(), severity };
        self.losses.entries.push(note);
    }

    /// Converts something of which may be left out what cannot be said, even where nothing else may, as long as that is
    /// reported.
    pub(crate) fn leaving_out<T>(
        &mut self,
        convert: impl FnOnce(&mut Conversion<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let fails = std::mem::replace(&mut self.losses.fails, false);
        let converted = convert(self);
        self.losses.fails = fails;
        converted
    }

    /// What stands here is taken to mean something that the sender did not say.
    pub(crate) fn guess(&mut self, reason: &str) {
        if !self.losses.fails {
            self.omit(Severity::Guess, reason);
        }
    }

    /// What stands here can be said only by who remembers or looks around.
    pub(crate) fn require_state(&self, reason: &str) -> Result<(), Error> {
        if self.losses.fails { Err(self.error(reason)) } else { Ok(()) }
    }

    /// What stands here has no place for metadata and unknown keys in the other version.
    pub(crate) fn lose_rest(
        &mut self,
        meta: Option<&Meta<'_>>,
        extra: &Extra<'_>,
        reason: &str,
    ) -> Result<(), Error> {
        if meta.is_some() {
            self.key("_meta").lose(Severity::Minor, reason)?;
        }
        for (key, _) in extra.iter() {
            self.key(key).lose(Severity::Minor, reason)?;
        }
        Ok(())
    }

    fn element(&self) -> String {
        let pointer = self.at.to_string();
        let mut root = self.at;
        while let Some(parent) = root.parent {
            root = *parent;
        }
        let whole = matches!(root.step, PathPart::Root(root) if root.len() == pointer.len());
        if whole { self.message.to_owned() } else { format!("{}.{}", self.message, element_of(&pointer)) }
    }
}
