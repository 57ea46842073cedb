//! Writing only in drains ([`WritePolicy::Drained`]), as NVMain's FRFCFS-WQF does.
//!
//! Writes wait until the high watermark is reached. The channel then only writes until the low watermark: each bank takes a write as soon as it has
//! sent the command of the previous one, and a write to its open row before older ones. Reads and further writes wait. In NVMain nothing waits for a
//! write. Here a write that a core or a scheme waits for begins as soon as its bank is idle, because a fence would otherwise wait for the watermark.
//! It also begins before a read that would close its row, since NVMain's FRFCFS prefers row hits in both directions.

use super::{Channel, NONE};
use crate::description::WritePolicy;
use crate::numbers::Cycle;

impl Channel {
    /// Returns how many places of the write queue are taken. With drains only, a write leaves its place when its bank takes it.
    pub(super) fn places_taken(&self) -> usize {
        match self.policy {
            WritePolicy::IdleBanks => self.held(),
            WritePolicy::Drained => self.waiting,
        }
    }

    /// Lets the write in `slot`, which has not begun, begin without a drain.
    pub(super) fn want(&mut self, slot: u16, local: u64) {
        let write = &mut self.held[usize::from(slot)];
        if self.policy == WritePolicy::IdleBanks || write.wanted {
            return;
        }
        write.wanted = true;
        let bank = self.banks.bank_of(local);
        self.queues[bank].wanted += 1;
        let begin = self.will_begin(bank).unwrap_or(Cycle::NEVER);
        self.next = self.next.min(begin);
    }

    /// Lets waited-for writes to the open row of the bank of line `local` begin before a read of another row closes it.
    pub(super) fn write_to_open_row(&mut self, local: u64, at: Cycle) {
        let bank = self.banks.bank_of(local);
        if self.queues[bank].wanted == 0 || self.banks.is_open(bank, local) {
            return;
        }
        loop {
            self.put_open_row_first(bank);
            let first = self.held.get(usize::from(self.queues[bank].first));
            if !first.is_some_and(|write| write.wanted && self.banks.is_open(bank, write.local)) {
                break;
            }
            let begin = self.could_begin(bank).unwrap_or(at).max(at);
            self.begin(bank, begin);
        }
        self.find_next();
    }

    /// Writes down to the low watermark, and does nothing else.
    pub(super) fn drain_exclusively(&mut self, at: Cycle) {
        self.drained = at;
        while self.waiting > self.low {
            let with_writes = (0..self.queues.len()).filter(|&bank| self.queues[bank].first != NONE);
            let taken = |bank: usize| self.banks.command_sent(bank).max(at);
            let oldest = |bank: usize| self.held[usize::from(self.queues[bank].first)].sequence;
            let Some(bank) = with_writes.min_by_key(|&bank| (taken(bank), oldest(bank))) else { break };
            self.drained = taken(bank);
            self.put_open_row_first(bank);
            let begin = self.could_begin(bank).unwrap_or(at).max(self.drained);
            self.begin(bank, begin);
        }
    }

    /// Moves the oldest write to the open row of `bank` to the front of its queue.
    fn put_open_row_first(&mut self, bank: usize) {
        let mut before = NONE;
        let mut slot = self.queues[bank].first;
        while slot != NONE && !self.banks.is_open(bank, self.held[usize::from(slot)].local) {
            before = slot;
            slot = self.held[usize::from(slot)].next;
        }
        if slot == NONE || before == NONE {
            return;
        }
        let first = self.queues[bank].first;
        let next = std::mem::replace(&mut self.held[usize::from(slot)].next, first);
        self.held[usize::from(before)].next = next;
        self.queues[bank].first = slot;
        if next == NONE {
            self.queues[bank].last = before;
        }
    }
}
