//! `tpcc-new-order-arrays`: New Order on tables that are arrays, as in a C program written for the experiment (Deferred Commit, section 7.1; the
//! authors' own program is public). Rows are found by their numbers, so that the transaction does little besides its stores.
//!
//! ```text
//! directory   an array: 0 populated · 1 warehouses · 2 districts of each · 3 items
//!             4 address of the warehouses · 5 of the items · 6 of the stock · 7.. of each district's block
//! block       the district's row, then the rows of its last 32 orders: order and new order
//! ```
//!
//! As in that program, items are drawn evenly and all exist, neither customers nor order lines are stored, and the locks are the district's and each
//! stock row's. An order overwrites the one 32 before it.

use fastrand::Rng;
use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Abort, Read, Runner, Transaction};
use strandline_core::{Lock, Result};
use strandline_structures::Array;

use super::database::Scale;
use super::new_order::{Input, STOCK_BYTES, STOCK_COUNTS, new_order_row, order_row, restock, total};
use super::population::{SEED, district_row, initial_quantity, item_row, stock_row, warehouse_row};
use super::schema::*;
use crate::rows::Rows;
use crate::{Sizes, Transactions, Workload, WorkloadDescriptor, root};

/// New Order on arrays.
pub static TPCC_NEW_ORDER_ARRAYS: WorkloadDescriptor = WorkloadDescriptor {
    name: "tpcc-new-order-arrays",
    source: "TPC-C 5.11; Deferred Commit, 7.1",
    description: "enters an order of 5 to 15 lines: tables are arrays, without customers and order lines",
    takes: &[],
    make: |sizes| Ok(Box::new(TpccNewOrderArraysWorkload::new(sizes)?)),
    by_types: None,
    checked: None,
};

/// The number of orders that a district keeps.
const KEPT: u64 = 32;
const ORDER_WORDS: usize = order::WORDS + new_order::WORDS;
const BLOCK_WORDS: usize = district::WORDS + KEPT as usize * ORDER_WORDS;

const POPULATED: u64 = 0;
const FIRST_ADDRESS: u64 = 4;
const FIRST_BLOCK: u64 = FIRST_ADDRESS + 3;

/// The workload.
pub struct TpccNewOrderArraysWorkload {
    scale: Scale,
}

/// The tables.
struct Tables {
    scale: Scale,
    warehouse: Rows,
    item: Rows,
    stock: Rows,
    /// The block of each district.
    blocks: Vec<PersistentAddress>,
}

/// One thread that enters orders.
pub struct Terminal {
    tables: Tables,
    warehouse: u64,
    random: Rng,
    orders: u64,
    locks: Vec<Lock>,
}

/// Returns the address of a district's order number `order` in its block.
fn order_at(block: PersistentAddress, order: u64) -> PersistentAddress {
    block.word((district::WORDS + (order % KEPT) as usize * ORDER_WORDS) as u64)
}

impl Tables {
    fn open(tx: &mut impl Read, root: PersistentAddress, scale: Scale) -> Result<Self, Abort> {
        let directory = Array::<u64>::open(tx, root)?;
        let expected = [1, scale.warehouses, scale.districts, scale.items];
        for (index, expected) in (0..).zip(expected) {
            if directory.get(tx, index)? != expected {
                return Err(tx.fail(if index == POPULATED {
                    Error::Incomplete { what: "TPC-C database", root: root.offset() }
                } else {
                    Error::WrongStructure { what: "TPC-C database", root: root.offset() }
                }));
            }
        }
        let mut address = |index| Ok(PersistentAddress::new(directory.get(tx, index)?));
        Ok(Self {
            scale,
            warehouse: Rows::new(address(FIRST_ADDRESS)?, warehouse::WORDS),
            item: Rows::new(address(FIRST_ADDRESS + 1)?, item::WORDS),
            stock: Rows::new(address(FIRST_ADDRESS + 2)?, stock::WORDS),
            blocks: (0..scale.warehouses * scale.districts)
                .map(|district| address(FIRST_BLOCK + district))
                .collect::<Result<_, Abort>>()?,
        })
    }

