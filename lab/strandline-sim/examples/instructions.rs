//! Counts with valgrind the instructions that native code executes between two accesses, for the programs that the machine runs.
//!
//! ```console
//! $ cargo run --release -p strandline-sim --features calibration --example instructions > lab/strandline-sim/data/instructions.toml
//! $ cargo run --release -p strandline-sim --features calibration --example instructions transactions > lab/strandline-sim/data/transactions.toml
//! $ cargo run --release -p strandline-sim --features calibration --example instructions medians
//! $ cargo run --release -p strandline-sim --features calibration --example instructions copies > lab/strandline-sim/data/copies.toml
//! ```
//!
//! The first command makes the table of plain programs: instructions, loads and stores of an operation of each workload, compiled as a C compiler
//! would compile it (`strandline-workloads/src/plain_program.rs`): inlined, with one instruction for each access, and blocks from lists. The same
//! program serves as the one without transactions and as the one whose critical sections hardware makes atomic. The cost of an operation is the
//! difference between critical sections of 16 operations and of one; TPC-C and TATP have only one. The second command makes the table of transactions
//! in software, for each scheme and workload by which claims of two papers are judged. The third counts six schemes on five workloads; the machine
//! charges its medians, `Instructions::TRANSACTIONS`, where the table has no row. The fourth makes the table of copies: the cost of copying a word
//! with stores of each width, in C (`copy.c`, by the system's compiler) and in Rust.
//!
//! The program runs itself under valgrind with two numbers of transactions, so that the cost before them cancels out. It runs the same transactions
//! on the simulated machine, which counts their accesses. An access itself is one instruction.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use strandline_core::Domain;
use strandline_core::memory::WriteBackInstruction;
use strandline_sim::run::{PoolSizes, Prepared, Run};
use strandline_workloads::{ALL, Parameter, PoolSetting, SchemeName, Selection, Sizes, TpccScale};

/// Workloads under transactions in software, with the number of transactions of each. The native program runs once with this number and once with
/// three times as many.
const WORKLOADS: [(&str, u64); 5] =
    [("sps", 1000), ("hash", 1000), ("rbtree", 1000), ("bplustree", 1000), ("tatp-update-location", 1000)];
/// Schemes without a helper, whose instructions would be counted, too.
const SCHEMES: [&str; 6] = ["np", "base", "mne-sync", "bppm", "bppm+single-writer", "dct-eager-sync"];
/// Schemes and workloads of the table of transactions, with numbers of transactions: those of Blurred Persistence's figures, with two operations in a
/// transaction of the B+ tree, and those of deferred commit's Fig. 6. Under persistency models that no processor has, the same program runs with
/// other barriers.
const COUNTED: [(&[&str], &[(&str, u64, u64)]); 2] = [
    (
        &[
            "np",
            "base",
            "base-tail",
            "mne-sync",
            "mne-sync-fenced",
            "xil",
            "xil-unmarked",
            "vcbp",
            "vcbp-tail",
            "vcbp-streamed",
            "bppm",
            "bppm-counted",
        ],
        &[
            ("sps", 1000, 1),
            ("hash", 1000, 1),
            ("rbtree", 1000, 1),
            ("bplustree-sorted-words", 500, 2),
            ("kvstore", 1000, 1),
            ("bplustree", 1000, 1),
        ],
    ),
    (
        &["sct-eager-sync", "dct-eager-sync"],
        &[
            ("tatp-update-location-arrays", 1000, 1),
            ("tpcc-new-order-arrays", 200, 1),
            ("tatp-update-location", 1000, 1),
        ],
    ),
];
/// Plain programs, with the number of transactions of one operation, and the sizes of values.
const PLAIN: [(&str, u64, &[u64]); 21] = [
    ("sps", 2000, &[8, 512, 4096]),
    ("hash", 2000, &[8, 512, 4096]),
    ("rbtree", 2000, &[8, 512, 4096]),
    ("bplustree", 2000, &[8, 512, 4096]),
    ("kvstore", 2000, &[8, 512]),
    ("btree", 2000, &[8, 512, 4096]),
    ("set", 2000, &[8]),
    ("multiset", 2000, &[8]),
    ("queue", 2000, &[8, 512, 4096]),
    ("sdg", 2000, &[8, 512, 4096]),
    ("hot-counter", 2000, &[8]),
    ("tpcc-new-order", 200, &[8]),
    ("tpcc-new-order-arrays", 200, &[8]),
    ("tatp-update-location", 2000, &[8]),
    ("tatp-update-location-arrays", 2000, &[8]),
    ("sqlite", 200, &[8]),
    ("bplustree-sorted", 2000, &[8]),
    ("bplustree-sorted-words", 2000, &[8]),
    ("bplustree-sorted-11", 2000, &[8]),
    ("btree-sorted", 2000, &[8]),
    ("sqlite-pages", 200, &[8]),
];
/// The number of operations that a long transaction has.
const OPERATIONS: u64 = 16;
const TUNABLES: &str =
    "glibc.cpu.x86_rep_stosb_threshold=1000000000:glibc.cpu.x86_rep_movsb_threshold=1000000000";
