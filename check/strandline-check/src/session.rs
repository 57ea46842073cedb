//! An exploration under way: it can be ended early, and says how far it is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::counts::Counts;

type Progress = Box<dyn Fn(&Counts) + Send + Sync>;

/// Explorations that are ended together, from another thread or on Ctrl-C, and the function that hears how far they are. Copies are the same
/// session.
///
/// ```
/// use strandline_check::{Session, Verdict, check};
///
/// let session = Session::new();
/// let program = check(|pmem| pmem.store(0, 1)).session(&session);
/// assert_eq!(program.exhaustive().verdict(), Verdict::NothingFound);
/// // Stopped before it has begun, it sees nothing, and says so.
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
    /// A session that nobody has stopped.
    pub fn new() -> Self {
        Self::default()
    }

    /// A session that also stops when `flag` becomes true, such as a flag that a signal handler sets.
    pub fn stopped_by(flag: &'static AtomicBool) -> Self {
        Self(Arc::new(Inner { outer: Some(flag), ..Inner::default() }))
    }

    /// This session, in which `hears` is called with the counts so far, after each run and each round over its crash points. It is called on
    /// the thread that explores, and should be quick.
    pub fn on_progress(self, hears: impl Fn(&Counts) + Send + Sync + 'static) -> Self {
        let stopped = AtomicBool::new(self.0.stopped.load(Relaxed));
        Self(Arc::new(Inner { stopped, outer: self.0.outer, progress: Some(Box::new(hears)) }))
    }

    /// Ends the explorations of this session, those under way and those to come, as if their time were up: what they have seen by then is
    /// reported.
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
