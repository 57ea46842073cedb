//! Threads as coroutines on one operating-system thread, for worlds that choose how they interleave.

use std::cell::RefCell;
use std::rc::Rc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::{Hosted, World};

/// The code of a thread, which receives the thread's view.
pub type Thread<'a> = Box<dyn FnOnce(&Hosted) + 'a>;

thread_local! {
    /// Stacks of coroutines that have returned, for reuse. The system would have to zero the pages of new stacks in each of a checker's histories.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Coroutines that have not returned. After a panic they are leaked: unwinding them would run their panic handlers and destructors, which perform
/// operations of a world that no longer schedules anything.
struct Unfinished(Vec<Option<Coroutine<(), (), ()>>>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(std::mem::take(&mut self.0));
        }
    }
}

/// Runs `threads` as coroutines over `world` until all have returned. `choose` picks, among the numbers of the threads that still run, the position
/// of the one to run until its next switch.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, _) = recorded_words();
/// use strandline_core::memory::World;
/// use strandline_core::memory::coroutines::{Thread, run};
///
/// let (world, counter): (Rc<dyn World>, _) = (recorder, PersistentAddress::new(64));
/// let increment = |memory: &Hosted| {
///     let value = memory.load(counter);
///     memory.pause();
///     memory.store(counter, value + 1);
/// };
/// // The last thread runs until its pause, then the other one: both load before either stores.
/// let mut turn = 0;
/// run(&world, vec![Box::new(increment) as Thread, Box::new(increment)], |running| {
///     turn += 1;
///     turn % running.len()
/// });
/// assert_eq!(Hosted::new(world, 0).load(counter), 1, "an increment is lost");
/// ```
///
/// # Panics
/// Panics if a thread or `choose` panics. What the other threads hold is then leaked.
pub fn run(world: &Rc<dyn World>, threads: Vec<Thread<'_>>, mut choose: impl FnMut(&[usize]) -> usize) {
    let mut coroutines = Unfinished(Vec::new());
    for (thread, body) in threads.into_iter().enumerate() {
        // SAFETY: only the lifetime changes. Each coroutine is dropped before `run` returns, and with it the closure and all that it borrows. If
        // `run` unwinds, the coroutine never runs again.
        let body: Thread<'static> = unsafe { std::mem::transmute::<Thread<'_>, Thread<'static>>(body) };
        let world = world.clone();
        let stack = STACKS.with_borrow_mut(Vec::pop).unwrap_or_default();
        coroutines.0.push(Some(Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            Hosted::lend(world, thread, &|| yielder.suspend(()), body);
        })));
    }
    let mut running: Vec<usize> = (0..coroutines.0.len()).collect();
    while !running.is_empty() {
        let position = choose(&running);
        let slot = &mut coroutines.0[running[position]];
        let finished = match slot.as_mut().map(|coroutine| coroutine.resume(())) {
            Some(CoroutineResult::Yield(())) => false,
            Some(CoroutineResult::Return(())) | None => true,
        };
        if finished {
            let stack = slot.take().map(Coroutine::into_stack);
            STACKS.with_borrow_mut(|stacks| stacks.extend(stack));
            running.remove(position);
        }
    }
}
