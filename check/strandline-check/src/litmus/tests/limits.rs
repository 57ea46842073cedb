//! How large a test may be.

use std::fmt::Write as _;

use super::{Limits, Setting, parse};

/// Returns threads that run `operations` on locations of their own and common ones.
fn threads(count: usize, operations: &[&str]) -> String {
    let mut text = "name: large\nline X: x x2\nline Y: y\nline Z: z\n".to_owned();
    for thread in 0..count {
        let _ = writeln!(text, "line T{thread}: t{thread}");
    }
    for thread in 0..count {
        text += "thread:\n";
        for operation in operations {
            let value = thread + 1;
            let _ = writeln!(
                text,
                "{}",
                operation.replace("OWN", &format!("t{thread}")).replace("N", &value.to_string())
            );
        }
    }
    text + "ask: x=1\n"
}

#[test]
fn three_threads_of_six_operations_are_explored() {
    let programs: [&[&str]; 4] = [
        &["store x N", "load r1 y", "store y N", "load r2 x", "store z r1", "store OWN r2"],
        &["store x N", "clwb x", "sfence", "load r1 y", "store y N", "store OWN r1"],
        &["load r1 x", "cas r2 x r1 N", "load r3 z", "store z N", "clflush z", "store OWN r3"],
        &["store x N", "store y N", "store z N", "store x2 N", "mfence", "store OWN N"],
    ];
    for operations in programs {
        // This takes some seconds, and is well within the limits.
        let limits = Limits { configurations: 1_000_000, ..Limits::default() };
        let found = parse(&threads(3, operations)).explore(limits).unwrap();
        println!("{} configurations, {} states", found.configurations(), found.count(Setting::Line));
    }
}

#[test]
fn a_limit_ends_the_search() {
    let test = parse(&threads(3, &["store x N", "load r1 y", "store y r1", "load r1 x", "store z r1"]));
    let default = Limits::default();
    let error = test.explore(Limits { configurations: 100, ..default }).unwrap_err();
    assert_eq!((error.what, error.limit), ("configurations", 100));
    let error = test.explore(Limits { crash_states: 10, ..default }).unwrap_err();
    assert_eq!((error.what, error.limit), ("crash states", 10));
    assert!(error.to_string().contains("more than 10 crash states"));
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn more_states_than_can_be_counted() {
    let names: Vec<String> = (0..64).map(|index| format!("l{index}")).collect();
    let mut text = "name: wide\n".to_owned();
    for name in &names {
        let _ = writeln!(text, "line {name}: {name}");
    }
    text += "thread:\n";
    for name in &names {
        let _ = writeln!(text, "store {name} 1");
    }
    text += "ask: l0=1\n";
    assert_eq!(parse(&text).explore(Limits::default()).unwrap_err().what, "crash states");
    let wider = text.replacen("line", "line more: more\nline", 1);
    assert_eq!(parse(&wider).explore(Limits::default()).unwrap_err().what, "locations");
}

#[test]
fn more_stores_or_registers_than_are_represented() {
    let stores = "store x 1\n".repeat(101);
    let text = format!("name: long\nline A: x\nthread:\n{stores}thread:\n{stores}ask: x=1\n");
    assert_eq!(parse(&text).explore(Limits::default()).unwrap_err().what, "stores");
    let loads: String = (0..65).map(|register| format!("load r{register} x\n")).collect();
    let text = format!("name: long\nline A: x\nthread:\n{loads}ask: x=1\n");
    assert_eq!(parse(&text).explore(Limits::default()).unwrap_err().what, "registers in a thread");
}
