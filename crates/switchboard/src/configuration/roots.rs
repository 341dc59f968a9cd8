//! Folders in which the sessions of a hub may work.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::with_home;

/// Maximum length of a path.
const MAX_PATH: usize = 4096;

/// The folders in which sessions may work, including everything below them. They are resolved each time:
/// links may change, and disks may be mounted later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Roots(Vec<PathBuf>);

/// Reason why sessions may not work in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The reason, without the folder.
    pub(crate) reason: String,
    /// The allowed folders, as configured.
    pub(crate) roots: Vec<String>,
}

impl Roots {
    /// Parses the folders of a configuration; `usual` if there is no setting. An invalid list is an error: it
    /// does not mean the default folder.
    pub(crate) fn parse(setting: Option<&Value>, usual: &Path) -> Result<Self, String> {
        let Some(setting) = setting else { return Ok(Roots(vec![usual.to_owned()])) };
        let list = setting.as_array().ok_or("is not a list of folders")?;
        let folder = |item: &Value| {
            let text = item.as_str().ok_or_else(|| format!("has {item}, which is not a string"))?;
            let folder = PathBuf::from(if text == "~" { with_home("~/") } else { with_home(text) });
            if folder.is_absolute() {
                Ok(folder)
            } else {
                Err(format!("has {text:?}, which must begin with / or ~/"))
            }
        };
        Ok(Roots(list.iter().map(folder).collect::<Result<_, String>>()?))
    }

    /// Returns the folders as configured.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.iter().map(|root| root.display().to_string()).collect()
    }

    /// Returns current problems of the folders.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problem = |root: &PathBuf| match root.metadata() {
            Ok(metadata) if metadata.is_dir() => None,
            Ok(_) => Some(format!("the root {} is not a folder", root.display())),
            Err(error) => Some(format!("the root {} cannot be used: {error}", root.display())),
        };
        self.0.iter().filter_map(problem).collect()
    }

    /// Resolves a folder if sessions may work there: it exists, and with all links resolved it is one of the
    /// roots or below one.
    pub(crate) fn resolve(&self, folder: &str) -> Result<String, Refused> {
        let path = Path::new(folder);
        if !path.is_absolute() || folder.len() > MAX_PATH {
            return Err(self.refused("it is not an absolute path"));
        }
        match path.canonicalize() {
            Ok(found) if !self.allow(&found) => Err(self.refused(OUTSIDE)),
            Ok(found) if !found.is_dir() => Err(self.refused("it is not a folder")),
            Ok(found) => match found.into_os_string().into_string() {
                Ok(found) => Ok(found),
                Err(_) => Err(self.refused("its resolved name is not UTF-8")),
            },
            // Whether a file exists outside of the roots must not be revealed.
            Err(error) if existing_part(path).is_some_and(|part| self.allow(&part)) => {
                let is_missing = error.kind() == std::io::ErrorKind::NotFound;
                Err(self.refused(if is_missing {
                    "the folder does not exist".to_owned()
                } else {
                    format!("it cannot be used: {error}")
                }))
            }
            Err(_) => Err(self.refused(OUTSIDE)),
        }
    }

    fn allow(&self, found: &Path) -> bool {
        self.0.iter().filter_map(|root| root.canonicalize().ok()).any(|root| found.starts_with(root))
    }

    fn refused(&self, reason: impl Into<String>) -> Refused {
        Refused { reason: reason.into(), roots: self.names() }
    }
}

const OUTSIDE: &str = "it is outside the roots in which sessions may work";

