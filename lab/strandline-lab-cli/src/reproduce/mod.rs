//! `strandline-lab reproduce`: measures a paper's evaluation again and judges its claims.

mod series;

use std::path::{Path, PathBuf};
use strandline_command::say;

use comfy_table::{Table, presets};
use strandline_lab::machine::{self, Machine};
use strandline_lab::{
    At, Effort, Error, Evaluation, Interval, Measurements, PAPERS, Paper, Setting, Settings, Simulation,
    Together, Verdict, reproduce_with,
};
use strandline_sim::{Registry, file};

use strandline_command::arguments::number;
use strandline_command::{Failure, Outcome};
use strandline_command::{interrupt, progress};

/// The name that stands for all papers with claims.
const ALL: &str = "all";
/// The paper whose transactions are recorded.
const RECORDING: &str = "deferred-commit";

/// Measure a paper's figures again, judge its claims, and write a report.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    strandline-lab reproduce all --quick\n  \
    strandline-lab reproduce blurred --quick\n  \
    strandline-lab reproduce blurred --claim B2 --claim B19 --out report\n  \
    strandline-lab reproduce blurred --machine native --quick\n  \
    strandline-lab reproduce atom --claim A2 --quick \\\n    \
    --interval persistence.write_back_completes=issued,accepted,durable\n\n\
    Writes index.html and results.json; `all` also scoreboard.md and a folder for each paper.\n\n\
    Exit code 1: a claim is contradicted, and not by a run that other programs disturbed.")]
pub struct Arguments {
    /// Papers by name, or `all`: the five with claims, with a page about all of them and a scoreboard [default: all]
    papers: Vec<String>,
    /// Only this claim and the figure that it needs; may be repeated
    #[arg(long = "claim", value_name = "ID")]
    claims: Vec<String>,
    /// The simulated machine on which figures of software schemes (blurred, deferred-commit) run besides this processor: a name or a file, or
    /// `native` for none. On another machine than the paper's, claims that the paper's machine judges are not judged [default: the paper's]
    #[arg(long)]
    machine: Option<String>,
    /// Use fewer points and shorter measurements: at most fifteen processor minutes for all papers
    #[arg(long)]
    quick: bool,
    /// Transactions to record for each curve of deferred-commit's Fig. 6, 1 to 1000000000 [default: the paper's 10000000, which
    /// take about 35 processor minutes; 50000 with --quick]
    #[arg(long, value_name = "N", value_parser = number(1..=1_000_000_000u64))]
    transactions: Option<u64>,
    /// Vary a key of the paper's simulated machine, and report for which values each claim holds; may be repeated
    #[arg(long = "interval", value_name = "KEY=V1,V2,…")]
    intervals: Vec<Interval>,
    /// Change several keys of the paper's simulated machine together, and report whether each claim holds; may be repeated
    #[arg(long, value_name = "KEY=V,KEY=V,…")]
    together: Vec<Together>,
    /// Judge claims also under the other readings of what the papers leave open, as a run without --quick does
    #[arg(long)]
    readings: bool,
    /// Do not judge claims under these readings
    #[arg(long, conflicts_with = "readings")]
    no_readings: bool,
    /// Print the measurements of a figure of one paper instead of verdicts (names as in results.json), for all settings or for those whose names
    /// contain this part; may be repeated
    #[arg(long, value_name = "FIGURE:QUANTITY[:SETTING]", conflicts_with_all = ["claims", "json", "intervals", "together", "readings"])]
    series: Vec<series::Wanted>,
    /// Divide the numbers of --series by those of this system
    #[arg(long, value_name = "SYSTEM", requires = "series")]
    over: Option<String>,
    /// Add the means over the settings to --series
    #[arg(long, requires = "series")]
    mean: bool,
    /// Set another value for a key of the paper's simulated machine, for --series; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "series", conflicts_with_all = ["machine", "from"])]
    set: Vec<String>,
    /// Take --series from the results.json of an earlier run instead of measuring
    #[arg(long, value_name = "FILE", requires = "series", conflicts_with_all = ["quick", "machine", "seed", "transactions"])]
    from: Option<PathBuf>,
    /// The seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The folder for the report [default: reproduce-PAPER]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print results.json instead of a table
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Returns the machine on which figures of software schemes are simulated.
    fn simulation(&self, papers: &[&Paper]) -> Result<Simulation, Failure> {
        // Fail before other papers are measured.
        let refusing = papers.iter().find(|paper| !paper.natively);
        if let Some(paper) = refusing.filter(|_| self.machine.is_some()) {
            return Err(Failure::Usage(paper.no_choice_of_machine()));
        }
        if self.readings && papers.iter().all(|paper| paper.readings().next().is_none()) {
            return Err(Failure::Usage(
                "no paper that is asked for has other readings: leave --readings out".into(),
            ));
        }
        if self.readings && self.machine.is_some() {
            return Err(Failure::Usage(
                "--readings are other settings of the paper's machine: leave --machine out, or --readings"
                    .into(),
            ));
        }
        Ok(match self.machine.as_deref() {
            None => Simulation::Papers,
            Some("native") => Simulation::Nothing,
            Some(name) => {
                let machine =
                    file::load(name, &[""; 0]).map_err(|error| Failure::Usage(error.to_string()))?;
                Simulation::On(Box::new(machine))
            }
        })
    }

