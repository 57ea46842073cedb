//! RESTORE: redoes the wraps that are in the Log (section 3.3).
//!
//! From the head on, entries count as long as each carries its lap. Their records are stored home in closing order, and
//! when that is durable the head moves past them, by one word: a failure before it repeats it all, to the same
//! result. Buckets that are not in the Log are ignored, and the victim cache is empty anyway.
//!
//! *No life's leavings complete another's Log.* Entries of several cores become durable in any order, so that some may lie behind
//! the first that is missing. The next life begins at that one with the same lap: its entry would lead RESTORE on to those,
//! whose buckets hold other records by then. So the places behind the first missing entry are cleared; none of
//! them counts, and it does not matter which of them a failure leaves to be cleared again. An entry that counted is of
//! an older lap when its place is used again.

use super::Variant;
use super::log::{Area, decode, records_per_bucket, records_per_line};
use crate::scheme::Setup;

/// Repairs the pool's words.
///
/// # Errors
/// An entry of the Log names a bucket, or a record a word, that does not exist.
pub fn restore(
    setup: &Setup<'_>,
    variant: &Variant,
    pool: &mut [u64],
    reserved: &mut [u64],
) -> Result<(), String> {
    if setup.omits("restore") {
        return Ok(());
    }
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
