//! Policy files: location, file permissions, and access to the file system.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use switchboard_policy::{Host, Node, Policy, PolicyError};

use crate::configuration;
use crate::outcome::CommandError;

/// Name of a policy file, the user's and a project's.
pub(crate) const NAME: &str = "switchboard-policy.toml";

/// Maximum size of a policy file in bytes.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Maximum number of names in a folder considered for a wildcard.
const MAX_NAMES: usize = 20_000;

/// The file system of this machine.
#[derive(Debug, Clone)]
pub(crate) struct SystemFiles {
    home: Option<String>,
}

impl SystemFiles {
    pub(crate) fn new() -> Self {
        let home = configuration::home().and_then(|home| home.into_os_string().into_string().ok());
        SystemFiles { home }
    }
}

impl Host for SystemFiles {
    fn look(&self, path: &str) -> Node {
        if path.contains('\0') {
            return Node::Unreadable;
        }
        match std::fs::symlink_metadata(path) {
            Ok(metadata) if metadata.file_type().is_symlink() => match std::fs::read_link(path) {
                // A target that is not UTF-8 cannot be compared.
                Ok(target) => target.into_os_string().into_string().map_or(Node::Unreadable, Node::Link),
                Err(_) => Node::Unreadable,
            },
            Ok(metadata) if metadata.is_dir() => Node::Folder,
            Ok(metadata) => Node::File { links: links(&metadata) },
            Err(error) if configuration::is_missing(&error) => Node::Missing,
            Err(_) => Node::Unreadable,
        }
    }

    fn home(&self) -> Option<&str> {
        self.home.as_deref()
    }

    fn ignores_case(&self, _: &str) -> bool {
        cfg!(any(target_os = "macos", target_os = "ios", windows))
    }

    fn list(&self, folder: &str) -> Option<Vec<String>> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if configuration::is_missing(&error) => return Some(Vec::new()),
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Some(Vec::new()),
            Err(_) => return None,
        };
        let mut names = Vec::new();
        for entry in entries {
            // An unseen name could be any file, and so could one that is not UTF-8.
            if names.len() >= MAX_NAMES {
                return None;
            }
            names.push(entry.ok()?.file_name().into_string().ok()?);
        }
        Some(names)
    }
}

#[cfg(unix)]
fn links(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn links(_: &std::fs::Metadata) -> u64 {
    1
}

/// Reason why a policy file is not used.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It cannot be read.
    Unreadable(String),
    /// Others may have written it.
    Exposed(Exposure),
    /// It is invalid.
    Invalid(PathBuf, PolicyError),
}

/// A policy file that other users may have written.
#[derive(Debug)]
pub(crate) struct Exposure {
    path: PathBuf,
    reason: String,
    /// The remedy for the reason.
    pub(crate) remedy: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Unreadable(problem) => formatter.write_str(problem),
            Refused::Exposed(Exposure { path, reason, .. }) => {
                write!(formatter, "{} is not used: {reason}", path.display())
            }
            Refused::Invalid(path, error) => match error.line() {
                Some(line) => write!(formatter, "{}:{line}: {}", path.display(), error.message()),
                None => write!(formatter, "{}: {}", path.display(), error.message()),
            },
        }
    }
}

impl From<Refused> for CommandError {
    fn from(refused: Refused) -> Self {
        match &refused {
            Refused::Unreadable(problem) => CommandError::usage(problem.clone()),
            Refused::Exposed(Exposure { remedy, .. }) => CommandError::failed(refused.to_string())
                .hint(format!("rules only apply if no other user can change them: {remedy}")),
            Refused::Invalid(..) => CommandError::failed(refused.to_string()),
        }
    }
}

/// Reads a policy file. Fails if it is unreadable, writable by others, or invalid.
pub(crate) fn load(path: &Path, host: &dyn Host) -> Result<Policy, Refused> {
    let text = read(path)?;
    Policy::parse(&text, host).map_err(|error| Refused::Invalid(path.to_owned(), error))
}

