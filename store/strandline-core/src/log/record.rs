//! The log record of Blurred Persistence (section IV-B, Figs. 5 and 6): two 64-bit blocks.
//!
//! ```text
//! data block      bit  0      TornBit
//!                 bits 1..63  bits 1..63 of the data
//! metadata block  bit  0      TornBit
//!                 bit  1      TailBit: bit 0 of the data
//!                 bits 2..9   MASK: which bytes of the data are valid (0: an inert record)
//!                 bit  10     FLG_DC: 1 for a commit or abort record
//!                 bit  11     FLG_CA: 1 for a commit record
//!                 bits 12..15 RESV
//!                 bits 16..63 ADDR: home address, a byte offset into the pool
//! ```
//!
//! The data of a commit record is the TxID; under `bppm-counted`, its ADDR is the number of the transaction's records. The data of an abort record is
//! the back-pointer to the last commit record: that record's position in the log plus one, or 0 if this run has none.

/// 64-bit blocks in a record.
pub const RECORD_BLOCKS: u64 = 2;
/// An aborted transaction has an abort record over each group of this many of its records, and recovery looks ahead this far: 64 blocks (section
/// III-A).
pub const ABORT_GROUP_RECORDS: u64 = 64 / RECORD_BLOCKS;

const TORN: u64 = 1;
const TAIL_SHIFT: u32 = 1;
const MASK_SHIFT: u32 = 2;
const FLG_DC: u64 = 1 << 10;
const FLG_CA: u64 = 1 << 11;
const ADDRESS_SHIFT: u32 = 16;

/// The content of a record, without its torn bits.
///
/// ```
/// use strandline_core::log::Record;
///
/// let record = Record::Data { address: 4096, value: 7, mask: 0xff };
/// let mut blocks = record.encode(true);
/// assert_eq!((Record::decode(blocks), Record::torn_bit(blocks)), (record, Some(true)));
/// // One block was not written in this run.
/// blocks[0] ^= 1;
/// assert_eq!(Record::torn_bit(blocks), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// New data of a word: the bytes of `value` in `mask`, for the word at `address`. With mask 0 the record is inert.
    Data {
        /// Home address, a byte offset below 2^48.
        address: u64,
        /// The new value.
        value: u64,
        /// Bit i is set if byte i of the value is valid.
        mask: u8,
    },
    /// The records since the last commit or abort record are committed under this TxID.
    Commit {
        /// The transaction's number in the global commit order, from 1.
        transaction: u64,
    },
    /// The `records` records before it are committed under this TxID. This is the commit record of `bppm-counted`. The number is in the ADDR field,
    /// which the paper does not use.
    CountedCommit {
        /// The transaction's number in the global commit order, from 1.
        transaction: u64,
        /// The number of its records, at least one.
        records: u64,
    },
    /// The records since the last commit record are void.
    Abort {
        /// Position of the last commit record plus one; 0 for none.
        back_pointer: u64,
    },
}

impl Record {
    /// A record without content, which fills the rest of a log that restarts.
    pub const INERT: Self = Self::Data { address: 0, value: 0, mask: 0 };

    /// Encodes the record as the data block and the metadata block, both with this torn bit.
    #[inline(always)]
    pub fn encode(self, torn: bool) -> [u64; 2] {
        let (value, metadata) = match self {
            Self::Data { address, value, mask } => {
                (value, u64::from(mask) << MASK_SHIFT | address << ADDRESS_SHIFT)
            }
            Self::Commit { transaction } => (transaction, FLG_DC | FLG_CA),
            Self::CountedCommit { transaction, records } => {
                (transaction, FLG_DC | FLG_CA | records << ADDRESS_SHIFT)
            }
            Self::Abort { back_pointer } => (back_pointer, FLG_DC),
        };
        let torn = u64::from(torn);
        [value & !TORN | torn, metadata | (value & 1) << TAIL_SHIFT | torn]
    }

