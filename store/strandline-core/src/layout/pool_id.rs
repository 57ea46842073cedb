//! The number that identifies a pool and its files.

use std::fmt;

use crate::error::{Error, Result};
use crate::memory::system;

/// A pool's own number: a random UUID (version 4), drawn when the pool is created.
///
/// ```
/// use strandline_core::layout::PoolId;
///
/// let id = PoolId::from_bytes(*b"0123456789abcdef");
/// assert_eq!(id.to_string(), "30313233-3435-3637-3839-616263646566");
/// assert_ne!(PoolId::random()?, PoolId::random()?);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolId([u8; 16]);

impl PoolId {
    /// Draws a number that no other pool has.
    ///
    /// # Errors
    /// Returns an error if the system has no random numbers.
    pub fn random() -> Result<Self> {
        let mut bytes: [u8; 16] = system::random().map_err(|e| Error::io("draw a random number", e))?;
        // Sets the version (4) and the variant of RFC 9562, so that the number is a valid UUID.
        bytes[6] = 0x40 | bytes[6] & 0x0f;
        bytes[8] = 0x80 | bytes[8] & 0x3f;
        Ok(Self(bytes))
    }

    /// Returns the number with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes in the order in which they are stored.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for PoolId {
    /// Formats the number in hexadecimal, in the five groups of a UUID.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_number_is_a_uuid_of_version_4() {
        for _ in 0..100 {
            let text = PoolId::random().unwrap().to_string();
            let characters: Vec<char> = text.chars().collect();
            assert_eq!(characters.len(), 36);
            assert_eq!(characters[14], '4', "{text}");
            assert!("89ab".contains(characters[19]), "{text}");
        }
    }
}
