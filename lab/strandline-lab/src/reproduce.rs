//! Reproduces a paper: measures its figures, and judges its claims as soon as their figures are measured.

use std::time::Instant;

use indicatif::ProgressBar;

use crate::claim::Claim;
use crate::error::Error;
use crate::finding::{At, Finding, Setting};
use crate::measurements::Measurements;
use crate::memo::Memo;
use crate::noise::{self, Watch, own_processor_time};
use crate::paper::{ClaimSpec, FigureSpec, Paper};
use crate::reading::Reading;
use crate::session::{Effort, Pace, Session};
use crate::settings::{Settings, Simulation};
use crate::venue::Site;
use crate::verdict::{Basis, SEEDS, Score, Verdict};

/// Returns the name of the machine on which a paper's figures run.
fn own_machine(paper: &Paper) -> Result<&'static str, Error> {
    paper.machine.ok_or_else(|| {
        Error::Usage(format!("{} has no machine of its own whose keys could be varied", paper.name))
    })
}

impl Session {
    /// Starts a run.
    fn begin(paper: &Paper, settings: &Settings, progress: &ProgressBar) -> Result<Self, Error> {
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
        if let Some(unknown) =
            settings.figures.iter().find(|id| !paper.figures.iter().any(|figure| figure.id == **id))
        {
            let ids: Vec<_> = paper.figures.iter().map(|figure| figure.id).collect();
            return Err(Error::Usage(format!(
                "{} has no figure {unknown:?}; choose from {}",
                paper.name,
                ids.join(", ")
            )));
        }
        let mut session = Self {
            effort: settings.effort,
            seed: settings.seed,
            transactions: settings.transactions,
            machine: None,
            natively: paper.natively,
            round: 0,
            judged: paper.judged(),
            overrides: settings.set.clone(),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            registry: settings.registry,
            runs: Memo::default(),
            progress: progress.clone(),
        };
        if !settings.set.is_empty() {
            session.load(own_machine(paper)?, &[])?;
        }
        session.machine = match &settings.simulation {
            Simulation::On(_) | Simulation::Nothing if !paper.natively => {
                return Err(Error::Usage(paper.no_choice_of_machine()));
            }
            Simulation::On(machine) => Some((**machine).clone()),
            Simulation::Papers if paper.natively => Some(session.load(own_machine(paper)?, &[])?),
            Simulation::Papers | Simulation::Nothing => None,
        };
        Ok(session)
    }

    /// Returns the other settings of the paper's machine with which claims are judged, if a requested claim depends on the machine.
    fn varied(
        &self,
        paper: &Paper,
        settings: &Settings,
        nothing_depends: bool,
    ) -> Result<Vec<(Setting, Self)>, Error> {
        let values = settings.intervals.iter().flat_map(|interval| {
            let key = |value: &String| Setting::Key { key: interval.key.clone(), value: value.clone() };
            interval.values.iter().map(key)
        });
        let together = settings.together.iter().map(|together| Setting::Keys(together.0.clone()));
        let asked: Vec<_> = values.chain(together).collect();
        let is_papers = !paper.natively || matches!(settings.simulation, Simulation::Papers);
        if !asked.is_empty() && !is_papers {
            return Err(Error::Usage(
                "--interval and --together are of the paper's machine: leave --machine out".into(),
            ));
        }
        if !asked.is_empty() && nothing_depends {
            return Err(Error::Usage(format!(
                "no claim that is asked for depends on the machine {}, so there is no --interval to find: leave it out, or name \
                 other claims",
                own_machine(paper)?
            )));
        }
        let has_readings = settings.readings && settings.figures.is_empty() && is_papers && !nothing_depends;
        let readings = paper.readings().filter(|_| has_readings).map(Setting::Reading);
        let with = |setting: Setting| {
            let set = setting.set();
            let machine = self.load(own_machine(paper)?, &set)?;
            let overrides = [&self.overrides[..], &set].concat();
            let machine = paper.natively.then_some(machine);
            // As when a figure is measured again, measurements by which no claim is judged are left out.
            Ok((setting, Self { overrides, machine, natively: false, round: 1, ..self.clone() }))
        };
        readings.chain(asked).map(with).collect()
    }

    /// Returns how many measurements the figures take.
    fn steps(&self, figures: &[&FigureSpec]) -> u64 {
        figures.iter().map(|figure| (figure.steps)(self)).sum()
    }