fn read(path: &Path) -> Result<String, Refused> {
    let problem =
        |error: &dyn fmt::Display| Refused::Unreadable(format!("cannot read {}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| problem(&error))?;
    // Of the open file, because its name may lead elsewhere by now.
    let metadata = file.metadata().map_err(|error| problem(&error))?;
    if metadata.is_dir() {
        return Err(problem(&"it is a folder"));
    }
    if let Some((reason, remedy)) = exposed(path, &metadata) {
        return Err(Refused::Exposed(Exposure { path: path.to_owned(), reason, remedy }));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| problem(&error))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(problem(&"it is too large"));
    }
    String::from_utf8(bytes)
        .map_err(|_| Refused::Invalid(path.to_owned(), PolicyError::new("the file is not UTF-8")))
}

/// Returns why other users may have written a file, and the remedy.
#[cfg(unix)]
fn exposed(path: &Path, metadata: &std::fs::Metadata) -> Option<(String, String)> {
    use std::os::unix::fs::MetadataExt;
    let (mode, owner) = (metadata.mode(), metadata.uid());
    let me = rustix::process::geteuid().as_raw();
    // Many systems give each user a private group of the same number.
    let is_private_group = metadata.gid() == owner && owner != 0;
    if !metadata.is_file() {
        return None;
    }
    let writers = match mode {
        _ if mode & 0o002 != 0 => Some("all users"),
        _ if mode & 0o020 != 0 && !is_private_group => Some("a group"),
        _ => None,
    };
    if let Some(writers) = writers {
        let reason = format!("{writers} can write to it (permissions {:03o})", mode & 0o777);
        return Some((reason, format!("chmod go-w {}", path.display())));
    }
    if me != 0 && owner != me && owner != 0 {
        return Some(("it belongs to another user".to_owned(), "use a copy that belongs to you".to_owned()));
    }
    replaceable(path)
}

#[cfg(not(unix))]
fn exposed(_: &Path, _: &std::fs::Metadata) -> Option<(String, String)> {
    None
}

/// Returns why other users may replace a file, and the remedy.
#[cfg(unix)]
fn replaceable(path: &Path) -> Option<(String, String)> {
    use std::os::unix::fs::MetadataExt;
    // In a sticky folder, only the owner of a file can replace it.
    let is_open = |folder: &PathBuf| {
        folder.metadata().is_ok_and(|metadata| metadata.mode() & 0o002 != 0 && metadata.mode() & 0o1000 == 0)
    };
    // For a link, both the link and its target.
    let places = [std::path::absolute(path).ok(), path.canonicalize().ok()];
    let mut folders = places.into_iter().flatten().filter_map(|path| Some(path.parent()?.to_owned()));
    let folder = folders.find(is_open)?;
    let reason = "all users can replace it, because its folder is writable for them".to_owned();
    Some((reason, format!("chmod o-w {}", folder.display())))
}

#[cfg(not(unix))]
fn replaceable(_: &Path) -> Option<(String, String)> {
    None
}

/// Reads the user's policy; without one, everything is asked.
pub(crate) fn of_user(host: &dyn Host) -> Result<Policy, Refused> {
    let policy = user_file().map_or(Ok(None), |file| load_if_there(&file, host))?;
    Ok(policy.unwrap_or_else(Policy::ask))
}

/// Returns the path of the user's policy file, which may not exist.
fn user_file() -> Option<PathBuf> {
    Some(configuration::configuration_folder()?.join("switchboard").join(NAME))
}

/// Returns the paths of the user's policy file and of the file with the trusted policies, which may not exist.
pub(crate) fn files_of_user() -> Vec<PathBuf> {
    [user_file(), trust_file()].into_iter().flatten().collect()
}

/// Returns whether the user's policy or that of a project, one of which cannot be used, may have the table `[sandbox]`.
pub(crate) fn may_have_sandbox(root: &Path) -> bool {
    let mentions = |text: Vec<u8>| memchr::memmem::find(&text, b"sandbox").is_some();
    [user_file(), Some(root.join(NAME))].into_iter().flatten().any(|file| match file.metadata() {
        // Special files are never read, because they could block.
        Ok(metadata) if !metadata.is_file() => false,
        Ok(metadata) if metadata.len() > MAX_FILE => true,
        // A file that cannot be read may have anything.
        Ok(_) => std::fs::read(&file).map_or(true, mentions),
        Err(error) => !configuration::is_missing(&error),
    })
}

/// Returns the path of the user's policy file for messages.
pub(crate) fn user_file_name() -> String {
    user_file().map_or_else(|| NAME.to_owned(), |file| file.display().to_string())
}

/// The user's policy with additional rules.
#[derive(Debug)]
pub(crate) struct Extended {
    /// The file, and its resolved path.
    file: PathBuf,
    target: PathBuf,
    before: Option<String>,
    text: String,
    /// All rules.
    pub(crate) policy: Policy,
}

impl Extended {
    /// Returns the user's current policy with additional rules at the end. The existing text is unchanged.
    pub(crate) fn with(more: &str, host: &dyn Host) -> Result<Self, Refused> {
        Extended::changed(host, |text| {
            let mut text = text.to_owned();
            if !text.is_empty() {
                text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
            }
            text.push_str(more);
            text
        })
    }

    /// Returns the user's current policy with one more host in the table `[sandbox]`.
    pub(crate) fn with_host(host_pattern: &str, host: &dyn Host) -> Result<Self, Refused> {
        Extended::changed(host, |text| with_host(text, host_pattern))
    }

    /// Returns the user's current policy after a change of its text.
    fn changed(host: &dyn Host, change: impl Fn(&str) -> String) -> Result<Self, Refused> {
        let file = user_file().ok_or_else(|| {
            Refused::Unreadable("cannot locate the policy file: HOME is not set".to_owned())
        })?;
        // A link to a file elsewhere stays a link.
        let is_there = is_there(&file);
        let target =
            if is_there { file.canonicalize().unwrap_or_else(|_| file.clone()) } else { file.clone() };
        let before = if is_there { Some(read(&file).and_then(|_| read(&target))?) } else { None };
        let text = change(before.as_deref().unwrap_or_default());
        if text.len() as u64 > MAX_FILE {
            return Err(Refused::Unreadable(format!("{} would become too large", file.display())));
        }
        let policy = Policy::parse(&text, host).map_err(|error| Refused::Invalid(file.clone(), error))?;
        Ok(Extended { file, target, before, text, policy })
    }

    /// Writes the file atomically, unless it has changed meanwhile or others could change it. Returns its
    /// path.
    pub(crate) fn save(self) -> Result<PathBuf, String> {
        let Extended { file, target, before, text, policy: _ } = self;
        let failed = |error: &dyn fmt::Display| format!("cannot write {}: {error}", file.display());
        let folder = target.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|error| failed(&error))?;
        if let Some((reason, remedy)) = replaceable(&target) {
            return Err(failed(&format!("{reason}; run {remedy}")));
        }
        // Only readable by its owner, unless it had other permissions.
        let mut new = tempfile::NamedTempFile::new_in(folder).map_err(|error| failed(&error))?;
        std::io::Write::write_all(&mut new, text.as_bytes()).map_err(|error| failed(&error))?;
        if let Ok(metadata) = target.metadata() {
            new.as_file().set_permissions(metadata.permissions()).map_err(|error| failed(&error))?;
        }
        new.as_file().sync_all().map_err(|error| failed(&error))?;
        let now =
            if is_there(&file) { Some(read(&target).map_err(|refused| refused.to_string())?) } else { None };
        if now != before {
            return Err(format!("{} has changed meanwhile; check the rule again", file.display()));
        }
        new.persist(&target).map_err(|error| failed(&error.error))?;
        Ok(file)
    }
}

