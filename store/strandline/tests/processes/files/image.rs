//! The states in which a power failure may leave a folder.
//!
//! A file has sectors of 512 bytes. Each sector of the medium may have any of the contents that it had in the page cache since it was last durable.
//! So sectors are lost or kept, torn out of larger writes, or kept in another order than they were written. The size is lost or kept independently. A
//! name becomes durable only by a flush of the folder. Of the changes of names since then, a prefix survives (on journaling file systems), or any of
//! them; a rename happens completely or not at all.

use std::collections::BTreeMap;
use std::path::Path;

use super::journal::{Event, Inode, Journal};

pub const SECTOR: usize = 512;
/// Number of sectors in a page, the unit that a page cache writes.
const PAGE: usize = 8;

enum Change {
    Write {
        offset: usize,
        bytes: Vec<u8>,
    },
    /// A range that becomes zeros. Each block of the file system becomes zeros as a whole, or stays.
    Punch {
        offset: usize,
        bytes: usize,
    },
    Resize(usize),
}

impl Change {
    /// Returns whether the change affects bytes in this range.
    fn touches(&self, range: &std::ops::Range<usize>) -> bool {
        let (from, to) = match self {
            Self::Write { offset, bytes } => (*offset, offset + bytes.len()),
            Self::Punch { offset, bytes } => (*offset, offset + bytes),
            Self::Resize(size) => (*size, usize::MAX),
        };
        from < range.end && to > range.start
    }
}

/// A file on a disk.
#[derive(Default)]
struct Stored {
    durable: Vec<u8>,
    /// The changes that may not be durable yet, in order. Each is marked if it is durable after all.
    pending: Vec<(Change, bool)>,
    /// The contents that reads return. They differ from the medium's if it may never get some of them: after a write or a flush that failed.
    shown: Option<Vec<u8>>,
}

/// A change of names.
struct Renaming {
    gone: Vec<String>,
    given: Vec<(String, Inode)>,
}

/// A folder on a disk.
pub struct Disk {
    files: Vec<Stored>,
    names: BTreeMap<String, Inode>,
    /// The changes of names that may not be durable yet.
    pending: Vec<Renaming>,
    /// The names that the running system shows.
    seen: BTreeMap<String, Inode>,
    /// Decides which parts of failed writes and flushes survive.
    random: fastrand::Rng,
}

/// Names and contents of files.
pub type Image = BTreeMap<String, (Inode, std::rc::Rc<Vec<u8>>)>;

/// The amount of changes that survives.
#[derive(Clone, Copy)]
enum Mood {
    Nothing,
    Everything,
    /// All changes up to some time.
    Prefix,
    /// The state of each sector or page is drawn independently: `percent` is the probability that it has its last contents.
    Each {
        unit: usize,
        percent: u32,
    },
}

impl Mood {
    fn draw(random: &mut fastrand::Rng) -> Self {
        match random.u32(..8) {
            0 => Self::Nothing,
            1 => Self::Everything,
            2 | 3 => Self::Prefix,
            _ => Self::Each {
                unit: if random.bool() { 1 } else { PAGE },
                percent: *random.choice(&[5, 30, 50, 70, 95]).unwrap(),
            },
        }
    }
}

