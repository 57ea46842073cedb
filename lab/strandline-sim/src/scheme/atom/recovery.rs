//! Recovery (section IV-D): undoes every update that had not ended, newest record first.

use crate::scheme::Setup;

use super::record::{
    Area, CRITICAL_LINES, Critical, Header, Parameters, RECORD_LINES, decode_grant, decode_saved,
    encode_saved, grant_place,
};

/// A record to undo.
struct Found {
    sequence: u64,
    header: Header,
    /// For each line of the record the index of its first word among the reserved words.
    words: Vec<usize>,
}

/// Recovers the pool's words from the log.
///
/// # Errors
/// Returns an error if a record is missing that must be there.
pub fn recover(setup: &Setup<'_>, pool: &mut [u64], reserved: &mut [u64]) -> Result<(), String> {
    recover_with(Parameters::of(setup.machine), setup, pool, reserved)
}

/// Like [`recover`], for log managers of other sizes.
///
/// # Errors
/// As for [`recover`].
pub fn recover_with(
    parameters: Parameters,
    setup: &Setup<'_>,
    pool: &mut [u64],
    reserved: &mut [u64],
) -> Result<(), String> {
    let area = Area { parameters, controllers: &setup.machine.controllers };
    let (life, is_saved) = decode_saved(reserved[area.saved()]);
    if !is_saved {
        return Ok(());
    }
    let grants_of = (!setup.omits("grant-life")).then_some(life);
    let count = setup.machine.controllers.count;
    let critical: Vec<Critical> = (0..count)
        .map(|controller| {
            let mut words = Vec::new();
            for line in 0..CRITICAL_LINES as u64 {
                words.extend_from_slice(&reserved[area.word(controller, line)..][..8]);
            }
            Critical::decode(&words, parameters.structures)
        })
        .collect();
    let ended: Vec<bool> = (0..parameters.structures)
        .map(|structure| critical.iter().any(|critical| critical.current[structure].ended))
        .collect();
    for (controller, critical) in critical.iter().enumerate() {
        let mut records = find(&area, controller, critical, (&ended, grants_of), reserved)?;
        records.sort_by_key(|record| record.sequence);
        if !setup.omits("undo-order") {
            records.reverse();
        }
        for record in records {
            let entries = (0..record.header.count).rev();
            for entry in entries {
                let home = record.header.lines[entry].first_word();
                let Some(words) = pool.get_mut(home..home + 8) else {
                    return Err(format!(
                        "a log record behind controller {controller} is of no line of the pool"
                    ));
                };
                words.copy_from_slice(&reserved[record.words[1 + entry]..][..8]);
            }
        }
    }
    // Storing this one word ends recovery; after a failure before it, recovery repeats everything.
    reserved[area.saved()] = encode_saved(life + 1, false);
    Ok(())
}

/// Returns the valid records behind a controller, of updates that had not ended. Grants of other lives are ignored, unless they are asked for.
fn find(
    area: &Area<'_>,
    controller: usize,
    critical: &Critical,
    (ended, grants_of): (&[bool], Option<u64>),
    reserved: &[u64],
) -> Result<Vec<Found>, String> {
    let parameters = area.parameters;
    let mut pages = vec![Vec::new(); parameters.buckets];
    for grant in 0..parameters.grants {
        let (line, word) = grant_place(grant);
        let granted = decode_grant(reserved[area.word(controller, line) + word]);
        let own = granted.filter(|&(_, life)| grants_of.is_none_or(|own| own == life));
        if let Some(pages) = own.and_then(|(bucket, _)| pages.get_mut(bucket)) {
            pages.push(grant);
        }
    }
    let mut found = Vec::new();
    for (bucket, pages) in pages.iter().enumerate() {
        if critical.taken[bucket / 64] >> (bucket % 64) & 1 == 0 {
            continue;
        }
        let current = critical.current.iter().find_map(|current| match current.bucket {
            Some((number, records)) if number == bucket => Some(records),
            _ => None,
        });
        // A bucket that is not a structure's current one is full.
        let capacity = parameters.capacity(pages.len());
        for record in 0..current.unwrap_or(capacity).min(capacity) {
            let first = parameters.record_line(bucket, pages, record);
            let words: Vec<usize> =
                (0..RECORD_LINES).map(|index| area.word(controller, first + index)).collect();
            let header = Header::decode(&reserved[words[0]..][..8]);
            let (header, structure, sequence) = header.ok_or_else(|| {
                format!("record {record} of bucket {bucket} behind controller {controller} has no header")
            })?;
            if !ended.get(structure).copied().unwrap_or(false) {
                found.push(Found { sequence, header, words });
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::record::{Current, encode_grant};
    use super::*;
    use crate::numbers::LineNumber;

    /// In an earlier life bucket 1 was extended by a page; in this life it is full without the page, and power fails.
    #[test]
    fn a_page_granted_in_an_earlier_life_is_not_read() {
        let mut machine = crate::support::mesh(32);
        machine.controllers.count = 1;
        let parameters = Parameters { structures: 1, buckets: 3, records: 1, grants: 2, ..Parameters::PAPER };
        let area = Area { parameters, controllers: &machine.controllers };
        for (omitted, life, undone) in [(None, 7, false), (None, 8, true), (Some("grant-life"), 7, true)] {
            let setup = Setup { machine: &machine, omitted };
            let mut pool = vec![0; 64];
            let mut reserved = vec![0; parameters.reserved_bytes(&machine.controllers) as usize / 8];
            let mut put = |line: u64, words: &[u64]| {
                let at = area.word(0, line);
                reserved[at..at + words.len()].copy_from_slice(words);
            };
            // The bucket's own record names line 1, and the page's names line 2.
            for (record, line, old) in [(0, 1, 5), (1, 2, 6)] {
                let first = parameters.record_line(1, &[0], record);
                let mut lines = [LineNumber::default(); super::super::record::ENTRIES];
                lines[0] = LineNumber::new(line);
                put(first, &Header { lines, count: 1 }.encode(0, 1 + record));
                put(first + 1, &[old; 8]);
            }
            let (table, word) = grant_place(0);
            assert_eq!(word, 0);
            put(table, &[encode_grant(1, life)]);
            let current = vec![Current { bucket: Some((2, 0)), ended: false }];
            let registers = Critical { taken: [0b110, 0, 0, 0], current }.encode();
            put(0, &registers);
            reserved[area.saved()] = encode_saved(8, true);
            recover_with(parameters, &setup, &mut pool, &mut reserved).unwrap();
            assert_eq!((pool[8], pool[16] == 6), (5, undone), "{omitted:?} {life}");
            assert_eq!(decode_saved(reserved[area.saved()]), (9, false));
        }
    }
}