/// A workload that only copies. The difference between its two largest values is the cost of a further word of a range, which is charged for
/// workloads that do not have two sizes.
const COPIES: &str = "sps";
const SEED: u64 = 1;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => plain_programs(),
        ["transactions"] => table_of_transactions(),
        ["medians"] => medians_of_transactions(),
        ["copies"] => copies(),
        ["copy", width, bytes, times] => copy(width.parse()?, bytes.parse()?, times.parse()?),
        [workload, scheme, bytes, operations, transactions] => {
            let scheme = if scheme == "plain" { None } else { Some(scheme.parse()?) };
            native(workload, scheme, (bytes.parse()?, operations.parse()?), transactions.parse()?)
        }
        _ => Err("takes nothing, `transactions`, `medians` or `copies`".into()),
    }
}

/// Creates a folder, in memory if possible.
fn folder() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// Returns sizes with which every structure is filled and fits a cache of about 1 MB.
fn sizes(value_bytes: u64, operations: u64) -> Sizes {
    let tpcc = TpccScale { warehouses: 1, districts: 10, customers: 300, items: 10_000, kept_orders: 3000 };
    match value_bytes {
        8 => Sizes {
            array_words: 1 << 14,
            buckets: 1 << 13,
            hash_keys: 1 << 14,
            rbtree_keys: 1 << 15,
            bplustree_keys: 1 << 15,
            queue_entries: 1 << 12,
            vertices: 1 << 12,
            edges: 1 << 14,
            subscribers: 1 << 13,
            tpcc,
            operations,
            ..Sizes::default()
        },
        _ => Sizes { operations, ..Sizes::atom(value_bytes) },
    }
}

/// Runs transactions of one thread on a pool in this machine's memory; without a scheme, those of a plain program.
fn native(
    workload: &str,
    scheme: Option<SchemeName>,
    (value_bytes, operations): (u64, u64),
    transactions: u64,
) -> Outcome<()> {
    let place = folder()?;
    let small = scheme.is_some() && value_bytes == 8;
    let sizes = if small { Sizes { operations, ..Sizes::small() } } else { sizes(value_bytes, operations) };
    let selection = Selection::new(ALL.of_name(workload)?, &sizes)?;
    let setting = PoolSetting {
        logs: 1,
        log_bytes: PoolSizes::default().log_bytes,
        domain: Domain::Flush,
        // Valgrind supports only this one.
        instruction: Some(WriteBackInstruction::Clflush),
        concurrency: scheme.map_or_else(Default::default, |scheme| scheme.concurrency),
    };
    let prepared = strandline_workloads::Prepared::new(&place.path().join("pool"), &selection, setting)?;
    let mut client = match scheme {
        Some(scheme) => selection.client(prepared.pool(), scheme, 0, SEED)?,
        None => selection.plain_client(prepared.pool(), SEED)?,
    };
    (0..transactions).try_for_each(|_| client.transaction())?;
    Ok(())
}

/// The counts of a run.
#[derive(Clone, Copy, Debug)]
struct Counts {
    instructions: f64,
    loads: f64,
    stores: f64,
}

impl Counts {
    /// Returns the difference to `other`, divided by `parts`.
    fn more_than(self, other: Self, parts: f64) -> Self {
        Self {
            instructions: (self.instructions - other.instructions) / parts,
            loads: (self.loads - other.loads) / parts,
            stores: (self.stores - other.stores) / parts,
        }
    }
}

/// A program to run: workload, scheme, size of values, and operations in a transaction.
type Native<'p> = (&'p str, &'p str, u64, u64);

/// Counts a native run with valgrind.
fn valgrind((workload, scheme, value_bytes, operations): Native<'_>, transactions: u64) -> Outcome<Counts> {
    let numbers = [value_bytes, operations, transactions].map(|number| number.to_string());
    let [bytes, operations, transactions] = numbers.each_ref().map(String::as_str);
    counted(&std::env::current_exe()?, &[workload, scheme, bytes, operations, transactions])
}

