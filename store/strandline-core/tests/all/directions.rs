//! Imports go in one direction: a folder of `src` uses those before it in [`ORDER`] alone.

use std::path::Path;

use super::sources::{all_sources, source, upward};

/// Folders and files of `src`, each of which uses only those before it.
const ORDER: [&str; 12] = [
    "error",
    "domain",
    "memory",
    "layout",
    "log",
    "heap",
    "transaction",
    "scheme",
    "sync",
    "engine",
    "structures",
    "file",
];

#[test]
fn no_folder_uses_a_later_one() {
    let wrong = upward(&ORDER, &all_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_import_upwards_is_seen() {
    let lib = "pub use file::{Options, Pool};\npub use heap::{a::{B, C as D}, e::F};\npub use other::Error;";
    let wrong = |text: &str| upward(&ORDER, &[source("lib", lib), source("log", text)]).len();
    assert_eq!(wrong("use crate::memory::{Memory, file};\nuse crate::log::x;\nuse crate::Error;"), 0);
    assert_eq!(wrong("// crate::heap\n#[cfg(test)]\nmod tests {\n    use crate::heap;\n}"), 0);
    for text in [
        "use crate::heap;",
        "use crate::{memory::{a, b}, heap as c};",
        "fn f(p: &crate::Pool) {}",
        "use crate::B;",
        "use crate::D;",
        "use crate::F;",
    ] {
        assert_eq!(wrong(text), 1, "{text}");
    }
    assert_eq!(wrong("use crate::{\n    Options,\n    example,\n};"), 2);
}
