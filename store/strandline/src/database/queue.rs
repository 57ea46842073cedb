//! Named queues of a database.

use std::marker::PhantomData;

#[cfg(doc)]
use super::table::Table;
use super::table::{Handle, named};
use super::value_ref::{Value, ValueRef};
use crate::collections::queue::{Iter, Queue};
use crate::value::transaction::{Control, Tx, View};
use strandline_core::error::Result;

named! {
    /// A named queue of a [`Database`](crate::Database): first in, first out.
    ///
    /// ```
    /// use strandline::Database;
    ///
    /// let db = Database::in_memory()?;
    /// let jobs = db.queue::<String>("jobs")?;
    /// db.write(|tx| jobs.push(tx, "report"))?;
    /// assert_eq!(db.write(|tx| jobs.pop(tx))?.as_deref(), Some("report"));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    QueueTable<T>
}

impl<T: Value> QueueTable<T> {
    fn queue<'p>(&self, tx: &View<'p, impl Control>) -> Result<Queue<'p, T>> {
        let queue = Queue::of(self.handle.at);
        self.handle.check(tx, queue.number())?;
        Ok(queue)
    }

    /// Puts an item at the end.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let jobs = db.queue::<String>("jobs")?;
    /// db.write(|tx| jobs.push(tx, "report"))?;
    /// assert_eq!(db.read(|tx| jobs.front(tx))?.as_deref(), Some("report"));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Queue::push`], and those of a [`Table`].
    pub fn push<'p, W: ValueRef<T> + ?Sized>(&self, tx: &Tx<'p, impl Control>, item: &W) -> Result<()> {
        let item = item.encoded();
        self.queue(tx)?.push_encoded(tx, Queue::<T>::node_tag(), item.bytes, item.encode)
    }

    /// Takes the item at the front, if there is one.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let jobs = db.queue::<String>("jobs")?;
    /// db.write(|tx| jobs.push(tx, "report"))?;
    /// assert_eq!(db.write(|tx| jobs.pop(tx))?.as_deref(), Some("report"));
    /// assert_eq!(db.write(|tx| jobs.pop(tx))?, None);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`QueueTable::push`].
    pub fn pop<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<Option<T>> {
        self.queue(tx)?.pop(tx)
    }

    /// The item at the front, which stays.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let jobs = db.queue::<String>("jobs")?;
    /// db.write(|tx| jobs.push(tx, "report"))?;
    /// assert_eq!(db.read(|tx| jobs.front(tx))?.as_deref(), Some("report"));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn front<'p>(&self, tx: &View<'p, impl Control>) -> Result<Option<T>> {
        self.queue(tx)?.front(tx)
    }

    /// Returns whether there are no items.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let jobs = db.queue::<String>("jobs")?;
    /// db.write(|tx| jobs.push(tx, "report"))?;
    /// assert!(!db.read(|tx| jobs.is_empty(tx))?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn is_empty<'p>(&self, tx: &View<'p, impl Control>) -> Result<bool> {
        self.queue(tx)?.is_empty(tx)
    }

    /// Number of items, at the same cost for a queue of any length: [`Queue::len`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let jobs = db.queue::<String>("jobs")?;
    /// db.write(|tx| jobs.push(tx, "report"))?;
    /// assert_eq!(db.read(|tx| jobs.len(tx))?, 1);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn len<'p>(&self, tx: &View<'p, impl Control>) -> Result<u64> {
        self.queue(tx)?.len(tx)
    }

    /// The items, from front to end: [`Queue::iter`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let jobs = db.queue::<String>("jobs")?;
    /// db.write(|tx| jobs.push(tx, "report"))?;
    /// let waiting: Vec<String> = db.read(|tx| jobs.iter(tx)?.collect())?;
    /// assert_eq!(waiting, ["report"]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn iter<'v, 'p, C: Control>(&self, tx: &'v View<'p, C>) -> Result<Iter<'v, 'p, T, C>> {
        self.queue(tx)?.iter(tx)
    }

    /// Removes all items.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let jobs = db.queue::<String>("jobs")?;
    /// db.write(|tx| jobs.push(tx, "report"))?;
    /// db.write(|tx| jobs.clear(tx))?;
    /// assert!(db.read(|tx| jobs.is_empty(tx))?);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`QueueTable::push`].
    pub fn clear<'p>(&self, tx: &Tx<'p, impl Control>) -> Result<()> {
        self.queue(tx)?.clear(tx)
    }

    /// Looks the queue over for damage, by its type: what is wrong, and nothing if all is well.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let jobs = db.queue::<String>("jobs")?;
    /// db.write(|tx| jobs.push(tx, "report"))?;
    /// assert!(db.read(|tx| jobs.check(tx))?.is_empty());
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn check<'p>(&self, tx: &View<'p, impl Control>) -> Result<Vec<String>> {
        self.queue(tx)?.check(tx)
    }
}
