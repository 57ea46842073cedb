//! Runs tests on the processor, and asserts what holds on every processor.

use std::time::Duration;

use super::{Limits, parse};
use crate::Session;
use crate::litmus::{Runs, Unrunnable, shipped};

const SHORT: Runs = Runs { repetitions: 2_000, limit: Duration::from_secs(20) };

/// Every run ends as the model allows; a test of one thread always ends in the same way.
#[test]
fn runs_end_as_the_model_allows() {
    if !cfg!(target_arch = "x86_64") || cfg!(miri) {
        return;
    }
    for name in ["amd5", "iwp2.1", "iwp2.3.b", "nt_mp", "nt_mp_sfence", "cas_lock", "nested_if", "same_line"]
    {
        let (_, text) = shipped().find(|&(shipped, _)| shipped == name).unwrap();
        let test = parse(text);
        let (allowed, seen) =
            (test.ends(Limits::default()).unwrap(), test.run(SHORT, &Session::new()).unwrap());
        assert!(seen.runs() >= SHORT.repetitions, "{name}: {} runs", seen.runs());
        assert!(seen.ends.keys().all(|end| allowed.contains(end)), "{name}: {seen:?}");
        if test.threads.len() == 1 {
            assert_eq!(seen.ends.len(), 1, "{name}");
        }
    }
}

#[test]
fn a_stopped_session_runs_nothing() {
    let session = Session::new();
    session.stop();
    let ran = parse("name: t\nline A: x\nthread:\nstore x 1\nfinal: x=1\n").run(SHORT, &session);
    assert!(ran.map_or_else(|error| error == Unrunnable::Processor, |seen| seen.runs() == 0));
}

#[test]
fn nine_locations_do_not_fit_a_line() {
    let test = parse("name: t\nline A: a b c d e f g h i\nthread:\nstore a 1\nfinal: a=1\n");
    let expected = if cfg!(target_arch = "x86_64") { Unrunnable::Line } else { Unrunnable::Processor };
    assert_eq!(test.run(SHORT, &Session::new()), Err(expected));
}
