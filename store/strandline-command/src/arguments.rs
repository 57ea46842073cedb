//! Arguments that several subcommands take: domains, instructions, sizes, times.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::ValueEnum;
use strandline_core::Domain;
use strandline_core::memory::WriteBackInstruction;

/// A persistence domain by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DomainName {
    /// Writes lines back and fences: NVDIMM, DAX.
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
    /// Returns the domain. Only `emulated` uses `write_latency_ns`.
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

/// A concurrency control by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ControlName {
    /// Transactions run concurrently, and are repeated after conflicts.
    Stm,
    /// One transaction writes at a time.
    SingleWriter,
}

impl ControlName {
    /// Returns its name on the command line.
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

/// Returns a parser of whole numbers in `range`; its error message names the range.
pub fn number<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}

/// Returns a parser of sizes in bytes. A size may have the suffix K, M, G or T (powers of 1024). It must be in `range` and a multiple of `unit`.
pub fn size(
    range: RangeInclusive<u64>,
    unit: u64,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let found = bytes(text).filter(|size| range.contains(size) && size.is_multiple_of(unit));
        found.ok_or_else(|| {
            let multiple =
                if unit == 1 { String::new() } else { format!(", a multiple of {}", in_units(unit)) };
            let (least, most) = (in_units(*range.start()), in_units(*range.end()));
            format!(
                "expected bytes from {least} to {most}{multiple} (suffixes K, M, G and T are powers of 1024)"
            )
        })
    }
}

/// Parses a number of bytes. The text may end in K, M, G or T, each with or without a B.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.trim_end_matches(['B', 'b']).char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        Some((at, 't' | 'T')) => (&text[..at], 1 << 40),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Formats `bytes` in the largest unit that divides it, such as `64K`.
pub fn in_units(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let unit = units.into_iter().find(|&(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| bytes.to_string(), |(shift, name)| format!("{}{name}", bytes >> shift))
}

/// Sizes of a thread's log, in bytes, that a pool's layout allows and benchmarks can use.
pub const LOG_SIZES: RangeInclusive<u64> = 4096..=1 << 30;

/// Sizes of a value in the laboratory's workloads, in bytes. Some workloads store a million values.
pub const VALUE_SIZES: RangeInclusive<u64> = 1..=4096;

/// The unit of [`LOG_SIZES`] and of pools' sizes, in bytes.
pub const PAGE: u64 = 4096;

/// Parses the size of a log, in [`LOG_SIZES`].
pub fn log_size(text: &str) -> Result<u64, String> {
    size(LOG_SIZES, PAGE)(text)
}

/// Parses a length of time in seconds, such as 0.5.
///
/// # Errors
/// Returns a message that names the allowed range.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=86400.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds from 0.01 to 86400".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_a_range() {
        let any = size(0..=u64::MAX, 1);
        assert_eq!(any("4096"), Ok(4096));
        assert_eq!(any("64K"), Ok(65536));
        assert_eq!(any("2g"), Ok(2 << 30));
        assert_eq!(any("1MB"), Ok(1 << 20));
        assert_eq!(any("1T"), Ok(1 << 40));
        for wrong in ["", "K", "-1", "1P", "1.5K", "99999999T", "1 K"] {
            assert!(any(wrong).is_err(), "{wrong:?}");
        }
        let log = size(4096..=1 << 30, 4096);
        assert_eq!((log("4K"), log("1G")), (Ok(4096), Ok(1 << 30)));
        for wrong in ["0", "4095", "4097", "1025M", "x"] {
            let told = log(wrong).unwrap_err();
            assert!(told.contains("from 4K to 1G, a multiple of 4K"), "{wrong:?}: {told}");
        }
    }

    #[test]
    fn numbers_have_a_range() {
        let threads = number(1..=64u64);
        assert_eq!((threads("1"), threads("64")), (Ok(1), Ok(64)));
        for wrong in ["0", "65", "-1", "1.0", "", "99999999999999999999999"] {
            assert_eq!(threads(wrong), Err("expected a whole number from 1 to 64".into()), "{wrong:?}");
        }
        assert_eq!(number(1..=4u8)("4"), Ok(4));
        assert!(number(1..=4u8)("300").is_err());
    }

    #[test]
    fn times_have_a_range() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for wrong in ["0", "NaN", "x", "inf", "-1", "86401"] {
            assert!(seconds(wrong).unwrap_err().contains("0.01 to 86400"), "{wrong:?}");
        }
    }
}