    fn district(&self, warehouse: u64, district: u64) -> u64 {
        (warehouse - 1) * self.scale.districts + district - 1
    }

    fn stock_row(&self, warehouse: u64, item: u64) -> PersistentAddress {
        self.stock.at((warehouse - 1) * self.scale.items + item - 1)
    }
}

/// Runs New Order. Returns the cost of the order in cents.
///
/// # Errors
/// As for [`Transaction::write`].
fn new_order(tables: &Tables, tx: &mut impl Transaction, input: &Input) -> Result<u64, Abort> {
    let Input { warehouse: w, district: d, .. } = *input;
    let mut row = [0; warehouse::WORDS];
    warehouse::W_TAX.read(tx, tables.warehouse.at(w - 1), &mut row)?;
    let warehouse_tax = warehouse::W_TAX.number(&row);

    let block = tables.blocks[tables.district(w, d) as usize];
    let mut row = [0; district::WORDS];
    district::D_TAX.read(tx, block, &mut row)?;
    district::D_NEXT_O_ID.read(tx, block, &mut row)?;
    let order = district::D_NEXT_O_ID.number(&row);
    if order >= u64::from(u32::MAX) {
        return Err(tx.fail(Error::Parameter("a district has run out of order numbers".into())));
    }
    district::D_NEXT_O_ID.set_number(&mut row, order + 1);
    let district_tax = district::D_TAX.number(&row);
    let words = district::D_NEXT_O_ID.words();
    tx.write_range(block.word(words.start as u64), &row[words])?;

    let at = order_at(block, order);
    tx.write_range(at, &order_row(input, order))?;
    tx.write_range(at.word(order::WORDS as u64), &new_order_row(input, order))?;

    let mut sum = 0;
    for line in input.lines() {
        let mut row = [0; item::WORDS];
        item::I_PRICE.read(tx, tables.item.at(line.item - 1), &mut row)?;
        sum += line.quantity * item::I_PRICE.number(&row);
        let at = tables.stock_row(line.supplier, line.item);
        let mut row = [0; stock::WORDS];
        tx.read_range(at.word(STOCK_COUNTS.start as u64), &mut row[STOCK_COUNTS])?;
        restock(&mut row, input, *line);
        tx.write_range(at.word(STOCK_COUNTS.start as u64), &row[STOCK_COUNTS])?;
    }
    Ok(total(sum, 0, [warehouse_tax, district_tax]))
}

impl TpccNewOrderArraysWorkload {
    /// Creates the workload with these sizes; the number of customers of a district determines the number of its first order.
    ///
    /// # Errors
    /// Returns an error if the scale is impossible.
    pub fn new(sizes: &Sizes) -> Result<Self> {
        sizes.tpcc.check()?;
        Ok(Self { scale: sizes.tpcc })
    }

    fn tables<R: Runner>(&self, runner: &mut R) -> Result<Tables> {
        let root = root(runner)?;
        runner.view(|tx| Tables::open(tx, root, self.scale))
    }
}

impl Workload for TpccNewOrderArraysWorkload {
    type Thread = Terminal;

    fn heap_bytes(&self) -> u64 {
        let Scale { warehouses, districts, items, .. } = self.scale;
        let words = warehouses * warehouse::WORDS as u64
            + items * item::WORDS as u64
            + warehouses * items * stock::WORDS as u64
            + warehouses * districts * 2 * BLOCK_WORDS as u64;
        // The blocks of each district are in a chunk of their own.
        8 * words + (warehouses * districts + 8) * (256 << 10)
    }

