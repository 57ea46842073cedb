//! `bench --interface`: the same operations on words and on typed collections, per second of processor time.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::ProgressBar;
use serde::Serialize;
use strandline_command::interrupt;
use strandline_command::tables::number;
use strandline_core::Concurrency;
use strandline_lab::Spread;
use strandline_lab::machine::Machine;
use strandline_workloads::{BPLUSTREE, HASH, KVSTORE, QUEUE, Row, SPS, Sizes, System, WorkloadKind};

use super::memory;
use super::plan::Plan;
use strandline_command::Failure;

/// The interface that transactions use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Interface {
    /// Words of the engine
    Engine,
    /// Typed collections
    Types,
}

impl Interface {
    fn of(system: System) -> Self {
        if system.is_typed() { Self::Types } else { Self::Engine }
    }

    /// Returns the systems with this interface.
    fn systems(self) -> impl Iterator<Item = System> {
        let all = [System::SingleWriter, System::Words, System::Types, System::TypesSingleWriter];
        all.into_iter().filter(move |&system| Self::of(system) == self)
    }
}

/// A column of the table: a workload with the sizes of its transactions.
pub struct Column {
    name: &'static str,
    workload: WorkloadKind,
    operations: u64,
    read_percent: u64,
}

const fn column(name: &'static str, workload: WorkloadKind) -> Column {
    Column { name, workload, operations: 1, read_percent: 0 }
}

static COLUMNS: [Column; 11] = [
    column("swaps", &SPS),
    column("hash map", &HASH),
    column("ordered map", &BPLUSTREE),
    column("queue", &QUEUE),
    column("key-value", &KVSTORE),
    Column { operations: 32, ..column("32 swaps", &SPS) },
    Column { operations: 256, ..column("256 swaps", &SPS) },
    Column { read_percent: 90, ..column("hash 90%", &HASH) },
    Column { read_percent: 100, ..column("hash 100%", &HASH) },
    Column { read_percent: 90, ..column("tree 90%", &BPLUSTREE) },
    Column { read_percent: 100, ..column("tree 100%", &BPLUSTREE) },
];

/// Returns the names of the columns' workloads, each once.
pub fn workloads() -> impl Iterator<Item = &'static str> {
    let is_new = |(at, column): &(usize, &Column)| {
        COLUMNS[..*at].iter().all(|other| other.workload != column.workload)
    };
    COLUMNS.iter().enumerate().filter(is_new).map(|(_, column)| column.workload.name)
}

/// Returns a plan for each column of these workloads: a copy of `plan` with the column's sizes and the interfaces' systems.
pub fn plans(
    interfaces: &[Interface],
    workloads: &[WorkloadKind],
    plan: &Plan,
) -> Vec<(&'static Column, Plan)> {
    let of_column = |column: &'static Column| {
        let plan = plan.clone();
        let Column { operations, read_percent, .. } = *column;
        let sizes = Sizes { operations, read_percent, ..plan.sizes };
        let chosen = Interface::value_variants().iter().filter(|interface| interfaces.contains(interface));
        let systems = chosen.flat_map(|interface| interface.systems()).collect();
        (column, Plan { systems, workloads: vec![column.workload], sizes, ..plan })
    };
    COLUMNS.iter().filter(|column| workloads.contains(&column.workload)).map(of_column).collect()
}

/// The repetitions of one system in one column. `bench --interface --json` prints these fields.
#[derive(Serialize)]
pub struct Cell {
    workload: &'static str,
    interface: Interface,
    /// How transactions are isolated: `stm` or `single-writer`.
    control: &'static str,
    threads: u64,
    /// The persistence domain's name.
    domain: String,
    /// The number of rounds.
    rounds: usize,
    /// Transactions per second of the threads' processor time: the median, the lowest and the highest round.
    tx_per_processor_s: Spread,
    /// The rate as a share of the engine's in the same round and under the same control. Absent in the engine's rows, and if the engine was not
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_engine: Option<Spread>,
}

const STM: &str = "stm";
const SINGLE_WRITER: &str = "single-writer";

