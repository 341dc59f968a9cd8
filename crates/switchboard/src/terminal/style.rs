//! Terminal colors.

use std::fmt::Display;
use std::io::IsTerminal;

/// Color settings of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    coloured: bool,
}

/// Role of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Strong,
    Faint,
    Good,
    Bad,
    Doubtful,
    Added,
    Removed,
    Place,
}

impl Style {
    pub(crate) const PLAIN: Style = Style { coloured: false };

    /// Returns colors for standard output if it is a terminal, unless the user disabled them.
    pub(crate) fn of_output() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Style { coloured: std::io::stdout().is_terminal() && !unwanted && !dumb }
    }

    pub(crate) fn is_coloured(self) -> bool {
        self.coloured
    }

    /// Returns the text in the color of its role.
    pub(crate) fn paint(self, role: Role, text: impl Display) -> String {
        if !self.coloured {
            return text.to_string();
        }
        let code = match role {
            Role::Strong => "1",
            Role::Faint => "2",
            Role::Good | Role::Added => "32",
            Role::Bad | Role::Removed => "31",
            Role::Doubtful => "33",
            Role::Place => "36",
        };
        format!("\u{1B}[{code}m{text}\u{1B}[0m")
    }
}
