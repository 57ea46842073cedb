//! The measurements of a run: series of numbers, from which figures are drawn and by which claims are judged.

/// The median of repetitions, and the range of their middle half.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Spread {
    /// A quarter of the repetitions are below.
    pub low: f64,
    /// The median of the repetitions.
    pub median: f64,
    /// A quarter of the repetitions are above.
    pub high: f64,
}

impl Spread {
    /// Returns the spread of these repetitions; `None` if there are none.
    pub fn of(repetitions: &[f64]) -> Option<Self> {
        let mut sorted = repetitions.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        // Values between neighbours are interpolated.
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Some(Self { low: at(0.25), median: at(0.5), high: at(0.75) })
    }

    /// Returns the median of these repetitions, and their lowest and highest in place of the quarters; `None` if there are none.
    pub fn whole(repetitions: &[f64]) -> Option<Self> {
        let ends = repetitions.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| {
            (low.min(value), high.max(value))
        });
        Some(Self { low: ends.0, high: ends.1, ..Self::of(repetitions)? })
    }

    /// Returns the spread of a single exact value.
    pub fn exactly(value: f64) -> Self {
        Self { low: value, median: value, high: value }
    }

    /// Multiplies all values by a positive factor.
    #[must_use]
    pub fn scaled(self, by: f64) -> Self {
        Self { low: self.low * by, median: self.median * by, high: self.high * by }
    }
}

/// The subject of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The id of the figure that the series belongs to.
    pub figure: &'a str,
    /// The setting within it, such as the workload or the instruction.
    pub setting: &'a str,
    /// The system that was measured: a scheme in one of its modes, or a reference.
    pub system: &'a str,
    /// The quantity, with its unit.
    pub quantity: &'a str,
}

/// One quantity of one system over the figure's parameter.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Series {
    figure: String,
    setting: String,
    system: String,
    quantity: String,
    points: Vec<Point>,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Point {
    x: String,
    #[serde(flatten)]
    spread: Spread,
    /// The repetitions of each point, if they can be redrawn.
    #[serde(skip)]
    repetitions: Vec<f64>,
    /// The simulated values of each point, one for each seed, in order.
    #[serde(skip)]
    of_seeds: Vec<f64>,
}

impl Series {
    /// Returns the parameter's values, in the order in which they were measured.
    pub fn xs(&self) -> impl Iterator<Item = &str> {
        self.points.iter().map(|point| point.x.as_str())
    }

    /// Returns what the series describes.
    pub fn key(&self) -> Key<'_> {
        Key { figure: &self.figure, setting: &self.setting, system: &self.system, quantity: &self.quantity }
    }
}

/// All series of a run.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Measurements(Vec<Series>);

impl Measurements {
    /// Adds a point to a series.
    pub fn add(&mut self, key: Key, x: &str, spread: Spread) {
        self.series(key).points.push(Point {
            x: x.into(),
            spread,
            repetitions: Vec::new(),
            of_seeds: Vec::new(),
        });
    }

    /// Adds a point to a series: a simulation's results with each of several seeds.
    pub fn add_seeds(&mut self, key: Key, x: &str, values: &[f64]) {
        if let Some(spread) = Spread::of(values) {
            let point = Point { x: x.into(), spread, repetitions: Vec::new(), of_seeds: values.to_vec() };
            self.series(key).points.push(point);
        }
    }

    /// Splits measurements of simulations that were run with several seeds into one set for each seed. Points without seeds are in every
    /// set.
    pub(crate) fn of_seeds(&self) -> Vec<Self> {
        let points = || self.0.iter().flat_map(|series| &series.points);
        let seeds = points().map(|point| point.of_seeds.len()).max().unwrap_or(0);
        let of = |seed: usize| {
            let mut own = self.clone();
            for point in own.0.iter_mut().flat_map(|series| &mut series.points) {
                if let Some(&value) = point.of_seeds.get(seed) {
                    point.spread = Spread::exactly(value);
                }
            }
            own
        };
        (0..seeds).map(of).collect()
    }

    /// Adds repetitions to a point, which is created if necessary.
    pub fn add_repetitions(&mut self, key: Key, x: &str, values: &[f64]) {
        let points = &mut self.series(key).points;
        let mut repetitions = match points.iter().position(|point| point.x == x) {
            Some(index) => points.remove(index).repetitions,
            None => Vec::new(),
        };
        repetitions.extend(values);
        if let Some(spread) = Spread::of(&repetitions) {
            points.push(Point { x: x.into(), spread, repetitions, of_seeds: Vec::new() });
        }
    }

