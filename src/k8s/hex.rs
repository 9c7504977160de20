//! Bytes as hexadecimal digits, as hashes stand in annotations and statuses.
//!
//! Must not hash anything.

use std::fmt::Write as _;

/// Two digits for each byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
