//! The names that a shell offers as arguments, from the command's registry.

use clap::Command;
use clap::builder::ArgExt;
use strandline_check::Setting;
use strandline_command::completion::{Names, names, names_and_files};
use strandline_lab::PAPERS;
use strandline_scheme_check::explore::{Workload, schemes_of};
use strandline_scheme_check::machine::subjects;
use strandline_sim::{Registry, file};
use strandline_workloads::{REFERENCES, SchemeName, System, schemes};

use crate::torture;

/// Makes the command's arguments offer the names in `registry`.
pub fn offered(command: Command, registry: Registry) -> Command {
    let all = move || [software(registry), hardware(registry)].concat();
    let measured =
        || System::all().filter(|system| system.is_native()).map(|system| plain(system.name())).collect();
    let command = offer(command, "simulate", "machine", names_and_files(machines, "toml"));
    let command = offer(command, "simulate", "scheme", names(all));
    let command = offer(command, "simulate", "hardware", names(move || hardware(registry)));
    let command = offer(command, "simulate", "workload", names(move || workloads(registry)));
    let command = offer(command, "bench", "scheme", names(measured));
    let command = offer(command, "bench", "workload", names(move || workloads(registry)));
    let command = offer(command, "check", "scheme", names(move || checked(registry)));
    let command = offer(command, "check", "workload", names(move || checked_workloads(registry)));
    let command =
        offer(command, "check", "setting", names(|| Setting::ALL.map(|one| plain(one.name())).into()));
    let command = offer(command, "torture", "scheme", names(tortured));
    let command = offer(command, "list", "name", names(move || everything(registry)));
    let command = offer(command, "reproduce", "papers", names(papers));
    let command = offer(command, "reproduce", "claims", names(claims));
    let command = offer(command, "reproduce", "series", names(figures));
    let or_none = || [machines(), vec![("native".into(), "this processor alone".into())]].concat();
    offer(command, "reproduce", "machine", names_and_files(or_none, "toml"))
}

/// Makes an argument of a subcommand offer values.
fn offer(
    command: Command,
    subcommand: &'static str,
    argument: &'static str,
    values: impl ArgExt + Clone + Send + Sync + 'static + std::fmt::Debug,
) -> Command {
    command.mut_subcommand(subcommand, |command| command.mut_arg(argument, |argument| argument.add(values)))
}

/// Returns a name without a description.
fn plain(name: &str) -> (String, String) {
    (name.to_owned(), String::new())
}

fn machines() -> Names {
    let presets = file::presets().unwrap_or_default();
    presets.into_iter().map(|machine| (machine.name, machine.description)).collect()
}

fn software(registry: Registry) -> Names {
    schemes(registry.schemes).into_iter().map(|of| (of.name.into(), of.description.into())).collect()
}

fn hardware(registry: Registry) -> Names {
    registry.hardware.iter().map(|of| (of.name.to_owned(), of.description.to_owned())).collect()
}

fn workloads(registry: Registry) -> Names {
    let described = registry.workloads.iter().map(|kind| kind.entry());
    described.map(|of| (of.name.to_owned(), of.description.to_owned())).collect()
}

/// Returns the schemes of all worlds.
fn checked(registry: Registry) -> Names {
    let software = schemes_of(registry.schemes).into_iter().map(|scheme| plain(scheme.name));
    let on_machine = subjects(registry).into_iter().map(|subject| plain(&subject.name()));
    let hardware =
        registry.hardware.iter().filter(|entry| entry.make.is_some()).map(|entry| plain(entry.name));
    let mut all: Names = software.chain(on_machine).chain(hardware).collect();
    all.sort();
    all.dedup();
    all
}

fn checked_workloads(registry: Registry) -> Names {
    Workload::all_of(registry.workloads).map(|workload| plain(workload.name())).collect()
}

fn tortured() -> Names {
    let can_be = |scheme: &SchemeName| torture::scheme(scheme.name()).is_ok();
    SchemeName::all().filter(can_be).map(|scheme| plain(scheme.name())).collect()
}

/// Returns the names that `list` prints.
fn everything(registry: Registry) -> Names {
    let references = REFERENCES.iter().map(|of| (of.name.to_owned(), of.description.to_owned())).collect();
    [software(registry), hardware(registry), workloads(registry), machines(), references].concat()
}

fn papers() -> Names {
    let papers = PAPERS.iter().map(|paper| (paper.name.to_owned(), paper.title.to_owned()));
    papers.chain([("all".to_owned(), "the five papers with claims".to_owned())]).collect()
}

fn claims() -> Names {
    let claims = PAPERS.iter().flat_map(|paper| paper.claims.iter().map(|claim| (claim.id, paper.title)));
    claims.map(|(id, title)| (id.to_owned(), title.to_owned())).collect()
}

/// Returns the ids of figures, each followed by a colon for the quantity.
fn figures() -> Names {
    let figures = PAPERS.iter().flat_map(|paper| paper.figures);
    figures.map(|figure| (format!("{}:", figure.id), figure.title.to_owned())).collect()
}
