//! Decides what survived: by a depth-first search, by chance, or by a list of decisions.

use fastrand::Rng;

use crate::x86::mix;

/// A decision that a run made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The word's number in the pool.
    pub word: u32,
    /// The index of the value, 0 for the oldest.
    pub chosen: u32,
    /// The number of values that were possible.
    pub of: u32,
    /// The chosen value.
    pub value: u64,
    /// The newest possible value.
    pub newest: u64,
}

impl Decision {
    /// Returns whether a newer value was lost.
    pub fn is_loss(&self) -> bool {
        self.chosen + 1 < self.of
    }
}

/// How a random run decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mood {
    /// How often the newest value survives, of 65,535.
    newest: u16,
    /// How often the oldest survives if the newest does not, of 256.
    oldest: u8,
    /// If set, whole lines go one way, and half of them, chosen by their number and this seed, the other way.
    by_line: Option<u32>,
    /// If not 0, only the last so many stored words may be lost, half of them.
    latest: usize,
    /// The place at which a record is torn.
    torn: Option<Torn>,
}

/// Adjacent words of which those before a place have gone one way and those after it the other: a record's head without its tail, or its tail without
/// its head.
#[derive(Clone, Copy, Debug)]
struct Torn {
    /// The first word after the place.
    at: u32,
    /// True if the words before the place survive; otherwise the ones after it do.
    before: bool,
    /// True if a lost word has its oldest value; otherwise it has the newest but one.
    oldest: bool,
}

impl Torn {
    /// Returns the choice for `word`; `None` if it is elsewhere.
    fn choose(self, word: u32, of: u32) -> Option<u32> {
        const REACH: u32 = 16;
        let lost = if self.oldest { 0 } else { of - 2 };
        let choice = if (word < self.at) == self.before { of - 1 } else { lost };
        (word.abs_diff(self.at) <= REACH).then_some(choice)
    }
}

impl Mood {
    /// Returns a random mood; extreme moods are as frequent as moderate ones.
    pub fn random(random: &mut Rng) -> Self {
        loop {
            let mood = Self::any(random);
            // All newest values are one state, and so are all oldest ones.
            let one = mood.newest == u16::MAX || mood.newest == 0 && mood.oldest == 255;
            if !one || mood.by_line.is_some() || mood.latest > 0 || random.u8(..8) == 0 {
                return mood;
            }
        }
    }

    fn any(random: &mut Rng) -> Self {
        let latest = if random.u8(..4) == 0 { 1 << random.u32(..5) } else { 0 };
        // With the last but one of these, a word or two of a log are lost.
        let newest = [0, 5_000, 32_000, 60_000, 65_300, u16::MAX][random.usize(..6)];
        let oldest = [0, 128, 255][random.usize(..3)];
        Self { newest, oldest, by_line: (random.u8(..3) == 0).then(|| random.u32(..)), latest, torn: None }
    }

    /// Returns a mood in which a record is torn at one of the recently `stored` words; everything else survives, or little of it.
    pub fn torn(random: &mut Rng, stored: &[u32]) -> Self {
        let at = stored.get(random.usize(..stored.len().max(1))).map(|word| word + random.u32(..2));
        let newest = [u16::MAX, u16::MAX, 32_000, 0][random.usize(..4)];
        let torn = at.map(|at| Torn { at, before: random.bool(), oldest: random.u8(..4) > 0 });
        Self { newest, oldest: 128, by_line: None, latest: 0, torn }
    }

    /// Returns the choice for `word`; `stored` are recently stored words, the last one first.
    fn choose(&self, random: &mut Rng, word: u32, of: u32, stored: &[u32]) -> u32 {
        if let Some(choice) = self.torn.and_then(|torn| torn.choose(word, of)) {
            return choice;
        }
        if self.latest > 0 && !stored.is_empty() {
            let may_be_lost = stored.iter().take(self.latest).any(|&other| other == word);
            return if may_be_lost { random.u32(of.saturating_sub(2)..of) } else { of - 1 };
        }
        let turned = self
            .by_line
            .is_some_and(|salt| (word / 8).wrapping_add(salt).wrapping_mul(0x9e37_79b9) >> 31 == 1);
        let (newest, oldest) = (random.u16(..), random.u8(..));
        let take_newest = newest < self.newest || self.newest == u16::MAX;
        if take_newest != turned {
            of - 1
        } else if turned || oldest < self.oldest || self.oldest == 255 {
            0
        } else {
            random.u32(..of)
        }
    }
}

/// How to decide.
#[derive(Debug)]
pub(super) enum Chooser {
    /// By the path's choices, then the oldest values; the path advances as a depth-first search.
    Search,
    /// At random.
    Random(Rng, Mood),
    /// By the values of these decisions on the same words; otherwise at random, or by the newest value.
    Given(Vec<Decision>, Option<(Rng, Mood)>),
    /// By whole lines: these survive and all others are lost, or the other way round.
    Lines { lines: Vec<u32>, survive: bool },
}

