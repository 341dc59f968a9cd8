//! Platforms of the packages, listed in `packaging/platforms.toml`.

use toml::de::DeTable;

use crate::root;

/// A platform. The file explains the fields.
#[derive(Debug, Clone)]
pub(super) struct Platform {
    pub(super) target: String,
    pub(super) npm: String,
    pub(super) os: String,
    pub(super) cpu: String,
    pub(super) libc: Option<String>,
    pub(super) wheel: String,
    pub(super) glibc: Option<String>,
    pub(super) deb: Option<String>,
    pub(super) runner: String,
    pub(super) tested: bool,
}

/// Reads the table.
pub(super) fn all() -> Result<Vec<Platform>, String> {
    let path = root().join("packaging/platforms.toml");
    let fault = |problem: &dyn std::fmt::Display| format!("{}: {problem}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|error| fault(&error))?;
    let table = DeTable::parse(&text).map_err(|error| fault(&error))?;
    let entries = table.get_ref().get("platform").and_then(|list| list.get_ref().as_array());
    let entries = entries.ok_or_else(|| fault(&"there is no [[platform]]"))?;
    let platforms = entries.iter().map(|entry| {
        let entry = entry.get_ref().as_table()?;
        let optional = |key: &str| entry.get(key)?.get_ref().as_str().map(str::to_owned);
        Some(Platform {
            target: optional("target")?,
            npm: optional("npm")?,
            os: optional("os")?,
            cpu: optional("cpu")?,
            libc: optional("libc"),
            wheel: optional("wheel")?,
            glibc: optional("glibc"),
            deb: optional("deb"),
            runner: optional("runner")?,
            tested: entry.get("tested")?.get_ref().as_bool()?,
        })
    });
    platforms.collect::<Option<_>>().ok_or_else(|| fault(&"a platform lacks a field"))
}

/// Returns the platform of a target triple.
pub(super) fn find(target: &str) -> Result<Platform, String> {
    let platforms = all()?;
    let names: Vec<String> = platforms.iter().map(|platform| platform.target.clone()).collect();
    platforms
        .into_iter()
        .find(|platform| platform.target == target)
        .ok_or_else(|| format!("packaging/platforms.toml has no target {target}, only {}", names.join(", ")))
}

/// Prints the table as the matrix of the release workflow.
pub(super) fn print_matrix() -> Result<(), String> {
    let rows: Vec<_> = all()?
        .iter()
        .map(|row| serde_json::json!({"target": row.target, "runner": row.runner, "tested": row.tested}))
        .collect();
    println!("{}", serde_json::json!({"include": rows}));
    Ok(())
}
