//! The places of operations in a program: source lines that the program reports, or addresses of code.

use std::collections::{HashMap, HashSet};
use std::process::Command;

use crate::x86::Source;

/// Libraries whose code is not the report reader's own.
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

/// Folders of libraries that the report's reader did not build.
const SYSTEM: [&str; 5] = ["/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/libexec/"];
/// Folders of headers whose inlined functions the report's reader did not write.
const HEADERS: [&str; 2] = ["/usr/lib", "/usr/include/"];
/// The no-op that the header puts after each of its own flushes and fences.
const SEEN: [u8; 7] = [0x0f, 0x1f, 0x80, b'S', b'T', b'R', b'C'];
/// The number of instructions that have their source lines looked up, at most.
const LOOKED_UP: usize = 64;

/// The addresses at which code is loaded, and the source lines found so far.
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
    /// The offset in its file.
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

    /// Returns whether the reader of a report may have written this code.
    fn is_own(&self) -> bool {
        !OTHERS.iter().any(|other| self.name().starts_with(other))
    }

    /// Returns the address in the file's own numbering, which addr2line expects.
    fn in_file(&self, address: u64) -> u64 {
        let place = address - self.start + self.offset;
        self.segment(place).unwrap_or(place)
    }

    /// Converts an offset in the file to an address by the file's segments (ELF, 64 bits).
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

impl Module {
    /// Returns flush and fence instructions in this code that the header's no-op does not follow, with their addresses.
    fn flushes_and_fences(&self) -> Vec<(&'static str, u64)> {
        use std::io::{Read, Seek, SeekFrom};
        let mut code = Vec::new();
        let read = std::fs::File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.offset))?;
            file.take(self.end - self.start).read_to_end(&mut code)
        });
        if read.is_err() {
            return Vec::new();
        }
        let found = (0..code.len()).filter_map(|at| {
            let (what, bytes) = flush_or_fence(&code, at)?;
            (!code[at + bytes..].starts_with(&SEEN)).then_some((what, self.start + at as u64))
        });
        found.collect()
    }
}

/// Returns the x86 flush or fence whose opcode is at `at`, after its prefixes, and its length from there on.
fn flush_or_fence(code: &[u8], at: usize) -> Option<(&'static str, usize)> {
    let &[0x0f, 0xae, form, ..] = &code[at..] else { return None };
    let before = |back: usize| at.checked_sub(back).map_or(0, |at| code[at]);
    let has_rex = before(1) & 0xf0 == 0x40;
    let is_prefixed = before(if has_rex { 2 } else { 1 }) == 0x66;
    let (mode, which, base) = (form >> 6, form >> 3 & 7, form & 7);
    let what = match (mode, which, is_prefixed) {
        (3, 7, false) if base == 0 => "sfence",
        (3, 6, false) if base == 0 => "mfence",
        (3, ..) => return None,
        (_, 7, false) => "clflush",
        (_, 7, true) => "clflushopt",
        (_, 6, true) => "clwb",
        _ => return None,
    };
    // An index byte may follow, then the displacement.
    let has_index = mode != 3 && base == 4;
    let index = code.get(at + 3).copied().unwrap_or(0);
    let displacement = match mode {
        1 => 1,
        2 => 4,
        0 if base == 5 || has_index && index & 7 == 5 => 4,
        _ => 0,
    };
    let bytes = 3 + usize::from(has_index) + displacement;
    (at + bytes <= code.len()).then_some((what, bytes))
}

