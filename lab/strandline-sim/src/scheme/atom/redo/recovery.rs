//! REDO's recovery: finds complete updates anywhere in a ring, and redoes them in the order of commits.

use super::{ADDRESS_BITS, COMMIT, COUNT, REDO_ORDER, RING_LINES, place};
use crate::numbers::CoreId;
use crate::scheme::Setup;

/// Redoes every update whose log is complete and that is not known to be home.
///
/// # Errors
/// Returns an error if an entry's line is not in the pool.
pub fn recover(setup: &Setup<'_>, pool: &mut [u64], reserved: &mut [u64]) -> Result<(), String> {
    recover_with(RING_LINES, setup, pool, reserved)
}

/// Like [`recover`], for rings of so many lines.
///
/// # Errors
/// As for [`recover`].
pub fn recover_with(
    ring_lines: u64,
    setup: &Setup<'_>,
    pool: &mut [u64],
    reserved: &mut [u64],
) -> Result<(), String> {
    let controllers = &setup.machine.controllers;
    let watermark = controllers.reserved_line(0, 0) as usize * 8;
    let copied = reserved[watermark];
    let mut found = Vec::new();
    for core in CoreId::first(setup.machine.cores.count) {
        let line = |number: u64| {
            let (controller, index) = place(ring_lines, controllers, core, number % ring_lines);
            let first = controllers.reserved_line(controller, index) as usize * 8;
            &reserved[first..first + 8]
        };
        for last in 0..ring_lines {
            let words = line(last);
            let commit = words.chunks_exact(2).find(|entry| entry[0] != 0 && entry[0] & COMMIT == COMMIT);
            let Some(&[tag, value]) = commit else { continue };
            let (number, commit, lines) = (tag >> ADDRESS_BITS, value >> 16, value & 0xffff);
            if commit <= copied || lines == 0 || lines > ring_lines {
                continue;
            }
            let all = (0..lines).map(|i| line(last + ring_lines + 1 + i - lines));
            let whole = all.clone().all(|words| words[0] >> ADDRESS_BITS == number);
            if whole || setup.omits(COUNT.name) {
                let entries = all.flat_map(|words| words.chunks_exact(2));
                let words: Vec<(u64, u64)> = entries
                    .filter(|entry| entry[0] >> ADDRESS_BITS == number && entry[0] & COMMIT != COMMIT)
                    .map(|entry| (entry[0] & COMMIT, entry[1]))
                    .collect();
                found.push((commit, words));
            }
        }
    }
    found.sort_by_key(|update| update.0);
    let newest = found.last().map_or(copied, |update| update.0);
    if setup.omits(REDO_ORDER.name) {
        found.reverse();
    }
    for (address, value) in found.into_iter().flat_map(|update| update.1) {
        let word = pool.get_mut(address as usize / 8);
        *word.ok_or_else(|| format!("a redo log entry is of address {address:#x}, outside the pool"))? =
            value;
    }
    reserved[watermark] = newest;
    Ok(())
}
