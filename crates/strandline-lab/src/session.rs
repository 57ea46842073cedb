//! One run of the laboratory: how thoroughly it measures, where, and what came out.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use strandline_core::memory::WriteBackInstruction;
use strandline_sim::{Description, file};
use strandline_workloads::{Length, Place, Sizes};

use crate::claim::Claim;
use crate::measurements::Measurements;
use crate::paper::{At, ClaimSpec, FigureSpec, Finding, Paper, Site};

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for does not exist.
    #[error("{0}")]
    Usage(String),
    /// The library refused.
    #[error(transparent)]
    Library(#[from] strandline_core::Error),
    /// The system refused.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was attempted, as a verb and its object.
        what: String,
        /// What the operating system answered.
        source: std::io::Error,
    },
}

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Every point of every figure, with both write-back instructions: within half an hour.
    Full,
    /// Fewer points, shorter and fewer repetitions, one instruction where figures sweep a parameter: within
    /// three minutes.
    Quick,
    /// The machinery on tiny structures: seconds, and figures that say nothing.
    Trial,
}

/// How long one measurement takes, and how often it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Before anything counts: caches and page tables get used to the pool.
    pub warm_up: Duration,
    /// The part that counts.
    pub duration: Duration,
    /// Repetitions, interleaved with those of everything that is compared.
    pub repetitions: u64,
}

impl Pace {
    /// When a native run ends; where it has no time, after a few transactions.
    pub fn length(&self) -> Length {
        if self.duration.is_zero() {
            Length::Transactions(30)
        } else {
            Length::Time { warm_up: self.warm_up, timed: self.duration }
        }
    }
}

/// Which machine is simulated where a paper's figures are measured natively too.
#[derive(Clone, Debug, Default)]
pub enum Simulation {
    /// The paper's.
    #[default]
    Papers,
    /// Another one. What the paper's has to judge is not judged then.
    On(Box<Description>),
    /// None.
    Nothing,
}

/// What to reproduce, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How much is measured: in full, or quickly.
    pub effort: Effort,
    /// Seeds the workloads' random numbers.
    pub seed: u64,
    /// Only these claims, and the figures that they need; none for all.
    pub claims: Vec<String>,
    /// Transactions to record where figures count recorded ones, instead of what the effort says.
    pub transactions: Option<u64>,
    /// What is simulated beside native measurements.
    pub simulation: Simulation,
    /// Open parameters of the papers' machines, which are varied: for which values do claims hold?
    pub intervals: Vec<Interval>,
}

/// A key of a machine's description, and values for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The key in full, as in `persistence.write_back_completes`.
    pub key: String,
    /// Its values.
    pub values: Vec<String>,
}

impl std::str::FromStr for Interval {
    type Err = String;

    /// `KEY=v1,v2,…`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, values) = text.split_once('=').ok_or("expected KEY=VALUE,VALUE,…")?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err("expected KEY=VALUE,VALUE,…".into());
        }
        Ok(Self { key: key.trim().to_owned(), values })
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.key, self.values.join(","))
    }
}

/// A run under way.
#[derive(Clone, Debug)]
pub struct Session {
    /// How thoroughly it measures.
    pub effort: Effort,
    /// Seeds the workloads' random numbers.
    pub seed: u64,
    /// Transactions to record, if somebody said so.
    pub transactions: Option<u64>,
    /// Processors that threads can run on at the same time.
    pub cores: u64,
    /// The machine that is simulated beside native measurements, if there is one.
    pub machine: Option<Description>,
    /// Whether what can be is measured on this processor.
    pub natively: bool,
    /// Keys of the paper's own machine that differ (`key=value`).
    pub overrides: Vec<String>,
    /// Shows how far it is.
    pub progress: ProgressBar,
}

impl Session {
    /// The machine that a paper's figures run on, with what the run varies and, over that, `overrides`.
    ///
    /// # Errors
    /// The paper has none; an override is impossible.
    pub fn machine_of(&self, paper: &Paper, overrides: &[String]) -> Result<Description, Error> {
        let name = paper.machine.ok_or_else(|| {
            Error::Usage(format!("{} has no machine of its own whose keys could be varied", paper.name))
        })?;
        let all: Vec<&String> = self.overrides.iter().chain(overrides).collect();
        file::load(name, &all).map_err(|error| Error::Usage(error.to_string()))
    }

    /// Measures figures.
    fn measure(&self, figures: &[&FigureSpec], note: &str, into: &mut Measurements) -> Result<(), Error> {
        for figure in figures {
            self.progress.set_message(format!("{}: {}{note}", figure.number, figure.title));
            (figure.run)(self, into)?;
        }
        Ok(())
    }

