//! Commands that run many times: if the recorder supports it, the program is loaded once, and forks for each run.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use super::process::{End, Ended, Place, Recorded, numbers, tail};

/// How long to wait for an answer after the run's time limit.
const GRACE: Duration = Duration::from_secs(10);

/// A command that runs many times.
pub(super) struct Repeated<'p> {
    place: &'p Place,
    command: &'p [OsString],
    recorded: Recorded,
    server: RefCell<Serving>,
}

enum Serving {
    NotTried,
    /// Each run loads the program again.
    Nobody,
    By(Server),
}

/// A process that waits before its `main`, and forks.
struct Server {
    child: Child,
    answers: BufReader<UnixStream>,
    said: File,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'p> Repeated<'p> {
    /// Creates a command that has not run yet.
    pub fn new(place: &'p Place, command: &'p [OsString], recorded: Recorded) -> Self {
        Self { place, command, recorded, server: RefCell::new(Serving::NotTried) }
    }

    /// Prepares the first run. Must be called before the pool is written, because a program that does not wait before `main` runs immediately.
    ///
    /// # Errors
    /// Returns an error if the program cannot be run.
    pub fn prepare(&self) -> Result<(), String> {
        let mut serving = self.server.borrow_mut();
        if let Serving::NotTried = *serving {
            *serving = Server::start(self)?.map_or(Serving::Nobody, Serving::By);
        }
        Ok(())
    }

    /// Runs the command once, for at most `limit`.
    ///
    /// # Errors
    /// Returns an error if it cannot be run.
    pub fn run(&self, acknowledged: &[u64], limit: Duration) -> Result<Ended, String> {
        match &mut *self.server.borrow_mut() {
            Serving::By(server) => server.run(self, acknowledged, limit),
            _ => self.place.run_within(limit, self.command, self.recorded, acknowledged),
        }
    }

    fn failed(&self) -> impl Fn(std::io::Error) -> String {
        |error| self.place.cannot_run(self.command, error)
    }
}

impl Server {
    /// Starts the program. Returns `None` if it does not wait.
    fn start(repeated: &Repeated<'_>) -> Result<Option<Self>, String> {
        let place = repeated.place;
        let (own, theirs) = UnixStream::pair().map_err(repeated.failed())?;
        own.set_read_timeout(Some(place.limit)).map_err(repeated.failed())?;
        let (mut command, said) = place.command(repeated.command, repeated.recorded)?;
        command.stdin(Stdio::from(OwnedFd::from(theirs))).env("STRANDLINE_SERVER", "1");
        place.preload(&mut command);
        let child = command.spawn().map_err(repeated.failed())?;
        // This also closes this process's copy of the child's socket.
        drop(command);
        let mut server = Self { child, answers: BufReader::new(own), said };
        let is_ready = server.answer().is_some_and(|line| line == "ready");
        if is_ready {
            server
                .answers
                .get_ref()
                .set_read_timeout(Some(place.limit + GRACE))
                .map_err(repeated.failed())?;
        }
        Ok(is_ready.then_some(server))
    }

    /// Reads a line.
    fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        line.pop().map(|_| line)
    }

    fn run(
        &mut self,
        repeated: &Repeated<'_>,
        acknowledged: &[u64],
        limit: Duration,
    ) -> Result<Ended, String> {
        let place = repeated.place;
        place.clear(&self.said, repeated.recorded).map_err(repeated.failed())?;
        let request = format!("{} {}\n", limit.as_millis(), numbers(acknowledged));
        let asked = self.answers.get_mut().write_all(request.as_bytes());
        let end = asked.ok().and_then(|()| self.answer()).and_then(|line| {
            let (how, number) = line.split_once(' ').unwrap_or((&line, "0"));
            let number = number.parse().ok()?;
            match how {
                "code" if number == 0 => Some(End::Success),
                "code" => Some(End::Code(number)),
                "signal" => Some(End::Signal(number)),
                "timeout" => Some(End::TimedOut(limit)),
                _ => None,
            }
        });
        let end =
            end.ok_or_else(|| repeated.failed()(std::io::Error::other("it does not answer any more")))?;
        let said =
            if end == End::Success { String::new() } else { tail(&self.said).map_err(repeated.failed())? };
        Ok(Ended { end, said })
    }
}
