//! The threads that a pool starts. They are started in one place, so that the pool works without each of them if the system has none left,
//! and so that none ends silently by a panic.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread that runs `body`. If `body` panics, the thread calls `panicked` with the panic's message.
///
/// # Errors
/// Returns an error if the system has no thread left (`RLIMIT_NPROC`, `pids.max`).
pub fn start(
    name: &str,
    body: impl FnOnce() + Send + 'static,
    panicked: impl FnOnce(&io::Error) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.into()).spawn(move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
            panicked(&panic_error(&*panic));
        }
    })
}

/// Starts a thread that ends within `scope`.
///
/// # Errors
/// Returns the errors of [`start`].
pub fn start_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().name("strandline-write".into()).spawn_scoped(scope, body)
}

/// Returns the message of a panic, as the cause of a failure.
pub fn panic_error(panic: &(dyn std::any::Any + Send)) -> io::Error {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    io::Error::other(match text {
        Some(text) => format!("panic: {text}"),
        None => "panic".to_owned(),
    })
}

#[test]
fn a_panic_is_told_with_its_text() {
    use std::sync::mpsc::channel;
    let (tell, told) = channel();
    let thread =
        start("panics", || panic!("number {}", 5), move |error| tell.send(error.to_string()).unwrap());
    thread.unwrap().join().unwrap();
    assert_eq!(told.recv().unwrap(), "panic: number 5");
}
