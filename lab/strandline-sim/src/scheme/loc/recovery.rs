//! Recovery (section 3.4): window by window in program order.
//!
//! (1) Recovery counts the BLK-TAGs of each transaction; a transaction is committed if there are as many as its TxCnt says. (2) It goes through the
//! dependency pairs from tail to head: if Tb is committed, n is added to Ta's blocks. (3) After the first uncommitted transaction, all are
//! uncommitted. It writes the committed transactions' blocks home in the order of transactions; then it sets the log head to an empty log.
//!
//! The paper goes through the steps once. That loses data: Ta has counted a block that only Tb has in the log, a transaction between them is not
//! committed, and step 3 revokes Tb after Ta has been found committed. So recovery repeats the steps without the transactions that step 3 revokes,
//! until it revokes none.
//!
//! *Remains of one life never complete a window of another.* A group is valid by its sequence ID, which is in its metadata line and which no two
//! lives use: the head moves past every ID that a group of this life can have been given, and the next life begins there (`LooseOrdering::start`).
//! The head is one line with a checksum, so a failure leaves either the old head, and recovery is repeated, or the new one. TxIDs and window numbers,
//! which are short and do recur, are read only in valid groups.
//!
//! Only the last window can be incomplete, since a window begins when the previous one is durable. In an earlier window the last transaction may lack
//! its TxCnt: an aborted one with blocks in the log ends its window (`mod.rs`).

use super::format::{BlockTag, GROUP_DATA, GROUP_LINES, Head, Kind, Pair, Places, RUNNING, decode_pairs};
use super::{Commit, Rule};
use crate::numbers::LineNumber;
use crate::scheme::Setup;

/// A transaction of a window.
#[derive(Clone, Debug, Default)]
struct Logged {
    /// The home and the place in the log of each block, in the order of the log.
    blocks: Vec<(LineNumber, usize)>,
    /// Its TxCnt, if not 0.
    count: u64,
    /// True if its commit record is there.
    record: bool,
}

/// A speculation window in the log.
#[derive(Default)]
struct Window {
    number: u8,
    /// The transactions, by TxID relative to the window's first.
    transactions: Vec<Logged>,
    pairs: Vec<Pair>,
}

/// Returns the windows in the valid log, and the first sequence ID after it.
fn windows(area: &[u64], head: Head) -> (Vec<(u8, Window)>, u64) {
    let places = Places::of(8 * area.len() as u64);
    let mut windows: Vec<(u8, Window)> = Vec::new();
    let (mut first, mut end) = (head.first, head.start);
    for sid in head.start..head.start + places.most() {
        let line = 8 * places.line(sid) as usize;
        let meta = &area[line + 8 * GROUP_DATA..][..8];
        if meta[0] != sid + 1 {
            continue;
        }
        end = sid + 1;
        for (slot, tag) in meta[1..].iter().map(|&word| BlockTag::decode(word)).enumerate() {
            if tag.kind == Kind::Empty {
                continue;
            }
            if windows.last().is_none_or(|(_, window)| window.number != tag.window) {
                if let Some((_, last)) = windows.last() {
                    first = first.wrapping_add(last.transactions.len() as u8);
                }
                windows.push((first, Window { number: tag.window, ..Window::default() }));
            }
            let Some((first, window)) = windows.last_mut() else { continue };
            let place = line + 8 * slot;
            if tag.kind == Kind::Pairs {
                window.pairs.extend(decode_pairs(&area[place..place + 8], tag.tx_cnt.into()));
                continue;
            }
            let number = usize::from(tag.tx_id.wrapping_sub(*first));
            if number >= RUNNING as usize {
                continue;
            }
            if window.transactions.len() <= number {
                window.transactions.resize(number + 1, Logged::default());
            }
            let transaction = &mut window.transactions[number];
            if tag.kind == Kind::Record {
                transaction.record = true;
            } else {
                transaction.blocks.push((tag.addr, place));
                transaction.count = transaction.count.max(tag.tx_cnt.into());
            }
        }
    }
    (windows, end)
}

