//! Memory through a reference to a view.

use super::deadlock::Awaited;
use super::{
    Address, Counters, DataWords, Device, Event, LINE_WORDS, Memory, PersistentAddress, Space, Step,
    VolatileAddress,
};
use crate::error::{Error, Result};

/// A reference to a view can be used in place of the view.
impl<M: Memory> Memory for &M {
    fn admit_thread(&self) {
        (**self).admit_thread();
    }
    fn begin_transaction(&self) -> Result<()> {
        (**self).begin_transaction()
    }
    fn end_transaction(&self) {
        (**self).end_transaction();
    }
    fn is_forked(&self) -> bool {
        (**self).is_forked()
    }
    fn is_nested(&self) -> bool {
        (**self).is_nested()
    }
    fn poll_wait(&self, awaited: Awaited) -> Result<()> {
        (**self).poll_wait(awaited)
    }
    fn end_wait(&self) {
        (**self).end_wait();
    }
    fn note_owner(&self, at: VolatileAddress, owner: u64) {
        (**self).note_owner(at, owner);
    }
    fn notify(&self, at: VolatileAddress) {
        (**self).notify(at);
    }
    fn load<A: Address>(&self, at: A) -> u64 {
        (**self).load(at)
    }
    fn peek<A: Address>(&self, at: A) -> u64 {
        (**self).peek(at)
    }
    fn load_before_store<A: Address>(&self, at: A) -> u64 {
        (**self).load_before_store(at)
    }
    fn number_transaction(&self, at: VolatileAddress) -> u64 {
        (**self).number_transaction(at)
    }
    fn takes_stores_back(&self) -> bool {
        (**self).takes_stores_back()
    }
    fn caches_survive(&self) -> bool {
        (**self).caches_survive()
    }
    fn store<A: Address>(&self, at: A, value: u64) {
        (**self).store(at, value);
    }
    fn load_range<A: Address>(&self, at: A, into: &mut [u64]) {
        (**self).load_range(at, into);
    }
    fn data_words(&self) -> Option<DataWords<'_>> {
        (**self).data_words()
    }
    fn store_range<A: Address>(&self, at: A, from: &[u64]) {
        (**self).store_range(at, from);
    }
    fn store_pair<A: Address>(&self, at: A, pair: [u64; 2]) {
        (**self).store_pair(at, pair);
    }
    #[track_caller]
    fn store_pairs(
        &self,
        at: PersistentAddress,
        pairs: impl ExactSizeIterator<Item = [u64; 2]>,
        last: [u64; 2],
    ) {
        (**self).store_pairs(at, pairs, last);
    }
    #[track_caller]
    fn store_each(&self, words: &[(PersistentAddress, u64)]) {
        (**self).store_each(words);
    }
    #[track_caller]
    fn store_line_non_temporal(&self, line: PersistentAddress, pairs: &[[u64; 2]; LINE_WORDS as usize / 2]) {
        (**self).store_line_non_temporal(line, pairs);
    }
    fn store_non_temporal(&self, at: PersistentAddress, value: u64) {
        (**self).store_non_temporal(at, value);
    }
    fn evict(&self, at: PersistentAddress, bytes: u64) {
        (**self).evict(at, bytes);
    }
    fn load_line(&self, line: PersistentAddress) -> [u64; LINE_WORDS as usize] {
        (**self).load_line(line)
    }
    fn compare_exchange<A: Address>(&self, at: A, current: u64, new: u64) -> Result<u64, u64> {
        (**self).compare_exchange(at, current, new)
    }
    fn fetch_add<A: Address>(&self, at: A, by: u64) -> u64 {
        (**self).fetch_add(at, by)
    }
    fn write_back(&self, at: PersistentAddress, step: Step) {
        (**self).write_back(at, step);
    }
    fn write_back_range(&self, at: PersistentAddress, bytes: u64, step: Step) {
        (**self).write_back_range(at, bytes, step);
    }
    fn fence(&self, step: Step) {
        (**self).fence(step);
    }
    unsafe fn borrow(&self, at: PersistentAddress, bytes: u64) -> Option<&[u8]> {
        // SAFETY: as the caller promises.
        unsafe { (**self).borrow(at, bytes) }
    }
    fn prefetch(&self, at: PersistentAddress, words: usize) {
        (**self).prefetch(at, words);
    }
    fn read_ahead(&self, places: &mut [PersistentAddress], words: usize, further: u64) {
        (**self).read_ahead(places, words, further);
    }
    fn walk(&self, begins: bool) {
        (**self).walk(begins);
    }
    fn pages_waited_for(&self) -> u64 {
        (**self).pages_waited_for()
    }
    fn prefetch_for_write(&self, at: PersistentAddress) {
        (**self).prefetch_for_write(at);
    }
    fn write_back_all(&self, step: Step) -> bool {
        (**self).write_back_all(step)
    }
    fn emulates_latency(&self) -> bool {
        (**self).emulates_latency()
    }
    fn pause(&self) {
        (**self).pause();
    }
    fn wait(&self, at: VolatileAddress, value: u64) {
        (**self).wait(at, value);
    }
    fn wait_briefly(&self, at: VolatileAddress, value: u64, nanoseconds: u64) -> bool {
        (**self).wait_briefly(at, value, nanoseconds)
    }
    fn wake(&self, at: VolatileAddress) {
        (**self).wake(at);
    }
    fn wake_one(&self, at: VolatileAddress) {
        (**self).wake_one(at);
    }
    fn yield_core(&self) {
        (**self).yield_core();
    }
    fn cores(&self) -> Option<usize> {
        (**self).cores()
    }
    fn has_process_barrier(&self) -> bool {
        (**self).has_process_barrier()
    }
    fn process_barrier(&self) -> bool {
        (**self).process_barrier()
    }
    fn event(&self, event: Event) {
        (**self).event(event);
    }
    fn work(&self, instructions: u32) {
        (**self).work(instructions);
    }
    fn loaded_own(&self, words: u64) {
        (**self).loaded_own(words);
    }
    fn stored_own(&self, words: u64) {
        (**self).stored_own(words);
    }
    fn omitted(&self, step: Step) -> bool {
        (**self).omitted(step)
    }
    fn size(&self, space: Space) -> u64 {
        (**self).size(space)
    }
    fn counters(&self) -> Counters {
        (**self).counters()
    }
    fn device(&self) -> Option<&dyn Device> {
        (**self).device()
    }
    fn check_file(&self) -> Result<()> {
        (**self).check_file()
    }
    fn check_poison(&self) -> Result<()> {
        (**self).check_poison()
    }
    fn set_poison(&self, what: &str, error: &std::io::Error) {
        (**self).set_poison(what, error);
    }
    fn in_pool(&self, error: Error) -> Error {
        (**self).in_pool(error)
    }
    fn make_space(&self, at: PersistentAddress, bytes: u64) -> std::io::Result<()> {
        (**self).make_space(at, bytes)
    }
    fn expect_stores(&self, at: PersistentAddress, bytes: u64) {
        (**self).expect_stores(at, bytes);
    }
    fn punch(&self, at: PersistentAddress, bytes: u64) -> std::io::Result<()> {
        (**self).punch(at, bytes)
    }
    fn flush_file(&self) -> std::io::Result<()> {
        (**self).flush_file()
    }
    fn give_back(&self, at: PersistentAddress, bytes: u64) -> bool {
        (**self).give_back(at, bytes)
    }
    fn page_bytes(&self) -> u64 {
        (**self).page_bytes()
    }
    fn clear(&self, at: VolatileAddress, bytes: u64) {
        (**self).clear(at, bytes);
    }
    fn grow(&self, least: u64, most: u64) -> std::io::Result<u64> {
        (**self).grow(least, most)
    }
}