/// Counts a program with these arguments.
fn counted(program: &Path, arguments: &[&str]) -> Outcome<Counts> {
    let output = Command::new("valgrind")
        // Valgrind counts an instruction for each byte of `rep stosb` and `rep movsb`, so the C library must not use them.
        .env("GLIBC_TUNABLES", TUNABLES)
        .args(["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let nothing = || format!("valgrind counted nothing:\n{text}");
    if !output.status.success() {
        return Err(nothing().into());
    }
    // Valgrind prints "I refs: 1,234" and "D refs: 1,234 (1,000 rd + 234 wr)".
    let line = |kind: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once("refs:"));
        lines.find(|(before, _)| before.trim_end().ends_with(kind)).map(|(_, after)| after)
    };
    let numbers = |text: &str| -> Vec<f64> {
        let digits = text.replace(',', "");
        digits.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
    };
    let instructions = numbers(line(" I").ok_or_else(nothing)?);
    let data = numbers(line(" D").ok_or_else(nothing)?);
    match (&instructions[..], &data[..]) {
        ([instructions], [_, loads, stores]) => {
            Ok(Counts { instructions: *instructions, loads: *loads, stores: *stores })
        }
        _ => Err(nothing().into()),
    }
}

/// Returns the counts of a native transaction.
fn per_transaction(program: Native<'_>, transactions: u64) -> Outcome<Counts> {
    let (less, more) = (valgrind(program, transactions)?, valgrind(program, 3 * transactions)?);
    Ok(more.more_than(less, (2 * transactions) as f64))
}

/// The accesses of a transaction on the machine.
#[derive(Clone, Copy, Debug)]
struct Accesses {
    /// The accesses, with a range counted once.
    operations: f64,
    /// The accesses, with a range counted word by word.
    words: f64,
    loads: f64,
    stores: f64,
}

impl Accesses {
    /// Like [`Counts::more_than`].
    fn more_than(self, other: Self, parts: f64) -> Self {
        Self {
            operations: (self.operations - other.operations) / parts,
            words: (self.words - other.words) / parts,
            loads: (self.loads - other.loads) / parts,
            stores: (self.stores - other.stores) / parts,
        }
    }
}

fn accesses(workload: &str, scheme: &str, sizes: &Sizes, transactions: u64) -> Outcome<Accesses> {
    let machine = strandline_sim::file::load("opteron", &[""; 0])?;
    let prepared = Prepared::new(ALL.of_name(workload)?, sizes, PoolSizes::default(), 1)?;
    let none = strandline_sim::scheme::find("none").ok_or("no plain hardware")?;
    let (scheme, each) = (scheme.parse()?, 2 * transactions);
    let run =
        Run { scheme, threads: 1, transactions: each, warm_up: transactions, idle_percent: 0, seed: SEED };
    let statistics = prepared.run(&machine, none, &run, Vec::new())?.outcome.statistics;
    let sum = |of: fn(&strandline_sim::statistics::CoreStatistics) -> u64| {
        statistics.cores.iter().map(of).sum::<u64>() as f64 / each as f64
    };
    Ok(Accesses {
        operations: sum(|core| core.operations),
        words: statistics.accesses as f64 / each as f64 + sum(|core| core.fences),
        loads: sum(|core| core.loads + core.atomics),
        stores: sum(|core| core.stores + core.atomics),
    })
}