    /// Returns the series of a key, created if necessary.
    fn series(&mut self, key: Key) -> &mut Series {
        let index = self.0.iter().position(|series| series.key() == key).unwrap_or_else(|| {
            self.0.push(Series {
                figure: key.figure.into(),
                setting: key.setting.into(),
                system: key.system.into(),
                quantity: key.quantity.into(),
                points: Vec::new(),
            });
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    /// Returns alternative measurements: for each point as many repetitions, drawn with replacement from its own. All points draw the same turns,
    /// since measurements of one turn share the same noise.
    pub(crate) fn redrawn(&self, random: &mut fastrand::Rng) -> Self {
        let points = || self.0.iter().flat_map(|series| &series.points);
        let most = points().map(|point| point.repetitions.len()).max().unwrap_or(0);
        let turns: Vec<f64> = (0..most).map(|_| random.f64()).collect();
        let mut drawn = self.clone();
        for point in drawn.0.iter_mut().flat_map(|series| &mut series.points) {
            let count = point.repetitions.len();
            let one = |turn: &f64| point.repetitions[(turn * count as f64) as usize];
            let repetitions: Vec<f64> = turns.iter().take(count).map(one).collect();
            if let Some(spread) = Spread::of(&repetitions) {
                point.spread = spread;
            }
        }
        drawn
    }

    /// Returns the spread at `x`.
    pub fn spread(&self, key: Key, x: &str) -> Option<Spread> {
        let series = self.0.iter().find(|series| series.key() == key)?;
        series.points.iter().find(|point| point.x == x).map(|point| point.spread)
    }

    /// Returns the median at `x`.
    pub fn median(&self, key: Key, x: &str) -> Option<f64> {
        self.spread(key, x).map(|spread| spread.median)
    }

    /// Returns the settings of a figure, in the order in which they were measured.
    pub fn settings(&self, figure: &str) -> Vec<&str> {
        unique(self.of(figure).map(|series| series.setting.as_str()))
    }

    /// Returns the values of a figure's parameter, in the order in which they were measured.
    pub fn xs(&self, figure: &str) -> Vec<&str> {
        unique(self.of(figure).flat_map(|series| series.points.iter().map(|point| point.x.as_str())))
    }

    /// Returns the measurements without the series of these figures.
    #[must_use]
    pub(crate) fn without(mut self, figures: &[&str]) -> Self {
        self.0.retain(|series| !figures.contains(&series.figure.as_str()));
        self
    }

    /// Returns a figure's series.
    pub fn of<'a>(&'a self, figure: &str) -> impl Iterator<Item = &'a Series> {
        self.0.iter().filter(move |series| series.figure == figure)
    }
}

fn unique<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quartiles() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[3.0]), Some(Spread::exactly(3.0)));
        assert_eq!(Spread::of(&[5.0, 1.0, 2.0, 4.0, 3.0]), Some(Spread { low: 2.0, median: 3.0, high: 4.0 }));
        assert_eq!(Spread::of(&[1.0, 2.0]), Some(Spread { low: 1.25, median: 1.5, high: 1.75 }));
    }

    #[test]
    fn repetitions_add_up_and_are_drawn_in_the_same_turns() {
        let mut all = Measurements::default();
        let key = |system| Key { figure: "f", setting: "s", system, quantity: "q" };
        for (system, factor) in [("a", 1.0), ("b", 10.0)] {
            all.add_repetitions(key(system), "1", &[factor, 2.0 * factor]);
            all.add_repetitions(key(system), "1", &[6.0 * factor]);
        }
        all.add(key("c"), "1", Spread::exactly(5.0));
        assert_eq!(all.median(key("a"), "1"), Some(2.0), "of all three");
        assert_eq!(all.xs("f"), ["1"]);
        let mut random = fastrand::Rng::with_seed(1);
        let mut medians: Vec<f64> = Vec::new();
        for _ in 0..50 {
            let drawn = all.redrawn(&mut random);
            let median = |system| drawn.median(key(system), "1").unwrap();
            assert_eq!(
                median("b"),
                10.0 * median("a"),
                "noise of a turn is common to what is measured in it"
            );
            assert_eq!(median("c"), 5.0);
            medians.push(median("a"));
        }
        for each in [1.0, 2.0, 6.0] {
            assert!(medians.contains(&each), "{each} of {medians:?}");
        }
    }

    #[test]
    fn series_are_found_again() {
        let mut all = Measurements::default();
        let key = |system| Key { figure: "f", setting: "s", system, quantity: "q" };
        all.add(key("a"), "1", Spread::exactly(7.0));
        all.add(key("a"), "2", Spread::exactly(8.0));
        all.add(key("b"), "1", Spread::exactly(9.0));
        assert_eq!(all.median(key("a"), "2"), Some(8.0));
        assert_eq!(all.median(key("b"), "2"), None);
        assert_eq!((all.xs("f"), all.settings("f")), (vec!["1", "2"], vec!["s"]));
        assert_eq!(all.of("g").count(), 0);
    }
}
