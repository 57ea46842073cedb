//! Completion in shells. A shell runs the command itself, with the words typed so far as arguments and with `STRANDLINE_COMPLETE` in the environment.
//! The command can thus offer the names that this build knows, and existing files.

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

/// The environment variable that a shell sets to its own name to ask for completions.
const VARIABLE: &str = "STRANDLINE_COMPLETE";

/// The first bytes of a pool's file.
const POOL: [u8; 8] = *b"STRANDLN";

/// Print a shell completion script.
#[derive(clap::Args)]
pub struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Prints a script for a shell, which makes the shell run the command `name` for completions. The command must be in the shell's `PATH`.
///
/// # Errors
/// Returns [`Failure::Usage`] if the shell cannot do so.
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
        // If zsh loads the script from `fpath`, it runs the script itself as the completion function the first time.
        let function = name.replace('-', "_");
        say!("if [ \"$funcstack[1]\" = \"_{name}\" ]; then _clap_dynamic_completer_{function} \"$@\"; fi");
    }
    Ok(Outcome::Success)
}

/// If a shell asks for completions of `arguments`, answers it. Returns whether a shell asked. Call this before the program prints anything.
///
/// # Errors
/// Returns an error if the shell is unknown or standard output cannot be written.
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

/// The possible values of an argument, each with a description.
pub type Names = Vec<(String, String)>;

/// Offers these names as the values of an argument.
pub fn names(names: impl Fn() -> Names + Send + Sync + 'static) -> ArgValueCandidates {
    ArgValueCandidates::new(move || names().into_iter().map(candidate).collect::<Vec<_>>())
}

/// Offers these names as the values of an argument, and files with this extension.
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

/// Returns whether the file at `path` begins as a pool's file does.
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
