//! `tpcc-new-order`: the New Order transaction of TPC-C, revision 5.11.
//!
//! The specification's schema ([`schema`]), population ([`population`]), random numbers ([`random`]), input and transaction ([`new_order`]) and
//! consistency conditions ([`consistency`]). It differs from a full TPC-C in several ways. Only New Order runs, without waits between transactions
//! (Deferred Commit, section 7.1; ATOM, section V); on request, one transaction has several orders of one district. A date counts a terminal's
//! orders, since a transaction here reads no clock. A long run cancels its oldest orders ([`Scale::kept_orders`]).

mod arrays;
mod consistency;
mod database;
mod new_order;
mod population;
mod random;
mod schema;

use fastrand::Rng;
use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Abort, Runner, Transaction};
use strandline_core::{Lock, Result};

pub use arrays::TPCC_NEW_ORDER_ARRAYS;
use database::Database;
pub use database::Scale;
use new_order::{Input, cancel_oldest, is_to_be_pruned, new_order};

use crate::{Parameter, Sizes, Transactions, Workload, WorkloadDescriptor, root};

/// TPC-C's New Order: enters an order of 5 to 15 lines.
pub static TPCC_NEW_ORDER: WorkloadDescriptor = WorkloadDescriptor {
    name: "tpcc-new-order",
    source: "TPC-C 5.11; Deferred Commit, 7.1; ATOM, V",
    description: "enters an order of 5 to 15 lines: one warehouse of the specification's size, tables in B+ trees",
    takes: &[Parameter::Operations],
    make: |sizes| Ok(Box::new(TpccNewOrderWorkload::new(sizes)?)),
    by_types: None,
    checked: None,
};

/// The database and its terminals.
pub struct TpccNewOrderWorkload {
    scale: Scale,
    /// The number of orders that a transaction has.
    operations: u64,
}

/// A terminal.
pub struct Terminal {
    database: Database,
    /// The terminal's own warehouse, always the same (clause 2.4.1.1).
    warehouse: u64,
    random: Rng,
    operations: u64,
    /// The number of orders.
    orders: u64,
    /// The inputs of the next transaction, and the numbers that its orders got.
    inputs: Vec<Input>,
    numbers: Vec<u64>,
    /// The addresses of the rows of STOCK, by warehouse and item, for the lock set.
    stock: Vec<PersistentAddress>,
    locks: Vec<Lock>,
}

impl TpccNewOrderWorkload {
    /// Creates the workload with these sizes.
    ///
    /// # Errors
    /// Returns an error if a size does not fit the specification's columns.
    pub fn new(sizes: &Sizes) -> Result<Self> {
        sizes.tpcc.check()?;
        Ok(Self { scale: sizes.tpcc, operations: sizes.operations })
    }

    fn database<R: Runner>(&self, runner: &mut R) -> Result<Database> {
        let root = root(runner)?;
        runner.view(|tx| Database::open(tx, root, self.scale))
    }
}

impl Workload for TpccNewOrderWorkload {
    type Thread = Terminal;

    fn heap_bytes(&self) -> u64 {
        let Scale { warehouses, districts, customers, items, kept_orders } = self.scale;
        // Each term is a number of rows times the size class of a row, plus its entries in indices that are half full.
        let (index, districts) = (48, warehouses * districts);
        let order = 32 + 16 + 10 * 64 + 12 * index;
        let rows = items * (128 + index)
            + warehouses * items * (320 + index)
            + districts * customers * (768 + 64 + 2 * index)
            + districts * (customers + kept_orders + 64) * order;
        rows * 5 / 4 + (1 << 20)
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let database = Database::create(runner, root, self.scale)?;
        if runner.view(|tx| database.is_populated(tx))? {
            return Ok(());
        }
        population::populate(runner, &database)
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Terminal> {
        let database = self.database(runner)?;
        let mut random = Rng::with_seed(seed);
        let warehouse = random.u64(1..=self.scale.warehouses);
        let Scale { warehouses, items, .. } = self.scale;
        let keys = (1..=warehouses).flat_map(|w| (1..=items).map(move |i| database::stock_key(w, i)));
        let stock = database.stock.addresses(runner, keys)?;
        Ok(Terminal {
            database,
            warehouse,
            random,
            operations: self.operations,
            orders: 0,
            inputs: Vec::new(),
            numbers: Vec::new(),
            stock,
            locks: Vec::new(),
        })
    }

    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let database = self.database(runner)?;
        consistency::check(runner, &database)
    }
}

impl Transactions for Terminal {
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        let Self { database, warehouse, random, operations, orders, inputs, numbers, stock, locks } = self;
        inputs.clear();
        // All orders are of one district, whose lock guards the allocations.
        let district = Input::draw_district(random, &database.scale);
        for _ in 0..*operations {
            inputs.push(Input::draw(random, &database.scale, (*warehouse, district), *orders));
            *orders += 1;
        }
        let rolls_back = inputs.iter().any(|input| input.rolls_back(&database.scale));
        // The reference without transactions cannot roll back, so it does not begin such an order.
        let is_in_vain = rolls_back && !runner.rolls_back();
        locks.clear();
        locks.extend(inputs.iter().flat_map(|input| lock_set(database, stock, input)));
        let outcome = runner.run_locked(locks, |tx| {
            if is_in_vain {
                return Err(Abort::User);
            }
            numbers.clear();
            for input in &*inputs {
                numbers.push(new_order(database, tx, input)?.order);
            }
            Ok(())
        });
        match outcome {
            Err(Error::Aborted) if rolls_back => return Ok(()),
            outcome => outcome?,
        }
        for (input, &order) in inputs.iter().zip(&*numbers) {
            if is_to_be_pruned(database, order) {
                let Input { warehouse, district, .. } = *input;
                let lock = database.district_lock(warehouse, district);
                runner.run_locked(&[lock], |tx| {
                    tx.section(lock, |tx| cancel_oldest(database, tx, warehouse, district, order))
                })?;
            }
        }
        Ok(())
    }
}

/// Returns the lock set for New Order's writes: the district with its orders, and the counts of the stock rows. The other data that it reads is never
/// written.
fn lock_set<'a>(
    database: &'a Database,
    stock: &'a [PersistentAddress],
    input: &'a Input,
) -> impl Iterator<Item = Lock> + 'a {
    let items = database.scale.items;
    let lines = input.lines().iter().filter(move |line| line.item <= items);
    let rows = lines.map(move |line| {
        let at = stock[((line.supplier - 1) * items + line.item - 1) as usize];
        Lock::Range { at, bytes: new_order::STOCK_BYTES }
    });
    std::iter::once(database.district_lock(input.warehouse, input.district)).chain(rows)
}

#[cfg(test)]
mod tests;
