//! Transactions and snapshots that last as long as a block of Python: each on a thread of its own, which is told what to do.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use strandline::{Database, Error, Result, Ticket, Tx};

use crate::tables::{Answer, Control, Erased, Operation};

/// Why nothing answers.
fn gone() -> Error {
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
    /// Does this.
    ///
    /// # Errors
    /// As the operation; the other end has gone. A transaction in which an operation fails is taken back.
    pub fn call(&self, table: &Arc<dyn Erased>, operation: Operation) -> Result<Answer> {
        let (answer, answered) = channel();
        let task = Task { table: table.clone(), operation, answer };
        self.to.send(Request::Do(task)).map_err(|_| gone())?;
        answered.recv().unwrap_or_else(|_| Err(gone()))
    }
}

/// A transaction that is under way.
pub struct Transaction {
    line: Line,
    thread: JoinHandle<Result<Option<Ticket>>>,
}

impl Transaction {
    /// Begins one; `later`: its end waits for no disk.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn begin(db: Arc<Database<Control>>, later: bool) -> std::io::Result<Self> {
        let (to, requests) = channel();
        let run = move || {
            let mut work = Work { requests, done: Vec::new(), pending: None };
            let outcome = match later {
                false => db.write(|tx| work.run(tx)).map(|()| None),
                true => db.later().write(|tx| work.run(tx)).map(|((), ticket)| Some(ticket)),
            };
            match (outcome, work.pending) {
                // Who asked for what failed is told why.
                (Err(error), Some(task)) => {
                    let _ = task.answer.send(Err(error));
                    Err(Error::Aborted)
                }
                (outcome, _) => outcome,
            }
        };
        let thread = std::thread::Builder::new().name("strandline".into()).spawn(run)?;
        Ok(Self { line: Line { to, _thread: None }, thread })
    }

    /// What it is told through.
    pub fn line(&self) -> Line {
        self.line.clone()
    }

    /// Ends it; what it wrote stays if `commit` says so.
    ///
    /// # Errors
    /// As [`Database::write`]; [`Error::Aborted`] if it was taken back.
    pub fn end(self, commit: bool) -> Result<Option<Ticket>> {
        let _ = self.line.to.send(Request::End(commit));
        self.thread.join().unwrap_or_else(|_| Err(gone()))
    }
}

/// What a transaction is asked to do.
struct Work {
    requests: Receiver<Request>,
    /// What it has written, for when it has to begin anew: nobody else has written meanwhile that could change an answer.
    done: Vec<(Arc<dyn Erased>, Operation)>,
    /// What could not be done, and may be done the next time.
    pending: Option<Task>,
}

impl Work {
    fn run(&mut self, tx: &Tx<'_, Control>) -> Result<()> {
        for (table, operation) in &self.done {
            table.apply(tx, operation)?;
        }
        loop {
            let task = match self.pending.take() {
                Some(task) => task,
                None => match self.requests.recv() {
                    Ok(Request::Do(task)) => task,
                    Ok(Request::End(true)) => return Ok(()),
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
                    return Err(error);
                }
            }
        }
    }
}

/// Begins a snapshot; it ends when nobody has its line any more.
///
/// # Errors
/// As [`Database::snapshot`]; there is no thread to be had.
pub fn snapshot(db: Arc<Database<Control>>) -> Result<Line> {
    let (to, requests) = channel();
    let (begun, has_begun) = channel();
    let run = move || {
        let mut snapshot = match db.snapshot() {
            Ok(snapshot) => snapshot,
            Err(error) => return drop(begun.send(Err(error))),
        };
        let _ = begun.send(Ok(()));
        drop(begun);
        let tx = snapshot.read();
        while let Ok(Request::Do(task)) = requests.recv() {
            let _ = task.answer.send(task.table.read(&tx, &task.operation));
        }
    };
    let spawned = std::thread::Builder::new().name("strandline".into()).spawn(run);
    let thread = spawned.map_err(|source| Error::Io { what: "make a thread".into(), source })?;
    has_begun.recv().unwrap_or_else(|_| Err(gone()))?;
    Ok(Line { to, _thread: Some(Arc::new(Joined(Some(thread)))) })
}