    /// Measures a figure. Returns how many processors other programs used meanwhile, if the system reports it.
    fn measure(
        &self,
        figure: &FigureSpec,
        note: &str,
        into: &mut Measurements,
    ) -> Result<Option<f64>, Error> {
        self.progress.set_message(format!("{}: {}{note}", figure.number, figure.title));
        let watch = Watch::begin();
        (figure.run)(self, into)?;
        Ok(watch.others())
    }

    /// Judges claims by the measurements.
    fn judge(
        &self,
        claims: &[(&'static Claim, &'static ClaimSpec)],
        all: &Measurements,
    ) -> Result<Vec<Judged>, Error> {
        let one = |&(claim, spec): &(&'static Claim, &'static ClaimSpec)| {
            let judge = |all: &Measurements| (spec.judge)(claim, self, all);
            let finding = judge(all)?;
            let is_by_time = spec.venue.site == Site::Native && self.effort != Effort::Trial;
            let draws = if is_by_time && finding.verdict != Verdict::NotRun {
                noise::redrawn(all, self.seed, |all| Ok(judge(all)?.verdict))?
            } else {
                Vec::new()
            };
            Ok(Judged { claim, spec, finding, draws })
        };
        claims.iter().map(one).collect()
    }

    /// Measures a figure and judges its claims; repeats the measurement while noise decides one of them.
    fn until_decided(
        &self,
        figure: &FigureSpec,
        claims: &[(&'static Claim, &'static ClaimSpec)],
        measurements: &mut Measurements,
    ) -> Result<Vec<(&'static Claim, Finding)>, Error> {
        let mut most = self.measure(figure, "", measurements)?;
        let mut judged = self.judge(claims, measurements)?;
        for round in 1..noise::ROUNDS {
            if !judged.iter().any(Judged::is_undecided) {
                break;
            }
            let again = Self { machine: None, round, ..self.clone() };
            self.progress.inc_length((figure.steps)(&again));
            most = most.into_iter().chain(again.measure(figure, ", again", measurements)?).reduce(f64::max);
            judged = self.judge(claims, measurements)?;
        }
        Ok(judged.into_iter().map(|judged| judged.finding(most)).collect())
    }

    /// Judges the orders of trends with several seeds. A claim that does not hold with the first seed cannot hold with all, so only the other claims
    /// are run again.
    fn in_seeds(
        &self,
        rows: &mut [(&'static Claim, Finding)],
        paper: &Paper,
        measured: &[&'static FigureSpec],
        all: &Measurements,
        others: &mut [OtherSeed],
    ) -> Result<(), Error> {
        for (claim, finding) in rows {
            let Some(spec) = paper.claim(&claim.id).filter(|spec| spec.is_seeded(claim)) else { continue };
            if finding.verdict != Verdict::Holds {
                continue;
            }
            let judge = |session: &Self, all: &Measurements| (spec.judge)(claim, session, all);
            // Besides native measurements, each point of a figure is already run with all seeds.
            let mut found =
                if self.machine.is_some() { Vec::new() } else { vec![(self.seed, finding.clone())] };
            for (seed, all) in (self.seed..).zip(all.of_seeds()) {
                found.push((seed, judge(self, &all)?));
            }
            for other in others.iter_mut() {
                found.push((other.session.seed, other.judged(judge, measured)?));
            }
            if found.len() as u64 == SEEDS {
                *finding = std::mem::replace(finding, Finding::not_run("")).in_seeds(&found);
            } else {
                finding.seeds = vec![self.seed];
                finding.notes.push(format!("Judged with one seed; a full run takes {SEEDS}."));
            }
        }
        Ok(())
    }

    /// Returns what has to be run for a claim that this session does not judge.
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
                "Judged on the simulated {}, which was not run: `strandline-lab reproduce {} --claim {}`, without --machine, \
                 runs it.",
                paper.machine.unwrap_or("machine"),
                paper.name,
                spec.id
            ),
            Site::Code | Site::Native => "Judged natively, which was not run.".to_owned(),
        })
    }
}

/// A run of the same figures with another seed, as far as claims need it.
struct OtherSeed {
    session: Session,
    measurements: Measurements,
    figures: Vec<&'static str>,
}

impl OtherSeed {
    /// Returns the runs with other seeds: none if a figure's points are run with several seeds anyway, or if results do not count.
    fn all(session: &Session, paper: &Paper) -> Vec<Self> {
        if paper.natively || session.effort == Effort::Trial {
            return Vec::new();
        }
        let other = |seed: u64| Self {
            session: Session { seed: session.seed.wrapping_add(seed), ..session.clone() },
            measurements: Measurements::default(),
            figures: Vec::new(),
        };
        (1..SEEDS).map(other).collect()
    }

