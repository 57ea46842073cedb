//! `strandline-check litmus run`: litmus tests on this machine's processor.

use std::collections::BTreeSet;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use strandline_check::Session;
use strandline_check::litmus::{End, Histogram, Limits, Runs, Test, Unrunnable, Verdict};
use strandline_command::arguments::{number, seconds};
use strandline_command::output::SCHEMA;
use strandline_command::{Failure, Outcome, interrupt, say};

use super::Tests;

/// The number of allowed but unseen ends that are printed, at most.
const UNSEEN: usize = 16;

/// Run litmus tests on this machine's processor, many times, and compare how they end with what the checker allows.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline-check litmus run nt_mp --seconds 5\n\n\
    Each end of a run is printed with how often it was seen and whether the checker allows it: the values of the registers \
    (0:r1 is r1 of the first thread) and locations that are not the same at every end. An end that is allowed need not be \
    seen. A run cannot show what a power failure would leave: the lines `ask` of a test are not judged.\n\n\
    Exit code 1: the processor has shown an end that the checker forbids. Exit code 3: the processor is not an x86-64 one.")]
pub struct Arguments {
    #[command(flatten)]
    tests: Tests,
    /// Repetitions of each test, 1 to 1000000000000
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = number(1..=1_000_000_000_000u64))]
    repetitions: u64,
    /// Seconds that each test may take, 0.01 to 86400
    #[arg(long, value_parser = seconds, default_value = "2")]
    seconds: f64,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// A test, the ends that the checker allows, and the ends that were seen.
struct Ran {
    test: Test,
    allowed: BTreeSet<End>,
    seen: Histogram,
}

/// Runs the tests and prints how they ended.
///
/// # Errors
/// Returns a failure if a test cannot be read or explored, or cannot be run on this processor.
pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    interrupt::watch(interrupt::First::Ask)?;
    let ran = run_all(arguments)?;
    if arguments.json {
        say!("{:#}", object(&ran));
    } else {
        ran.iter().for_each(Ran::say);
    }
    let forbidden = ran.iter().any(|ran| ran.forbidden().next().is_some());
    Ok(if forbidden { Outcome::Finding } else { Outcome::Success })
}

/// Returns what `--json` prints.
///
/// # Errors
/// As for [`run`].
pub fn answer(arguments: &Arguments) -> Result<Value, Failure> {
    run_all(arguments).map(|ran| object(&ran))
}

fn object(ran: &[Ran]) -> Value {
    json!(ran.iter().map(Ran::object).collect::<Vec<_>>())
}

fn run_all(arguments: &Arguments) -> Result<Vec<Ran>, Failure> {
    let runs = Runs { repetitions: arguments.repetitions, limit: Duration::from_secs_f64(arguments.seconds) };
    let session = Session::stopped_by(interrupt::flag());
    let one = |(name, test): (String, Test)| -> Result<Ran, Failure> {
        let usage = |error: &dyn std::fmt::Display| Failure::Usage(format!("{name}: {error}"));
        let allowed = test.ends(Limits::default()).map_err(|error| usage(&error))?;
        let seen = test.run(runs, &session).map_err(|error| match error {
            Unrunnable::Line => usage(&error),
            error => Failure::Other(error.to_string()),
        })?;
        Ok(Ran { test, allowed, seen })
    };
    arguments.tests.read()?.into_iter().map(one).collect()
}

impl Ran {
    /// Returns the ends that were seen although the checker forbids them.
    fn forbidden(&self) -> impl Iterator<Item = &End> {
        self.seen.ends.keys().filter(|end| !self.allowed.contains(end))
    }

    /// Returns the ends that were seen or are allowed, with how often they were seen and the checker's verdict.
    fn ends(&self) -> Vec<(&End, u64, Verdict)> {
        let all: BTreeSet<&End> = self.seen.ends.keys().chain(&self.allowed).collect();
        let with_verdict = all.into_iter().map(|end| {
            let seen = self.seen.ends.get(end).copied().unwrap_or(0);
            let is_allowed = self.allowed.contains(end);
            (end, seen, if is_allowed { Verdict::Allowed } else { Verdict::Forbidden })
        });
        with_verdict.collect()
    }