/// Adds a host to the list in the table `[sandbox]` of a policy, and leaves the rest as it is.
fn with_host(text: &str, pattern: &str) -> String {
    let quoted = format!("{pattern:?}");
    let mut offset = 0;
    let mut in_table = None;
    for line in text.split_inclusive('\n') {
        let start = offset;
        offset += line.len();
        let is_table = line.trim().split('#').next().is_some_and(|line| line.trim() == "[sandbox]");
        if is_table {
            in_table = Some(offset);
        } else if line.trim_start().starts_with('[') {
            if in_table.is_some() {
                break;
            }
        } else if in_table.is_some()
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "hosts"
            && let Some(bracket) = value.find('[')
        {
            let at = start + key.len() + 1 + bracket + 1;
            let is_empty = text[at..].trim_start().starts_with(']');
            let separator = if is_empty { "" } else { ", " };
            return format!("{}{quoted}{separator}{}", &text[..at], &text[at..]);
        }
    }
    match in_table {
        Some(at) => {
            let line_end = if text[..at].ends_with('\n') { "" } else { "\n" };
            format!("{}{line_end}hosts = [{quoted}]\n{}", &text[..at], &text[at..])
        }
        None => {
            let blank = if text.is_empty() || text.ends_with("\n\n") { "" } else { "\n" };
            let line_end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            format!("{text}{line_end}{blank}[sandbox]\nhosts = [{quoted}]\n")
        }
    }
}

