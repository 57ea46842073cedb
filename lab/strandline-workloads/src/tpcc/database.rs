//! The database: its scale, its keys, and the roots of its tables.
//!
//! ```text
//! directory   an array: 0 populated · 1 warehouses · 2 districts of each · 3 customers of each · 4 items
//!             5.. roots: warehouse, district, customer, history, item, stock,
//!             then order, new_order and order_line of each district
//! ```
//!
//! Every table is a B+ tree (ATOM, section V). Those that New Order inserts into have one tree for each district, so that terminals of different
//! districts do not conflict. A district is a region: one lock covers its row and those trees with their rows.

use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::BPlusTree;
use strandline_core::transaction::{Abort, Read, Runner};
use strandline_core::{Lock, Result, Transaction};
use strandline_structures::Array;

use crate::table::{SHAPE, Table, Tree};

/// The size of a database. Clause 4.3.3.1 specifies 10 districts, 3,000 customers, 100,000 items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The number of warehouses, the scale factor.
    pub warehouses: u64,
    /// The number of districts of a warehouse, at most 10: a stock row has a text for each.
    pub districts: u64,
    /// The number of customers of a district. Each has one order initially; seven in ten orders are delivered.
    pub customers: u64,
    /// The number of items.
    pub items: u64,
    /// The number of undelivered orders that a district keeps. New Order delivers nothing, so a run would fill any pool; separate transactions cancel
    /// the oldest orders beyond this number.
    pub kept_orders: u64,
}

impl Default for Scale {
    /// Returns one warehouse of the specification's size.
    fn default() -> Self {
        Self { warehouses: 1, districts: 10, customers: 3000, items: 100_000, kept_orders: 12_000 }
    }
}

impl Scale {
    /// Returns a database for tests, which takes milliseconds to fill.
    pub fn small() -> Self {
        Self { warehouses: 2, districts: 3, customers: 30, items: 200, kept_orders: 100 }
    }

    /// Refuses numbers that do not fit their columns and keys.
    ///
    /// # Errors
    /// Returns an error if one does not fit.
    pub fn check(&self) -> Result<()> {
        let is_possible = (1..=1 << 16).contains(&self.warehouses)
            && (1..=10).contains(&self.districts)
            && (1..=1 << 20).contains(&self.customers)
            && (1..1 << 24).contains(&self.items)
            && (1..=1 << 31).contains(&self.kept_orders);
        if is_possible {
            return Ok(());
        }
        Err(Error::Parameter(format!(
            "TPC-C takes 1 to 65536 warehouses of 1 to 10 districts of at most a million customers, and fewer \
             than 16 million items; this is {self:?}"
        )))
    }

    /// Returns how many orders of a district are delivered initially: those up to this number.
    pub fn delivered(&self) -> u64 {
        self.customers * 7 / 10
    }

    /// Returns all warehouses with all their districts.
    pub fn all_districts(self) -> impl Iterator<Item = (u64, u64)> {
        (1..=self.warehouses).flat_map(move |w| (1..=self.districts).map(move |d| (w, d)))
    }
}

/// Returns the key of a district.
pub fn district_key(warehouse: u64, district: u64) -> u64 {
    warehouse << 8 | district
}

/// Returns the key of a customer, and of their payment.
pub fn customer_key(warehouse: u64, district: u64, customer: u64) -> u64 {
    district_key(warehouse, district) << 32 | customer
}

/// Returns the key of an item's stock.
pub fn stock_key(warehouse: u64, item: u64) -> u64 {
    warehouse << 32 | item
}

/// Returns the key of a line in its district.
pub fn line_key(order: u64, number: u64) -> u64 {
    order << 8 | number
}

/// The tables of a district that grow.
#[derive(Clone, Copy)]
pub struct Orders {
    pub order: Table<Tree>,
    pub new_order: Table<Tree>,
    pub order_line: Table<Tree>,
}

/// The tables.
pub struct Database {
    pub scale: Scale,
    pub directory: Array<u64>,
    pub warehouse: Table<Tree>,
    pub district: Table<Tree>,
    pub customer: Table<Tree>,
    pub history: Table<Tree>,
    pub item: Table<Tree>,
    pub stock: Table<Tree>,
    orders: Vec<Orders>,
}

