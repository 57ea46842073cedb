//! Runs programs, each in its own process and with a time limit.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The number of bytes of a program's output that are reported.
const TOLD: u64 = 600;

/// The files of the processes.
pub(super) struct Place {
    /// The pool's file.
    pub pool: PathBuf,
    /// The file that recorders write.
    pub recording: PathBuf,
    /// The file with the programs' output.
    pub said: PathBuf,
    /// The recorder.
    pub recorder: PathBuf,
    pub only_marked: bool,
    /// How long each program may take.
    pub limit: Duration,
}

/// The parts of a program's run to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    No,
    /// Its operations.
    Operations,
    /// Its operations and their places in the program.
    WithPlaces,
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Success,
    Code(i32),
    Signal(i32),
    TimedOut(Duration),
}

/// How a program ended, and the end of its output.
pub(super) struct Ended {
    pub end: End,
    pub said: String,
}

impl Ended {
    /// Checks that the program ended successfully.
    ///
    /// # Errors
    /// Returns what went wrong, as the end of a sentence.
    pub fn check(&self) -> Result<(), String> {
        let how = match self.end {
            End::Success => return Ok(()),
            End::Code(code) => format!("ends with exit code {code}"),
            End::Signal(signal) => format!("is ended by {}", name(signal)),
            End::TimedOut(limit) => format!("has not ended after {} s, its time limit", limit.as_secs_f64()),
        };
        Err(if self.said.is_empty() { how } else { format!("{how}: {}", self.said) })
    }
}

/// Returns the name of a signal.
fn name(signal: i32) -> String {
    match signal {
        4 => "signal 4 (SIGILL, an instruction that the processor does not have)".to_owned(),
        6 => "signal 6 (SIGABRT, a failed assertion or abort)".to_owned(),
        7 => "signal 7 (SIGBUS, an access behind the end of a file)".to_owned(),
        8 => "signal 8 (SIGFPE, a division by zero)".to_owned(),
        11 => "signal 11 (SIGSEGV, an access to memory that is not there)".to_owned(),
        other => format!("signal {other}"),
    }
}

impl Place {
    /// Returns the command with the recorder if `recorded` requires it, and the file for its output. The pool's path replaces `{pool}` in its
    /// arguments.
    ///
    /// # Errors
    /// Returns an error if the command is empty, or if the file cannot be created.
    pub fn command(&self, command: &[OsString], recorded: Recorded) -> Result<(Command, File), String> {
        let failed = |error| self.cannot_run(command, error);
        let Some((program, arguments)) = command.split_first() else {
            return Err("a command is empty: it needs a program".to_owned());
        };
        let said = File::options().create(true).read(true).append(true).open(&self.said).map_err(failed)?;
        let mut command = Command::new(self.with_pool(program));
        command
            .args(arguments.iter().map(|argument| self.with_pool(argument)))
            .stdin(Stdio::null())
            .stdout(said.try_clone().map_err(failed)?)
            .stderr(said.try_clone().map_err(failed)?);
        // With this variable libpmem treats an ordinary file like persistent memory.
        if std::env::var_os("PMEM_IS_PMEM_FORCE").is_none() {
            command.env("PMEM_IS_PMEM_FORCE", "1");
        }
        if recorded != Recorded::No {
            self.preload(&mut command);
            command.env("STRANDLINE_RECORDING", &self.recording).env("STRANDLINE_POOL", &self.pool);
            if self.only_marked {
                command.env("STRANDLINE_ONLY_MARKED", "1");
            }
            if recorded == Recorded::WithPlaces {
                command.env("STRANDLINE_PLACES", "1");
            }
        }
        Ok((command, said))
    }

    /// Makes the command load the recorder.
    pub fn preload(&self, command: &mut Command) {
        let mut preload = self.recorder.clone().into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        command.env("LD_PRELOAD", preload);
    }

    /// Empties the output and the recording.
    ///
    /// # Errors
    /// Returns an error if a file cannot be emptied.
    pub fn clear(&self, said: &File, recorded: Recorded) -> io::Result<()> {
        said.set_len(0)?;
        if recorded == Recorded::No { Ok(()) } else { File::create(&self.recording).map(drop) }
    }

