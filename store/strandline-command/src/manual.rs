//! Writes manual pages for `man` from the commands' arguments.

use std::path::PathBuf;

use serde_json::json;

use crate::{Failure, Outcome, WIDTH};

/// Write the manual pages of this command and its subcommands into a folder.
#[derive(clap::Args)]
pub struct ManualArguments {
    /// The folder, which is created if it does not exist
    folder: PathBuf,
}

/// Returns the command without its hidden subcommands, which only the command itself starts.
pub(crate) fn shown(name: &'static str, whole: &clap::Command) -> clap::Command {
    let shown = whole.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned();
    let shown: Vec<clap::Command> = shown.collect();
    let about = whole.get_about().cloned().unwrap_or_default();
    let after = whole.get_after_help().cloned().unwrap_or_default();
    let shown = clap::Command::new(name).subcommands(shown);
    shown.version(env!("CARGO_PKG_VERSION")).about(about).after_help(after).max_term_width(WIDTH)
}

/// Writes the manual pages of `command` under the name `name`.
///
/// # Errors
/// Returns an error if the folder cannot be written.
pub fn write(
    ManualArguments { folder }: &ManualArguments,
    name: &'static str,
    command: &clap::Command,
) -> Result<Outcome, Failure> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(shown(name, command), folder))
        .map_err(Failure::io(format!("write manual pages into {}", folder.display())))?;
    Ok(Outcome::Success)
}

/// Returns the flags of a subcommand of `command` as JSON: each flag's name without dashes, its help, and its default.
///
/// # Errors
/// Returns [`Failure::Usage`] if there is no such subcommand.
pub fn parameters(mut command: clap::Command, subcommand: &str) -> Result<serde_json::Value, Failure> {
    for name in subcommand.split(' ') {
        let found = command.find_subcommand(name).cloned();
        command = found.ok_or_else(|| Failure::Usage(format!("there is no subcommand {name:?}")))?;
    }
    let flags = command.get_arguments().filter(|flag| !flag.is_hide_set()).map(|flag| {
        let default: Vec<_> = flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let is_switch = !flag.get_action().takes_values();
        json!({
            "name": flag.get_long().unwrap_or(flag.get_id().as_str()),
            "help": flag.get_help().map(ToString::to_string),
            "default": if is_switch { "".into() } else { default.join(",") },
        })
    });
    Ok(flags.collect())
}
