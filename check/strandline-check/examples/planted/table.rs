//! A persistent table with fourteen mistakes, one at a time, and the finding for each.

use strandline_check::{Check, Outcome, Pmem, check};

/// A fault of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    MissingFlush,
    MissingFence,
    FlushBeforeStore,
    FlushOfTheWrongLine,
    OneLineNotFlushed,
    ValidFirst,
    UpdateInPlace,
    OutsideTheMemory,
    RecoveryAddsUp,
    LocksInTheWrongOrder,
    CountWithoutLock,
    RedundantFlush,
    CleanFlush,
    IdleFence,
}

const BUGS: [Bug; 14] = [
    Bug::MissingFlush,
    Bug::MissingFence,
    Bug::FlushBeforeStore,
    Bug::FlushOfTheWrongLine,
    Bug::OneLineNotFlushed,
    Bug::ValidFirst,
    Bug::UpdateInPlace,
    Bug::OutsideTheMemory,
    Bug::RecoveryAddsUp,
    Bug::LocksInTheWrongOrder,
    Bug::CountWithoutLock,
    Bug::RedundantFlush,
    Bug::CleanFlush,
    Bug::IdleFence,
];

/// The number of keys in the table, and of those that recovery has still to count.
const COUNT: u64 = 0;
const UNCOUNTED: u64 = 64;
/// Slots, by key modulo their number. Each has a line with the number of the valid copy of the record (0: none), and two copies.
const SLOTS: u64 = 128;
const NUMBER_OF_SLOTS: u64 = 3;
const COPY: u64 = 128;
const SLOT: u64 = 64 + 2 * COPY;
const BYTES: u64 = SLOTS + NUMBER_OF_SLOTS * SLOT;
/// The length of a record, which takes two lines, the second one in part. All its bytes are the number of the put that has written it.
const RECORD: usize = 80;

/// The two locks: of the slots and of the count.
const SLOTS_LOCK: u64 = 0;
const COUNT_LOCK: u64 = 1;

fn slot(key: u64) -> u64 {
    SLOTS + SLOT * (key % NUMBER_OF_SLOTS)
}

/// Puts a record for `key`. It is written beside the present one, and a store of one word makes it valid.
fn put(pmem: &Pmem, key: u64, number: u8, bug: Bug) {
    let slot = if bug == Bug::OutsideTheMemory { SLOTS + SLOT * key } else { slot(key) };
    let valid = pmem.load(slot);
    let next = if valid == 1 && bug != Bug::UpdateInPlace { 2 } else { 1 };
    let copy = slot + 64 + COPY * (next - 1);
    if bug == Bug::ValidFirst {
        pmem.store(slot, next);
        pmem.persist(slot, 8);
    }
    pmem.step("record");
    if bug == Bug::CleanFlush {
        pmem.flush(copy);
    }
    if bug == Bug::FlushBeforeStore {
        pmem.flush_range(copy, RECORD as u64);
    }
    pmem.store_bytes(copy, &[number; RECORD]);
    match bug {
        Bug::MissingFlush | Bug::FlushBeforeStore => {}
        Bug::FlushOfTheWrongLine => pmem.flush_range(slot, RECORD as u64),
        Bug::OneLineNotFlushed => pmem.flush(copy),
        _ => pmem.flush_range(copy, RECORD as u64),
    }
    if bug == Bug::RedundantFlush {
        pmem.flush(copy);
    }
    if bug != Bug::MissingFence {
        pmem.fence();
    }
    if bug == Bug::IdleFence {
        pmem.fence();
    }
    pmem.step("valid");
    if valid != next && bug != Bug::ValidFirst {
        pmem.store(slot, next);
        pmem.persist(slot, 8);
    }
}

/// Puts, and counts the keys.
fn put_and_count(pmem: &Pmem, key: u64, number: u8, bug: Bug) {
    let count = |pmem: &Pmem| {
        pmem.step("count");
        if bug != Bug::CountWithoutLock {
            pmem.lock(COUNT_LOCK);
        }
        pmem.store(COUNT, pmem.load(COUNT) + 1);
        pmem.persist(COUNT, 8);
        if bug != Bug::CountWithoutLock {
            pmem.unlock(COUNT_LOCK);
        }
    };
    if bug == Bug::LocksInTheWrongOrder && pmem.thread() == 1 {
        pmem.lock(COUNT_LOCK);
        pmem.lock(SLOTS_LOCK);
        put(pmem, key, number, bug);
        pmem.unlock(COUNT_LOCK);
        count(pmem);
        pmem.unlock(SLOTS_LOCK);
        return;
    }
    pmem.lock(SLOTS_LOCK);
    let is_new = pmem.load(slot(key)) == 0;
    put(pmem, key, number, bug);
    if bug == Bug::CountWithoutLock {
        pmem.unlock(SLOTS_LOCK);
    }
    if is_new {
        count(pmem);
    }
    if bug != Bug::CountWithoutLock {
        pmem.unlock(SLOTS_LOCK);
    }
    pmem.acknowledge(number.into());
}

