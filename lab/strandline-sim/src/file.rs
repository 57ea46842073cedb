//! Machines as TOML files: the presets that ship with the crate, users' files, inheritance and overrides.
//!
//! A file may inherit another machine (`inherits = "name"`, a preset or a path relative to the file). Its tables are laid over the other's key by
//! key; lists (the cache levels) are replaced as a whole. `docs/machines.md` explains how to write a file.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::description::{Description, Impossible};

/// The machines that ship with the crate: name and file.
pub const PRESETS: [(&str, &str); 7] = [
    ("loc", include_str!("../machines/loc.toml")),
    ("atom", include_str!("../machines/atom.toml")),
    ("wrap", include_str!("../machines/wrap.toml")),
    ("opteron", include_str!("../machines/opteron.toml")),
    ("xeon-e5645", include_str!("../machines/xeon-e5645.toml")),
    ("gem5-nvm", include_str!("../machines/gem5-nvm.toml")),
    ("pcm", include_str!("../machines/pcm.toml")),
];

/// The reason why a machine cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No preset and no file has this name.
    #[error("there is no machine {name:?}: choose from {presets}, or give the path of a file (.toml)", presets = names())]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// A file cannot be read.
    #[error("cannot read the machine {}: {error}", path.display())]
    Read {
        /// The machine file's path.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// A file is not valid TOML.
    #[error("{machine}: {message}")]
    Syntax {
        /// The file, or the preset.
        machine: String,
        /// The place, and what is wrong.
        message: String,
    },
    /// Machines inherit each other in a circle.
    #[error("{chain}: a machine cannot inherit from itself")]
    Circle {
        /// The machines in the order of inheritance, from the first to its own repetition.
        chain: String,
    },
    /// A key that no machine has, or a value of the wrong kind.
    #[error("{machine}: {key}: {message}")]
    Key {
        /// The file, or the preset.
        machine: String,
        /// The key in full.
        key: String,
        /// The fault, and the possible keys or values.
        message: String,
    },
    /// An override is malformed.
    #[error("--set {text}: {message}")]
    Override {
        /// The text after `--set`.
        text: String,
        /// The fault, and the possible keys or values.
        message: String,
    },
    /// A value is impossible.
    #[error("{machine}: {impossible}")]
    Impossible {
        /// The file, or the preset.
        machine: String,
        /// The key, its value, and the permitted values.
        impossible: Impossible,
    },
}

/// Returns the presets' names, for messages.
fn names() -> String {
    PRESETS.map(|(name, _)| name).join(", ")
}

/// Loads the machine `name`, a preset or a file's path, with `overrides` (`key.key=value`) laid over it.
///
/// An override's key names a cache level by its number from 0 or by its name: `cache.0.bytes`, `cache.LLC.bytes`. Values are written as in the file;
/// strings need no quotes.
///
/// # Errors
/// Returns an error if there is no such machine, if the file cannot be read, if a key is unknown, or if a value is impossible.
pub fn load(name: &str, overrides: &[impl AsRef<str>]) -> Result<Description, MachineError> {
    let mut table = resolve(name, None, &mut Vec::new())?;
    for text in overrides {
        apply(&mut table, text.as_ref())?;
    }
    describe(name, table)
}

/// Returns all presets.
///
/// # Errors
/// Returns no error; a test ensures that.
pub fn presets() -> Result<Vec<Description>, MachineError> {
    PRESETS.iter().map(|(name, _)| load(name, &[""; 0])).collect()
}

