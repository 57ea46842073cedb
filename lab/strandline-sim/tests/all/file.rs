//! Files of machines: the presets, inheritance, overrides, and what is refused.

use strandline_sim::description::{Network, PersistenceDomain};
use strandline_sim::file::{PRESETS, load, presets};

const NONE: [&str; 0] = [];

fn refused(name: &str, overrides: &[&str]) -> String {
    load(name, overrides).unwrap_err().to_string()
}

#[test]
fn every_preset_is_a_machine_with_a_description_and_a_source() {
    for (preset, machine) in PRESETS.iter().zip(presets().unwrap()) {
        assert_eq!(preset.0, machine.name);
        assert!(!machine.description.is_empty() && !machine.source.is_empty(), "{}", machine.name);
    }
}

#[test]
fn the_papers_tables_are_in_the_presets() {
    let atom = load("atom", &NONE).unwrap();
    assert_eq!((atom.cycles(atom.nvm.write_ns), atom.cycles(atom.nvm.read_ns)), (360, 240));
    assert_eq!((atom.cores.count, atom.controllers.count), (32, 4));
    let loc = load("loc", &NONE).unwrap();
    assert_eq!(loc.cycles(loc.nvm.read_ns), 168);
    assert_eq!(loc.caches.iter().map(|level| level.latency).collect::<Vec<_>>(), [1, 8, 21]);
    let wrap = load("wrap", &NONE).unwrap();
    assert_eq!((wrap.cycles(wrap.nvm.read_ns), wrap.cycles(wrap.nvm.write_ns)), (440, 1200));
    assert_eq!(wrap.dram.as_ref().map(|dram| wrap.cycles(dram.read_ns)), Some(100));
}

#[test]
fn a_machine_inherits_and_changes_what_it_names() {
    let (gem5, xeon) = (load("gem5-nvm", &NONE).unwrap(), load("xeon-e5645", &NONE).unwrap());
    assert_eq!(gem5.caches, xeon.caches);
    assert_eq!((gem5.nvm.read_ns, gem5.nvm.write_ns, gem5.nvm.banks), (150.0, 500.0, 16));
    assert_eq!((gem5.controllers.read_queue, gem5.controllers.write_queue), (64, 128));
    assert_eq!(gem5.controllers.interleave_bytes, xeon.controllers.interleave_bytes);
}

#[test]
fn overrides_reach_every_part() {
    let machine = load(
        "loc",
        &[
            "nvm.write_ns=500",
            "cache.LLC.bytes=2_097_152",
            "cache[0].latency = 2",
            "persistence.domain=adr",
            "network.kind=fixed",
            "network.latency=7",
            "dram={read_ns=50,write_ns=60}",
        ],
    )
    .unwrap();
    assert_eq!((machine.nvm.write_ns, machine.caches[2].bytes), (500.0, 2 << 20));
    assert_eq!(machine.caches[0].latency, 2);
    assert_eq!(machine.persistence.domain, PersistenceDomain::Adr);
    assert_eq!(machine.network, Network::Fixed { latency: 7 });
    assert_eq!(machine.dram.unwrap().write_ns, 60.0);
    let atom = load("atom", &["network.kind=fixed", "network.latency=3"]).unwrap();
    assert_eq!(atom.network, Network::Fixed { latency: 3 });
}

#[test]
fn what_is_wrong_is_named_in_full() {
    let cases = [
        ("nvm.write_latency=3", "nvm.write_latency", "expected one of"),
        ("cores.count=0", "cores.count = 0", "must be 1 to 64"),
        ("cores.count=many", "cores.count", "expected usize"),
        ("cores.count=-1", "cores.count", "expected usize"),
        ("cache.1.bytes=1000", "cache[1].bytes = 1000", "times a power of two"),
        ("cache.1.bits=1000", "cache[1].bits", "expected one of"),
        ("cache.L9.bytes=64", "cache.L9.bytes=64", "L1, L2, LLC"),
        ("persistence.domain=paper", "persistence.domain", "`flush-on-fail`"),
        ("network.kind=ring", "network", "`mesh`"),
        ("network.rows=3", "network", "unknown field `rows`"),
        ("cores", "--set cores", "KEY=VALUE"),
        ("cores..count=1", "cores..count", "empty part"),
        ("name.x=1", "name is a value", "no key x"),
        ("colour=red", "colour", "expected one of"),
    ];
    for (text, key, allowed) in cases {
        let message = refused("loc", &[text]);
        assert!(message.contains(key) && message.contains(allowed), "{text}: {message}");
    }
}

#[test]
fn files_are_found_beside_their_heirs_and_circles_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    write("base.toml", "inherits = \"loc\"\ncores.count = 2\n");
    let heir = write("heir.toml", "inherits = \"base.toml\"\nnvm.banks = 3\n");
    let machine = load(&heir, &NONE).unwrap();
    assert_eq!((machine.name.as_str(), machine.cores.count, machine.nvm.banks), ("heir", 2, 3));
    write("a.toml", "inherits = \"b.toml\"\n");
    let b = write("b.toml", "inherits = \"a.toml\"\n");
    assert!(refused(&b, &[]).contains("cannot inherit from itself"));
    let broken = write("broken.toml", "[cores\ncount = 1\n");
    assert!(refused(&broken, &[]).contains("line 1"), "{}", refused(&broken, &[]));
    let number = write("number.toml", "inherits = 3\n");
    assert!(refused(&number, &[]).contains("inherits"));
    assert!(refused("nowhere", &[]).contains("loc, atom, wrap"));
    assert!(refused("nowhere.toml", &[]).contains("nowhere.toml"));
    let empty = write("empty.toml", "");
    assert!(refused(&empty, &[]).contains("missing field `cores`"));
}