fn valid_slots(pmem: &Pmem) -> u64 {
    (0..NUMBER_OF_SLOTS).map(|key| u64::from(pmem.load(slot(key)) != 0)).sum()
}

/// Counts the keys again.
fn recover(pmem: &Pmem, bug: Bug) {
    if bug != Bug::RecoveryAddsUp {
        pmem.store(COUNT, valid_slots(pmem));
        pmem.persist(COUNT, 8);
        return;
    }
    // Recovery persists how many keys the count lacks, and then adds them.
    if pmem.load(UNCOUNTED) == 0 {
        pmem.store(UNCOUNTED, valid_slots(pmem) - pmem.load(COUNT));
        pmem.persist(UNCOUNTED, 8);
    }
    pmem.store(COUNT, pmem.load(COUNT) + pmem.load(UNCOUNTED));
    pmem.persist(COUNT, 8);
    pmem.store(UNCOUNTED, 0);
    pmem.persist(UNCOUNTED, 8);
}

/// Checks that what was acknowledged, or what was put later, is there completely, and that the count is right.
fn is_right(pmem: &Pmem, acknowledged: &[u64], puts: &[(u64, u8)]) -> Result<(), String> {
    for key in 0..NUMBER_OF_SLOTS {
        let last =
            puts.iter().filter(|(put, number)| *put == key && acknowledged.contains(&(*number).into()));
        let last = last.map(|&(_, number)| number).max().unwrap_or(0);
        let valid = pmem.load(slot(key));
        if valid == 0 && last == 0 {
            continue;
        }
        let mut record = [0; RECORD];
        if valid != 0 {
            pmem.load_bytes(slot(key) + 64 + COPY * (valid - 1), &mut record);
        }
        let is_whole = record.iter().all(|&byte| byte == record[0]);
        let is_put = puts.contains(&(key, record[0])) && record[0] >= last;
        if !is_whole || !is_put {
            return Err(format!("the record of key {key}, put number {last} or later, is {record:?}"));
        }
    }
    match (pmem.load(COUNT), valid_slots(pmem)) {
        (count, valid) if count != valid => Err(format!("{count} keys are counted, {valid} are there")),
        _ => Ok(()),
    }
}

/// Puts of one thread, the last of which is an update; and puts of two threads.
const ALONE: [(u64, u8); 3] = [(0, 1), (4, 2), (0, 3)];
const TOGETHER: [(u64, u8); 2] = [(0, 1), (4, 2)];

fn table<'a>(bug: Bug, threads: usize) -> Check<'a> {
    let puts: &[(u64, u8)] = if threads == 1 { &ALONE } else { &TOGETHER };
    let program = move |pmem: &Pmem| match threads {
        1 => puts.iter().for_each(|&(key, number)| put_and_count(pmem, key, number, bug)),
        _ => put_and_count(pmem, puts[pmem.thread()].0, puts[pmem.thread()].1, bug),
    };
    let puts = puts.iter().map(|&(key, number)| (key % NUMBER_OF_SLOTS, number)).collect::<Vec<_>>();
    let mut check = check(program)
        .recovery(move |pmem| recover(pmem, bug))
        .invariant(move |pmem, crashed| is_right(pmem, &crashed.acknowledged, &puts))
        .threads(threads)
        .preemptions(1)
        .bytes(BYTES)
        .label("count", COUNT)
        .label("uncounted", UNCOUNTED);
    for key in 0..NUMBER_OF_SLOTS {
        check = check.label(&format!("valid {key}"), slot(key));
        check = check.label_range(&format!("record {key}"), slot(key) + 64, 2 * COPY);
    }
    check
}

/// Returns the result for the program with this mistake.
fn explore(bug: Bug) -> Outcome {
    let threads = match bug {
        Bug::LocksInTheWrongOrder | Bug::CountWithoutLock => 2,
        _ => 1,
    };
    table(bug, threads).exhaustive()
}

/// Returns the source code of a line of this file.
fn source(line: u32) -> &'static str {
    include_str!("table.rs").lines().nth(line as usize - 1).unwrap_or_default().trim()
}

