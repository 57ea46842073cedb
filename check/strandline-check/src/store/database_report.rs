//! Presents a finding in terms of transactions and rows.

use std::collections::BTreeMap;
use std::rc::Rc;

use strandline::{Database, Dynamic, TableKind};
use strandline_core::memory::{Event, Hosted, Operation, World};

use super::bridge::{Bridge, Commit, Recovery};
use super::contents::IS_NUMBER;
use crate::finding::Places;
use crate::x86::Site;
use crate::x86::cause::after_crashes;
use crate::x86::checked_program::{CheckedProgram, ProgramJudge, Run};
use crate::x86::explorer::{Broken, Judge};
use crate::x86::trace::Trace;

/// The number of lines of each part that are printed, at most.
const LONGEST: usize = 60;

/// The number of changed rows of one transaction that are printed, at most.
const MOST_ROWS: usize = 8;

/// A step of a thread that the report shows.
enum Step {
    /// Commits the transaction of this number.
    Commits(usize),
    Acknowledges(u64, Site),
}

/// The parts of a finding.
#[derive(Default)]
pub(super) struct Story {
    pub places: Places,
    pub history: Vec<String>,
    pub lost: Vec<String>,
    pub recovery: Vec<String>,
    pub tables: Vec<String>,
}

/// Returns when transaction number `number` committed.
pub(super) fn committed_at(trace: &Trace, number: usize) -> Option<u32> {
    trace.line(number as u32)?.stores.first().map(|store| store.time)
}

/// Presents `broken`, which was found in `run`, the last run of `bridge`.
pub(super) fn story(checked: &CheckedProgram<'_>, bridge: &Bridge, run: &Run, broken: &Broken) -> Story {
    let commits = bridge.commits();
    let (held, recoveries) = refused(checked, bridge, run, broken).unzip();
    let recoveries = recoveries.unwrap_or_default();
    // For the first of several power failures, what survived is known, too.
    let lost = broken.crashes.first().and_then(|(decisions, _)| {
        decisions.iter().filter(|one| one.value & IS_NUMBER == 0).map(|one| one.word / 8).min()
    });
    let survived = lost.map_or(usize::MAX, |first| first as usize - 1);
    let mut story = Story::default();
    let mut lines = done_until(broken.time, &run.trace, &commits);
    if !broken.crashes.is_empty() {
        story.places = places(&lines, &commits, survived);
    }
    let left_out = lines.len().saturating_sub(LONGEST);
    if left_out > 0 {
        story.history.push(format!("({left_out} earlier lines are left out)"));
    }
    for (_, thread, what) in lines.drain(left_out..) {
        let what = match what {
            Step::Commits(number) => {
                let told = describe(bridge, number, &commits[number - 1]);
                if number > survived {
                    story.lost.push(told.clone());
                }
                told
            }
            Step::Acknowledges(number, site) => format!("acknowledges {number} ({site})"),
        };
        story.history.push(format!("thread {thread}: {what}"));
    }
    if !broken.crashes.is_empty() {
        story.history.push("power fails".into());
    }
    story.recovery = recovery(bridge, &recoveries);
    if let Some(held) = held {
        story.tables = tables(bridge, held);
    }
    story
}

/// Returns the contents that `broken` refuses, after its power failures and recoveries, and what these recoveries did.
fn refused(
    checked: &CheckedProgram<'_>,
    bridge: &Bridge,
    run: &Run,
    broken: &Broken,
) -> Option<(u64, Vec<Recovery>)> {
    let judge = ProgramJudge(checked);
    bridge.recoveries.borrow_mut().clear();
    let memory = after_crashes(&judge, (&run.trace, broken.time), &broken.crashes, |_| ())?;
    let world: Rc<dyn World> = memory;
    // The failure of recovery may be the fault itself.
    let _ = judge.recover(&world);
    let held = match broken.recovery_stopped {
        true => bridge.holds(),
        false => bridge.judge(&Hosted::new(world, 0), || bridge.holds()),
    };
    Some((held, std::mem::take(&mut *bridge.recoveries.borrow_mut())))
}

