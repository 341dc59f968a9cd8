//! What is known of programs by their names.

mod files;
mod options;

pub(crate) use files::{Origin, arguments, reads_input};
pub(crate) use options::{HARMLESS_GIT, has_options, reaches_further};

/// What a program does with what it is given, as far as that matters to who makes or reads rules.
///
/// ```
/// use switchboard_policy::Program;
///
/// assert_eq!(Program::named("bash"), Some(Program::Shell));
/// assert_eq!(Program::named("frobnicate"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Program {
    /// It runs the script that it is given.
    Shell,
    /// It runs another command, whose words follow behind options, assignments and, for some, an operand.
    Wrapper,
    /// Its arguments are the program, or it reaches beyond the project: for it no beginning of a command is harmless.
    Powerful,
    /// It is told by name what to do, and does it in the project.
    Runner,
    /// It only tells something, whatever it is asked.
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
    /// What is known of the program of this name; names are without folders.
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