/// The rounds of one system with one number of threads.
type Rounds = (System, Vec<Row>);

impl Cell {
    fn new(column: &Column, (system, rows): &Rounds, all: &[Rounds]) -> Option<Self> {
        let rates: Vec<f64> = rows.iter().map(|row| row.tx_per_processor_s).collect();
        let first = rows.first()?;
        let engine = all.iter().find(|(other, rows)| {
            system.is_typed()
                && !other.is_typed()
                && other.concurrency() == system.concurrency()
                && rows.first().is_some_and(|row| row.threads == first.threads)
        });
        let shares: Vec<f64> = engine
            .map(|(_, rows)| {
                rows.iter().zip(&rates).map(|(row, rate)| rate / row.tx_per_processor_s).collect()
            })
            .unwrap_or_default();
        Some(Self {
            workload: column.name,
            interface: Interface::of(*system),
            control: if system.concurrency() == Concurrency::SingleWriter { SINGLE_WRITER } else { STM },
            threads: first.threads,
            domain: first.domain.clone(),
            rounds: rates.len(),
            tx_per_processor_s: Spread::whole(&rates)?,
            of_engine: Spread::whole(&shares),
        })
    }
}

/// Measures all columns, one after the other. The systems of a column take turns.
///
/// # Errors
/// Returns an error if a pool cannot be created, or if a transaction fails.
pub fn measure(plans: &[(&Column, Plan)], progress: &ProgressBar) -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    for (column, plan) in plans.iter().take_while(|_| !interrupt::is_asked()) {
        let results = memory::measure(plan, progress)?;
        let system = |rows: &[Row]| rows.first().and_then(|row| row.scheme.parse().ok());
        let of_system = |rows: Vec<Row>| system(&rows).map(|system| (system, rows));
        let all: Vec<Rounds> = results.runs.into_iter().filter_map(of_system).collect();
        cells.extend(all.iter().filter_map(|rounds| Cell::new(column, rounds, &all)));
    }
    Ok(cells)
}

/// Returns the table in Markdown, with a note on how to read it.
pub fn table(plan: &Plan, cells: &[Cell]) -> String {
    let columns = COLUMNS.iter().filter(|column| cells.iter().any(|cell| cell.workload == column.name));
    let columns: Vec<&str> = columns.map(|column| column.name).collect();
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([&["1,000 per processor second"], &columns[..]].concat());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for &threads in &plan.threads {
        let more = if threads == 1 { String::new() } else { format!(", {threads} threads") };
        let mut row = |name: &str, show: &dyn Fn(&Cell) -> Option<String>| {
            let cell = |column: &&str| {
                cells.iter().filter(|cell| cell.threads == threads && cell.workload == *column).find_map(show)
            };
            let shown: Vec<Option<String>> = columns.iter().map(cell).collect();
            if shown.iter().any(Option::is_some) {
                let shown = shown.into_iter().map(|text| text.unwrap_or_else(|| "–".into()));
                table.add_row([format!("{name}{more}")].into_iter().chain(shown));
            }
        };
        for (name, interface, control) in [
            ("engine, single writer", Interface::Engine, SINGLE_WRITER),
            ("engine, STM", Interface::Engine, STM),
            ("types, STM", Interface::Types, STM),
            ("types, single writer", Interface::Types, SINGLE_WRITER),
        ] {
            row(name, &|cell| {
                let is_here = (cell.interface, cell.control) == (interface, control);
                is_here.then(|| with_spread(cell.tx_per_processor_s.scaled(1e-3)))
            });
        }
        for (name, control) in
            [("types / engine, STM", STM), ("types / engine, single writer", SINGLE_WRITER)]
        {
            row(name, &|cell| cell.of_engine.filter(|_| cell.control == control).map(with_spread));
        }
    }
    // After an interruption, some cells have fewer rounds than were planned.
    let rounds = cells.iter().map(|cell| cell.rounds);
    let rounds = match (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0)) {
        (least, most) if least < most => format!("{least} to {most}"),
        (_, most) => most.to_string(),
    };
    format!(
        "{table}\n\nMedians of {rounds} rounds of {} s, in which the rows take turns, domain {}; ±: half of the range of the rounds. A share\n\
         is the median of the rounds' shares.\n",
        plan.duration.as_secs_f64(),
        plan.domain.name(),
    )
}