const POPULATED: u64 = 0;
const FIRST_ROOT: u64 = 5;
const SHARED: [&str; 6] = ["warehouse", "district", "customer", "history", "item", "stock"];
const OF_DISTRICT: [&str; 3] = ["order", "new_order", "order_line"];

impl Database {
    /// Creates empty tables under `root`, or opens those that are there.
    ///
    /// # Errors
    /// Returns an error if the pool is full, or if a database of another scale is there.
    pub fn create<R: Runner>(runner: &mut R, root: PersistentAddress, scale: Scale) -> Result<Self> {
        let tables = SHARED.len() + OF_DISTRICT.len() * (scale.warehouses * scale.districts) as usize;
        let first = [0, scale.warehouses, scale.districts, scale.customers, scale.items];
        let directory = Array::create(runner, root, FIRST_ROOT + tables as u64, |index| {
            first.get(index as usize).copied().unwrap_or(0)
        })?;
        for index in 0..tables as u64 {
            let root = runner.view(|tx| directory.address(tx, FIRST_ROOT + index))?;
            let create = |tx: &mut R::Tx<'_>| Tree::create(tx, root, SHAPE);
            match index.checked_sub(SHARED.len() as u64) {
                Some(own) => {
                    let district = own / OF_DISTRICT.len() as u64;
                    runner.run_locked(&[Lock::Region(district as u32), Lock::word(root)], create)?
                }
                None => runner.run(create)?,
            };
        }
        runner.view(|tx| Self::with_directory(tx, directory, scale, root))
    }

    /// Opens the populated database under `root`.
    ///
    /// # Errors
    /// Returns an error if there is none, if it has another scale, or if its population was interrupted.
    pub fn open(tx: &mut impl Read, root: PersistentAddress, scale: Scale) -> Result<Self, Abort> {
        let directory = Array::open(tx, root)?;
        let database = Self::with_directory(tx, directory, scale, root)?;
        if database.is_populated(tx)? {
            return Ok(database);
        }
        Err(tx.fail(Error::Incomplete { what: "TPC-C database", root: root.offset() }))
    }

    fn with_directory(
        tx: &mut impl Read,
        directory: Array<u64>,
        scale: Scale,
        root: PersistentAddress,
    ) -> Result<Self, Abort> {
        let expected = [scale.warehouses, scale.districts, scale.customers, scale.items];
        for (index, expected) in (1..).zip(expected) {
            if directory.get(tx, index)? != expected {
                return Err(tx.fail(Error::WrongStructure { what: "TPC-C database", root: root.offset() }));
            }
        }
        let mut next = FIRST_ROOT;
        let mut table = |what| -> Result<Table<Tree>, Abort> {
            let root = directory.address(tx, next)?;
            next += 1;
            Ok(Table::new(BPlusTree::open(tx, root)?, what))
        };
        let [warehouse, district, customer, history, item, stock] = SHARED;
        let mut database = Self {
            scale,
            directory,
            warehouse: table(warehouse)?,
            district: table(district)?,
            customer: table(customer)?,
            history: table(history)?,
            item: table(item)?,
            stock: table(stock)?,
            orders: Vec::new(),
        };
        let [order, new_order, order_line] = OF_DISTRICT;
        for _ in 0..scale.warehouses * scale.districts {
            let (order, new_order, order_line) = (table(order)?, table(new_order)?, table(order_line)?);
            database.orders.push(Orders { order, new_order, order_line });
        }
        Ok(database)
    }

    /// Returns whether all rows are there.
    pub fn is_populated(&self, tx: &mut impl Read) -> Result<bool, Abort> {
        Ok(self.directory.get(tx, POPULATED)? == 1)
    }

    /// Notes that all rows are there.
    pub fn set_populated(&self, tx: &mut impl Transaction) -> Result<(), Abort> {
        self.directory.set(tx, POPULATED, 1)
    }

    /// Returns the orders of a district.
    pub fn orders(&self, warehouse: u64, district: u64) -> &Orders {
        &self.orders[self.district_index(warehouse, district) as usize]
    }

    fn district_index(&self, warehouse: u64, district: u64) -> u64 {
        (warehouse - 1) * self.scale.districts + district - 1
    }

    /// Returns the lock of a district, for its row, its orders, new orders and order lines.
    pub fn district_lock(&self, warehouse: u64, district: u64) -> Lock {
        Lock::Region(self.district_index(warehouse, district) as u32)
    }
}
