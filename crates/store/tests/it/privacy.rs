//! Only the owner can read recordings.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use switchboard_store::{About, Settings, Store};

use crate::support::chunk;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn set(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns all files and folders below a folder.
fn below(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found
}

#[test]
fn everything_that_is_made_is_closed_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data/switchboard/store.sqlite3");
    let store = Store::open(&path).unwrap();
    let mut recorder = store.begin(&About::default()).unwrap();
    recorder.append(chunk("m", "secret")).unwrap().wait().unwrap();
    let found = below(folder.path());
    let has = |ending: &str| found.iter().any(|path| path.to_str().unwrap().ends_with(ending));
    // The lock, the journal and SQLite's files exist as well.
    assert!(has("-wal") && has("-shm") && has(".0") && has(recorder.id()), "{found:?}");
    for path in found {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
    assert_eq!(store.exposed(), []);
}

#[test]
fn readable_files_become_private_but_foreign_folders_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("switchboard/store.sqlite3");
    let writers = folder.path().join("switchboard/store.sqlite3-writers");
    let store = Store::open(&path).unwrap();
    // A session whose journal remains.
    std::mem::forget(store.begin(&About::default()).unwrap());
    for (path, mode) in [(&path, 0o644), (&writers, 0o755), (&path.parent().unwrap().to_owned(), 0o755)] {
        set(path, mode);
    }
    let shared = Store::open(&path).unwrap();
    let told: Vec<_> = shared.exposed().iter().map(|found| (found.path.clone(), found.mode)).collect();
    assert_eq!(told, [(path.clone(), 0o644), (writers.clone(), 0o755)]);
    assert!(shared.exposed().iter().all(|found| found.problem.is_none()));
    assert_eq!((mode(&path), mode(&writers), mode(path.parent().unwrap())), (0o600, 0o700, 0o755));
    // Including the reserve file.
    let reserve = path.with_file_name(format!("{}-reserve", path.file_name().unwrap().to_string_lossy()));
    std::fs::set_permissions(&reserve, Permissions::from_mode(0o644)).unwrap();
    let reopened = Store::open(&path).unwrap();
    assert_eq!(reserve.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(reopened.exposed().iter().any(|exposed| exposed.path == reserve));
    drop(reopened);
    let own = Store::open_with(&path, &Settings { owns_folder: true, ..Settings::default() }).unwrap();
    assert_eq!(own.exposed().len(), 1);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
}
