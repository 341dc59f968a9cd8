//! Information about the machine on which the agent runs.

/// The file system object at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Nothing.
    Missing,
    /// A folder.
    Folder,
    /// Anything else, with its number of hard links.
    File {
        /// Number of hard links.
        links: u64,
    },
    /// A symbolic link, with its target.
    Link(String),
    /// Unknown, because it cannot be read or its name is not UTF-8.
    Unreadable,
}

/// The machine on which the agent runs, as far as a policy needs it.
///
/// [`NoFiles`] is a machine without files, for tests and examples.
pub trait Host {
    /// Returns the object at an absolute path whose folders are not links.
    fn look(&self, path: &str) -> Node;

    /// Returns the home directory if there is one.
    fn home(&self) -> Option<&str>;

    /// Returns whether names that differ only in case are the same below this folder.
    fn ignores_case(&self, folder: &str) -> bool;

    /// Returns the names in a folder, given as an absolute path without links: an empty list if the folder
    /// does not exist, and `None` if not all names are known. Rules with `path` do not allow a wildcard in a
    /// folder with unknown names.
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

/// A machine without files and links.
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
