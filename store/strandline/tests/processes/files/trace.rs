//! A process that is stopped at each of its system calls, with ptrace.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::child;

/// A system call that is about to run, or has run.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub thread: Pid,
    pub number: i64,
    pub arguments: [u64; 6],
}

/// The place where a process was stopped.
pub enum Stop {
    /// Before a system call.
    Entry(Call),
    /// After a system call, with its result.
    Exit(Call, i64),
    /// The process is gone.
    Ended,
}

/// A traced process. It is killed when it is dropped.
pub struct Traced {
    child: Child,
    memory: File,
    threads: HashSet<Pid>,
    /// The thread that was last reported as stopped.
    stopped: Option<Pid>,
    /// The thread whose system call must end before any other thread continues.
    alone: Option<Pid>,
    /// The system calls that threads are in.
    running: HashMap<Pid, Call>,
    /// The errors that running calls are going to return.
    failing: HashMap<Pid, i32>,
    ended: bool,
    /// The exit status; `None` if the process still runs or a signal ended it.
    status: Option<i32>,
}

/// Returns whether `number` changes files, or is a mark. Such calls run one at a time, so that their order is known.
pub fn changes_files(number: i64) -> bool {
    [
        libc::SYS_open,
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_creat,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        libc::SYS_pwritev2,
        libc::SYS_fallocate,
        libc::SYS_ftruncate,
        libc::SYS_truncate,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_msync,
        libc::SYS_sync,
        libc::SYS_syncfs,
        libc::SYS_rename,
        libc::SYS_renameat,
        libc::SYS_renameat2,
        libc::SYS_link,
        libc::SYS_linkat,
        libc::SYS_unlink,
        libc::SYS_unlinkat,
        libc::SYS_symlink,
        libc::SYS_symlinkat,
        libc::SYS_mkdir,
        libc::SYS_mkdirat,
        libc::SYS_mmap,
        libc::SYS_copy_file_range,
        libc::SYS_sendfile,
        libc::SYS_splice,
        libc::SYS_io_uring_setup,
    ]
    .contains(&number)
}

/// Returns whether other processes may notice this call, or the process may notice them by it.
pub fn concerns_others(number: i64) -> bool {
    let own = [
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mprotect,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_brk,
        libc::SYS_futex,
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_exit,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_sigaltstack,
        libc::SYS_set_robust_list,
        libc::SYS_rseq,
        libc::SYS_getrandom,
        libc::SYS_getrusage,
        libc::SYS_prctl,
        libc::SYS_gettid,
        libc::SYS_getpid,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_clock_nanosleep,
    ];
    !own.contains(&number)
}

impl Traced {
    /// Starts a process in `folder` that runs `script`. The process is stopped, and continues with [`Traced::next`].
    pub fn start(folder: &Path, script: &str) -> Self {
        Self::start_command(child::command(folder), script)
    }

    /// Starts this command, which gets `script` line by line.
    pub fn start_command(mut command: Command, script: &str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec, the closure makes only a system call.
        unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
        let mut child = command.spawn().expect("a process that ptrace may stop (a container must allow it)");
        let main = Pid::from_raw(child.id() as i32);
        // The process is stopped at its exec.
        let status = waitpid(main, Some(WaitPidFlag::__WALL)).unwrap();
        assert!(matches!(status, WaitStatus::Stopped(..)), "{status:?}");
        let options =
            Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
        ptrace::setoptions(main, options).unwrap();
        let lines: String = script.split(';').map(|line| format!("{}\n", line.trim())).collect();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let memory = File::open(format!("/proc/{main}/mem")).unwrap();
        Self {
            child,
            memory,
            threads: HashSet::from([main]),
            stopped: Some(main),
            alone: None,
            running: HashMap::new(),
            failing: HashMap::new(),
            ended: false,
            status: None,
        }
    }

