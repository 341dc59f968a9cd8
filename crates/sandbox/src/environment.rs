//! Environment variables inside a sandbox: an allow list.

use std::ffi::{OsStr, OsString};

use switchboard_policy::{SandboxMode, SandboxSettings, matches_variable};

use crate::AgentNeeds;

/// Variables that pass, with `*` at the end for any rest.
const PASSED: [&str; 18] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LC_*",
    "TZ",
    "COLORTERM",
    "NO_COLOR",
    "CI",
    "RUSTUP_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];
/// One more certificate variable, of Git.
const GIT_CERTIFICATES: &str = "GIT_SSL_CAINFO";

/// Variable by which programs inside can see the mode.
pub const SANDBOX_VARIABLE: &str = "SWITCHBOARD_SANDBOX";

/// Port of the proxy inside the sandbox.
pub(crate) const PROXY_PORT: u16 = 3128;

/// Variables beside `LD_*` by which the C library of a program loads or writes other files.
const OF_LOADER: [&str; 8] = [
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "HOSTALIASES",
    "LOCPATH",
    "MALLOC_TRACE",
    "NLSPATH",
    "RESOLV_HOST_CONF",
];

/// Returns whether a variable makes any program load or write files. bubblewrap runs outside of the sandbox and must not get
/// it: the files may be ones that the agent has written.
pub(crate) fn is_of_loader(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("LD_") || OF_LOADER.contains(&name))
}

/// Computes the environment from that of this process and the variables that the user has configured for the agent.
/// Configured ones pass by themselves; `None` removes a variable.
pub(crate) fn compute(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
    configured: &[(OsString, Option<OsString>)],
    settings: &SandboxSettings,
    needs: &AgentNeeds,
    mode: SandboxMode,
    has_proxy: bool,
) -> Vec<(OsString, OsString)> {
    let passes = |name: &OsStr| {
        name.to_str().is_some_and(|name| {
            PASSED.iter().chain([&GIT_CERTIFICATES]).any(|pattern| matches_variable(pattern, name))
                || needs.env.iter().any(|pattern| matches_variable(pattern, name))
                || settings.passes_variable(name)
        })
    };
    let mut environment: Vec<(OsString, OsString)> =
        inherited.into_iter().filter(|(name, _)| passes(name)).collect();
    let mut set = |name: &OsStr, value: Option<OsString>| {
        environment.retain(|(known, _)| known != name);
        if let Some(value) = value {
            environment.push((name.to_owned(), value));
        }
    };
    for (name, value) in configured {
        set(name, value.clone());
    }
    for (name, value) in &needs.set {
        set(OsStr::new(name), Some(value.into()));
    }
    if has_proxy {
        let http = format!("http://127.0.0.1:{PROXY_PORT}");
        let any = format!("socks5h://127.0.0.1:{PROXY_PORT}");
        for (name, value) in [("http_proxy", &http), ("https_proxy", &http), ("all_proxy", &any)] {
            set(OsStr::new(name), Some(value.into()));
            set(OsStr::new(&name.to_ascii_uppercase()), Some(value.into()));
        }
        for name in ["no_proxy", "NO_PROXY"] {
            set(OsStr::new(name), Some("localhost,127.0.0.1,::1".into()));
        }
        // Otherwise the `fetch` of Node ignores the variables above.
        set(OsStr::new("NODE_USE_ENV_PROXY"), Some("1".into()));
    }
    set(OsStr::new(SANDBOX_VARIABLE), Some(mode.as_str().into()));
    // Private, wherever the machine has its own.
    set(OsStr::new("TMPDIR"), Some("/tmp".into()));
    environment.sort();
    environment
}

#[cfg(test)]
mod tests {
    use switchboard_policy::{NoFiles, Policy};

    use super::*;

    #[test]
    fn only_listed_variables_pass() {
        let policy =
            Policy::parse("[sandbox]\nenv = [\"DATABASE_URL\", \"MY_*\"]\n", &NoFiles::default()).unwrap();
        let needs = AgentNeeds {
            env: vec!["ANTHROPIC_*".to_owned()],
            set: vec![("GOOSE_DISABLE_KEYRING".to_owned(), "1".to_owned())],
            ..AgentNeeds::default()
        };
        let inherited = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("SSH_AUTH_SOCK", "/s"),
            ("AWS_SECRET_ACCESS_KEY", "k"),
            ("ANTHROPIC_API_KEY", "a"),
            ("DATABASE_URL", "d"),
            ("MY_ONE", "1"),
            ("DBUS_SESSION_BUS_ADDRESS", "x"),
            ("TMPDIR", "/elsewhere"),
            ("HTTP_PROXY", "http://proxy"),
            ("LD_PRELOAD", "x"),
        ];
        let inherited = inherited.map(|(name, value)| (name.into(), value.into()));
        let configured = [("TOKEN".into(), Some("t".into())), ("MY_ONE".into(), None)];
        let names = |has_proxy| -> Vec<String> {
            let (settings, mode) = (policy.sandbox(), SandboxMode::Workspace);
            let environment = compute(inherited.clone(), &configured, settings, &needs, mode, has_proxy);
            environment.into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
        };
        let without = [
            "ANTHROPIC_API_KEY",
            "DATABASE_URL",
            "GOOSE_DISABLE_KEYRING",
            "LC_ALL",
            "PATH",
            "SWITCHBOARD_SANDBOX",
            "TMPDIR",
            "TOKEN",
        ];
        assert_eq!(names(false), without);
        let with = names(true);
        assert!(
            ["HTTP_PROXY", "https_proxy", "NODE_USE_ENV_PROXY"]
                .iter()
                .all(|name| with.contains(&(*name).to_owned()))
        );
    }
}