/// Shows the median, and half of the range in percent of it.
fn with_spread(spread: Spread) -> String {
    let half = 50.0 * (spread.high - spread.low) / spread.median.max(f64::MIN_POSITIVE);
    format!("{} ±{half:.0}%", number(spread.median))
}

const BEGIN: &str = "<!-- measured: interface -->\n";
const END: &str = "<!-- end of measurement -->";

/// A page of the documentation, around the block that is written.
pub struct Page {
    path: PathBuf,
    before: String,
    after: String,
}

impl Page {
    /// Reads the page at `path` and finds its block.
    ///
    /// # Errors
    /// Returns an error if the page cannot be read or has no block.
    pub fn find(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path).map_err(Failure::io(format!("read {}", path.display())))?;
        let place = text.find(BEGIN).map(|at| at + BEGIN.len());
        let place = place.and_then(|from| Some((from, from + text[from..].find(END)?)));
        let (from, to) = place.ok_or_else(|| {
            let begin = BEGIN.trim_end();
            Failure::Usage(format!("{} has no line `{begin}` with `{END}` after it", path.display()))
        })?;
        Ok(Self { path: path.to_owned(), before: text[..from].into(), after: text[to..].into() })
    }

    /// Returns the page's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the command of this program, the processor and the table into the block.
    ///
    /// # Errors
    /// Returns an error if the page cannot be written.
    pub fn write(&self, table: &str) -> Result<(), Failure> {
        let command = command(std::env::args().skip(1));
        let Machine { cores, processor, .. } = Machine::here();
        let text = format!(
            "{}```sh\n{command}\n```\n\n{cores} cores, {processor}.\n\n{table}\n{}",
            self.before, self.after
        );
        std::fs::write(&self.path, text).map_err(Failure::io(format!("write {}", self.path.display())))
    }
}

