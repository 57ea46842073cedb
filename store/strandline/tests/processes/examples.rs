//! The programs in `examples/`, run as a newcomer would run them: their output, and their data after they were killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Returns the command of an example that cargo has built beside this test.
fn example(name: &str, path: &Path, arguments: &[&str]) -> Command {
    let test = std::env::current_exe().unwrap();
    let program: PathBuf = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(program.exists(), "{} is missing: run cargo build -p strandline --examples", program.display());
    let mut command = Command::new(program);
    command.arg(path).args(arguments);
    command
}

fn run(name: &str, path: &Path, arguments: &[&str]) -> Output {
    example(name, path, arguments).output().unwrap()
}

/// Returns the output of an example, which must succeed.
fn printed(name: &str, path: &Path, arguments: &[&str]) -> String {
    let output = run(name, path, arguments);
    assert!(output.status.success(), "{name} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_shop_sells_what_it_has_and_nothing_printed_is_lost_by_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let shop = |arguments: &[&str]| printed("shop", &path, arguments);
    assert_eq!(shop(&["deliver", "bolt", "40"]), "40 of `bolt` in stock\n");
    assert_eq!(shop(&["sell", "bolt", "3"]), "invoice 1\n");
    let refused = run("shop", &path, &["sell", "bolt", "38"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("left: 37"), "{refused:?}");
    assert_eq!(shop(&["report"]), "bolt: 40 delivered, 3 sold, 37 left\n1 invoices\n");

    shop(&["deliver", "bolt", "1000000"]);
    let mut rush = example("shop", &path, &["rush", "bolt"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(rush.stdout.take().unwrap()).lines();
    let mut last = lines.by_ref().take(100).map(|line| number(&line.unwrap())).max().unwrap();
    rush.kill().unwrap();
    last = lines.map(|line| number(&line.unwrap())).fold(last, u64::max);
    rush.wait().unwrap();
    let report = shop(&["report"]);
    let invoices: u64 = report.lines().last().unwrap().split(' ').next().unwrap().parse().unwrap();
    // Each of four sellers may have stored an invoice that it did not print.
    assert!((last..=last + 4).contains(&invoices), "{last} were printed, {invoices} found");
}

fn number(line: &str) -> u64 {
    line.strip_prefix("invoice ").unwrap_or_else(|| panic!("{line}")).parse().unwrap()
}

#[test]
fn jobs_are_done_although_a_worker_dies_and_given_up_if_they_fail() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let jobs = |arguments: &[&str]| printed("job_queue", &path, arguments);
    assert_eq!(jobs(&["add", "crash", "fail", "mail"]), "job 1: crash\njob 2: fail\njob 3: mail\n");
    // The first worker takes the job `crash`.
    let died = run("job_queue", &path, &["work"]);
    assert!(!died.status.success());
    let work = jobs(&["work"]);
    assert!(work.contains("job 1: crash: done at attempt 2\n"), "{work}");
    let all = String::from_utf8(died.stdout).unwrap() + &work;
    // The first run may have done jobs that it did not print.
    assert!(all.matches("failed at attempt").count() <= 3 && all.matches("mail: done").count() <= 1, "{all}");
    assert_eq!(jobs(&["status"]), "0 jobs are open, given up: [\"fail\"]\n");
    assert_eq!(jobs(&["work"]), "");
}

#[test]
fn each_version_reads_the_contacts_of_those_before_it() {
    const V2: &str = "1: Contact { full_name: \"Ann Bee\", born: 1970, mail: [] }\n2: Contact { full_name: \"Bob\", born: 0, mail: [] }\n";
    const V3: &str = "1: Contact { first_name: \"Ann\", last_name: Some(\"Bee\"), born: Some(1970), mail: [] }\n\
                      2: Contact { first_name: \"Bob\", last_name: None, born: None, mail: [] }\n";
    let folder = tempfile::tempdir().unwrap();
    for versions in [&["2", "2", "3"][..], &["3"]] {
        let path = folder.path().join(versions.len().to_string());
        let contacts = |version: &str| printed("migration", &path, &[version]);
        assert!(contacts("1").contains("1: Contact { name: \"Ann Bee\", born: 1970, fax: \"12\" }\n"));
        for version in versions {
            assert_eq!(contacts(version), if *version == "2" { V2 } else { V3 });
        }
        assert_eq!(contacts("3"), V3);
        for version in ["1", "2"] {
            let refused = contacts(version);
            assert!(refused.starts_with(&format!("version {version} refuses: ")), "{refused}");
            assert!(refused.contains("newer"), "{refused}");
        }
        assert_eq!(contacts("3"), V3);
    }
}
