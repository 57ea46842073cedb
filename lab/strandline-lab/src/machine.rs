//! The machine on which a run was made, and the version of the code.

use std::process::Command;

use strandline_core::memory::WriteBackInstruction;

/// The system's description of itself; unknown parts are empty.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Machine {
    /// The processor's name in `/proc/cpuinfo`.
    pub processor: String,
    /// Processors that threads can run on.
    pub cores: usize,
    /// Data and unified caches, as "L1 32K".
    pub caches: Vec<String>,
    /// Main memory in MB.
    pub memory_mb: u64,
    /// The write-back instructions that it has.
    pub instructions: Vec<&'static str>,
    /// The operating system's kernel and its release.
    pub kernel: String,
    /// Processes that were running or waiting to run, averaged over a minute, when the run began.
    pub load: f64,
}

impl Machine {
    /// Describes this machine.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| -> String {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':'))
                .map(|(_, value)| value.trim().into())
                .unwrap_or_default()
        };
        let caches = (0..8)
            .filter_map(|index| {
                let of = |name| read(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}"));
                let (level, size, kind) = (of("level"), of("size"), of("type"));
                let data = !size.is_empty() && kind.trim() != "Instruction";
                data.then(|| format!("L{} {}", level.trim(), size.trim()))
            })
            .collect();
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kilobytes: u64 = memory.split(' ').next().and_then(|kb| kb.parse().ok()).unwrap_or(0);
        let load = read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            caches,
            memory_mb: kilobytes >> 10,
            instructions: WriteBackInstruction::ALL
                .into_iter()
                .filter(|instruction| instruction.is_supported())
                .map(WriteBackInstruction::name)
                .collect(),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            load,
        }
    }
}

/// Returns the commit of the sources, with "-dirty" if they have been changed since; `None` outside a checkout.
pub fn commit() -> Option<String> {
    let output = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--abbrev=40"])
        .args(["--exclude", "*"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().into())
}

/// Returns the time of day as the system prints it (UTC).
pub fn now() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]).output();
    output.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default().trim().into()
}