impl Stored {
    /// Returns contents that a power failure may leave.
    fn draw(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        // Often none of the holes survives, while other files have all changes.
        let has_holes = self.pending.iter().any(|(change, _)| matches!(change, Change::Punch { .. }));
        let mood = if has_holes && random.bool() { Mood::Nothing } else { Mood::draw(random) };
        let last = self.pending.len();
        let upto = random.usize(..=last);
        // Chooses one of several times: `cut` is the number of pending changes that it includes, and `from` the smallest possible number.
        let cut = |from: usize, random: &mut fastrand::Rng, percent: u32| match mood {
            Mood::Nothing => from,
            Mood::Everything => last,
            Mood::Prefix => upto.max(from),
            Mood::Each { .. } if random.u32(..100) < percent => last,
            Mood::Each { .. } => random.usize(from..=last),
        };
        let percent = if let Mood::Each { percent, .. } = mood { percent } else { 0 };
        // The size after each change, the sectors that each change affects, and the earliest state in which each sector can be.
        let mut sizes = vec![self.durable.len()];
        let mut durable_size = 0;
        let mut touched: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, (change, durable)) in self.pending.iter().enumerate() {
            let size = *sizes.last().unwrap();
            let (range, size) = match change {
                Change::Write { offset, bytes } => {
                    let end = offset + bytes.len();
                    // If a write is durable, so is the size that is needed to read it.
                    if *durable && end > sizes[durable_size] {
                        durable_size = at + 1;
                    }
                    (*offset..end, size.max(end))
                }
                Change::Punch { offset, bytes } => (*offset..offset + bytes, size),
                Change::Resize(new) => (*new..size.max(*new), *new),
            };
            sizes.push(size);
            for sector in range.start / SECTOR..range.end.div_ceil(SECTOR) {
                let from = touched.entry(sector).or_default();
                if *durable {
                    *from = at + 1;
                }
            }
        }
        let unit = if let Mood::Each { unit, .. } = mood { unit } else { 1 };
        let mut cuts: BTreeMap<usize, usize> = BTreeMap::new();
        let mut drawn = (usize::MAX, 0);
        for (&sector, &from) in &touched {
            if drawn.0 != sector / unit {
                drawn = (sector / unit, cut(0, random, percent));
            }
            cuts.insert(sector, drawn.1.max(from));
        }
        self.keep_holes_whole(&mut cuts);
        let size = sizes[cut(durable_size, random, percent)];
        let most = sizes.iter().copied().max().unwrap_or(0);
        let mut contents = self.durable.clone();
        contents.resize(most.next_multiple_of(SECTOR), 0);
        for (at, (change, _)) in self.pending.iter().enumerate() {
            let zeros;
            let (offset, bytes) = match change {
                Change::Write { offset, bytes } => (*offset, bytes),
                Change::Punch { offset, bytes } => {
                    zeros = vec![0; *bytes];
                    (*offset, &zeros)
                }
                Change::Resize(new) => {
                    zeros = vec![0; sizes[at].saturating_sub(*new)];
                    (*new, &zeros)
                }
            };
            let mut done = 0;
            while done < bytes.len() {
                let position = offset + done;
                let length = (SECTOR - position % SECTOR).min(bytes.len() - done);
                if at < cuts[&(position / SECTOR)] {
                    contents[position..position + length].copy_from_slice(&bytes[done..done + length]);
                }
                done += length;
            }
        }
        contents.resize(size, 0);
        contents
    }

    /// Makes each block of the file system that a hole covers a hole in all its sectors, or in none.
    fn keep_holes_whole(&self, cuts: &mut BTreeMap<usize, usize>) {
        for (at, (change, _)) in self.pending.iter().enumerate() {
            let Change::Punch { offset, bytes } = change else { continue };
            for page in (offset / SECTOR).div_ceil(PAGE)..(offset + bytes) / SECTOR / PAGE {
                let sectors = page * PAGE..(page + 1) * PAGE;
                let range = page * PAGE * SECTOR..(page + 1) * PAGE * SECTOR;
                let is_last = !self.pending[at + 1..].iter().any(|(later, _)| later.touches(&range));
                // Bytes that were written into the hole later cannot be there without it.
                let is_there = if is_last {
                    cuts[&sectors.start] > at
                } else {
                    cuts.range(sectors.clone()).any(|(_, &cut)| cut > at)
                };
                for (_, cut) in cuts.range_mut(sectors) {
                    *cut = if is_there { (*cut).max(at + 1) } else { (*cut).min(at) };
                }
            }
        }
    }

    /// Returns the whole sectors that a write of these bytes sends to the medium, as reads show them.
    fn whole_sectors(&mut self, offset: usize, bytes: &[u8]) -> (usize, Vec<u8>) {
        let Some(shown) = &mut self.shown else { return (offset, bytes.to_vec()) };
        let end = offset + bytes.len();
        shown.resize(shown.len().max(end), 0);
        shown[offset..end].copy_from_slice(bytes);
        let (from, to) = (offset / SECTOR * SECTOR, end.next_multiple_of(SECTOR).min(shown.len()));
        (from, shown[from..to].to_vec())
    }

    /// Remembers the contents that reads show, before the medium loses some of them.
    fn remember(&mut self) {
        if self.shown.is_none() {
            let mut all = Self { durable: self.durable.clone(), ..Self::default() };
            for (change, _) in &self.pending {
                all.apply(change);
            }
            self.shown = Some(all.durable);
        }
    }

    /// A write failed: the medium has some of its sectors, or gets them by a later flush, and never gets the others.
    fn fail_write(&mut self, offset: usize, bytes: &[u8], random: &mut fastrand::Rng) {
        self.remember();
        let (from, all) = self.whole_sectors(offset, bytes);
        let percent = *random.choice(&[0, 50, 100]).unwrap();
        for (at, sector) in all.chunks(SECTOR).enumerate() {
            if random.u32(..100) < percent {
                let change = Change::Write { offset: from + at * SECTOR, bytes: sector.to_vec() };
                self.pending.push((change, false));
            }
        }
    }

    /// A flush failed: each sector of the medium is old or new now, and stays so.
    fn fail_flush(&mut self, random: &mut fastrand::Rng) {
        self.remember();
        self.durable = self.draw(random);
        self.pending.clear();
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if self.durable.len() < end {
                    self.durable.resize(end, 0);
                }
                self.durable[*offset..end].copy_from_slice(bytes);
            }
            Change::Punch { offset, bytes } => {
                let end = (offset + bytes).min(self.durable.len());
                self.durable[(*offset).min(end)..end].fill(0);
            }
            Change::Resize(size) => self.durable.resize(*size, 0),
        }
    }

    /// Returns whether a power failure would change nothing.
    fn is_durable(&self) -> bool {
        self.pending.iter().all(|(_, durable)| *durable)
    }

    /// Makes all changes durable.
    fn flush(&mut self) {
        for (change, _) in std::mem::take(&mut self.pending) {
            self.apply(&change);
        }
    }
}

