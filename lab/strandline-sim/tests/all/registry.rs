//! Pairs of software and hardware schemes by their names.

use strandline_sim::Registry;
use strandline_sim::scheme::Entry;

fn pair(scheme: Option<&str>, hardware: Option<&str>) -> Result<(&'static str, &'static str), String> {
    let pair = Registry::default().pair(scheme, hardware);
    pair.map(|(scheme, hardware)| (scheme.name(), hardware.name))
}

#[test]
fn what_belongs_together_is_found_by_either_name() {
    assert_eq!(pair(None, None), Ok(("bppm", "none")));
    assert_eq!(pair(None, Some("loc-wal")), Ok(("hardware+single-writer", "loc-wal")));
    assert_eq!(pair(None, Some("atom")), Ok(("hardware-flushed+locks", "atom")));
    assert_eq!(pair(Some("sct-epoch"), None), Ok(("sct-epoch", "persist-epoch")));
    assert_eq!(pair(Some("plain+locks"), Some("wrap")), Ok(("plain+locks", "wrap")));
    assert_eq!(pair(Some("plain"), Some("none")), Ok(("plain", "none")));
    assert_eq!(pair(Some("base"), None), Ok(("base", "none")));
    assert_eq!(pair(Some("strandline"), None), Ok(("strandline", "none")));
    let system =
        |name| Registry::default().system(name).map(|(scheme, hardware)| (scheme.name(), hardware.name));
    assert_eq!(system("loc-wal"), Ok(("hardware+single-writer", "loc-wal")));
    assert_eq!(system("loc-wal/plain"), Ok(("plain", "loc-wal")));
    assert_eq!(system("wrap"), Ok(("wrap", "none")), "the software of that name");
    assert!(system("magic").unwrap_err().contains("bppm"));
}

/// Every hardware scheme names software that exists, and accepts it.
#[test]
fn every_hardware_scheme_has_its_software() {
    let registry = Registry::default();
    for hardware in registry.hardware.iter() {
        let (scheme, _) = registry.pair(None, Some(hardware.name)).unwrap();
        assert!(hardware.takes(scheme), "{}", hardware.name);
    }
}

#[test]
fn pairs_without_sense_are_refused_with_what_has_some() {
    let refused = pair(Some("bppm"), Some("loc-wal")).unwrap_err();
    assert!(refused.contains("hardware+single-writer"), "{refused}");
    assert!(pair(Some("plain-flushed"), Some("wrap")).is_err());
    let refused = pair(Some("plain"), None).unwrap_err();
    assert!(refused.contains("--hardware") && refused.contains("loc-wal"), "{refused}");
    assert!(pair(Some("magic"), None).unwrap_err().contains("bppm"));
    assert!(pair(None, Some("magic")).unwrap_err().contains("loc-wal"));
}

#[test]
#[should_panic(expected = "give your own another name")]
fn a_name_is_taken_once() {
    static MINE: Entry = Entry { name: "wrap", ..strandline_sim::scheme::NONE };
    let _ = Registry::default().with_hardware(&[&MINE]);
}
