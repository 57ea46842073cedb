//! A recorder's recording, whose format `docs/checking-c-programs.md` describes.

use std::collections::HashMap;

use super::places::Places;
use crate::x86::Site;

/// The operations of a program on its pool, in their order.
#[derive(Default)]
pub(super) struct Recording {
    pub operations: Vec<Recorded>,
    /// Names of ranges of bytes.
    pub labels: Vec<(u64, u64, String)>,
    /// The number of threads that have operations.
    pub threads: usize,
    /// True if the pool was mapped.
    pub was_mapped: bool,
    /// The end of the pool's last mapping, in bytes from its beginning.
    pub mapped: u64,
    /// The programs that the recorder was loaded into.
    pub programs: Vec<String>,
    /// The recorder's notes for the reader of a report.
    pub notes: Vec<String>,
}

/// An operation of one thread.
pub(super) struct Recorded {
    pub thread: usize,
    pub site: Option<Site>,
    pub what: What,
}

/// An operation. Offsets are bytes from the beginning of the pool.
pub(super) enum What {
    Store {
        at: u64,
        bytes: Vec<u8>,
    },
    Flush {
        at: u64,
        bytes: u64,
    },
    Fence,
    Acknowledge(u64),
    /// An access outside the pool: its kind and length in bytes.
    Outside(String, u64),
    /// An access that ends the program; `true` if it is just after the pool.
    Fault(bool),
}

impl Recording {
    /// Returns whether the recording has an operation that satisfies `is`.
    pub fn has(&self, is: impl Fn(&What) -> bool) -> bool {
        self.operations.iter().any(|operation| is(&operation.what))
    }

    /// Returns the end of the pool's last store, in bytes from its beginning.
    pub fn stored_end(&self) -> u64 {
        let end = |recorded: &Recorded| match &recorded.what {
            What::Store { at, bytes } => at.saturating_add(bytes.len() as u64),
            _ => 0,
        };
        self.operations.iter().map(end).max().unwrap_or(0)
    }

    /// Parses a recording. Without `places`, the places of operations are ignored.
    ///
    /// # Errors
    /// Returns the malformed line and what is wrong with it.
    pub fn parse(text: &str, places: Option<&mut Places>) -> Result<Self, String> {
        let mut recording = Self::default();
        let mut parser = Parser::default();
        let mut sites = Vec::new();
        let mut modules = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let read = parser.line(line, &mut recording, &mut sites, &mut modules);
            read.ok_or_else(|| format!("line {} of the recording is malformed: {line:.80}", number + 1))?;
        }
        recording.threads = parser.threads.len();
        if let Some(places) = places {
            places.learn(&modules);
            let known = places.find(&sites);
            for (recorded, (at, step)) in
                recording.operations.iter_mut().zip(known.into_iter().zip(parser.steps))
            {
                recorded.site = Some(Site { at, step: places.keep(&step) });
            }
        }
        Ok(recording)
    }
}

#[derive(Default)]
struct Parser {
    /// Our number for each of the system's threads.
    threads: HashMap<u64, usize>,
    /// The present step of each thread, and the step of each operation.
    present: HashMap<usize, String>,
    steps: Vec<String>,
}

impl Parser {
    fn line<'t>(
        &mut self,
        line: &'t str,
        recording: &mut Recording,
        sites: &mut Vec<&'t str>,
        modules: &mut Vec<&'t str>,
    ) -> Option<()> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "map" => {
                let (offset, rest) = field(rest)?;
                let (bytes, _) = field(rest)?;
                recording.was_mapped = true;
                recording.mapped = recording.mapped.max(offset.saturating_add(bytes));
                return Some(());
            }
            "program" => {
                recording.programs.push(rest.to_owned());
                return Some(());
            }
            "note" => {
                recording.notes.push(rest.to_owned());
                return Some(());
            }
            "module" => {
                modules.push(rest);
                return Some(());
            }
            "label" => {
                let (at, rest) = field(rest)?;
                let (bytes, name) = field(rest)?;
                recording.labels.push((at, bytes, name.to_owned()));
                return Some(());
            }
            _ => {}
        }
        let (thread, rest) = field(rest)?;
        let next = self.threads.len();
        let thread = *self.threads.entry(thread).or_insert(next);
        if kind == "step" {
            self.present.insert(thread, rest.to_owned());
            return Some(());
        }
        let (what, site) = operation(kind, rest)?;
        recording.operations.push(Recorded { thread, site: None, what });
        self.steps.push(self.present.get(&thread).cloned().unwrap_or_default());
        sites.push(site);
        Some(())
    }
}

/// Parses an operation of this kind, and its site.
fn operation<'t>(kind: &str, rest: &'t str) -> Option<(What, &'t str)> {
    Some(match kind {
        "store" => {
            let (at, rest) = field(rest)?;
            let (digits, site) = rest.split_once(' ').unwrap_or((rest, ""));
            (What::Store { at, bytes: hex::decode(digits).ok()? }, site)
        }
        "flush" => {
            let (at, rest) = field(rest)?;
            let (bytes, site) = field(rest)?;
            (What::Flush { at, bytes }, site)
        }
        "fence" => (What::Fence, rest),
        "acknowledge" => {
            let (number, site) = field(rest)?;
            (What::Acknowledge(number), site)
        }
        "outside" => {
            let (bytes, rest) = field(rest)?;
            let (what, site) = rest.split_once(' ').unwrap_or((rest, ""));
            (What::Outside(what.to_owned(), bytes), site)
        }
        "fault" => {
            let (place, site) = rest.split_once(' ').unwrap_or((rest, ""));
            (What::Fault(place == "behind"), site)
        }
        _ => return None,
    })
}

/// Parses a number, and returns it with the rest.
fn field(text: &str) -> Option<(u64, &str)> {
    let (number, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_as_documented() {
        let text = "program /bin/a b\nmap 0 4096\nnote beware\nlabel 64 8 the length\nstep 7 first\nstore 7 64 0100000000000000 a b.c:12\n\
            flush 9 64 8 b.c:13\nfence 7 b.c:14\nacknowledge 7 3 b.c:15\noutside 7 8 store b.c:16\nfault 7 behind b.c:17\n";
        let mut places = Places::default();
        let recording = Recording::parse(text, Some(&mut places)).unwrap();
        assert!(recording.was_mapped);
        assert_eq!(
            (recording.mapped, &*recording.programs[0], &*recording.notes[0]),
            (4096, "/bin/a b", "beware")
        );
        assert_eq!((recording.threads, &*recording.labels), (2, &[(64, 8, "the length".to_owned())][..]));
        let sites: Vec<_> = recording.operations.iter().map(|one| one.site.unwrap().to_string()).collect();
        assert_eq!(sites[..2], ["a b.c:12, \"first\"", "b.c:13"]);
        assert!(
            matches!(&recording.operations[0].what, What::Store { at: 64, bytes } if bytes[..] == [1, 0, 0, 0, 0, 0, 0, 0])
        );
        assert!(matches!(
            recording.operations[1],
            Recorded { thread: 1, what: What::Flush { at: 64, bytes: 8 }, .. }
        ));
        assert!(matches!(recording.operations[5].what, What::Fault(true)));
    }

    #[test]
    fn malformed_lines_are_refused() {
        for line in ["stor 1 2 00 a:1", "store x 2 00 a:1", "store 1 2 0g a:1", "flush 1 2", "acknowledge 1"]
        {
            let text = format!("map 0 4096\n{line}\n");
            let said = Recording::parse(&text, None).map(|_| ()).unwrap_err();
            assert!(said.starts_with("line 2 of the recording is malformed"), "{said}");
        }
    }
}