    fn main(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Continues the stopped thread, and waits until any thread stops.
    pub fn next(&mut self) -> Stop {
        if let Some(thread) = self.stopped.take() {
            // The thread may have been killed.
            let _ = ptrace::syscall(thread, None);
        }
        loop {
            let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
            // If one thread must run alone, the others stay stopped.
            let status = waitpid(self.alone.unwrap_or(Pid::from_raw(-1)), Some(flags)).unwrap();
            match status {
                WaitStatus::PtraceSyscall(thread) => {
                    let Ok(info) = ptrace::syscall_info(thread) else { continue };
                    self.stopped = Some(thread);
                    if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
                        // SAFETY: at an entry the kernel has filled in this member.
                        let entry = unsafe { info.u.entry };
                        let call = Call { thread, number: entry.nr as i64, arguments: entry.args };
                        self.alone = changes_files(call.number).then_some(thread);
                        self.running.insert(thread, call);
                        return Stop::Entry(call);
                    }
                    if let Some(call) = self.running.remove(&thread) {
                        self.alone = None;
                        // SAFETY: at an exit the kernel has filled in this member.
                        let result = unsafe { info.u.exit }.sval;
                        let Some(error) = self.failing.remove(&thread) else {
                            return Stop::Exit(call, result);
                        };
                        Self::change_registers(thread, |registers| registers.rax = -i64::from(error) as u64);
                        return Stop::Exit(call, -i64::from(error));
                    }
                    self.stopped = None;
                    let _ = ptrace::syscall(thread, None);
                }
                WaitStatus::PtraceEvent(thread, ..) => {
                    let _ = ptrace::syscall(thread, None);
                }
                WaitStatus::Stopped(thread, signal) => {
                    // A new thread stops before its first instruction.
                    let is_new = self.threads.insert(thread);
                    let _ = ptrace::syscall(thread, (!is_new).then_some(signal));
                }
                WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, ..) => {
                    if let WaitStatus::Exited(thread, status) = status
                        && thread == self.main()
                    {
                        self.status = Some(status);
                    }
                    self.threads.remove(&thread);
                    self.running.remove(&thread);
                    self.alone = self.alone.filter(|&alone| alone != thread);
                    if thread == self.main() {
                        self.ended = true;
                        return Stop::Ended;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn change_registers(thread: Pid, change: impl FnOnce(&mut libc::user_regs_struct)) {
        // The thread may have been killed.
        if let Ok(mut registers) = ptrace::getregs(thread) {
            change(&mut registers);
            let _ = ptrace::setregs(thread, registers);
        }
    }

    /// Makes the call at whose entry its thread is stopped return this error, whether or not the system runs it.
    pub fn fail(&mut self, call: &Call, error: i32, runs: bool) {
        if !runs {
            // This call does not exist.
            Self::change_registers(call.thread, |registers| registers.orig_rax = u64::MAX);
        }
        self.failing.insert(call.thread, error);
    }

    /// Kills the process where it is stopped, and waits for its end.
    pub fn kill(&mut self) {
        if self.ended {
            return;
        }
        let _ = kill(self.main(), Signal::SIGKILL);
        self.stopped = None;
        self.alone = None;
        while !matches!(self.next(), Stop::Ended) {}
    }

    /// Reads bytes of the process's memory.
    pub fn read(&self, address: u64, bytes: u64) -> Vec<u8> {
        let mut all = vec![0; bytes as usize];
        self.memory.read_exact_at(&mut all, address).unwrap();
        all
    }

    /// Reads a string of the process's memory that ends with a zero.
    pub fn read_text(&self, address: u64) -> String {
        let mut text = Vec::new();
        // Reads up to the next page, which may not be mapped.
        let mut at = address;
        loop {
            let piece = self.read(at, 4096 - at % 4096);
            if let Some(end) = piece.iter().position(|&byte| byte == 0) {
                text.extend(&piece[..end]);
                return String::from_utf8(text).unwrap();
            }
            at += piece.len() as u64;
            text.extend(piece);
        }
    }

    /// Returns the mark that this call writes, if it does.
    pub fn mark(&self, call: &Call) -> Option<String> {
        let is_mark = call.number == libc::SYS_write && call.arguments[0] == 2;
        is_mark.then(|| {
            String::from_utf8_lossy(&self.read(call.arguments[1], call.arguments[2])).trim_end().into()
        })
    }

    /// Returns the exit status, or `None` if the process still runs or a signal has ended it.
    pub fn status(&self) -> Option<i32> {
        self.status
    }

    /// Returns a path at which this process finds the file behind a descriptor of the traced process.
    pub fn descriptor(&self, descriptor: u64) -> String {
        format!("/proc/{}/fd/{}", self.id(), descriptor as i32)
    }

    /// Returns the process's identifier, for paths in `/proc`.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.kill();
    }
}