    fn prepare<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let root = root(runner)?;
        let scale = self.scale;
        let Scale { warehouses, districts, items, customers, .. } = scale;
        let first = [0, warehouses, districts, items];
        let directory = Array::<u64>::create(runner, root, FIRST_BLOCK + warehouses * districts, |index| {
            first.get(index as usize).copied().unwrap_or(0)
        })?;
        if runner.view(|tx| directory.get(tx, POPULATED))? == 1 {
            return Ok(());
        }
        let address = |runner: &mut R, index| runner.view(|tx| directory.address(tx, index));
        let mut random = Rng::with_seed(SEED);
        let rows: Vec<_> = (1..=warehouses).map(|w| warehouse_row(&mut random, w, scale)).collect();
        let home = address(runner, FIRST_ADDRESS)?;
        Rows::create(runner, home, rows.into_iter())?;
        let rows: Vec<_> = (1..=items).map(|i| item_row(&mut random, i)).collect();
        let home = address(runner, FIRST_ADDRESS + 1)?;
        Rows::create(runner, home, rows.into_iter())?;
        let rows: Vec<_> = (1..=warehouses).flat_map(|w| (1..=items).map(move |i| stock_row(w, i))).collect();
        let home = address(runner, FIRST_ADDRESS + 2)?;
        Rows::create(runner, home, rows.into_iter())?;
        for (index, (w, d)) in (0..).zip(scale.all_districts()) {
            let mut block = [0; BLOCK_WORDS];
            block[..district::WORDS].copy_from_slice(&district_row(&mut random, w, d, customers));
            let home = address(runner, FIRST_BLOCK + index)?;
            runner.run_locked(&[Lock::Region(index as u32), Lock::word(home)], |tx| {
                let at = match tx.read(home)? {
                    0 => tx.alloc(8 * BLOCK_WORDS as u64)?,
                    at => PersistentAddress::new(at),
                };
                tx.write_range(at, &block)?;
                tx.write(home, at.offset())
            })?;
        }
        runner.run(|tx| directory.set(tx, POPULATED, 1))
    }

    fn thread<R: Runner>(&self, runner: &mut R, seed: u64) -> Result<Terminal> {
        let tables = self.tables(runner)?;
        let mut random = Rng::with_seed(seed);
        let warehouse = random.u64(1..=self.scale.warehouses);
        Ok(Terminal { tables, warehouse, random, orders: 0, locks: Vec::new() })
    }

    /// Checks that each district's last orders are there, once and in order, and that stock has decreased by what was ordered.
    fn check<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let tables = self.tables(runner)?;
        let scale = self.scale;
        let damaged = |what: String| Err(Error::damaged(format!("TPC-C on arrays: {what}")));
        let (mut entered, mut lines, mut all_there) = (0, 0, true);
        for (w, d) in scale.all_districts() {
            let block = tables.blocks[tables.district(w, d) as usize];
            let mut rows = [0; BLOCK_WORDS];
            runner.view(|tx| tx.read_range(block, &mut rows))?;
            let next = district::D_NEXT_O_ID.number(&rows);
            let first = (scale.customers + 1).max(next.saturating_sub(KEPT));
            all_there &= first == scale.customers + 1;
            entered += next - (scale.customers + 1);
            for number in first..next {
                let row =
                    &rows[(order_at(block, number).offset() - block.offset()) as usize / 8..][..ORDER_WORDS];
                let ids = [order::O_W_ID, order::O_D_ID, order::O_ID].map(|id| id.number(row));
                let new = &row[order::WORDS..];
                let new_ids =
                    [new_order::NO_W_ID, new_order::NO_D_ID, new_order::NO_O_ID].map(|id| id.number(new));
                if ids != [w, d, number] || new_ids != ids {
                    return damaged(format!("order {number} of district {d} is {ids:?} and {new_ids:?}"));
                }
                lines += order::O_OL_CNT.number(row);
            }
        }
        let mut given = 0;
        for (w, i) in (1..=scale.warehouses).flat_map(|w| (1..=scale.items).map(move |i| (w, i))) {
            let at = tables.stock_row(w, i);
            let mut row = [0; stock::WORDS];
            runner.view(|tx| tx.read_range(at.word(STOCK_COUNTS.start as u64), &mut row[STOCK_COUNTS]))?;
            let (left, taken) = (stock::S_QUANTITY.number(&row), stock::S_YTD.number(&row));
            given += stock::S_ORDER_CNT.number(&row);
            // Stock is replenished by 91.
            if !(left + taken).abs_diff(initial_quantity(w, i)).is_multiple_of(91) {
                return damaged(format!("stock of item {i}: {left} left, {taken} taken"));
            }
        }
        let fits = if all_there {
            given == lines
        } else {
            given >= lines && (5 * entered..=15 * entered).contains(&given)
        };
        if !fits {
            return damaged(format!(
                "{given} lines taken from stock, {lines} in the last of {entered} orders"
            ));
        }
        Ok(())
    }
}

