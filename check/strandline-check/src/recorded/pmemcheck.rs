//! Reads the log of pmemcheck, PMDK's tool for valgrind, as a recording. `--log-stores=yes` writes it.
//!
//! It consists of entries from `START` to `STOP`, separated by `|`. Numbers are hexadecimal and begin with `0x`:
//!
//! ```text
//! REGISTER_FILE;PATH;ADDRESS;BYTES;OFFSET
//! STORE;ADDRESS;VALUE;BYTES                 with --log-stores-stacktraces=yes, also ;CODE: FUNCTION (FILE:LINE) for each call
//! FLUSH;ADDRESS;BYTES
//! FENCE
//! NAME.BEGIN and NAME.END                   markers, which may nest
//! ```

use std::path::Path;

use super::places::Places;
use super::recording::{Recorded, Recording, What};
use crate::x86::{Site, Source};

/// The number of bytes of a value that the log has, at most. The rest of a longer store is recorded as zeros.
const VALUE: usize = 8;
/// The length of a store in bytes, at most.
const STORE: u64 = 4096;

/// Returns whether a recording begins like such a log.
pub(super) fn is_log(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty() && !is_of_valgrind(line)).unwrap_or("");
    first.starts_with("START") || first.contains("|STORE;") || first.contains("REGISTER_FILE;")
}

/// Returns whether valgrind itself has written a line.
fn is_of_valgrind(line: &str) -> bool {
    line.starts_with("==") || line.starts_with("--") || line.starts_with("**")
}

/// Part of a file that is mapped.
struct Mapping<'t> {
    path: &'t str,
    base: u64,
    bytes: u64,
    offset: u64,
}

/// Reads the log `name`: the operations on the file `pool`, or on the only file that the log registers.
///
/// # Errors
/// Returns the malformed entry and what is wrong with it, or that it is unclear which file is meant.
pub(super) fn parse(
    text: &str,
    name: &str,
    pool: Option<&Path>,
    places: &mut Places,
) -> Result<Recording, String> {
    let lines = text.lines().filter(|line| !is_of_valgrind(line));
    let entries: Vec<&str> = lines.flat_map(|line| line.split('|')).map(str::trim).collect();
    let malformed = |number: u32, entry: &str| format!("entry {number} of {name} is malformed: {entry:.80}");
    let mut paths = Vec::new();
    for (number, entry) in (1..).zip(&entries) {
        if let Some(rest) = entry.strip_prefix("REGISTER_FILE;") {
            let mapping = mapping(rest).ok_or_else(|| malformed(number, entry))?;
            if !paths.contains(&mapping.path) {
                paths.push(mapping.path);
            }
        }
    }
    let path = chosen(&paths, pool).map_err(|why| format!("{name}: {why}"))?;
    let mut log = Log { name: places.keep(name), ..Log::default() };
    for (number, entry) in (1..).zip(entries) {
        log.entry(number, entry, path, places).ok_or_else(|| malformed(number, entry))?;
    }
    log.recording.threads = 1;
    Ok(log.recording)
}

/// Returns the path of the file to check.
fn chosen<'t>(paths: &[&'t str], pool: Option<&Path>) -> Result<&'t str, String> {
    let is_named = |path: &&&str| pool.is_some_and(|pool| Path::new(path).file_name() == pool.file_name());
    match paths {
        [] => {
            Err("the log registers no file (REGISTER_FILE), so where the pool is mapped is not known"
                .to_owned())
        }
        [path] => Ok(path),
        _ => paths.iter().find(is_named).copied().ok_or_else(|| {
            format!(
                "the log has several files ({}): give the one that is checked, as it was before, by --pool",
                paths.join(", ")
            )
        }),
    }
}

#[derive(Default)]
struct Log<'t> {
    name: &'static str,
    recording: Recording,
    mappings: Vec<Mapping<'t>>,
    /// Markers that have begun and not ended.
    steps: Vec<&'t str>,
}

impl<'t> Log<'t> {
    /// Adds an entry. Entries of other kinds belong to pmreorder and are ignored.
    fn entry(&mut self, number: u32, entry: &'t str, pool: &str, places: &mut Places) -> Option<()> {
        let (kind, rest) = entry.split_once(';').unwrap_or((entry, ""));
        let here = Source::of_line(self.name, number);
        let (what, at) = match kind {
            "REGISTER_FILE" => {
                self.register(mapping(rest)?, pool);
                return Some(());
            }
            "STORE" => {
                let mut fields = rest.split(';');
                let (address, value, bytes) = (
                    hexadecimal(fields.next()?)?,
                    hexadecimal(fields.next()?)?,
                    hexadecimal(fields.next()?)?,
                );
                let calls = fields.filter_map(source_of_call);
                let source = calls.map(|(file, line)| Source::of_line(places.keep(file), line)).next();
                let mut stored = value.to_le_bytes().to_vec();
                stored.resize(usize::try_from(bytes).ok().filter(|_| bytes <= STORE)?.max(VALUE), 0);
                stored.truncate(bytes as usize);
                let Some(at) = self.offset(address) else { return Some(()) };
                (What::Store { at, bytes: stored }, source.unwrap_or(here))
            }
            "FLUSH" => {
                let (address, bytes) = rest.split_once(';')?;
                let (address, bytes) = (hexadecimal(address)?, hexadecimal(bytes)?);
                let Some(at) = self.offset(address) else { return Some(()) };
                // An instruction flushes the line that contains its address.
                (What::Flush { at, bytes: if bytes == 64 { 1 } else { bytes } }, here)
            }
            "FENCE" => (What::Fence, here),
            _ => {
                if let Some(step) = kind.strip_suffix(".BEGIN") {
                    self.steps.push(step);
                } else if kind.ends_with(".END") {
                    self.steps.pop();
                }
                return Some(());
            }
        };
        let step = places.keep(self.steps.last().copied().unwrap_or(""));
        self.recording.operations.push(Recorded { thread: 0, site: Some(Site { at, step }), what });
        Some(())
    }

