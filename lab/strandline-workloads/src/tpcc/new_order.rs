//! The New Order transaction (clause 2.4), and how a terminal's input is drawn.

use std::ops::Range;

use fastrand::Rng;
use strandline_core::Lock;
use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::{Abort, Transaction};

use super::database::{Database, Orders, Scale, customer_key, district_key, line_key, stock_key};
use super::population::{DATE, constants};
use super::random::ORIGINAL;
use super::schema::*;
use crate::table::Column;

/// The maximum number of lines of an order.
pub const MOST_LINES: usize = 15;

/// A line that the customer orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The item's number; it does not exist if it is above the number of items.
    pub item: u64,
    /// The warehouse that supplies it.
    pub supplier: u64,
    /// The quantity.
    pub quantity: u64,
}

/// The input at a terminal (clause 2.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// The terminal's warehouse.
    pub warehouse: u64,
    /// The customer's district.
    pub district: u64,
    /// The customer.
    pub customer: u64,
    /// The date, in seconds since 1970.
    pub date: u64,
    lines: [Line; MOST_LINES],
    count: usize,
}

impl Input {
    /// Draws the district of an order.
    pub fn draw_district(random: &mut Rng, scale: &Scale) -> u64 {
        random.u64(1..=scale.districts)
    }

    /// Draws an input for a terminal of `warehouse`, and an order of `district`: 5 to 15 lines, one in a hundred from another warehouse. One order in
    /// a hundred ends with an item that does not exist.
    pub fn draw(random: &mut Rng, scale: &Scale, (warehouse, district): (u64, u64), number: u64) -> Self {
        let constants = constants();
        let customer = constants.c_id.draw(random, 1, scale.customers);
        let count = random.usize(5..=MOST_LINES);
        let rolls_back = random.u64(1..=100) == 1;
        let mut lines = [Line::default(); MOST_LINES];
        for (i, line) in lines[..count].iter_mut().enumerate() {
            let item = constants.ol_i_id.draw(random, 1, scale.items);
            let remote = random.u64(1..=100) == 1 && scale.warehouses > 1;
            // Draws another warehouse: numbers from the terminal's own on are shifted by one.
            let other = if remote { random.u64(1..scale.warehouses) } else { warehouse };
            *line = Line {
                item: if rolls_back && i + 1 == count { scale.items + 1 } else { item },
                supplier: if remote && other >= warehouse { other + 1 } else { other },
                quantity: random.u64(1..=10),
            };
        }
        Self { warehouse, district, customer, date: DATE + 1 + number, lines, count }
    }

    /// Draws an input like the program that the authors of Deferred Commit published: 5 to 15 different, equally likely items, all of which exist and
    /// come from the terminal's warehouse.
    pub fn draw_evenly(
        random: &mut Rng,
        scale: &Scale,
        (warehouse, district): (u64, u64),
        number: u64,
    ) -> Self {
        let count = random.usize(5..=MOST_LINES).min(scale.items as usize);
        let mut lines = [Line::default(); MOST_LINES];
        for at in 0..count {
            let item = loop {
                let item = random.u64(1..=scale.items);
                if lines[..at].iter().all(|line| line.item != item) {
                    break item;
                }
            };
            lines[at] = Line { item, supplier: warehouse, quantity: random.u64(1..=10) };
        }
        let customer = random.u64(1..=scale.customers);
        Self { warehouse, district, customer, date: DATE + 1 + number, lines, count }
    }

    /// Returns the order's lines.
    pub fn lines(&self) -> &[Line] {
        &self.lines[..self.count]
    }

    /// Returns whether an item of the order does not exist.
    pub fn rolls_back(&self, scale: &Scale) -> bool {
        self.lines().iter().any(|line| line.item > scale.items)
    }
}

