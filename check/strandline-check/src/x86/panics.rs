//! Catches panics of checked programs, so that the report contains them and nothing is printed in between.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use super::panic_text;

/// The reason why a run stopped early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// The program panicked: the message, and the place.
    Panic(String),
    /// The program accessed an address outside its memory.
    Outside(String),
    /// All remaining threads wait, or a thread runs forever.
    Deadlock(String),
}

impl Stopped {
    /// Returns the reason as text.
    pub fn text(&self) -> &str {
        let (Self::Panic(text) | Self::Outside(text) | Self::Deadlock(text)) = self;
        text
    }

    /// Stops the run for this reason.
    pub fn raise(self) -> ! {
        std::panic::panic_any(self)
    }
}

thread_local! {
    static IS_CHECKED: Cell<bool> = const { Cell::new(false) };
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `body`. A panic in it prints nothing.
///
/// # Errors
/// Returns the reason if `body` panicked.
pub(crate) fn catch_panic<R>(body: impl FnOnce() -> R) -> Result<R, Stopped> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_CHECKED.get() {
                return before(panic);
            }
            let place = panic.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
            PLACE.with(|kept| *kept.borrow_mut() = place.unwrap_or_default());
        }));
    });
    let outer = IS_CHECKED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    IS_CHECKED.set(outer);
    result.map_err(|panic| match panic.downcast::<Stopped>() {
        Ok(stopped) => *stopped,
        Err(panic) => Stopped::Panic(format!("{}{}", panic_text(&*panic), PLACE.with(RefCell::take))),
    })
}
