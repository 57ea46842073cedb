//! Transactions that last as long as a block of Python: each on a thread of its own, which is told what to do.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use strandline::{Database, DynamicTable, Error, Result, Ticket, Tx};

use crate::tables::{Answer, Control, Operation};
use crate::turns::Turn;

/// The error where no worker answers.
pub fn gone() -> Error {
    Error::Parameter("the transaction is over".into())
}

/// Something to do, and where to answer.
struct Task {
    table: DynamicTable,
    operation: Operation,
    answer: Sender<Result<Answer>>,
}

enum Request {
    Do(Task),
    /// The end: whether what was written is to stay.
    End(bool),
}

/// What a thread is told through.
#[derive(Clone)]
pub struct Line(Sender<Request>);

impl Line {
    /// Sends an operation to the worker; returns where its result will arrive. A transaction in which an operation fails is rolled back.
    ///
    /// # Errors
    /// The transaction is over.
    pub fn ask(&self, table: &DynamicTable, operation: Operation) -> Result<Receiver<Result<Answer>>> {
        let (answer, answered) = channel();
        let task = Task { table: table.clone(), operation, answer };
        self.0.send(Request::Do(task)).map_err(|_| gone())?;
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
        Ok(Self { line: Line(to), turn, ended: Some(ended) })
    }

    /// What it is told through.
    pub fn line(&self) -> Line {
        self.line.clone()
    }

    /// Ends it, by a commit or a rollback; returns where the outcome will arrive: as [`Database::write`], [`Error::Aborted`] if it was rolled
    /// back.
    pub fn end(mut self, commit: bool) -> Option<Receiver<Ended>> {
        let _ = self.line.0.send(Request::End(commit));
        self.ended.take()
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // Tables of it may outlive it, so that its channel stays open. After another end this one is not read.
        let _ = self.line.0.send(Request::End(false));
        self.turn.leave_block();
    }
}

/// What a transaction is asked to do.
struct Work {
    requests: Receiver<Request>,
    /// What it has written, for when it has to begin anew: nobody else has written meanwhile that could change an answer.
    done: Vec<(DynamicTable, Operation)>,
    /// What could not be done, and may be done the next time.
    pending: Option<Task>,
    /// The end was a commit, should the transaction run again after it.
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
                    // If it runs again, that is because it did not fit the log.
                    self.turn.become_large();
                    return Err(error);
                }
            }
        }
    }
}
