//! What a JVM is made to export: on which port, and with which configuration.
//!
//! Pure. Must not read a configuration.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::rollout;

/// A port, and the SHA-256 of a configuration as hexadecimal digits; empty: none that a client wrote.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Export {
    pub port: u16,
    pub sha256: String,
}

impl rollout::Revision for Export {}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.sha256.get(..12).unwrap_or(&self.sha256);
        write!(f, "the exporter on port {} with configuration {short}", self.port)
    }
}