/// Returns the command that measures again with these arguments of this program, without the page.
fn command(mut arguments: impl Iterator<Item = String>) -> String {
    let mut command = "cargo run --release -p strandline-lab-cli --".to_owned();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--page" => drop(arguments.next()),
            other if other.starts_with("--page=") => {}
            other => command = format!("{command} {other}"),
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(workload: &'static str, interface: Interface, control: &'static str, median: f64) -> Cell {
        Cell {
            workload,
            interface,
            control,
            threads: 1,
            domain: "flush".into(),
            rounds: 6,
            tx_per_processor_s: Spread { low: 0.9 * median, median, high: 1.1 * median },
            of_engine: (interface == Interface::Types).then(|| Spread::exactly(0.5)),
        }
    }

    fn plan() -> Plan {
        Plan {
            workloads: Vec::new(),
            systems: Vec::new(),
            threads: vec![1],
            domain: strandline_core::Domain::Flush,
            instruction: None,
            sizes: Sizes::default(),
            log_bytes: 1 << 20,
            latency: false,
            duration: std::time::Duration::from_millis(500),
            repetitions: 6,
            pool: None,
            seed: 1,
        }
    }

    /// A row of the driver with this rate.
    fn row(tx_per_processor_s: f64, threads: u64) -> Row {
        let result = strandline_workloads::Row::new("", "", "flush", true, &[]);
        Row { tx_per_processor_s, threads, ..result }
    }

    #[test]
    fn a_share_is_that_of_the_same_round_control_and_number_of_threads() {
        let rounds =
            |system, rates: [f64; 3], threads| (system, rates.map(|rate| row(rate, threads)).to_vec());
        let all = [
            rounds(System::SingleWriter, [1.0, 1.0, 1.0], 1),
            rounds(System::Words, [100.0, 200.0, 400.0], 1),
            rounds(System::Types, [50.0, 50.0, 300.0], 1),
            rounds(System::Words, [1000.0, 1000.0, 1000.0], 2),
            rounds(System::Types, [900.0, 700.0, 800.0], 2),
        ];
        let cells = all.iter().map(|rounds| Cell::new(&COLUMNS[0], rounds, &all).unwrap());
        let shares: Vec<_> = cells.map(|cell| cell.of_engine).collect();
        let one = Spread { low: 0.25, median: 0.5, high: 0.75 };
        let two = Spread { low: 0.7, median: 0.8, high: 0.9 };
        assert_eq!(shares, [None, None, Some(one), None, Some(two)]);
    }

    #[test]
    fn the_table_has_a_column_for_each_workload_that_was_measured() {
        let plans = plans(&[Interface::Types], &[&SPS, &HASH], &plan());
        let sizes = |plan: &Plan| (plan.workloads[0].name, plan.sizes.operations, plan.sizes.read_percent);
        assert_eq!(
            plans.iter().map(|(_, plan)| sizes(plan)).collect::<Vec<_>>(),
            [
                ("sps", 1, 0),
                ("hash", 1, 0),
                ("sps", 32, 0),
                ("sps", 256, 0),
                ("hash", 1, 90),
                ("hash", 1, 100)
            ]
        );
        assert!(plans.iter().all(|(_, plan)| plan.systems == [System::Types, System::TypesSingleWriter]));
        let cells = [
            cell("swaps", Interface::Engine, STM, 3_420_000.0),
            cell("swaps", Interface::Types, STM, 1_710_000.0),
            cell("256 swaps", Interface::Engine, STM, 12_340.0),
        ];
        let table = table(&plans[0].1, &cells);
        let rows: Vec<Vec<&str>> =
            table.lines().take(5).map(|line| line.split('|').map(str::trim).collect()).collect();
        assert_eq!(rows[0], ["", "1,000 per processor second", "swaps", "256 swaps", ""]);
        assert_eq!(rows[2], ["", "engine, STM", "3420 ±10%", "12.3 ±10%", ""]);
        assert_eq!(rows[3], ["", "types, STM", "1710 ±10%", "–", ""]);
        assert_eq!(rows[4], ["", "types / engine, STM", "0.50 ±0%", "–", ""]);
        assert!(table.contains("6 rounds of 0.5 s") && table.contains("domain flush"), "{table}");
    }

    #[test]
    fn the_command_does_not_name_the_page() {
        for arguments in ["bench --page p.md --interface types", "bench --page=p.md --interface types"] {
            assert_eq!(
                command(arguments.split(' ').map(str::to_owned)),
                "cargo run --release -p strandline-lab-cli -- bench --interface types"
            );
        }
    }

    /// An interrupted measurement has fewer rounds than its plan.
    #[test]
    fn the_table_says_how_many_rounds_were_measured() {
        let of = |rounds| Cell { rounds, ..cell("swaps", Interface::Types, STM, 1.0) };
        let counts = |cells: &[Cell]| {
            let table = table(&plan(), cells);
            let (_, rest) = table.split_once("Medians of ").unwrap();
            rest.split_once(" rounds").unwrap().0.to_owned()
        };
        assert_eq!([counts(&[]), counts(&[of(4), of(4)]), counts(&[of(6), of(2)])], ["0", "4", "2 to 6"]);
    }

    #[test]
    fn only_the_block_of_a_page_changes() {
        let place = strandline_command::Place::in_memory().unwrap();
        let path = place.folder().join("page.md");
        std::fs::write(&path, format!("before\n{BEGIN}old\n{END}\nafter\n")).unwrap();
        Page::find(&path).unwrap().write("| new |").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("before\n<!-- measured: interface -->\n```sh\n"), "{text}");
        assert!(
            text.ends_with("| new |\n<!-- end of measurement -->\nafter\n") && !text.contains("old"),
            "{text}"
        );
        std::fs::write(&path, "no block").unwrap();
        assert!(Page::find(&path).is_err());
    }
}
