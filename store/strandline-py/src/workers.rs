//! Transactions and snapshots that last as long as a block of Python: each on a thread of its own, which is told what to do.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use pyo3::prelude::*;
use strandline::{Database, Error, Result, Ticket, Tx};

use crate::errors::of_database;
use crate::patience;
use crate::tables::{Answer, Control, Erased, Operation};
use crate::turns::Turn;

/// The error where no worker answers.
pub fn gone() -> Error {
    Error::Parameter("the transaction or snapshot is over".into())
}

/// Something to do, and where to answer.
struct Task {
    table: Arc<dyn Erased>,
    operation: Operation,
    answer: Sender<Result<Answer>>,
}

enum Request {
    Do(Task),
    /// The snapshot has begun.
    Begun,
    /// The end: whether what was written is to stay.
    End(bool),
}

/// What a thread is told through.
#[derive(Clone)]
pub struct Line {
    to: Sender<Request>,
    /// After `to`, which ends the thread when nobody has it any more.
    _thread: Option<Arc<Joined>>,
}

/// A thread that is waited for: the database is free then.
struct Joined(Option<JoinHandle<()>>);

impl Drop for Joined {
    fn drop(&mut self) {
        let _ = self.0.take().map(JoinHandle::join);
    }
}

impl Line {
    /// Sends an operation to the worker; returns where its result will arrive. A transaction in which an operation fails is rolled back.
    ///
    /// # Errors
    /// The transaction or snapshot is over.
    pub fn ask(&self, table: &Arc<dyn Erased>, operation: Operation) -> Result<Receiver<Result<Answer>>> {
        let (answer, answered) = channel();
        let task = Task { table: table.clone(), operation, answer };
        self.to.send(Request::Do(task)).map_err(|_| gone())?;
        Ok(answered)
    }
}

/// How a transaction ended.
pub type Ended = Result<Option<Ticket>>;

/// A transaction under way. Dropping it rolls it back, without waiting for that.
pub struct Transaction {
    line: Line,
    /// The worker has a share, too: the turn ends when both have dropped theirs.
    turn: Arc<Turn>,
    ended: Option<Receiver<Ended>>,
}

impl Transaction {
    /// Begins a transaction on a worker thread; `later`: its end does not wait for the disk.
    ///
    /// # Errors
    /// Returns an error if the system has no thread left.
    pub fn begin(db: Arc<Database<Control>>, later: bool, turn: Turn) -> std::io::Result<Self> {
        let turn = Arc::new(turn);
        let (to, requests) = channel();
        let (end, ended) = channel();
        let mut work = Work { requests, done: Vec::new(), pending: None, commits: false, turn: turn.clone() };
        let run = move || {
            let outcome = match later {
                false => db.write(|tx| work.run(tx)).map(|()| None),
                true => db.later().write(|tx| work.run(tx)).map(|((), ticket)| Some(ticket)),
            };
            let outcome = match (outcome, work.pending.take()) {
                // Who asked for what failed is told why.
                (Err(error), Some(task)) => {
                    let _ = task.answer.send(Err(error));
                    Err(Error::Aborted)
                }
                (outcome, _) => outcome,
            };
            // Before the turn ends, so that whoever takes the next one can close the database.
            drop(db);
            drop(work);
            let _ = end.send(outcome);
        };
        std::thread::Builder::new().name("strandline".into()).spawn(run)?;
        Ok(Self { line: Line { to, _thread: None }, turn, ended: Some(ended) })
    }

    /// What it is told through.
    pub fn line(&self) -> Line {
        self.line.clone()
    }

    /// Ends it, by a commit or a rollback; returns where the outcome will arrive: as [`Database::write`], [`Error::Aborted`] if it was rolled
    /// back.
    pub fn end(mut self, commit: bool) -> Option<Receiver<Ended>> {
        let _ = self.line.to.send(Request::End(commit));
        self.ended.take()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // Tables of it may outlive it, so that its channel stays open. After another end this one is not read.
        let _ = self.line.to.send(Request::End(false));
        self.turn.leave_block();
    }
}

/// What a transaction is asked to do.
struct Work {
    requests: Receiver<Request>,
    /// What it has written, for when it has to begin anew: nobody else has written meanwhile that could change an answer.
    done: Vec<(Arc<dyn Erased>, Operation)>,
    /// What could not be done, and may be done the next time.
    pending: Option<Task>,
    /// The end was a commit, should the transaction run again after it.
    commits: bool,
    turn: Arc<Turn>,
}

impl Work {
    fn run(&mut self, tx: &Tx<'_, Control>) -> Result<()> {
        for (table, operation) in &self.done {
            table.apply(tx, operation)?;
        }
        loop {
            let task = match self.pending.take() {
                Some(task) => task,
                None if self.commits => return Ok(()),
                None => match self.requests.recv() {
                    Ok(Request::Do(task)) => task,
                    Ok(Request::Begun) => continue,
                    Ok(Request::End(true)) => {
                        self.commits = true;
                        return Ok(());
                    }
                    Ok(Request::End(false)) | Err(_) => return Err(Error::Aborted),
                },
            };
            match task.table.apply(tx, &task.operation) {
                Ok(answer) => {
                    let _ = task.answer.send(Ok(answer));
                    if task.operation.writes() {
                        self.done.push((task.table, task.operation));
                    }
                }
                Err(error) => {
                    self.pending = Some(task);
                    // If it runs again, that is because it did not fit the log.
                    self.turn.become_large();
                    return Err(error);
                }
            }
        }
    }
}

/// Begins a snapshot on a worker thread; it ends when its line is dropped. The worker has `operation` until it has begun, or has ended without that.
///
/// # Errors
/// As [`Database::snapshot`]; the system has no thread left; a signal's exception.
pub fn snapshot(py: Python<'_>, operation: Arc<()>, db: Arc<Database<Control>>) -> PyResult<Line> {
    let (to, requests) = channel();
    let (begun, has_begun) = channel();
    let run = move || {
        // Dropped last, and the database before it.
        let mut operation = Some(operation);
        let db = db;
        let snapshot = match db.snapshot() {
            Ok(snapshot) => snapshot,
            Err(error) => return drop(begun.send(Err(error))),
        };
        let _ = begun.send(Ok(()));
        drop(begun);
        let tx = snapshot.read();
        while let Ok(request) = requests.recv() {
            match request {
                Request::Do(task) => drop(task.answer.send(task.table.read(&tx, &task.operation))),
                Request::Begun => drop(operation.take()),
                Request::End(_) => break,
            }
        }
    };
    let thread = std::thread::Builder::new().name("strandline".into()).spawn(run)?;
    // A signal leaves the thread to itself: it ends when the snapshot has begun.
    let begun = patience::receive(py, has_begun)?.unwrap_or_else(|| Err(gone()));
    let _ = to.send(Request::Begun);
    let line = Line { to, _thread: Some(Arc::new(Joined(Some(thread)))) };
    begun.map(|()| line).map_err(of_database)
}
