//! `strandline-lab simulate` and the machines of `strandline-lab list`, through the command line.

use std::process::{Command, Output};

use serde_json::Value;

fn strandline(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_strandline-lab")).args(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = strandline(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A run on the smallest pool that there is.
const SHORT: [&str; 8] =
    ["simulate", "--workload", "rbtree", "--transactions", "50", "--warm-up", "10", "--log-size=64K"];

fn short<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SHORT, more].concat()
}

#[test]
fn two_runs_with_one_seed_are_equal_to_the_byte() {
    let run = |seed| {
        let flags = ["--threads", "2", "--crash-at", "50000,150000", "--json", "--seed", seed];
        let mut object = json(&short(&flags));
        assert!(object["host"]["accesses_per_s"].as_f64() > Some(0.0));
        object.as_object_mut().unwrap().remove("host");
        object.to_string()
    };
    let first = run("3");
    assert_eq!(first, run("3"));
    assert_ne!(first, run("4"));
}

#[test]
fn the_result_holds_the_resolved_machine_and_every_count() {
    let object = json(&short(&["--machine", "loc", "--set", "nvm.write_ns=500", "--json"]));
    let result = &object["result"];
    assert_eq!(result["machine"]["name"], "loc");
    assert_eq!(result["machine"]["nvm"]["write_ns"], 500.0);
    assert_eq!(result["machine"]["cache"][2]["bytes"], 1 << 20);
    assert_eq!(result["statistics"]["levels"].as_array().unwrap().len(), 3);
    assert_eq!(result["statistics"]["channels"][0]["banks"].as_array().unwrap().len(), 8);
    assert!(result["tx_per_s"].as_f64() > Some(0.0));
    let slower = json(&short(&["--machine", "loc", "--set", "nvm.write_ns=5000", "--json"]));
    assert!(slower["result"]["tx_per_s"].as_f64() < result["tx_per_s"].as_f64());
}

/// The table and the result show the bytes of a hardware scheme's log, and energy if the machine has figures for it.
#[test]
fn hardware_logs_and_energy_are_shown() {
    let flags = ["simulate", "--machine", "loc", "--hardware", "undo-log", "--workload", "sps"];
    let undo = [&flags[..], &["--transactions", "100", "--log-size=64K"]].concat();
    let result = json(&[&undo[..], &["--json"]].concat())["result"].clone();
    assert_eq!(result["statistics"]["hardware_log_bytes"], 100 * (2 * 24 + 8));
    assert_eq!(result["log_bytes_per_tx"], 56.0);
    let table = String::from_utf8(strandline(&undo).stdout).unwrap();
    assert!(table.contains("56 bytes of log") && table.contains("bytes written to its log"), "{table}");
    assert!(result["statistics"].get("energy").is_none() && !table.contains("energy"), "{table}");

    let pcm = json(&short(&["--machine", "pcm", "--json"]))["result"]["statistics"]["energy"].clone();
    let parts: Vec<_> =
        pcm["parts"].as_array().unwrap().iter().map(|part| part["nj"].as_f64().unwrap()).collect();
    assert_eq!(parts.len(), 5, "three cache levels, nvm and dram");
    assert!((pcm["total_nj"].as_f64().unwrap() - parts.iter().sum::<f64>()).abs() < 1e-6);
    let table = String::from_utf8(strandline(&short(&["--machine", "pcm"])).stdout).unwrap();
    assert!(table.contains("energy of accesses") && table.contains("nJ/transaction"), "{table}");
    // Three cache levels and DRAM have figures, but the NVM has none.
    let partly = json(&short(&["--machine", "gem5-nvm", "--json"]))["result"]["statistics"]["energy"].clone();
    assert_eq!((partly["parts"].as_array().unwrap().len(), &partly["total_nj"]), (4, &Value::Null));
}

