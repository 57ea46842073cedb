//! The compact format (`docs/machines.md`): threads, both spaces, write-backs, fences, transactions.

use std::io::{self, Write};
use std::ops::Range;

use strandline_core::memory::{Event, Operation, Space};

use crate::addresses::PAGE_BYTES;
use crate::machine::Taped;

/// The first bytes of a file whose spaces are contiguous in the program's address space.
pub const MAGIC: [u8; 8] = *b"STRLTRC1";
/// The first bytes of a file with the address of each page.
pub const MAGIC_WITH_PAGES: [u8; 8] = *b"STRLTRC2";
const VOLATILE: u8 = 0x80;
/// The maximum size of both spaces: 64 GB, all of which the simulator keeps.
const MOST_BYTES: u64 = 1 << 36;

/// The maximum number of words of a thread's own memory in one record.
const MOST_OWN_WORDS: u64 = 1 << 20;

/// The header of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Threads, 1 to 64.
    pub threads: u64,
    /// Bytes of the pool.
    pub persistent_bytes: u64,
    /// Bytes of volatile memory.
    pub volatile_bytes: u64,
    /// The position of the logs in the pool, in bytes; metadata precedes them. Empty if unknown.
    pub logs: Range<u64>,
    /// For each page of 4096 bytes of the pool its number in the program's address space. If both lists are empty, each space is contiguous, and
    /// volatile memory follows the pool.
    pub pool_pages: Vec<u64>,
    /// For each page of volatile memory its number in the program's address space.
    pub volatile_pages: Vec<u64>,
}

impl Header {
    /// Returns whether the header has the addresses of pages.
    pub fn has_pages(&self) -> bool {
        !self.pool_pages.is_empty() || !self.volatile_pages.is_empty()
    }
}

/// A record of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A load of a word at a byte offset.
    Load(Space, u64),
    /// Loads of consecutive words.
    LoadRange(Space, u64, u64),
    /// A store of a word at a byte offset.
    Store(Space, u64),
    /// Stores of consecutive words.
    StoreRange(Space, u64, u64),
    /// Loads of consecutive words of the thread's own memory.
    LoadOwn(u64),
    /// Stores of consecutive words of the thread's own memory.
    StoreOwn(u64),
    /// An atomic read-modify-write.
    Atomic(Space, u64),
    /// A non-temporal store.
    NonTemporal(u64),
    /// The write-back of a line.
    WriteBack(u64),
    /// A persistence fence.
    Fence,
    /// The write-back of all caches.
    WriteBackAll,
    /// A spin loop's pause.
    Pause,
    /// Instructions between accesses.
    Work(u32),
    /// A transaction begins.
    Begin,
    /// A transaction enters commit.
    Commit(u64),
    /// A transaction is acknowledged.
    Acknowledged(u64),
    /// A transaction is given up.
    Abort,
    /// A persist barrier.
    PersistBarrier,
    /// A new strand.
    NewStrand,
}

/// Writes a trace, record by record.
pub struct Writer<W: Write> {
    to: W,
    thread: usize,
    word: u64,
    /// Instructions since the last record that have not been written yet.
    instructions: u32,
    error: Option<io::Error>,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn new(mut to: W, header: &Header) -> io::Result<Self> {
        to.write_all(if header.has_pages() { &MAGIC_WITH_PAGES } else { &MAGIC })?;
        let Header { threads, persistent_bytes, volatile_bytes, logs, .. } = header;
        for number in [*threads, *persistent_bytes, *volatile_bytes, logs.start, logs.end] {
            to.write_all(&number.to_le_bytes())?;
        }
        let (mut table, mut before) = (Vec::new(), 0);
        for &page in header.pool_pages.iter().chain(&header.volatile_pages) {
            varint(&mut table, zigzag(page.wrapping_sub(before)));
            before = page;
        }
        to.write_all(&table)?;
        Ok(Self { to, thread: 0, word: 0, instructions: 0, error: None })
    }

    /// Adds an operation of `thread`, if the format has it. Errors are reported at the end.
    pub fn add(&mut self, thread: usize, taped: Taped) {
        use Operation as O;
        let step = match taped {
            Taped::LoadRange(space, at, words) => Step::LoadRange(space, at, words as u64),
            Taped::StoreRange(space, at, words) => Step::StoreRange(space, at, words as u64),
            Taped::OwnMemory(false, words) => Step::LoadOwn(words),
            Taped::OwnMemory(true, words) => Step::StoreOwn(words),
            Taped::Operation(operation) => match operation {
                O::Load(space, at) => Step::Load(space, at),
                O::Store(space, at, _) => Step::Store(space, at),
                O::StoreNonTemporal(at, _) => Step::NonTemporal(at),
                O::CompareExchange(space, at, ..) | O::FetchAdd(space, at, _) => Step::Atomic(space, at),
                O::WriteBack(at, _) => Step::WriteBack(at),
                O::Fence(_) => Step::Fence,
                O::WriteBackAll(_) => Step::WriteBackAll,
                O::Pause => Step::Pause,
                O::Work(instructions) => Step::Work(instructions),
                O::Event(Event::Begin) => Step::Begin,
                O::Event(Event::Commit(id)) => Step::Commit(id),
                O::Event(Event::Acknowledged(id)) => Step::Acknowledged(id),
                O::Event(Event::Abort) => Step::Abort,
                O::Event(Event::PersistBarrier(_)) => Step::PersistBarrier,
                O::Event(Event::NewStrand(_)) => Step::NewStrand,
                // These events have no effect on a machine.
                O::Event(Event::Executed(_) | Event::Lock(_) | Event::Unlock(_) | Event::PastLog(..)) => {
                    return;
                }
            },
        };
        let mut record = Vec::with_capacity(24);
        if let Step::Work(more) = step
            && thread == self.thread
            && let Some(instructions) = self.instructions.checked_add(more)
        {
            self.instructions = instructions;
            return;
        }
        self.encode_instructions(&mut record);
        if thread != self.thread {
            self.thread = thread;
            record.push(0);
            varint(&mut record, thread as u64);
        }
        match step {
            Step::Work(instructions) => self.instructions = instructions,
            step => self.encode(step, &mut record),
        }
        self.write(&record);
    }

