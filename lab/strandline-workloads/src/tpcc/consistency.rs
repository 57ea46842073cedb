//! All twelve consistency conditions (clause 3.3.2), and further data that New Order must not lose.

use std::collections::HashMap;

use strandline_core::Result;
use strandline_core::error::Error;
use strandline_core::transaction::{Read, Runner};

use super::database::{Database, customer_key, district_key, stock_key};
use super::population::initial_quantity;
use super::schema::*;

/// The quantity that the lines of later orders, without the initial ones, have taken from a stock row.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Taken {
    quantity: u64,
    lines: u64,
    remote: u64,
}

/// Converts an amount to signed money.
fn signed(cents: u64) -> i64 {
    cents.cast_signed()
}

/// Checks a database at rest: the clause's conditions, the indices of all tables, and that the stock is consistent with the order lines.
///
/// # Errors
/// Returns [`Error::Damaged`] with the condition that does not hold, and the errors of [`Runner::view`].
pub fn check<R: Runner>(runner: &mut R, database: &Database) -> Result<()> {
    let mut check = Check::new(runner, database)?;
    for (w, d) in database.scale.all_districts() {
        check.district(runner, w, d)?;
    }
    check.warehouses(runner)?;
    check.stock(runner)
}

struct Check<'a> {
    database: &'a Database,
    prices: HashMap<u64, u64>,
    /// D_YTD by warehouse.
    year_to_date: HashMap<u64, i64>,
    /// H_AMOUNT by district.
    history: HashMap<(u64, u64), i64>,
    taken: HashMap<u64, Taken>,
    /// True if all orders of the run are still there.
    is_complete: bool,
}

fn require(holds: bool, condition: &str, w: u64, d: u64) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(Error::damaged(format!("TPC-C: {condition} does not hold in warehouse {w}, district {d}")))
}

/// The rows of a district, each with its key.
struct District {
    w: u64,
    d: u64,
    year_to_date: i64,
    /// D_NEXT_O_ID.
    next: u64,
    orders: Vec<(u64, [u64; order::WORDS])>,
    new_orders: Vec<(u64, [u64; new_order::WORDS])>,
    lines: Vec<(u64, [u64; order_line::WORDS])>,
    /// C_BALANCE and C_YTD_PAYMENT.
    customers: Vec<(i64, i64)>,
}

impl District {
    fn read<R: Runner>(runner: &mut R, database: &Database, w: u64, d: u64) -> Result<Self> {
        let tables = database.orders(w, d);
        runner.view(|tx| {
            for table in [&tables.order, &tables.new_order, &tables.order_line] {
                table.check(tx)?;
            }
            let mut row = [0; district::WORDS];
            let at = database.district.row(tx, district_key(w, d))?;
            tx.read_range(at, &mut row)?;
            let (mut orders, mut new_orders, mut lines) = (Vec::new(), Vec::new(), Vec::new());
            tables.order.for_each(tx, |key, row: [u64; order::WORDS]| orders.push((key, row)))?;
            tables.new_order.for_each(tx, |key, row: [u64; new_order::WORDS]| new_orders.push((key, row)))?;
            tables.order_line.for_each(tx, |key, row: [u64; order_line::WORDS]| lines.push((key, row)))?;
            let mut customers = Vec::new();
            for c in 1..=database.scale.customers {
                let mut row = [0; customer::WORDS];
                let at = database.customer.row(tx, customer_key(w, d, c))?;
                customer::C_BALANCE.read(tx, at, &mut row)?;
                customer::C_YTD_PAYMENT.read(tx, at, &mut row)?;
                let [balance, paid] =
                    [customer::C_BALANCE, customer::C_YTD_PAYMENT].map(|column| signed(column.number(&row)));
                customers.push((balance, paid));
            }
            let year_to_date = signed(district::D_YTD.number(&row));
            let next = district::D_NEXT_O_ID.number(&row);
            Ok(Self { w, d, year_to_date, next, orders, new_orders, lines, customers })
        })
    }

    /// Checks conditions 10 and 12; `delivered` is the amount delivered to each customer, by number.
    fn check_customers(&self, delivered: &[i64], require: impl Fn(bool, &str) -> Result<()>) -> Result<()> {
        let mut payments = 0;
        for (&(balance, paid), &delivered) in self.customers.iter().zip(&delivered[1..]) {
            require(
                balance + paid == delivered,
                "condition 12: C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT delivered)",
            )?;
            // In this workload only the initial payments exist, one row of HISTORY for each customer.
            require(balance == delivered - paid, "condition 10: C_BALANCE = sum(OL_AMOUNT) - sum(H_AMOUNT)")?;
            payments += paid;
        }
        require(payments == self.year_to_date, "condition 10: sum(C_YTD_PAYMENT) = sum(H_AMOUNT)")
    }
}

