//! The checker for code over Strandline's databases.

mod bridge;
mod contents;
mod database_report;

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::panic::Location;
use std::rc::Rc;
use std::time::Instant;

use strandline::Database;
use strandline_core::memory::Hosted;

use crate::Setting;
use crate::check::{Check, Histories, Outcome, Target};
use crate::coverage::Coverage;
use crate::finding::{Finding, FindingKind};
use crate::x86::Crashed;
use crate::x86::checked_program::{self, CheckedProgram, Explored, Interleaving, ProgramJudge, Run};
use crate::x86::explorer::{Broken, Explorer};
use crate::x86::invariant_coverage::uncovered;
use crate::x86::panics::{Stopped, catch_panic};
use crate::x86::replay::Replay;
use bridge::Bridge;

/// The result of the closures of a [`store`] check. Any error will do: a sentence (`Err("…".into())`) as well as a [`strandline::Error`] that `?`
/// returns.
pub type Checked<T = ()> = Result<T, Box<dyn Error>>;

/// One thread's handle to a checked [`Database`]. It dereferences to the database, so that `&Db` can be passed as `&Database`; it also has the
/// thread's number and acknowledges to the outside world.
pub struct Db<'a> {
    bridge: &'a Bridge,
    thread: usize,
}

impl Db<'_> {
    /// Returns the number of this thread, from 0. It is 0 in set-up, recovery and invariant.
    pub fn thread(&self) -> usize {
        self.thread
    }

    /// Tells the outside world that `number` is done and must not be lost: see [`Crashed::acknowledged`]. Does nothing in set-up, recovery and
    /// invariant.
    ///
    /// # Panics
    /// Panics if called in a transaction's closure, because the transaction has not committed yet. That ends the run, and is a finding.
    #[track_caller]
    pub fn acknowledge(&self, number: u64) {
        self.bridge.acknowledge(number, Location::caller());
    }

    /// Lets other threads run. A loop that waits for another thread must call it in each iteration.
    pub fn pause(&self) {
        self.bridge.pause();
    }
}

impl Deref for Db<'_> {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.bridge.database
    }
}

impl fmt::Debug for Db<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("thread", &self.thread).finish_non_exhaustive()
    }
}

/// The target of [`store`]: a [`Database`]. Each thread accesses it through a [`Db`].
///
/// Power fails before and after each transaction, and before the wait for a transaction that is durable [later](Database::later). The check relies on
/// Strandline's promise that a transaction is atomic and that concurrent transactions are serialisable; `strandline-lab check` verifies that promise.
///
/// ```
/// use strandline::{Database, Result};
/// use strandline_check::{FindingKind, store};
///
/// // This needs one transaction, but uses two.
/// fn transfer(db: &Database, amount: u64) -> Result<()> {
///     let accounts = db.table::<String, u64>("accounts")?;
///     db.write(|tx| {
///         let ann = accounts.get(tx, "ann")?.unwrap_or(0);
///         accounts.insert(tx, "ann", &(ann - amount)).map(drop)
///     })?;
///     db.write(|tx| {
///         let bob = accounts.get(tx, "bob")?.unwrap_or(0);
///         accounts.insert(tx, "bob", &(bob + amount)).map(drop)
///     })
/// }
///
/// let check = store(|db| Ok(transfer(db, 30)?))
///     .set_up(|db| {
///         let accounts = db.table::<String, u64>("accounts")?;
///         Ok(db.write(|tx| accounts.insert(tx, "ann", &100).map(drop))?)
///     })
///     .invariant(|db, _| {
///         let accounts = db.table::<String, u64>("accounts")?;
///         let rows = db.read(|tx| accounts.iter(tx)?.collect::<Result<Vec<_>>>())?;
///         match rows.iter().map(|(_, balance)| balance).sum() {
///             100 => Ok(()),
///             sum => Err(format!("the balances add up to {sum}").into()),
///         }
///     });
/// let finding = check.exhaustive().finding.unwrap();
/// assert_eq!(finding.kind, FindingKind::NotAtomic);
/// assert_eq!(finding.what, "the balances add up to 70");
/// assert_eq!(finding.tables, [r#"accounts["ann"] = 70"#]);
/// ```
#[derive(Debug)]
pub enum OnDatabase {}

/// Options that exist only for code over databases.
#[derive(Default)]
pub struct DatabaseOptions {
    has_model: bool,
}

