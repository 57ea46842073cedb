//! Conversions between numbers and the keys and values that represent them.

/// Returns signed keys on both sides of 0, in the order of their numbers.
pub fn signed(number: u64) -> i64 {
    (number as i64).wrapping_sub(SMALLEST)
}

const SMALLEST: i64 = 16;

/// Returns the number of a signed key.
pub fn number_of(key: i64) -> u64 {
    key.wrapping_add(SMALLEST) as u64
}

/// Returns a value of so many words, at least one.
pub fn words(value: u64, count: u64) -> Vec<u64> {
    (0..count).map(|index| value.rotate_left(index as u32) ^ index).collect()
}

/// Returns the value that `words` represent; `None` if they represent none.
pub fn of_words(found: &[u64]) -> Option<u64> {
    let value = *found.first()?;
    (found == words(value, found.len() as u64)).then_some(value)
}

/// Returns the bytes of a key. Keys have several lengths, and one may be a prefix of another. Number 0 is the empty string.
pub fn key(number: u64) -> Vec<u8> {
    if number == 0 {
        return Vec::new();
    }
    let mut key = number.to_string().into_bytes();
    key.resize(key.len() + 6 * (number % 5) as usize, b'-');
    key
}

/// Returns the number of a key.
pub fn of_key(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let number = if text.is_empty() { 0 } else { text.trim_end_matches('-').parse().ok()? };
    (bytes == key(number)).then_some(number)
}

/// Returns the bytes of a value, 8 to 771 bytes, depending on its low byte. Value 0 is the empty string.
pub fn bytes(value: u64) -> Vec<u8> {
    if value == 0 {
        return Vec::new();
    }
    let low = (value & 0xff) as usize;
    value.to_le_bytes().into_iter().cycle().take(8 + low + low * low / 128).collect()
}

/// Returns the value that the bytes represent.
pub fn of_bytes(found: &[u8]) -> Option<u64> {
    if found.is_empty() {
        return Some(0);
    }
    let value = u64::from_le_bytes(*found.first_chunk()?);
    (found == bytes(value)).then_some(value)
}