    /// Refuses `--transactions` if no paper records transactions.
    fn check_transactions(&self, papers: &[&Paper]) -> Result<(), Failure> {
        if self.transactions.is_none() || papers.iter().any(|paper| paper.name == RECORDING) {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "--transactions is of {RECORDING} alone: leave it out, or name that paper"
        )))
    }

    /// Returns the settings with which `paper` is measured.
    fn settings(&self, paper: &Paper, simulation: &Simulation, registry: Registry) -> Settings {
        Settings {
            effort: if self.quick { Effort::Quick } else { Effort::Full },
            seed: self.seed,
            claims: self.claims.iter().filter(|id| paper.claim(id).is_some()).cloned().collect(),
            transactions: self.transactions,
            figures: self.series.iter().map(|wanted| wanted.figure.clone()).collect(),
            simulation: simulation.clone(),
            readings: self.readings || !self.quick && !self.no_readings,
            intervals: self.intervals.clone(),
            together: self.together.clone(),
            set: self.set.clone(),
            registry,
        }
    }
}

/// A failure of [`reproduce_with`]: the laboratory's, or one of this command while it writes a report.
struct Ended(Failure);

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self(match error {
            Error::Usage(text) => Failure::Usage(text),
            Error::Library(error) => Failure::Library(error),
            Error::Io { .. } => Failure::Other(error.to_string()),
        })
    }
}

