//! Local registry for tests of the packages. Serves one folder as npm, as PyPI and as the releases that `install.sh` downloads.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use super::file_names;
use super::files::{read, sha256};

/// Serves the packages in a folder until the process ends. Prints the address as the first line.
pub(super) fn serve(folder: &Path) -> Result<(), String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| format!("cannot listen: {error}"))?;
    let address = listener.local_addr().map_err(|error| format!("cannot listen: {error}"))?;
    println!("http://{address}");
    let folder: Arc<Path> = folder.into();
    for connection in listener.incoming().flatten() {
        let folder = Arc::clone(&folder);
        std::thread::spawn(move || {
            let _ = answer(connection, &folder, &format!("http://{address}"));
        });
    }
    Ok(())
}

/// Reads one request, answers it and closes the connection.
fn answer(connection: TcpStream, folder: &Path, address: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?.take(64 * 1024));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
    }
    let path = line.split(' ').nth(1).unwrap_or_default().replace("%2f", "/").replace("%2F", "/");
    let is_head = line.starts_with("HEAD ");
    let found = content(&path, folder, address).unwrap_or_else(|problem| {
        eprintln!("{path}: {problem}");
        None
    });
    let mut connection = connection;
    let (status, kind, body) = match found {
        Some((kind, body)) => ("200 OK", kind, body),
        None => ("404 Not Found", "text/plain", b"not found".to_vec()),
    };
    write!(
        connection,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )?;
    if !is_head {
        connection.write_all(&body)?;
    }
    connection.flush()
}

/// Returns the content at a path, and its type.
fn content(path: &str, folder: &Path, address: &str) -> Result<Option<(&'static str, Vec<u8>)>, String> {
    let names = file_names(folder)?;
    // Only names that are in the folder, so that no path leads out of it.
    let file = path.rsplit('/').next().unwrap_or_default();
    if path.starts_with("/files/") || path.starts_with("/releases/") {
        return match names.iter().find(|name| *name == file) {
            Some(name) => Ok(Some(("application/octet-stream", read(&folder.join(name))?))),
            None => Ok(None),
        };
    }
    if let Some(project) = path.strip_prefix("/simple/") {
        let begin = format!("{}-", project.trim_end_matches('/').replace('-', "_"));
        let mut page = "<!DOCTYPE html>\n".to_owned();
        for name in names.iter().filter(|name| name.ends_with(".whl") && name.starts_with(&begin)) {
            let hash = sha256(&read(&folder.join(name))?);
            page += &format!("<a href=\"{address}/files/{name}#sha256={hash}\">{name}</a>\n");
        }
        return Ok(Some(("text/html", page.into_bytes())));
    }
    let package = path.trim_start_matches('/');
    let mut versions = serde_json::Map::new();
    let mut latest = String::new();
    for name in names.iter().filter(|name| name.ends_with(".tgz")) {
        let bytes = read(&folder.join(name))?;
        let mut description = description(&bytes)?;
        if description["name"] != package {
            continue;
        }
        let integrity = format!("sha512-{}", BASE64_STANDARD.encode(Sha512::digest(&bytes)));
        description["dist"] = json!({"tarball": format!("{address}/files/{name}"), "integrity": integrity});
        latest = description["version"].as_str().unwrap_or_default().to_owned();
        versions.insert(latest.clone(), description);
    }
    if versions.is_empty() {
        return Ok(None);
    }
    let found = json!({"name": package, "dist-tags": {"latest": latest}, "versions": versions});
    Ok(Some(("application/json", found.to_string().into_bytes())))
}

/// Returns the `package.json` of an npm package.
fn description(package: &[u8]) -> Result<Value, String> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(package));
    for entry in archive.entries().map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        if entry.path().is_ok_and(|path| path == Path::new("package/package.json")) {
            let mut text = Vec::new();
            entry.take(1_000_000).read_to_end(&mut text).map_err(|error| error.to_string())?;
            return serde_json::from_slice(&text).map_err(|error| error.to_string());
        }
    }
    Err("there is no package.json in it".to_owned())
}
