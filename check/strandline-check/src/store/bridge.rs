//! A database whose transactions are operations of a checked program.
//!
//! The transactions run on a real database in memory, one at a time. What the explorer sees of each is one store: the number of
//! what the database then holds, to a line of the transaction's own in checked memory. A transaction that is waited for writes back
//! its line and those before it, and fences; one that is durable [later](strandline::Database::later) does so when its ticket is
//! waited for. After a power failure the first lines that have survived without a gap say what the database holds: transactions become
//! durable in the order in which they commit. That is what Strandline promises, and what `strandline-lab check` holds its engine to.

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
use crate::x86::caught::Stopped;
use crate::x86::site::{self, Site};

/// Transactions of one run that change something: for so many there is checked memory at first, and at most. What is explored takes
/// the longer, the more memory there is.
const FEW: usize = 15;
const MOST: usize = 1023;

/// Where the number stands of what recovery has left; 0 before that.
const RECOVERED: PersistentAddress = PersistentAddress::new(0);

/// The line of transaction number `number`, from 1.
fn line(number: usize) -> PersistentAddress {
    PersistentAddress::new(64 * number as u64)
}

/// A transaction that has changed something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    pub thread: usize,
    pub at: &'static Location<'static>,
    /// What the database held before and behind it.
    pub from: u64,
    pub to: u64,
    /// Its number in the database.
    id: u64,
}

/// What one recovery found and did.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub from: u64,
    pub commits: Vec<Commit>,
}

/// Who uses the database.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// The checker itself, or a judge: nothing of it is a part of the program.
    Looking,
    Running,
    Recovering,
}

/// A database, and the run that uses it.
pub(crate) struct Bridge {
    pub database: Database,
    heap: RefCell<Heap>,
    initial: Cell<u64>,
    /// For so many transactions there is checked memory.
    room: Cell<usize>,
    /// A run had more.
    exceeded: Cell<bool>,
    /// What the present run's numbers stand for.
    states: RefCell<HashMap<u64, Rc<Contents>>>,
    usage: Cell<Use>,
    /// Who runs: the view of the coroutine whose code is executed, null if none is.
    memory: Cell<*const Hosted>,
    thread: Cell<usize>,
    /// Closures of transactions that run, one in the other.
    depth: Cell<u32>,
    commits: RefCell<Vec<Commit>>,
    /// So many of them are durable for certain.
    durable: Cell<usize>,
    /// Recovery has stored what is not durable yet.
    pending: Cell<bool>,
    /// Recoveries since this was last cleared.
    pub recoveries: RefCell<Vec<Recovery>>,
    /// Acknowledgements of the present run, and the most of any.
    acknowledged: Cell<u64>,
    pub most_acknowledged: Cell<u64>,
}

thread_local! {
    static BRIDGE: RefCell<Option<Rc<Bridge>>> = const { RefCell::new(None) };
}

/// The bridge of this thread of the operating system.
fn present() -> Rc<Bridge> {
    let bridge = BRIDGE.with(|bridge| bridge.borrow().clone());
    bridge.expect(
        "a database that is checked is used by a thread that the program has made itself: let the checker run it, with `threads`",
    )
}

/// The bridge that is in use, until this is dropped.
pub(crate) struct InUse(Option<Rc<Bridge>>);

impl Drop for InUse {
    fn drop(&mut self) {
        BRIDGE.with(|bridge| *bridge.borrow_mut() = self.0.take());
    }
}

/// Is told of all transactions.
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
            // In another's closure it was refused.
            Some(transaction) if bridge.depth.get() == 0 && !std::thread::panicking() => {
                bridge.ended(&transaction)
            }
            _ => 0,
        }
    }
}

impl Bridge {
    /// An empty database of at most `bytes` bytes for so many threads.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(bytes: u64, threads: usize) -> strandline::Result<Rc<Self>> {
        // While a thread waits its worker is there for others, so that one log would do; recovery and judges use it as well.
        let logs = threads as u64 + 1;
        // Logs are taken anew for each state, and so are short. Each transaction has to fit in one.
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

    /// Is told of the transactions of this thread of the operating system until what is returned is dropped.
    pub fn enter(self: &Rc<Self>) -> InUse {
        InUse(BRIDGE.with(|bridge| bridge.borrow_mut().replace(self.clone())))
    }

    /// Checked memory at the beginning: a line for what recovery leaves, and one for each transaction, which holds its number until it
    /// commits.
    pub fn image(&self) -> Vec<u64> {
        let words = 8 * (self.room.get() as u64 + 1);
        (0..words).map(|word| if word % 8 == 0 { word / 8 } else { 0 }).collect()
    }