/// Returns the resolved existing part of a path.
fn existing_part(path: &Path) -> Option<PathBuf> {
    let mut part = PathBuf::new();
    for component in path.components() {
        let next = match component {
            Component::CurDir => continue,
            other => part.join(other),
        };
        if !next.exists() {
            break;
        }
        part = next;
    }
    part.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use serde_json::json;
    use tempfile::TempDir;

    use super::*;

    /// Creates a folder with `allowed/project/deep`, `allowed/file`, `elsewhere` and `allowed-too`.
    fn place() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        for name in ["allowed/project/deep", "elsewhere", "allowed-too"] {
            std::fs::create_dir_all(path.join(name)).unwrap();
        }
        std::fs::write(path.join("allowed/file"), "").unwrap();
        (folder, path)
    }

    fn reason(roots: &Roots, folder: impl AsRef<Path>) -> String {
        let refused = roots.resolve(folder.as_ref().to_str().unwrap()).unwrap_err();
        assert_eq!(refused.roots, roots.0.iter().map(|root| root.to_str().unwrap()).collect::<Vec<_>>());
        refused.reason
    }

    fn resolved(roots: &Roots, folder: impl AsRef<Path>) -> PathBuf {
        roots.resolve(folder.as_ref().to_str().unwrap()).unwrap().into()
    }

    #[test]
    fn a_root_and_what_is_below_it_can_be_used() {
        let (_folder, path) = place();
        let roots = Roots(vec![path.join("elsewhere"), path.join("allowed")]);
        for name in ["allowed", "allowed/project/deep", "elsewhere"] {
            assert_eq!(resolved(&roots, path.join(name)), path.join(name));
        }
        assert_eq!(resolved(&roots, path.join("allowed/./project//")), path.join("allowed/project"));
        assert_eq!(roots.problems(), [""; 0]);
        // A name that only shares a prefix with a root is another one.
        for outside in [path.join("allowed-too"), path.clone(), "/".into()] {
            assert_eq!(reason(&roots, outside), OUTSIDE);
        }
        assert_eq!(resolved(&Roots(vec!["/".into()]), &path), path);
    }

    #[test]
    fn two_dots_lead_where_they_lead() {
        let (_folder, path) = place();
        let roots = Roots(vec![path.join("allowed")]);
        assert_eq!(resolved(&roots, path.join("allowed/project/../project")), path.join("allowed/project"));
        assert_eq!(resolved(&roots, path.join("elsewhere/../allowed")), path.join("allowed"));
        for out in [
            "allowed/..",
            "allowed/../elsewhere",
            "allowed/project/../../elsewhere",
            "allowed/../allowed-too",
        ] {
            assert_eq!(reason(&roots, path.join(out)), OUTSIDE, "{out}");
        }
        // Resolved with the link: its parent is elsewhere.
        symlink(path.join("elsewhere"), path.join("allowed/out")).unwrap();
        assert_eq!(reason(&roots, path.join("allowed/out/..")), OUTSIDE);
    }

    #[test]
    fn links_count_as_what_they_lead_to() {
        let (_folder, path) = place();
        symlink(path.join("elsewhere"), path.join("allowed/out")).unwrap();
        symlink(path.join("allowed/project"), path.join("allowed/in")).unwrap();
        symlink(path.join("allowed"), path.join("link-to-root")).unwrap();
        symlink("loop", path.join("allowed/loop")).unwrap();
        let roots = Roots(vec![path.join("allowed")]);
        assert_eq!(reason(&roots, path.join("allowed/out")), OUTSIDE);
        assert_eq!(resolved(&roots, path.join("allowed/in/deep")), path.join("allowed/project/deep"));
        assert_eq!(resolved(&roots, path.join("link-to-root/project")), path.join("allowed/project"));
        assert!(reason(&roots, path.join("allowed/loop")).starts_with("it cannot be used: "));
        // A link as a root allows its target under either name, and nothing next to it.
        let roots = Roots(vec![path.join("link-to-root")]);
        for name in ["link-to-root/project", "allowed/project"] {
            assert_eq!(resolved(&roots, path.join(name)), path.join("allowed/project"));
        }
        assert_eq!(reason(&roots, path.join("elsewhere")), OUTSIDE);
        // It is resolved each time.
        std::fs::remove_file(path.join("link-to-root")).unwrap();
        symlink(path.join("elsewhere"), path.join("link-to-root")).unwrap();
        assert_eq!(reason(&roots, path.join("allowed/project")), OUTSIDE);
    }

    #[test]
    fn invalid_folders_are_refused_without_details_of_other_folders() {
        let (_folder, path) = place();
        let roots = Roots(vec![path.join("allowed")]);
        assert_eq!(reason(&roots, path.join("allowed/missing/deep")), "the folder does not exist");
        assert_eq!(reason(&roots, path.join("allowed/file")), "it is not a folder");
        assert!(reason(&roots, path.join("allowed/file/below")).starts_with("it cannot be used: "));
        for elsewhere in ["elsewhere", "elsewhere/missing", "missing", "allowed/../missing/../allowed"] {
            assert_eq!(reason(&roots, path.join(elsewhere)), OUTSIDE, "{elsewhere}");
        }
        for relative in ["", ".", "allowed", "../allowed", "~"] {
            assert_eq!(reason(&roots, relative), "it is not an absolute path", "{relative:?}");
        }
        assert_eq!(reason(&roots, "/a".repeat(5000)), "it is not an absolute path");
        assert!(roots.resolve(&format!("{}\0", path.join("allowed").display())).is_err());
        // A real name that cannot be sent as JSON.
        let odd = path.join(std::ffi::OsStr::from_bytes(b"allowed/\xff"));
        std::fs::create_dir(&odd).unwrap();
        symlink(&odd, path.join("allowed/said")).unwrap();
        assert_eq!(reason(&roots, path.join("allowed/said")), "its resolved name is not UTF-8");
    }

    #[test]
    fn a_root_that_is_missing_allows_nothing_until_it_is_there() {
        let (_folder, path) = place();
        let roots = Roots(vec![path.join("later"), path.join("allowed/file")]);
        let problems = roots.problems();
        assert!(
            problems[0].contains("later") && problems[1].ends_with("file is not a folder"),
            "{problems:?}"
        );
        assert_eq!(reason(&roots, path.join("later")), OUTSIDE);
        assert_eq!(reason(&roots, path.join("allowed")), OUTSIDE);
        std::fs::create_dir_all(path.join("later/project")).unwrap();
        assert_eq!(resolved(&roots, path.join("later/project")), path.join("later/project"));
        assert_eq!(reason(&Roots(Vec::new()), &path), OUTSIDE);
    }

    #[test]
    fn a_list_is_taken_as_it_is_written_or_not_at_all() {
        let usual = Path::new("/usual");
        let parse = |setting: Value| Roots::parse(Some(&setting), usual);
        assert_eq!(Roots::parse(None, usual), Ok(Roots(vec!["/usual".into()])));
        assert_eq!(parse(json!([])), Ok(Roots(vec![])));
        assert_eq!(parse(json!(["/a", "/b/../c"])), Ok(Roots(vec!["/a".into(), "/b/../c".into()])));
        for (setting, problem) in [
            (json!("/a"), "is not a list"),
            (json!(null), "is not a list"),
            (json!({}), "is not a list"),
            (json!(["/a", 7]), "has 7, which is not a string"),
            (json!(["relative"]), "has \"relative\", which must begin with / or ~/"),
            (json!([""]), "must begin with"),
        ] {
            assert!(parse(setting.clone()).is_err_and(|error| error.contains(problem)), "{setting}");
        }
    }
}
