//! The contents of a database, page by page, so that they can be restored.

use std::rc::Rc;

use strandline_core::layout::View;
use strandline_core::memory::{Memory, Native, PersistentAddress};

use crate::x86::mix;

const PAGE_WORDS: usize = 512;

/// A bit that is set in numbers of contents, and never in transactions' numbers.
pub(crate) const IS_NUMBER: u64 = 1 << 63;

/// A page of a database's heap.
#[derive(Clone)]
struct Page {
    words: [u64; PAGE_WORDS],
    /// A hash of the words; 0 if all words are 0.
    hash: u64,
}

impl Page {
    fn new(words: [u64; PAGE_WORDS]) -> Self {
        let is_zero = words.iter().all(|&word| word == 0);
        let hash = if is_zero { 0 } else { words.iter().copied().fold(3, mix) };
        Self { words, hash }
    }
}

/// The complete contents of a database at one time.
#[derive(Clone)]
pub(crate) struct Contents {
    pages: Vec<Rc<Page>>,
    /// The sum of the pages' hashes, which does not depend on their order.
    sum: u64,
}

fn part(page: usize, hash: u64) -> u64 {
    if hash == 0 { 0 } else { mix(mix(5, page as u64), hash) }
}

impl Contents {
    /// Returns a number for the contents: equal contents have equal numbers.
    pub fn number(&self) -> u64 {
        self.sum | IS_NUMBER
    }

    fn set(&mut self, at: usize, page: Page) {
        let old = std::mem::replace(&mut self.pages[at], Rc::new(page));
        let new = part(at, self.pages[at].hash);
        self.sum = self.sum.wrapping_sub(part(at, old.hash)).wrapping_add(new);
    }
}

/// A database's memory, and its present contents.
pub(crate) struct Heap {
    view: View<Native>,
    zero: Rc<Page>,
    present: Rc<Contents>,
}

impl Heap {
    /// Reads the memory of a pool. No transaction may be running.
    pub fn new(view: View<Native>) -> Self {
        let zero = Rc::new(Page::new([0; PAGE_WORDS]));
        let present = Rc::new(Contents { pages: Vec::new(), sum: 0 });
        let mut heap = Self { view, zero, present };
        heap.look_all_over();
        heap
    }

    /// Returns the present contents.
    pub fn present(&self) -> &Rc<Contents> {
        &self.present
    }

    /// Returns the number of the last transaction.
    pub fn clock(&self) -> u64 {
        self.view.memory.load(strandline_core::layout::SharedLayout::CLOCK)
    }

    fn page(&self, at: usize) -> PersistentAddress {
        self.view.layout.data.word((at * PAGE_WORDS) as u64)
    }

    fn read(&self, at: usize) -> Page {
        let mut words = [0; PAGE_WORDS];
        self.view.memory.load_range(self.page(at), &mut words);
        Page::new(words)
    }

    /// Compares all pages, because any of them may have changed.
    pub fn look_all_over(&mut self) {
        let (layout, memory) = (&self.view.layout, &self.view.memory);
        let end = layout.end_of(memory.load(layout.reached())).offset() - layout.data.offset();
        let pages = (end as usize / 8).div_ceil(PAGE_WORDS).max(self.present.pages.len());
        let mut contents = Contents::clone(&self.present);
        contents.pages.resize(pages, self.zero.clone());
        for at in 0..pages {
            let page = self.read(at);
            if page.words != contents.pages[at].words {
                contents.set(at, page);
            }
        }
        self.present = Rc::new(contents);
    }

    /// Updates the lines that were stored to. Returns whether the contents have changed.
    pub fn stored(&mut self, lines: &[PersistentAddress]) -> bool {
        let data = self.view.layout.data.offset();
        let mut pages: Vec<usize> =
            lines.iter().map(|line| ((line.offset() - data) / 8) as usize / PAGE_WORDS).collect();
        pages.sort_unstable();
        pages.dedup();
        let changed = |at: usize| {
            let page = self.read(at);
            let is_same = self.present.pages.get(at).is_some_and(|before| before.words == page.words);
            (!is_same).then_some((at, page))
        };
        let changed: Vec<_> = pages.into_iter().filter_map(changed).collect();
        let Some(&(last, _)) = changed.last() else { return false };
        let mut contents = Contents::clone(&self.present);
        if last >= contents.pages.len() {
            contents.pages.resize(last + 1, self.zero.clone());
        }
        changed.into_iter().for_each(|(at, page)| contents.set(at, page));
        self.present = Rc::new(contents);
        true
    }

    /// Restores `contents`. No transaction may be running.
    pub fn restore(&mut self, contents: &Rc<Contents>) {
        for at in 0..self.present.pages.len().max(contents.pages.len()) {
            let is = self.present.pages.get(at).unwrap_or(&self.zero);
            let wanted = contents.pages.get(at).unwrap_or(&self.zero);
            if Rc::ptr_eq(is, wanted) {
                continue;
            }
            let words = is.words.iter().zip(&wanted.words).enumerate();
            for (word, (_, &value)) in words.filter(|(_, (is, wanted))| is != wanted) {
                self.view.memory.store(self.page(at).word(word as u64), value);
            }
        }
        self.present = contents.clone();
    }
}