impl Window {
    /// Returns whether each transaction is committed, in the order in which they committed: steps 1 to 3.
    fn committed(&self, first: u8, commit: Commit, setup: &Setup<'_>) -> Vec<bool> {
        // Transactions from here on are not committed, and their blocks do not count.
        let mut end = self.transactions.len();
        loop {
            let mut is_committed = match commit {
                Commit::Record => self.transactions.iter().map(|transaction| transaction.record).collect(),
                Commit::Count => self.counted(first, end, setup),
            };
            let stop = is_committed.iter().position(|&committed| !committed).unwrap_or(end);
            if stop >= end || setup.omits(Rule::InOrder.name()) {
                return is_committed;
            }
            if setup.omits(Rule::Recount.name()) {
                is_committed[stop..].fill(false);
                return is_committed;
            }
            end = stop;
        }
    }

    /// Returns whether each transaction is committed by itself if none from `end` on is: steps 1 and 2.
    fn counted(&self, first: u8, end: usize, setup: &Setup<'_>) -> Vec<bool> {
        let mut overlapped = vec![0; self.transactions.len()];
        let mut counts: Vec<u64> = self.transactions.iter().map(|transaction| transaction.count).collect();
        let is_committed = |number: usize, counts: &[u64], overlapped: &[u64]| {
            let found = self.transactions[number].blocks.len() as u64 + overlapped[number];
            number < end && counts[number] > 0 && (found == counts[number] || setup.omits(Rule::TxCnt.name()))
        };
        let reverse = !setup.omits(Rule::PairOrder.name());
        for i in 0..self.pairs.len() {
            let pair = self.pairs[if reverse { self.pairs.len() - 1 - i } else { i }];
            let earlier = usize::from(pair.earlier.wrapping_sub(first));
            let later = usize::from(pair.later.wrapping_sub(first));
            if earlier >= counts.len() || later >= counts.len() {
                continue;
            }
            if earlier == later {
                counts[earlier] = pair.count.into();
            } else if is_committed(later, &counts, &overlapped) || setup.omits(Rule::PairCommit.name()) {
                overlapped[earlier] += u64::from(pair.count);
            }
        }
        (0..counts.len()).map(|number| is_committed(number, &counts, &overlapped)).collect()
    }
}

/// Repairs the pool from the log area. Anything that is not a log counts as an empty one.
pub fn recover(commit: Commit, setup: &Setup<'_>, pool: &mut [u64], area: &mut [u64]) -> Result<(), String> {
    if area.len() < 8 * (super::format::HEADS as usize + 3 * GROUP_LINES) {
        return Err(format!("a log area of {} words holds no log", area.len()));
    }
    let head = Head::newest(area);
    let (windows, end) = windows(area, head);
    let last = windows.len().saturating_sub(1);
    let mut next = head.first;
    for (number, (first, window)) in windows.iter().enumerate() {
        let is_committed = window.committed(*first, commit, setup);
        let stop = is_committed.iter().position(|&committed| !committed);
        for (transaction, is_committed) in window.transactions.iter().zip(is_committed) {
            for &(home, place) in transaction.blocks.iter().filter(|_| is_committed) {
                let to = home.first_word();
                if to + 8 > pool.len() {
                    return Err(format!("the log has a block for line {home}, behind the pool's end"));
                }
                pool[to..to + 8].copy_from_slice(&area[place..place + 8]);
            }
        }
        next = first.wrapping_add(window.transactions.len() as u8);
        if stop.is_some() && number < last && stop != Some(window.transactions.len() - 1) {
            return Err(format!("window {number} of {} is incomplete, and another follows", last + 1));
        }
    }
    if setup.omits(Rule::LifeStart.name()) {
        return Ok(());
    }
    // The head moves past all IDs that groups of this life can have been given, including groups without metadata.
    let head =
        Head { epoch: head.epoch + 1, start: end + Places::of(8 * area.len() as u64).most(), first: next };
    area[8 * head.line() as usize..][..8].copy_from_slice(&head.encode());
    Ok(())
}