/// Returns the table of `name` with everything that it inherits. `beside` is the folder of the file that names it; `chain` has the machines that
/// inherit it.
fn resolve(name: &str, beside: Option<&Path>, chain: &mut Vec<String>) -> Result<Table, MachineError> {
    let circular = chain.iter().any(|other| other == name);
    chain.push(name.to_owned());
    if circular {
        return Err(MachineError::Circle { chain: chain.join(" inherits ") });
    }
    let preset = PRESETS.iter().find(|(preset, _)| *preset == name);
    let (text, folder) = match preset {
        Some((_, text)) => ((*text).to_owned(), None),
        None => {
            let path = beside.unwrap_or(Path::new("")).join(name);
            let is_path = name.ends_with(".toml") || name.contains(std::path::MAIN_SEPARATOR);
            if !is_path && !path.is_file() {
                return Err(MachineError::Unknown { name: name.to_owned() });
            }
            let text = std::fs::read_to_string(&path)
                .map_err(|error| MachineError::Read { path: path.clone(), error })?;
            (text, path.parent().map(Path::to_path_buf))
        }
    };
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| MachineError::Syntax {
        machine: name.to_owned(),
        message: error.to_string(),
    })?;
    if !table.contains_key("name") {
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        table.insert("name".into(), Value::String(stem.into_owned()));
    }
    let Some(parent) = table.remove("inherits") else { return Ok(table) };
    let Value::String(parent) = parent else {
        return Err(MachineError::Key {
            machine: name.to_owned(),
            key: "inherits".into(),
            message: format!("expected the name of a machine ({}) or a file's path", names()),
        });
    };
    let mut base = resolve(&parent, folder.as_deref(), chain)?;
    lay_over(&mut base, table);
    Ok(base)
}

/// Lays `over` over `base`: tables key by key, everything else as a whole.
fn lay_over(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            // Another kind of network has other keys, so it replaces the whole table.
            (Some(Value::Table(below)), Value::Table(above))
                if key != "network" || same_kind(below, &above) =>
            {
                lay_over(below, above);
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

fn same_kind(below: &Table, above: &Table) -> bool {
    above.get("kind").is_none_or(|kind| below.get("kind") == Some(kind))
}

/// Lays one override over `table`.
fn apply(table: &mut Table, text: &str) -> Result<(), MachineError> {
    let refuse = |message: String| MachineError::Override { text: text.to_owned(), message };
    let Some((key, value)) = text.split_once('=') else {
        return Err(refuse("expected KEY=VALUE, such as cores.count=8 or cache.LLC.bytes=2_097_152".into()));
    };
    let (key, value) = (key.trim(), value.trim());
    // A value that is not TOML is a string without its quotes.
    let parsed = format!("value = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
    // `cache[0].bytes`, as messages write it, is `cache.0.bytes`.
    let dotted = key.replace('[', ".").replace(']', "");
    let mut parts: Vec<&str> = dotted.split('.').collect();
    let last = parts.pop().unwrap_or_default();
    if last.is_empty() || parts.iter().any(|part| part.is_empty()) {
        return Err(refuse(format!("the key {key:?} has an empty part")));
    }
    let mut at = table;
    let mut path = String::new();
    let mut parts = parts.into_iter();
    while let Some(part) = parts.next() {
        path = if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
        let next = at.entry(part).or_insert_with(|| Value::Table(Table::new()));
        at = match next {
            Value::Table(table) => table,
            Value::Array(levels) => {
                let named: Vec<String> = levels
                    .iter()
                    .map(|level| level.get("name").and_then(Value::as_str).unwrap_or_default().to_owned())
                    .collect();
                let which = parts.next().unwrap_or_default();
                let index = which.parse().ok().or_else(|| named.iter().position(|name| name == which));
                match index.and_then(|index: usize| levels.get_mut(index)) {
                    Some(Value::Table(level)) => level,
                    _ => {
                        let allowed = format!("{path}.0 to {path}.{}", named.len().saturating_sub(1));
                        let names = named.join(", ");
                        return Err(refuse(format!(
                            "there is no {path} {which:?}: choose {allowed}, or by name {names}"
                        )));
                    }
                }
            }
            _ => return Err(refuse(format!("{path} is a value and has no key {last}"))),
        };
    }
    let kind_changes = path == "network" && last == "kind" && at.get("kind") != Some(&value);
    if kind_changes {
        at.clear();
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

/// Converts `table` to a description.
fn describe(machine: &str, table: Table) -> Result<Description, MachineError> {
    let description: Description =
        serde_path_to_error::deserialize(Value::Table(table)).map_err(|error| MachineError::Key {
            machine: machine.to_owned(),
            key: error.path().to_string(),
            message: error.inner().message().to_owned(),
        })?;
    description
        .validate()
        .map_err(|impossible| MachineError::Impossible { machine: machine.to_owned(), impossible })?;
    Ok(description)
}
