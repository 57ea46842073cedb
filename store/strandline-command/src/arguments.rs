//! What several subcommands take: domains, instructions, sizes, times.

use clap::ValueEnum;
use strandline_core::Domain;
use strandline_core::memory::WriteBackInstruction;

/// A persistence domain by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DomainName {
    /// Lines are written back and fenced: NVDIMM, DAX.
    Flush,
    /// Caches survive: fences only. eADR, CXL with global persistent flush.
    FlushOnFail,
    /// An ordinary file: a commit waits for the disk.
    Sync,
    /// Survives a killed process, not a power failure.
    Process,
    /// Flush plus a latency for each line written back.
    Emulated,
}

impl DomainName {
    /// The domain; `write_latency_ns` is for `emulated` alone.
    pub fn domain(self, write_latency_ns: u64) -> Domain {
        match self {
            Self::Flush => Domain::Flush,
            Self::FlushOnFail => Domain::FlushOnFail,
            Self::Sync => Domain::Sync,
            Self::Process => Domain::Process,
            Self::Emulated => Domain::Emulated { write_latency_ns },
        }
    }
}

/// A control by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ControlName {
    /// Transactions run concurrently, and again after a conflict.
    Stm,
    /// One transaction writes at a time.
    SingleWriter,
}

impl ControlName {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stm => "stm",
            Self::SingleWriter => "single-writer",
        }
    }
}

/// A write-back instruction by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InstructionName {
    /// Keeps the line cached.
    Clwb,
    /// Evicts the line, unordered.
    Clflushopt,
    /// Evicts the line, one after another.
    Clflush,
}

impl From<InstructionName> for WriteBackInstruction {
    fn from(name: InstructionName) -> Self {
        match name {
            InstructionName::Clwb => Self::Clwb,
            InstructionName::Clflushopt => Self::Clflushopt,
            InstructionName::Clflush => Self::Clflush,
        }
    }
}

/// A number of bytes, with a suffix K, M or G (powers of 1024) or without.
///
/// # Errors
/// What is allowed.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.trim_end_matches(['B', 'b']).char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        Some((at, 't' | 'T')) => (&text[..at], 1 << 40),
        _ => (text, 1),
    };
    let number: Option<u64> = digits.parse().ok();
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| "expected a number of bytes such as 4096, 64K, 256M or 2G".into())
}

/// A length of time in seconds, such as 0.5.
///
/// # Errors
/// What is allowed.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds from 0.01 to 3600".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64K"), Ok(65536));
        assert_eq!(bytes("2g"), Ok(2 << 30));
        assert_eq!(bytes("1MB"), Ok(1 << 20));
        assert!(bytes("").is_err() && bytes("K").is_err() && bytes("-1").is_err() && bytes("1P").is_err());
        assert_eq!(bytes("1T"), Ok(1 << 40));
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert!(seconds("0").is_err() && seconds("NaN").is_err() && seconds("x").is_err());
    }
}