/// Checks `program` on an initially empty database. Each thread runs `program`, and [`Db::thread`] returns its number. The defaults are one thread
/// ([`Check::threads`]) and two preemptions.
///
/// ```
/// use strandline_check::store;
///
/// let visits = store(|db| {
///     let visits = db.table::<String, u64>("visits")?;
///     for number in 0..3 {
///         db.write(|tx| {
///             let count = visits.get(tx, "home")?.unwrap_or(0);
///             visits.insert(tx, "home", &(count + 1)).map(drop)
///         })?;
///         db.acknowledge(number);
///     }
///     Ok(())
/// });
/// visits
///     .invariant(|db, crashed| {
///         let visits = db.table::<String, u64>("visits")?;
///         let count = db.read(|tx| visits.get(tx, "home"))?.unwrap_or(0);
///         if count < crashed.acknowledged.len() as u64 { Err("a visit is lost".into()) } else { Ok(()) }
///     })
///     .exhaustive()
///     .assert_clean();
/// ```
pub fn store<'a>(program: impl Fn(&Db<'_>) -> Checked + 'a) -> Check<'a, OnDatabase> {
    Check::new(Box::new(program), 16 << 20, DatabaseOptions::default())
}

impl Target for OnDatabase {
    type View<'v> = Db<'v>;
    type Ended = Checked;
    type Refusal = Box<dyn Error>;
    type Options = DatabaseOptions;

    #[track_caller]
    fn explore(check: &Check<'_, Self>, histories: Histories<'_>) -> Outcome {
        let (began, mut coverage) = (Instant::now(), Coverage::default());
        let bridge = check.bridge();
        let _in_use = bridge.enter();
        let bridge = &*bridge;
        let db = |thread| Db { bridge, thread };
        let ends = |what: String, result: Checked| {
            if let Err(error) = result {
                Stopped::Panic(format!("{what} fails: {error:#}")).raise();
            }
        };
        let judged = |crashed: &Crashed| {
            let mut invariants = check.invariants.iter();
            invariants
                .try_for_each(|invariant| invariant(&db(0), crashed))
                .map_err(|error| format!("{error:#}"))
        };
        let mut checked = CheckedProgram {
            image: bridge.image(),
            volatile_bytes: 64,
            setting: Setting::Line,
            threads: check.threads,
            begin: &|| bridge.begin(),
            program: &|thread, memory| {
                bridge.run(thread, memory, || {
                    ends(format!("thread {thread}"), (check.program)(&db(thread)));
                });
            },
            recovery: &|memory| {
                if let Some(recovery) = &check.recovery {
                    bridge.recover(memory, || ends("it".into(), recovery(&db(0))));
                }
            },
            invariant: &|memory: &Hosted, crashed| bridge.judge(memory, || judged(crashed)),
            name: &|word| format!("transaction {}", word / 8),
            every_access: true,
        };
        let reach = &check.reach(u64::MAX);
        let mut explored_by = |checked: &CheckedProgram<'_>| {
            coverage = Coverage::default();
            check.run(checked, reach, histories, &mut |run| coverage.add_transactions(&run.trace))
        };
        let mut explored = explored_by(&checked);
        while bridge.makes_room() {
            checked.image = bridge.image();
            explored = explored_by(&checked);
        }
        if histories.replayed().is_none() {
            checked_program::shrink(&checked, reach, &mut explored);
        }
        let finding = check.finding(&checked, bridge, &mut explored);
        let (counts, time) = (explored.counts, began.elapsed());
        let notes = match (&finding, histories.replayed()) {
            (None, None) => uncovered(&checked, |_| Vec::new()),
            _ => Vec::new(),
        };
        Outcome { counts, coverage, time, finding, performance: Vec::new(), races: Vec::new(), notes }
    }
}

impl<'a> Check<'a, OnDatabase> {
    /// Checks one thread's operations against a simpler model. The program acknowledges its operations as 0, 1, 2 and so on. `initial` is the model
    /// before the first operation, `operation` applies the operation with this number to the model, and `contents` reads the model's value from the
    /// database. After each power failure that value must be the model after all acknowledged operations, and possibly some more.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    ///
    /// use strandline_check::store;
    ///
    /// let scores = store(|db| {
    ///     let scores = db.table::<u64, u64>("scores")?;
    ///     for number in 0..3 {
    ///         db.write(|tx| scores.insert(tx, &number, &(number * number)).map(drop))?;
    ///         db.acknowledge(number);
    ///     }
    ///     Ok(())
    /// });
    /// let scores = scores.model(
    ///     BTreeMap::new(),
    ///     |scores, number| {
    ///         scores.insert(number, number * number);
    ///     },
    ///     |db| {
    ///         let scores = db.table::<u64, u64>("scores")?;
    ///         Ok(db.read(|tx| scores.iter(tx)?.collect())?)
    ///     },
    /// );
    /// scores.exhaustive().assert_clean();
    /// ```
    pub fn model<M: Clone + PartialEq + fmt::Debug + 'a>(
        mut self,
        initial: M,
        operation: impl Fn(&mut M, u64) + 'a,
        contents: impl Fn(&Db<'_>) -> Checked<M> + 'a,
    ) -> Self {
        self.options.has_model = true;
        self.invariant(move |db, crashed| {
            let most = db.bridge.most_acknowledged.get();
            let done = crashed.acknowledged.len() as u64;
            if !crashed.acknowledged.iter().copied().eq(0..done) {
                let is = &crashed.acknowledged;
                return Err(format!("a model's operations are acknowledged as 0, 1, 2 and so on, not as {is:?}").into());
            }
            let found = contents(db)?;
            let mut state = initial.clone();
            (0..done).for_each(|number| operation(&mut state, number));
            let expected = state.clone();
            for number in done..=most {
                if state == found {
                    return Ok(());
                }
                if number < most {
                    operation(&mut state, number);
                }
            }
            Err(format!(
                "the first {done} operations were acknowledged, after which the model is {expected:?}; found, and never in the model \
                 from then on: {found:?}"
            )
            .into())
        })
    }

