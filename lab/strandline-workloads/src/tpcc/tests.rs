//! New Order on a small database: its effects, that its roll-back leaves nothing, and that the check notices damage.

use strandline_core::file::{Options, Pool};
use strandline_core::layout::Geometry;
use strandline_core::memory::PersistentAddress;
use strandline_core::transaction::Read;
use strandline_core::{Domain, Transaction};
use tempfile::TempDir;

use super::consistency::check;
use super::database::{customer_key, district_key, line_key, stock_key};
use super::schema::*;
use super::*;
use crate::table::Column;

fn pool() -> (TempDir, Pool) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        geometry: Geometry { size: 32 << 20, logs: 4, log_bytes: 64 << 10, chunk_bytes: 64 << 10 },
        domain: Domain::Process,
        ..Options::default()
    };
    let pool = Pool::create(folder.path().join("pool"), &options).unwrap();
    (folder, pool)
}

fn workload(scale: Scale) -> TpccNewOrderWorkload {
    TpccNewOrderWorkload::new(&Sizes { tpcc: scale, ..Sizes::small() }).unwrap()
}

/// Returns an input that does or does not roll back.
fn input(database: &Database, rolls_back: bool) -> Input {
    let mut random = Rng::with_seed(11);
    loop {
        let district = Input::draw_district(&mut random, &database.scale);
        let input = Input::draw(&mut random, &database.scale, (1, district), 0);
        if input.rolls_back(&database.scale) == rolls_back {
            return input;
        }
    }
}

fn words<const WORDS: usize>(runner: &mut impl Runner, at: PersistentAddress) -> [u64; WORDS] {
    let mut row = [0; WORDS];
    runner.view(|tx| tx.read_range(at, &mut row)).unwrap();
    row
}

#[test]
fn an_order_has_what_the_terminal_entered() {
    let (_folder, pool) = pool();
    let mut worker = pool.worker().unwrap();
    let workload = workload(Scale::small());
    workload.prepare(&mut worker).unwrap();
    workload.prepare(&mut worker).unwrap();
    workload.check(&mut worker).unwrap();
    let database = workload.database(&mut worker).unwrap();
    let input = input(&database, false);
    let (w, d) = (input.warehouse, input.district);

    let stock_before: Vec<[u64; stock::WORDS]> = input
        .lines()
        .iter()
        .map(|line| {
            let at = worker.view(|tx| database.stock.row(tx, stock_key(line.supplier, line.item))).unwrap();
            words(&mut worker, at)
        })
        .collect();
    let output = worker.run(|tx| new_order(&database, tx, &input)).unwrap();
    assert_eq!(output.order, 31);
    let at = worker.view(|tx| database.district.row(tx, district_key(w, d))).unwrap();
    assert_eq!(district::D_NEXT_O_ID.number(&words::<{ district::WORDS }>(&mut worker, at)), 32);
    let orders = database.orders(w, d);
    let at = worker.view(|tx| orders.order.row(tx, 31)).unwrap();
    let row: [u64; order::WORDS] = words(&mut worker, at);
    assert_eq!(order::O_C_ID.number(&row), input.customer);
    assert_eq!(order::O_OL_CNT.number(&row), input.lines().len() as u64);
    assert_eq!((order::O_CARRIER_ID.number(&row), order::O_ENTRY_D.number(&row)), (0, input.date));
    let mut sum = 0;
    for (i, line) in input.lines().iter().enumerate() {
        let at = worker.view(|tx| orders.order_line.row(tx, line_key(31, i as u64 + 1))).unwrap();
        let row: [u64; order_line::WORDS] = words(&mut worker, at);
        assert_eq!(order_line::OL_I_ID.number(&row), line.item);
        assert_eq!(order_line::OL_SUPPLY_W_ID.number(&row), line.supplier);
        assert_eq!(order_line::OL_QUANTITY.number(&row), line.quantity);
        assert_eq!(order_line::OL_AMOUNT.number(&row), output.lines[i].amount);
        assert_eq!(order_line::OL_DELIVERY_D.number(&row), 0);
        let of_district = stock::S_DIST.part(d as usize - 1, 10);
        assert_eq!(order_line::OL_DIST_INFO.text(&row), of_district.text(&stock_before[i]));
        let at = worker.view(|tx| database.item.row(tx, line.item)).unwrap();
        let row: [u64; item::WORDS] = words(&mut worker, at);
        assert_eq!(item::I_PRICE.number(&row) * line.quantity, output.lines[i].amount);
        sum += output.lines[i].amount;
    }
    let exact = sum as f64
        * (1.0 - output.discount as f64 / 1e4)
        * (1.0 + output.taxes[0] as f64 / 1e4 + output.taxes[1] as f64 / 1e4);
    assert!((exact - output.total as f64).abs() <= 0.51, "{exact} {}", output.total);
    workload.check(&mut worker).unwrap();
}

#[test]
fn an_unknown_item_rolls_everything_back() {
    let (_folder, pool) = pool();
    let mut worker = pool.worker().unwrap();
    let workload = workload(Scale::small());
    workload.prepare(&mut worker).unwrap();
    let database = workload.database(&mut worker).unwrap();
    let input = input(&database, true);
    let before = worker.statistics();
    let outcome = worker.run(|tx| new_order(&database, tx, &input));
    assert!(matches!(outcome, Err(Error::Aborted)), "{outcome:?}");
    assert_eq!(worker.statistics().user_aborts, before.user_aborts + 1);
    workload.check(&mut worker).unwrap();
    let orders = database.orders(input.warehouse, input.district);
    assert_eq!(worker.view(|tx| orders.order.find(tx, 31)).unwrap(), None);
}