    /// Judges a claim of the figure that was measured last, after measuring the figure with this seed; earlier figures are measured, too, if the
    /// claim is judged by them.
    fn judged(
        &mut self,
        judge: impl Fn(&Session, &Measurements) -> Result<Finding, Error>,
        measured: &[&'static FigureSpec],
    ) -> Result<Finding, Error> {
        for &figure in measured.iter().rev() {
            if !self.figures.contains(&figure.id) {
                self.session.progress.inc_length((figure.steps)(&self.session));
                self.session.measure(
                    figure,
                    &format!(", seed {}", self.session.seed),
                    &mut self.measurements,
                )?;
                self.figures.push(figure.id);
            }
            let finding = judge(&self.session, &self.measurements)?;
            if finding.orders.iter().all(|order| order.holds.is_some()) {
                return Ok(finding);
            }
        }
        judge(&self.session, &self.measurements)
    }
}

/// The results of a run for one paper.
#[derive(Debug)]
pub struct Evaluation {
    /// The paper.
    pub paper: &'static Paper,
    /// The figures that were measured.
    pub figures: Vec<&'static FigureSpec>,
    /// The measurements from which they are drawn.
    pub measurements: Measurements,
    /// The claims with their findings.
    pub rows: Vec<(&'static Claim, Finding)>,
    /// How thoroughly it was measured.
    pub effort: Effort,
    /// Length and number of the measurements.
    pub pace: Pace,
    /// The seed of all random numbers.
    pub seed: u64,
    /// How long it took.
    pub seconds: f64,
    /// Processor time that it took.
    pub processor_seconds: f64,
    /// The processor time of each figure in seconds, including repetitions, by the figure's id.
    pub of_figures: Vec<(&'static str, f64)>,
    /// True if the run is complete.
    pub finished: bool,
}

impl Evaluation {
    /// Returns the basis on which `claim` is judged.
    pub fn basis(&self, claim: &Claim) -> Basis {
        self.paper.claim(&claim.id).map_or(Basis::Measured, |spec| spec.basis)
    }

    /// Returns a claim's verdict in a few words, with its basis if it was not measured.
    pub fn verdict_in_short(&self, claim: &Claim, finding: &Finding) -> String {
        let verdict = finding.verdict_in_short();
        match self.basis(claim) {
            Basis::Measured | Basis::Calibrated => verdict,
            basis => format!("{verdict} ({})", basis.name()),
        }
    }

    /// Returns the score of its claims.
    pub fn score(&self) -> Score {
        Score::of(self.rows.iter().map(|(claim, finding)| (self.basis(claim), finding.verdict)))
    }

    /// Returns the score of its claims under each reading of the paper's text, applied to all claims, with the reading's letter.
    pub fn readings(&self) -> Vec<(char, &'static Reading, Score)> {
        let Some((_, varied)) = self.rows.iter().find(|(_, finding)| !finding.interval.is_empty()) else {
            return Vec::new();
        };
        let of = |(letter, reading, _): (char, &'static Reading, &Finding)| {
            let verdict = |finding: &Finding| {
                let with = finding.with_readings().find(|(known, ..)| *known == letter);
                with.map_or(finding.verdict, |(_, _, finding)| finding.verdict)
            };
            let score = self.rows.iter().map(|(claim, finding)| (self.basis(claim), verdict(finding)));
            (letter, reading, Score::of(score))
        };
        varied.with_readings().map(of).collect()
    }

    /// Adds findings, in the order of the paper's claims.
    fn add(&mut self, rows: impl IntoIterator<Item = (&'static Claim, Finding)>) {
        self.rows.extend(rows);
        let paper = self.paper;
        self.rows.sort_by_key(|(claim, _)| paper.data().position(|other| other.id == claim.id));
    }
}

/// A claim with its verdict by the medians, and by other draws of the repetitions.
struct Judged {
    claim: &'static Claim,
    spec: &'static ClaimSpec,
    finding: Finding,
    /// The verdicts of the draws; empty if time does not affect the claim.
    draws: Vec<Verdict>,
}

impl Judged {
    fn is_undecided(&self) -> bool {
        noise::decides(self.finding.verdict, &self.draws)
    }

    /// Returns the claim's finding, including disturbances: `others` is how many processors other programs used while its figure was measured.
    fn finding(self, others: Option<f64>) -> (&'static Claim, Finding) {
        let is_undecided = self.is_undecided();
        let Self { claim, spec, mut finding, draws } = self;
        if is_undecided {
            finding = finding.decided_by_noise(&draws);
        }
        if let Some(others) =
            others.filter(|&others| spec.venue.site == Site::Native && noise::is_loaded(others))
        {
            finding = finding.beside_others(others);
        }
        (claim, finding)
    }
}

/// Measures a paper's figures and judges its claims.
///
/// # Errors
/// Returns an error if a claim's id is unknown, if a pool cannot be created, or if a transaction fails.
pub fn reproduce(
    paper: &'static Paper,
    settings: &Settings,
    progress: &ProgressBar,
) -> Result<Evaluation, Error> {
    reproduce_with(paper, settings, progress, |_| Ok::<_, Error>(()))
}

/// Like [`reproduce`], but calls `so_far` with the results after each figure. The figure's claims are judged as soon as it is measured.
///
/// # Errors
/// Returns the errors of [`reproduce`] and of `so_far`.
pub fn reproduce_with<E: From<Error>>(
    paper: &'static Paper,
    settings: &Settings,
    progress: &ProgressBar,
    mut so_far: impl FnMut(&Evaluation) -> Result<(), E>,
) -> Result<Evaluation, E> {
    let (since, processor_since) = (Instant::now(), own_processor_time());
    let session = Session::begin(paper, settings, progress)?;
    let judges = settings.figures.is_empty();
    let chosen =
        |id: &str| judges && (settings.claims.is_empty() || settings.claims.iter().any(|claim| claim == id));
    let needed = |figure: &FigureSpec| {
        settings.figures.iter().any(|id| id == figure.id)
            || judges && settings.claims.is_empty()
            || paper.claims.iter().any(|claim| chosen(claim.id) && claim.figure == Some(figure.id))
    };
    let figures: Vec<_> = paper.figures.iter().filter(|figure| needed(figure)).collect();
    // Claims that depend only on the varied machine.
    let is_varied = |claim: &ClaimSpec| claim.venue.site == Site::Simulated;
    let again: Vec<_> = figures
        .iter()
        .filter(|figure| paper.claims.iter().any(|c| is_varied(c) && c.figure == Some(figure.id)))
        .copied()
        .collect();
    // Fail before measuring.
    let varied = session.varied(paper, settings, again.is_empty())?;
    progress.set_position(0);
    let again_with = |setting: &Setting| -> Vec<&'static FigureSpec> {
        again.iter().copied().filter(|figure| setting.bears_on(figure.id)).collect()
    };
    let of_varied: u64 = varied.iter().map(|(setting, session)| session.steps(&again_with(setting))).sum();
    progress.set_length(session.steps(&figures) + of_varied);

    let claims: Vec<_> = paper
        .data()
        .filter(|claim| chosen(&claim.id))
        .filter_map(|claim| Some((claim, paper.claim(&claim.id)?)))
        .collect();
    let of_figure = |figure: Option<&str>| -> Vec<_> {
        claims.iter().filter(|(_, spec)| spec.figure == figure).copied().collect()
    };
    let mut evaluation = Evaluation {
        paper,
        figures: Vec::new(),
        measurements: Measurements::default(),
        rows: Vec::new(),
        effort: session.effort,
        pace: session.pace(),
        seed: session.seed,
        seconds: 0.0,
        processor_seconds: 0.0,
        of_figures: Vec::new(),
        finished: false,
    };
    let mut show = |evaluation: &mut Evaluation| {
        evaluation.seconds = since.elapsed().as_secs_f64();
        evaluation.processor_seconds = (own_processor_time() - processor_since).as_secs_f64();
        so_far(evaluation)
    };
    let mut others = OtherSeed::all(&session, paper);
    let of_the_code = session.judge(&of_figure(None), &evaluation.measurements)?;
    evaluation.add(of_the_code.into_iter().map(|judged| judged.finding(None)));
    for figure in figures {
        let processor_since = own_processor_time();
        let mut rows =
            session.until_decided(figure, &of_figure(Some(figure.id)), &mut evaluation.measurements)?;
        evaluation.figures.push(figure);
        session.in_seeds(&mut rows, paper, &evaluation.figures, &evaluation.measurements, &mut others)?;
        let missing = |(claim, finding): (&'static Claim, Finding)| {
            let missing = paper.claim(&claim.id).and_then(|spec| session.missing(paper, spec));
            (claim, missing.into_iter().fold(finding, Finding::elsewhere))
        };
        evaluation.add(rows.into_iter().map(missing));
        let took = (own_processor_time() - processor_since).as_secs_f64();
        evaluation.of_figures.push((figure.id, took));
        show(&mut evaluation)?;
    }
    for (setting, session) in varied {
        let again = again_with(&setting);
        let ids: Vec<_> = again.iter().map(|figure| figure.id).collect();
        // Measurements that the setting does not affect stay as they are.
        let mut measurements = evaluation.measurements.clone().without(&ids);
        for figure in &again {
            session.measure(figure, &format!(", {setting}"), &mut measurements)?;
        }
        let mut others = OtherSeed::all(&session, paper);
        for ((_, by_default), &(claim, spec)) in evaluation.rows.iter_mut().zip(&claims) {
            if !is_varied(spec) {
                continue;
            }
            let mut found = [(claim, (spec.judge)(claim, &session, &measurements)?)];
            let is_open = spec.figure.is_some_and(|figure| ids.contains(&figure));
            if is_open && by_default.verdict != Verdict::Holds {
                session.in_seeds(&mut found, paper, &again, &measurements, &mut others)?;
            }
            let [(_, finding)] = found;
            by_default.interval.push(At { setting: setting.clone(), finding });
        }
        show(&mut evaluation)?;
    }
    evaluation.rows.iter_mut().for_each(|(_, finding)| finding.within_text());
    evaluation.finished = true;
    show(&mut evaluation)?;
    Ok(evaluation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strandline_sim::Registry;

    use crate::measurements::Key;
    use crate::venue::Venue;
    use crate::verdict::Baseline;

    const KEY: Key = Key { figure: "f", setting: "s", system: "a", quantity: "q" };

    /// A paper with one native figure that has these repetitions in each round, and with claim B2: 1.863.
    macro_rules! paper {
        ($rounds:expr) => {{
            static FIGURES: [FigureSpec; 1] = [FigureSpec {
                id: "f",
                number: "1",
                title: "",
                method: "",
                steps: |session| session.pace().repetitions,
                run: |session, into| {
                    const ROUNDS: &[[f64; 3]] = $rounds;
                    let repetitions = ROUNDS[session.round as usize];
                    into.add_repetitions(KEY, "1", &repetitions);
                    session.progress.inc(repetitions.len() as u64);
                    Ok(())
                },
                draw: |_| Vec::new(),
            }];
            static CLAIMS: [ClaimSpec; 1] = [ClaimSpec {
                id: "B2",
                figure: Some("f"),
                venue: Venue { site: Site::Native, because: "It is a test." },
                basis: Basis::Measured,
                judge: |claim, _, all| {
                    Ok(Finding::headline(claim, vec![all.median(KEY, "1")], Baseline::One, ""))
                },
            }];
            static PAPER: Paper = Paper {
                name: "fake",
                letter: 'B',
                title: "",
                citation: "",
                page: "",
                setting: "",
                figures: &FIGURES,
                claims: &CLAIMS,
                natively: true,
                machine: None,
            };
            let settings = Settings {
                effort: Effort::Quick,
                seed: 1,
                claims: Vec::new(),
                figures: Vec::new(),
                transactions: None,
                simulation: Simulation::Nothing,
                readings: false,
                intervals: Vec::new(),
                together: Vec::new(),
                set: Vec::new(),
                registry: Registry::default(),
            };
            let progress = ProgressBar::hidden();
            let mut evaluation = reproduce(&PAPER, &settings, &progress).unwrap();
            assert_eq!(progress.length(), Some(progress.position()), "the steps add up");
            evaluation.rows.remove(0).1
        }};
    }

    #[test]
    fn what_is_far_from_turning_is_measured_once() {
        assert_eq!(paper!(&[[1.85, 1.86, 1.87]]).verdict, Verdict::Holds);
    }

    #[test]
    fn what_the_spread_decides_is_measured_again() {
        // 1.777 is the smallest number with which the claim holds.
        let finding = paper!(&[[1.75, 1.8, 1.82], [1.85, 1.86, 1.87]]);
        assert_eq!(finding.verdict, Verdict::Holds);
        assert_eq!(finding.in_short(), "1.83", "of six repetitions");
    }

    #[test]
    fn what_more_repetitions_do_not_decide_is_noisy() {
        let finding = paper!(&[[1.7, 1.78, 1.85]; 3]);
        assert_eq!(finding.verdict, Verdict::Noisy);
        assert_eq!(finding.beside[0].verdict, Some(Verdict::Holds), "by the medians");
        assert!(finding.notes[0].contains("100 draws") && finding.notes[0].contains("short"), "{finding:?}");
    }
}
