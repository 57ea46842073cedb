//! A device that can fail as real ones do, with its files in memory.
//!
//! Each file has a *cache*, which reads return, and a *medium*, which survives a power failure. A sector of 512 bytes that was written and not
//! flushed has versions besides the medium's. After a power failure the medium holds one of them, independently for each sector: writes may be lost,
//! kept or reordered, and 4 KB writes torn. A failed flush has the same effect: the medium keeps some version of each sector, while the cache still
//! has the newest one and marks it clean, so that later flushes do not write it unless the program writes it again. A file's length behaves like a
//! sector: a power failure or a failed flush before the length is durable keeps the new length or loses it. A lost length stays lost until a write
//! beyond the medium's end.
//!
//! [`FaultyDevice::fail_after`] chooses the operation that fails. [`FaultyDevice::power_cycle`] chooses what survives at random, reproducibly by its
//! seed; [`FaultyDevice::power_cycle_choosing`] lets the caller choose each sector's version.

use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::io;

use strandline_core::memory::{Device, DeviceFile};

use super::journal::Journal;

const SECTOR: usize = 512;

/// "Input/output error".
pub(super) const EIO: i32 = 5;
/// "No space left on device".
pub(super) const ENOSPC: i32 = 28;

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// With this error number of the system; later operations succeed.
    Error(i32),
    /// Power fails during the operation: this and every later operation fails, until [`FaultyDevice::power_cycle`].
    PowerOff,
    /// The process is killed before the operation: this and every later operation fails and does nothing, until [`FaultyDevice::power_cycle`] or
    /// [`FaultyDevice::clear_fault`].
    Kill,
}

#[derive(Clone, Default)]
struct Contents {
    cache: Vec<u8>,
    medium: Vec<u8>,
    /// The versions of each sector that were written since the medium last equalled the cache, without repetitions.
    pending: BTreeMap<usize, Vec<[u8; SECTOR]>>,
    /// True if the file has grown beyond the medium.
    is_longer: bool,
}

impl Contents {
    fn sectors(offset: usize, length: usize) -> std::ops::Range<usize> {
        offset / SECTOR..(offset + length).div_ceil(SECTOR)
    }

    fn cached(&self, sector: usize) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        bytes.copy_from_slice(&self.cache[sector * SECTOR..(sector + 1) * SECTOR]);
        bytes
    }

    fn put(&mut self, offset: usize, from: &[u8]) {
        self.cache[offset..offset + from.len()].copy_from_slice(from);
        // This holds even if the growth was lost before.
        self.is_longer |= offset + from.len() > self.medium.len();
        for sector in Self::sectors(offset, from.len()) {
            let bytes = self.cached(sector);
            let same = |other: &[u8; SECTOR]| *other == bytes;
            let versions = self.pending.entry(sector).or_default();
            if !versions.last().is_some_and(same) {
                versions.push(bytes);
            }
        }
    }

    fn settle(&mut self, sector: usize, bytes: &[u8; SECTOR]) {
        if let Some(medium) = self.medium.get_mut(sector * SECTOR..(sector + 1) * SECTOR) {
            medium.copy_from_slice(bytes);
        }
    }

    /// Gives the medium the cache's length, unless the growth was lost.
    fn settle_length(&mut self) {
        if std::mem::take(&mut self.is_longer) {
            self.medium.resize(self.cache.len(), 0);
        }
    }

    fn make_durable(&mut self, sectors: std::ops::Range<usize>) {
        self.settle_length();
        for sector in sectors {
            if self.pending.remove(&sector).is_some() {
                let bytes = self.cached(sector);
                self.settle(sector, &bytes);
            }
        }
    }

    /// Settles each of these sectors on some version, after which none is pending.
    fn lose(&mut self, sectors: std::ops::Range<usize>, random: &Random) {
        if self.is_longer && random.below(2) == 0 {
            self.settle_length();
        }
        self.is_longer = false;
        // All sectors stay old, all are new, or each sector or each 4 KB chooses for itself.
        let kind = random.below(6);
        let (mut page, mut kept) = (usize::MAX, false);
        let chosen: Vec<usize> = self.pending.range(sectors).map(|(&sector, _)| sector).collect();
        for sector in chosen {
            let versions = self.pending.remove(&sector).unwrap_or_default();
            if page != sector / 8 {
                (page, kept) = (sector / 8, random.below(2) == 1);
            }
            let choice = match kind {
                0 => 0,
                1 => versions.len(),
                2 | 3 => random.below(versions.len() as u64 + 1) as usize,
                _ => versions.len() * usize::from(kept),
            };
            if choice > 0 {
                self.settle(sector, &versions[choice - 1]);
            }
        }
    }
}

