//! The text format: what the parser accepts, and what it reports for each kind of mistake.

use super::{Limits, Setting, outcome, parse};
use crate::litmus::{Operand, Operation, Test, Verdict};

/// Returns a test with `body`, which begins at line 4.
fn around(body: &str) -> String {
    format!("name: t\nline A: x y\nline B: z\n{body}")
}

/// Asserts that the parser refuses `text` at `line` because it expected `expected`.
fn mistake(text: &str, line: usize, expected: &str) {
    let malformed = Test::parse(text).expect_err(text);
    let message = malformed.to_string();
    assert!(malformed.line == line && malformed.expected.contains(expected), "{message}\n{text}");
    assert_eq!(message, format!("line {line}: expected {}", malformed.expected));
}

#[test]
fn the_example_of_the_issue() {
    let test = parse(
        "name: commit1
         line A: data            # locations, by cache line; two names on one line share it
         line B: commit
         thread:
           store data 1
           clwb data
           sfence
           store commit 1
         thread:                 # any number of threads
           load r1 data
           if r1 == 1 then 2     # the next 2 operations run only if it holds
           clflushopt data
           mfence
           store-nt commit 1
           cas r2 data 1 2       # expects 1, writes 2; r2 gets the old value
           add r3 data 1         # r3 gets the old value
         ask: commit=1 data=0    # is there such a crash state?  (more than one ask line is allowed)",
    );
    assert_eq!((test.name.as_str(), test.threads.len(), test.threads[1].len()), ("commit1", 2, 7));
    assert_eq!(test.threads[1][1], Operation::If { register: 0, equals: 1, operations: 2 });
    let number = Operand::Number;
    let cas = Operation::CompareExchange { register: 1, location: 0, expected: number(1), new: number(2) };
    assert_eq!(test.threads[1][5], cas);
    assert_eq!(test.asks[0].text, "commit=1 data=0");
    assert_eq!(test.asks[0].values, [(1, 1), (0, 0)]);
    assert_eq!(outcome(&test, Setting::Line).1, "A");
}

#[test]
fn a_final_question_is_about_registers_and_locations() {
    let test = parse(&around(
        "thread:\nstore x 1\nload r7 z\nthread:\nload r1 x\nfinal: 0:r7 = 0 1:r1=1 x=1\nanswer: allowed\nask: x=1\n",
    ));
    let question = &test.finals[0];
    assert_eq!(question.text, "0:r7=0 1:r1=1 x=1");
    assert_eq!((&question.registers[..], &question.values[..]), (&[(0, 0, 0), (1, 0, 1)][..], &[(0, 1)][..]));
    assert_eq!((question.published, test.asks[0].published), (Some(Verdict::Allowed), None));
    assert_eq!(test.registers, [["r7"], ["r1"]]);
    assert!(test.explore(Limits::default()).unwrap().ends_with(question));
}

#[test]
fn spaces_comments_and_line_ends_do_not_matter() {
    let tidy =
        parse("name: a b\nline A: x\nthread:\nload r1 x\nif r1 == 0 then 1\nstore x 1\nask: x=1\nask: x=0\n");
    let untidy = "\u{feff}# why\r\n  name :  a b  # c\r\n\r\nline  A :x\n\tthread:#\nload   r1\tx\n\
                  if r1==0 then 1\nstore x 1#\nask:x = 1\nask: x= 0";
    assert_eq!(parse(untidy), tidy);
}

#[test]
fn a_register_may_stand_for_a_value_and_starts_0() {
    let test =
        parse(&around("thread:\nstore x r7\nadd r1 x 2\ncas r2 y r7 r3\nstore z r9\nask: x=2 y=0 z=0\n"));
    assert_eq!(outcome(&test, Setting::Line), (2, "A".into()));
}

#[test]
fn registers_belong_to_their_thread() {
    let test = parse(&around("thread:\nadd r1 x 5\nadd r1 x 0\nthread:\nstore z r1\nask: z=5\n"));
    assert_eq!(outcome(&test, Setting::Line).1, "F");
}

