//! Completion in shells. A shell asks the command itself, with the words typed so far in its arguments and `STRANDLINE_COMPLETE` in its
//! environment, so that the command offers the names that this build knows and the files that are there.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use clap::Command;
use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};

use crate::{Failure, Outcome, manual};

/// The environment variable by which a shell asks: the shell's name.
const VARIABLE: &str = "STRANDLINE_COMPLETE";

/// What the file of a pool begins with.
const POOL: [u8; 8] = *b"STRANDLN";

/// Print a shell completion script.
#[derive(clap::Args)]
pub struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Prints the script that makes a shell ask the command `name`, which has to be in the shell's `PATH`.
///
/// # Errors
/// Returns [`Failure::Usage`] for a shell that cannot ask.
pub fn print(arguments: &CompletionsArguments, name: &str) -> Result<Outcome, Failure> {
    let shells = Shells::builtins();
    let shell = arguments.shell.to_string();
    let completer = shells.completer(&shell).ok_or_else(|| {
        Failure::Usage(format!("{shell} cannot complete: use bash, elvish, fish, powershell or zsh"))
    })?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, name, name, name, &mut script).map_err(Failure::io("write"))?;
    say!("{}", String::from_utf8_lossy(&script).trim());
    if arguments.shell == Shell::Zsh {
        // As a file in `fpath` the script is the function that completes for the first time.
        let function = name.replace('-', "_");
        say!("if [ \"$funcstack[1]\" = \"_{name}\" ]; then _clap_dynamic_completer_{function} \"$@\"; fi");
    }
    Ok(Outcome::Success)
}

/// Answers a shell that asks how to complete `arguments`; returns whether one has asked. Call it before anything is printed.
///
/// # Errors
/// Returns an error if the shell is not known or standard output cannot be written.
pub fn answer(
    arguments: &[OsString],
    name: &'static str,
    command: impl Fn() -> Command,
) -> Result<bool, Failure> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(false);
    }
    let folder = std::env::current_dir().ok();
    let complete = CompleteEnv::with_factory(|| manual::shown(name, &command())).var(VARIABLE);
    complete
        .try_complete(arguments.iter().cloned(), folder.as_deref())
        .map_err(|error| Failure::Usage(error.to_string()))
}

/// Names that an argument can be, each with a description.
pub type Names = Vec<(String, String)>;

/// Offers these names for a value.
pub fn names(names: impl Fn() -> Names + Send + Sync + 'static) -> ArgValueCandidates {
    ArgValueCandidates::new(move || names().into_iter().map(candidate).collect::<Vec<_>>())
}

/// Offers these names for a value, and files that end in `.` and `extension`.
pub fn names_and_files(
    names: impl Fn() -> Names + Send + Sync + 'static,
    extension: &'static str,
) -> ArgValueCompleter {
    let has_extension = move |path: &Path| path.extension() == Some(OsStr::new(extension));
    ArgValueCompleter::new(move |typed: &OsStr| {
        let begins = |(name, _): &(String, String)| name.starts_with(&*typed.to_string_lossy());
        let named = names().into_iter().filter(begins).map(candidate);
        named.chain(PathCompleter::any().filter(has_extension).complete(typed)).collect::<Vec<_>>()
    })
}

/// Offers folders and the files of pools.
pub fn pools() -> ArgValueCompleter {
    ArgValueCompleter::new(PathCompleter::any().filter(is_pool))
}

fn candidate((name, description): (String, String)) -> CompletionCandidate {
    let help = Some(description).filter(|text| !text.is_empty());
    CompletionCandidate::new(name).help(help.map(Into::into))
}

/// Returns whether the file at `path` begins as a pool does.
fn is_pool(path: &Path) -> bool {
    let mut begin = [0; POOL.len()];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
        && begin == POOL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_told_from_other_files() {
        use strandline_core::{Options, Pool};

        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("pool");
        Pool::create(&pool, &Options::default()).unwrap().close().unwrap();
        std::fs::write(folder.path().join("other"), "STRAND").unwrap();
        assert!(is_pool(&pool));
        assert!(!is_pool(&folder.path().join("other")) && !is_pool(folder.path()));
    }
}
