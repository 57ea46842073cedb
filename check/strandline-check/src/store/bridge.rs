//! Connects a database to the explorer: the database's transactions become operations of a checked program.
//!
//! The transactions run on a real database in memory, one at a time. The explorer sees each of them as one store, to a line of the transaction's own
//! in checked memory. The stored value is a number for the database's contents after the transaction. A transaction that is waited for writes back
//! its line and the earlier lines, and fences; one that is durable [later](strandline::Database::later) does so when its ticket is waited for.
//! Transactions become durable in the order in which they commit, so after a power failure the lines that have survived up to the first gap determine
//! the database's contents. Strandline promises this order, and `strandline-lab check` verifies it for the engine.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::Location;
use std::ptr;
use std::rc::Rc;

use strandline::hosted::{self, Observed, Observer};
use strandline::{Database, Geometry, Options};
use strandline_core::file::Durability;
use strandline_core::memory::{Event, Hosted, Memory, PersistentAddress, Step};

use super::contents::{Contents, Heap, IS_NUMBER};
use crate::x86::panics::Stopped;
use crate::x86::site::{self, Site};

/// For how many changing transactions of one run there is checked memory, initially and at most. More memory makes exploring slower.
const FEW: usize = 15;
const MOST: usize = 1023;

/// The word with the number of the contents that recovery has left; 0 before recovery.
const RECOVERED: PersistentAddress = PersistentAddress::new(0);

/// Returns the line of transaction number `number`, from 1.
fn line(number: usize) -> PersistentAddress {
    PersistentAddress::new(64 * number as u64)
}

/// A transaction that has changed something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub thread: usize,
    pub at: &'static Location<'static>,
    /// The numbers of the database's contents before and after it.
    pub from: u64,
    pub to: u64,
    /// The transaction's number in the database.
    id: u64,
}

/// The findings and actions of one recovery.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub from: u64,
    pub commits: Vec<Commit>,
}

/// The purpose for which the database is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The checker or a judge uses it, outside the program.
    Looking,
    Running,
    Recovering,
}

/// A database, and the run that uses it.
pub(crate) struct Bridge {
    pub database: Database,
    heap: RefCell<Heap>,
    initial: Cell<u64>,
    /// For how many transactions there is checked memory.
    room: Cell<usize>,
    /// True if a run had more.
    exceeded: Cell<bool>,
    /// The contents that the present run's numbers refer to.
    states: RefCell<HashMap<u64, Rc<Contents>>>,
    usage: Cell<Use>,
    /// The view of the coroutine whose code is running; null if none is.
    memory: Cell<*const Hosted>,
    thread: Cell<usize>,
    /// How deeply the closures of running transactions are nested.
    depth: Cell<u32>,
    commits: RefCell<Vec<Commit>>,
    /// The number of `commits` that are certainly durable.
    durable: Cell<usize>,
    /// True if recovery has stored something that is not durable yet.
    pending: Cell<bool>,
    /// Recoveries since the list was last cleared.
    pub recoveries: RefCell<Vec<Recovery>>,
    /// The number of acknowledgements of the present run, and the most of any run.
    acknowledged: Cell<u64>,
    pub most_acknowledged: Cell<u64>,
}

thread_local! {
    static BRIDGE: RefCell<Option<Rc<Bridge>>> = const { RefCell::new(None) };
}

/// Returns the bridge of this thread of the operating system.
fn present() -> Rc<Bridge> {
    let bridge = BRIDGE.with(|bridge| bridge.borrow().clone());
    bridge.expect(
        "a database that is checked is used by a thread that the program has made itself: let the checker run it, with `threads`",
    )
}

/// Keeps a bridge in use until it is dropped.
pub(crate) struct InUse(Option<Rc<Bridge>>);

impl Drop for InUse {
    fn drop(&mut self) {
        BRIDGE.with(|bridge| *bridge.borrow_mut() = self.0.take());
    }
}

/// Receives the events of all transactions.
struct Watch;

impl Durability for Watch {
    fn wait(&self, transaction: u64) {
        present().wait_for(transaction as usize);
    }
}

impl Observer for Watch {
    fn begins(&self) {
        let bridge = present();
        bridge.depth.set(bridge.depth.get() + 1);
    }

    fn ends(&self, transaction: Option<Observed>) -> u64 {
        let bridge = present();
        bridge.depth.set(bridge.depth.get().saturating_sub(1));
        match transaction {
            // A transaction inside another's closure was refused.
            Some(transaction) if bridge.depth.get() == 0 && !std::thread::panicking() => {
                bridge.ended(&transaction)
            }
            _ => 0,
        }
    }
}