/// Prints the table of plain programs.
fn plain_programs() -> Outcome<()> {
    let mut counted = Vec::new();
    for (workload, transactions, values) in PLAIN {
        let has_operations = ALL.of_name(workload)?.takes.contains(&Parameter::Operations);
        for &value_bytes in values {
            let count = |operations, transactions| -> Outcome<(Counts, Accesses)> {
                let native = per_transaction((workload, "plain", value_bytes, operations), transactions)?;
                let sizes = sizes(value_bytes, operations);
                Ok((native, accesses(workload, "volatile", &sizes, transactions)?))
            };
            let (one, of_one) = count(1, transactions)?;
            let (native, accesses) = if has_operations {
                let (many, of_many) = count(OPERATIONS, transactions / 4)?;
                let parts = (OPERATIONS - 1) as f64;
                (many.more_than(one, parts), of_many.more_than(of_one, parts))
            } else {
                (one, of_one)
            };
            eprintln!(
                "{workload} of {value_bytes} bytes: {:.0} instructions ({:.0}), {:.1} accesses of {:.1} words",
                native.instructions, one.instructions, accesses.operations, accesses.words
            );
            counted.push((workload, value_bytes, native, accesses));
        }
    }
    println!(
        "# Made by examples/instructions.rs; src/instructions.rs says what the figures are. Instructions and accesses of an operation\n\
         # are those of which the others are made: access = (instructions - words - word (words - accesses)) / accesses."
    );
    // The runs differ only in the additional words of a value.
    let word_of = |workload: &str| {
        let of = counted.iter().filter(|(other, value_bytes, ..)| *other == workload && *value_bytes > 8);
        match of.collect::<Vec<_>>()[..] {
            [.., (_, _, small, few), (_, _, large, many)] => {
                Some((large.instructions - small.instructions) / (many.words - few.words) - 1.0)
            }
            _ => None,
        }
    };
    for (workload, value_bytes, native, accesses) in &counted {
        let word = word_of(workload).or_else(|| word_of(COPIES)).ok_or("nothing that copies")?;
        let Accesses { operations, words, loads, stores } = accesses;
        let access = (native.instructions - words - word * (words - operations)) / operations;
        println!(
            "\n# {:.1} instructions, {:.1} loads, {:.1} stores; {operations:.1} accesses, {words:.1} words\n\
             [[plain]]\nworkload = {workload:?}\nvalue_bytes = {value_bytes}\naccess = {access:.2}\nword = {word:.2}\n\
             private_loads = {:.2}\nprivate_stores = {:.2}",
            native.instructions,
            native.loads,
            native.stores,
            (native.loads - loads).max(0.0) / operations,
            (native.stores - stores).max(0.0) / operations,
        );
    }
    Ok(())
}

/// Returns the cost of a further word in a transaction that copies: the runs of sps with entries of 512 and of 4096 bytes differ only in that.
fn further_word(scheme: &str) -> Outcome<f64> {
    const TRANSACTIONS: u64 = 300;
    let count = |value_bytes| -> Outcome<(f64, f64)> {
        let native = per_transaction((COPIES, scheme, value_bytes, 1), TRANSACTIONS)?.instructions;
        Ok((native, accesses(COPIES, scheme, &sizes(value_bytes, 1), TRANSACTIONS)?.words))
    };
    let ((small, few), (large, many)) = (count(512)?, count(4096)?);
    Ok((large - small) / (many - few) - 1.0)
}

/// The C program that copies, and the compiler options for each table. Compilers of the papers' time did not vectorise a loop or replace it by
/// `memcpy` under `-O2`.
const COPY_C: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/copy.c");
const COMPILED: [(&str, &[&str]); 2] = [
    ("optimised", &["-O2", "-fno-tree-vectorize", "-fno-tree-loop-distribute-patterns"]),
    ("unoptimised", &["-O0"]),
];

/// Copies an entry like `copy.c`. Atomic parts keep the compiler from merging them into wider ones.
fn copy(width: u64, bytes: usize, times: u64) -> Outcome<()> {
    macro_rules! of {
        ($part:ty) => {{
            let entry = || (0..bytes / size_of::<$part>()).map(|_| <$part>::default()).collect::<Vec<_>>();
            let (from, to) = (entry(), entry());
            for _ in 0..times {
                let (from, to) = std::hint::black_box((&from, &to));
                for (from, to) in from.iter().zip(to) {
                    to.store(from.load(Relaxed), Relaxed);
                }
            }
        }};
    }
    match width {
        1 => of!(AtomicU8),
        2 => of!(AtomicU16),
        4 => of!(AtomicU32),
        8 => of!(AtomicU64),
        _ => return Err("stores are of 1, 2, 4 or 8 bytes".into()),
    }
    Ok(())
}

/// Returns in how many instructions `program` copies a word with parts of `width` bytes, by comparing entries of 4096 and of 512 bytes.
fn copied_word(program: &Path, command: &[&str], width: u64) -> Outcome<f64> {
    let of = |bytes: u64| -> Outcome<f64> {
        let run = |times: u64| -> Outcome<f64> {
            let numbers = [width, bytes, times].map(|number| number.to_string());
            let numbers = numbers.iter().map(String::as_str);
            let arguments: Vec<&str> = command.iter().copied().chain(numbers).collect();
            Ok(counted(program, &arguments)?.instructions)
        };
        Ok((run(300)? - run(100)?) / 200.0)
    };
    Ok((of(4096)? - of(512)?) / ((4096 - 512) / 8) as f64)
}

