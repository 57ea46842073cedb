//! `strandline completions` and `strandline manual`: what the command's arguments say, for shells and for `man`.

use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::failure::{Failure, Outcome};

/// Print what makes a shell complete this command's arguments.
#[derive(clap::Args)]
#[command(
    after_help = "Example: strandline completions bash > ~/.local/share/bash-completion/completions/strandline"
)]
pub struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Write the manual pages of this command and its subcommands into a folder.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline manual ~/.local/share/man/man1")]
pub struct ManualArguments {
    /// The folder, which is made if there is none
    folder: PathBuf,
}

/// The command without its children, which nobody starts by hand.
fn command() -> clap::Command {
    let whole = crate::Command::command();
    let shown = whole.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned();
    let shown: Vec<clap::Command> = shown.collect();
    let about = whole.get_about().cloned().unwrap_or_default();
    let after = whole.get_after_help().cloned().unwrap_or_default();
    let shown = clap::Command::new("strandline").subcommands(shown);
    shown.version(env!("CARGO_PKG_VERSION")).about(about).after_help(after)
}

pub fn complete(arguments: &CompletionsArguments) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command(), "strandline", &mut script);
    say!("{}", String::from_utf8_lossy(&script).trim_end());
    Ok(Outcome::Success)
}

pub fn write(ManualArguments { folder }: &ManualArguments) -> Result<Outcome, Failure> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command(), folder))
        .map_err(Failure::io(format!("write manual pages into {}", folder.display())))?;
    Ok(Outcome::Success)
}
