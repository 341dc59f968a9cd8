//! Arguments that several commands share.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use switchboard_acp::WireFormat;

use crate::outcome::CommandError;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// Version 1.
    V1,
    /// Version 2, the draft.
    V2,
}

/// A revision of version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Dialect {
    /// The published proposals: `patch.diff`, `_meta` replaced.
    Spec,
    /// The newest draft: `patch.text`, `_meta` merged.
    Newest,
    /// Either dialect.
    Any,
}

impl Dialect {
    pub(crate) fn revision(self) -> WireFormat {
        match self {
            Dialect::Spec => WireFormat::Spec,
            Dialect::Newest => WireFormat::Newest,
            Dialect::Any => WireFormat::Any,
        }
    }
}

/// The version and, for version 2, the dialect of the input.
#[derive(Debug, clap::Args)]
pub(crate) struct RevisionArguments {
    /// Protocol version
    #[arg(long, value_enum, default_value = "v2")]
    pub(crate) protocol: Protocol,

    /// Dialect of version 2
    #[arg(long, value_enum, default_value = "any")]
    pub(crate) dialect: Dialect,
}

impl RevisionArguments {
    pub(crate) fn revision(&self) -> WireFormat {
        match self.protocol {
            Protocol::V1 => WireFormat::V1,
            Protocol::V2 => self.dialect.revision(),
        }
    }
}

/// The input of a filter.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArgument {
    /// JSON lines to read; standard input if missing or `-`
    pub(crate) file: Option<PathBuf>,
}

impl InputArgument {
    pub(crate) fn open(&self) -> Result<Box<dyn BufRead>, CommandError> {
        match &self.file {
            Some(path) if path.as_os_str() != "-" => {
                let file = File::open(path).map_err(|error| {
                    CommandError::usage(format!("cannot open {}: {error}", path.display()))
                })?;
                Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
            }
            _ => Ok(Box::new(BufReader::with_capacity(1 << 16, std::io::stdin()))),
        }
    }

    /// Returns the name of the input for messages.
    pub(crate) fn name(&self) -> String {
        match &self.file {
            Some(path) if path.as_os_str() != "-" => path.display().to_string(),
            _ => "standard input".to_owned(),
        }
    }
}