/// The terminal's output for a line (clause 2.4.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLine {
    /// The item's price, in cents.
    pub price: u64,
    /// Quantity times price.
    pub amount: u64,
    /// The remaining stock.
    pub stock: u64,
    /// `B` if item and stock are both marked as original, and `G` otherwise.
    pub brand: char,
    /// The words of I_NAME.
    pub name: [u64; 3],
}

/// The terminal's output (clause 2.4.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// The order's number in its district.
    pub order: u64,
    /// The words of C_LAST.
    pub last_name: [u64; 2],
    /// C_CREDIT as two bytes.
    pub credit: u64,
    /// The customer's discount, in ten-thousandths.
    pub discount: u64,
    /// W_TAX and D_TAX, in ten-thousandths.
    pub taxes: [u64; 2],
    /// The cost of the order, in cents.
    pub total: u64,
    /// The lines, as many as the input has.
    pub lines: [OutputLine; MOST_LINES],
}

/// Runs New Order. Each use of a table that is written is a [part](Transaction::section) of it.
///
/// # Errors
/// Returns [`Abort::User`] if an item does not exist, so that everything before is rolled back. Returns an error if the database is damaged, and the
/// errors of [`Transaction::write`].
pub fn new_order(database: &Database, tx: &mut impl Transaction, input: &Input) -> Result<Output, Abort> {
    let Input { warehouse: w, district: d, customer: c, .. } = *input;
    let of_district = database.district_lock(w, d);
    let mut row = [0; warehouse::WORDS];
    let at = database.warehouse.row(tx, w)?;
    warehouse::W_TAX.read(tx, at, &mut row)?;
    let warehouse_tax = warehouse::W_TAX.number(&row);

    let (district_tax, order) = tx.section(of_district, |tx| {
        let mut row = [0; district::WORDS];
        let at = database.district.row(tx, district_key(w, d))?;
        district::D_TAX.read(tx, at, &mut row)?;
        district::D_NEXT_O_ID.read(tx, at, &mut row)?;
        let order = district::D_NEXT_O_ID.number(&row);
        if order >= u64::from(u32::MAX) {
            return Err(tx.fail(Error::Parameter("a district has run out of order numbers".into())));
        }
        district::D_NEXT_O_ID.set_number(&mut row, order + 1);
        let words = district::D_NEXT_O_ID.words();
        tx.write_range(at.word(words.start as u64), &row[words])?;
        Ok((district::D_TAX.number(&row), order))
    })?;

    let mut row = [0; customer::WORDS];
    let at = database.customer.row(tx, customer_key(w, d, c))?;
    customer::C_DISCOUNT.read(tx, at, &mut row)?;
    customer::C_LAST.read(tx, at, &mut row)?;
    customer::C_CREDIT.read(tx, at, &mut row)?;
    let discount = customer::C_DISCOUNT.number(&row);
    let mut last_name = [0; 2];
    last_name.copy_from_slice(&row[customer::C_LAST.words()]);

    let orders = database.orders(w, d);
    insert_order(tx, of_district, orders, input, order)?;

    let mut output = Output {
        order,
        last_name,
        credit: customer::C_CREDIT.number(&row),
        discount,
        taxes: [warehouse_tax, district_tax],
        total: 0,
        lines: [OutputLine::default(); MOST_LINES],
    };
    let mut sum = 0;
    for (i, line) in input.lines().iter().enumerate() {
        // The item does not exist: roll back (clause 2.4.2.2).
        let Some(at) = database.item.find(tx, line.item)? else { return Err(Abort::User) };
        let mut item_row = [0; item::WORDS];
        item::I_PRICE.read(tx, at, &mut item_row)?;
        item::I_NAME.read(tx, at, &mut item_row)?;
        item::I_DATA.read(tx, at, &mut item_row)?;
        let price = item::I_PRICE.number(&item_row);

        // No order changes the index of STOCK, so the row's lock suffices, as in the lock set of the whole order.
        let at = database.stock.row(tx, stock_key(line.supplier, line.item))?;
        let lock = Lock::Range { at, bytes: STOCK_BYTES };
        let (stock_row, left) = tx.section(lock, |tx| take_from_stock(tx, at, input, *line))?;
        let is_original =
            item::I_DATA.holds(&item_row, ORIGINAL) && stock::S_DATA.holds(&stock_row, ORIGINAL);
        let amount = line.quantity * price;
        sum += amount;

        let mut row = [0; order_line::WORDS];
        order_line::OL_O_ID.set_number(&mut row, order);
        order_line::OL_D_ID.set_number(&mut row, d);
        order_line::OL_W_ID.set_number(&mut row, w);
        order_line::OL_NUMBER.set_number(&mut row, i as u64 + 1);
        order_line::OL_I_ID.set_number(&mut row, line.item);
        order_line::OL_SUPPLY_W_ID.set_number(&mut row, line.supplier);
        order_line::OL_QUANTITY.set_number(&mut row, line.quantity);
        order_line::OL_AMOUNT.set_number(&mut row, amount);
        row[order_line::OL_DIST_INFO.words()].copy_from_slice(&stock_row[text_of_district(d).words()]);
        let key = line_key(order, i as u64 + 1);
        tx.section(of_district, |tx| orders.order_line.insert(tx, key, &row))?;

        let mut name = [0; 3];
        name.copy_from_slice(&item_row[item::I_NAME.words()]);
        let brand = if is_original { 'B' } else { 'G' };
        output.lines[i] = OutputLine { price, amount, stock: left, brand, name };
    }
    output.total = total(sum, discount, output.taxes);
    Ok(output)
}