impl<'a> Check<'a> {
    fn new<R: Runner>(runner: &mut R, database: &'a Database) -> Result<Self> {
        let scale = database.scale;
        let (mut prices, mut history) = (HashMap::new(), HashMap::new());
        let rows = runner.view(|tx| {
            prices.clear();
            history.clear();
            database.item.for_each(tx, |i, row: [u64; item::WORDS]| {
                prices.insert(i, item::I_PRICE.number(&row));
            })?;
            database.history.for_each(tx, |_, row: [u64; history::WORDS]| {
                let district = (history::H_W_ID.number(&row), history::H_D_ID.number(&row));
                *history.entry(district).or_insert(0) += signed(history::H_AMOUNT.number(&row));
            })?;
            Ok([
                database.item.check(tx)?,
                database.warehouse.check(tx)?,
                database.district.check(tx)?,
                database.customer.check(tx)?,
                database.history.check(tx)?,
                database.stock.check(tx)?,
            ])
        })?;
        let (w, d, c, i) = (scale.warehouses, scale.districts, scale.customers, scale.items);
        require(rows == [i, w, w * d, w * d * c, w * d * c, w * i], "the number of rows", 0, 0)?;
        let (year_to_date, taken) = (HashMap::new(), HashMap::new());
        Ok(Self { database, prices, year_to_date, history, taken, is_complete: true })
    }

    fn district<R: Runner>(&mut self, runner: &mut R, w: u64, d: u64) -> Result<()> {
        let rows = District::read(runner, self.database, w, d)?;
        let require = |holds, condition: &str| require(holds, condition, w, d);
        *self.year_to_date.entry(w).or_insert(0) += rows.year_to_date;
        let paid = self.history.get(&(w, d)).copied().unwrap_or(0);
        require(rows.year_to_date == paid, "condition 9: D_YTD = sum(H_AMOUNT)")?;
        self.numbers_of_orders(&rows, require)?;
        let delivered = self.orders(&rows, require)?;
        rows.check_customers(&delivered, require)
    }

    /// Checks conditions 2, 3, 4 and 11, and the keys of NEW-ORDER.
    fn numbers_of_orders(
        &mut self,
        rows: &District,
        require: impl Fn(bool, &str) -> Result<()>,
    ) -> Result<()> {
        let District { orders, new_orders, lines, next, .. } = rows;
        let is_last = orders.last().is_some_and(|last| last.0 + 1 == *next);
        require(is_last, "condition 2: D_NEXT_O_ID - 1 = max(O_ID)")?;
        if let [(first, _), .., (last, _)] = &new_orders[..] {
            require(*last + 1 == *next, "condition 2: D_NEXT_O_ID - 1 = max(NO_O_ID)")?;
            require(last - first + 1 == new_orders.len() as u64, "condition 3: NEW-ORDER has no gaps")?;
            self.is_complete &= *first <= self.database.scale.customers + 1;
        }
        let sum: u64 = orders.iter().map(|(_, row)| order::O_OL_CNT.number(row)).sum();
        require(sum == lines.len() as u64, "condition 4: sum(O_OL_CNT) = rows of ORDER-LINE")?;
        require(
            (orders.len() - new_orders.len()) as u64 == self.database.scale.delivered(),
            "condition 11: rows of ORDER - rows of NEW-ORDER = orders delivered",
        )?;
        new_orders.iter().try_for_each(|(key, row)| {
            let ids = [new_order::NO_W_ID, new_order::NO_D_ID, new_order::NO_O_ID];
            require(ids.map(|id| id.number(row)) == [rows.w, rows.d, *key], "the key of NEW-ORDER")
        })
    }

