//! Describes a crash for a report.

use strandline_core::memory::{Event, Operation};

use super::crash::Decision;
use super::missing_flush::Missing;
use super::trace::{Mark, Store, Trace};

/// The number of lines of a history that are shown, at most.
const LONGEST: usize = 60;

/// See [`Trace::story`].
pub(crate) fn history(trace: &Trace, began: u32, time: u32, describe: impl Fn(u32) -> String) -> Vec<String> {
    let mut lines = stores(trace, began, time, &describe);
    // Consecutive write-backs of one step become one line.
    let mut last: Option<(u32, String, u32, usize)> = None;
    for mark in trace.marks.iter().filter(|mark| (began + 1..=time).contains(&mark.time)) {
        let thread = mark.thread;
        let what = match mark.operation {
            Operation::WriteBack(at, _) if mark.site.is_some() => {
                format!("flush the line of {}{}", describe((at / 8) as u32), place(mark))
            }
            Operation::Fence(_) if mark.site.is_some() => format!("fence{}", place(mark)),
            Operation::Event(Event::Acknowledged(number)) if mark.site.is_some() => {
                format!("acknowledges {number}{}", place(mark))
            }
            Operation::WriteBack(at, step) => {
                let step = format!("{step:?}");
                match &mut last {
                    Some((other, same, count, index)) if *other == thread && *same == step => {
                        *count += 1;
                        lines[*index].1 += if *count == 2 { " and others" } else { "" };
                    }
                    _ => {
                        let word = describe((at / 8) as u32);
                        lines.push((
                            mark.time,
                            format!("thread {thread}: write back ({step}) line of {word}"),
                        ));
                        last = Some((thread, step, 1, lines.len() - 1));
                    }
                }
                continue;
            }
            Operation::Fence(step) => format!("fence ({step:?})"),
            Operation::Event(Event::Lock(_) | Event::Unlock(_)) => continue,
            Operation::Event(event) => format!("{event:?}"),
            _ => continue,
        };
        last = None;
        lines.push((mark.time, format!("thread {thread}: {what}")));
    }
    lines.sort_by_key(|line| line.0);
    let left_out = lines.len().saturating_sub(LONGEST);
    let mut text: Vec<String> = Vec::new();
    if left_out > 0 {
        text.push(format!("({left_out} earlier operations are left out)"));
    }
    text.extend(lines.drain(left_out..).map(|(time, line)| format!("{time:>6} {line}")));
    text
}

/// Returns the stores up to `time`, each with its time.
fn stores(trace: &Trace, began: u32, time: u32, describe: impl Fn(u32) -> String) -> Vec<(u32, String)> {
    let mut lines = Vec::new();
    for line in &trace.lines {
        let (least, greatest) = line.cuts(time);
        for (i, store) in line.stores[..greatest].iter().enumerate().filter(|(_, store)| store.time > began) {
            let durable = if i < least { ", durable" } else { "" };
            let (thread, value) = (store.thread, store.value);
            lines.push((
                store.time,
                format!("thread {thread}: {} = {value:#x}{durable}{}", describe(store.word), store.source()),
            ));
        }
    }
    lines
}

/// Returns the source line of `mark` in brackets, and its step.
fn place(mark: &Mark) -> String {
    mark.site.map_or_else(String::new, |site| format!(" ({site})"))
}

/// Describes `missing` in words.
pub(crate) fn missing(trace: &Trace, missing: Option<&Missing>, describe: impl Fn(u32) -> String) -> String {
    let Some(Missing { store, word, before, suffices }) = missing else {
        return "no write-back or fence: the history is wrong with nothing lost".to_owned();
    };
    let line = trace.line(word / 8);
    let made = line.and_then(|line| line.stores.iter().find(|one| one.time == *store));
    let thread = made.map_or(0, |store| store.thread);
    let name = describe(*word);
    let what = format!(
        "write back the line of {name}, stored by thread {thread} at {store}{} and fence",
        made.map_or_else(String::new, Store::source)
    );
    let (mark, stored) = (
        trace.marks.iter().find(|mark| mark.time == *before),
        trace.lines.iter().flat_map(|line| &line.stores).find(|store| store.time == *before),
    );
    let event = match (mark, stored) {
        (_, Some(next)) => {
            format!("thread {} stores to {}{}", next.thread, describe(next.word), next.source())
        }
        (Some(mark), None) => match mark.operation {
            Operation::Event(event) => format!("{event:?} of thread {}", mark.thread),
            operation => format!("{operation:?} of thread {}", mark.thread),
        },
        (None, None) => "what happens".to_owned(),
    };
    let rest = if *suffices { "" } else { " (something else is missing, too)" };
    format!("{what}, before {event} at {before}{rest}")
}

/// Describes the stores that did not survive, by `decisions`.
pub(crate) fn lost(decisions: &[Decision], describe: impl Fn(u32) -> String) -> Vec<String> {
    let lost = decisions.iter().filter(|decision| decision.is_loss());
    let tell = |decision: &Decision| {
        format!("{}: {:#x} survived, not {:#x}", describe(decision.word), decision.value, decision.newest)
    };
    lost.map(tell).take(40).collect()
}

/// Describes the operations of a recovery before power failed in it; consecutive stores of zero become one line.
pub(crate) fn recovery(operations: &[Operation], describe: impl Fn(u32) -> String) -> Vec<String> {
    let mut lines = Vec::new();
    let mut zeros = 0;
    for operation in operations {
        match operation {
            Operation::Store(_, _, 0) => {
                zeros += 1;
                continue;
            }
            _ if zeros > 0 => lines.push(format!("recovery: {} words = 0", std::mem::take(&mut zeros))),
            _ => {}
        }
        match *operation {
            Operation::Store(_, at, value) => {
                lines.push(format!("recovery: {} = {value:#x}", describe((at / 8) as u32)));
            }
            Operation::Fence(step) => lines.push(format!("recovery: fence ({step:?})")),
            _ => {}
        }
    }
    if zeros > 0 {
        lines.push(format!("recovery: {zeros} words = 0"));
    }
    lines
}
