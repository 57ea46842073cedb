//! The papers' quantitative claims, from the project's data file `papers/claims.toml`.

use std::fmt;
use std::sync::LazyLock;

/// How a claim is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The measured numbers must equal the paper's.
    Exact,
    /// A main result: the number must be within 10% of the paper's, and on the same side of the baseline.
    Headline,
    /// The direction or order must hold.
    Trend,
}

/// A paper's number or numbers, or an order or formula in words.
#[derive(Clone, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(untagged)]
pub enum Value {
    /// One number.
    Number(f64),
    /// Numbers, in the order that the claim names.
    Numbers(Vec<f64>),
    /// An order in words, or a formula.
    Text(String),
    /// Formulas, in the order that the claim names.
    Texts(Vec<String>),
}

impl Value {
    /// Returns the numbers, or none of a text.
    pub fn numbers(&self) -> &[f64] {
        match self {
            Self::Number(number) => std::slice::from_ref(number),
            Self::Numbers(numbers) => numbers,
            Self::Text(_) | Self::Texts(_) => &[],
        }
    }
}

/// One quantitative claim of a paper.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
pub struct Claim {
    /// The paper's letter and a number.
    pub id: String,
    /// Figure, table or section.
    #[serde(rename = "where")]
    pub place: String,
    /// The quantity, in words.
    pub what: String,
    /// The paper's value.
    pub value: Value,
    /// The unit of the numbers.
    pub unit: String,
    /// How it is judged.
    pub kind: Kind,
}

#[derive(serde::Deserialize)]
struct File {
    claim: Vec<Claim>,
}

/// Returns all claims of all papers, in the order of the file.
pub fn claims() -> &'static [Claim] {
    static CLAIMS: LazyLock<Vec<Claim>> = LazyLock::new(|| {
        toml::from_str::<File>(include_str!("../papers/claims.toml"))
            .expect("the claims are part of this crate and tested")
            .claim
    });
    &CLAIMS
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Texts(texts) => f.write_str(&texts.join(", ")),
            Self::Number(_) | Self::Numbers(_) => {
                let numbers: Vec<_> = self.numbers().iter().map(|&number| printed(number)).collect();
                f.write_str(&numbers.join(", "))
            }
        }
    }
}

/// Formats a number as in the paper.
fn printed(value: f64) -> String {
    if value.abs() >= 1e4 { readable(value) } else { value.to_string() }
}

/// Formats a number with as many digits as a reader needs. Infinity and NaN become a dash.
pub fn readable(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let magnitude = value.abs();
    if magnitude >= 1e4 {
        let whole = format!("{value:.0}");
        let (sign, digits) = whole.strip_prefix('-').map_or(("", whole.as_str()), |digits| ("-", digits));
        let groups: Vec<_> =
            digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group)).collect();
        return format!("{sign}{}", groups.join(","));
    }
    let decimals = match magnitude {
        m if m >= 100.0 => 0,
        m if m >= 10.0 => 1,
        m if m >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_file_holds_the_claims_of_five_papers() {
        let ids = claims().iter().map(|claim| claim.id.as_str());
        let count = |letter| ids.clone().filter(|id| id.starts_with(letter)).count();
        assert_eq!("BLDAW".chars().map(count).collect::<Vec<_>>(), [22, 22, 14, 16, 14]);
        let mut unique: Vec<_> = ids.collect();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), claims().len());
        assert_eq!(claims()[0].value, Value::Numbers(vec![1.563, 2.437]));
    }

    #[test]
    fn numbers_read_well() {
        let all = [0.397, 1.863, 2.0, 49.81, 150.0, 1_048_576.0, -12345.6, 0.0];
        let texts: Vec<_> = all.iter().map(|&number| readable(number)).collect();
        assert_eq!(texts, ["0.397", "1.86", "2", "49.8", "150", "1,048,576", "-12,346", "0"]);
        assert_eq!([f64::INFINITY, f64::NAN].map(readable), ["–", "–"]);
    }
}
