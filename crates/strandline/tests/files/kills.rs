//! Kills at each system call, from the first of a creation on.

use std::path::Path;

use strandline::Domain;

use super::trace::{Stop, Traced};
use super::{Bounds, Failures, How, cases, holds, leaves_nothing, name, pool_in, quick_folder, random};

/// Where in its system calls a process is killed, counted from the first after the mark `begin`.
#[derive(Clone, Copy, Debug)]
struct At {
    call: usize,
    /// Before the call runs, or after it.
    before: bool,
}

/// Runs `script` in `folder` and kills it; what it said, and how many calls it made.
fn run_and_kill(folder: &Path, script: &str, at: Option<At>) -> (Vec<String>, usize) {
    let mut traced = Traced::start(folder, &format!("begin; {script}"));
    let (mut marks, mut calls, mut said) = (Vec::new(), 0, None);
    let mut counting = false;
    loop {
        match traced.next() {
            Stop::Entry(call) => {
                calls += usize::from(counting);
                if at.is_some_and(|at| at.before && at.call == calls && counting) {
                    traced.kill();
                    return (marks, calls);
                }
                said = traced.mark(&call).or(said);
            }
            Stop::Exit(call, _) => {
                if call.number == libc::SYS_write
                    && call.arguments[0] == 2
                    && let Some(mark) = said.take()
                {
                    counting |= mark == "begin";
                    marks.push(mark);
                }
                if at.is_some_and(|at| !at.before && at.call == calls && counting) {
                    traced.kill();
                    return (marks, calls);
                }
            }
            Stop::Ended => return (marks, calls),
        }
    }
}

fn script(folder: &Path, domain: Domain) -> String {
    format!("domain {}; open_or_create {}; update 1 2; close", name(domain), pool_in(folder).display())
}

/// The pool that the killed processes have left, opened, and what else they have left.
fn judge(folder: &Path, domain: Domain, lives: &[Vec<String>]) -> Result<(), String> {
    let mut bounds = Bounds::default();
    lives.iter().flatten().for_each(|mark| bounds.hear(mark));
    if let Some(error) = lives.iter().flatten().find(|mark| mark.starts_with("error")) {
        return Err(error.clone());
    }
    // One more of each life that did not say what it had opened.
    for most in bounds.most.values_mut() {
        *most += lives.len() as u64;
    }
    bounds.most.entry(1).or_insert(lives.len() as u64);
    holds(&pool_in(folder), domain, How::OpenOrCreate, &bounds)?;
    leaves_nothing(&pool_in(folder), domain)
}

#[test]
fn kills_at_each_system_call_of_a_creation() {
    let mut failures = Failures::new("kills at each call");
    for domain in [Domain::Sync, Domain::Process] {
        for before in [true, false] {
            for call in 1.. {
                let folder = quick_folder();
                let (marks, calls) =
                    run_and_kill(folder.path(), &script(folder.path(), domain), Some(At { call, before }));
                if calls < call {
                    break;
                }
                let result = judge(folder.path(), domain, &[marks]);
                failures.case(
                    format!(
                        "{} killed {} call {call}",
                        name(domain),
                        if before { "before" } else { "after" }
                    ),
                    result,
                );
            }
        }
    }
    failures.end();
}

/// Up to three processes, one after the other, each killed somewhere.
#[test]
fn kills_of_several_lives() {
    let (mut random, mut failures) = (random("kills"), Failures::new("kills"));
    let mut killed = 0;
    let mut lengths = [300; 2];
    while killed < cases(60) {
        let domain = *random.choice(&[Domain::Sync, Domain::Process]).unwrap();
        let length = &mut lengths[usize::from(domain == Domain::Sync)];
        let folder = quick_folder();
        let mut lives = Vec::new();
        let mut where_killed = Vec::new();
        for _ in 0..random.usize(1..=3) {
            // Half of them where pools are created and recovered.
            let last = if random.bool() { 60.min(*length) } else { *length };
            let at = At { call: random.usize(1..=last), before: random.bool() };
            let (marks, calls) = run_and_kill(folder.path(), &script(folder.path(), domain), Some(at));
            // Not longer than it lives.
            *length = if calls < at.call { calls } else { (*length).max(at.call + 5) };
            lives.push(marks);
            where_killed.push(at.call);
            killed += 1;
        }
        let result = judge(folder.path(), domain, &lives);
        failures.case(format!("{} killed at {where_killed:?}", name(domain)), result);
    }
    println!("{killed} kills");
    failures.end();
}