/// The product's protocol runs; popular keys and a word that all threads change meet conflicts, keys of a thread's own hardly any.
#[test]
fn threads_choose_keys() {
    let aborts = |more: &[&str]| {
        let flags =
            ["--scheme", "strandline", "--threads", "4", "--transactions", "300", "--log-size=64K", "--json"];
        let object = json(&[&["simulate"], more, &flags].concat());
        assert_eq!(object["result"]["scheme"], "strandline");
        object["result"]["abort_ratio"].as_f64().unwrap()
    };
    let of_keys = |keys| aborts(&["--workload", "rbtree", "--keys", keys]);
    let (even, zipfian, disjoint) = (of_keys("even"), of_keys("zipfian"), of_keys("disjoint"));
    assert!(zipfian > 2.0 * even && disjoint < zipfian / 2.0, "{even}, {zipfian}, {disjoint}");
    assert!(aborts(&["--workload", "hot-counter"]) > zipfian);
    let noted =
        strandline(&["simulate", "--workload", "hot-counter", "--keys", "zipfian", "--transactions", "10"]);
    assert!(String::from_utf8(noted.stderr).unwrap().contains("no use for --keys: hot-counter"));
    let wrong = strandline(&["simulate", "--sweep", "keys=even,hot"]);
    let error = String::from_utf8(wrong.stderr).unwrap();
    assert!(error.contains("--sweep keys=hot: ") && error.contains("zipfian"), "{error}");
    assert_eq!(wrong.status.code(), Some(2));
}

/// A thread that is idle for half of its time makes half as many transactions.
#[test]
fn threads_are_idle_for_a_share_of_their_time() {
    let rate = |more: &[&str]| json(&short(more))["result"]["tx_per_s"].as_f64().unwrap();
    let (busy, idle) = (rate(&["--json"]), rate(&["--idle", "50", "--json"]));
    assert!((0.4..0.6).contains(&(idle / busy)), "{idle} of {busy}");
}

/// By default hardware runs with its own software, and so does a software scheme with the hardware that orders its persists.
#[test]
fn hardware_runs_beside_its_own_software() {
    let pair = |flags: &[&str]| {
        let result = json(&short(flags))["result"].clone();
        (result["scheme"].as_str().unwrap().to_owned(), result["hardware"].as_str().unwrap().to_owned())
    };
    let names = |scheme: &str, hardware: &str| (scheme.to_owned(), hardware.to_owned());
    let loc = ["--machine", "loc", "--hardware", "loc-wal", "--json"];
    assert_eq!(pair(&loc), names("hardware+single-writer", "loc-wal"));
    assert_eq!(pair(&["--scheme", "sct-epoch", "--json"]), names("sct-epoch", "persist-epoch"));
    assert_eq!(
        pair(&["--scheme", "hardware+locks", "--hardware", "none", "--json"]),
        names("hardware+locks", "none")
    );
}

/// A parameter changes the simulation, and is recorded in the machine's description.
#[test]
fn parameters_of_hardware_are_keys_of_the_machine() {
    let run = |more: &[&str]| {
        let flags = ["--machine", "loc", "--hardware", "loc-wal", "--json"];
        json(&short(&[&flags, more].concat()))["result"].clone()
    };
    let windows = |result: &Value| {
        let counts = result["statistics"]["scheme"].as_array().unwrap();
        counts.iter().find(|count| count[0] == "windows").unwrap()[1].as_u64().unwrap()
    };
    let (paper, four) = (run(&[]), run(&["--set", "scheme.speculation=4"]));
    assert!(paper["machine"].get("scheme").is_none(), "only what is said");
    assert_eq!(four["machine"]["scheme"]["speculation"], 4);
    assert!(windows(&four) > 2 * windows(&paper), "{} {}", windows(&four), windows(&paper));
    let listed = json(&["list", "loc-wal", "--json"])["found"][0].clone();
    assert_eq!(listed["parameters"][0]["name"], "speculation");
    assert_eq!(
        (&listed["parameters"][0]["default"], &listed["parameters"][0]["most"]),
        (&16.into(), &64.into())
    );
    let text = String::from_utf8(strandline(&["list", "loc-wal"]).stdout).unwrap();
    assert!(text.contains("2 to 64 transactions") && text.contains("tx-count"), "{text}");
    assert_eq!(strandline(&["list", "magic"]).status.code(), Some(2));
    // Software that keeps logs has one parameter, other software none.
    let parameters = |name: &str| json(&["list", name, "--json"])["found"][0]["parameters"].clone();
    assert_eq!(
        (&parameters("bppm")[0]["name"], &parameters("bppm")[0]["default"]),
        (&"log-size".into(), &1_048_576.into())
    );
    assert_eq!(parameters("volatile"), Value::Array(Vec::new()));
}