    /// Makes room for more transactions, if a run had more than there was room for and there can be.
    pub fn makes_room(&self) -> bool {
        let more = self.exceeded.replace(false) && self.room.get() < MOST;
        if more {
            self.room.set((4 * self.room.get() + 3).min(MOST));
        }
        more
    }

    /// What the database holds now is what runs begin with.
    pub fn begins_here(&self) {
        self.initial.set(self.keep());
    }

    /// The number of what the database holds, which is kept.
    fn keep(&self) -> u64 {
        let heap = self.heap.borrow();
        let contents = heap.present();
        let number = contents.number();
        self.states.borrow_mut().insert(number, contents.clone());
        number
    }

    /// Makes the database hold what `number` stands for.
    pub fn restore(&self, number: u64) {
        self.usage.set(Use::Looking);
        self.depth.set(0);
        let contents = self.states.borrow().get(&number).cloned();
        let contents = contents.expect("what checked memory holds was stored by the present run");
        // They remember where there was room in the heap.
        hosted::pool(&self.database).drop_idle_workers();
        self.heap.borrow_mut().restore(&contents);
    }

    /// Another run begins.
    pub fn begin(&self) {
        self.restore(self.initial.get());
        self.states.borrow_mut().clear();
        self.keep();
        self.commits.borrow_mut().clear();
        self.durable.set(0);
        self.acknowledged.set(0);
        self.usage.set(Use::Running);
    }

    /// Runs `body`, which is what thread `thread` does.
    pub fn run<R>(&self, thread: usize, memory: &Hosted, body: impl FnOnce() -> R) -> R {
        let _out = Out(self);
        self.goes_on(thread, memory);
        body()
    }

    /// The thread `thread` is the one whose code is executed.
    fn goes_on(&self, thread: usize, memory: *const Hosted) {
        self.thread.set(thread);
        self.memory.set(memory);
    }

    /// Carries out `operation`, for which other threads may run meanwhile.
    fn perform<R>(&self, operation: impl FnOnce(&Hosted) -> R) -> R {
        let (thread, memory) = (self.thread.get(), self.memory.get());
        assert!(!memory.is_null(), "a database that is checked is used outside of what is checked");
        // SAFETY: whenever code of a thread is executed, `memory` points to the view that was lent to this thread: `run` sets it,
        // and whoever has let others run sets it again, below. The view is borrowed as long as `run` is under way, behind which
        // the pointer is null until another thread goes on.
        let result = operation(unsafe { &*memory });
        self.goes_on(thread, memory);
        result
    }

    /// What the database holds by what has survived in `memory`.
    fn survived(&self, memory: &Hosted) -> u64 {
        let recovered = memory.load(RECOVERED);
        if recovered != 0 {
            return recovered;
        }
        let found = (1..=self.room.get()).map(|number| memory.load(line(number)));
        found.take_while(|found| found & IS_NUMBER != 0).last().unwrap_or(self.initial.get())
    }

    /// After a power failure: runs the program's recovery on what has survived in `memory`.
    pub fn recover(&self, memory: &Hosted, body: impl FnOnce()) {
        let from = self.survived(memory);
        self.restore(from);
        self.recoveries.borrow_mut().push(Recovery { from, commits: Vec::new() });
        self.pending.set(false);
        self.usage.set(Use::Recovering);
        self.run(0, memory, body);
        self.usage.set(Use::Looking);
    }

    /// Runs `body`, which looks at what has survived in `memory`.
    pub fn judge<R>(&self, memory: &Hosted, body: impl FnOnce() -> R) -> R {
        let survived = self.survived(memory);
        self.restore(survived);
        body()
    }

    /// What the database holds.
    pub fn holds(&self) -> u64 {
        self.heap.borrow().present().number()
    }

    /// The transactions of the present run.
    pub fn commits(&self) -> Vec<Commit> {
        self.commits.borrow().clone()
    }

    /// A transaction has ended; its number, or that of the latest one that it has read from.
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

    /// Returns whether `transaction` has changed what the database held, which was `from`.
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

    /// A transaction of a thread has committed; its number.
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

    /// Makes the transactions up to this one durable; in recovery, all.
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

    /// The program says that `number` is done.
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

/// A thread's code, until this is dropped.
struct Out<'b>(&'b Bridge);

impl Drop for Out<'_> {
    fn drop(&mut self) {
        self.0.memory.set(ptr::null());
    }
}
