//! Where in a program an operation stands: a source line that it has told, or addresses of code.

use std::collections::{HashMap, HashSet};
use std::process::Command;

use crate::x86::Source;

/// Libraries whose code is not what the reader of a report wrote.
const OTHERS: [&str; 9] = [
    "libstrandline_check",
    "libpmem",
    "libc.so",
    "libc-",
    "ld-linux",
    "libgcc_s",
    "libpthread",
    "libstdc++",
    "[",
];

/// Where code lies, and what is known of addresses.
#[derive(Default)]
pub(super) struct Places {
    modules: Vec<Module>,
    known: HashMap<u64, Source>,
    texts: HashSet<&'static str>,
}

/// Code that a process has mapped.
#[derive(Clone, Debug, PartialEq)]
struct Module {
    start: u64,
    end: u64,
    /// Where it begins in its file.
    offset: u64,
    path: String,
}

impl Module {
    /// Reads `START END OFFSET PATH`.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.splitn(4, ' ');
        let mut number = || u64::from_str_radix(fields.next()?, 16).ok();
        let (start, end, offset) = (number()?, number()?, number()?);
        Some(Self { start, end, offset, path: fields.next()?.to_owned() })
    }

    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The address in the file's own numbers, which addr2line asks for.
    fn in_file(&self, address: u64) -> u64 {
        let place = address - self.start + self.offset;
        self.segment(place).unwrap_or(place)
    }

    /// What the file's segments (ELF, 64 bits) make of a place in it.
    fn segment(&self, place: u64) -> Option<u64> {
        use std::io::Read;
        let mut file = Vec::new();
        std::fs::File::open(&self.path).ok()?.take(8192).read_to_end(&mut file).ok()?;
        let number = |at: usize, bytes: usize| {
            let bytes = file.get(at..at + bytes)?;
            Some(bytes.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte)))
        };
        let is_elf = file.starts_with(b"\x7fELF\x02\x01");
        let (first, each, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let segments = (0..count).filter(|_| is_elf).map(|segment| (first + segment * each) as usize);
        for at in segments {
            let (kind, offset, address, bytes) =
                (number(at, 4)?, number(at + 8, 8)?, number(at + 16, 8)?, number(at + 32, 8)?);
            if kind == 1 && (offset..offset + bytes).contains(&place) {
                return Some(place - offset + address);
            }
        }
        None
    }
}

impl Places {
    /// The text, kept as long as the program runs, once.
    pub fn keep(&mut self, text: &str) -> &'static str {
        if let Some(known) = self.texts.get(text) {
            return known;
        }
        let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
        self.texts.insert(kept);
        kept
    }

    /// Takes in where code lies: lines behind `module`.
    pub fn learn(&mut self, modules: &[&str]) {
        for module in modules.iter().filter_map(|text| Module::parse(text)) {
            if !self.modules.contains(&module) {
                self.modules.push(module);
            }
        }
    }

    fn module(&self, address: u64) -> Option<&Module> {
        self.modules.iter().rev().find(|module| (module.start..module.end).contains(&address))
    }

    /// What each of `sites` says: `FILE:LINE`, or `@` and return addresses, the innermost first.
    pub fn find(&mut self, sites: &[&str]) -> Vec<Source> {
        let addresses: Vec<Option<u64>> = sites.iter().map(|site| self.address(site)).collect();
        self.resolve(addresses.iter().flatten().copied().collect());
        let found = sites.iter().zip(addresses).map(|(site, address)| match address {
            Some(address) => self.known[&address],
            None => match site.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) {
                Some((file, line)) => Source::of_line(self.keep(file), line),
                None => Source::of_line("a place that is not known", 0),
            },
        });
        found.collect()
    }

    /// The innermost call in code that is not a library's.
    fn address(&self, site: &str) -> Option<u64> {
        let calls = site.strip_prefix('@')?.split(',');
        // A return address lies behind the call.
        let calls: Vec<u64> =
            calls.filter_map(|call| Some(u64::from_str_radix(call, 16).ok()?.wrapping_sub(1))).collect();
        let is_own = |call: &&u64| {
            self.module(**call)
                .is_some_and(|module| !OTHERS.iter().any(|other| module.name().starts_with(other)))
        };
        calls.iter().find(is_own).or(calls.first()).copied()
    }

    /// Asks addr2line, once for each module.
    fn resolve(&mut self, addresses: HashSet<u64>) {
        let mut by_module: HashMap<&Module, Vec<(u64, u64)>> = HashMap::new();
        let mut found = Vec::new();
        for address in addresses.into_iter().filter(|address| !self.known.contains_key(address)) {
            match self.module(address) {
                Some(module) => {
                    by_module.entry(module).or_default().push((address, module.in_file(address)));
                }
                None => found.push((address, (format!("code at {address:#x}"), 0))),
            }
        }
        for (module, addresses) in by_module {
            let name = module.name();
            let asked = addresses.iter().map(|(_, in_file)| format!("{in_file:#x}"));
            let ran = Command::new("addr2line").args(["-f", "-C", "-e", &module.path]).args(asked).output();
            let said = ran.map(|ran| String::from_utf8_lossy(&ran.stdout).into_owned()).unwrap_or_default();
            // For each address its function, and then its line.
            let mut said = said.lines();
            for (address, in_file) in addresses {
                let (function, line) = (said.next().unwrap_or("??"), said.next().unwrap_or("??:0"));
                let line = line.split(" (").next().unwrap_or(line);
                let source = match line.rsplit_once(':') {
                    Some((file, line)) if file != "??" => {
                        line.parse().ok().map(|line| (file.to_owned(), line))
                    }
                    _ => None,
                };
                let unknown = || match function {
                    "??" => (format!("{name}+{in_file:#x}"), 0),
                    function => (format!("{function} in {name}"), 0),
                };
                found.push((address, source.unwrap_or_else(unknown)));
            }
        }
        for (address, (file, line)) in found {
            let source = Source::of_line(self.keep(&file), line);
            self.known.insert(address, source);
        }
    }
}

impl std::hash::Hash for Module {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.start.hash(state);
    }
}

impl Eq for Module {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_addresses() {
        let mut places = Places::default();
        places.learn(&["1000 2000 0 /usr/lib/libpmem.so.1", "5000 6000 0 /home/a program"]);
        let found = places.find(&["dir/a:b.c:7", "@1011,5021", "@9001", "", "x.c:y"]);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found[0], "dir/a:b.c:7");
        assert_eq!(found[1], "a program+0x20", "the program's own, not the library's");
        assert_eq!(found[2], "code at 0x9000");
        assert_eq!(found[3..], ["a place that is not known", "a place that is not known"]);
    }
}