impl Transactions for Terminal {
    fn transaction<R: Runner>(&mut self, runner: &mut R) -> Result<()> {
        let Self { tables, warehouse, random, orders, locks } = self;
        let scale = tables.scale;
        let district = Input::draw_district(random, &scale);
        let input = Input::draw_evenly(random, &scale, (*warehouse, district), *orders);
        *orders += 1;
        locks.clear();
        locks.push(Lock::Region(tables.district(*warehouse, district) as u32));
        locks.extend(
            input.lines().iter().map(|line| Lock::Range {
                at: tables.stock_row(line.supplier, line.item),
                bytes: STOCK_BYTES,
            }),
        );
        runner.run_locked(locks, |tx| new_order(tables, tx, &input)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use strandline_core::file::{Options, Pool};
    use strandline_core::layout::Geometry;

    use super::*;

    #[test]
    fn an_order_is_entered_and_damage_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            geometry: Geometry { size: 16 << 20, logs: 2, log_bytes: 64 << 10, chunk_bytes: 64 << 10 },
            domain: strandline_core::Domain::Process,
            ..Options::default()
        };
        let pool = Pool::create(folder.path().join("pool"), &options).unwrap();
        let mut worker = pool.worker().unwrap();
        let workload = TpccNewOrderArraysWorkload::new(&Sizes::small()).unwrap();
        workload.prepare(&mut worker).unwrap();
        workload.prepare(&mut worker).unwrap();
        workload.check(&mut worker).unwrap();
        let tables = workload.tables(&mut worker).unwrap();
        let mut random = Rng::with_seed(5);
        let scale = workload.scale;
        // More orders than a district keeps.
        for number in 0..3 * KEPT {
            let input = Input::draw_evenly(&mut random, &scale, (2, 3), number);
            let stock = |worker: &mut _| {
                let mut row = [0; stock::WORDS];
                let at = tables.stock_row(2, input.lines()[0].item);
                Runner::view(worker, |tx: &mut strandline_core::engine::Tx<_>| tx.read_range(at, &mut row))
                    .unwrap();
                [stock::S_YTD, stock::S_ORDER_CNT].map(|column| column.number(&row))
            };
            let [taken, orders] = stock(&mut worker);
            let cents = worker.run(|tx| new_order(&tables, tx, &input)).unwrap();
            assert!(cents >= 100 * input.lines().len() as u64);
            assert_eq!(stock(&mut worker), [taken + input.lines()[0].quantity, orders + 1]);
            workload.check(&mut worker).unwrap();
        }

        let block = tables.blocks[tables.district(2, 3) as usize];
        let last = scale.customers + 3 * KEPT;
        let flip = |worker: &mut _, at: PersistentAddress| {
            let flip = |tx: &mut strandline_core::engine::Tx<_>| {
                let word = tx.read(at)?;
                tx.write(at, word ^ 1)
            };
            Runner::run(worker, flip).unwrap();
        };
        for (at, what) in [
            (order_at(block, last), format!("order {last} of district 3")),
            (
                tables.stock_row(1, 4).word(stock::S_QUANTITY.words().start as u64),
                "stock of item 4".to_owned(),
            ),
        ] {
            flip(&mut worker, at);
            let error = workload.check(&mut worker).unwrap_err().to_string();
            assert!(error.contains(&what), "{error}");
            flip(&mut worker, at);
            workload.check(&mut worker).unwrap();
        }
    }
}
