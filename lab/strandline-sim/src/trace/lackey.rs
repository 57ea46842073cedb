//! The text that `valgrind --tool=lackey --trace-mem=yes` prints: `I  ADDRESS,SIZE` for an instruction, ` L `, ` S ` and ` M ` for a load, a store
//! and both at once; addresses hexadecimal, sizes decimal (valgrind manual, Lackey).
//!
//! Lines that begin with `**PID**` contain what the program prints with `VALGRIND_PRINTF`:
//!
//! ```text
//! strandline persistent ADDRESS,SIZE   these bytes are in the pool, and only bytes that such lines name
//! strandline start                     the trace begins after this line
//! strandline begin                     a transaction begins
//! strandline commit                    it commits
//! strandline abort                     it ends without effect
//! ```

use super::Record;

/// The largest access in bytes: lackey prints an access of a vector register as one, and no register has more than 512 bytes.
const LARGEST: u64 = 512;

/// Parses the record in a line. Returns `None` for empty lines, valgrind's own messages (`==PID==`, `--PID--`) and other output of the program.
///
/// # Errors
/// Returns what is wrong with the line.
pub fn record(line: &str) -> Result<Option<Record>, String> {
    let text = line.trim();
    if text.is_empty() || text.starts_with("==") || text.starts_with("--") {
        return Ok(None);
    }
    let shown = || text.chars().take(60).collect::<String>();
    if let Some(printed) = text.strip_prefix("**") {
        let printed = printed.split_once("**").map_or("", |(_, rest)| rest.trim());
        let Some(mark) = printed.strip_prefix("strandline ") else { return Ok(None) };
        let wrong = || {
            format!(
                "{:?}: expected strandline start, begin, commit, abort, or persistent ADDRESS,SIZE",
                shown()
            )
        };
        return match mark.trim() {
            "start" => Ok(Some(Record::Start)),
            "begin" => Ok(Some(Record::Begin)),
            "commit" => Ok(Some(Record::Commit)),
            "abort" => Ok(Some(Record::Abort)),
            mark => {
                let range = mark.strip_prefix("persistent ").and_then(|range| range.trim().split_once(','));
                let (address, size) = range.ok_or_else(wrong)?;
                let address =
                    u64::from_str_radix(address.trim_start_matches("0x"), 16).map_err(|_| wrong())?;
                let size = size.parse().map_err(|_| wrong())?;
                address.checked_add(size).map(|_| Some(Record::Persistent(address, size))).ok_or_else(wrong)
            }
        };
    }
    let expected = || {
        let shown = shown();
        format!("{shown:?}: expected I, L, S or M and ADDRESS,SIZE, such as \" L 1ffefff0a8,8\"")
    };
    let (kind, rest) = text.split_once(' ').ok_or_else(expected)?;
    let (address, size) = rest.trim().split_once(',').ok_or_else(expected)?;
    let address = u64::from_str_radix(address, 16).map_err(|_| expected())?;
    let size: u64 = size.parse().map_err(|_| expected())?;
    if !(1..=LARGEST).contains(&size) {
        return Err(format!("an access of {size} bytes: sizes are 1 to {LARGEST}"));
    }
    if address.checked_add(size).is_none() {
        return Err(format!("an access of {size} bytes at {address:x} goes beyond the address space"));
    }
    match kind {
        "I" => Ok(Some(Record::Instruction)),
        "L" => Ok(Some(Record::Load(address, size))),
        "S" => Ok(Some(Record::Store(address, size))),
        "M" => Ok(Some(Record::Modify(address, size))),
        _ => Err(expected()),
    }
}
