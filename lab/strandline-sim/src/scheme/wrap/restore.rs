//! RESTORE: redoes the wraps that are in the Log (section 3.3).
//!
//! From the head on, entries are valid as long as each carries its lap. RESTORE writes their records home in closing order. When that is durable, one
//! word moves the head past them; after a failure before that, RESTORE repeats everything with the same result. Buckets that are not in the Log are
//! ignored, and the victim cache is empty anyway.
//!
//! *Remains of one life never complete the Log of another.* Entries of several cores become durable in any order, so that some may follow the first
//! missing one. The next life continues at the missing entry with the same lap, so its entry would lead RESTORE on to those after it, whose buckets
//! hold other records by then. So RESTORE clears the places after the first missing entry. None of these entries counts, so it does not matter which
//! of them a failure leaves to be cleared again. An entry that was valid has an older lap when its place is used again.

use super::Variant;
use super::log::{Area, decode, records_per_bucket, records_per_line};
use crate::scheme::Setup;

/// Repairs the pool's words.
///
/// # Errors
/// Returns an error if an entry of the Log names a bucket that does not exist, or a record a word that does not exist.
pub fn restore(
    setup: &Setup<'_>,
    variant: &Variant,
    pool: &mut [u64],
    reserved: &mut [u64],
) -> Result<(), String> {
    if setup.omits("restore") {
        return Ok(());
    }
    let variant = variant.on(setup.machine);
    let area = Area::new(variant.log_bytes * setup.machine.cores.count as u64);
    let (per_line, per_bucket) = (records_per_line(variant.combined), records_per_bucket(variant.combined));
    let head = reserved[0];
    let mut number = head;
    while number < head + area.entries {
        let word = reserved[area.entry_place(number) as usize];
        let Some((mut bucket, records)) = area.decode_entry(number, word) else { break };
        let mut left = records;
        while left > 0 {
            if bucket as usize >= area.buckets {
                return Err(format!("the Log's entry {number} leads to bucket {bucket}"));
            }
            let words = &reserved[area.bucket_words(bucket)];
            let here = left.min(per_bucket);
            for (i, line) in words[8..].chunks(8).enumerate().take(here.div_ceil(per_line) as usize) {
                for record in decode(line, per_line.min(here - i as u64 * per_line)) {
                    let at = record.line.first_word() + usize::from(record.word);
                    let home = pool
                        .get_mut(at)
                        .ok_or_else(|| format!("a record of wrap {number} names word {at}"))?;
                    *home = record.value;
                }
            }
            left -= here;
            bucket = words[0].wrapping_sub(1) as u32;
        }
        number += 1;
    }
    if !setup.omits("stale-entries") {
        for stale in number..head + area.entries {
            reserved[area.entry_place(stale) as usize] = 0;
        }
    }
    reserved[0] = number;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::SINGLE;
    use super::*;

    /// Two wraps close at the same time; the second one's entry is in the Log, and the first one's is not. In the next life a wrap has the first one's
    /// number, and power fails before another one closes.
    #[test]
    fn an_entry_is_not_reached_through_the_next_lifes() {
        for (omitted, reached) in [(None, false), (Some("stale-entries"), true)] {
            let description = crate::support::small(1);
            let setup = Setup { machine: &description, omitted };
            let area = Area::new(SINGLE.log_bytes * description.cores.count as u64);
            let mut reserved = vec![0; SINGLE.log_bytes as usize * description.cores.count / 8];
            let mut pool = vec![0; 64];
            let close = |reserved: &mut [u64], number: u64, bucket: u32, (word, value): (u64, u64)| {
                let (_, entry, _) = area.entry(number, bucket, 1);
                let place = area.entry_place(number);
                reserved[place as usize] = entry[(place % 8) as usize];
                let record = area.bucket_words(bucket).start + 8;
                reserved[record..record + 2].copy_from_slice(&[word, value]);
            };
            close(&mut reserved, 1, 1, (9, 5));
            restore(&setup, &SINGLE, &mut pool, &mut reserved).unwrap();
            assert_eq!((pool[9], reserved[0]), (0, 0));
            close(&mut reserved, 0, 0, (8, 6));
            restore(&setup, &SINGLE, &mut pool, &mut reserved).unwrap();
            assert_eq!((pool[8], pool[9] == 5), (6, reached), "{omitted:?}");
        }
    }
}
