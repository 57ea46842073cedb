//! The format: what it takes, and what each kind of mistake is told.

use super::{Setting, outcome, parse};
use crate::litmus::{Operand, Operation, Test};

/// A test around `body`, which begins at line 4.
fn around(body: &str) -> String {
    format!("name: t\nline A: x y\nline B: z\n{body}")
}

#[track_caller]
fn mistake(text: &str, line: usize, expected: &str) {
    let malformed = Test::parse(text).expect_err("a mistake");
    let message = malformed.to_string();
    assert!(malformed.line == line && malformed.expected.contains(expected), "{message}\n{text}");
    assert_eq!(message, format!("line {line}: expected {}", malformed.expected));
}

#[track_caller]
fn operation(operation: &str, expected: &str) {
    mistake(&around(&format!("thread:\n  {operation}\nask: x=1\n")), 5, expected);
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
    // The inner one would skip the last two stores.
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
fn unknown_statements_and_operations() {
    operation("stroe x 1", "one of the operations store, store-nt, load,");
    operation("Store x 1", "one of the operations");
    operation("clwb: x", "`name:`, `line NAME:`, `thread:`, `ask:` or an operation");
    operation("if not r1 == 1: 2", "");
    mistake("nmae: t\n", 1, "`name:`, `line NAME:`");
    mistake("name: t\nthread\n", 2, "`:` in the statement `thread`");
    mistake("name: t\nline A x\n", 2, "`:` in the statement `line`");
    mistake("name: t\nask x=1\n", 2, "`:` in the statement `ask`");
    mistake("name t\n", 1, "`:` in the statement `name`");
}

#[test]
fn names_and_lines() {
    mistake("name:\n", 1, "a name after `name:`; found nothing");
    mistake("name: a\nname: b\n", 2, "one `name:`");
    mistake("name: a\nline: x\n", 2, "a name for the line");
    mistake("name: a\nline A B: x\n", 2, "`:`; found `B`");
    mistake("name: a\nline A:\n", 2, "at least one location");
    mistake("name: a\nline A: x\nline A: y\n", 3, "a line that is not yet declared; found `A`");
    mistake("name: a\nline A: x x\n", 2, "a location that is not yet declared; found `x`");
    mistake("name: a\nline A: x\nline B: y x\n", 3, "a location that is not yet declared; found `x`");
    mistake("name: a\nline A: x, y\n", 2, "a location's name");
    mistake("name: a\nline A: x=1\n", 2, "a location's name");
}

#[test]
fn threads() {
    mistake(&around("store x 1\n"), 4, "`thread:` before an operation");
    mistake(&around("thread:\nask: x=1\nstore x 1\n"), 6, "`thread:` before an operation");
    mistake(&around("thread: store x 1\n"), 4, "nothing after `thread:`; found `store x 1`");
    mistake(&around("thread 1:\n"), 4, "`thread:`; found `thread 1`");
}

#[test]
fn locations() {
    let expected = "a location declared above by `line`; found `w`";
    for text in
        ["store w 1", "store-nt w 1", "load r1 w", "cas r1 w 0 1", "add r1 w 1", "clflush w", "clflushopt w"]
    {
        operation(text, expected);
    }
    operation("clwb A", "a location declared above by `line`; found `A`");
    operation("clwb", "a location declared above by `line`; found nothing");
    mistake(&around("thread:\nask: w=1\n"), 5, expected);
    mistake("name: t\nthread:\nstore x 1\nline A: x\nask: x=1\n", 3, "a location declared above");
}

#[test]
fn numbers_and_registers() {
    for number in ["-1", "+1", "1.5", "0x1", "one", "18446744073709551616"] {
        operation(
            &format!("store x {number}"),
            "a number from 0 to 2^64 - 1 or a register such as r1; found",
        );
        mistake(&around(&format!("thread:\nask: x={number}\n")), 5, "a value from 0 to 2^64 - 1; found");
    }
    operation("store x", "a register such as r1; found nothing");
    operation("cas r1 x 1", "a register such as r1; found nothing");
    operation("load x r1", "a register such as r1; found `x`");
    operation("load r x", "a register such as r1; found `r`");
    operation("load R1 x", "a register such as r1; found `R1`");
    operation("load", "a register such as r1; found nothing");
}

#[test]
fn too_much_on_a_line() {
    operation("sfence x", "the end of the line; found `x`");
    operation("store x 1 2", "the end of the line; found `2`");
    operation("clwb x y", "the end of the line; found `y`");
    operation("if r1 == 1 then 1 store x 1", "the end of the line; found `store`");
}

#[test]
fn ifs() {
    operation("if r1 != 1 then 1", "`==`; found `!=`");
    operation("if r1 = 1 then 1", "`==`; found `=`");
    operation("if x == 1 then 1", "a register such as r1; found `x`");
    operation("if r1 == r2 then 1", "a number from 0 to 2^64 - 1; found `r2`");
    operation("if r1 == 1", "`then`; found nothing");
    operation("if r1 == 1 then", "a number of operations");
    operation("if r1 == 1 then store", "a number of operations");
    operation("if r1 == 1 then 1", "at most 0 after `then`, the operations left in the thread; found `1`");
    let two = "thread:\nif r1 == 1 then 3\nstore x 1\nstore y 1\n";
    mistake(&around(&format!("{two}thread:\nstore x 1\nask: x=1\n")), 5, "at most 2 after `then`");
    mistake(&around(&format!("{two}ask: x=1\n")), 5, "at most 2 after `then`");
    mistake(&around(two), 5, "at most 2 after `then`");
}

#[test]
fn asks() {
    mistake(&around("thread:\nask:\n"), 5, "a location declared above by `line`; found nothing");
    mistake(&around("thread:\nask: x\n"), 5, "`=`; found nothing");
    mistake(&around("thread:\nask: x=\n"), 5, "a value");
    mistake(&around("thread:\nask: x==1\n"), 5, "a value");
    mistake(&around("thread:\nask: x=1, y=0\n"), 5, "a value from 0 to 2^64 - 1; found `1,`");
    mistake(&around("thread:\nask: x=1 x=0\n"), 5, "each location at most once");
}

#[test]
fn something_missing() {
    mistake("", 1, "`name:` in the file; found nothing");
    mistake("line A: x\nthread:\nstore x 1\nask: x=1\n", 4, "`name:`");
    mistake("name: t\n", 1, "at least one `line NAME:`");
    mistake("name: t\nline A: x\n", 2, "at least one `thread:`");
    mistake("name: t\nline A: x\nthread:\nstore x 1\n\n# no question\n", 6, "at least one `ask:`");
}