/// Returns the policy of a project: the user's, extended by the project's file, which can only make it
/// stricter unless the user trusts it.
pub(crate) fn for_project(user: Policy, root: &Path, host: &dyn Host) -> Result<Policy, Refused> {
    let place = root.join(NAME);
    Ok(match load_if_there(&place, host)? {
        // The user's file is the project's file.
        Some(project) if project.hash() == user.hash() => user,
        Some(project) => {
            let is_trusted = is_trusted(&place, project.hash());
            user.with_project(project, is_trusted)
        }
        None => user,
    })
}

/// Returns whether a path exists or may exist: an unreadable path counts, so that reading it reports the
/// reason.
fn is_there(path: &Path) -> bool {
    !path.symlink_metadata().is_err_and(|error| configuration::is_missing(&error))
}

/// Reads an optional policy file; `None` only if the path does not exist. Special files are refused, because
/// they could block.
fn load_if_there(path: &Path, host: &dyn Host) -> Result<Option<Policy>, Refused> {
    if !is_there(path) {
        return Ok(None);
    }
    match path.metadata() {
        Ok(metadata) if !metadata.is_file() => {
            Err(Refused::Unreadable(format!("cannot read {}: it is not a regular file", path.display())))
        }
        _ => load(path, host).map(Some),
    }
}

/// Returns the path of the file with the trusted project policies: a hash and a path per line.
fn trust_file() -> Option<PathBuf> {
    Some(configuration::configuration_folder()?.join("switchboard").join("trusted-policies"))
}

/// Returns the name under which a project's file is trusted.
fn trusted_name(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // A name with a line break must not look like two lines.
    path.display().to_string().replace(['\n', '\r'], "\u{fffd}")
}

fn is_trusted(path: &Path, hash: &str) -> bool {
    let Some(text) = trust_file().and_then(|file| read(&file).ok()) else { return false };
    let wanted = format!("{hash} {}", trusted_name(path));
    text.lines().any(|line| line == wanted)
}

/// Trusts a project's file in its current state. The trust ends when it changes.
pub(crate) fn trust(path: &Path, policy: &Policy) -> Result<(), CommandError> {
    let file = trust_file().ok_or_else(|| CommandError::usage("cannot store the trust: HOME is not set"))?;
    let failed =
        |error: std::io::Error| CommandError::failed(format!("cannot write {}: {error}", file.display()));
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let name = trusted_name(path);
    let before = if is_there(&file) { read(&file)? } else { String::new() };
    let kept = before.lines().filter(|line| line.split_once(' ').is_some_and(|(_, path)| path != name));
    let text: String =
        kept.map(|line| format!("{line}\n")).chain([format!("{} {name}\n", policy.hash())]).collect();
    let mut new = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    std::io::Write::write_all(&mut new, text.as_bytes()).map_err(failed)?;
    new.persist(&file).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use switchboard_policy::NoFiles;

    use super::*;

    #[test]
    fn a_host_is_added_to_the_table_and_the_rest_stays() {
        let rule = "[[rule]]\ndecision = \"deny\"\npath = [\"/x\"]\n";
        for before in [
            String::new(),
            "default = \"ask\"".to_owned(),
            format!("[sandbox]\nmode = \"strict\"\n\n{rule}"),
            "[sandbox] # ours\nhosts = []\n".to_owned(),
            format!("[sandbox]\nhosts = [\n  \"a.com\", # one\n]\n{rule}"),
            format!("{rule}\n[sandbox]"),
            "[sandbox]\nhosts=[\"a.com\"]\n".to_owned(),
        ] {
            let after = with_host(&before, "new.example.com");
            let old = Policy::parse(&before, &NoFiles::default()).unwrap();
            let new = Policy::parse(&after, &NoFiles::default())
                .unwrap_or_else(|error| panic!("{error:?}: {after}"));
            assert!(new.sandbox().hosts.iter().any(|host| host.matches("new.example.com", 443)), "{after}");
            assert_eq!(new.sandbox().hosts.len(), old.sandbox().hosts.len() + 1, "{after}");
            assert_eq!((new.len(), new.sandbox().mode), (old.len(), old.sandbox().mode), "{after}");
        }
    }
}
