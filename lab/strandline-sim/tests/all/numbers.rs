//! Numbers of lines, cores and cycles.

use strandline_sim::numbers::{CoreId, Cycle, LineNumber};

#[test]
fn a_line_has_eight_words_and_64_bytes() {
    let line = LineNumber::containing(3 * 64 + 63);
    assert_eq!((line, line.address(), line.words()), (LineNumber::new(3), 192, 24..32));
    assert_eq!(line + 2 - line, 2);
    assert_eq!(LineNumber::all(line..line + 2).collect::<Vec<_>>(), [line, line + 1]);
}

#[test]
fn a_set_has_a_bit_for_each_core() {
    let cores = [3, 0, 63].map(CoreId::new);
    let set = cores.iter().fold(0, |set, core| set | core.bit());
    assert_eq!(CoreId::in_set(set).collect::<Vec<_>>(), [0, 3, 63].map(CoreId::new));
    assert_eq!(vec![5, 6, 7, 8][cores[0]], 8);
}

#[test]
fn cycles_do_not_leave_time() {
    let at = Cycle::new(100);
    assert_eq!((at + 5 - at, at.since(at + 5), (at + 5).since(at)), (5, 0, 5));
    assert_eq!((at.before(101), Cycle::NEVER.saturating_add(1)), (Cycle::ZERO, Cycle::NEVER));
    assert_eq!(at.to_string(), "100");
}