    /// Returns a database after the set-up.
    #[track_caller]
    fn bridge(&self) -> Rc<Bridge> {
        assert!(
            self.threads == 1 || !self.options.has_model,
            "a model says what one thread's operations do, and this check has {} threads: give it an invariant instead",
            self.threads
        );
        let bridge = match Bridge::new(self.bytes, self.threads) {
            Ok(bridge) => bridge,
            Err(error) => panic!("there is no database to check: {error:#}"),
        };
        let _in_use = bridge.enter();
        let set_up =
            || self.set_up.as_ref().map_or(Ok(()), |set_up| set_up(&Db { bridge: &bridge, thread: 0 }));
        match catch_panic(set_up) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => panic!("the set-up of the database that is checked fails: {error:#}"),
            Err(stopped) => panic!("the set-up of the database that is checked stops: {}", stopped.text()),
        }
        bridge.begins_here();
        bridge
    }

    /// Builds the finding for a report.
    fn finding(
        &self,
        checked: &CheckedProgram<'_>,
        bridge: &Bridge,
        explored: &mut Explored,
    ) -> Option<Finding> {
        let mut broken = explored.broken.take()?;
        let counts = explored.counts;
        let run = checked.run(Interleaving::guided(&broken.schedule, explored.delays));
        if let Some(earlier) = earlier(checked, bridge, &run, &broken) {
            broken = earlier;
        }
        let kind = self.kind(checked, &broken);
        // The diagnosis may have run the program in other ways.
        let run = checked.run(Interleaving::guided(&broken.schedule, explored.delays));
        let story = database_report::story(checked, bridge, &run, &broken);
        explored.counts = counts;
        Some(Finding {
            kind,
            what: broken.violation.what.clone(),
            places: story.places,
            history: story.history,
            lost: story.lost,
            recovery: story.recovery,
            tables: story.tables,
            advice: None,
            replay: Replay::new((checked.setting, checked.threads), &broken, explored.delays).to_line(),
            seed: explored.seed,
        })
    }

    fn kind(&self, checked: &CheckedProgram<'_>, broken: &Broken) -> FindingKind {
        let lost = broken.crashes.last().is_some_and(|(lost, _)| !lost.is_empty());
        match &broken.stopped {
            Some(Stopped::Deadlock(_)) => FindingKind::Deadlock,
            Some(Stopped::Panic(_) | Stopped::Outside(_)) => FindingKind::Panic,
            None if broken.crashes.len() > 1 => FindingKind::NonIdempotentRecovery,
            None if broken.recovery_stopped => FindingKind::FailingRecovery,
            None if lost => FindingKind::NotDurable,
            None if self.threads > 1
                && checked_program::exhaust(checked, &self.reach(u64::MAX), 0, |_| ()).broken.is_none() =>
            {
                FindingKind::Race
            }
            None => FindingKind::NotAtomic,
        }
    }
}

/// Returns the same violation at the moment when exactly the survivors had committed, so that the violation needs no losses.
fn earlier(checked: &CheckedProgram<'_>, bridge: &Bridge, run: &Run, broken: &Broken) -> Option<Box<Broken>> {
    let [(lost, _)] = &broken.crashes[..] else { return None };
    let first = lost.iter().map(|lost| lost.word / 8).min()?;
    let time = database_report::committed_at(&run.trace, first as usize)? - 1;
    let mut explorer = Explorer::new(ProgramJudge(checked));
    explorer.begin_run();
    bridge.recoveries.borrow_mut().clear();
    let mut found = explorer.replay(run, time, &[(Vec::new(), 0)]).err()?;
    found.schedule.clone_from(&broken.schedule);
    Some(found)
}