impl Disk {
    /// Returns the disk before the first event.
    pub fn new(journal: &Journal, random: fastrand::Rng) -> Self {
        let (files, names, pending, seen) = Default::default();
        let mut disk = Self { files, names, pending, seen, random };
        for (name, inode, bytes) in &journal.before {
            disk.file(*inode).durable.clone_from(bytes);
            disk.names.insert(name.clone(), *inode);
        }
        disk.seen.clone_from(&disk.names);
        disk
    }

    fn file(&mut self, inode: Inode) -> &mut Stored {
        if self.files.len() <= inode {
            self.files.resize_with(inode + 1, Stored::default);
        }
        &mut self.files[inode]
    }

    fn change_names(&mut self, gone: Vec<String>, given: Vec<(String, Inode)>) {
        for name in &gone {
            self.seen.remove(name);
        }
        self.seen.extend(given.iter().cloned());
        self.pending.push(Renaming { gone, given });
    }

    /// Begins an event. A power failure may find it done, not done or in between.
    pub fn begin(&mut self, event: &Event) {
        match event {
            Event::Write { inode, offset, bytes, .. } => {
                let file = self.file(*inode);
                let (offset, bytes) = file.whole_sectors(*offset as usize, bytes);
                file.pending.push((Change::Write { offset, bytes }, false));
            }
            Event::Punch { inode, offset, bytes } => {
                let (offset, bytes) = (*offset as usize, *bytes as usize);
                let file = self.file(*inode);
                if let Some(shown) = &mut file.shown {
                    shown[offset..offset + bytes].fill(0);
                }
                file.pending.push((Change::Punch { offset, bytes }, false));
            }
            Event::FailedWrite { inode, offset, bytes } => {
                let mut random = self.random.fork();
                self.file(*inode).fail_write(*offset as usize, bytes, &mut random);
            }
            Event::Resize { inode, size } => {
                if let Some(shown) = &mut self.file(*inode).shown {
                    shown.resize(*size as usize, 0);
                }
                self.file(*inode).pending.push((Change::Resize(*size as usize), false));
            }
            Event::Link { name, inode } => {
                self.file(*inode);
                self.change_names(vec![], vec![(name.clone(), *inode)]);
            }
            Event::Unlink { name } => self.change_names(vec![name.clone()], vec![]),
            Event::Rename { from, to } => {
                let (one, other) = (self.seen[from], self.seen.get(to));
                // If both are names of one file, a rename does nothing.
                if other != Some(&one) {
                    self.change_names(vec![from.clone()], vec![(to.clone(), one)]);
                }
            }
            Event::Exchange { one, other } => {
                let given = vec![(one.clone(), self.seen[other]), (other.clone(), self.seen[one])];
                self.change_names(vec![], given);
            }
            Event::Mark(_) | Event::Flush(_) | Event::FlushFolder => {}
            Event::FailedFlush(_) | Event::FailedCall(_) => {}
        }
    }

