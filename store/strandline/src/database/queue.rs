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

    /// Appends an item at the end of the queue.
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
    /// Returns the errors of [`Queue::push`], and those of a [`Table`].
    pub fn push<'p, W: ValueRef<T> + ?Sized>(&self, tx: &Tx<'p, impl Control>, item: &W) -> Result<()> {
        let item = item.encoded();
        self.queue(tx)?.push_encoded(tx, Queue::<T>::node_tag(), item.bytes, item.encode)
    }

    /// Removes the item at the front and returns it, or `None` if the queue is empty.
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

    /// Returns the item at the front without removing it, or `None` if the queue is empty.
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

    /// Returns whether the queue has no items.
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

    /// Returns the number of items, in the same time for a queue of any length. See [`Queue::len`].
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

    /// Returns an iterator over the items, from front to end. See [`Queue::iter`].
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

    /// Checks the queue by its type, and returns a list of problems. The list is empty if there are none.
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