    fn write(&mut self, record: &[u8]) {
        if self.error.is_none() {
            self.error = self.to.write_all(record).err();
        }
    }

    fn encode_instructions(&mut self, record: &mut Vec<u8>) {
        match std::mem::take(&mut self.instructions) {
            0 => {}
            instructions => self.encode(Step::Work(instructions), record),
        }
    }

    fn encode(&mut self, step: Step, record: &mut Vec<u8>) {
        let mut addressed = |kind: u8, space, at: u64, record: &mut Vec<u8>| {
            record.push(kind | if space == Space::Volatile { VOLATILE } else { 0 });
            let delta = (at / 8).wrapping_sub(self.word);
            self.word = at / 8;
            varint(record, zigzag(delta));
        };
        match step {
            Step::Load(space, at) => addressed(1, space, at, record),
            Step::LoadRange(space, at, words) => {
                addressed(2, space, at, record);
                varint(record, words);
            }
            Step::Store(space, at) => addressed(3, space, at, record),
            Step::Atomic(space, at) => addressed(4, space, at, record),
            Step::NonTemporal(at) => addressed(5, Space::Persistent, at, record),
            Step::WriteBack(at) => addressed(6, Space::Persistent, at, record),
            Step::Fence => record.push(7),
            Step::WriteBackAll => record.push(8),
            Step::Pause => record.push(9),
            Step::Work(instructions) => {
                record.push(10);
                varint(record, instructions.into());
            }
            Step::Begin => record.push(11),
            Step::Commit(id) => {
                record.push(12);
                varint(record, id);
            }
            Step::Acknowledged(id) => {
                record.push(13);
                varint(record, id);
            }
            Step::Abort => record.push(14),
            Step::PersistBarrier => record.push(15),
            Step::NewStrand => record.push(16),
            Step::StoreRange(space, at, words) => {
                addressed(17, space, at, record);
                varint(record, words);
            }
            Step::LoadOwn(words) => {
                record.push(18);
                varint(record, words);
            }
            Step::StoreOwn(words) => {
                record.push(19);
                varint(record, words);
            }
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Returns an error if something could not be written.
    pub fn finish(mut self) -> io::Result<()> {
        let mut record = Vec::new();
        self.encode_instructions(&mut record);
        self.write(&record);
        match self.error {
            Some(error) => Err(error),
            None => self.to.flush(),
        }
    }
}

/// Encodes a difference so that small negative numbers also become small.
fn zigzag(delta: u64) -> u64 {
    delta << 1 ^ ((delta as i64) >> 63) as u64
}

fn varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// The records of each thread.
pub type Steps = Vec<Vec<Step>>;
/// The position in bytes of a malformed record, and what is wrong.
pub type Mistake = (usize, String);

/// Reads a whole trace: its header, and the records of each thread.
///
/// # Errors
/// Returns the position in bytes of the first mistake, and what it is.
pub fn read(bytes: &[u8]) -> Result<(Header, Steps), Mistake> {
    let mut reader = Reader { bytes, at: MAGIC.len(), word: 0 };
    let mut numbers = [0; 5];
    for number in &mut numbers {
        let next = bytes.get(reader.at..reader.at + 8).and_then(|bytes| bytes.try_into().ok());
        *number = u64::from_le_bytes(next.ok_or((bytes.len(), "the header is cut off".to_owned()))?);
        reader.at += 8;
    }
    let [threads, persistent_bytes, volatile_bytes, from, to] = numbers;
    let wrong = |what: String| Err((MAGIC.len(), what));
    if !(1..=64).contains(&threads) {
        return wrong(format!("{threads} threads: must be 1 to 64"));
    }
    let sizes = [persistent_bytes, volatile_bytes];
    if sizes.iter().any(|&bytes| bytes % 64 != 0 || bytes > MOST_BYTES) || persistent_bytes == 0 {
        return wrong(format!(
            "spaces of {persistent_bytes} and {volatile_bytes} bytes: must be multiples of 64 up to {MOST_BYTES}"
        ));
    }
    if from > to || to > persistent_bytes {
        return wrong(format!("logs from {from} to {to} in a pool of {persistent_bytes} bytes"));
    }
    let (mut pool_pages, mut volatile_pages) = (Vec::new(), Vec::new());
    if bytes.starts_with(&MAGIC_WITH_PAGES) {
        let began = reader.at;
        let pages = reader.pages(persistent_bytes).and_then(|pool| Ok((pool, reader.pages(volatile_bytes)?)));
        (pool_pages, volatile_pages) = pages.map_err(|what| (began, what))?;
    }
    let header =
        Header { threads, persistent_bytes, volatile_bytes, logs: from..to, pool_pages, volatile_pages };
    reader.word = 0;
    let mut steps = vec![Vec::new(); threads as usize];
    let mut thread = 0;
    while reader.at < bytes.len() {
        let began = reader.at;
        let step = reader.record(&header, &mut thread).map_err(|what| (began, what))?;
        steps[thread].extend(step);
    }
    Ok((header, steps))
}

/// Returns the record of a kind without operands.
fn bare(kind: u8) -> Option<Step> {
    Some(match kind {
        7 => Step::Fence,
        8 => Step::WriteBackAll,
        9 => Step::Pause,
        11 => Step::Begin,
        14 => Step::Abort,
        15 => Step::PersistBarrier,
        16 => Step::NewStrand,
        _ => return None,
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    word: u64,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, String> {
        let byte = self.bytes.get(self.at).copied().ok_or("the last record is cut off")?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number of more than 64 bits".into())
    }

    /// Reads a varint encoded by [`zigzag`].
    fn difference(&mut self) -> Result<u64, String> {
        let zigzag = self.varint()?;
        Ok(zigzag >> 1 ^ (zigzag & 1).wrapping_neg())
    }

    /// Reads the pages of a space of so many bytes. `word` is the previous page.
    fn pages(&mut self, bytes: u64) -> Result<Vec<u64>, String> {
        let mut pages = Vec::new();
        for _ in 0..bytes.div_ceil(PAGE_BYTES) {
            self.word = self.word.wrapping_add(self.difference()?);
            if self.word > u64::MAX / PAGE_BYTES {
                return Err(format!("page {:#x} is not in an address space of 64 bits", self.word));
            }
            pages.push(self.word);
        }
        Ok(pages)
    }

    fn own_words(&mut self) -> Result<u64, String> {
        let words = self.varint()?;
        let is_possible = (1..=MOST_OWN_WORDS).contains(&words);
        if is_possible { Ok(words) } else { Err(format!("{words} words of a thread's own memory at a time")) }
    }

    /// Reads where a record of this kind accesses `space`, in bytes, and how many words it accesses, possibly none.
    fn place(&mut self, kind: u8, space: Space, header: &Header) -> Result<(u64, u64), String> {
        if !matches!(kind, 1..=6 | 17) {
            return Ok((0, 1));
        }
        self.word = self.word.wrapping_add(self.difference()?);
        let words = if matches!(kind, 2 | 17) { self.varint()? } else { 1 };
        let size = if space == Space::Persistent { header.persistent_bytes } else { header.volatile_bytes };
        if words == 0 || self.word.checked_add(words).is_none_or(|end| end > size / 8) {
            return Err(format!("{words} words from word {} are not in a space of {size} bytes", self.word));
        }
        Ok((8 * self.word, words))
    }

    fn thread(&mut self, header: &Header) -> Result<usize, String> {
        let number = self.varint()?;
        if number >= header.threads {
            return Err(format!("thread {number} of {}", header.threads));
        }
        Ok(number as usize)
    }

    fn work(&mut self) -> Result<Step, String> {
        let instructions = self.varint()?;
        Ok(Step::Work(u32::try_from(instructions).map_err(|_| format!("{instructions} instructions"))?))
    }

    /// Reads the next record; returns `None` if it names the thread of those that follow.
    fn record(&mut self, header: &Header, thread: &mut usize) -> Result<Option<Step>, String> {
        let first = self.byte()?;
        let kind = first & !VOLATILE;
        let space = if first & VOLATILE == 0 { Space::Persistent } else { Space::Volatile };
        if space == Space::Volatile && !matches!(kind, 1..=4 | 17) {
            return Err(format!("kind {kind} has no volatile address"));
        }
        let (at, words) = self.place(kind, space, header)?;
        Ok(Some(match kind {
            0 => {
                *thread = self.thread(header)?;
                return Ok(None);
            }
            1 => Step::Load(space, at),
            2 => Step::LoadRange(space, at, words),
            3 => Step::Store(space, at),
            4 => Step::Atomic(space, at),
            5 => Step::NonTemporal(at),
            6 => Step::WriteBack(at),
            10 => self.work()?,
            12 => Step::Commit(self.varint()?),
            13 => Step::Acknowledged(self.varint()?),
            17 => Step::StoreRange(space, at, words),
            18 => Step::LoadOwn(self.own_words()?),
            19 => Step::StoreOwn(self.own_words()?),
            _ => bare(kind).ok_or_else(|| format!("there is no kind {kind}; kinds are 0 to 19"))?,
        }))
    }
}
