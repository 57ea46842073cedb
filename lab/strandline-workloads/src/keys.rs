//! How threads choose the keys of their operations.

use std::str::FromStr;

use fastrand::Rng;

use crate::UnknownName;

/// How threads choose keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// All keys equally often.
    #[default]
    Even,
    /// Some keys much more often than others, as in YCSB: the key of rank r with a probability proportional to r^-0.99. The ranks are scattered over
    /// the keys.
    Zipfian,
    /// Each of up to 64 threads chooses, equally often, from a 64th of the keys that it has for itself.
    Disjoint,
}

impl Keys {
    const ALL: [Self; 3] = [Self::Even, Self::Zipfian, Self::Disjoint];

    /// Returns the name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Zipfian => "zipfian",
            Self::Disjoint => "disjoint",
        }
    }
}

impl FromStr for Keys {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|keys| keys.name() == name);
        found.ok_or_else(|| UnknownName::new("choice of keys", name, Self::ALL.into_iter().map(Self::name)))
    }
}

/// The exponent of YCSB's Zipf distribution.
const EXPONENT: f64 = 0.99;

/// The number of parts, which is the maximum of threads with keys of their own.
const PARTS: u64 = 64;

/// One thread's choice of keys below a number.
pub struct Draw {
    keys: u64,
    how: How,
}

enum How {
    Even,
    Zipfian(Zipf),
    /// The first of the thread's own keys, and how many there are.
    Own(u64, u64),
}

impl Draw {
    /// Returns the choice of a thread whose random numbers are drawn from `seed`. Threads that run together have different remainders of
    /// their seeds modulo 64 ([`seed_of`](strandline_bench::seed_of)), which number the parts of [`Keys::Disjoint`].
    pub fn new(choice: Keys, keys: u64, seed: u64) -> Self {
        let own = (keys / PARTS).max(1);
        let how = match choice {
            Keys::Even => How::Even,
            Keys::Zipfian => How::Zipfian(Zipf::new(keys)),
            Keys::Disjoint => How::Own(seed % PARTS * own % keys, own),
        };
        Self { keys, how }
    }

    /// Draws a key, by the choice with which these keys were made.
    pub fn key(&self, random: &mut Rng) -> u64 {
        /// A prime that is greater than any number of keys, so that different ranks have different keys.
        const SCATTER: u64 = 2_654_435_761;
        match &self.how {
            How::Even => random.u64(..self.keys),
            How::Zipfian(zipf) => zipf.rank(random.f64()).wrapping_mul(SCATTER) % self.keys,
            How::Own(first, own) => first + random.u64(..*own),
        }
    }
}

/// A Zipf distribution over ranks from 0, drawn as in YCSB, by the approximation of Gray et al. (Quickly generating billion-record synthetic databases).
struct Zipf {
    ranks: f64,
    /// The sum of all weights, of which the first one is 1.
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(ranks: u64) -> Self {
        let (zeta, ranks) = (zeta(ranks), ranks as f64);
        let eta = (1.0 - (2.0 / ranks).powf(1.0 - EXPONENT)) / (1.0 - (1.0 + second()) / zeta);
        Self { ranks, zeta, eta }
    }

    /// Returns the rank of a number that is drawn evenly from 0 to 1.
    fn rank(&self, drawn: f64) -> u64 {
        match drawn * self.zeta {
            below if below < 1.0 => 0,
            below if below < 1.0 + second() => 1,
            _ => {
                let rank = self.ranks * (self.eta * drawn - self.eta + 1.0).powf(1.0 / (1.0 - EXPONENT));
                (rank as u64).min(self.ranks as u64 - 1)
            }
        }
    }
}

/// The weight of the second rank.
fn second() -> f64 {
    0.5_f64.powf(EXPONENT)
}

/// Returns the sum of the weights of so many ranks: of the first thousand one by one, and of the others by the Euler–Maclaurin formula.
fn zeta(ranks: u64) -> f64 {
    const EXACT: u64 = 1000;
    let weight = |rank: f64| rank.powf(-EXPONENT);
    let sum: f64 = (1..=ranks.min(EXACT)).map(|rank| weight(rank as f64)).sum();
    if ranks <= EXACT {
        return sum;
    }
    let (from, to) = (EXACT as f64, ranks as f64);
    let integral = (to.powf(1.0 - EXPONENT) - from.powf(1.0 - EXPONENT)) / (1.0 - EXPONENT);
    sum + integral + (weight(to) - weight(from)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u64 = 100_000;

    #[test]
    fn popular_keys_have_the_shares_of_the_distribution() {
        let exact: f64 = (1..=KEYS).map(|rank| (rank as f64).powf(-EXPONENT)).sum();
        assert!((zeta(KEYS) - exact).abs() < 1e-6, "{} for {exact}", zeta(KEYS));
        let (draw, mut random) = (Draw::new(Keys::Zipfian, KEYS, 1), Rng::with_seed(1));
        let mut counts = vec![0_u64; KEYS as usize];
        const DRAWS: u64 = 200_000;
        (0..DRAWS).for_each(|_| counts[draw.key(&mut random) as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let share = |rank: usize| counts[rank] as f64 / DRAWS as f64;
        assert!((share(0) * exact - 1.0).abs() < 0.05, "the first has {}", share(0));
        assert!((share(1) * exact / second() - 1.0).abs() < 0.05, "the second has {}", share(1));
        let hundred: f64 = (0..100).map(share).sum();
        let expected = zeta(100) / exact;
        assert!((hundred / expected - 1.0).abs() < 0.1, "a hundred have {hundred}, not {expected}");
    }

    #[test]
    fn threads_have_keys_of_their_own() {
        let mut owners = vec![None; KEYS as usize];
        for index in 0..PARTS {
            let seed = strandline_bench::seed_of(5, index);
            let (draw, mut random) = (Draw::new(Keys::Disjoint, KEYS, seed), Rng::with_seed(seed));
            for _ in 0..1000 {
                let owner = owners[draw.key(&mut random) as usize].replace(index);
                assert!(owner.is_none_or(|owner| owner == index));
            }
        }
        // There may be fewer keys than threads.
        let few = Draw::new(Keys::Disjoint, 3, 50);
        assert!(few.key(&mut Rng::with_seed(1)) < 3);
    }

    #[test]
    fn names_are_found() {
        for keys in Keys::ALL {
            assert_eq!(keys.name().parse(), Ok(keys));
        }
        assert!("hot".parse::<Keys>().unwrap_err().to_string().contains("zipfian"));
    }
}