/// Measures the papers' figures, judges their claims, and writes the reports.
///
/// # Errors
/// Returns an error if a paper or a claim does not exist, or if a pool or the report cannot be written.
pub fn run(arguments: &Arguments, registry: Registry) -> Result<Outcome, Failure> {
    let papers = arguments.papers()?;
    if !arguments.series.is_empty() && papers.len() != 1 {
        return Err(Failure::Usage("--series is of one paper: name it".into()));
    }
    if let (Some(file), [paper]) = (&arguments.from, &papers[..]) {
        return arguments.print_series(&series::read(file, paper.name)?);
    }
    let simulation = arguments.simulation(&papers)?;
    arguments.check_transactions(&papers)?;
    let all = arguments.is_all();
    let out = arguments.out.clone().unwrap_or_else(|| {
        let names: Vec<_> = papers.iter().map(|paper| paper.name).collect();
        PathBuf::from(format!("reproduce-{}", if all { ALL.into() } else { names.join("-") }))
    });
    // Fail before an hour of measuring.
    create(&out)?;
    let (here, date) = (Machine::here(), machine::now());
    let progress = progress::bar(0, "measurements");
    interrupt::watch(interrupt::First::End(format!("ended; the figures so far are in {}", out.display())))?;
    warn_without_sqlite(&papers);
    let (commit, command) = (machine::commit(), arguments.command());
    let run =
        strandline_lab::Run { machine: &here, commit: commit.as_deref(), command: &command, date: &date };
    let results = |known: &[&Evaluation]| {
        let results = strandline_lab::json(known, &here, commit.as_deref(), &command);
        serde_json::to_string_pretty(&results)
            .map_err(|error| Failure::Other(format!("cannot write the results: {error}")))
    };
    let mut evaluations = Vec::new();
    for paper in papers {
        let settings = arguments.settings(paper, &simulation, registry);
        // Write the report after each figure, so that a run that is ended early keeps its results.
        let so_far = |evaluation: &Evaluation| -> Result<(), Failure> {
            let known: Vec<_> = evaluations.iter().chain([evaluation]).collect();
            write(&out.join("results.json"), &results(&known)?)?;
            if all {
                let folder = out.join(paper.name);
                create(&folder)?;
                write(&folder.join("index.html"), &strandline_lab::html(&[evaluation], &run))
            } else {
                write(&out.join("index.html"), &strandline_lab::html(&known, &run))
            }
        };
        progress.reset();
        let evaluation =
            reproduce_with(paper, &settings, &progress, |evaluation| so_far(evaluation).map_err(Ended));
        let evaluation = evaluation.map_err(|Ended(failure)| failure)?;
        evaluations.push(evaluation);
    }
    progress.finish_and_clear();

    let known: Vec<_> = evaluations.iter().collect();
    let results = results(&known)?;
    let scoreboard = strandline_lab::scoreboard(&known);
    write(&out.join("results.json"), &results)?;
    if all {
        write(&out.join("scoreboard.md"), &scoreboard)?;
        write(&out.join("index.html"), &strandline_lab::overview(&known, &run))?;
    }
    if let [evaluation] = &evaluations[..]
        && !arguments.series.is_empty()
    {
        arguments.print_series(&evaluation.measurements)?;
        say!("\nThe report: {}", out.join("index.html").display());
    } else if arguments.json {
        say!("{results}");
    } else {
        sum_up(&evaluations, all.then_some(&scoreboard), &out);
    }
    let findings = evaluations.iter().flat_map(|evaluation| &evaluation.rows);
    let contradicted = findings.filter(|(_, finding)| finding.is_contradicted()).count();
    Ok(if contradicted == 0 { Outcome::Success } else { Outcome::Finding })
}

fn warn_without_sqlite(papers: &[&Paper]) {
    if !cfg!(feature = "sqlite") && papers.iter().any(|paper| paper.name == "loose-ordering") {
        eprintln!(
            "This program was built without SQLite, one of the workloads of loose-ordering: what it measures leaves it out. \
             `cargo run --release -p strandline-lab-cli --features sqlite` has it, and needs a C compiler."
        );
    }
}

/// Prints the verdicts, the scoreboard if there is one, and the report's path.
fn sum_up(evaluations: &[Evaluation], scoreboard: Option<&String>, out: &Path) {
    for evaluation in evaluations {
        say!("{}\n{}", evaluation.paper.title, table(evaluation));
        if !evaluation.rows.is_empty() {
            say!("{}", evaluation.score());
        }
        if let Some(readings) = readings(evaluation) {
            say!(
                "\nOther readings of what the paper leaves open, and how many measured claims hold with each:\n{readings}"
            );
        }
        say!("");
    }
    if let Some(scoreboard) = scoreboard {
        say!("{scoreboard}");
    }
    say!("The report: {}", out.join("index.html").display());
}

fn create(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(Failure::io(format!("create {}", folder.display())))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    // Replace the file at once: if the run is ended meanwhile, the old file or the complete new one is there.
    let partial = path.with_extension("partial");
    let written = std::fs::write(&partial, text).and_then(|()| std::fs::rename(&partial, path));
    written.map_err(Failure::io(format!("write {}", path.display())))
}

fn table(evaluation: &Evaluation) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_FULL_CONDENSED)
        .set_header(["claim", "verdict", "paper", "measured", "where"]);
    for (claim, finding) in &evaluation.rows {
        let mut measured = finding.in_short();
        if finding.seeds.len() > 1 {
            measured += &format!("\nwith each of {} seeds", finding.seeds.len());
        }
        if let Some(range) = finding.range() {
            measured += &format!("\nrange: {range}");
        }
        let with: Vec<_> = finding
            .with_readings()
            .filter(|(_, _, with)| with.verdict == Verdict::Holds)
            .map(|(letter, ..)| letter.to_string())
            .collect();
        if !with.is_empty() && finding.verdict != Verdict::Holds {
            measured += &format!("\nholds with reading {}", with.join(", "));
        }
        for at in finding.interval.iter().filter(|at| matches!(at.setting, Setting::Keys(_))) {
            let At { setting, finding } = at;
            measured += &format!("\n{setting}: {} ({})", finding.in_short(), finding.verdict.name());
        }
        for (key, values) in finding.holds_for() {
            let values = if values.is_empty() { "none".into() } else { values.join(", ") };
            measured += &format!("\n{key}: holds for {values}");
        }
        table.add_row([
            claim.id.clone(),
            evaluation.verdict_in_short(claim, finding),
            claim.value.to_string(),
            measured,
            claim.place.clone(),
        ]);
    }
    table
}