/// Returns the column S_DIST_xx of a district.
fn text_of_district(d: u64) -> Column {
    stock::S_DIST.part(d as usize - 1, 10)
}

/// Returns the sum without the discount and with both taxes, rounded to a cent.
pub fn total(sum: u64, discount: u64, taxes: [u64; 2]) -> u64 {
    let exact = sum * (10_000 - discount.min(10_000)) * (10_000 + taxes[0] + taxes[1]);
    (exact + 50_000_000) / 100_000_000
}

/// Inserts the rows of ORDER and NEW-ORDER.
fn insert_order(
    tx: &mut impl Transaction,
    lock: Lock,
    orders: &Orders,
    input: &Input,
    o: u64,
) -> Result<(), Abort> {
    let row = order_row(input, o);
    tx.section(lock, |tx| orders.order.insert(tx, o, &row))?;
    let row = new_order_row(input, o);
    tx.section(lock, |tx| orders.new_order.insert(tx, o, &row))
}

/// Returns the row of order number `o`.
pub fn order_row(input: &Input, o: u64) -> [u64; order::WORDS] {
    let Input { warehouse: w, district: d, customer: c, .. } = *input;
    let mut row = [0; order::WORDS];
    order::O_ID.set_number(&mut row, o);
    order::O_D_ID.set_number(&mut row, d);
    order::O_W_ID.set_number(&mut row, w);
    order::O_C_ID.set_number(&mut row, c);
    order::O_ENTRY_D.set_number(&mut row, input.date);
    order::O_OL_CNT.set_number(&mut row, input.lines().len() as u64);
    let all_local = input.lines().iter().all(|line| line.supplier == w);
    order::O_ALL_LOCAL.set_number(&mut row, all_local.into());
    row
}

/// Returns the row that marks the order as undelivered.
pub fn new_order_row(input: &Input, o: u64) -> [u64; new_order::WORDS] {
    let mut row = [0; new_order::WORDS];
    new_order::NO_O_ID.set_number(&mut row, o);
    new_order::NO_D_ID.set_number(&mut row, input.district);
    new_order::NO_W_ID.set_number(&mut row, input.warehouse);
    row
}

/// The words of a stock row that New Order writes.
pub const STOCK_COUNTS: Range<usize> = stock::S_QUANTITY.words().start..stock::S_REMOTE_CNT.words().end;
/// The bytes of a stock row up to the last one that New Order writes.
pub const STOCK_BYTES: u64 = 8 * STOCK_COUNTS.end as u64;