    /// Checks conditions 5 to 7 and the keys of the orders and their lines. Returns for each customer the amount delivered to them.
    fn orders(&mut self, rows: &District, require: impl Fn(bool, &str) -> Result<()>) -> Result<Vec<i64>> {
        let customers = self.database.scale.customers;
        let &District { w, d, .. } = rows;
        let mut delivered = vec![0; customers as usize + 1];
        let mut rest = &rows.lines[..];
        let mut undelivered = rows.new_orders.iter().map(|(key, _)| *key).peekable();
        for (o, row) in &rows.orders {
            let ids = [order::O_W_ID, order::O_D_ID, order::O_ID];
            require(ids.map(|id| id.number(row)) == [w, d, *o], "the key of ORDER")?;
            let is_new = undelivered.next_if_eq(o).is_some();
            let has_carrier = order::O_CARRIER_ID.number(row) != 0;
            require(
                has_carrier != is_new,
                "condition 5: O_CARRIER_ID is null where NEW-ORDER has the order",
            )?;
            let count = order::O_OL_CNT.number(row);
            let own = rest.iter().take_while(|(key, _)| key >> 8 == *o).count();
            require(own as u64 == count, "condition 6: O_OL_CNT = rows of ORDER-LINE for the order")?;
            let (own, others) = rest.split_at(own);
            rest = others;
            let customer = order::O_C_ID.number(row);
            require((1..=customers).contains(&customer), "the customer of ORDER")?;
            let mut all_local = true;
            for (number, (key, line)) in (1..).zip(own) {
                let ids =
                    [order_line::OL_W_ID, order_line::OL_D_ID, order_line::OL_O_ID, order_line::OL_NUMBER];
                let expected = [w, d, *o, number];
                let is_right = ids.map(|id| id.number(line)) == expected && key & 0xff == number;
                require(is_right, "the key of ORDER-LINE")?;
                let has_date = order_line::OL_DELIVERY_D.number(line) != 0;
                require(has_date == has_carrier, "condition 7: OL_DELIVERY_D is null where O_CARRIER_ID is")?;
                let amount = order_line::OL_AMOUNT.number(line);
                if has_date {
                    delivered[customer as usize] += signed(amount);
                }
                all_local &= order_line::OL_SUPPLY_W_ID.number(line) == w;
                if *o > customers {
                    self.line(w, line, amount, &require)?;
                }
            }
            require((order::O_ALL_LOCAL.number(row) == 1) == all_local, "O_ALL_LOCAL")?;
        }
        Ok(delivered)
    }

    /// Checks a line of an order of the run.
    fn line(
        &mut self,
        w: u64,
        line: &[u64],
        amount: u64,
        require: impl Fn(bool, &str) -> Result<()>,
    ) -> Result<()> {
        let item = order_line::OL_I_ID.number(line);
        let (supplier, quantity) =
            (order_line::OL_SUPPLY_W_ID.number(line), order_line::OL_QUANTITY.number(line));
        let price = self.prices.get(&item).copied().unwrap_or(0);
        require(amount == price * quantity && amount > 0, "OL_AMOUNT = OL_QUANTITY * I_PRICE")?;
        let taken = self.taken.entry(stock_key(supplier, item)).or_default();
        taken.quantity += quantity;
        taken.lines += 1;
        taken.remote += u64::from(supplier != w);
        Ok(())
    }

    fn warehouses<R: Runner>(&self, runner: &mut R) -> Result<()> {
        for w in 1..=self.database.scale.warehouses {
            let year_to_date = runner.view(|tx| {
                let mut row = [0; warehouse::WORDS];
                let at = self.database.warehouse.row(tx, w)?;
                warehouse::W_YTD.read(tx, at, &mut row)?;
                Ok(signed(warehouse::W_YTD.number(&row)))
            })?;
            let districts = self.year_to_date.get(&w).copied().unwrap_or(0);
            require(year_to_date == districts, "condition 1: W_YTD = sum(D_YTD)", w, 0)?;
            let payments: i64 = self.history.iter().filter(|(at, _)| at.0 == w).map(|(_, sum)| sum).sum();
            require(year_to_date == payments, "condition 8: W_YTD = sum(H_AMOUNT)", w, 0)?;
        }
        Ok(())
    }

    fn stock<R: Runner>(&self, runner: &mut R) -> Result<()> {
        let mut rows = Vec::new();
        runner.view(|tx| {
            rows.clear();
            self.database.stock.for_each(tx, |key, row: [u64; stock::WORDS]| {
                rows.push((
                    key,
                    [
                        stock::S_W_ID,
                        stock::S_I_ID,
                        stock::S_QUANTITY,
                        stock::S_YTD,
                        stock::S_ORDER_CNT,
                        stock::S_REMOTE_CNT,
                    ]
                    .map(|column| column.number(&row)),
                ));
            })
        })?;
        for (key, [w, i, left, year_to_date, orders, remote]) in rows {
            require(key == stock_key(w, i), "the key of STOCK", w, 0)?;
            // Each order takes its quantity and may add 91, which keeps the stock from 10 to 100.
            let exact = (initial_quantity(w, i) + 91 * year_to_date - year_to_date - 10) % 91 + 10;
            require(left == exact, "S_QUANTITY = what S_YTD has left of it", w, 0)?;
            let now = Taken { quantity: year_to_date, lines: orders, remote };
            let taken = self.taken.get(&key).copied().unwrap_or_default();
            if self.is_complete {
                require(now == taken, "S_YTD, S_ORDER_CNT and S_REMOTE_CNT = sums of ORDER-LINE", w, 0)?;
            }
            let covers =
                now.quantity >= taken.quantity && now.lines >= taken.lines && now.remote >= taken.remote;
            require(covers, "S_YTD, S_ORDER_CNT and S_REMOTE_CNT >= sums of ORDER-LINE", w, 0)?;
        }
        Ok(())
    }
}
