//! Knowledge about programs by name.

mod files;
mod options;

pub(crate) use files::{Origin, arguments, reads_input};
pub(crate) use options::{HARMLESS_GIT, has_escaping_option, has_options};

/// Kind of a program, as far as rules need it.
///
/// ```
/// use switchboard_policy::Program;
///
/// assert_eq!(Program::named("bash"), Some(Program::Shell));
/// assert_eq!(Program::named("frobnicate"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Program {
    /// Runs the script that it is given.
    Shell,
    /// Runs another command, whose words follow after options, assignments and, for some, an operand.
    Wrapper,
    /// Runs programs given in its arguments, or reaches beyond the project: no prefix of its command is
    /// harmless.
    Powerful,
    /// Runs a named task of the project.
    Runner,
    /// Only prints information.
    Teller,
}

const SHELLS: &[&str] = &["ash", "bash", "dash", "ksh", "sh", "zsh"];

const WRAPPERS: &[&str] = &[
    "builtin",
    "busybox",
    "chroot",
    "chrt",
    "command",
    "doas",
    "env",
    "exec",
    "fakeroot",
    "flock",
    "ionice",
    "nice",
    "nohup",
    "nsenter",
    "parallel",
    "pkexec",
    "runuser",
    "setpriv",
    "setsid",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "taskset",
    "time",
    "timeout",
    "toybox",
    "unshare",
    "watch",
    "xargs",
];

const POWERFUL: &[&str] = &[
    "ansible",
    "apt",
    "apt-get",
    "at",
    "awk",
    "aws",
    "az",
    "batch",
    "brew",
    "bunx",
    "chgrp",
    "chmod",
    "chown",
    "cmd",
    "cp",
    "crontab",
    "curl",
    "dd",
    "dnf",
    "docker",
    "emacs",
    "eval",
    "ex",
    "find",
    "fish",
    "gawk",
    "gcloud",
    "gdb",
    "gem",
    "gh",
    "helm",
    "install",
    "kill",
    "killall",
    "kubectl",
    "ln",
    "lua",
    "mawk",
    "mkfs",
    "mv",
    "nano",
    "nc",
    "ncat",
    "node",
    "npx",
    "osascript",
    "pacman",
    "perl",
    "php",
    "pip",
    "pip3",
    "pkill",
    "podman",
    "powershell",
    "psql",
    "pwsh",
    "python",
    "python2",
    "python3",
    "reboot",
    "rm",
    "rmdir",
    "rsync",
    "ruby",
    "scp",
    "script",
    "sed",
    "sftp",
    "shred",
    "shutdown",
    "socat",
    "source",
    "sqlite3",
    "ssh",
    "systemctl",
    "tar",
    "tclsh",
    "tee",
    "telnet",
    "terraform",
    "trap",
    "truncate",
    "unlink",
    "unzip",
    "uvx",
    "vi",
    "view",
    "vim",
    "wget",
    "yum",
    "zip",
];

const RUNNERS: &[&str] = &["bun", "deno", "go", "make", "npm", "pnpm", "uv", "yarn"];

const TELLERS: &[&str] = &[
    "basename", "cat", "cksum", "cmp", "cut", "date", "df", "diff", "dirname", "du", "echo", "file", "grep",
    "head", "ls", "pwd", "realpath", "stat", "tail", "wc",
];

impl Program {
    /// Returns the kind of a program by its name without folder.
    pub fn named(name: &str) -> Option<Program> {
        let kinds = [
            (Program::Shell, SHELLS),
            (Program::Wrapper, WRAPPERS),
            (Program::Powerful, POWERFUL),
            (Program::Runner, RUNNERS),
            (Program::Teller, TELLERS),
        ];
        kinds.into_iter().find(|(_, names)| names.binary_search(&name).is_ok()).map(|(kind, _)| kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_stand_once() {
        for names in [SHELLS, WRAPPERS, POWERFUL, RUNNERS, TELLERS] {
            assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
        }
        let all: Vec<&str> = [SHELLS, WRAPPERS, POWERFUL, RUNNERS, TELLERS].concat();
        let once: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!(once.len(), all.len());
    }
}