impl Contents {
    /// Like [`Contents::lose`] for all sectors, but `choose` returns the number of the version, below its argument. Only different versions count;
    /// the last one is the cache's.
    fn lose_choosing(&mut self, choose: &mut impl FnMut(usize) -> usize) {
        if self.is_longer && choose(2) == 1 {
            self.settle_length();
        }
        self.is_longer = false;
        for (sector, versions) in std::mem::take(&mut self.pending) {
            let mut distinct = vec![];
            let Some(on_medium) = self.medium.get(sector * SECTOR..(sector + 1) * SECTOR) else { continue };
            for (index, version) in versions.iter().enumerate() {
                if version[..] != *on_medium && !versions[index + 1..].contains(version) {
                    distinct.push(*version);
                }
            }
            let choice = if distinct.is_empty() { 0 } else { choose(distinct.len() + 1) };
            if choice > 0 {
                self.settle(sector, &distinct[choice - 1]);
            }
        }
    }
}

#[derive(Clone)]
struct Random(Cell<u64>);

impl Random {
    fn below(&self, bound: u64) -> u64 {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        (x >> 16) % bound
    }
}

/// Files in memory, with faults on demand. A clone is independent of the original.
#[derive(Clone)]
pub struct FaultyDevice {
    heap: RefCell<Contents>,
    log: RefCell<Contents>,
    checksums: RefCell<Contents>,
    random: Random,
    operations: Cell<u64>,
    fault: Cell<Option<(u64, Fault)>>,
    /// The fault of the next flush of a file that has grown.
    growth_fault: Cell<Option<Fault>>,
    extensions: Cell<u64>,
    failed_growths: Cell<u64>,
    off: Cell<bool>,
    killed: Cell<bool>,
    direct: bool,
    /// Offsets and lengths of the holes in the heap file since the last call of `take_punched`.
    punched: RefCell<Vec<(u64, u64)>>,
    journal: Journal,
}