/// Returns what the threads did up to `time`: when, which thread, and what.
fn done_until(time: u32, trace: &Trace, commits: &[Commit]) -> Vec<(u32, usize, Step)> {
    let made = commits.iter().enumerate().filter_map(|(at, commit)| {
        let when = committed_at(trace, at + 1).filter(|&when| when <= time)?;
        Some((when, commit.thread, Step::Commits(at + 1)))
    });
    let marks = trace.marks.iter().filter(|mark| mark.time <= time);
    let acknowledged = marks.filter_map(|mark| match (mark.operation, mark.site) {
        (Operation::Event(Event::Acknowledged(number)), Some(site)) => {
            Some((mark.time, mark.thread as usize, Step::Acknowledges(number, site)))
        }
        _ => None,
    });
    let mut lines: Vec<_> = made.chain(acknowledged).collect();
    lines.sort_by_key(|line| line.0);
    lines
}

/// Returns the places of the first lost transaction, or else the last one, and of the last thing done before power failed.
fn places(lines: &[(u32, usize, Step)], commits: &[Commit], survived: usize) -> Places {
    let transactions = lines.iter().filter_map(|(_, _, what)| match what {
        Step::Commits(number) => Some(*number),
        Step::Acknowledges(..) => None,
    });
    let (lost, last) = (transactions.clone().find(|&number| number > survived), transactions.max());
    let at = |number: usize| commits[number - 1].at.into();
    let crash = lines.last().map(|(_, _, what)| match what {
        Step::Commits(number) => at(*number),
        Step::Acknowledges(_, site) => site.at,
    });
    Places { store: lost.or(last).map(at), flush: None, crash }
}

/// Returns the rows of the database whose contents have the number `held`.
fn tables(bridge: &Bridge, held: u64) -> Vec<String> {
    let mut told: Vec<String> =
        rows(bridge, held).into_iter().flat_map(|(name, table)| table.describe(&name)).collect();
    if told.len() > LONGEST {
        let more = told.len() - LONGEST;
        told.truncate(LONGEST);
        told.push(format!("({more} more rows)"));
    }
    told
}

fn recovery(bridge: &Bridge, recoveries: &[Recovery]) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, recovery) in recoveries.iter().enumerate() {
        // If power fails in this recovery, the next one begins from what survived.
        let done = match recoveries.get(at + 1) {
            None => recovery.commits.len(),
            Some(next) => {
                recovery.commits.iter().rposition(|commit| commit.to == next.from).map_or(0, |last| last + 1)
            }
        };
        let told = recovery.commits.iter().take(done).enumerate();
        lines.extend(told.map(|(at, commit)| describe(bridge, at + 1, commit)));
        if at + 1 < recoveries.len() {
            lines.push(format!(
                "power fails in recovery, which runs again ({done} of its transactions survive)"
            ));
        }
    }
    lines
}

/// Describes a transaction in one line.
fn describe(bridge: &Bridge, number: usize, commit: &Commit) -> String {
    let (before, after) = (rows(bridge, commit.from), rows(bridge, commit.to));
    let mut changes = Vec::new();
    for (name, table) in &after {
        match before.get(name) {
            None => {
                changes.push(format!("{name} is made"));
                changes.extend(table.describe(name));
            }
            Some(old) => changes.extend(table.changes(name, old)),
        }
    }
    changes.extend(
        before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("{name} is deleted")),
    );
    let more = changes.len().saturating_sub(MOST_ROWS);
    changes.truncate(MOST_ROWS);
    if more > 0 {
        changes.push(format!("and {more} more rows"));
    }
    let (file, line) = (commit.at.file(), commit.at.line());
    format!("transaction {number} ({file}:{line}): {}", changes.join(", "))
}

/// The rows of a table.
enum Rows {
    /// Rows by key.
    Table(BTreeMap<String, String>),
    /// Rows in their order, of a multimap or a queue.
    Others(Vec<String>),
    /// Rows that cannot be read without the program.
    Unknown(String),
}

