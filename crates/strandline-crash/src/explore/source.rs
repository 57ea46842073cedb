//! Where in the source code a store was made.

use std::backtrace::Backtrace;
use std::collections::BTreeMap;

/// Files of the machinery between the code that stores and the checker: their frames say nothing.
const MACHINERY: [&str; 8] = [
    "src/memory/",
    "src/explore/world.rs",
    "/rustc/",
    "/library/std/",
    "/library/core/",
    "/library/alloc/",
    "/corosensei-",
    "/rustlib/",
];

/// The file and line of the innermost frame outside the machinery, if debug information tells.
pub(super) fn source(trace: &Backtrace) -> Option<String> {
    let text = trace.to_string();
    let places = text.lines().filter_map(|line| line.trim_start().strip_prefix("at "));
    let mut places = places.filter(|place| !MACHINERY.iter().any(|part| place.contains(part)));
    let place = places.next()?;
    // Without the column, and from the crate on.
    let place = place.rsplit_once(':').map_or(place, |(place, _)| place);
    let from = place.rfind("crates/").unwrap_or(0);
    Some(place[from..].trim_start_matches("./").to_owned())
}

/// The source of the store at `time`, in brackets; nothing if it is not known.
pub(super) fn bracketed(sources: &BTreeMap<u32, Backtrace>, time: u32) -> String {
    let known = sources.get(&time).and_then(source);
    known.map_or_else(String::new, |source| format!(" ({source})"))
}
