//! The concurrency controls.

/// A concurrency control: the way in which transactions are isolated from one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Concurrency {
    /// Word-based software transactional memory with encounter-time locking, write-back and timestamp extension, as in TinySTM. Transactions on
    /// different lines run in parallel.
    #[default]
    Stm,
    /// One transaction writes at a time, without a read set or lock table. Readers validate against a sequence number.
    SingleWriter,
    /// Mutual exclusion by locks that are held until the transaction has stored its data. A transaction takes the locks that it declares, in their
    /// order, or otherwise those of the words that it accesses.
    Locks,
}
