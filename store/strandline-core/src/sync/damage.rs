//! Damage in the log: a durable block that is no longer intact, or a checkpoint slot that is lost.
//!
//! *Rule.* Let the blocks from S on end at number e. A valid block n > e of the same life with D > e proves that e was durable, and one with G above
//! the slot's generation proves that a newer slot was durable. If the slot says that blocks up to a higher number are inherited, e was durable too.
//! (The second kind of damage is nearly always found by D as well, because blocks below the S of a newer slot are overwritten by blocks with a higher
//! D. G distinguishes the two kinds.) Recovery looks for such a block near e. Only if e was durable, it reads the whole ring to report what is lost;
//! [`check`](crate::file::check) always reads it.

use std::fmt;
use std::io;

use super::block::BlockHead;
use super::repair::visit_blocks;
use super::runs::unpack;
use super::slot::CheckpointSlot;
use crate::log::Record;
use crate::memory::device::Device;

/// Returns whether this block proves damage in a log that ends at number `end` after this slot.
pub(super) fn proves_damage(head: &BlockHead, slot: &CheckpointSlot, end: u64) -> bool {
    head.life == slot.life_of(head.number)
        && (head.number > end && head.durable > end || head.generation > slot.generation)
}

/// A log that ends too early, and what follows its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogDamage {
    /// The number of the block that does not fit.
    end: u64,
    /// The generation of the newest slot.
    generation: u64,
    /// The first block that proves that `end` was durable.
    witness: Option<u64>,
    /// True if the slot says that `end` was durable.
    is_inherited: bool,
    /// The highest generation of a durable slot that a block proves.
    newest: u64,
    /// The number of intact blocks behind the end.
    pub blocks: u64,
    /// The number of transactions whose commit records are in these blocks.
    pub transactions: u64,
}

impl LogDamage {
    /// Reads the whole ring. Its blocks after this slot end at number `end`.
    ///
    /// # Errors
    /// Returns the device's error.
    pub(super) fn find(
        device: &dyn Device,
        ring: u64,
        seed: u32,
        slot: &CheckpointSlot,
        end: u64,
    ) -> io::Result<Option<Self>> {
        let generation = slot.generation;
        let (mut blocks, mut transactions) = (0, 0);
        let (mut witness, mut newest) = (None::<u64>, generation);
        visit_blocks(device, ring, seed, |head, block| {
            if head.life != slot.life_of(head.number) {
                return;
            }
            newest = newest.max(head.generation);
            if head.number > end {
                blocks += 1;
                // A block with unreadable records counts as one without transactions.
                let _ = unpack(block, head.records, |record| {
                    transactions += u64::from(matches!(record, Record::Commit { .. }));
                    Ok(())
                });
                if head.durable > end {
                    witness = Some(witness.map_or(head.number, |first| first.min(head.number)));
                }
            }
        })?;
        let is_inherited = end < slot.inherited_end();
        let is_damaged = is_inherited || witness.is_some() || newest > generation;
        Ok(is_damaged.then_some(Self {
            end,
            generation,
            witness,
            is_inherited,
            newest,
            blocks,
            transactions,
        }))
    }
}

impl fmt::Display for LogDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end, generation, witness, is_inherited, newest, blocks, transactions } = self;
        match witness {
            _ if *is_inherited => write!(
                f,
                "block {end} of its log file is damaged: it was durable, as the checkpoint slot says"
            )?,
            Some(witness) if newest == generation => {
                write!(f, "block {end} of its log file is damaged: it was durable, as block {witness} says")?
            }
            _ => write!(
                f,
                "its newest checkpoint slot is missing: blocks of its log file name generation {newest}, the slots {generation}"
            )?,
        }
        write!(
            f,
            "; {blocks} blocks and the commit records of {transactions} transactions are behind block {end}"
        )
    }
}
