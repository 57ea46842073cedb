//! The random numbers and texts of TPC-C (clauses 2.1.6 and 4.3.2).

use fastrand::Rng;

/// `NURand(A, x, y)`: a number from `x` to `y`, some more often than others (clause 2.1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonUniform {
    a: u64,
    c: u64,
}

impl NonUniform {
    /// Creates it with a constant C from 0 to `a`.
    pub fn new(a: u64, random: &mut Rng) -> Self {
        Self { a, c: random.u64(..=a) }
    }

    /// Draws a number from `from` to `to`.
    pub fn draw(self, random: &mut Rng, from: u64, to: u64) -> u64 {
        ((random.u64(..=self.a) | random.u64(from..=to)) + self.c) % (to - from + 1) + from
    }
}

/// The constants C of one database and all its terminals (clause 2.1.6.1). C_LAST also has a constant for running, which only transactions other than
/// New Order would use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// For last names while loading.
    pub c_last: NonUniform,
    /// For customers.
    pub c_id: NonUniform,
    /// For items.
    pub ol_i_id: NonUniform,
}

impl Constants {
    /// Returns the constants for a seed.
    pub fn new(seed: u64) -> Self {
        let random = &mut Rng::with_seed(seed);
        Self {
            c_last: NonUniform::new(255, random),
            c_id: NonUniform::new(1023, random),
            ol_i_id: NonUniform::new(8191, random),
        }
    }
}

/// Returns a random text of `from` to `to` letters and digits (clause 4.3.2.2).
pub fn letters(random: &mut Rng, from: usize, to: usize) -> Vec<u8> {
    let length = random.usize(from..=to);
    (0..length).map(|_| random.alphanumeric() as u8).collect()
}

/// Returns a random text of `length` digits (clause 4.3.2.2).
pub fn digits(random: &mut Rng, length: usize) -> Vec<u8> {
    (0..length).map(|_| b'0' + random.u8(..10)).collect()
}

/// Returns a zip code (clause 4.3.2.7).
pub fn zip(random: &mut Rng) -> Vec<u8> {
    let mut zip = digits(random, 4);
    zip.extend(b"11111");
    zip
}

/// Returns a text for I_DATA or S_DATA; one in ten contains "ORIGINAL" somewhere (clause 4.3.3.1).
pub fn data(random: &mut Rng) -> Vec<u8> {
    let mut data = letters(random, 26, 50);
    if random.u64(..10) == 0 {
        let at = random.usize(..=data.len() - ORIGINAL.len());
        data[at..at + ORIGINAL.len()].copy_from_slice(&ORIGINAL);
    }
    data
}

/// The mark of an original text.
pub const ORIGINAL: [u8; 8] = *b"ORIGINAL";

/// Returns the last name for a number below 1000 (clause 4.3.2.3).
pub fn last_name(number: u64) -> Vec<u8> {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100 % 10, number / 10 % 10, number % 10]
        .iter()
        .flat_map(|&digit| SYLLABLES[digit as usize].bytes())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_of_the_specification() {
        assert_eq!(last_name(371), b"PRICALLYOUGHT");
        assert_eq!(last_name(40), b"BARPRESBAR");
        assert!((0..1000).all(|number| last_name(number).len() <= 16));
    }

    #[test]
    fn non_uniform_numbers_stay_in_range_and_are_not_uniform() {
        let random = &mut Rng::with_seed(1);
        let constants = Constants::new(2);
        let mut counts = vec![0u32; 3001];
        for _ in 0..300_000 {
            counts[constants.c_id.draw(random, 1, 3000) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        counts.remove(0);
        counts.sort_unstable();
        // Ones in the lower ten bits are three times as likely as zeros; with equal chances each number would have a mean of 100.
        assert!(counts[2999] > 400 && counts[1500] < 80, "{} {}", counts[2999], counts[1500]);
    }

    #[test]
    fn one_text_in_ten_is_original() {
        let random = &mut Rng::with_seed(3);
        let originals = (0..10_000).filter(|_| data(random).windows(8).any(|part| part == ORIGINAL)).count();
        assert!((850..1150).contains(&originals), "{originals}");
    }
}
