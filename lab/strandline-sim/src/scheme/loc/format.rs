//! The contents of the memory log area (section 3.2, Fig. 4; sections 3.3 and 4.2): block groups, BLK-TAGs, transaction dependency pairs, the log
//! head.
//!
//! The area begins with [`HEADS`] lines, which hold the log head in turn, so that none of them wears out. The rest are places for block groups, one
//! more than are ever used: each time the log has wrapped around, all groups are shifted by one place (as in Start-Gap, section 4.2).
//!
//! A group is seven lines of data followed by its metadata line: the sequence ID, and a BLK-TAG for each data line. The paper's fields take 60 bits
//! of a tag. Two of the reserved four bits say what the line holds, and two are the number of the speculation window modulo 4, by which recovery
//! finds where a window ends.

use crate::controller::Line;
use crate::numbers::LineNumber;

/// The number of data lines that a block group has.
pub const GROUP_DATA: usize = 7;
/// The number of lines that a block group has.
pub const GROUP_LINES: usize = GROUP_DATA + 1;
/// Bytes of a block.
pub const BLOCK_BYTES: u64 = 64;
/// The number of lines among which the log head moves.
pub const HEADS: u64 = 64;
/// Bytes of the memory log area in the paper's evaluation (section 4.2).
pub const LOG_BYTES: u64 = 32 << 20;
/// Bytes of the volatile buffer of dependency pairs (section 4.2).
pub const PAIR_BUFFER_BYTES: u64 = 32 << 10;
/// Bits of CID, TID, TxID, TxCnt and ADDR (section 3.2; Fig. 6 (b)).
pub const TAG_BITS: [u32; 5] = [3, 1, 8, 16, 32];
/// The number of TxIDs; they are used cyclically.
pub const TX_IDS: u64 = 1 << TAG_BITS[2];
/// The number of consecutive TxIDs that are valid at a time, for running transactions.
pub const RUNNING: u64 = TX_IDS / 2;
/// The number of blocks that the largest transaction has (the paper: "32K blocks using a 16-bit TxCnt").
pub const LARGEST: u64 = 1 << (TAG_BITS[3] - 1);
/// The number of gigabytes that the 32-bit ADDR of 64-byte blocks can address.
pub const REACH_GB: u64 = (BLOCK_BYTES << TAG_BITS[4]) >> 30;
/// The size in bits of a dependency pair on the medium: TxID, TxID, count.
const PAIR_BITS: u32 = 32;
/// Pairs in a block.
pub const PAIRS_PER_BLOCK: usize = (BLOCK_BYTES * 8 / PAIR_BITS as u64) as usize;

const MAGIC: u64 = 0x4c4f_432d_6865_6164;

/// The contents of a line of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The place in the group is unused.
    Empty,
    /// A block that a transaction has stored to.
    Block,
    /// Dependency pairs, TxCnt of them.
    Pairs,
    /// Nothing; the tag is a commit record (H-WAL).
    Record,
}

/// The metadata of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTag {
    /// The block's contents.
    pub kind: Kind,
    /// The speculation window's number modulo 4.
    pub window: u8,
    /// The TxID modulo its width.
    pub tx_id: u8,
    /// The transaction's number of blocks in its last one; 0 in the others.
    pub tx_cnt: u16,
    /// The block's home, a line number.
    pub addr: LineNumber,
}

impl BlockTag {
    /// Encodes the tag as a word of the metadata line. CID and TID are 0, since there is one core.
    pub fn encode(self) -> u64 {
        let kind = match self.kind {
            Kind::Empty => return 0,
            Kind::Block => 1,
            Kind::Pairs => 2,
            Kind::Record => 3,
        };
        u64::from(self.tx_id) << 4
            | u64::from(self.tx_cnt) << 12
            | u64::from(self.addr.number()) << 28
            | kind << 60
            | u64::from(self.window & 3) << 62
    }

    /// Decodes the tag in a word.
    pub fn decode(word: u64) -> Self {
        let kind = match word >> 60 & 3 {
            0 => Kind::Empty,
            1 => Kind::Block,
            2 => Kind::Pairs,
            _ => Kind::Record,
        };
        Self {
            kind,
            window: (word >> 62) as u8,
            tx_id: (word >> 4) as u8,
            tx_cnt: (word >> 12) as u16,
            addr: LineNumber::new((word >> 28) as u32),
        }
    }
}

/// Transaction `earlier` has `count` blocks that `later` has overwritten in the same window (section 3.3). If both are the same transaction, it has
/// `count` blocks in total, and no block of its own is left to record that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The transaction Ta, whose blocks were overwritten.
    pub earlier: u8,
    /// The transaction Tb, which has overwritten them.
    pub later: u8,
    /// The number n of blocks.
    pub count: u16,
}