    /// What has to be run for a claim, if this session does not run it.
    fn missing(&self, paper: &Paper, spec: &ClaimSpec) -> Option<String> {
        if !paper.natively {
            return None;
        }
        let is_here = match spec.venue.site {
            Site::Code => true,
            Site::Native => self.natively,
            Site::Simulated => self.machine.as_ref().map(|machine| &*machine.name) == paper.machine,
        };
        (!is_here).then(|| match spec.venue.site {
            Site::Simulated => format!(
                "Judged on the simulated {}, which was not run: `strandline reproduce {} --claim {}`, without --machine, \
                 runs it.",
                paper.machine.unwrap_or("machine"),
                paper.name,
                spec.id
            ),
            Site::Code | Site::Native => "Judged natively, which was not run.".to_owned(),
        })
    }

    /// One that a test judges claims with.
    #[cfg(test)]
    pub(crate) fn for_tests(effort: Effort) -> Self {
        Self {
            effort,
            seed: 1,
            transactions: None,
            cores: 2,
            machine: None,
            natively: true,
            overrides: Vec::new(),
            progress: ProgressBar::hidden(),
        }
    }

    /// Runs simulations side by side, as many as there are processors; what each found, in order. One step each.
    ///
    /// # Errors
    /// The first of theirs; no more are begun then.
    pub fn simulate<J: Sync, R: Send>(
        &self,
        jobs: &[J],
        run: impl Fn(&J) -> Result<R, Error> + Sync,
    ) -> Result<Vec<R>, Error> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::new();
            while let Some((index, job)) =
                Some(next.fetch_add(1, Relaxed)).and_then(|i| Some((i, jobs.get(i)?)))
            {
                let result = run(job);
                self.progress.inc(1);
                if result.is_err() {
                    next.store(jobs.len(), Relaxed);
                }
                found.push((index, result));
            }
            found
        };
        let mut found = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.cores).map(|_| scope.spawn(work)).collect();
            let each = workers.into_iter().map(|worker| worker.join());
            each.flat_map(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Vec<_>>()
        });
        found.sort_by_key(|(index, _)| *index);
        found.into_iter().map(|(_, result)| result).collect()
    }

    /// How long and how often to measure.
    pub fn pace(&self) -> Pace {
        let (warm_up, duration, repetitions) = match self.effort {
            Effort::Full => (60, 240, 7),
            Effort::Quick => (30, 70, 3),
            Effort::Trial => (0, 0, 2),
        };
        let (warm_up, duration) = (Duration::from_millis(warm_up), Duration::from_millis(duration));
        Pace { warm_up, duration, repetitions }
    }

    /// Threads that can run at the same time, here or on the simulated machine.
    pub fn most_threads(&self) -> u64 {
        self.machine.as_ref().map_or(0, |machine| machine.cores.count as u64).max(self.cores)
    }

    /// The workloads' sizes, before a figure changes one.
    pub fn sizes(&self) -> Sizes {
        if self.effort == Effort::Trial { Sizes::small() } else { Sizes::default() }
    }

    /// Those of a figure's points that this effort measures: all, or the first, the middle and the last.
    pub fn points<T: Copy>(&self, all: &[T]) -> Vec<T> {
        if self.effort == Effort::Full || all.len() <= 3 {
            return all.to_vec();
        }
        vec![all[0], all[all.len() / 2], all[all.len() - 1]]
    }

    /// The paper's instruction, and the best one if that is another; none where lines cannot be written back.
    pub fn instructions(&self) -> Vec<WriteBackInstruction> {
        let mut all: Vec<_> = [Some(WriteBackInstruction::Clflush), WriteBackInstruction::best()]
            .into_iter()
            .flatten()
            .filter(|instruction| instruction.is_supported())
            .collect();
        all.dedup();
        all
    }

    /// [`Session::instructions`] for figures that sweep a parameter: the first alone, unless in full.
    pub fn sweep_instructions(&self) -> Vec<WriteBackInstruction> {
        let mut all = self.instructions();
        if self.effort != Effort::Full {
            all.truncate(1);
        }
        all
    }

    /// A folder for pools.
    ///
    /// # Errors
    /// There is nowhere to write.
    pub fn place(&self) -> Result<Place, Error> {
        Place::in_memory().map_err(|source| Error::Io { what: "create a folder for pools".into(), source })
    }
}