/// Returns all tables in the contents of this number.
fn rows(bridge: &Bridge, number: u64) -> BTreeMap<String, Rows> {
    bridge.restore(number);
    let database: &Database = &bridge.database;
    let tables = database.list().unwrap_or_default();
    let read = |name: &str, kind| {
        let mut rows: Vec<(Dynamic, Dynamic)> = Vec::new();
        let done = database.dump(name, |key, value| {
            rows.push((key, value));
            Ok(())
        });
        let shown = rows.iter();
        match (done, kind) {
            (Err(error), _) => Rows::Unknown(format!("{error:#}")),
            (Ok(_), TableKind::Table) => {
                Rows::Table(shown.map(|(key, value)| (show(key), show(value))).collect())
            }
            (Ok(_), TableKind::Multimap) => {
                Rows::Others(shown.map(|(key, value)| format!("{}: {}", show(key), show(value))).collect())
            }
            (Ok(_), TableKind::Queue) => Rows::Others(shown.map(|(_, item)| show(item)).collect()),
            (Ok(_), kind) => Rows::Unknown(format!("{kind:?}: a kind of table that cannot be shown")),
        }
    };
    tables.iter().map(|table| (table.name.clone(), read(&table.name, table.kind))).collect()
}

impl Rows {
    /// Describes all rows.
    fn describe(&self, name: &str) -> Vec<String> {
        match self {
            Self::Table(rows) => rows.iter().map(|(key, value)| format!("{name}[{key}] = {value}")).collect(),
            Self::Others(rows) if rows.is_empty() => Vec::new(),
            Self::Others(rows) => vec![format!("{name} = [{}]", rows.join(", "))],
            Self::Unknown(why) => vec![format!("{name}: {why}")],
        }
    }

    /// Describes what has changed since `before`.
    fn changes(&self, name: &str, before: &Self) -> Vec<String> {
        match (self, before) {
            (Self::Table(rows), Self::Table(before)) => {
                let changed = rows.iter().filter_map(|(key, value)| match before.get(key) {
                    Some(old) if old == value => None,
                    Some(old) => Some(format!("{name}[{key}]: {old} → {value}")),
                    None => Some(format!("{name}[{key}] = {value}")),
                });
                let removed = before.keys().filter(|key| !rows.contains_key(*key));
                changed.chain(removed.map(|key| format!("{name}[{key}] is removed"))).collect()
            }
            (Self::Others(rows), Self::Others(before)) if rows != before => {
                vec![format!("{name}: [{}] → [{}]", before.join(", "), rows.join(", "))]
            }
            (Self::Others(_), Self::Others(_)) => Vec::new(),
            _ => self.describe(name),
        }
    }
}

/// Formats a value as Rust would print it.
fn show(value: &Dynamic) -> String {
    let all = |values: &[Dynamic]| values.iter().map(show).collect::<Vec<_>>().join(", ");
    match value {
        Dynamic::Unit => "()".into(),
        Dynamic::Bool(value) => value.to_string(),
        Dynamic::Char(value) => format!("{value:?}"),
        Dynamic::Unsigned(value) => value.to_string(),
        Dynamic::Signed(value) => value.to_string(),
        Dynamic::Float(value) => format!("{value:?}"),
        Dynamic::Duration(seconds, nanoseconds) => {
            format!("{:?}", std::time::Duration::new(*seconds, *nanoseconds))
        }
        Dynamic::Text(text) => format!("{text:?}"),
        Dynamic::Bytes(bytes) => format!("{bytes:?}"),
        Dynamic::Optional(None) => "None".into(),
        Dynamic::Optional(Some(value)) => format!("Some({})", show(value)),
        Dynamic::List(values) => format!("[{}]", all(values)),
        Dynamic::Record(fields) => {
            let fields: Vec<_> =
                fields.iter().map(|(name, value)| format!("{name}: {}", show(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Dynamic::Variant(name, fields) => match &**fields {
            Dynamic::Unit => name.clone(),
            Dynamic::List(values) => format!("{name}({})", all(values)),
            fields => format!("{name} {}", show(fields)),
        },
        Dynamic::Handle(name, at) => format!("{name} at {at:#x}"),
        other => format!("{other:?}"),
    }
}
