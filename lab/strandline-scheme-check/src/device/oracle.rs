//! The oracle: after recovery the data must be those of a prefix of the TxID order. The prefix must hold everything that was acknowledged, and
//! everything that an acknowledged reader saw.

use std::collections::{HashMap, HashSet};

use strandline_core::heap;
use strandline_core::layout::{Layout, PAGE_BYTES};
use strandline_core::memory::PersistentAddress;

use super::transactions::FIRST_VALUE;
use super::world::{Committed, DeviceWorld};

/// The number of words that are compared at a time.
const PAGE_WORDS: usize = (PAGE_BYTES / 8) as usize;

/// The expected data.
#[derive(Clone)]
pub(super) struct Oracle {
    layout: Layout,
    /// The pool's words as of the last recovery.
    words: Vec<u64>,
    /// The highest TxID in these words.
    watermark: u64,
    /// The last life's transactions, and which of them must have survived.
    history: Vec<Committed>,
    acknowledged: u64,
    seen: Vec<u64>,
    /// Words that large transactions stored to.
    scratch: HashSet<u64>,
}

impl Oracle {
    pub fn new(layout: Layout) -> Self {
        let (history, seen, scratch) = Default::default();
        let words = vec![0; (layout.geometry.size / 8) as usize];
        Self { layout, words, watermark: 0, history, acknowledged: 0, seen, scratch }
    }

    /// Accepts any prefix from now on, whatever was acknowledged.
    pub fn forgive(&mut self) {
        self.acknowledged = 0;
        self.seen.clear();
    }

    /// Returns the highest recovered TxID.
    pub fn watermark(&self) -> u64 {
        self.watermark
    }

    /// Notes that a life has ended in which readers returned the values `seen`; returns how many transactions committed.
    pub fn lived(&mut self, world: &DeviceWorld, seen: Vec<u64>) -> u64 {
        self.history = world.take_history();
        self.history.sort_unstable();
        self.acknowledged = self.acknowledged.max(world.acknowledged());
        self.seen = seen;
        self.scratch.extend(world.take_scratch());
        self.history.len() as u64
    }

    /// Returns whether the word at `at` is in free memory, so that recovery may leave anything there.
    fn is_free(&self, at: u64) -> bool {
        !heap::is_used(&self.layout, PersistentAddress::new(at), |word| {
            self.words[(word.offset() / 8) as usize]
        })
    }

    /// Returns the numbers of the heap's data words that differ from the oracle's.
    fn differing(&self, contents: &[u64]) -> Vec<usize> {
        let word = |at: PersistentAddress| (at.offset() / 8) as usize;
        let (first, end) = (word(self.layout.data), word(self.layout.end()));
        let pages = (first..end).step_by(PAGE_WORDS).map(|page| page..end.min(page + PAGE_WORDS));
        pages
            .filter(|page| contents[page.clone()] != self.words[page.clone()])
            .flatten()
            .filter(|&word| contents[word] != self.words[word])
            .collect()
    }

    /// Checks that the world's data are a prefix that holds everything it must; they become the base for later checks.
    ///
    /// # Errors
    /// Returns what is wrong.
    pub fn judge(&mut self, world: &DeviceWorld, watermark: u64) -> Result<(), String> {
        let history = std::mem::take(&mut self.history);
        if watermark < self.acknowledged {
            return Err(format!(
                "transaction {} was acknowledged, recovered up to {watermark}",
                self.acknowledged
            ));
        }
        if !self.seen.is_empty() {
            // Other values are written more than once.
            let unique = |value: &u64| (FIRST_VALUE..1 << 63).contains(value);
            // The journal of a large transaction holds words that others have written, too.
            let mut source: HashMap<u64, u64> =
                self.words.iter().filter(|value| unique(value)).map(|&value| (value, 0)).collect();
            for (id, writes) in &history {
                for &(_, value) in writes.iter().filter(|(_, value)| unique(value)) {
                    source.entry(value).or_insert(*id);
                }
            }
            for value in self.seen.drain(..) {
                if let Some(&id) = source.get(&value)
                    && id > watermark
                {
                    return Err(format!("transaction {id} was read from, recovered up to {watermark}"));
                }
            }
        }
        for (id, writes) in history {
            if id <= watermark {
                if id != self.watermark + 1 {
                    return Err(format!("transaction {id} follows {}", self.watermark));
                }
                self.watermark = id;
                for (at, value) in writes {
                    self.words[(at / 8) as usize] = value;
                }
            }
        }
        if watermark != self.watermark {
            return Err(format!("recovered up to {watermark}, which nobody committed"));
        }
        self.acknowledged = watermark;
        let contents = world.words();
        for word in self.differing(&contents) {
            let (at, found, expected) = (8 * word as u64, contents[word], self.words[word]);
            if !(self.scratch.contains(&at) && self.is_free(at)) {
                return Err(format!("at {at:#x}: {found:#x} instead of {expected:#x}"));
            }
            // Large transactions and holes may leave any words in free chunks.
            self.words[word] = found;
        }
        Ok(())
    }
}
