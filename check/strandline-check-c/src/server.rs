//! Runs a program's `main` many times without loading the program again: the process stops before `main`, and forks a child for each request.
//!
//! Its standard input is a socket. A request is one line: the milliseconds that the child may take, and the acknowledged numbers. The answer is also
//! one line: `code N`, `signal N` or `timeout`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::recording;

/// Larger than the descriptors that programs close in loops.
const DESCRIPTOR: c_int = 901;

type Main = unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
type Start = unsafe extern "C" fn(
    Main,
    c_int,
    *mut *mut c_char,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    *mut c_void,
) -> c_int;

static MAIN: AtomicUsize = AtomicUsize::new(0);

/// Starts the program like the C library's function of this name, with a `main` that serves requests first.
///
/// # Safety
/// Only the C library's code that starts a program may call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_start_main(
    main: Main,
    count: c_int,
    arguments: *mut *mut c_char,
    begin: *mut c_void,
    end: *mut c_void,
    end_of_loader: *mut c_void,
    stack: *mut c_void,
) -> c_int {
    MAIN.store(main as usize, Relaxed);
    // SAFETY: the C library's function of this name has this type, and gets the caller's arguments.
    unsafe {
        let start = libc::dlsym(libc::RTLD_NEXT, c"__libc_start_main".as_ptr());
        let start: Start = std::mem::transmute(start);
        start(first, count, arguments, begin, end, end_of_loader, stack)
    }
}

/// Serves requests if the checker asks for it, then runs the program's own `main`.
unsafe extern "C" fn first(count: c_int, arguments: *mut *mut c_char, variables: *mut *mut c_char) -> c_int {
    if recording::variable(c"STRANDLINE_SERVER").is_some() {
        serve();
    }
    // SAFETY: `main` and its arguments are those given to `__libc_start_main`. It is called once in this process, as the C library would.
    unsafe {
        let main: Main = std::mem::transmute(MAIN.load(Relaxed));
        main(count, arguments, variables)
    }
}

/// Answers requests until the checker closes the socket. Returns in each child.
fn serve() {
    // SAFETY: this process owns the descriptors, and no other thread runs before `main`.
    let socket = unsafe {
        libc::unsetenv(c"STRANDLINE_SERVER".as_ptr());
        let own = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) as c_int;
        if own < 0 {
            // Before Linux 5.3 the process cannot wait for a child with a time limit. `main` runs, and the checker notices that there is no server.
            return;
        }
        libc::close(own);
        let socket = libc::fcntl(0, libc::F_DUPFD_CLOEXEC, DESCRIPTOR);
        libc::close(0);
        libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY);
        socket
    };
    answer(socket, "ready\n");
    loop {
        let request = request(socket);
        let (limit, acknowledged) = request.split_once(' ').unwrap_or((&request, ""));
        let Ok(limit) = limit.parse() else {
            // SAFETY: ends the process; the checker has closed the socket.
            unsafe { libc::_exit(0) }
        };
        let acknowledged = CString::new(acknowledged).unwrap_or_default();
        // SAFETY: no other thread runs before `main`, so the child has a complete copy of this process.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: both are strings, and this process owns the descriptor.
            unsafe {
                libc::close(socket);
                libc::setenv(c"STRANDLINE_ACKNOWLEDGED".as_ptr(), acknowledged.as_ptr(), 1);
            }
            return;
        }
        answer(socket, &end_of(child, limit));
    }
}

/// Reads a line, without its end. Returns an empty string when the checker has closed the socket.
fn request(socket: c_int) -> String {
    let mut line = Vec::new();
    let mut byte = 0u8;
    // SAFETY: the buffer has room for one byte.
    while unsafe { libc::read(socket, (&raw mut byte).cast(), 1) } == 1 && byte != b'\n' {
        line.push(byte);
    }
    String::from_utf8(line).unwrap_or_default()
}

fn answer(socket: c_int, text: &str) {
    // SAFETY: `text` has these bytes.
    unsafe { libc::send(socket, text.as_ptr().cast(), text.len(), libc::MSG_NOSIGNAL) };
}

/// Waits for a child, for at most `limit` milliseconds.
fn end_of(child: c_int, limit: c_int) -> String {
    let mut status = 0;
    // SAFETY: this process owns the child, and the pointers have room for the results.
    unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, child, 0) as c_int;
        let mut waited = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        let has_ended = libc::poll(&mut waited, 1, limit) != 0;
        libc::close(descriptor);
        if !has_ended {
            libc::kill(child, libc::SIGKILL);
        }
        libc::waitpid(child, &mut status, 0);
        if !has_ended {
            return "timeout\n".to_owned();
        }
    }
    match libc::WIFEXITED(status) {
        true => format!("code {}\n", libc::WEXITSTATUS(status)),
        false => format!("signal {}\n", libc::WTERMSIG(status)),
    }
}
