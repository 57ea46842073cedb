//! Runs the tutorial on a hardware scheme of the reader's own from its page, with the crate that the template creates.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the path of the template's program, which cargo has built beside the tests.
fn program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program = here.parent().unwrap().parent().unwrap().join("examples/hardware-scheme");
    assert!(
        program.exists(),
        "cargo test builds it: {} (cargo build --example hardware-scheme)",
        program.display()
    );
    program
}

/// Returns the commands of the page's `cargo run --release -- …`.
fn commands(page: &str) -> Vec<Vec<&str>> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("$ cargo run --release -- "));
    lines.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn every_command_of_the_tutorial_does_what_the_page_says() {
    let page = std::fs::read_to_string(root().join("docs/tutorial-hardware.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let commands = commands(&page);
    assert!(commands.len() >= 9, "{commands:?}");
    let mut outputs = Vec::new();
    for command in commands {
        let output = Command::new(program()).args(&command).current_dir(folder.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{command:?}: {out}{err}");
        outputs.push((command.join(" "), out, err));
    }
    let of = |part: &str| outputs.iter().find(|(command, ..)| command.contains(part)).unwrap();
    assert!(of("list battery").1.contains("1 to 1048576 lines"), "{}", of("list battery").1);
    let roomy = outputs.iter().find(|(command, ..)| command.ends_with("--transactions 2000")).unwrap();
    assert!(roomy.1.contains("lines drained") && roomy.2.contains("never full"), "{}", roomy.2);
    let tight = outputs.iter().find(|(command, ..)| command.ends_with("scheme.drains=1")).unwrap();
    assert!(!tight.2.contains("never full"), "{}", tight.2);
    assert!(
        page.contains("4 of 4 mutants found") && of("--mutants").1.contains("4 of 4 mutants found"),
        "{}",
        of("--mutants").1
    );
    assert!(of("--crash-at 50%").1.contains("power failure at"));
    let read = |path: &str| std::fs::read_to_string(folder.path().join(path)).unwrap();
    let csv = read("latency/points.csv");
    assert_eq!(csv.lines().count(), 1 + 18, "{csv}");
    assert!(csv.contains("battery") && csv.contains(",400,"));
    // The page of plots is self-contained.
    let html = read("latency/index.html");
    assert!(html.matches("<svg").count() >= 4 && html.contains("nvm.write_ns") && !html.contains("http://"));
    assert_eq!(of("--csv").1, read("buffer/points.csv"));
    // Larger parameters never make it slower, which shows that the parameters reach the scheme.
    let rates: Vec<f64> = read("buffer/points.csv")
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(8).unwrap().parse().unwrap())
        .collect();
    assert!(rates[1] > 1.05 * rates[0], "{rates:?}");
}

/// Everything that the template refers to exists, so that a crate made from it would be complete.
#[test]
fn the_template_names_what_there_is() {
    let folder = root().join("templates/hardware-scheme");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let manifest =
        manifest.replace("{{project-name}}", "mine").replace("{{strandline}}", root().to_str().unwrap());
    assert!(!manifest.contains("{{"), "{manifest}");
    let mut paths = 0;
    for path in manifest.split('"').filter(|text| text.contains("/strandline-")) {
        assert!(Path::new(path).join("Cargo.toml").exists(), "{path}");
        paths += 1;
    }
    assert_eq!(paths, 3);
    let questions = std::fs::read_to_string(folder.join("cargo-generate.toml")).unwrap();
    assert!(questions.contains("placeholders.strandline"));
    let sources =
        ["src/main.rs", "src/scheme.rs"].map(|file| std::fs::read_to_string(folder.join(file)).unwrap());
    assert!(
        sources.iter().all(|source| !source.contains("{{") || !source.contains("}}"))
            || !sources.concat().contains("{{project")
    );
}
