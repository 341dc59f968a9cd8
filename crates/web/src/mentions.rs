//! Files of a session's folder that a prompt mentions with `@`.

use std::path::Path;

use ignore::WalkBuilder;
use serde_json::json;
use switchboard_acp::{Wire, WireFormat, v2};
use url::Url;

use super::files;
use super::live::Failure;

/// Maximum number of files that are searched for suggestions. Any path can still be typed.
const MOST_LOOKED_AT: usize = 50_000;
/// Maximum number of suggestions.
const MOST_OFFERED: usize = 30;
/// Maximum size in bytes of an embedded file. Larger files are sent as links.
const LARGEST_EMBEDDED: u64 = 128 * 1024;

/// Returns the paths of files in a folder that match a query, the best match first. Files that Git ignores are left
/// out.
pub(crate) fn find(folder: &Path, query: &str) -> Vec<String> {
    let query = query.to_lowercase();
    let walk = WalkBuilder::new(folder)
        .hidden(false)
        // Respects `.gitignore` also outside of a repository.
        .require_git(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_name(Ord::cmp)
        .build();
    let files =
        walk.flatten().take(MOST_LOOKED_AT).filter(|entry| entry.file_type().is_some_and(|it| it.is_file()));
    let mut fitting: Vec<(u32, String)> = files
        .filter_map(|entry| {
            let path = entry.path().strip_prefix(folder).ok()?.to_str()?;
            Some((rank(path, &query)?, path.to_owned()))
        })
        .collect();
    fitting.sort();
    fitting.truncate(MOST_OFFERED);
    fitting.into_iter().map(|(_, path)| path).collect()
}

/// Returns the rank of a path for a lowercase query, or `None` if it does not match. The lowest rank is the best.
fn rank(path: &str, query: &str) -> Option<u32> {
    let path = path.to_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path);
    if name.starts_with(query) {
        return Some(0);
    }
    if name.contains(query) {
        return Some(1);
    }
    if path.contains(query) {
        return Some(2);
    }
    // Matches if the path has all letters of the query in order.
    let mut letters = path.chars();
    query.chars().all(|wanted| letters.any(|letter| letter == wanted)).then_some(3)
}

/// Returns the content block for a file: its text if the agent accepts embedded text, otherwise a link, which every
/// agent accepts.
pub(crate) fn block(folder: &Path, path: &str, embeds: bool) -> Result<v2::ContentBlock<'static>, Failure> {
    let whole = folder.join(path);
    let (file, real) = files::inside(&whole, folder)?;
    let uri = Url::from_file_path(&real).map_err(|()| format!("{path} has no address"))?;
    let size = file.metadata().map_err(|error| format!("{path}: {error}"))?.len();
    let text = (embeds && size <= LARGEST_EMBEDDED).then(|| std::io::read_to_string(file).ok()).flatten();
    let block = match text {
        Some(text) => {
            json!({"type": "resource", "resource": {"uri": uri.as_str(), "mimeType": "text/plain", "text": text}})
        }
        None => json!({"type": "resource_link", "uri": uri.as_str(), "name": path, "size": size}),
    };
    v2::ContentBlock::decode(&block.to_string(), WireFormat::Any)
        .map(Wire::into_owned)
        .map_err(|reason| format!("{path} cannot be sent: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_files_are_not_suggested_and_names_rank_before_folders() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            (".gitignore", "target/\n*.log\n"),
            ("src/page.rs", ""),
            ("page/other.rs", ""),
            ("target/page.rs", ""),
            ("page.log", ""),
            (".git/page", ""),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        assert_eq!(find(folder.path(), "PAGE"), ["src/page.rs", "page/other.rs"]);
        assert_eq!(find(folder.path(), "sprs"), ["src/page.rs"]);
        assert_eq!(find(folder.path(), "").len(), 3);
        assert_eq!(find(folder.path(), "zzz"), [""; 0]);
    }

    #[test]
    fn only_files_of_the_folder_are_sent_and_their_text_where_the_agent_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a b.txt"), "text").unwrap();
        std::fs::write(folder.path().join("large"), "x".repeat(200_000)).unwrap();
        let sent = |path: &str, embeds| {
            block(folder.path(), path, embeds).map(|block| block.encode(WireFormat::Any))
        };
        assert!(sent("a b.txt", true).unwrap().contains(r#""text":"text""#));
        let link = sent("a b.txt", false).unwrap();
        assert!(link.contains(r#""type":"resource_link""#) && link.contains("/a%20b.txt"), "{link}");
        assert!(sent("large", true).unwrap().contains("resource_link"));
        for wrong in ["../x", "/etc/passwd", "missing", ""] {
            assert!(sent(wrong, true).is_err(), "{wrong}");
        }
    }
}