    /// Decodes the record in these blocks, whatever their torn bits are.
    #[inline]
    pub fn decode([data, metadata]: [u64; 2]) -> Self {
        let value = data & !TORN | metadata >> TAIL_SHIFT & 1;
        if metadata & FLG_DC == 0 {
            Self::Data { address: metadata >> ADDRESS_SHIFT, value, mask: (metadata >> MASK_SHIFT) as u8 }
        } else if metadata & FLG_CA != 0 {
            match metadata >> ADDRESS_SHIFT {
                0 => Self::Commit { transaction: value },
                records => Self::CountedCommit { transaction: value, records },
            }
        } else {
            Self::Abort { back_pointer: value }
        }
    }

    /// Returns the torn bit of both blocks, or `None` if they differ.
    #[inline]
    pub fn torn_bit([data, metadata]: [u64; 2]) -> Option<bool> {
        (data & TORN == metadata & TORN).then_some(data & TORN == TORN)
    }
}

/// Returns the home address in a metadata block, if it is that of a data record that is not inert.
#[inline]
pub fn home_address(metadata: u64) -> Option<u64> {
    const VALID: u64 = 0xff << MASK_SHIFT;
    (metadata & FLG_DC == 0 && metadata & VALID != 0).then_some(metadata >> ADDRESS_SHIFT)
}

/// Returns whether a metadata block is a commit record's.
#[inline]
pub fn is_commit(metadata: u64) -> bool {
    metadata & (FLG_DC | FLG_CA) == FLG_DC | FLG_CA
}

/// Returns whether a metadata block is an abort record's.
#[inline]
pub fn is_abort(metadata: u64) -> bool {
    metadata & (FLG_DC | FLG_CA) == FLG_DC
}

/// Replaces the bytes of `old` that are in `mask` by those of `value`.
///
/// ```
/// use strandline_core::log::merge;
///
/// // The two lower bytes.
/// assert_eq!(merge(0x1111_1111_1111_1111, 0x2222_2222_2222_2222, 0b11), 0x1111_1111_1111_2222);
/// ```
pub fn merge(old: u64, value: u64, mask: u8) -> u64 {
    let bits = (0..8).filter(|byte| mask >> byte & 1 == 1).fold(0, |bits, byte| bits | 0xff << (8 * byte));
    old & !bits | value & bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B17: 63 data bits and a torn bit, and 1, 1, 8, 1, 1, 4 and 48 bits of metadata.
    #[test]
    fn fields_lie_where_the_paper_puts_them() {
        let data = |address, value, mask, torn| Record::Data { address, value, mask }.encode(torn);
        assert_eq!(data(0, u64::MAX, 0, false), [!1, 1 << 1]);
        assert_eq!(data(0, 0, 0, true), [1, 1]);
        assert_eq!(data(0, 0, 0xff, false), [0, 0xff << 2]);
        assert_eq!(data((1 << 48) - 1, 0, 0, false), [0, ((1 << 48) - 1) << 16]);
        assert_eq!(Record::Commit { transaction: 0 }.encode(false), [0, 0b11 << 10]);
        assert_eq!(Record::Abort { back_pointer: 0 }.encode(false), [0, 1 << 10]);
        let used = 1 + 1 + 8 + 1 + 1 + 48;
        assert_eq!(64 - used, 4, "RESV");
        assert_eq!(ABORT_GROUP_RECORDS * RECORD_BLOCKS, 64);
    }

    proptest::proptest! {
        #[test]
        fn decode_inverts_encode(value: u64, address in 0..1u64 << 48, mask: u8, torn: bool, kind in 0..4) {
            let record = match kind {
                0 => Record::Data { address, value, mask },
                1 => Record::Commit { transaction: value },
                2 => Record::CountedCommit { transaction: value, records: address.max(1) },
                _ => Record::Abort { back_pointer: value },
            };
            let blocks = record.encode(torn);
            proptest::prop_assert_eq!(Record::decode(blocks), record);
            proptest::prop_assert_eq!(Record::torn_bit(blocks), Some(torn));
        }

        #[test]
        fn merge_replaces_whole_bytes(old: u64, value: u64, mask: u8) {
            let merged = merge(old, value, mask).to_le_bytes();
            for (i, byte) in merged.into_iter().enumerate() {
                let from = if mask >> i & 1 == 1 { value } else { old };
                proptest::prop_assert_eq!(byte, from.to_le_bytes()[i]);
            }
        }
    }
}
