//! The rows of a fresh database (clause 4.3.3.1).

use fastrand::Rng;
use strandline_core::Result;
use strandline_core::transaction::Runner;

use super::database::{Database, Scale, customer_key, district_key, line_key, stock_key};
use super::random::{Constants, data, digits, last_name, letters, zip};
use super::schema::*;

/// The date of the population, in seconds since 1970; a transaction's date is later.
pub const DATE: u64 = 1_262_304_000;

/// The seed of the population, and of the constants C, which belong to the database.
pub const SEED: u64 = 0x7bcc;

/// Returns the constants C of every database.
pub fn constants() -> Constants {
    Constants::new(SEED)
}

/// Draws the initial quantity in stock from `random`; the check recomputes it.
fn quantity(random: &mut Rng) -> u64 {
    random.u64(10..=100)
}

/// Returns the random numbers of a stock row, of which the first determines its quantity.
fn stock_random(warehouse: u64, item: u64) -> Rng {
    Rng::with_seed(SEED ^ stock_key(warehouse, item).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Returns the initial quantity in stock.
pub fn initial_quantity(warehouse: u64, item: u64) -> u64 {
    quantity(&mut stock_random(warehouse, item))
}

/// Fills an empty database.
///
/// # Errors
/// Returns an error if the pool is full, and the errors of [`Runner::run`].
pub fn populate<R: Runner>(runner: &mut R, database: &Database) -> Result<()> {
    let scale = database.scale;
    let mut random = Rng::with_seed(SEED + 1);
    database.item.fill(runner, None, (1..=scale.items).map(|i| (i, item_row(&mut random, i))))?;
    database.warehouse.fill(
        runner,
        None,
        (1..=scale.warehouses).map(|w| (w, warehouse_row(&mut random, w, scale))),
    )?;
    for w in 1..=scale.warehouses {
        database.stock.fill(runner, None, (1..=scale.items).map(|i| (stock_key(w, i), stock_row(w, i))))?;
    }
    for (w, d) in scale.all_districts() {
        let row = district_row(&mut random, w, d, scale.customers);
        database.district.insert_in(runner, &[database.district_lock(w, d)], district_key(w, d), &row)?;
    }
    for (w, d) in scale.all_districts() {
        district_orders(runner, database, &mut random, w, d)?;
    }
    runner.run(|tx| database.set_populated(tx))
}

/// Returns a new row of ITEM.
pub fn item_row(random: &mut Rng, id: u64) -> [u64; item::WORDS] {
    let mut row = [0; item::WORDS];
    item::I_ID.set_number(&mut row, id);
    item::I_IM_ID.set_number(&mut row, random.u64(1..=10_000));
    item::I_NAME.set_text(&mut row, &letters(random, 14, 24));
    item::I_PRICE.set_number(&mut row, random.u64(100..=10_000));
    item::I_DATA.set_text(&mut row, &data(random));
    row
}

/// Returns a new row of WAREHOUSE.
pub fn warehouse_row(random: &mut Rng, id: u64, scale: Scale) -> [u64; warehouse::WORDS] {
    let mut row = [0; warehouse::WORDS];
    warehouse::W_ID.set_number(&mut row, id);
    warehouse::W_TAX.set_number(&mut row, random.u64(..=2000));
    warehouse::W_YTD.set_number(&mut row, scale.districts * scale.customers * PAYMENT);
    warehouse::W_NAME.set_text(&mut row, &letters(random, 6, 10));
    warehouse::W_STREET_1.set_text(&mut row, &letters(random, 10, 20));
    warehouse::W_STREET_2.set_text(&mut row, &letters(random, 10, 20));
    warehouse::W_CITY.set_text(&mut row, &letters(random, 10, 20));
    warehouse::W_STATE.set_text(&mut row, &letters(random, 2, 2));
    warehouse::W_ZIP.set_text(&mut row, &zip(random));
    row
}

/// The initial payment of each customer in cents: 30,000.00 in a district of 3,000, 300,000.00 in a warehouse of ten.
const PAYMENT: u64 = 1000;

/// Returns a new row of DISTRICT.
pub fn district_row(random: &mut Rng, w: u64, d: u64, customers: u64) -> [u64; district::WORDS] {
    let mut row = [0; district::WORDS];
    district::D_ID.set_number(&mut row, d);
    district::D_W_ID.set_number(&mut row, w);
    district::D_NEXT_O_ID.set_number(&mut row, customers + 1);
    district::D_TAX.set_number(&mut row, random.u64(..=2000));
    district::D_YTD.set_number(&mut row, customers * PAYMENT);
    district::D_NAME.set_text(&mut row, &letters(random, 6, 10));
    district::D_STREET_1.set_text(&mut row, &letters(random, 10, 20));
    district::D_STREET_2.set_text(&mut row, &letters(random, 10, 20));
    district::D_CITY.set_text(&mut row, &letters(random, 10, 20));
    district::D_STATE.set_text(&mut row, &letters(random, 2, 2));
    district::D_ZIP.set_text(&mut row, &zip(random));
    row
}

/// Returns a new row of STOCK.
pub fn stock_row(w: u64, i: u64) -> [u64; stock::WORDS] {
    let random = &mut stock_random(w, i);
    let mut row = [0; stock::WORDS];
    stock::S_W_ID.set_number(&mut row, w);
    stock::S_I_ID.set_number(&mut row, i);
    stock::S_QUANTITY.set_number(&mut row, quantity(random));
    stock::S_DIST.set_text(&mut row, &letters(random, 240, 240));
    stock::S_DATA.set_text(&mut row, &data(random));
    row
}

fn customer_row(random: &mut Rng, w: u64, d: u64, c: u64) -> [u64; customer::WORDS] {
    let mut row = [0; customer::WORDS];
    let name = if c <= 1000 { c - 1 } else { constants().c_last.draw(random, 0, 999) };
    customer::C_ID.set_number(&mut row, c);
    customer::C_D_ID.set_number(&mut row, d);
    customer::C_W_ID.set_number(&mut row, w);
    customer::C_LAST.set_text(&mut row, &last_name(name));
    customer::C_MIDDLE.set_text(&mut row, b"OE");
    customer::C_FIRST.set_text(&mut row, &letters(random, 8, 16));
    customer::C_STREET_1.set_text(&mut row, &letters(random, 10, 20));
    customer::C_STREET_2.set_text(&mut row, &letters(random, 10, 20));
    customer::C_CITY.set_text(&mut row, &letters(random, 10, 20));
    customer::C_STATE.set_text(&mut row, &letters(random, 2, 2));
    customer::C_ZIP.set_text(&mut row, &zip(random));
    customer::C_PHONE.set_text(&mut row, &digits(random, 16));
    customer::C_SINCE.set_number(&mut row, DATE);
    customer::C_CREDIT.set_text(&mut row, if random.u64(..10) == 0 { b"BC" } else { b"GC" });
    customer::C_CREDIT_LIM.set_number(&mut row, 5_000_000);
    customer::C_DISCOUNT.set_number(&mut row, random.u64(..=5000));
    customer::C_BALANCE.set_number(&mut row, PAYMENT.wrapping_neg());
    customer::C_YTD_PAYMENT.set_number(&mut row, PAYMENT);
    customer::C_PAYMENT_CNT.set_number(&mut row, 1);
    customer::C_DELIVERY_CNT.set_number(&mut row, 0);
    customer::C_DATA.set_text(&mut row, &letters(random, 300, 500));
    row
}

fn history_row(random: &mut Rng, w: u64, d: u64, c: u64) -> [u64; history::WORDS] {
    let mut row = [0; history::WORDS];
    history::H_C_ID.set_number(&mut row, c);
    history::H_C_D_ID.set_number(&mut row, d);
    history::H_C_W_ID.set_number(&mut row, w);
    history::H_D_ID.set_number(&mut row, d);
    history::H_W_ID.set_number(&mut row, w);
    history::H_DATE.set_number(&mut row, DATE);
    history::H_AMOUNT.set_number(&mut row, PAYMENT);
    history::H_DATA.set_text(&mut row, &letters(random, 12, 24));
    row
}

/// Inserts customers, payments and orders of a district.
fn district_orders<R: Runner>(
    runner: &mut R,
    database: &Database,
    random: &mut Rng,
    w: u64,
    d: u64,
) -> Result<()> {
    let scale = database.scale;
    let all = 1..=scale.customers;
    database.customer.fill(
        runner,
        None,
        all.clone().map(|c| (customer_key(w, d, c), customer_row(random, w, d, c))),
    )?;
    database.history.fill(
        runner,
        None,
        all.clone().map(|c| (customer_key(w, d, c), history_row(random, w, d, c))),
    )?;
    let orders = database.orders(w, d);
    let locks = [database.district_lock(w, d)];
    let mut customers: Vec<u64> = all.clone().collect();
    random.shuffle(&mut customers);
    let lines: Vec<u64> = all.clone().map(|_| random.u64(5..=15)).collect();
    let district = (w, d);
    let rows = all.clone().zip(customers.iter().zip(&lines));
    let rows = rows.map(|(o, (&c, &lines))| (o, order_row(random, scale, district, (o, c, lines))));
    orders.order.fill(runner, Some(&locks), rows)?;
    let keys = all.clone().zip(&lines).flat_map(|(o, &lines)| (1..=lines).map(move |line| (o, line)));
    let rows =
        keys.map(|(o, number)| (line_key(o, number), order_line_row(random, scale, district, (o, number))));
    orders.order_line.fill(runner, Some(&locks), rows)?;
    let rows = (scale.delivered() + 1..=scale.customers).map(|o| (o, new_order_row(district, o)));
    orders.new_order.fill(runner, Some(&locks), rows)
}

/// Returns order `o` of customer `c`, with so many lines.
fn order_row(
    random: &mut Rng,
    scale: Scale,
    (w, d): (u64, u64),
    (o, c, lines): (u64, u64, u64),
) -> [u64; order::WORDS] {
    let mut row = [0; order::WORDS];
    order::O_ID.set_number(&mut row, o);
    order::O_D_ID.set_number(&mut row, d);
    order::O_W_ID.set_number(&mut row, w);
    order::O_C_ID.set_number(&mut row, c);
    order::O_ENTRY_D.set_number(&mut row, DATE);
    let carrier = if o <= scale.delivered() { random.u64(1..=10) } else { 0 };
    order::O_CARRIER_ID.set_number(&mut row, carrier);
    order::O_OL_CNT.set_number(&mut row, lines);
    order::O_ALL_LOCAL.set_number(&mut row, 1);
    row
}

/// Returns line `number` of order `o`.
fn order_line_row(
    random: &mut Rng,
    scale: Scale,
    (w, d): (u64, u64),
    (o, number): (u64, u64),
) -> [u64; order_line::WORDS] {
    let mut row = [0; order_line::WORDS];
    let delivered = o <= scale.delivered();
    order_line::OL_O_ID.set_number(&mut row, o);
    order_line::OL_D_ID.set_number(&mut row, d);
    order_line::OL_W_ID.set_number(&mut row, w);
    order_line::OL_NUMBER.set_number(&mut row, number);
    order_line::OL_I_ID.set_number(&mut row, random.u64(1..=scale.items));
    order_line::OL_SUPPLY_W_ID.set_number(&mut row, w);
    order_line::OL_DELIVERY_D.set_number(&mut row, if delivered { DATE } else { 0 });
    order_line::OL_QUANTITY.set_number(&mut row, 5);
    order_line::OL_AMOUNT.set_number(&mut row, if delivered { 0 } else { random.u64(1..=999_999) });
    order_line::OL_DIST_INFO.set_text(&mut row, &letters(random, 24, 24));
    row
}

fn new_order_row((w, d): (u64, u64), o: u64) -> [u64; new_order::WORDS] {
    let mut row = [0; new_order::WORDS];
    new_order::NO_O_ID.set_number(&mut row, o);
    new_order::NO_D_ID.set_number(&mut row, d);
    new_order::NO_W_ID.set_number(&mut row, w);
    row
}
