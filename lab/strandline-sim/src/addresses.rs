//! The addresses by which caches and memory controllers map lines.
//!
//! Memory stores its lines contiguously, so that a sparse address space fits. The set, channel, bank and row of a line follow from its address in the
//! program that ran.

use std::rc::Rc;

use crate::description::LINE_BYTES;
use crate::numbers::LineNumber;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// Lines of a page.
pub const PAGE_LINES: u64 = PAGE_BYTES / LINE_BYTES;

/// The address of each line of memory, in units of lines. Without a page table it is the line's number.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    table: Option<Rc<Table>>,
}

#[derive(Debug)]
struct Table {
    /// For each page of the pool its number in the program's address space.
    pool: Vec<u64>,
    /// For each page of volatile memory its number in the program's address space.
    volatile: Vec<u64>,
    /// The first reserved line, after the pool's.
    pool_end: LineNumber,
    /// The first volatile line.
    volatile_line: LineNumber,
    /// The line after the program's last page.
    end: u64,
}

impl Addresses {
    /// Places the pages of the pool, whose lines end at `pool_end`, and those of volatile memory, which begin at `volatile_line`, at these page
    /// numbers. The lines between the two are the hardware scheme's; their addresses follow all others.
    pub fn of_pages(pool: &[u64], volatile: &[u64], pool_end: LineNumber, volatile_line: LineNumber) -> Self {
        let last = pool.iter().chain(volatile).max();
        let end = last.map_or(0, |last| (last + 1) * PAGE_LINES);
        let (pool, volatile) = (pool.to_vec(), volatile.to_vec());
        Self { table: Some(Rc::new(Table { pool, volatile, pool_end, volatile_line, end })) }
    }

    /// Returns the address of a line, in units of lines. Numbers beyond memory are their own addresses.
    pub fn of(&self, line: LineNumber) -> u64 {
        match &self.table {
            None => line.number().into(),
            Some(table) => table.of(line),
        }
    }

    /// Returns the line after the last address of the program; `None` without a page table.
    pub fn end(&self) -> Option<u64> {
        self.table.as_ref().map(|table| table.end)
    }
}

impl Table {
    fn of(&self, line: LineNumber) -> u64 {
        let (pages, first) = if line < self.pool_end {
            (&self.pool, LineNumber::default())
        } else if line < self.volatile_line {
            return self.end + u64::from(line - self.pool_end);
        } else {
            (&self.volatile, self.volatile_line)
        };
        let index = u64::from(line - first);
        let page = pages.get((index / PAGE_LINES) as usize);
        page.map_or(line.number().into(), |page| page * PAGE_LINES + index % PAGE_LINES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lie_where_their_pages_do() {
        let lines = |numbers: &[u32], addresses: &Addresses| -> Vec<u64> {
            numbers.iter().map(|&line| addresses.of(LineNumber::new(line))).collect()
        };
        let numbers = [0, 63, 64, 65, 127, 128, 129, 130, 131, 194, 195, 1 << 31];
        let plain = Addresses::default();
        assert_eq!(lines(&numbers, &plain), numbers.map(u64::from));
        assert_eq!(plain.end(), None);
        // Two pages of the pool, three reserved lines, and a page of volatile memory.
        let [pool_end, volatile_line] = [128, 131].map(LineNumber::new);
        let placed = Addresses::of_pages(&[9, 7], &[1 << 40], pool_end, volatile_line);
        let (end, volatile) = (((1 << 40) + 1) * 64, (1 << 40) * 64);
        let expected =
            [576, 639, 448, 449, 511, end, end + 1, end + 2, volatile, volatile + 63, 195, 1 << 31];
        assert_eq!(lines(&numbers, &placed), expected);
        assert_eq!(placed.end(), Some(end));
    }
}