#[test]
fn inputs_follow_the_specification() {
    let (_folder, pool) = pool();
    let mut worker = pool.worker().unwrap();
    let workload = workload(Scale { warehouses: 3, ..Scale::small() });
    workload.prepare(&mut worker).unwrap();
    let database = workload.database(&mut worker).unwrap();
    let mut random = Rng::with_seed(5);
    let mut draw = |number| {
        let district = Input::draw_district(&mut random, &database.scale);
        Input::draw(&mut random, &database.scale, (2, district), number)
    };
    let inputs: Vec<Input> = (0..20_000).map(&mut draw).collect();
    let lines: Vec<_> = inputs.iter().flat_map(|input| input.lines()).collect();
    let mean = lines.len() as f64 / inputs.len() as f64;
    assert!((9.9..10.1).contains(&mean), "{mean} lines");
    assert!(inputs.iter().all(|input| (5..=15).contains(&input.lines().len())));
    let share = |count: usize, of: usize| count as f64 / of as f64;
    let rolled_back =
        share(inputs.iter().filter(|input| input.rolls_back(&database.scale)).count(), inputs.len());
    assert!((0.008..0.012).contains(&rolled_back), "{rolled_back} rolled back");
    let remote = share(lines.iter().filter(|line| line.supplier != 2).count(), lines.len());
    assert!((0.009..0.011).contains(&remote), "{remote} remote");
    assert!(lines.iter().all(|line| (1..=3).contains(&line.supplier) && (1..=10).contains(&line.quantity)));
    assert!(lines.iter().any(|line| line.supplier == 1) && lines.iter().any(|line| line.supplier == 3));
}

#[test]
fn old_orders_are_cancelled_and_all_conditions_hold() {
    let (_folder, pool) = pool();
    let mut worker = pool.worker().unwrap();
    let workload = workload(Scale { warehouses: 1, districts: 1, kept_orders: 40, ..Scale::small() });
    workload.prepare(&mut worker).unwrap();
    let mut terminal = workload.thread(&mut worker, 1).unwrap();
    for _ in 0..400 {
        terminal.transaction(&mut worker).unwrap();
    }
    workload.check(&mut worker).unwrap();
    let rows = worker.view(|tx| terminal.database.orders(1, 1).new_order.check(tx)).unwrap();
    assert!((40..40 + 32).contains(&rows), "{rows} orders kept");
}

/// Adds a number to a column, as damage.
fn spoil(runner: &mut impl Runner, at: PersistentAddress, column: Column, row: &mut [u64], add: u64) {
    runner
        .run(|tx| {
            column.read(tx, at, row)?;
            let number = column.number(row);
            column.set_number(row, number + add);
            let words = column.words();
            tx.write_range(at.word(words.start as u64), &row[words])
        })
        .unwrap();
}

#[test]
fn the_check_notices_what_a_lost_write_would_leave() {
    let (_folder, pool) = pool();
    let mut worker = pool.worker().unwrap();
    let workload = workload(Scale::small());
    workload.prepare(&mut worker).unwrap();
    let database = workload.database(&mut worker).unwrap();
    let input = input(&database, false);
    let (w, d, line) = (input.warehouse, input.district, input.lines()[0]);
    worker.run(|tx| new_order(&database, tx, &input)).unwrap();
    let orders = database.orders(w, d);
    let (warehouse_row, district_row, customer_row, stock_row, order_row, line_row) = worker
        .view(|tx| {
            Ok((
                database.warehouse.row(tx, w)?,
                database.district.row(tx, district_key(w, d))?,
                database.customer.row(tx, customer_key(w, d, 1))?,
                database.stock.row(tx, stock_key(line.supplier, line.item))?,
                orders.order.row(tx, 31)?,
                orders.order_line.row(tx, line_key(31, 1))?,
            ))
        })
        .unwrap();
    let mistakes = [
        (warehouse_row, warehouse::W_YTD, "condition 1"),
        (district_row, district::D_NEXT_O_ID, "condition 2"),
        (district_row, district::D_YTD, "condition 9"),
        (customer_row, customer::C_BALANCE, "condition 12"),
        (stock_row, stock::S_QUANTITY, "S_QUANTITY"),
        (stock_row, stock::S_ORDER_CNT, "S_ORDER_CNT"),
        (stock_row, stock::S_REMOTE_CNT, "S_REMOTE_CNT"),
        (order_row, order::O_OL_CNT, "condition 4"),
        (order_row, order::O_CARRIER_ID, "condition 5"),
        (line_row, order_line::OL_DELIVERY_D, "condition 7"),
        (line_row, order_line::OL_AMOUNT, "OL_AMOUNT"),
    ];
    let row = &mut [0; customer::WORDS];
    for (at, column, condition) in mistakes {
        spoil(&mut worker, at, column, row, 1);
        let error = check(&mut worker, &database).unwrap_err().to_string();
        assert!(error.contains(condition), "{error} for {condition}");
        let words = column.words();
        let number = column.number(row).wrapping_sub(1);
        column.set_number(row, number);
        worker.run(|tx| tx.write_range(at.word(words.start as u64), &row[words.clone()])).unwrap();
        check(&mut worker, &database).unwrap();
    }
    // Lost rows.
    worker.run(|tx| orders.order_line.delete(tx, line_key(31, 1))).unwrap();
    assert!(check(&mut worker, &database).unwrap_err().to_string().contains("condition 4"));
    worker.run(|tx| orders.new_order.delete(tx, 31)).unwrap();
    assert!(check(&mut worker, &database).unwrap_err().to_string().contains("condition 2"));
}