    /// Ends an event.
    pub fn end(&mut self, event: &Event) {
        match event {
            Event::Write { inode, durable: true, .. } => {
                let file = self.file(*inode);
                file.pending.last_mut().expect("begun").1 = true;
                if file.is_durable() {
                    file.flush();
                }
            }
            Event::Flush(inode) => self.file(*inode).flush(),
            Event::FailedFlush(inode) => {
                let mut random = self.random.fork();
                self.file(*inode).fail_flush(&mut random);
            }
            Event::FlushFolder => {
                self.names.clone_from(&self.seen);
                self.pending.clear();
            }
            _ => {}
        }
    }

    /// Returns the problem if an event renames a file whose contents are not durable: a power failure might leave the name and a torn file.
    pub fn objection(&self, event: &Event) -> Option<String> {
        let named = match event {
            Event::Rename { from, to } => vec![(from, to)],
            Event::Exchange { one, other } => vec![(one, other), (other, one)],
            _ => return None,
        };
        let torn = named.into_iter().find(|(from, _)| !self.files[self.seen[*from]].is_durable());
        torn.map(|(_, to)| format!("a file that is not durable is named {to}"))
    }

    /// Returns an image that a power failure may leave.
    pub fn draw(&self, random: &mut fastrand::Rng) -> Image {
        let mut names = self.names.clone();
        let ordered = random.bool();
        let upto = random.usize(..=self.pending.len());
        for (at, Renaming { gone, given }) in self.pending.iter().enumerate() {
            if if ordered { at < upto } else { random.bool() } {
                for name in gone {
                    names.remove(name);
                }
                names.extend(given.iter().cloned());
            }
        }
        let mut drawn: BTreeMap<Inode, std::rc::Rc<Vec<u8>>> = BTreeMap::new();
        let mut content = |inode: Inode| {
            drawn.entry(inode).or_insert_with(|| self.files[inode].draw(random).into()).clone()
        };
        names.into_iter().map(|(name, inode)| (name, (inode, content(inode)))).collect()
    }
}

/// Writes the image's files into `folder`, which is empty.
pub fn write(image: &Image, folder: &Path) {
    use std::os::unix::fs::FileExt;
    let mut names: BTreeMap<Inode, &str> = BTreeMap::new();
    for (name, (inode, bytes)) in image {
        let path = folder.join(name);
        if let Some(other) = names.get(inode) {
            std::fs::hard_link(folder.join(other), path).unwrap();
            continue;
        }
        names.insert(*inode, name);
        let file = std::fs::File::create_new(path).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        // Pieces of zeros are not written, so that they stay holes.
        for (at, piece) in bytes.chunks(1 << 14).enumerate() {
            if piece.iter().any(|&byte| byte != 0) {
                file.write_all_at(piece, (at << 14) as u64).unwrap();
            }
        }
    }
}
