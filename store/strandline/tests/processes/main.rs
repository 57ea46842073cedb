//! Tests that start processes. They are a program apart from the other tests: a process that is being started has for a moment all open files of its
//! parent, and with them the locks of pools, which the other tests close and immediately open again.

mod examples;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod file_systems;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod files;
mod fork;
mod full;
#[cfg(target_os = "linux")]
mod full_disks;
mod golden;
mod limits;
mod migration;
#[cfg(target_os = "linux")]
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "the tests with traced processes are left out")
)]
mod mounted;
mod stray_write;