/// Returns the finding and its advice in words, or else the race, or the redundant operation.
fn told(outcome: &Outcome) -> (String, String) {
    if let Some(finding) = &outcome.finding {
        let advice = finding.advice.as_ref().map(|advice| {
            let what = match (advice.flush, advice.fence) {
                (true, true) => "flush and fence",
                (true, false) => "flush",
                _ => "fence",
            };
            format!("{what} behind `{}`", source(advice.behind.line()))
        });
        return (finding.kind.to_string(), advice.unwrap_or_default());
    }
    if let Some(race) = outcome.races.first() {
        return (format!("data race on {}", race.word), String::new());
    }
    let wasted = outcome.performance.iter().find(|wasted| wasted.is_always());
    let nothing = || ("nothing".to_owned(), String::new());
    wasted.map_or_else(nothing, |wasted| {
        let what = wasted.to_string().split(" (").next().unwrap_or_default().to_owned();
        (what, format!("leave out `{}`", source(wasted.site.at.line())))
    })
}

/// Prints what is found for each mistake.
pub fn print() {
    println!("| mistake | found as | advice | states |\n|---|---|---|---|");
    for bug in [Bug::None].into_iter().chain(BUGS) {
        let outcome = explore(bug);
        let (found, advice) = told(&outcome);
        println!("| {bug:?} | {found} | {advice} | {} |", outcome.counts.states);
    }
}

#[cfg(test)]
mod tests {
    use strandline_check::{Finding, FindingKind, Waste};

    use super::*;

    #[test]
    fn without_a_mistake_nothing_is_found() {
        for threads in [1, 2] {
            let outcome = table(Bug::None, threads).exhaustive();
            outcome.assert_clean();
            outcome.assert_nothing_wasted();
        }
    }

    /// Asserts that the checker finds the mistake and names its kind, and that the replay shows it again.
    fn found(bug: Bug) -> Finding {
        let finding = explore(bug).finding.unwrap_or_else(|| panic!("{bug:?} is not found"));
        let threads = if bug == Bug::LocksInTheWrongOrder { 2 } else { 1 };
        let again = table(bug, threads).replay(&finding.replay).unwrap().finding.unwrap();
        assert_eq!((again.kind, &again.lost), (finding.kind, &finding.lost), "{bug:?}");
        finding
    }

    #[test]
    fn what_a_flush_or_a_fence_repairs_is_advised_so() {
        let mistakes = [
            (Bug::MissingFlush, FindingKind::MissingFlush, (true, false)),
            (Bug::MissingFence, FindingKind::MissingFence, (false, true)),
            (Bug::FlushBeforeStore, FindingKind::MissingFlush, (true, false)),
            (Bug::FlushOfTheWrongLine, FindingKind::MissingFlush, (true, false)),
            (Bug::OneLineNotFlushed, FindingKind::MissingFlush, (true, false)),
        ];
        for (bug, kind, least) in mistakes {
            let finding = found(bug);
            assert_eq!(finding.kind, kind, "{bug:?}: {finding}");
            let advice = finding.advice.as_ref().unwrap_or_else(|| panic!("{bug:?}: {finding}"));
            // The checker has explored the program with this advice, which is the only difference of the repaired source.
            assert_eq!(((advice.flush, advice.fence), advice.repairs), (least, true), "{bug:?}: {finding}");
            assert_eq!(advice.behind.file(), file!());
        }
    }

    #[test]
    fn what_no_flush_repairs_is_found_as_what_it_is() {
        let mistakes = [
            (Bug::ValidFirst, FindingKind::WrongOrder),
            (Bug::UpdateInPlace, FindingKind::TornValue),
            (Bug::OutsideTheMemory, FindingKind::StoreOutside),
            (Bug::RecoveryAddsUp, FindingKind::SumRedone),
            (Bug::LocksInTheWrongOrder, FindingKind::Deadlock),
        ];
        for (bug, kind) in mistakes {
            let finding = found(bug);
            assert_eq!((finding.kind, &finding.advice), (kind, &None), "{bug:?}: {finding}");
        }
    }

    #[test]
    fn a_count_without_its_lock_is_a_race() {
        let outcome = explore(Bug::CountWithoutLock);
        assert!(outcome.finding.is_none(), "{:?}", outcome.finding);
        assert!(!outcome.races.is_empty() && outcome.races.iter().all(|race| race.word == "count"));
    }

    #[test]
    fn waste_is_told_by_kind() {
        let mistakes = [
            (Bug::RedundantFlush, Waste::Redundant),
            (Bug::CleanFlush, Waste::Clean),
            (Bug::IdleFence, Waste::NothingPending),
        ];
        for (bug, waste) in mistakes {
            let outcome = explore(bug);
            outcome.assert_clean();
            let told: Vec<_> = outcome.performance.iter().map(|one| (one.waste, one.is_always())).collect();
            assert_eq!(told, [(waste, true)], "{bug:?}");
        }
    }
}
