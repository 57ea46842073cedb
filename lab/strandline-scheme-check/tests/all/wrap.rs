//! WrAP in software, and the undo log that the paper compares with it: no crash breaks them, and each omitted step is found.

use super::campaigns;
use strandline_check::Setting;
use strandline_core::memory::Step;
use strandline_scheme_check::explore::CheckedScheme;

/// WrAP in software, and the undo logs.
pub fn schemes() -> Vec<CheckedScheme> {
    campaigns::schemes(|name| name.starts_with("wrap") || name.starts_with("undo-log"))
}

#[test]
fn no_sampled_crash_breaks_them() {
    campaigns::none_is_broken(&schemes(), &Setting::ALL, 3);
}

/// The omission of these steps shows quickly; the others take longer (`strandline-lab check --mutants`).
#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn missing_steps_are_found() {
    let slow = [Step::WatermarkFence, Step::WatermarkFenceLate];
    campaigns::missing_steps_are_found(&schemes(), 2, &slow);
}
