//! Asks bash for completions. The tests of each command include this file by its path.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Returns what bash offers in `folder` for the last of `words`. The program at `path` is called by the first word.
pub fn offered(path: &str, folder: &Path, words: &[&str]) -> Vec<String> {
    let path = Path::new(path);
    let script = Command::new(path).args(["completions", "bash"]).output().unwrap();
    assert!(script.status.success(), "{script:?}");
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let name = words[0];
    let script = format!(
        "{script}\nCOMP_WORDS=({words}); COMP_CWORD={last}\n_clap_complete_{function} {name} {typed} {before}\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        script = String::from_utf8(script.stdout).unwrap(),
        words = quoted.join(" "),
        last = words.len() - 1,
        function = name.replace('-', "_"),
        typed = quoted[words.len() - 1],
        before = quoted[words.len() - 2],
    );
    let paths = format!("{}:{}", path.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash")
        .args(["--norc", "-s"])
        .current_dir(folder)
        .env("PATH", paths)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Asserts that all of these are offered.
#[track_caller]
pub fn has(offered: &[String], expected: &[&str]) {
    for name in expected {
        assert!(offered.iter().any(|other| other == name), "{name}: {offered:?}");
    }
}