/// Prints the table of copies.
fn copies() -> Outcome<()> {
    println!(
        "# Made by examples/instructions.rs: instructions, loads and stores included, in which a loop copies a word with stores of so many\n         # bytes. In C as examples/copy.c has it, compiled with -O2 or -O0; in Rust with the release profile."
    );
    let folder = folder()?;
    for (compiled, options) in COMPILED {
        let program = folder.path().join(compiled);
        let status = Command::new("cc").args(options).arg("-o").arg(&program).arg(COPY_C).status()?;
        if !status.success() {
            return Err("cc cannot compile copy.c".into());
        }
        for width in [8, 4, 2, 1] {
            let instructions = copied_word(&program, &[], width)?;
            println!(
                "\n[[copy]]\ncompiled = {compiled:?}\nstore_bytes = {width}\ninstructions = {instructions:.1}"
            );
            if compiled == "optimised" {
                println!("rust = {:.1}", copied_word(&std::env::current_exe()?, &["copy"], width)?);
            }
        }
    }
    Ok(())
}

/// Returns the lower quartile, the median and the upper quartile.
fn quartiles(mut all: Vec<f64>) -> [f64; 3] {
    all.sort_by(f64::total_cmp);
    [0.25, 0.5, 0.75].map(|share| all[((all.len() - 1) as f64 * share).round() as usize])
}

/// Counts the transactions of a workload under a scheme: instructions, accesses and words of a transaction, and the instructions beside each access
/// if a further word of a range costs `word`.
fn in_software(
    (workload, scheme): (&str, &str),
    word: f64,
    (transactions, operations): (u64, u64),
) -> Outcome<(f64, Accesses, f64)> {
    let native = per_transaction((workload, scheme, 8, operations), transactions)?.instructions;
    let sizes = Sizes { operations, ..Sizes::small() };
    let accesses = accesses(workload, scheme, &sizes, transactions)?;
    let Accesses { operations, words, .. } = accesses;
    Ok((native, accesses, (native - words - word * (words - operations)) / operations))
}

/// Prints the table of transactions.
fn table_of_transactions() -> Outcome<()> {
    println!(
        "# Made by examples/instructions.rs; src/instructions.rs says what the figures are. Instructions, accesses and words of a transaction,\n\
         # of which the others are made: access = (instructions - words - word (words - accesses)) / accesses."
    );
    for (schemes, workloads) in COUNTED {
        for scheme in schemes {
            let word = further_word(scheme)?;
            for &(workload, transactions, operations) in workloads {
                let (instructions, accesses, access) =
                    in_software((workload, scheme), word, (transactions, operations))?;
                eprintln!(
                    "{workload}, {scheme}: {instructions:.0} instructions, {access:.1} beside an access"
                );
                println!(
                    "\n[[transactions]]\nworkload = {workload:?}\nscheme = {scheme:?}\ninstructions = {instructions:.1}\n\
                     accesses = {:.2}\nwords = {:.2}\naccess = {access:.2}\nword = {word:.2}",
                    accesses.operations, accesses.words
                );
            }
        }
    }
    Ok(())
}

/// Prints the medians.
fn medians_of_transactions() -> Outcome<()> {
    println!("{:20} {:>8}", "scheme", "word");
    let mut each = Vec::new();
    for scheme in SCHEMES {
        let word = further_word(scheme)?;
        println!("{scheme:20} {word:8.1}");
        each.push(word);
    }
    let [lower, word, upper] = quartiles(each);
    println!("a further word of a range: median {word:.1}, quartiles {lower:.1} and {upper:.1}\n");
    println!(
        "{:22} {:20} {:>16} {:>14} {:>14} {:>8}",
        "workload", "scheme", "instructions/tx", "accesses/tx", "words/tx", "access"
    );
    let mut all = Vec::new();
    for (workload, transactions) in WORKLOADS {
        for scheme in SCHEMES {
            let (native, Accesses { operations, words, .. }, access) =
                in_software((workload, scheme), word, (transactions, 1))?;
            println!("{workload:22} {scheme:20} {native:16.0} {operations:14.1} {words:14.1} {access:8.1}");
            all.push(access);
        }
    }
    let [lower, access, upper] = quartiles(all);
    println!("\nan access: median {access:.1}, quartiles {lower:.1} and {upper:.1}");
    Ok(())
}