    fn values<'e>(&'e self, end: &'e End) -> impl Iterator<Item = (String, u64)> + 'e {
        let registers = self.test.registers.iter().enumerate().flat_map(move |(thread, names)| {
            let values = &end.registers[thread];
            names.iter().zip(values).map(move |(name, &value)| (format!("{thread}:{name}"), value))
        });
        let locations = self.test.locations.iter().map(|location| location.name.clone());
        registers.chain(locations.zip(end.values.iter().copied()))
    }

    /// Returns the values of `end` that differ between the ends, as text.
    fn text(&self, end: &End) -> String {
        let all: Vec<Vec<(String, u64)>> =
            self.ends().iter().map(|(end, ..)| self.values(end).collect()).collect();
        let differs = |index: usize, value: u64| all.iter().any(|other| other[index].1 != value);
        let values = self.values(end).enumerate().filter(|&(index, (_, value))| differs(index, value));
        let text: Vec<String> = values.map(|(_, (name, value))| format!("{name}={value}")).collect();
        if text.is_empty() { "the same at every end".into() } else { text.join(" ") }
    }

    fn say(&self) {
        say!("{}: {} runs", self.test.name, self.seen.runs());
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["end", "seen", "checker"]);
        if let Some(seen) = table.column_mut(1) {
            seen.set_cell_alignment(CellAlignment::Right);
        }
        let mut unseen = 0;
        for (end, seen, verdict) in self.ends() {
            unseen += usize::from(seen == 0);
            if seen > 0 || unseen <= UNSEEN {
                table.add_row([self.text(end), seen.to_string(), verdict.to_string()]);
            }
        }
        say!("{table}");
        if unseen > UNSEEN {
            say!("{} more ends are allowed, which were not seen", unseen - UNSEEN);
        }
        for question in &self.test.finals {
            let seen: u64 = self.ends().iter().filter(|one| question.holds(one.0)).map(|one| one.1).sum();
            let verdict = if self.allowed.iter().any(|end| question.holds(end)) {
                Verdict::Allowed
            } else {
                Verdict::Forbidden
            };
            say!("{}: {verdict}, seen {seen} times", question.text);
        }
        if !self.test.asks.is_empty() {
            say!(
                "note: its questions about crashes are not judged, since a run cannot show what a crash leaves"
            );
        }
        let forbidden = self.forbidden().count();
        if forbidden > 0 {
            say!("the processor has shown {forbidden} ends that the checker forbids");
        }
    }

    fn object(&self) -> Value {
        let end = |(end, seen, verdict): (&End, u64, Verdict)| {
            let values: serde_json::Map<String, Value> =
                self.values(end).map(|(name, value)| (name, value.into())).collect();
            json!({"values": values, "seen": seen, "verdict": verdict})
        };
        json!({
            "schema": SCHEMA,
            "name": self.test.name,
            "runs": self.seen.runs(),
            "ends": self.ends().into_iter().map(end).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(seen: &[(u64, u64)]) -> Ran {
        let test = Test::parse("name: t\nline A: x\nthread:\nstore x 1\nload r1 x\nfinal: x=1\n").unwrap();
        let allowed = test.ends(Limits::default()).unwrap();
        let end = |value| End { registers: vec![vec![1]], values: vec![value] };
        let ends = seen.iter().map(|&(value, count)| (end(value), count)).collect();
        Ran { test, allowed, seen: Histogram { ends } }
    }

    #[test]
    fn an_end_that_the_checker_forbids_is_named() {
        let right = ran(&[(1, 7)]);
        assert_eq!(right.forbidden().count(), 0);
        assert_eq!(
            right.ends().iter().map(|one| (one.1, one.2)).collect::<Vec<_>>(),
            [(7, Verdict::Allowed)]
        );
        let wrong = ran(&[(1, 7), (2, 1)]);
        let forbidden: Vec<_> = wrong.forbidden().map(|end| wrong.text(end)).collect();
        assert_eq!(forbidden, ["x=2"]);
        let object = wrong.object();
        assert_eq!(object["runs"], 8);
        assert_eq!(
            object["ends"][1],
            json!({"values": {"0:r1": 1, "x": 2}, "seen": 1, "verdict": "forbidden"})
        );
    }
}
