//! Binary traces of simulated runs.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use strandline_sim::{Machine, trace};

use strandline_command::Failure;

/// The writer of the file, or the error that prevents one.
type Written = io::Result<trace::Writer<BufWriter<File>>>;

/// A binary trace that is being written.
#[derive(Default)]
pub struct Recording {
    path: RefCell<PathBuf>,
    writer: Rc<RefCell<Option<Written>>>,
}

impl Recording {
    /// Records what runs on `machine` in `path`.
    pub fn begin(&self, path: &Path, header: &trace::Header, machine: &Machine) {
        *self.path.borrow_mut() = path.into();
        let file = File::create(path).map(BufWriter::new);
        *self.writer.borrow_mut() = Some(file.and_then(|file| trace::Writer::new(file, header)));
        let tape = self.writer.clone();
        machine.record(Box::new(move |thread, taped| {
            if let Some(Ok(writer)) = tape.borrow_mut().as_mut() {
                writer.add(thread, taped);
            }
        }));
    }

    /// Finishes the file, if there is one.
    pub fn finish(self) -> Result<(), Failure> {
        let written = match self.writer.take() {
            None => Ok(()),
            Some(writer) => writer.and_then(trace::Writer::finish),
        };
        written.map_err(Failure::io(format!("write the trace {}", self.path.borrow().display())))
    }
}