impl FaultyDevice {
    /// Creates empty files; `seed` determines what survives. `direct` is the result of [`Device::is_direct`].
    pub(super) fn new(seed: u64, direct: bool, journal: Journal) -> Self {
        Self {
            heap: RefCell::default(),
            log: RefCell::default(),
            checksums: RefCell::default(),
            random: Random(Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)),
            operations: Cell::new(0),
            fault: Cell::new(None),
            growth_fault: Cell::new(None),
            extensions: Cell::new(0),
            failed_growths: Cell::new(0),
            off: Cell::new(false),
            killed: Cell::new(false),
            direct,
            punched: RefCell::default(),
            journal,
        }
    }

    /// Changes a byte of the file on the medium and in the cache.
    pub(super) fn rot(&self, file: DeviceFile, offset: u64) {
        let contents = &mut *self.file(file).borrow_mut();
        let sector = offset as usize / SECTOR;
        contents.cache[offset as usize] ^= 0x55;
        contents.pending.remove(&sector);
        let bytes = contents.cached(sector);
        contents.settle(sector, &bytes);
    }

    /// Returns offsets and lengths of the holes that were punched into the heap file since the last call.
    pub(super) fn take_punched(&self) -> Vec<(u64, u64)> {
        self.punched.take()
    }

    /// Makes the operation after the next `operations` fail; reads, writes, flushes and growing count.
    pub fn fail_after(&self, operations: u64, fault: Fault) {
        self.fault.set(Some((self.operations.get() + operations, fault)));
    }

    /// Makes the next flush of a file that has grown fail.
    pub fn fail_growth(&self, fault: Fault) {
        self.growth_fault.set(Some(fault));
    }

    /// Returns how often the flush of a file that has grown failed, or lost power.
    pub fn failed_growths(&self) -> u64 {
        self.failed_growths.get()
    }

    /// Returns how often files have grown.
    pub fn extensions(&self) -> u64 {
        self.extensions.get()
    }

    /// Stops all failures, if the power is on, as for a new process.
    pub fn clear_fault(&self) {
        self.fault.set(None);
        self.growth_fault.set(None);
        self.killed.set(false);
    }

    /// Returns whether the power has failed.
    pub fn is_off(&self) -> bool {
        self.off.get()
    }

    /// Returns how many operations the device has received.
    pub fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// Fails the power, if it has not failed yet, and restores it. Writes that were not durable survive or not.
    pub fn power_cycle(&self) {
        for contents in [&self.heap, &self.log, &self.checksums] {
            contents.borrow_mut().lose(0..usize::MAX, &self.random);
        }
        self.power_returns();
    }

    /// Like [`FaultyDevice::power_cycle`], but for each sector with several versions `choose` returns one of them: a number below its argument, where
    /// 0 is the durable version.
    pub fn power_cycle_choosing(&self, mut choose: impl FnMut(usize) -> usize) {
        for contents in [&self.heap, &self.log, &self.checksums] {
            contents.borrow_mut().lose_choosing(&mut choose);
        }
        self.power_returns();
    }

    fn power_returns(&self) {
        self.journal.note(|| {
            let lost = |file| {
                let contents = self.file(file).borrow();
                let sectors = contents.cache.chunks_exact(SECTOR).zip(contents.medium.chunks_exact(SECTOR));
                let lost = sectors.enumerate().filter(|(_, (cache, medium))| cache != medium);
                let places: Vec<String> =
                    lost.map(|(sector, _)| format!("{} {:#x}", file.name(), sector * SECTOR)).collect();
                places.join(", ")
            };
            format!(
                "power returns; sectors that are not as the cache showed them: [{}] [{}] [{}]",
                lost(DeviceFile::Heap),
                lost(DeviceFile::Log),
                lost(DeviceFile::Checksums)
            )
        });
        for contents in [&self.heap, &self.log, &self.checksums] {
            let contents = &mut *contents.borrow_mut();
            contents.cache.clone_from(&contents.medium);
        }
        self.off.set(false);
        self.clear_fault();
    }

    /// Runs `body` with the power on and without faults; afterwards faults are as before.
    pub fn without_faults<R>(&self, body: impl FnOnce() -> R) -> R {
        let (operations, fault, growth_fault) =
            (self.operations.get(), self.fault.take(), self.growth_fault.take());
        let (off, killed) = (self.off.take(), self.killed.take());
        let result = body();
        self.operations.set(operations);
        self.fault.set(fault);
        self.growth_fault.set(growth_fault);
        self.off.set(off);
        self.killed.set(killed);
        result
    }

    /// Borrows the file's cache, which reads return. While it is borrowed, no operation of the device may write.
    pub fn contents(&self, file: DeviceFile) -> Ref<'_, [u8]> {
        Ref::map(self.file(file).borrow(), |contents| &contents.cache[..])
    }

    fn file(&self, file: DeviceFile) -> &RefCell<Contents> {
        match file {
            DeviceFile::Heap => &self.heap,
            DeviceFile::Log => &self.log,
            DeviceFile::Checksums => &self.checksums,
        }
    }

    /// Counts an operation, and returns its fault.
    fn operation(&self, what: &str, file: DeviceFile, offset: u64, length: usize) -> Option<Fault> {
        let number = self.operations.get();
        self.operations.set(number + 1);
        if self.off.get() {
            return Some(Fault::PowerOff);
        }
        if self.killed.get() {
            return Some(Fault::Kill);
        }
        let fault = self.fault.get().filter(|&(at, _)| at == number).map(|(_, fault)| fault);
        if fault.is_some() {
            self.fault.set(None);
        }
        self.journal.note(|| {
            let how = match fault {
                None => String::new(),
                Some(Fault::Error(error)) => format!(": FAILS, {}", io::Error::from_raw_os_error(error)),
                Some(Fault::PowerOff) => ": the POWER FAILS".into(),
                Some(Fault::Kill) => ": the process is KILLED before it".into(),
            };
            format!("device {number}: {what} {} {offset:#x}+{length}{how}", file.name())
        });
        fault
    }

    fn error(fault: Fault) -> io::Error {
        io::Error::from_raw_os_error(match fault {
            Fault::Error(number) => number,
            Fault::PowerOff | Fault::Kill => EIO,
        })
    }

    /// Cuts the power or ends the process. Returns whether this operation still has an effect.
    fn fails_now(&self, fault: Fault) -> bool {
        match fault {
            Fault::Error(_) => true,
            Fault::PowerOff => !self.off.replace(true),
            Fault::Kill => {
                self.killed.set(true);
                false
            }
        }
    }

    fn place(&self, file: DeviceFile, offset: u64, length: usize) -> io::Result<usize> {
        let size = self.file(file).borrow().cache.len();
        usize::try_from(offset)
            .ok()
            .filter(|offset| offset.checked_add(length).is_some_and(|end| end <= size))
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Device for FaultyDevice {
    fn read(&self, file: DeviceFile, offset: u64, into: &mut [u8]) -> io::Result<()> {
        if let Some(fault) = self.operation("read", file, offset, into.len()) {
            self.fails_now(fault);
            return Err(Self::error(fault));
        }
        let at = self.place(file, offset, into.len())?;
        into.copy_from_slice(&self.file(file).borrow().cache[at..at + into.len()]);
        Ok(())
    }

    /// Works like a write of zeros: until a flush, each sector is a hole or has its old contents. A punch that fails has no effect.
    fn punch(&self, file: DeviceFile, offset: u64, bytes: u64) -> io::Result<()> {
        let at = self.place(file, offset, bytes as usize)?;
        let fault = self.operation("punch", file, offset, bytes as usize);
        let is_done = match fault {
            None => true,
            Some(fault) => self.fails_now(fault) && fault == Fault::PowerOff,
        };
        if is_done {
            self.file(file).borrow_mut().put(at, &vec![0; bytes as usize]);
        }
        if is_done && file == DeviceFile::Heap {
            self.punched.borrow_mut().push((offset, bytes));
        }
        fault.map_or(Ok(()), |fault| Err(Self::error(fault)))
    }

    fn write(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        let at = self.place(file, offset, from.len())?;
        let fault = self.operation("write", file, offset, from.len());
        let mut contents = self.file(file).borrow_mut();
        match fault {
            None => contents.put(at, from),
            Some(fault @ Fault::Error(_)) if self.fails_now(fault) => {
                // Some sectors were written, perhaps none or all.
                let sectors = self.random.below((from.len() / SECTOR + 1) as u64) as usize;
                contents.put(at, &from[..sectors * SECTOR]);
            }
            // How much of it survives is decided when the power returns.
            Some(fault) if self.fails_now(fault) => contents.put(at, from),
            Some(_) => {}
        }
        fault.map_or(Ok(()), |fault| Err(Self::error(fault)))
    }

    fn write_durable(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        let at = self.place(file, offset, from.len())?;
        let fault = self.operation("write durably", file, offset, from.len());
        let mut contents = self.file(file).borrow_mut();
        let sectors = Contents::sectors(at, from.len());
        match fault {
            None => {
                contents.put(at, from);
                contents.make_durable(sectors);
            }
            Some(fault @ Fault::Error(_)) if self.fails_now(fault) => {
                // The flush has not begun, or has completed and then lost a part.
                if self.random.below(4) != 0 {
                    contents.put(at, from);
                    contents.lose(sectors, &self.random);
                }
            }
            Some(fault) if self.fails_now(fault) => contents.put(at, from),
            Some(_) => {}
        }
        fault.map_or(Ok(()), |fault| Err(Self::error(fault)))
    }

    fn flush(&self, file: DeviceFile) -> io::Result<()> {
        let mut contents = self.file(file).borrow_mut();
        if contents.is_longer
            && let Some(fault) = self.growth_fault.take()
        {
            self.fault.set(Some((self.operations.get(), fault)));
        }
        let fault = self.operation("flush", file, 0, 0);
        if contents.is_longer && matches!(fault, Some(Fault::Error(_) | Fault::PowerOff)) && !self.off.get() {
            self.failed_growths.set(self.failed_growths.get() + 1);
        }
        match fault {
            None => contents.make_durable_all(),
            Some(fault @ Fault::Error(_)) if self.fails_now(fault) => {
                contents.lose(0..usize::MAX, &self.random);
            }
            Some(fault) => {
                self.fails_now(fault);
            }
        }
        fault.map_or(Ok(()), |fault| Err(Self::error(fault)))
    }

    fn size(&self, file: DeviceFile) -> io::Result<u64> {
        Ok(self.file(file).borrow().cache.len() as u64)
    }

    fn extend(&self, file: DeviceFile, bytes: u64) -> io::Result<()> {
        if let Some(fault) = self.operation("extend", file, 0, bytes as usize) {
            self.fails_now(fault);
            return Err(Self::error(fault));
        }
        let mut contents = self.file(file).borrow_mut();
        let length = (bytes as usize).next_multiple_of(SECTOR).max(contents.cache.len());
        if length > contents.cache.len() {
            contents.cache.resize(length, 0);
            contents.is_longer = true;
            self.extensions.set(self.extensions.get() + 1);
        }
        Ok(())
    }

    fn sector(&self, _: DeviceFile) -> u64 {
        SECTOR as u64
    }

    fn is_direct(&self, _: DeviceFile) -> bool {
        self.direct
    }
}

impl Contents {
    fn make_durable_all(&mut self) {
        self.settle_length();
        for (sector, versions) in std::mem::take(&mut self.pending) {
            if let Some(newest) = versions.last() {
                self.settle(sector, newest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(seed: u64) -> FaultyDevice {
        let device = FaultyDevice::new(seed, false, Journal::default());
        device.grow(DeviceFile::Heap, 8192).unwrap();
        device
    }

    fn first(device: &FaultyDevice) -> [u8; 4096] {
        let mut bytes = [0; 4096];
        device.read(DeviceFile::Heap, 0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_is_flushed_survives_and_the_rest_may_tear() {
        let mut torn = 0;
        for seed in 0..100 {
            let device = device(seed);
            device.write(DeviceFile::Heap, 0, &[1; 4096]).unwrap();
            device.flush(DeviceFile::Heap).unwrap();
            device.write(DeviceFile::Heap, 0, &[2; 4096]).unwrap();
            assert_eq!(first(&device), [2; 4096]);
            device.power_cycle();
            let bytes = first(&device);
            assert!(bytes.chunks(SECTOR).all(|s| s == [1; SECTOR] || s == [2; SECTOR]));
            torn += usize::from(bytes[0] != bytes[4095]);
        }
        assert!((10..90).contains(&torn), "{torn} of 100");
    }

    #[test]
    fn a_failed_flush_goes_on_showing_what_it_lost() {
        let mut lost = 0;
        for seed in 0..100 {
            let device = device(seed);
            device.write(DeviceFile::Heap, 0, &[2; 4096]).unwrap();
            device.fail_after(0, Fault::Error(5));
            assert!(device.flush(DeviceFile::Heap).is_err());
            device.flush(DeviceFile::Heap).unwrap();
            assert_eq!(first(&device), [2; 4096]);
            device.power_cycle();
            lost += usize::from(first(&device) != [2; 4096]);
        }
        assert!(lost > 50, "{lost} of 100");
    }

    #[test]
    fn a_length_that_a_failed_flush_has_lost_stays_lost() {
        let mut lost = 0;
        for seed in 0..100 {
            let device = device(seed);
            device.extend(DeviceFile::Heap, 16384).unwrap();
            device.write(DeviceFile::Heap, 12288, &[2; 4096]).unwrap();
            device.fail_after(0, Fault::Error(5));
            assert!(device.flush(DeviceFile::Heap).is_err());
            device.write(DeviceFile::Heap, 0, &[3; 4096]).unwrap();
            device.flush(DeviceFile::Heap).unwrap();
            assert_eq!(device.size(DeviceFile::Heap).unwrap(), 16384);
            device.power_cycle();
            lost += u32::from(device.size(DeviceFile::Heap).unwrap() == 8192);
            assert_eq!(first(&device), [3; 4096]);
        }
        assert!((10..90).contains(&lost), "{lost} of 100");
        let device = device(1);
        device.grow(DeviceFile::Heap, 16384).unwrap();
        device.power_cycle();
        assert_eq!(device.size(DeviceFile::Heap).unwrap(), 16384, "what was flushed stays");
    }

    #[test]
    fn without_power_nothing_works() {
        let device = device(1);
        device.fail_after(1, Fault::PowerOff);
        device.write(DeviceFile::Heap, 0, &[2; 512]).unwrap();
        assert!(device.flush(DeviceFile::Heap).is_err());
        assert!(device.is_off());
        assert!(device.read(DeviceFile::Heap, 0, &mut [0; 8]).is_err());
        device.power_cycle();
        assert!(device.read(DeviceFile::Heap, 0, &mut [0; 8]).is_ok());
    }
}
