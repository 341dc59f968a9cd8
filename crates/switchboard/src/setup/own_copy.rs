//! The path of this program for editors, which must stay valid: package runners delete the program from their caches.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use switchboard_transport::Program;

use crate::agents;
use crate::configuration::data_folder;
use crate::outcome::CommandError;

/// Returns the path of this program for editors: the one on the user's `PATH` if it is the same program. A program in the
/// cache of a package runner is copied first, if the user agrees; `is_dry` names the copy without making it.
pub(crate) fn our_program(is_dry: bool, is_confirmed: bool) -> Result<String, CommandError> {
    let ourselves = std::env::current_exe()
        .map_err(|error| CommandError::failed(format!("cannot find this program: {error}")))?;
    let named = Program::new("switchboard").locate().ok();
    let named = named.filter(|named| named.canonicalize().ok() == ourselves.canonicalize().ok());
    let path = match named {
        Some(named) if !is_in_cache(&named) && !is_in_cache(&ourselves) => named,
        _ if is_in_cache(&ourselves) => copied(&ourselves, is_dry, is_confirmed)?,
        _ => ourselves,
    };
    path.into_os_string().into_string().map_err(|path| {
        CommandError::failed(format!("the path of this program, {}, is not valid UTF-8", path.display()))
            .hint("put it into another folder")
    })
}

/// Returns whether a program is in the cache of npx, uvx, pnpm dlx or bunx, which is emptied from time to time.
pub(crate) fn is_in_cache(program: &Path) -> bool {
    let is_cache = |name: &OsStr| {
        let name = name.to_string_lossy();
        name == "_npx"
            || name == "dlx"
            || ["dlx-", "bunx-", "archive-v", "builds-v"].iter().any(|begin| name.starts_with(begin))
    };
    program.parent().is_some_and(|folder| folder.iter().any(is_cache))
}

/// Returns the path of the copy.
fn copy() -> Result<PathBuf, CommandError> {
    let data = data_folder().ok_or_else(|| {
        CommandError::usage("there is no place for a copy of this program: HOME is not set")
            .hint("set HOME to your home folder")
    })?;
    Ok(data.join("switchboard").join("bin/switchboard"))
}

/// Copies this program to a place that stays, unless the copy there has the same content.
fn copied(ourselves: &Path, is_dry: bool, is_confirmed: bool) -> Result<PathBuf, CommandError> {
    let copy = copy()?;
    if is_dry || is_equal(ourselves, &copy) {
        return Ok(copy);
    }
    let question = format!(
        "This program is in a cache that is emptied from time to time: {}\nCopy it to {} for the editor?",
        ourselves.display(),
        copy.display()
    );
    if !is_confirmed && agents::confirmed(&question) != Some(true) {
        return Err(CommandError::usage(format!(
            "{} is in a cache that is emptied from time to time; an editor must not depend on it",
            ourselves.display()
        ))
        .hint(format!("add --yes to copy the program to {}", copy.display()))
        .hint("or install it: npm install -g switchboard-acp, or uv tool install switchboard-acp"));
    }
    let failed = |error: std::io::Error| {
        CommandError::failed(format!(
            "cannot copy this program to {}: {error}; nothing was changed",
            copy.display()
        ))
    };
    let folder = copy.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).map_err(failed)?;
    // Renamed into place, so that an editor never starts half a program.
    let temporary = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    std::fs::copy(ourselves, temporary.path()).map_err(failed)?;
    temporary.as_file().sync_all().map_err(failed)?;
    temporary.persist(&copy).map_err(|error| failed(error.error))?;
    Ok(copy)
}

/// Returns the path of the copy if there is one and it differs from this program.
pub(crate) fn copy_is_old() -> Option<PathBuf> {
    let (copy, ourselves) = (copy().ok()?, std::env::current_exe().ok()?);
    (copy.is_file() && !is_equal(&ourselves, &copy)).then_some(copy)
}

fn is_equal(one: &Path, other: &Path) -> bool {
    let compare = || -> std::io::Result<bool> {
        let (one, other) = (std::fs::File::open(one)?, std::fs::File::open(other)?);
        if one.metadata()?.len() != other.metadata()?.len() {
            return Ok(false);
        }
        let (mut one, mut other) = (std::io::BufReader::new(one), std::io::BufReader::new(other));
        let (mut left, mut right) = ([0; 8192], [0; 8192]);
        loop {
            let count = one.read(&mut left)?;
            if count == 0 {
                return Ok(true);
            }
            other.read_exact(&mut right[..count])?;
            if left[..count] != right[..count] {
                return Ok(false);
            }
        }
    };
    compare().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_package_runners_are_recognized_by_their_folders() {
        for path in [
            "/home/a/.npm/_npx/0123abcd/node_modules/@switchboard-acp/linux-x64/bin/switchboard",
            "/home/a/.cache/uv/archive-v0/Xyz/bin/switchboard",
            "/home/a/.cache/uv/builds-v0/.tmp1/bin/switchboard",
            "/home/a/.cache/pnpm/dlx-123/node_modules/switchboard",
            "/home/a/.cache/pnpm/dlx/123/node_modules/switchboard",
            "/tmp/bunx-1000-switchboard-acp@latest/node_modules/switchboard",
        ] {
            assert!(is_in_cache(Path::new(path)), "{path}");
        }
        for path in [
            "/usr/bin/switchboard",
            "/home/a/.local/bin/switchboard",
            "/usr/lib/node_modules/@switchboard-acp/linux-x64/bin/switchboard",
            "/home/a/.local/share/uv/tools/switchboard-acp/bin/switchboard",
            "/home/a/archive/switchboard",
        ] {
            assert!(!is_in_cache(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn files_are_equal_only_with_equal_content() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let (one, same) = (file("one", &[7; 20_000]), file("same", &[7; 20_000]));
        let mut changed = [7; 20_000];
        changed[19_999] = 8;
        assert!(is_equal(&one, &same));
        assert!(!is_equal(&one, &file("changed", &changed)));
        assert!(!is_equal(&one, &file("longer", &[7; 20_001])));
        assert!(!is_equal(&one, &folder.path().join("missing")));
    }
}
