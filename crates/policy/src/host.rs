//! What a policy has to know of the machine that the agent works on.

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Nothing.
    Missing,
    /// A folder.
    Folder,
    /// Something else, with the number of names that it has.
    File {
        /// How many hard links there are to it.
        links: u64,
    },
    /// A symbolic link, with what it says.
    Link(String),
    /// Nobody can tell, because it cannot be read or is no text.
    Unreadable,
}

/// The machine that the agent works on, as far as a policy has to know it.
///
/// [`NoFiles`] is one on which nothing is known, for tests and examples.
pub trait Host {
    /// What is at an absolute path whose folders are no links.
    fn look(&self, path: &str) -> Node;

    /// The home directory, where there is one.
    fn home(&self) -> Option<&str>;

    /// Whether names that differ only in case are the same below this folder.
    fn ignores_case(&self, folder: &str) -> bool;

    /// Returns the names in a folder, given as an absolute path without links: none where there is no such folder, and
    /// `None` where not all of them are known. Rules with `path` do not allow a wildcard in a folder whose names are not known.
    fn list(&self, _folder: &str) -> Option<Vec<String>> {
        None
    }
}

impl<H: Host + ?Sized> Host for &H {
    fn look(&self, path: &str) -> Node {
        (**self).look(path)
    }

    fn home(&self) -> Option<&str> {
        (**self).home()
    }

    fn ignores_case(&self, folder: &str) -> bool {
        (**self).ignores_case(folder)
    }

    fn list(&self, folder: &str) -> Option<Vec<String>> {
        (**self).list(folder)
    }
}

/// A machine without files, on which no path is a link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoFiles {
    /// The home directory.
    pub home: Option<String>,
}

impl Host for NoFiles {
    fn look(&self, _: &str) -> Node {
        Node::Missing
    }

    fn home(&self) -> Option<&str> {
        self.home.as_deref()
    }

    fn ignores_case(&self, _: &str) -> bool {
        false
    }
}