/// Encodes pairs as a block's words.
pub fn encode_pairs(pairs: &[Pair]) -> Line {
    let mut line = [0; 8];
    for (i, pair) in pairs.iter().enumerate() {
        let word = u64::from(pair.earlier) | u64::from(pair.later) << 8 | u64::from(pair.count) << 16;
        line[i / 2] |= word << (PAIR_BITS * (i as u32 % 2));
    }
    line
}

/// Decodes the first `count` pairs of a block.
pub fn decode_pairs(line: &[u64], count: usize) -> impl Iterator<Item = Pair> + '_ {
    (0..count.min(PAIRS_PER_BLOCK)).map(move |i| {
        let word = line[i / 2] >> (PAIR_BITS * (i as u32 % 2));
        Pair { earlier: word as u8, later: (word >> 8) as u8, count: (word >> 16) as u16 }
    })
}

/// The log head: where the valid logs begin. They end where no group with the next sequence IDs is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The number of heads that preceded it.
    pub epoch: u64,
    /// Sequence ID of the first valid group.
    pub start: u64,
    /// The TxID of the first transaction.
    pub first: u8,
}

impl Head {
    /// Encodes the head as a line. The last word reveals an incompletely stored head, which a power failure in recovery may leave.
    pub fn encode(self) -> Line {
        let words = [MAGIC, self.epoch, self.start, u64::from(self.first)];
        let check =
            words.iter().fold(0, |check: u64, word| (check ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        [words[0], words[1], words[2], words[3], check, 0, 0, 0]
    }

    /// Returns the newest complete head of a log area, or the first one if none was written.
    pub fn newest(area: &[u64]) -> Self {
        let heads = area.chunks(8).take(HEADS as usize).filter_map(|line| {
            let head = Self { epoch: *line.get(1)?, start: *line.get(2)?, first: *line.get(3)? as u8 };
            (head.encode() == line).then_some(head)
        });
        heads.max_by_key(|head| head.epoch).unwrap_or_default()
    }

    /// Returns the index of its line.
    pub fn line(self) -> u64 {
        self.epoch % HEADS
    }
}

/// The places of groups in an area.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The number of groups that are used; there is one more place.
    pub groups: u64,
}

impl Places {
    /// Returns the places in an area of so many bytes.
    pub fn of(bytes: u64) -> Self {
        Self { groups: (bytes / BLOCK_BYTES - HEADS) / GROUP_LINES as u64 - 1 }
    }

    /// Returns the index of the first line of group `sid`; its metadata line is the last.
    pub fn line(self, sid: u64) -> u64 {
        let place = (sid % self.groups + sid / self.groups) % (self.groups + 1);
        HEADS + place * GROUP_LINES as u64
    }

    /// Returns how many groups may be valid at a time: one fewer than there are, since successive rounds are shifted by one place.
    pub fn most(self) -> u64 {
        self.groups - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_pairs_and_heads_survive_encoding() {
        let tag = BlockTag {
            kind: Kind::Block,
            window: 3,
            tx_id: 200,
            tx_cnt: 40_000,
            addr: LineNumber::new(u32::MAX - 5),
        };
        assert_eq!(BlockTag::decode(tag.encode()), tag);
        assert_eq!(BlockTag::decode(0).kind, Kind::Empty);
        assert_eq!(TAG_BITS.iter().sum::<u32>(), 60, "two bits for the kind, two for the window");
        let pairs: Vec<Pair> =
            (0..PAIRS_PER_BLOCK as u8).map(|i| Pair { earlier: i, later: 255 - i, count: 65_000 }).collect();
        assert_eq!(decode_pairs(&encode_pairs(&pairs), pairs.len()).collect::<Vec<_>>(), pairs);
        let mut area = vec![0; 8 * HEADS as usize];
        for epoch in 0..100 {
            let head = Head { epoch, start: 7 * epoch, first: epoch as u8 };
            area[8 * head.line() as usize..][..8].copy_from_slice(&head.encode());
            assert_eq!(Head::newest(&area), head);
        }
        // Whatever part of the next head is stored, the previous one counts until the next is complete.
        let (old, new) = (Head::newest(&area), Head { epoch: 100, start: 9, first: 3 });
        for stored in 0..32 {
            let mut torn = area.clone();
            for (word, value) in new.encode().into_iter().enumerate().take(5) {
                if stored >> word & 1 == 1 {
                    torn[8 * new.line() as usize + word] = value;
                }
            }
            // The line already contains the magic number, from the head that it held before.
            assert_eq!(Head::newest(&torn), if stored | 1 == 31 { new } else { old }, "{stored:#b}");
        }
    }

    #[test]
    fn no_two_valid_groups_share_a_place_and_all_places_are_used() {
        let places = Places { groups: 13 };
        let mut used = std::collections::BTreeSet::new();
        for from in 0..200 {
            let valid: std::collections::BTreeSet<u64> =
                (from..from + places.most()).map(|sid| places.line(sid)).collect();
            assert_eq!(valid.len() as u64, places.most());
            used.extend(valid);
        }
        assert_eq!(used.len(), 14);
    }
}