/// Returns a table of the readings of a paper's text, if claims were judged under any.
fn readings(evaluation: &Evaluation) -> Option<Table> {
    let all = evaluation.readings();
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["reading", "setting", "where", "hold"]);
    for (letter, reading, score) in &all {
        let holds = score.with(Verdict::Holds).to_string();
        table.add_row([letter.to_string(), reading.set.join("\n"), reading.place.clone(), holds]);
    }
    (!all.is_empty()).then_some(table)
}

impl Arguments {
    /// Returns whether all papers are requested, each with a report of its own.
    fn is_all(&self) -> bool {
        self.papers == [ALL] || self.papers.is_empty() && self.claims.is_empty()
    }

    /// Returns the requested papers; if none is named, those with the requested claims.
    fn papers(&self) -> Result<Vec<&'static Paper>, Failure> {
        let with_claims = || PAPERS.iter().copied().filter(|paper| !paper.claims.is_empty());
        let mut papers = Vec::new();
        if self.is_all() {
            papers.extend(with_claims());
        } else {
            for name in &self.papers {
                papers.push(
                    Paper::named(name)
                        .map_err(|error| Failure::Usage(format!("{error}, or `{ALL}` alone")))?,
                );
            }
        }
        let has = |id: &String| {
            let among = if papers.is_empty() { PAPERS } else { &papers[..] };
            among.iter().any(|paper| paper.claim(id).is_some())
        };
        if let Some(unknown) = self.claims.iter().find(|id| !has(id)) {
            let papers =
                if self.papers.is_empty() { "any paper here".into() } else { self.papers.join(", ") };
            return Err(Failure::Usage(format!(
                "there is no claim {unknown:?} in {papers}; ids are a paper's letter and a number, such as B2"
            )));
        }
        if papers.is_empty() {
            papers.extend(with_claims());
        }
        let asked =
            |paper: &&Paper| self.claims.is_empty() || self.claims.iter().any(|id| paper.claim(id).is_some());
        Ok(papers.into_iter().filter(asked).collect())
    }

    /// Prints the requested series.
    fn print_series(&self, all: &Measurements) -> Result<Outcome, Failure> {
        let shown = series::Shown { over: self.over.as_deref(), mean: self.mean };
        for wanted in &self.series {
            say!("{}", series::table(all, wanted, shown)?);
        }
        Ok(Outcome::Success)
    }

    /// Returns the command that repeats this run.
    fn command(&self) -> String {
        let mut command = vec!["strandline-lab reproduce".to_owned()];
        command.extend(self.papers.iter().cloned());
        command.extend(self.claims.iter().map(|id| format!("--claim {id}")));
        if self.quick {
            command.push("--quick".into());
        }
        command.extend(self.machine.iter().map(|machine| format!("--machine {machine}")));
        command.extend(self.transactions.map(|transactions| format!("--transactions {transactions}")));
        command.extend(self.intervals.iter().map(|interval| format!("--interval {interval}")));
        command.extend(self.together.iter().map(|together| format!("--together {together}")));
        command.extend(self.series.iter().map(|wanted| format!("--series {wanted}")));
        command.extend(self.over.iter().map(|over| format!("--over {over}")));
        command.extend(self.mean.then(|| "--mean".to_owned()));
        command.extend(self.set.iter().map(|set| format!("--set {set}")));
        command.extend(self.readings.then(|| "--readings".to_owned()));
        command.extend(self.no_readings.then(|| "--no-readings".to_owned()));
        if self.seed != 1 {
            command.push(format!("--seed {}", self.seed));
        }
        command.join(" ")
    }
}
