//! Runs: consecutive words share a record in the shared log.
//!
//! ```text
//! record      data block · metadata block, as in `log/record.rs`
//! further     the next two words, unencoded; bits 12 to 15 of the record (RESV elsewhere) count these pairs
//! ```
//!
//! So a run of 31 words takes 16 places of two words in a block instead of 31. A record and its pairs are in the same block.

use crate::error::{Error, Result};
use crate::log::Record;
use crate::memory::WORD_BYTES;

use super::block;

/// Two words.
type Pair = [u64; 2];

/// The most pairs of a record.
const MOST_PAIRS: usize = 15;
const PAIRS_SHIFT: u32 = 12;

/// Returns the address and the value of a record that writes a whole word.
fn whole_word(record: Pair) -> Option<(u64, u64)> {
    match Record::decode(record) {
        Record::Data { address, value, mask: 0xff } => Some((address, value)),
        _ => None,
    }
}

/// Puts as many of `records` into `places` as fit. Returns the number of records and the number of places used.
pub(super) fn pack(records: &[Pair], places: &mut [Pair]) -> (usize, usize) {
    let (mut taken, mut used) = (0, 0);
    while taken < records.len() && used < places.len() {
        let head = records[taken];
        let place = used;
        (taken, used) = (taken + 1, used + 1);
        let Some((address, _)) = whole_word(head) else {
            places[place] = head;
            continue;
        };
        let most = MOST_PAIRS.min(places.len() - used);
        let mut next = address + WORD_BYTES;
        let mut pairs = 0;
        while pairs < most
            && let Some(&[one, other]) = records[taken..].first_chunk()
            && let (Some((first, low)), Some((second, high))) = (whole_word(one), whole_word(other))
            && (first, second) == (next, next + WORD_BYTES)
        {
            places[used] = [low, high];
            (taken, used, pairs) = (taken + 2, used + 1, pairs + 1);
            next = second + WORD_BYTES;
        }
        places[place] = [head[0], head[1] | (pairs as u64) << PAIRS_SHIFT];
    }
    (taken, used)
}

/// Passes the records of a block with this number of places to `take`, one by one.
pub(super) fn unpack(block: &[u8], places: u64, mut take: impl FnMut(Record) -> Result<()>) -> Result<()> {
    let mut place = 0;
    while place < places {
        let head = block::place(block, place);
        let record = Record::decode(head);
        take(record)?;
        let pairs = head[1] >> PAIRS_SHIFT & MOST_PAIRS as u64;
        place += 1;
        if pairs == 0 {
            continue;
        }
        let (Record::Data { address, mask: 0xff, .. }, true) = (record, place + pairs <= places) else {
            return Err(Error::damaged("the shared log has an impossible run"));
        };
        let mut address = address;
        for value in (place..place + pairs).flat_map(|place| block::place(block, place)) {
            address += WORD_BYTES;
            take(Record::Data { address, value, mask: 0xff })?;
        }
        place += pairs;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn data(address: u64, value: u64, mask: u8) -> Record {
        Record::Data { address, value, mask }
    }

    /// Packs records into blocks with this number of places. Returns the records that are read from the blocks, and the number of places used.
    fn through(records: &[Record], room: usize) -> (Vec<Record>, usize) {
        let encoded: Vec<Pair> =
            records.iter().enumerate().map(|(at, record)| record.encode(at % 3 == 0)).collect();
        let (mut rest, mut found, mut all) = (&encoded[..], Vec::new(), 0);
        while !rest.is_empty() {
            let mut places = vec![[0; 2]; room];
            let (taken, used) = pack(rest, &mut places);
            assert!(0 < taken && 0 < used && used <= taken);
            let mut block = vec![0; block::BLOCK_BYTES as usize];
            block::to_bytes(places[..used].as_flattened(), &mut block[8 * block::HEADER_WORDS as usize..]);
            unpack(&block, used as u64, |record| {
                found.push(record);
                Ok(())
            })
            .unwrap();
            rest = &rest[taken..];
            all += used;
        }
        (found, all)
    }

    #[test]
    fn a_page_of_words_takes_little_more_than_half_of_its_records() {
        let page: Vec<_> = (0..512).map(|word| data(4096 + 8 * word, !word, 0xff)).collect();
        assert_eq!(through(&page, 254), (page, 265));
    }

    #[test]
    fn words_apart_and_parts_of_words_have_records_of_their_own() {
        let apart =
            [data(8, 1, 0xff), data(24, 2, 0xff), data(40, 3, 0xff), Record::Commit { transaction: 9 }];
        assert_eq!(through(&apart, 254), (apart.to_vec(), 4));
        let parts = [data(8, 1, 0xff), data(16, 2, 0x0f), data(24, 3, 0xff), data(8, 4, 0)];
        assert_eq!(through(&parts, 254), (parts.to_vec(), 4));
        let three = [data(8, 1, 0xff), data(16, 2, 0xff), data(24, 3, 0xff)];
        assert_eq!(through(&three, 254), (three.to_vec(), 2));
    }

    #[test]
    fn a_run_that_leaves_its_block_or_follows_no_word_is_damage() {
        for (record, pairs, places) in
            [(data(8, 1, 0xff), 2, 2), (data(8, 1, 1), 1, 2), (Record::Commit { transaction: 1 }, 1, 2)]
        {
            let [low, high] = record.encode(false);
            let mut block = vec![0; block::BLOCK_BYTES as usize];
            block::to_bytes(
                &[low, high | pairs << PAIRS_SHIFT],
                &mut block[8 * block::HEADER_WORDS as usize..],
            );
            assert!(matches!(unpack(&block, places, |_| Ok(())), Err(Error::Damaged { .. })));
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_is_read_again(
            runs in prop::collection::vec((0u64..1 << 40, 1usize..80, any::<u64>(), prop::sample::select(vec![0xff_u8, 0xff, 0xff, 3])), 1..8),
            room in 1usize..255,
        ) {
            let records: Vec<_> = runs
                .into_iter()
                .flat_map(|(word, length, value, mask)| {
                    (0..length as u64).map(move |at| data(8 * (word + at), value.rotate_left(at as u32), mask))
                })
                .collect();
            let (found, places) = through(&records, room);
            prop_assert_eq!(&found, &records);
            prop_assert!(places <= records.len());
        }
    }
}
