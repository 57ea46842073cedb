//! Progress bars on standard error, if it is a terminal; otherwise nothing.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressState, ProgressStyle};

/// True if [`hide`] was called.
static IS_HIDDEN: AtomicBool = AtomicBool::new(false);

/// Shows no progress from now on. This is for other programs that use the command's code.
pub fn hide() {
    IS_HIDDEN.store(true, Relaxed);
}

/// Returns a bar of `steps` steps that shows the rate and the remaining time. `what` names the steps, such as `runs`. The bar's message is at its
/// end.
pub fn bar(steps: u64, what: &str) -> ProgressBar {
    let template = format!("{{bar:20}} {{human_pos}}/{{human_len}} {what}, {{rate}}, {{eta}} to go{MESSAGE}");
    styled(ProgressBar::with_draw_target(Some(steps), target()), &template)
}

/// Returns a bar of `bytes` bytes that shows the rate and the remaining time. The bar's message is at its end.
pub fn bar_of_bytes(bytes: u64) -> ProgressBar {
    let template = format!("{{bar:20}} {{bytes}}/{{total_bytes}}, {{bytes_per_sec}}, {{eta}} to go{MESSAGE}");
    styled(ProgressBar::with_draw_target(Some(bytes), target()), &template)
}

/// Returns a spinner that shows the elapsed time and its message, for work of unknown length.
pub fn spinner() -> ProgressBar {
    let bar = styled(ProgressBar::with_draw_target(None, target()), "{spinner} {elapsed} {wide_msg}");
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The place of the message at the bar's end; the terminal's width cuts it.
const MESSAGE: &str = " {wide_msg}";

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    let bar = bar.with_finish(ProgressFinish::AndClear);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.with_key("rate", write_rate)),
        Err(_) => bar,
    }
}

/// Writes the rate in steps per second.
fn write_rate(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    let rate = state.per_sec();
    let _ = match rate {
        few if few < 10.0 => write!(out, "{few:.1}/s"),
        many => write!(out, "{}/s", HumanCount(many as u64)),
    };
}

fn target() -> ProgressDrawTarget {
    if IS_HIDDEN.load(Relaxed) || !io::stderr().is_terminal() {
        return ProgressDrawTarget::hidden();
    }
    ProgressDrawTarget::stderr()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use indicatif::TermLike;

    use super::*;

    /// A terminal of 80 columns that records what is drawn.
    #[derive(Clone, Debug, Default)]
    struct Drawn(Arc<Mutex<String>>);

    impl TermLike for Drawn {
        fn width(&self) -> u16 {
            80
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
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_bar_shows_rate_and_remaining_time() {
        let rows = (bar(1000, "rows"), "250/1,000 rows, ");
        let bytes = (bar_of_bytes(4 << 20), "250 B/4.00 MiB, ");
        for (bar, expected) in [rows, bytes] {
            let drawn = Drawn::default();
            bar.set_position(250);
            bar.set_message(
                "of a table whose name is longer than the terminal that it is drawn on has columns left",
            );
            bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(drawn.clone())));
            bar.tick();
            let text = std::mem::take(&mut *drawn.0.lock().unwrap());
            assert!(text.contains(expected) && text.contains("/s, ") && text.contains(" to go of"), "{text}");
            assert!(text.trim_end().chars().count() <= 80 && !text.contains("columns left"), "{text}");
        }
    }
}
