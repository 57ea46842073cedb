//! The events of an execution that the models consider.

use strandline_core::memory::{self, Operation, Space};

/// A word of one of the two address spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The address space. A store to the persistent space is a persist.
    pub space: Space,
    /// The word's number in its space. A persist is atomic for one word of 8 bytes.
    pub word: u32,
}

impl Place {
    /// Returns a word of the pool.
    pub fn persistent(word: u32) -> Self {
        Self { space: Space::Persistent, word }
    }

    /// Returns a synchronisation word.
    pub fn volatile(word: u32) -> Self {
        Self { space: Space::Volatile, word }
    }

    fn at(space: Space, offset: u64) -> Self {
        Self { space, word: (offset / 8) as u32 }
    }

    /// Returns the number of the 64-byte line, for words of the pool.
    pub fn line(self) -> u32 {
        self.word / 8
    }

    /// Returns whether a store to this word is a persist.
    pub fn is_persistent(self) -> bool {
        self.space == Space::Persistent
    }
}

/// A memory event of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A load.
    Load(Place),
    /// A store.
    Store(Place),
    /// An atomic read-modify-write: a load and a store, and a fence as on x86.
    Exchange(Place),
    /// `clwb` of a line of the pool.
    WriteBack(u32),
    /// `sfence`.
    StoreFence,
    /// `pcommit`: makes durable what the memory has accepted.
    PersistCommit,
    /// The persist barrier of epoch and strand persistency.
    PersistBarrier,
    /// The new strand of strand persistency.
    NewStrand,
}

impl Event {
    /// Returns the word that the event accesses, whether it loads the word, and whether it stores to it.
    pub fn access(self) -> Option<(Place, bool, bool)> {
        match self {
            Self::Load(place) => Some((place, true, false)),
            Self::Store(place) => Some((place, false, true)),
            Self::Exchange(place) => Some((place, true, true)),
            _ => None,
        }
    }

    /// Returns the number of the pool's word that the event stores to, if it is a persist.
    pub fn persist(self) -> Option<u32> {
        match self {
            Self::Store(place) | Self::Exchange(place) if place.is_persistent() => Some(place.word),
            _ => None,
        }
    }
}

/// Returns the events of an operation, in order. A fence becomes a sync barrier: `sfence`, `pcommit`, `sfence`.
pub fn events(operation: Operation) -> impl Iterator<Item = Event> {
    let list: [Option<Event>; 3] = match operation {
        Operation::Load(space, at) => [Some(Event::Load(Place::at(space, at))), None, None],
        Operation::Store(space, at, _) => [Some(Event::Store(Place::at(space, at))), None, None],
        Operation::StoreNonTemporal(at, _) => {
            let place = Place::at(Space::Persistent, at);
            [Some(Event::Store(place)), Some(Event::WriteBack(place.line())), None]
        }
        Operation::CompareExchange(space, at, ..) | Operation::FetchAdd(space, at, _) => {
            [Some(Event::Exchange(Place::at(space, at))), None, None]
        }
        Operation::WriteBack(at, _) => [Some(Event::WriteBack((at / 64) as u32)), None, None],
        Operation::Fence(_) => [Some(Event::StoreFence), Some(Event::PersistCommit), Some(Event::StoreFence)],
        Operation::Event(memory::Event::PersistBarrier(_)) => [Some(Event::PersistBarrier), None, None],
        Operation::Event(memory::Event::NewStrand(_)) => [Some(Event::NewStrand), None, None],
        Operation::WriteBackAll(_) | Operation::Pause | Operation::Event(_) | Operation::Work(_) => [None; 3],
    };
    list.into_iter().flatten()
}
