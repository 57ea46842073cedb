//! Sessions: an exploration's caller can end it early and follow its progress.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::counts::Counts;

type Progress = Box<dyn Fn(&Counts) + Send + Sync>;

/// A group of explorations that another thread or Ctrl-C ends together, with a function that receives their progress. Clones share one session.
///
/// ```
/// use strandline_check::{Session, Verdict, check};
///
/// let session = Session::new();
/// let program = check(|pmem| pmem.store(0, 1)).session(&session);
/// assert_eq!(program.exhaustive().verdict(), Verdict::NothingFound);
/// // An exploration that is stopped before it begins explores nothing, and reports that.
/// session.stop();
/// assert!(matches!(program.exhaustive().verdict(), Verdict::Unfinished { .. }));
/// ```
#[derive(Clone, Default)]
pub struct Session(Arc<Inner>);

#[derive(Default)]
struct Inner {
    stopped: AtomicBool,
    outer: Option<&'static AtomicBool>,
    progress: Option<Progress>,
}

impl Session {
    /// Creates a session that is not stopped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a session that also stops when `flag` becomes true, for example a flag that a signal handler sets.
    pub fn stopped_by(flag: &'static AtomicBool) -> Self {
        Self(Arc::new(Inner { outer: Some(flag), ..Inner::default() }))
    }

    /// Returns this session with a progress function. The exploring thread calls `hears` with the counts so far, after each run and each round over
    /// its crash points; it should return quickly.
    pub fn on_progress(self, hears: impl Fn(&Counts) + Send + Sync + 'static) -> Self {
        let stopped = AtomicBool::new(self.0.stopped.load(Relaxed));
        Self(Arc::new(Inner { stopped, outer: self.0.outer, progress: Some(Box::new(hears)) }))
    }

    /// Ends the explorations of this session, running and future ones, as if their time were up: they report what they have seen so far.
    pub fn stop(&self) {
        self.0.stopped.store(true, Relaxed);
    }

    /// Returns whether the session is stopped.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Relaxed) || self.0.outer.is_some_and(|flag| flag.load(Relaxed))
    }

    pub(crate) fn progress(&self, counts: &Counts) {
        if let Some(hears) = &self.0.progress {
            hears(counts);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("is_stopped", &self.is_stopped()).finish_non_exhaustive()
    }
}
