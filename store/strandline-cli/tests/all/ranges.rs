//! The ranges of numbers and sizes: their bounds are accepted, and numbers just outside are refused with the range.

use std::process::{Command, Stdio};

/// Returns the exit code and the message of a run. The run is ended if it starts to work.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_strandline")).args(arguments).stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn what_is_outside_a_range_is_refused_with_the_range() {
    let create = &["pool", "create", "/no/such/folder/pool"][..];
    for (before, flag, wrong, range) in [
        (&["bench"][..], "--value-size", &["0", "1025K", "1G", "-1"][..], "from 1 to 1M"),
        (&["bench"], "--threads", &["0", "257", "x"], "from 1 to 256"),
        (&["bench"], "--log-size", &["0", "4095", "5000", "2G"], "from 4K to 1G, a multiple of 4K"),
        (&["bench"], "--ops-per-tx", &["0", "100001"], "from 1 to 100000"),
        (&["bench"], "--read-share", &["101", "-1"], "from 0 to 100"),
        (&["bench"], "--write-latency-ns", &["1000001"], "from 0 to 1000000"),
        (&["bench"], "--repetitions", &["0", "1001"], "from 1 to 1000"),
        (&["bench"], "--seconds", &["0", "nan", "86401"], "from 0.01 to 86400"),
        (create, "--size", &["0", "4097", "129T"], "from 4K to 128T, a multiple of 4K"),
        (create, "--initial-size", &["129T", "much"], "from 0 to 128T"),
        (create, "--logs", &["0", "513"], "from 1 to 512"),
        (create, "--log-size", &["0", "4097", "33G"], "from 4K to 32G, a multiple of 4K"),
        (create, "--memory", &["4095K", "129T"], "from 4M to 128T"),
        (create, "--address-space", &["0", "4097"], "from 4K to 128T, a multiple of 4K"),
        (&["torture"], "--kills", &["0", "1000000001"], "from 1 to 1000000000"),
        (&["torture"], "--threads", &["0", "65"], "from 1 to 64"),
    ] {
        for value in wrong {
            let (code, told) = refused(&[before, &[&format!("{flag}={value}")]].concat());
            assert!(code == Some(2) && told.contains(range), "{flag} {value}: {told}");
        }
    }
    let (code, told) = refused(&["pool", "resize-log", "pool", "8K"]);
    assert!(code == Some(2) && told.contains("from 12K to 1T, a multiple of 4K"), "{told}");
}

/// Arguments within their range let the run go on. It ends because its folder does not exist or another flag is wrong.
#[test]
fn the_ends_of_a_range_are_taken() {
    for flags in [
        &["--size=128T", "--logs=512", "--log-size=4K", "--initial-size=0"][..],
        &["--memory=4M", "--address-space=128T"],
        &["--memory=128T", "--logs=1"],
    ] {
        let (code, told) = refused(&[&["pool", "create", "/no/such/folder/pool"], flags].concat());
        assert!(code == Some(2) && told.contains("/no/such/folder"), "{flags:?}: {told}");
    }
    for flags in [
        ["--value-size=1", "--ops-per-tx=100000"],
        ["--value-size=1M", "--log-size=4K"],
        ["--threads=1,256", "--write-latency-ns=1000000"],
        ["--read-share=100", "--repetitions=1000"],
    ] {
        let (code, told) = refused(&[&["bench", "--pool", "/no/such/folder/pool"], &flags[..]].concat());
        assert!(code == Some(3) && told.contains("/no/such/folder"), "{flags:?}: {told}");
    }
}

#[test]
fn sizes_that_do_not_go_together_are_refused_with_what_to_do() {
    for (arguments, told) in [
        (
            &["bench", "--log-size", "1G", "--threads", "17"][..],
            "choose a smaller --log-size, or fewer --threads",
        ),
        (
            &["bench", "--value-size", "1M", "--ops-per-tx", "257"],
            "choose a smaller --value-size or --ops-per-tx",
        ),
        (
            &["pool", "create", "/no/such/folder/pool", "--size", "4M", "--initial-size", "5M"],
            "--initial-size 5M is more than --size 4M: choose a smaller one, or a larger --size",
        ),
        (&["bench", "--domain", "sync", "--write-latency-ns", "5"], "leave it out, or choose that domain"),
    ] {
        let (code, said) = refused(arguments);
        assert!(code == Some(2) && said.contains(told), "{arguments:?}: {said}");
    }
}

/// Checks that the messages in `docs/commands.md` are those of the command.
#[test]
fn the_page_shows_what_the_command_says() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut shown = 0;
    for (line, next) in page.lines().zip(page.lines().skip(1)).filter(|(_, next)| next.starts_with("error: "))
    {
        let arguments: Vec<&str> = line.strip_prefix("$ strandline ").unwrap().split(' ').collect();
        let (_, said) = refused(&arguments);
        assert_eq!(said.lines().next(), Some(next), "{line}");
        shown += 1;
    }
    assert_eq!(shown, 2);
}