    /// Returns the reason why a command does not run.
    pub fn cannot_run(&self, command: &[OsString], error: io::Error) -> String {
        let name = command.first().map_or_else(String::new, |name| name.display().to_string());
        format!("cannot run {name}: {error}")
    }

    /// Runs `command` to its end.
    ///
    /// # Errors
    /// Returns an error if it cannot be run.
    pub fn run(
        &self,
        command: &[OsString],
        recorded: Recorded,
        acknowledged: &[u64],
    ) -> Result<Ended, String> {
        self.run_within(self.limit, command, recorded, acknowledged)
    }

    /// Like [`Place::run`], with another time limit.
    ///
    /// # Errors
    /// Returns an error if it cannot be run.
    pub fn run_within(
        &self,
        limit: Duration,
        command: &[OsString],
        recorded: Recorded,
        acknowledged: &[u64],
    ) -> Result<Ended, String> {
        let failed = |error| self.cannot_run(command, error);
        let (mut command, said) = self.command(command, recorded)?;
        self.clear(&said, recorded).map_err(failed)?;
        command.env("STRANDLINE_ACKNOWLEDGED", numbers(acknowledged));
        let mut child = command.spawn().map_err(failed)?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break Some(status);
            }
            let ran = began.elapsed();
            if ran > limit {
                child.kill().and_then(|()| child.wait()).map_err(failed)?;
                break None;
            }
            // Most programs end within a millisecond.
            std::thread::sleep((ran / 8).clamp(Duration::from_micros(20), Duration::from_millis(10)));
        };
        let end = match status {
            None => End::TimedOut(limit),
            Some(status) => match (status.code(), status.signal()) {
                (Some(0), _) => End::Success,
                (Some(code), _) => End::Code(code),
                (None, signal) => End::Signal(signal.unwrap_or(0)),
            },
        };
        Ok(Ended {
            said: if end == End::Success { String::new() } else { tail(&said).map_err(failed)? },
            end,
        })
    }

    fn with_pool(&self, argument: &OsString) -> OsString {
        match argument.to_str() {
            Some(text) if text.contains("{pool}") => {
                let (pool, mut whole) = (self.pool.as_os_str(), OsString::new());
                for (number, part) in text.split("{pool}").enumerate() {
                    if number > 0 {
                        whole.push(pool);
                    }
                    whole.push(part);
                }
                whole
            }
            _ => argument.clone(),
        }
    }

    /// Returns what the last program recorded.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn recording(&self) -> Result<String, String> {
        match std::fs::read(&self.recording) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(format!("cannot read the recording: {error}")),
        }
    }

    /// Returns the contents of the pool's file, which are empty if there is none.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn read_pool(&self) -> Result<Vec<u8>, String> {
        read_if_there(&self.pool)
    }

    /// Removes the pool.
    ///
    /// # Errors
    /// Returns an error if the file cannot be removed.
    pub fn remove_pool(&self) -> Result<(), String> {
        match std::fs::remove_file(&self.pool) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("cannot remove {}: {error}", self.pool.display()))
            }
            _ => Ok(()),
        }
    }

    /// Replaces the contents of the pool's file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write_pool(&self, bytes: &[u8]) -> Result<(), String> {
        // Overwrites the present contents: allocating memory for a new file would take most of the time.
        let file = File::options().create(true).write(true).truncate(false).open(&self.pool);
        let written = file.and_then(|mut file| {
            file.set_len(bytes.len() as u64)?;
            file.write_all(bytes)
        });
        written.map_err(|error| format!("cannot write {}: {error}", self.pool.display()))
    }
}

fn read_if_there(path: &Path) -> Result<Vec<u8>, String> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(|error| format!("cannot read {}: {error}", path.display())),
    }
}

/// Returns the numbers, separated by spaces.
pub(super) fn numbers(acknowledged: &[u64]) -> String {
    acknowledged.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Returns the last lines of the output, as one line.
pub(super) fn tail(mut said: &File) -> io::Result<String> {
    let length = said.metadata()?.len();
    said.seek(SeekFrom::Start(length.saturating_sub(TOLD)))?;
    let mut bytes = Vec::new();
    said.take(TOLD).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Ok(lines[lines.len().saturating_sub(5)..].join("; "))
}