impl Bridge {
    /// Creates an empty database of at most `bytes` bytes for so many threads.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn new(bytes: u64, threads: usize) -> strandline::Result<Rc<Self>> {
        // While a thread waits, others use its worker, so that one log would suffice. Recovery and judges use it as well.
        let logs = threads as u64 + 1;
        // Logs are acquired again for each state, so they are short. Each transaction has to fit in one.
        let log_bytes = (bytes / 64).next_multiple_of(4096).max(1 << 16);
        let size = (bytes + (1 << 20) + logs * log_bytes).next_multiple_of(4096);
        let geometry = Geometry { size, logs, log_bytes, chunk_bytes: 4096 };
        let options = Options { geometry, lock_bits: 14, ..Options::default() };
        let mut database = Database::in_memory_with(&options)?;
        hosted::observe(&mut database, &Watch);
        let heap = Heap::new(hosted::pool(&database).unprotected_view()?);
        let initial = Cell::new(heap.present().number());
        Ok(Rc::new(Self {
            database,
            heap: RefCell::new(heap),
            initial,
            room: Cell::new(FEW),
            exceeded: Cell::new(false),
            states: RefCell::default(),
            usage: Cell::new(Use::Looking),
            memory: Cell::new(ptr::null()),
            thread: Cell::new(0),
            depth: Cell::new(0),
            commits: RefCell::default(),
            durable: Cell::new(0),
            pending: Cell::new(false),
            recoveries: RefCell::default(),
            acknowledged: Cell::new(0),
            most_acknowledged: Cell::new(0),
        }))
    }

    /// Makes this bridge receive the transactions of this thread of the operating system, until the returned value is dropped.
    pub fn enter(self: &Rc<Self>) -> InUse {
        InUse(BRIDGE.with(|bridge| bridge.borrow_mut().replace(self.clone())))
    }

    /// Returns the initial checked memory: a line for recovery's result, and one for each transaction, which holds the transaction's number until it
    /// commits.
    pub fn image(&self) -> Vec<u64> {
        let words = 8 * (self.room.get() as u64 + 1);
        (0..words).map(|word| if word % 8 == 0 { word / 8 } else { 0 }).collect()
    }

    /// Makes room for more transactions, if a run had more than there was room for and the maximum is not reached. Returns whether it did.
    pub fn makes_room(&self) -> bool {
        let more = self.exceeded.replace(false) && self.room.get() < MOST;
        if more {
            self.room.set((4 * self.room.get() + 3).min(MOST));
        }
        more
    }

    /// Makes the present contents of the database those that runs begin with.
    pub fn begins_here(&self) {
        self.initial.set(self.keep());
    }

    /// Keeps the present contents of the database, and returns their number.
    fn keep(&self) -> u64 {
        let heap = self.heap.borrow();
        let contents = heap.present();
        let number = contents.number();
        self.states.borrow_mut().insert(number, contents.clone());
        number
    }

    /// Restores the contents of the database with this number.
    pub fn restore(&self, number: u64) {
        self.usage.set(Use::Looking);
        self.depth.set(0);
        let contents = self.states.borrow().get(&number).cloned();
        let contents = contents.expect("what checked memory holds was stored by the present run");
        // Idle workers remember free memory in the heap.
        hosted::pool(&self.database).drop_idle_workers();
        self.heap.borrow_mut().restore(&contents);
    }

    /// Begins another run.
    pub fn begin(&self) {
        self.restore(self.initial.get());
        self.states.borrow_mut().clear();
        self.keep();
        self.commits.borrow_mut().clear();
        self.durable.set(0);
        self.acknowledged.set(0);
        self.usage.set(Use::Running);
    }

    /// Runs `body`, the code of thread `thread`.
    pub fn run<R>(&self, thread: usize, memory: &Hosted, body: impl FnOnce() -> R) -> R {
        let _out = Out(self);
        self.goes_on(thread, memory);
        body()
    }

    /// Notes that thread `thread` runs now.
    fn goes_on(&self, thread: usize, memory: *const Hosted) {
        self.thread.set(thread);
        self.memory.set(memory);
    }

    /// Executes `operation`, during which other threads may run.
    fn perform<R>(&self, operation: impl FnOnce(&Hosted) -> R) -> R {
        let (thread, memory) = (self.thread.get(), self.memory.get());
        assert!(!memory.is_null(), "a database that is checked is used outside of what is checked");
        // SAFETY: whenever a thread's code runs, `memory` points to the view that was lent to this thread: `run` sets it, and a thread that has let
        // others run sets it again, below. The view is borrowed while `run` is active; afterwards the pointer is null until another thread continues.
        let result = operation(unsafe { &*memory });
        self.goes_on(thread, memory);
        result
    }

    /// Returns the number of the contents that have survived in `memory`.
    fn survived(&self, memory: &Hosted) -> u64 {
        let recovered = memory.load(RECOVERED);
        if recovered != 0 {
            return recovered;
        }
        let found = (1..=self.room.get()).map(|number| memory.load(line(number)));
        found.take_while(|found| found & IS_NUMBER != 0).last().unwrap_or(self.initial.get())
    }

    /// Runs the program's recovery on what has survived in `memory` after a power failure.
    pub fn recover(&self, memory: &Hosted, body: impl FnOnce()) {
        let from = self.survived(memory);
        self.restore(from);
        self.recoveries.borrow_mut().push(Recovery { from, commits: Vec::new() });
        self.pending.set(false);
        self.usage.set(Use::Recovering);
        self.run(0, memory, body);
        self.usage.set(Use::Looking);
    }

    /// Runs `body`, which reads what has survived in `memory`.
    pub fn judge<R>(&self, memory: &Hosted, body: impl FnOnce() -> R) -> R {
        let survived = self.survived(memory);
        self.restore(survived);
        body()
    }

    /// Returns the number of the database's contents.
    pub fn holds(&self) -> u64 {
        self.heap.borrow().present().number()
    }

    /// Returns the transactions of the present run.
    pub fn commits(&self) -> Vec<Commit> {
        self.commits.borrow().clone()
    }

    /// Handles the end of a transaction. Returns its number, or that of the latest one that it has read from.
    fn ended(&self, transaction: &Observed) -> u64 {
        let from = self.holds();
        let changed = self.has_changed(transaction, from);
        let commit = |to| Commit {
            thread: self.thread.get(),
            at: transaction.at,
            from,
            to,
            id: self.heap.borrow().clock(),
        };
        match self.usage.get() {
            Use::Looking => 0,
            Use::Running => {
                let number = if changed {
                    self.commit(commit(self.keep()))
                } else {
                    let seen = self.commits.borrow().partition_point(|commit| commit.id <= transaction.seen);
                    let last = self.commits.borrow().len();
                    self.perform(|memory| memory.load(line(last)));
                    seen
                };
                if transaction.waits {
                    self.wait_for(number);
                }
                number as u64
            }
            Use::Recovering => {
                if changed {
                    let commit = commit(self.keep());
                    if let Some(recovery) = self.recoveries.borrow_mut().last_mut() {
                        recovery.commits.push(commit);
                    }
                    self.pending.set(true);
                    self.perform(|memory| memory.store(RECOVERED, commit.to));
                }
                if transaction.waits {
                    self.wait_for(0);
                }
                0
            }
        }
    }

    /// Returns whether `transaction` has changed the contents `from`.
    fn has_changed(&self, transaction: &Observed, from: u64) -> bool {
        let mut heap = self.heap.borrow_mut();
        match &transaction.stored {
            Some(lines) => heap.stored(lines),
            None => {
                heap.look_all_over();
                heap.present().number() != from
            }
        }
    }

    /// Handles the commit of a thread's transaction. Returns its number.
    fn commit(&self, commit: Commit) -> usize {
        let number = self.commits.borrow().len() + 1;
        if number > self.room.get() {
            self.exceeded.set(true);
            Stopped::Panic(format!(
                "the program runs more than {MOST} transactions that change something, too many to check: let it do less"
            ))
            .raise();
        }
        self.commits.borrow_mut().push(commit);
        self.perform(|memory| {
            site::set(Site { at: commit.at.into(), step: "" });
            memory.compare_exchange(line(number), number as u64, commit.to)
        })
        .expect("each transaction has a line of its own");
        number
    }

    /// Makes the transactions up to number `number` durable; in recovery, all.
    fn wait_for(&self, number: usize) {
        if std::thread::panicking() {
            return;
        }
        match self.usage.get() {
            Use::Looking => {}
            Use::Running if number > self.durable.get() => {
                for number in self.durable.get() + 1..=number {
                    self.perform(|memory| memory.write_back(line(number), Step::CommitWriteBack));
                }
                self.durable.set(self.durable.get().max(number));
                self.perform(|memory| memory.fence(Step::CommitFence));
            }
            Use::Running => {}
            Use::Recovering if self.pending.replace(false) => {
                self.perform(|memory| memory.write_back(RECOVERED, Step::CommitWriteBack));
                self.perform(|memory| memory.fence(Step::CommitFence));
            }
            Use::Recovering => {}
        }
    }

    /// Handles the program's acknowledgement of `number`.
    pub fn acknowledge(&self, number: u64, at: &'static Location<'static>) {
        if self.depth.get() > 0 {
            Stopped::Panic(format!(
                "{number} is acknowledged inside a transaction's closure, before the transaction has committed ({}:{})",
                at.file(),
                at.line()
            ))
            .raise();
        }
        if self.usage.get() == Use::Running {
            self.acknowledged.set(self.acknowledged.get() + 1);
            self.most_acknowledged.set(self.most_acknowledged.get().max(self.acknowledged.get()));
            self.perform(|memory| {
                site::set(Site { at: at.into(), step: "" });
                memory.event(Event::Acknowledged(number));
            });
        }
    }

    /// Lets other threads run.
    pub fn pause(&self) {
        if self.usage.get() == Use::Running && self.depth.get() == 0 {
            self.perform(Hosted::pause);
        }
    }
}

/// Allows a thread's code to run until it is dropped.
struct Out<'b>(&'b Bridge);

impl Drop for Out<'_> {
    fn drop(&mut self) {
        self.0.memory.set(ptr::null());
    }
}
