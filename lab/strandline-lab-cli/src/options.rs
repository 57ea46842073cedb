//! The options that workloads take.

use strandline_workloads::{Parameter, WorkloadKind};

/// Returns the flag that sets a workload's parameter.
pub fn option(parameter: Parameter) -> &'static str {
    match parameter {
        Parameter::ValueBytes | Parameter::ValueWords => "--value-size",
        Parameter::Operations => "--ops-per-tx",
        Parameter::ReadShare => "--read-share",
        Parameter::Keys => "--keys",
    }
}

/// Returns a note for each workload that ignores options which were given.
pub fn unused(workloads: &[WorkloadKind], given: &[Parameter]) -> Vec<String> {
    let mut notes = Vec::new();
    for &parameter in given {
        let option = option(parameter);
        let lacks = |kind: &&WorkloadKind| {
            let whole_words =
                parameter == Parameter::ValueBytes && kind.takes.contains(&Parameter::ValueWords);
            !whole_words && !kind.takes.contains(&parameter)
        };
        let names: Vec<_> = workloads.iter().filter(lacks).map(|kind| kind.name).collect();
        if !names.is_empty() {
            notes.push(format!("no use for {option}: {}", names.join(", ")));
        }
    }
    notes
}
