//! A search index over text files: an inverted index as a map of maps.
//!
//! ```text
//! cargo run --release -p strandline --example search_index -- /tmp/index.db add docs/*.md
//! cargo run --release -p strandline --example search_index -- /tmp/index.db find durable log
//! ```
//!
//! Each file is indexed by one transaction: a search sees all of a file or nothing of it, and an indexing run that was
//! killed goes on with the files that are missing.

use std::collections::HashMap as Counts;

use strandline::{Error, HashMap, Options, OrderedMap, Persist, Result, Store, Text, Tx};

#[derive(Persist)]
struct Index<'p> {
    /// How often each word is in each document.
    words: HashMap<'p, String, OrderedMap<'p, u64, u32>>,
    documents: OrderedMap<'p, u64, Document<'p>>,
    /// The number of each file.
    numbers: HashMap<'p, String, u64>,
}

#[derive(Clone, Copy, Persist)]
struct Document<'p> {
    path: Text<'p>,
    words: u32,
}

fn words_of(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2).map(str::to_lowercase)
}

/// Indexes a file, once.
fn add<'p>(tx: &Tx<'p>, index: &Index<'p>, path: &str, text: &str) -> Result<bool> {
    if index.numbers.contains_key(tx, path)? {
        return Ok(false);
    }
    let number = index.documents.last(tx)?.map_or(0, |(last, _)| last + 1);
    let mut counts: Counts<String, u32> = Counts::new();
    for word in words_of(text) {
        *counts.entry(word).or_default() += 1;
    }
    let document = Document { path: Text::new(tx, path)?, words: counts.values().sum() };
    index.documents.insert(tx, &number, &document)?;
    index.numbers.insert(tx, &path.to_string(), &number)?;
    for (word, count) in counts {
        let postings = index.words.entry(tx, word)?.or_insert_with(|| OrderedMap::new(tx))?;
        postings.insert(tx, &number, &count)?;
    }
    Ok(true)
}

/// The documents that have all of `words`, those with most of them first.
fn find(store: &Store<Index>, words: &[String]) -> Result<Vec<(f64, String)>> {
    store.read(|tx, root| {
        let index = root.get(tx)?;
        let mut scores: Counts<u64, (usize, f64)> = Counts::new();
        let documents = index.documents.count(tx)?.max(1) as f64;
        for word in words {
            let Some(postings) = index.words.get(tx, word)? else { return Ok(Vec::new()) };
            let found = postings.iter(tx).collect::<Result<Vec<_>>>()?;
            // A word that is everywhere says little.
            let weight = (1.0 + documents / found.len() as f64).ln();
            for (document, count) in found {
                let score = scores.entry(document).or_default();
                score.0 += 1;
                score.1 += f64::from(count) * weight;
            }
        }
        let mut found = Vec::new();
        for (number, (matches, score)) in scores {
            if matches == words.len()
                && let Some(document) = index.documents.get(tx, &number)?
            {
                found.push((1000.0 * score / f64::from(document.words.max(1)), document.path.get(tx)?));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(found)
    })
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(path), Some(command)) = (arguments.first(), arguments.get(1)) else {
        eprintln!("usage: search_index POOL add FILE… | find WORD…");
        std::process::exit(2);
    };
    let options = Options { layout_name: "search index".into(), ..Options::default() };
    let store = Store::<Index>::open(path, &options, |tx| {
        Ok(Index { words: HashMap::new(tx)?, documents: OrderedMap::new(tx)?, numbers: HashMap::new(tx)? })
    })?;
    if command == "add" {
        for file in &arguments[2..] {
            let text =
                std::fs::read_to_string(file).map_err(|error| Error::io(format!("read {file}"), error))?;
            let added = store.write(|tx, root| add(tx, &root.get(tx)?, file, &text))?;
            println!("{file}: {}", if added { "indexed" } else { "known" });
        }
    } else {
        let words: Vec<_> = arguments[2..].iter().flat_map(|argument| words_of(argument)).collect();
        for (score, path) in find(&store, &words)? {
            println!("{score:8.1} {path}");
        }
    }
    store.close()
}
