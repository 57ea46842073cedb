//! Crates depend in one direction: `lab/` uses `check/` and `store/`, `check/` uses `store/`, and no dependency goes back. In all of them the
//! compiler decides which functions to inline, with a few exceptions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use toml::{Table, Value};

/// The folders of crates, each of which uses only itself and those before it.
const ORDER: [&str; 3] = ["store", "check", "lab"];

/// The tables of a manifest that name dependencies.
const KINDS: [&str; 3] = ["dependencies", "build-dependencies", "dev-dependencies"];

/// The permitted exceptions: the crate, the kind, what it depends on, and why.
const EXCEPTIONS: [(&str, &str, &[&str], &str); 2] = [
    (
        "strandline",
        "dev-dependencies",
        &["strandline-schemes", "strandline-structures"],
        "its tests open pools of other schemes, and compare its collections with the structures on words",
    ),
    (
        "strandline-py",
        "dependencies",
        &["strandline-check", "strandline-check-cli", "strandline-lab", "strandline-lab-cli"],
        "one wheel has the store, the checker and the laboratory, and their commands",
    ),
];

/// A dependency on a crate of a later folder: the crate, the kind, and what it depends on.
type Back = (String, String, String);

/// Returns the packages that `manifest` depends on, each with the kind of dependency, including those of `[target.…]`.
fn dependencies(manifest: &Table) -> Vec<(&'static str, String)> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let places: Vec<&Table> = targets.filter_map(Value::as_table).chain([manifest]).collect();
    let named = |kind: &'static str| {
        let tables = places.iter().filter_map(move |place| place.get(kind)?.as_table());
        tables.flatten().map(move |(name, dependency)| {
            // A dependency may be renamed.
            let package = dependency.get("package").and_then(Value::as_str).unwrap_or(name);
            (kind, package.to_owned())
        })
    };
    KINDS.into_iter().flat_map(named).collect()
}

/// Returns the manifests in `root`'s folders: for each package the position of its folder in [`ORDER`], and the manifest.
fn manifests(root: &Path) -> BTreeMap<String, (usize, Table)> {
    let mut manifests = BTreeMap::new();
    for (place, folder) in ORDER.into_iter().enumerate() {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path().join("Cargo.toml");
            if !path.exists() {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let manifest: Table = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let name = manifest["package"]["name"].as_str().unwrap().to_owned();
            manifests.insert(name, (place, manifest));
        }
    }
    manifests
}

/// Returns the dependencies on crates of later folders.
fn dependencies_back(manifests: &BTreeMap<String, (usize, Table)>) -> BTreeSet<Back> {
    let mut back = BTreeSet::new();
    for (name, (place, manifest)) in manifests {
        for (kind, dependency) in dependencies(manifest) {
            if manifests.get(&dependency).is_some_and(|(other, _)| other > place) {
                back.insert((name.clone(), kind.to_owned(), dependency));
            }
        }
    }
    back
}

#[test]
fn no_dependency_goes_back() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifests = manifests(&root);
    for (place, folder) in ORDER.into_iter().enumerate() {
        assert!(manifests.values().any(|(other, _)| *other == place), "{folder}/ has no crates");
    }
    let found = dependencies_back(&manifests);
    let row = |name: &str, kind: &str, dependency: &str| (name.into(), kind.into(), dependency.into());
    let allowed: BTreeSet<Back> = EXCEPTIONS
        .into_iter()
        .flat_map(|(name, kind, list, _)| list.iter().map(move |dependency| row(name, kind, dependency)))
        .collect();
    let forbidden: Vec<_> = found.difference(&allowed).collect();
    assert!(forbidden.is_empty(), "these depend on crates of later folders ({ORDER:?}): {forbidden:#?}");
    let unneeded: Vec<_> = allowed.difference(&found).collect();
    assert!(unneeded.is_empty(), "these exceptions are not needed any more, remove them: {unneeded:#?}");
}

#[test]
fn each_kind_of_dependency_is_seen() {
    let manifest = |text: &str| text.parse::<Table>().unwrap();
    let of_store = manifest(
        r#"
        [dependencies]
        low.workspace = true
        [build-dependencies]
        check = "1"
        [target.'cfg(unix)'.dev-dependencies]
        another = { package = "lab", path = "lab" }
        "#,
    );
    let of_check = manifest("[dev-dependencies]\nlab = { path = 'lab' }\nstore = '1'");
    let manifests = BTreeMap::from([
        ("store".to_owned(), (0, of_store)),
        ("low".to_owned(), (0, Table::new())),
        ("check".to_owned(), (1, of_check)),
        ("lab".to_owned(), (2, manifest("dependencies = { check = '1', store = '1' }"))),
    ]);
    let row = |name: &str, kind: &str, dependency: &str| (name.into(), kind.into(), dependency.into());
    let expected: BTreeSet<Back> = BTreeSet::from([
        row("store", "build-dependencies", "check"),
        row("store", "dev-dependencies", "lab"),
        row("check", "dev-dependencies", "lab"),
    ]);
    assert_eq!(dependencies_back(&manifests), expected);
}

/// Adds the texts of the sources below `folder`.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(fs::read_to_string(&path).unwrap());
        }
    }
}

/// An inline attribute is there only if a count shows its benefit (`strandline-lab bench --instructions`), so the number of attributes is bounded.
#[test]
fn few_functions_are_made_to_be_inlined() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut texts = Vec::new();
    for folder in ORDER {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let folder = entry.unwrap().path().join("src");
            if folder.is_dir() {
                sources(&folder, &mut texts);
            }
        }
    }
    let count = |attribute: &str| -> usize { texts.iter().map(|text| text.matches(attribute).count()).sum() };
    let (always, others) = (count("#[inline(always)]"), count("#[inline]"));
    assert!((1..=60).contains(&always) && always + others <= 300, "{always} always, {others} others");
}

/// Cargo would silently leave such tests out.
#[test]
fn what_cargo_does_not_test_has_no_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in ORDER {
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let folder = entry.unwrap().path();
            let Ok(text) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
            let manifest: Table = text.parse().unwrap();
            let is_off = |part: &Value, key| part.get(key) == Some(&Value::Boolean(false));
            let library = manifest.get("lib");
            let mut texts = Vec::new();
            sources(&folder.join("src"), &mut texts);
            for (key, sign) in [("test", "#[test]"), ("doctest", "```")] {
                let is_off = library.is_some_and(|part| is_off(part, key));
                let has_some = texts.iter().any(|text| text.contains(sign));
                assert!(!(is_off && has_some), "{}: {key} = false, but {sign}", folder.display());
            }
            let programs = manifest.get("bin").and_then(Value::as_array).into_iter().flatten();
            for program in programs.filter(|part| is_off(part, "test")) {
                let path = folder.join(program["path"].as_str().unwrap());
                let text = fs::read_to_string(&path).unwrap();
                // Other files would be parts of the library.
                assert!(!text.contains("#[test]"), "{}: test = false, but #[test]", path.display());
                let has_module = text.lines().any(|line| line.starts_with("mod "));
                assert!(!has_module, "{}: test = false, but a module", path.display());
            }
        }
    }
}