/// The decisions of a run, and of a search's path.
#[derive(Debug)]
pub(super) struct Path {
    chooser: Chooser,
    decisions: Vec<Decision>,
    /// The number of a search's decisions that the run has reached.
    depth: usize,
    /// The number of a search's decisions that the run shares with the last run.
    repeated: usize,
    /// The words that were stored last before the crash, the last one first.
    pub stored: Vec<u32>,
}

impl Path {
    /// Creates a path without decisions.
    pub fn new(chooser: Chooser) -> Self {
        Self { chooser, decisions: Vec::new(), depth: 0, repeated: 0, stored: Vec::new() }
    }

    /// Begins a run without decisions.
    pub fn begin(&mut self, chooser: Chooser) {
        (self.chooser, self.depth, self.repeated) = (chooser, 0, 0);
        self.decisions.clear();
    }

    /// Resumes a search at the run whose decisions are `left`; the last of them is a new one.
    pub fn resume(&mut self, left: Vec<Decision>) {
        self.begin(Chooser::Search);
        self.repeated = left.len().saturating_sub(1);
        self.decisions = left;
    }

    /// Returns the decisions with which a search's next run begins, after [`Path::next`] has advanced to it.
    pub fn left(&self) -> &[Decision] {
        &self.decisions
    }

    /// Advances the search to its next run, and returns whether there is one. The next run keeps the first decisions of the last run, which stay
    /// made. Calls `undone` with each of the other decisions of the last run.
    pub fn next(&mut self, mut undone: impl FnMut(&Decision)) -> bool {
        self.decisions.truncate(self.depth);
        while let Some(last) = self.decisions.last_mut() {
            undone(last);
            if last.chosen + 1 < last.of {
                last.chosen += 1;
                self.repeated = self.decisions.len() - 1;
                self.depth = self.repeated;
                return true;
            }
            self.decisions.pop();
        }
        false
    }

    /// Marks all of a search's decisions as not made.
    pub fn unmake(&mut self) {
        self.depth = 0;
    }

    /// Returns the decisions that this run shares with the search's last run.
    pub fn repeated(&self) -> &[Decision] {
        &self.decisions[..self.repeated]
    }

    /// Returns the value of `word` if the search's last run made its next decision on this word, too.
    pub fn repeat(&mut self, word: u32) -> Option<u64> {
        let next = self.decisions.get(self.depth).filter(|_| self.depth < self.repeated)?;
        if next.word != word {
            return None;
        }
        self.depth += 1;
        Some(next.value)
    }

    /// Decides on `word` among several `choices`; returns the value.
    pub fn choose(&mut self, word: u32, choices: &[(u32, u64)]) -> u64 {
        let of = choices.len() as u32;
        let newest = choices[choices.len() - 1].1;
        let chosen = match &mut self.chooser {
            Chooser::Search => {
                self.depth += 1;
                if let Some(decision) = self.decisions.get_mut(self.depth - 1) {
                    decision.value = choices[decision.chosen as usize].1;
                    return decision.value;
                }
                0
            }
            Chooser::Random(random, mood) => mood.choose(random, word, of, &self.stored),
            Chooser::Lines { lines, survive } => {
                if lines.contains(&(word / 8)) == *survive {
                    of - 1
                } else {
                    0
                }
            }
            Chooser::Given(given, rest) => {
                let decided = given.iter().find(|decision| decision.word == word);
                let same = decided.and_then(|one| choices.iter().position(|choice| choice.1 == one.value));
                match (same, rest) {
                    (Some(chosen), _) => chosen as u32,
                    (None, Some((random, mood))) => mood.choose(random, word, of, &self.stored),
                    (None, None) => of - 1,
                }
            }
        };
        let value = choices[chosen as usize].1;
        self.decisions.push(Decision { word, chosen, of, value, newest });
        value
    }

    /// Returns whether the search has been here before: the decisions so far are the same, and later ones do not matter.
    pub fn was_here(&self) -> bool {
        matches!(self.chooser, Chooser::Search)
            && self.decisions[self.depth..].iter().any(|later| later.chosen > 0)
    }

    /// Returns the decisions of this run.
    pub fn made(&self) -> &[Decision] {
        match self.chooser {
            Chooser::Search => &self.decisions[..self.depth],
            _ => &self.decisions,
        }
    }

    /// Returns a fingerprint of this run's decisions: runs of one crash that decide differently have different ones.
    pub fn number(&self) -> u64 {
        self.made().iter().fold(6, |hash, made| mix(mix(hash, made.word.into()), made.value))
    }
}