    fn register(&mut self, new: Mapping<'t>, pool: &str) {
        // The new mapping replaces those that it overlaps.
        self.mappings.retain(|old| old.base + old.bytes <= new.base || new.base + new.bytes <= old.base);
        if new.path == pool {
            self.recording.was_mapped = true;
            self.recording.mapped = self.recording.mapped.max(new.offset + new.bytes);
            self.mappings.push(new);
        }
    }

    /// Returns the offset of an address in the pool.
    fn offset(&self, address: u64) -> Option<u64> {
        let mapping = self.mappings.iter().find(|one| (one.base..one.base + one.bytes).contains(&address))?;
        Some(mapping.offset + (address - mapping.base))
    }
}

/// Reads `PATH;ADDRESS;BYTES;OFFSET`.
fn mapping(text: &str) -> Option<Mapping<'_>> {
    let mut fields = text.rsplitn(4, ';');
    let (offset, bytes, base) =
        (hexadecimal(fields.next()?)?, hexadecimal(fields.next()?)?, hexadecimal(fields.next()?)?);
    offset.checked_add(bytes)?;
    base.checked_add(bytes)?;
    Some(Mapping { path: fields.next()?, base, bytes, offset })
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Returns the file and line of `CODE: FUNCTION (FILE:LINE)`, except for functions with which valgrind replaces the C library's.
fn source_of_call(call: &str) -> Option<(&str, u32)> {
    let (_, place) = call.strip_suffix(')')?.rsplit_once('(')?;
    let (file, line) = place.rsplit_once(':')?;
    let line = line.parse().ok()?;
    (!file.starts_with("vg_replace_")).then_some((file, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, pool: Option<&str>) -> Result<Recording, String> {
        parse(text, "a.log", pool.map(Path::new), &mut Places::default())
    }

    #[test]
    fn entries_as_documented() {
        let log = "==7== pmemcheck\nSTART|REGISTER_FILE;/tmp/p;q;0x1000;0x2000;0x40|append.BEGIN|\
            STORE;0x1008;0x201;0x2;0x4005: memcpy (vg_replace_strmem.c:1);0x4009: append (list.c:12)|append.END|\
            FLUSH;0x1008;0x40|FENCE|STORE;0x9000;0x1;0x8|FLUSH;0x9000;0x40|FREORDER\n==7== more\n|STORE;0x1010;0x7;0x20|STOP\n";
        assert!(is_log(log) && !is_log("map 0 4096\n"));
        let recording = read(log, None).unwrap();
        let shown = |one: &Recorded| {
            let what = match &one.what {
                What::Store { at, bytes } => format!("store {at} {bytes:?}"),
                What::Flush { at, bytes } => format!("flush {at} {bytes}"),
                What::Fence => "fence".to_owned(),
                _ => unreachable!(),
            };
            format!("{what} ({})", one.site.unwrap())
        };
        let operations: Vec<_> = recording.operations.iter().map(shown).collect();
        let zeros = ", 0".repeat(31);
        assert_eq!(
            operations,
            [
                "store 72 [1, 2] (list.c:12, \"append\")".to_owned(),
                "flush 72 1 (a.log:6)".to_owned(),
                "fence (a.log:7)".to_owned(),
                format!("store 80 [7{zeros}] (a.log:12)"),
            ]
        );
        assert!(recording.was_mapped);
        assert_eq!((recording.mapped, recording.threads), (0x2040, 1));
    }

    #[test]
    fn the_file_is_chosen() {
        let log = "START|REGISTER_FILE;/a/p;0x1000;0x1000;0x0|REGISTER_FILE;/a/q;0x5000;0x1000;0x0|STORE;0x5000;0x1;0x8|STOP";
        assert!(read(log, None).map(drop).unwrap_err().contains("several files (/a/p, /a/q)"));
        assert_eq!(read(log, Some("before/q")).unwrap().operations.len(), 1);
        assert_eq!(read(log, Some("before/p")).unwrap().operations.len(), 0);
        assert!(read("START|FENCE|STOP", None).map(drop).unwrap_err().contains("registers no file"));
    }

    #[test]
    fn malformed_entries_are_refused() {
        for entry in ["STORE;0x1000;0x1", "STORE;1000;0x1;0x8", "STORE;0x1000;0x1;0xffffff", "FLUSH;0x1000"] {
            let log = format!("START|REGISTER_FILE;/p;0x1000;0x1000;0x0|{entry}|STOP");
            let said = read(&log, None).map(drop).unwrap_err();
            assert!(said.starts_with("entry 3 of a.log is malformed"), "{said}");
        }
    }
}
