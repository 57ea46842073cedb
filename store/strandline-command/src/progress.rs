//! Progress: a bar on a terminal, and off it lines on standard error, one in ten seconds at most.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

/// Whether nobody wants to see any.
static IS_HIDDEN: AtomicBool = AtomicBool::new(false);

/// Shows no progress from now on: in a program that is not the command.
pub fn hide() {
    IS_HIDDEN.store(true, Relaxed);
}

/// Between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// A bar of so many steps, drawn by one of indicatif's templates.
pub fn bar(steps: u64, template: &str) -> ProgressBar {
    dressed(ProgressBar::with_draw_target(Some(steps), target()), template)
}

/// What turns while nobody knows how long.
pub fn spinner(template: &str) -> ProgressBar {
    let bar = dressed(ProgressBar::with_draw_target(None, target()), template);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn dressed(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn target() -> ProgressDrawTarget {
    if IS_HIDDEN.load(Relaxed) {
        return ProgressDrawTarget::hidden();
    }
    if io::stderr().is_terminal() {
        return ProgressDrawTarget::stderr();
    }
    let lines = Lines { state: Mutex::new(Sparse::new(Instant::now())) };
    ProgressDrawTarget::term_like_with_hz(Box::new(lines), 2)
}

/// A terminal that is none.
#[derive(Debug)]
struct Lines {
    state: Mutex<Sparse>,
}

/// What was drawn, and which of it is printed.
#[derive(Debug)]
struct Sparse {
    drawn: String,
    printed: String,
    last: Instant,
}

impl Sparse {
    fn new(now: Instant) -> Self {
        Self { drawn: String::new(), printed: String::new(), last: now }
    }

    /// The line to print at `now`, if it is time for one that says something new.
    fn take(&mut self, now: Instant) -> Option<String> {
        let line = std::mem::take(&mut self.drawn).trim().to_owned();
        if line.is_empty() || line == self.printed || now.duration_since(self.last) < INTERVAL {
            return None;
        }
        (self.last, self.printed) = (now, line.clone());
        Some(line)
    }
}

impl TermLike for Lines {
    fn width(&self) -> u16 {
        200
    }
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }
    fn write_str(&self, text: &str) -> io::Result<()> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner).drawn.push_str(text);
        Ok(())
    }
    fn clear_line(&self) -> io::Result<()> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner).drawn.clear();
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        let line = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take(Instant::now());
        match line {
            Some(line) => writeln!(io::stderr(), "{line}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_printed_when_it_is_new_and_time() {
        let began = Instant::now();
        let mut sparse = Sparse::new(began);
        let mut at = |seconds: u64, text: &str| {
            sparse.drawn.push_str(text);
            sparse.take(began + Duration::from_secs(seconds))
        };
        assert_eq!(at(1, "one"), None, "what is done soon says nothing");
        assert_eq!(at(11, "  two "), Some("two".into()));
        assert_eq!(at(12, "three"), None);
        assert_eq!(at(30, "two"), None, "nothing new");
        assert_eq!(at(31, ""), None);
        assert_eq!(at(32, "four"), Some("four".into()));
    }
}
