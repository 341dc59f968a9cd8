//! Context of a conversion: the position in the message, and the treatment of elements without a counterpart.

use std::fmt;

use switchboard_acp::{Extra, Meta};

use crate::Error;
use crate::loss::{Note, Severity, element_of};

/// A position in a message. The JSON pointer is only built if there is something to report.
#[derive(Debug, Clone, Copy)]
struct At<'p> {
    parent: Option<&'p At<'p>>,
    step: PathPart<'p>,
}

#[derive(Debug, Clone, Copy)]
enum PathPart<'p> {
    /// A JSON pointer to the start of the conversion.
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

/// Losses of a message's conversions, and whether a loss is an error.
#[derive(Debug)]
pub(crate) struct Losses {
    pub(crate) entries: Vec<Note>,
    fails: bool,
}

impl Losses {
    /// Creates a list for conversions that leave out elements and note them.
    pub(crate) fn noted() -> Self {
        Losses { entries: Vec::new(), fails: false }
    }

    /// Creates a list for conversions that fail on the first loss.
    pub(crate) fn refused() -> Self {
        Losses { entries: Vec::new(), fails: true }
    }

    /// Starts a conversion of the value at `root`, a JSON pointer into a message of this kind.
    pub(crate) fn at<'c>(&'c mut self, message: &'c str, root: &'c str) -> Conversion<'c> {
        Conversion { message, at: At { parent: None, step: PathPart::Root(root) }, losses: self }
    }
}

/// A conversion of one value.
#[derive(Debug)]
pub(crate) struct Conversion<'c> {
    message: &'c str,
    at: At<'c>,
    losses: &'c mut Losses,
}

impl Conversion<'_> {
    /// Returns the conversion of a key's value.
    pub(crate) fn key<'k>(&'k mut self, key: &'k str) -> Conversion<'k> {
        let at = At { parent: Some(&self.at), step: PathPart::Key(key) };
        Conversion { message: self.message, at, losses: &mut *self.losses }
    }

    /// Returns the conversion of a list item.
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

    /// Returns the error for a value without a counterpart.
    pub(crate) fn error(&self, reason: impl Into<String>) -> Error {
        Error::Unrepresentable { element: self.element(), reason: reason.into() }
    }

    /// Notes the loss of the current value, or fails.
    pub(crate) fn report_loss(&mut self, severity: Severity, reason: impl Into<String>) -> Result<(), Error> {
        if self.losses.fails {
            return Err(self.error(reason));
        }
        self.omit(severity, reason);
        Ok(())
    }

    /// Notes the loss of the current value, even in conversions that fail on a loss.
    pub(crate) fn omit(&mut self, severity: Severity, reason: impl Into<String>) {
        let note =
            Note { element: self.element(), pointer: self.at.to_string(), reason: reason.into(), severity };
        self.losses.entries.push(note);
    }

    /// Runs a conversion that leaves out and notes elements, even inside a conversion that fails on a loss.
    pub(crate) fn leaving_out<T>(
        &mut self,
        convert: impl FnOnce(&mut Conversion<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let fails = std::mem::replace(&mut self.losses.fails, false);
        let converted = convert(self);
        self.losses.fails = fails;
        converted
    }

    /// Notes that a value was inferred that the sender did not state.
    pub(crate) fn guess(&mut self, reason: &str) {
        if !self.losses.fails {
            self.omit(Severity::Guess, reason);
        }
    }

    /// Fails in conversions without state, for values that can only be converted with state or file access.
    pub(crate) fn require_state(&self, reason: &str) -> Result<(), Error> {
        if self.losses.fails { Err(self.error(reason)) } else { Ok(()) }
    }

    /// Notes the loss of metadata and unknown keys, for which the other version has no place here.
    pub(crate) fn report_lost_rest(
        &mut self,
        meta: Option<&Meta<'_>>,
        extra: &Extra<'_>,
        reason: &str,
    ) -> Result<(), Error> {
        if meta.is_some() {
            self.key("_meta").report_loss(Severity::Minor, reason)?;
        }
        for (key, _) in extra.iter() {
            self.key(key).report_loss(Severity::Minor, reason)?;
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
