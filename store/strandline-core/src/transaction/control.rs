//! How transactions are isolated.

/// How transactions are isolated from one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// Word-based software transactional memory: encounter-time locking, write-back, timestamp extension,
    /// as in TinySTM. Transactions that touch different lines run in parallel.
    #[default]
    Stm,
    /// One writer at a time, no read set, no lock table; readers validate against a sequence.
    SingleWriter,
    /// Mutual exclusion by locks, all of them held until the transaction has stored its data: those of the
    /// lock set that it declares, taken in order, or else those of what it touches.
    Locks,
}