#[test]
fn a_location_may_look_like_a_register() {
    let test = parse("name: t\nline A: r1\nthread:\nstore r1 3\nload r1 r1\nstore r1 r1\nask: r1=3\n");
    assert_eq!(outcome(&test, Setting::Line), (2, "A".into()));
}

#[test]
fn an_if_that_is_skipped_guards_nothing() {
    // The inner `if` would skip the last two stores.
    let test = parse(&around(
        "thread:\nif r1 == 1 then 2\nif r1 == 1 then 2\nstore x 1\nstore y 1\nstore z 1\nask: x=1\nask: y=1 z=1\n",
    ));
    assert_eq!(outcome(&test, Setting::Line).1, "FA");
}

#[test]
fn additions_wrap_and_values_have_64_bits() {
    let most = u64::MAX;
    let test = parse(&around(&format!("thread:\nstore x {most}\nadd r1 x 2\nask: x={most}\nask: x=1\n")));
    assert_eq!(outcome(&test, Setting::Line), (3, "AA".into()));
}

#[test]
fn mistakes_in_operations() {
    let (location, register) =
        ("a location declared above by `line`; found `w`", "a register such as r1; found");
    for (operation, expected) in [
        ("stroe x 1", "one of the operations store, store-nt, load,"),
        ("Store x 1", "one of the operations"),
        (
            "clwb: x",
            "`name:`, `source:`, `line NAME:`, `thread:`, `ask:`, `final:`, `answer:` or an operation",
        ),
        ("store w 1", location),
        ("store-nt w 1", location),
        ("load r1 w", location),
        ("cas r1 w 0 1", location),
        ("add r1 w 1", location),
        ("clflush w", location),
        ("clflushopt w", location),
        ("clwb A", "a location declared above by `line`; found `A`"),
        ("clwb", "a location declared above by `line`; found nothing"),
        ("store x", register),
        ("cas r1 x 1", register),
        ("load x r1", register),
        ("load r x", register),
        ("load R1 x", register),
        ("load", register),
        ("sfence x", "the end of the line; found `x`"),
        ("store x 1 2", "the end of the line; found `2`"),
        ("clwb x y", "the end of the line; found `y`"),
        ("if r1 == 1 then 1 store x 1", "the end of the line; found `store`"),
        ("if r1 != 1 then 1", "`==`; found `!=`"),
        ("if r1 = 1 then 1", "`==`; found `=`"),
        ("if x == 1 then 1", register),
        ("if r1 == r2 then 1", "a number from 0 to 2^64 - 1; found `r2`"),
        ("if r1 == 1", "`then`; found nothing"),
        ("if r1 == 1 then store", "a number of operations"),
        ("if r1 == 1 then 1", "at most 0 after `then`, the operations left in the thread; found `1`"),
    ] {
        mistake(&around(&format!("thread:\n  {operation}\nask: x=1\n")), 5, expected);
    }
    for number in ["-1", "+1", "1.5", "0x1", "one", "18446744073709551616"] {
        let stored = around(&format!("thread:\nstore x {number}\nask: x=1\n"));
        mistake(&stored, 5, "a number from 0 to 2^64 - 1 or a register such as r1; found");
        let asked = around(&format!("thread:\nask: x={number}\n"));
        mistake(&asked, 5, "a value from 0 to 2^64 - 1; found");
    }
}

