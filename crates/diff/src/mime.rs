//! MIME types by file name.

use crate::model::FileType;

/// Returns the MIME type for a file name and type, if known.
///
/// Uses its own table because published ones are made for web servers: they take `.ts` for video and lack
/// most source files. A type that contradicts the content is not returned. Detection by magic number, as in
/// `infer`, is not an alternative: source files have none, and a patch does not contain the content of a
/// binary file.
pub(crate) fn mime_type(path: &[u8], file_type: &FileType) -> Option<&'static str> {
    let table = match file_type {
        FileType::Text => TEXT,
        FileType::Binary => BINARY,
        FileType::Directory | FileType::Symlink | FileType::Other(_) => return None,
    };
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    let name = str::from_utf8(name).ok()?.to_ascii_lowercase();
    let ending = match name.rsplit_once('.') {
        Some((_, ending)) => ending,
        None => name.as_str(),
    };
    let at = table.binary_search_by_key(&ending, |&(ending, _)| ending).ok()?;
    Some(table[at].1)
}

/// Sorted by extension. A name without a dot counts as its extension.
const TEXT: &[(&str, &str)] = &[
    ("adoc", "text/asciidoc"),
    ("bash", "application/x-sh"),
    ("bat", "text/x-bat"),
    ("c", "text/x-c"),
    ("cc", "text/x-c++"),
    ("cfg", "text/plain"),
    ("cjs", "text/javascript"),
    ("clj", "text/x-clojure"),
    ("cmake", "text/x-cmake"),
    ("conf", "text/plain"),
    ("cpp", "text/x-c++"),
    ("cs", "text/x-csharp"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("cxx", "text/x-c++"),
    ("dart", "text/x-dart"),
    ("diff", "text/x-diff"),
    ("dockerfile", "text/x-dockerfile"),
    ("el", "text/x-emacs-lisp"),
    ("erl", "text/x-erlang"),
    ("ex", "text/x-elixir"),
    ("exs", "text/x-elixir"),
    ("fs", "text/x-fsharp"),
    ("go", "text/x-go"),
    ("gradle", "text/x-gradle"),
    ("graphql", "application/graphql"),
    ("groovy", "text/x-groovy"),
    ("h", "text/x-c"),
    ("hpp", "text/x-c++"),
    ("hs", "text/x-haskell"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ini", "text/plain"),
    ("java", "text/x-java"),
    ("jl", "text/x-julia"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("jsx", "text/jsx"),
    ("kt", "text/x-kotlin"),
    ("kts", "text/x-kotlin"),
    ("less", "text/x-less"),
    ("log", "text/plain"),
    ("lua", "text/x-lua"),
    ("m", "text/x-objective-c"),
    ("makefile", "text/x-makefile"),
    ("markdown", "text/markdown"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("mk", "text/x-makefile"),
    ("ml", "text/x-ocaml"),
    ("nix", "text/x-nix"),
    ("patch", "text/x-diff"),
    ("php", "text/x-php"),
    ("pl", "text/x-perl"),
    ("proto", "text/x-protobuf"),
    ("ps1", "text/x-powershell"),
    ("py", "text/x-python"),
    ("pyi", "text/x-python"),
    ("r", "text/x-r"),
    ("rb", "text/x-ruby"),
    ("rs", "text/x-rust"),
    ("rst", "text/x-rst"),
    ("sass", "text/x-sass"),
    ("scala", "text/x-scala"),
    ("scss", "text/x-scss"),
    ("sh", "application/x-sh"),
    ("sql", "application/sql"),
    ("svelte", "text/x-svelte"),
    ("svg", "image/svg+xml"),
    ("swift", "text/x-swift"),
    ("tex", "text/x-tex"),
    ("tf", "text/x-terraform"),
    ("toml", "application/toml"),
    ("ts", "text/x-typescript"),
    ("tsv", "text/tab-separated-values"),
    ("tsx", "text/tsx"),
    ("txt", "text/plain"),
    ("vue", "text/x-vue"),
    ("xhtml", "application/xhtml+xml"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zig", "text/x-zig"),
    ("zsh", "application/x-sh"),
];

/// Sorted by extension.
const BINARY: &[(&str, &str)] = &[
    ("7z", "application/x-7z-compressed"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("class", "application/java-vm"),
    ("db", "application/vnd.sqlite3"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("flac", "audio/flac"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("heic", "image/heic"),
    ("ico", "image/vnd.microsoft.icon"),
    ("jar", "application/java-archive"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("m4a", "audio/mp4"),
    ("mkv", "video/x-matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("ogg", "audio/ogg"),
    ("otf", "font/otf"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("rar", "application/vnd.rar"),
    ("sqlite", "application/vnd.sqlite3"),
    ("tar", "application/x-tar"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("ttf", "font/ttf"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xz", "application/x-xz"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        assert!(TEXT.is_sorted_by(|first, second| first.0 < second.0));
        assert!(BINARY.is_sorted_by(|first, second| first.0 < second.0));
    }

    #[test]
    fn the_name_and_the_content_must_agree() {
        let text = |path: &str| mime_type(path.as_bytes(), &FileType::Text);
        assert_eq!(text("/w/config.json"), Some("application/json"));
        assert_eq!(text("src/Main.TS"), Some("text/x-typescript"));
        assert_eq!(text("sub/Makefile"), Some("text/x-makefile"));
        assert_eq!(text("logo.png"), None);
        assert_eq!(text("README"), None);
        assert_eq!(mime_type(b"logo.png", &FileType::Binary), Some("image/png"));
    }
}