impl Places {
    /// Returns a static copy of the text, made only once.
    pub fn keep(&mut self, text: &str) -> &'static str {
        if let Some(known) = self.texts.get(text) {
            return known;
        }
        let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
        self.texts.insert(kept);
        kept
    }

    /// Adds the locations of code from the lines after `module`.
    pub fn learn(&mut self, modules: &[&str]) {
        for module in modules.iter().filter_map(|text| Module::parse(text)) {
            if !self.modules.contains(&module) {
                self.modules.push(module);
            }
        }
    }

    /// Returns the flushes and fences in the program's own code that are not the header's: how many, and the first ones with their places. Bytes that
    /// only resemble such an instruction count, too.
    pub fn unrecorded_instructions(&mut self) -> (usize, Vec<(&'static str, Source)>) {
        let is_system = |module: &Module| SYSTEM.iter().any(|folder| module.path.starts_with(folder));
        let own = self.modules.iter().filter(|module| module.is_own() && !is_system(module));
        let found: Vec<(&str, u64)> = own.flat_map(Module::flushes_and_fences).collect();
        let first = &found[..found.len().min(LOOKED_UP)];
        self.resolve(first.iter().map(|&(_, address)| address).collect());
        let mut places: Vec<_> = first.iter().map(|&(what, address)| (what, self.known[&address])).collect();
        // A macro makes several instructions for one line.
        places.dedup();
        (found.len(), places)
    }

    fn module(&self, address: u64) -> Option<&Module> {
        self.modules.iter().rev().find(|module| (module.start..module.end).contains(&address))
    }

    /// Returns the source line of each of `sites`, which have the form `FILE:LINE`, or `@` and return addresses, the innermost first.
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

    /// Returns the innermost call in code that is not a library's.
    fn address(&self, site: &str) -> Option<u64> {
        let calls = site.strip_prefix('@')?.split(',');
        // A return address is after the call.
        let calls: Vec<u64> =
            calls.filter_map(|call| Some(u64::from_str_radix(call, 16).ok()?.wrapping_sub(1))).collect();
        let is_own = |call: &&u64| self.module(**call).is_some_and(Module::is_own);
        calls.iter().find(is_own).or(calls.first()).copied()
    }

    /// Runs addr2line, once for each module.
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
            let ran = Command::new("addr2line")
                .args(["-a", "-i", "-f", "-C", "-e", &module.path])
                .args(asked)
                .output();
            let said = ran.map(|ran| String::from_utf8_lossy(&ran.stdout).into_owned()).unwrap_or_default();
            // The output has each address itself, followed by a function and its line for each call that was inlined there, the innermost first.
            let mut said = said.lines().peekable();
            for (address, in_file) in addresses {
                let _ = said.next();
                let mut frames = Vec::new();
                while let Some(function) = said.next_if(|line| !line.starts_with("0x")) {
                    frames.push((function, said.next().unwrap_or("??:0")));
                }
                found.push((address, place_of(&frames, name, in_file)));
            }
        }
        for (address, (file, line)) in found {
            let source = Source::of_line(self.keep(&file), line);
            self.known.insert(address, source);
        }
    }
}

/// Returns the file and line of the innermost call in a file that is neither the compiler's nor the system's, or else the function.
fn place_of(frames: &[(&str, &str)], module: &str, in_file: u64) -> (String, u32) {
    let line = |said: &str| {
        let (file, line) = said.split(" (").next()?.rsplit_once(':')?;
        (file != "??").then_some((file.to_owned(), line.parse().ok()?))
    };
    let lines: Vec<(String, u32)> = frames.iter().filter_map(|(_, said)| line(said)).collect();
    let is_own = |(file, _): &&(String, u32)| !HEADERS.iter().any(|folder| file.starts_with(folder));
    if let Some(found) = lines.iter().find(is_own).or(lines.first()) {
        return found.clone();
    }
    match frames.first() {
        Some((function, _)) if *function != "??" => (format!("{function} in {module}"), 0),
        _ => (format!("{module}+{in_file:#x}"), 0),
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
    fn instructions_are_told_apart() {
        type Case = (&'static [u8], Option<(&'static str, usize)>);
        let cases: [Case; 10] = [
            (&[0x90, 0x0f, 0xae, 0x3f], Some(("clflush", 3))),
            (&[0x66, 0x0f, 0xae, 0x7c, 0x24, 0x08], Some(("clflushopt", 5))),
            (&[0x66, 0x41, 0x0f, 0xae, 0x37], Some(("clwb", 3))),
            (&[0x66, 0x0f, 0xae, 0x35, 1, 2, 3, 4], Some(("clwb", 7))),
            (&[0x66, 0x0f, 0xae, 0xb4, 0x24, 1, 2, 3, 4], Some(("clwb", 8))),
            (&[0x0f, 0xae, 0xf8], Some(("sfence", 3))),
            (&[0x0f, 0xae, 0xf0], Some(("mfence", 3))),
            // lfence, xsaveopt, and an instruction that is cut off.
            (&[0x0f, 0xae, 0xe8], None),
            (&[0x48, 0x0f, 0xae, 0x37], None),
            (&[0x66, 0x0f, 0xae, 0x35, 1], None),
        ];
        for (code, expected) in cases {
            let at = code.windows(2).position(|two| two == [0x0f, 0xae]).unwrap();
            assert_eq!(flush_or_fence(code, at), expected, "{code:x?}");
        }
    }

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