/// A note says what the run is too short for, and disappears when the run is long enough.
#[test]
fn a_run_that_is_too_short_says_so() {
    let notes = |flags: &[&str]| {
        let notes = json(flags)["notes"].clone();
        notes
            .as_array()
            .unwrap()
            .iter()
            .map(|note| note.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
            .join("; ")
    };
    let default = notes(&short(&["--json"]));
    assert!(default.contains("persisted in bulk") && default.contains("65536"), "{default}");
    let long = ["simulate", "--workload", "sps", "--transactions", "2000", "--log-size=16K", "--json"];
    assert_eq!(notes(&long), "");
    let loc = ["--machine", "loc", "--hardware", "loc-wal", "--set", "scheme.speculation=64", "--json"];
    let few = notes(
        &["simulate", "--workload", "rbtree", "--transactions", "20", "--warm-up", "0"]
            .iter()
            .chain(&loc)
            .copied()
            .collect::<Vec<_>>(),
    );
    assert!(few.contains("64 transactions") && few.contains("log head"), "{few}");
    assert_eq!(
        notes(&["simulate", "--workload", "rbtree", "--scheme", "base", "--transactions", "20", "--json"]),
        ""
    );
}

/// A percentage of the run falls among the transactions, whatever the machine and the scheme.
#[test]
fn power_fails_at_a_share_of_the_run() {
    for more in [&[][..], &["--machine", "loc", "--hardware", "h-wal"]] {
        let object = json(&short(&[more, &["--crash-at", "25%,50%,75%", "--json"]].concat()));
        let crashes = object["crashes"].as_array().unwrap();
        let acknowledged: Vec<_> =
            crashes.iter().map(|crash| crash["acknowledged"].as_u64().unwrap()).collect();
        assert!(
            acknowledged[0] > 10 && acknowledged.is_sorted() && acknowledged[2] > acknowledged[0],
            "{acknowledged:?}"
        );
        assert!(acknowledged[2] <= 60);
        let notes = object["notes"].to_string();
        assert!(!notes.contains("power failures"), "{notes}");
        // Power failures do not change the run.
        let without = json(&short(&[more, &["--json"]].concat()));
        assert_eq!(object["result"], without["result"]);
    }
    let early = json(&short(&["--crash-at", "1", "--json"]))["notes"].to_string();
    assert!(early.contains("no transaction had entered commit at 1") && early.contains("50%"), "{early}");
}

#[test]
fn tables_show_what_architects_expect() {
    let output = strandline(&short(&["--crash-at", "100000"]));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for part in
        ["per simulated second", "instructions", "stalls", "L3", "forced", "channel", "power failure", "host"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The output fits one screen, unless every bank is requested.
    let lines = |more: &[&str]| {
        let text =
            String::from_utf8(strandline(&short(&[&["--machine", "atom"], more].concat())).stdout).unwrap();
        (text.lines().count(), text.contains("cycles/read waited"))
    };
    let ((short, without), (long, with)) = (lines(&[]), lines(&["--banks"]));
    assert!(short < 50 && !without && with && long > short + 100, "{short} {long}");
}

#[test]
fn what_recovery_finds_is_told() {
    let object = json(&short(&["--machine", "loc", "--crash-at", "1,100000000000", "--json"]));
    let crashes = object["crashes"].as_array().unwrap();
    // The second failure is after the end of the run.
    assert_eq!(crashes.len(), 1, "{crashes:?}");
    assert_eq!(crashes[0]["acknowledged"], 0);
    assert_eq!(crashes[0]["recovered"]["committed"], 0);
    // The failures are spread over the transactions, which begin when the structure has been filled; some are after the end.
    let cycles: Vec<String> = (1..40).map(|i| (i * 250_000).to_string()).collect();
    let cycles = cycles.join(",");
    let object = json(&short(&["--machine", "loc", "--crash-at", &cycles, "--json"]));
    let crashes = object["crashes"].as_array().unwrap();
    // The logs are large enough to hold every transaction.
    for crash in crashes {
        let count = |value: &Value| value.as_u64().unwrap();
        let committed = count(&crash["recovered"]["committed"]);
        assert!(committed >= count(&crash["acknowledged"]), "{crash}");
        assert!(committed <= count(&crash["entered_commit"]), "{crash}");
    }
    assert!(crashes.iter().any(|crash| crash["acknowledged"].as_u64() > Some(0)), "{crashes:?}");
}

#[test]
fn a_trace_of_lackey_runs_on_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let path = path.to_str().unwrap();
    std::fs::write(path, "I  0401,3\n L 1ffefff000,8\n S 1ffefff008,8\n L 20,4\n").unwrap();
    let object = json(&["simulate", "--machine", "atom", "--trace", path, "--json"]);
    assert_eq!(object["result"]["records"], 4);
    assert_eq!(object["result"]["statistics"]["cores"][0]["loads"], 2);
    assert_eq!(object["result"]["machine"]["name"], "atom");
    let text = strandline(&["simulate", "--trace", path]).stdout;
    assert!(String::from_utf8(text).unwrap().contains("4 records, 2 pages"));
    let copy = folder.path().join("copy");
    let copy = copy.to_str().unwrap();
    let nowhere = folder.path().join("no/copy");
    let flags =
        ["simulate", "--machine", "atom", "--set", "cores.instructions_per_access=0", "--json", "--trace"];
    let recorded = json(&[&flags[..], &[path, "--record", copy]].concat());
    let again = json(&[&flags[..], &[copy]].concat());
    let cycles = |object: &Value| object["result"]["statistics"]["cycles"].clone();
    assert_eq!(cycles(&recorded), cycles(&again));
    assert_eq!(
        strandline(&["simulate", "--trace", path, "--record", nowhere.to_str().unwrap()]).status.code(),
        Some(3)
    );
}

/// Runs the C program of the page about machines, whose transactions are marked by valgrind's requests; needs a compiler and valgrind.
#[test]
fn a_program_in_c_marks_its_transactions_for_hardware() {
    let folder = tempfile::tempdir().unwrap();
    let (program, trace) = (folder.path().join("bank"), folder.path().join("trace"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../lab/strandline-sim/traces/bank.c");
    let compiled =
        Command::new("cc").args(["-O2", "-Wall", "-Werror", "-o"]).arg(&program).arg(source).status();
    let is_there = std::path::Path::new("/usr/include/valgrind/valgrind.h").exists();
    match compiled {
        Ok(status) if is_there => assert!(status.success()),
        _ => return eprintln!("not tested: this needs a C compiler and valgrind with its headers"),
    }
    let log = format!("--log-file={}", trace.display());
    let traced = Command::new("valgrind")
        .args(["--tool=lackey", "--trace-mem=yes", &log])
        .arg(&program)
        .arg("50")
        .output()
        .unwrap();
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    let run = |machine: &str, hardware: &str| {
        let flags =
            ["--machine", machine, "--hardware", hardware, "--trace", trace.to_str().unwrap(), "--json"];
        json(&[&["simulate"], &flags[..]].concat())["result"].clone()
    };
    let (none, loc, atom) = (run("loc", "none"), run("loc", "loc-wal"), run("atom", "atom"));
    for result in [&none, &loc, &atom] {
        assert_eq!(result["transactions"], 50);
    }
    let count = |result: &Value, name: &str| {
        let counts = result["statistics"]["scheme"].as_array().unwrap();
        counts.iter().find(|count| count[0] == name).unwrap()[1].as_u64().unwrap()
    };
    // Each transaction changes two accounts, which may be the same.
    assert!((90..=100).contains(&count(&loc, "blocks")), "{}", loc["statistics"]["scheme"]);
    assert!(loc["statistics"]["cycles"].as_u64() > none["statistics"]["cycles"].as_u64());
}

#[test]
fn wrong_inputs_are_refused_with_code_2_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let syntax = file("syntax.toml", "[cores\n");
    let unknown = file("unknown.toml", "inherits = \"loc\"\n[nvm]\nlatency = 3\n");
    let circle = file("circle.toml", "inherits = \"circle.toml\"\n");
    let trace = file("trace", " L 10,8\n L ten,8\n");
    let cases: [(&[&str], &[&str]); 27] = [
        (&["--machine", "vax"], &["\"vax\"", "loc, atom, wrap", ".toml"]),
        (&["--machine", "nowhere.toml"], &["nowhere.toml", "cannot read"]),
        (&["--machine", &syntax], &["syntax.toml", "line 1"]),
        (&["--machine", &unknown], &["nvm.latency", "read_ns"]),
        (&["--machine", &circle], &["cannot inherit from itself"]),
        (&["--set", "cores.count=65"], &["cores.count = 65", "1 to 64"]),
        (&["--set", "cores.cuont=1"], &["cores.cuont", "`count`"]),
        (&["--set", "cache.L1.bytes=1000"], &["cache[0].bytes = 1000", "power of two"]),
        (&["--set", "persistence.domain=paper"], &["persistence.domain", "`media`"]),
        (&["--set", "nothing"], &["KEY=VALUE"]),
        (&["--machine", "xeon-e5645", "--threads", "5"], &["4 cores", "cores.count"]),
        (&["--scheme", "magic"], &["\"magic\"", "bppm"]),
        (&["--hardware", "magic"], &["\"magic\"", "none"]),
        (&["--hardware", "loc-wal", "--scheme", "bppm"], &["makes no sense", "hardware+single-writer"]),
        (&["--scheme", "plain"], &["--hardware", "wrap"]),
        (&["--hardware", "loc-wal", "--machine", "atom"], &["loc-wal", "the machine atom", "has 32"]),
        (
            &["--machine", "loc", "--hardware", "loc-wal", "--set", "scheme.speculation=1"],
            &["= 1", "2 to 64 transactions"],
        ),
        (
            &["--machine", "loc", "--hardware", "loc-wal", "--set", "scheme.degree=4"],
            &["scheme.degree", "speculation"],
        ),
        (&["--set", "scheme.speculation=4"], &["none", "no parameters"]),
        (
            &["--machine", "loc", "--hardware", "loc-wal", "--set", "scheme.speculation=four"],
            &["scheme.speculation", "u64"],
        ),
        (&["--crash-at", "101%"], &["--crash-at", "50%"]),
        (&["--workload", "magic"], &["\"magic\"", "rbtree"]),
        (&["--log-size", "5000"], &["log"]),
        (&["--crash-at", "soon"], &["--crash-at"]),
        (&["--trace", &trace], &["trace:2:", "ADDRESS,SIZE"]),
        (&["--trace", "nowhere"], &["cannot read", "nowhere"]),
        (&["--trace", &trace, "--threads", "2"], &["--trace", "--threads"]),
    ];
    for (flags, parts) in cases {
        let output = strandline(&[&["simulate"], flags].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {error}");
        assert!(output.stdout.is_empty());
        for part in parts {
            assert!(error.contains(part), "{flags:?}: {part}: {error}");
        }
    }
}

#[test]
fn list_shows_every_machine_with_its_source() {
    let machines = json(&["list", "--json"])["machines"].clone();
    let machines = machines.as_array().unwrap();
    for name in ["loc", "atom", "wrap", "opteron", "xeon-e5645", "gem5-nvm", "pcm"] {
        let machine = machines.iter().find(|machine| machine["name"] == name);
        let machine = machine.unwrap_or_else(|| panic!("{name} is missing"));
        assert!(!machine["source"].as_str().unwrap().is_empty() && !machine["description"].is_null());
    }
}