/// What a run found about one paper.
#[derive(Debug)]
pub struct Evaluation {
    /// The paper.
    pub paper: &'static Paper,
    /// The figures that were measured.
    pub figures: Vec<&'static FigureSpec>,
    /// What they are drawn from.
    pub measurements: Measurements,
    /// The claims with their findings.
    pub rows: Vec<(&'static Claim, Finding)>,
    /// How it was measured.
    pub effort: Effort,
    /// Length and number of the measurements.
    pub pace: Pace,
    /// The seed of all random numbers.
    pub seed: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Measures a paper's figures and judges its claims.
///
/// # Errors
/// A claim's id is unknown; a pool cannot be created; a transaction failed.
pub fn reproduce(
    paper: &'static Paper,
    settings: &Settings,
    progress: &ProgressBar,
) -> Result<Evaluation, Error> {
    let since = Instant::now();
    for id in &settings.claims {
        if paper.claim(id).is_none() {
            let ids: Vec<_> = paper.claims.iter().map(|claim| claim.id).collect();
            return Err(Error::Usage(format!(
                "{} has no claim {id:?}; choose from {}",
                paper.name,
                ids.join(", ")
            )));
        }
    }
    let mut session = Session {
        effort: settings.effort,
        seed: settings.seed,
        transactions: settings.transactions,
        machine: None,
        natively: paper.natively,
        overrides: Vec::new(),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        progress: progress.clone(),
    };
    session.machine = match &settings.simulation {
        Simulation::On(_) if !paper.natively => {
            return Err(Error::Usage(format!(
                "{} has no figures of software schemes that a machine could be chosen for: leave --machine out",
                paper.name
            )));
        }
        Simulation::On(machine) => Some((**machine).clone()),
        Simulation::Papers if paper.natively => Some(session.machine_of(paper, &[])?),
        Simulation::Papers | Simulation::Nothing => None,
    };
    let chosen = |id: &str| settings.claims.is_empty() || settings.claims.iter().any(|claim| claim == id);
    let needed = |figure: &FigureSpec| {
        settings.claims.is_empty()
            || paper.claims.iter().any(|claim| chosen(claim.id) && claim.figure == Some(figure.id))
    };
    let figures: Vec<_> = paper.figures.iter().filter(|figure| needed(figure)).collect();
    let varied: Vec<(&str, &str)> = settings
        .intervals
        .iter()
        .flat_map(|interval| interval.values.iter().map(|value| (interval.key.as_str(), value.as_str())))
        .collect();
    if !varied.is_empty() && paper.natively && !matches!(settings.simulation, Simulation::Papers) {
        return Err(Error::Usage("intervals are of the paper's machine: leave --machine out".into()));
    }
    // What depends on the machine that is varied, and on nothing else.
    let is_varied = |claim: &ClaimSpec| claim.venue.site == Site::Simulated;
    let at = |key: &str, value: &str| {
        let overrides = vec![format!("{key}={value}")];
        let machine = session.machine_of(paper, &overrides)?;
        let machine = paper.natively.then_some(machine);
        Ok::<_, Error>(Session { overrides, machine, natively: false, ..session.clone() })
    };
    // Better to fail before measuring.
    let varied: Vec<_> = varied
        .into_iter()
        .map(|(key, value)| Ok((key, value, at(key, value)?)))
        .collect::<Result<_, Error>>()?;
    let again: Vec<_> = figures
        .iter()
        .filter(|figure| paper.claims.iter().any(|c| is_varied(c) && c.figure == Some(figure.id)))
        .copied()
        .collect();
    let steps = |session: &Session, figures: &[&FigureSpec]| -> u64 {
        figures.iter().map(|figure| (figure.steps)(session)).sum()
    };
    progress.set_position(0);
    let of_varied = varied.iter().map(|(_, _, session)| steps(session, &again)).sum::<u64>();
    progress.set_length(steps(&session, &figures) + of_varied);

    let mut measurements = Measurements::default();
    session.measure(&figures, "", &mut measurements)?;
    let claims: Vec<_> = paper
        .data()
        .filter(|claim| chosen(&claim.id))
        .filter_map(|claim| Some((claim, paper.claim(&claim.id)?)))
        .collect();
    let mut rows = Vec::new();
    for &(claim, spec) in &claims {
        let finding = (spec.judge)(claim, &session, &measurements)?;
        let missing = session.missing(paper, spec);
        rows.push((claim, missing.into_iter().fold(finding, Finding::elsewhere)));
    }
    for (key, value, session) in &varied {
        let mut measurements = Measurements::default();
        session.measure(&again, &format!(", {key} = {value}"), &mut measurements)?;
        for ((_, finding), (claim, spec)) in rows.iter_mut().zip(&claims) {
            if is_varied(spec) {
                let Finding { measured, verdict, .. } = (spec.judge)(claim, session, &measurements)?;
                let (key, value) = ((*key).into(), (*value).into());
                finding.interval.push(At { key, value, measured, verdict });
            }
        }
    }
    Ok(Evaluation {
        paper,
        figures,
        measurements,
        rows,
        effort: session.effort,
        pace: session.pace(),
        seed: session.seed,
        seconds: since.elapsed().as_secs_f64(),
    })
}