/// Mistakes after the test's name and lines, which take three lines.
#[test]
fn mistakes_in_threads_and_asks() {
    let two = "thread:\nif r1 == 1 then 3\nstore x 1\nstore y 1\n";
    for (body, line, expected) in [
        ("store x 1\n", 4, "`thread:` before an operation"),
        ("thread:\nask: x=1\nstore x 1\n", 6, "`thread:` before an operation"),
        ("thread: store x 1\n", 4, "nothing after `thread:`; found `store x 1`"),
        ("thread 1:\n", 4, "`thread:`; found `thread 1`"),
        (two, 5, "at most 2 after `then`"),
        (&format!("{two}thread:\nstore x 1\nask: x=1\n"), 5, "at most 2 after `then`"),
        ("thread:\nask: w=1\n", 5, "a location declared above by `line`; found `w`"),
        ("thread:\nask:\n", 5, "a location declared above by `line`; found nothing"),
        ("thread:\nask: x\n", 5, "`=`; found nothing"),
        ("thread:\nask: x=\n", 5, "a value"),
        ("thread:\nask: x==1\n", 5, "a value"),
        ("thread:\nask: x=1, y=0\n", 5, "a value from 0 to 2^64 - 1; found `1,`"),
        ("thread:\nask: x=1 x=0\n", 5, "each location at most once"),
        ("thread:\nload r1 x\nask: 0:r1=1\n", 6, "a location declared above by `line`; found `0:r1`"),
        ("thread:\nload r1 x\nfinal: 1:r1=1\n", 6, "a register that the thread names"),
        ("thread:\nload r1 x\nfinal: 0:r2=1\n", 6, "a register that the thread names"),
        (
            "thread:\nload r1 x\nfinal: 0:r1=1 0:r1=0\n",
            6,
            "each register at most once in a `final:`; found `0:r1`",
        ),
        ("thread:\nload r1 x\nfinal: 0:r1=1 x=1 x=0\n", 6, "each location at most once"),
        ("thread:\nanswer: allowed\n", 5, "an `ask:` or a `final:` before `answer:`"),
        (
            "thread:\nask: x=1\nanswer: perhaps\n",
            6,
            "`allowed` or `forbidden` after `answer:`; found `perhaps`",
        ),
        ("thread:\nask: x=1\nanswer: allowed\nanswer: allowed\n", 7, "one `answer:` for each question"),
    ] {
        mistake(&around(body), line, expected);
    }
}

#[test]
fn mistakes_in_names_and_lines() {
    for (text, line, expected) in [
        ("nmae: t\n", 1, "`name:`, `source:`, `line NAME:`"),
        ("name: t\nsource:\n", 2, "a publication after `source:`; found nothing"),
        ("name: t\nsource: a\nsource: b\n", 3, "one `source:` (there is `a`)"),
        ("name t\n", 1, "`:` in the statement `name`"),
        ("name: t\nthread\n", 2, "`:` in the statement `thread`"),
        ("name: t\nline A x\n", 2, "`:` in the statement `line`"),
        ("name: t\nask x=1\n", 2, "`:` in the statement `ask`"),
        ("name:\n", 1, "a name after `name:`; found nothing"),
        ("name: a\nname: b\n", 2, "one `name:`"),
        ("name: a\nline: x\n", 2, "a name for the line"),
        ("name: a\nline A B: x\n", 2, "`:`; found `B`"),
        ("name: a\nline A:\n", 2, "at least one location"),
        ("name: a\nline A: x\nline A: y\n", 3, "a line that is not yet declared; found `A`"),
        ("name: a\nline A: x x\n", 2, "a location that is not yet declared; found `x`"),
        ("name: a\nline A: x\nline B: y x\n", 3, "a location that is not yet declared; found `x`"),
        ("name: a\nline A: x, y\n", 2, "a location's name"),
        ("name: a\nline A: x=1\n", 2, "a location's name"),
        ("name: t\nthread:\nstore x 1\nline A: x\nask: x=1\n", 3, "a location declared above"),
        ("", 1, "`name:` in the file; found nothing"),
        ("line A: x\nthread:\nstore x 1\nask: x=1\n", 4, "`name:`"),
        ("name: t\n", 1, "at least one `line NAME:`"),
        ("name: t\nline A: x\n", 2, "at least one `thread:`"),
        ("name: t\nline A: x\nthread:\nstore x 1\n\n# no question\n", 6, "at least one `ask:` or `final:`"),
    ] {
        mistake(text, line, expected);
    }
}