/// Takes a line's quantity from its supplier's stock. Returns the columns of the row that the order needs, and the remaining quantity.
fn take_from_stock(
    tx: &mut impl Transaction,
    at: PersistentAddress,
    input: &Input,
    line: Line,
) -> Result<([u64; stock::WORDS], u64), Abort> {
    let mut row = [0; stock::WORDS];
    tx.read_range(at.word(STOCK_COUNTS.start as u64), &mut row[STOCK_COUNTS])?;
    text_of_district(input.district).read(tx, at, &mut row)?;
    stock::S_DATA.read(tx, at, &mut row)?;
    let left = restock(&mut row, input, line);
    tx.write_range(at.word(STOCK_COUNTS.start as u64), &row[STOCK_COUNTS])?;
    Ok((row, left))
}

/// Takes a line from a stock row, and replenishes the stock if it would become too small. Returns the remaining quantity.
pub fn restock(row: &mut [u64; stock::WORDS], input: &Input, line: Line) -> u64 {
    let quantity = stock::S_QUANTITY.number(row);
    let left = if quantity >= line.quantity + 10 {
        quantity - line.quantity
    } else {
        (quantity + 91).saturating_sub(line.quantity)
    };
    stock::S_QUANTITY.set_number(row, left & u64::from(u32::MAX));
    let is_remote = line.supplier != input.warehouse;
    for (column, more) in
        [(stock::S_YTD, line.quantity), (stock::S_ORDER_CNT, 1), (stock::S_REMOTE_CNT, u64::from(is_remote))]
    {
        let sum = column.number(row) + more;
        column.set_number(row, sum & u64::from(u32::MAX));
    }
    left
}

/// The number of orders that one transaction cancels.
const CANCELLED: u64 = 16;

/// Returns whether the oldest orders should be cancelled after this order.
pub fn is_to_be_pruned(database: &Database, order: u64) -> bool {
    let scale = database.scale;
    order.is_multiple_of(CANCELLED) && order > scale.delivered() + scale.kept_orders
}

/// Cancels the oldest undelivered orders of a district, at most twice [`CANCELLED`], until `kept_orders` are left of those up to `order`. This is not
/// a transaction of TPC-C, where Delivery removes orders from NEW-ORDER and leaves them in ORDER forever: it keeps a long run from filling the pool.
/// Every consistency condition continues to hold.
///
/// # Errors
/// Returns an error if the database is damaged, and the errors of [`Transaction::write`].
pub fn cancel_oldest(
    database: &Database,
    tx: &mut impl Transaction,
    w: u64,
    d: u64,
    order: u64,
) -> Result<(), Abort> {
    let orders = database.orders(w, d);
    for _ in 0..2 * CANCELLED {
        let Some(oldest) = orders.new_order.first_key(tx)? else { return Ok(()) };
        if oldest + database.scale.kept_orders > order {
            return Ok(());
        }
        let at = orders.order.row(tx, oldest)?;
        let mut row = [0; order::WORDS];
        order::O_OL_CNT.read(tx, at, &mut row)?;
        for number in 1..=order::O_OL_CNT.number(&row) {
            orders.order_line.delete(tx, line_key(oldest, number))?;
        }
        orders.order.delete(tx, oldest)?;
        orders.new_order.delete(tx, oldest)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_rounded_to_cents() {
        // 100.00 with a discount of 5% and taxes of 10% and 7.5%: 111.625.
        assert_eq!(total(10_000, 500, [1000, 750]), 11_163);
        assert_eq!(total(0, 0, [0, 0]), 0);
        // The largest order: 15 lines of 10 at 100.00, without discount, with taxes of 20%.
        assert_eq!(total(15 * 10 * 10_000, 0, [2000, 2000]), 2_100_000);
    }
}
