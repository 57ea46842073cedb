//! Transactions that last as long as a block of Python. Each runs on a thread of its own, which receives operations.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use strandline::{Database, DynamicTable, Error, Result, Ticket, Tx};

use crate::tables::{Answer, Control, Operation};
use crate::turns::Turn;

/// Returns the error if no worker answers.
pub fn gone() -> Error {
    Error::Parameter("the transaction is over".into())
}

/// An operation, and the channel for its result.
struct Task {
    table: DynamicTable,
    operation: Operation,
    answer: Sender<Result<Answer>>,
}

enum Request {
    Do(Task),
    /// The end of the transaction: a commit if `true`, otherwise a rollback.
    End(bool),
}

/// The channel to a worker.
#[derive(Clone)]
pub struct Line(Sender<Request>);

impl Line {
    /// Sends an operation to the worker, and returns the channel for its result. A transaction in which an operation fails is rolled back.
    ///
    /// # Errors
    /// Returns an error if the transaction is over.
    pub fn ask(&self, table: &DynamicTable, operation: Operation) -> Result<Receiver<Result<Answer>>> {
        let (answer, answered) = channel();
        let task = Task { table: table.clone(), operation, answer };
        self.0.send(Request::Do(task)).map_err(|_| gone())?;
        Ok(answered)
    }
}

/// The outcome of a transaction.
pub type Ended = Result<Option<Ticket>>;

/// A running transaction. Dropping it rolls it back, without waiting for that.
pub struct Transaction {
    line: Line,
    /// The worker has a share as well. The turn ends when both shares are dropped.
    turn: Arc<Turn>,
    ended: Option<Receiver<Ended>>,
}

impl Transaction {
    /// Begins a transaction on a worker thread. With `later`, its end does not wait for the disk.
    ///
    /// # Errors
    /// Returns an error if the system cannot start another thread.
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
                // The error goes to the caller whose operation failed.
                (Err(error), Some(task)) => {
                    let _ = task.answer.send(Err(error));
                    Err(Error::Aborted)
                }
                (outcome, _) => outcome,
            };
            // The database is released before the turn ends, so that the next turn can close it.
            drop(db);
            drop(work);
            let _ = end.send(outcome);
        };
        std::thread::Builder::new().name("strandline".into()).spawn(run)?;
        Ok(Self { line: Line(to), turn, ended: Some(ended) })
    }

    /// Returns the channel to the worker.
    pub fn line(&self) -> Line {
        self.line.clone()
    }

    /// Ends the transaction by a commit or a rollback. Returns the channel for the outcome, which is that of [`Database::write`], or
    /// [`Error::Aborted`] after a rollback.
    pub fn end(mut self, commit: bool) -> Option<Receiver<Ended>> {
        let _ = self.line.0.send(Request::End(commit));
        self.ended.take()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // The transaction's tables may outlive it and keep its channel open. After another end the worker does not read this one.
        let _ = self.line.0.send(Request::End(false));
        self.turn.leave_block();
    }
}

/// The work of a worker thread.
struct Work {
    requests: Receiver<Request>,
    /// The operations that have written, for a transaction that has to begin again. Their results are the same then, because no other transaction has
    /// written meanwhile.
    done: Vec<(DynamicTable, Operation)>,
    /// The operation that failed, which may succeed when the transaction runs again.
    pending: Option<Task>,
    /// True if the transaction was to commit, in case it runs again after that.
    commits: bool,
    turn: Arc<Turn>,
}

impl Work {
    fn run(&mut self, tx: &Tx<'_, Control>) -> Result<()> {
        for (table, operation) in &self.done {
            operation.apply(table, tx)?;
        }
        loop {
            let task = match self.pending.take() {
                Some(task) => task,
                None if self.commits => return Ok(()),
                None => match self.requests.recv() {
                    Ok(Request::Do(task)) => task,
                    Ok(Request::End(true)) => {
                        self.commits = true;
                        return Ok(());
                    }
                    Ok(Request::End(false)) | Err(_) => return Err(Error::Aborted),
                },
            };
            match task.operation.apply(&task.table, tx) {
                Ok(answer) => {
                    let _ = task.answer.send(Ok(answer));
                    if task.operation.writes() {
                        self.done.push((task.table, task.operation));
                    }
                }
                Err(error) => {
                    self.pending = Some(task);
                    // If it runs again, the reason is that it did not fit into the log.
                    self.turn.become_large();
                    return Err(error);
                }
            }
        }
    }
}
