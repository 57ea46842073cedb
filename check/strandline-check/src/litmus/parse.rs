//! Parses the text format, and reports mistakes in it.

use std::fmt::{self, Display};
use std::str::SplitWhitespace;

use super::{Ask, Final, Location, Operand, Operation, Test, Verdict};

/// A mistake in a litmus test's file: where it is, what was expected, and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// The expected and the found text.
    pub expected: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}", self.line, self.expected)
    }
}

impl std::error::Error for Malformed {}

type Result<T> = std::result::Result<T, Malformed>;

const STATEMENTS: &str =
    "`name:`, `source:`, `line NAME:`, `thread:`, `ask:`, `final:`, `answer:` or an operation";
const OPERATIONS: &str =
    "one of the operations store, store-nt, load, cas, add, clflush, clflushopt, clwb, sfence, mfence, if";

impl Test {
    /// Reads a test.
    ///
    /// # Errors
    /// Returns [`Malformed`] with the first mistake.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser::default();
        let mut last = 1;
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            last = index + 1;
            let code = line.split('#').next().unwrap_or_default().trim();
            if !code.is_empty() {
                parser.statement(last, code)?;
            }
        }
        parser.end(last)
    }
}

#[derive(Default)]
struct Parser {
    name: Option<String>,
    source: Option<String>,
    lines: Vec<String>,
    locations: Vec<Location>,
    threads: Vec<Vec<Operation>>,
    asks: Vec<Ask>,
    finals: Vec<Final>,
    /// True if the last question was a `final`; `None` if there was no question.
    last_is_final: Option<bool>,
    /// The registers of each thread.
    registers: Vec<Vec<String>>,
    /// True if operations may follow.
    in_thread: bool,
    /// The current thread's `if`s: line, index, and number of guarded operations.
    ifs: Vec<(usize, usize, usize)>,
}

impl Parser {
    fn statement(&mut self, at: usize, code: &str) -> Result<()> {
        let (head, rest) = match code.split_once(':') {
            Some((head, rest)) => (head.trim(), Some(rest.trim())),
            None => (code, None),
        };
        let mut head = head.split_whitespace();
        let keyword = head.next().unwrap_or_default();
        let named = head.next();
        if let Some(more) = head.next().filter(|_| rest.is_some()) {
            return Err(malformed(at, "`:`", more));
        }
        match (keyword, named, rest) {
            ("name", None, Some(name)) => self.name(at, name),
            ("source", None, Some(source)) => self.source(at, source),
            ("line", Some(line), Some(locations)) => self.line(at, line, locations),
            ("thread", None, Some("")) => {
                self.end_thread()?;
                self.threads.push(Vec::new());
                self.registers.push(Vec::new());
                self.in_thread = true;
                Ok(())
            }
            ("ask", None, Some(question)) => self.ask(at, question),
            ("final", None, Some(question)) => self.final_question(at, question),
            ("answer", None, Some(answer)) => self.answer(at, answer),
            ("line", None, Some(_)) => Err(malformed(at, "a name for the line, as in `line A:`", ":")),
            ("thread", None, Some(more)) => Err(malformed(at, "nothing after `thread:`", more)),
            ("name" | "source" | "thread" | "ask" | "final" | "answer", Some(more), Some(_)) => {
                Err(malformed(at, format_args!("`{keyword}:`"), format_args!("{keyword} {more}")))
            }
            ("name" | "source" | "line" | "thread" | "ask" | "final" | "answer", ..) => {
                Err(malformed(at, format_args!("`:` in the statement `{keyword}`"), code))
            }
            (_, _, Some(_)) => Err(malformed(at, STATEMENTS, code)),
            _ => self.operation(at, code),
        }
    }

    fn name(&mut self, at: usize, name: &str) -> Result<()> {
        self.end_thread()?;
        if name.is_empty() {
            return Err(malformed(at, "a name after `name:`", ""));
        }
        if let Some(first) = &self.name {
            return Err(malformed(at, format_args!("one `name:` (there is `{first}`)"), name));
        }
        self.name = Some(name.into());
        Ok(())
    }

    fn line(&mut self, at: usize, line: &str, locations: &str) -> Result<()> {
        self.end_thread()?;
        if self.lines.iter().any(|other| other == line) {
            return Err(malformed(at, "a line that is not yet declared", line));
        }
        if locations.is_empty() {
            return Err(malformed(at, "at least one location after `line NAME:`", ""));
        }
        for name in locations.split_whitespace() {
            if !is_name(name) {
                return Err(malformed(at, "a location's name (letters, digits and _ ' . - [ ])", name));
            }
            if self.locations.iter().any(|other| other.name == name) {
                return Err(malformed(at, "a location that is not yet declared", name));
            }
            self.locations.push(Location { name: name.into(), line: self.lines.len() });
        }
        self.lines.push(line.into());
        Ok(())
    }

    fn source(&mut self, at: usize, source: &str) -> Result<()> {
        self.end_thread()?;
        if source.is_empty() {
            return Err(malformed(at, "a publication after `source:`", ""));
        }
        if let Some(first) = &self.source {
            return Err(malformed(at, format_args!("one `source:` (there is `{first}`)"), source));
        }
        self.source = Some(source.into());
        Ok(())
    }

    fn ask(&mut self, at: usize, question: &str) -> Result<()> {
        self.end_thread()?;
        let Question { text, values, .. } = self.question(at, question, false)?;
        self.asks.push(Ask { text, values, published: None });
        self.last_is_final = Some(false);
        Ok(())
    }

    fn final_question(&mut self, at: usize, question: &str) -> Result<()> {
        self.end_thread()?;
        let Question { text, registers, values } = self.question(at, question, true)?;
        self.finals.push(Final { text, registers, values, published: None });
        self.last_is_final = Some(true);
        Ok(())
    }

    /// Parses the values that a question names: of locations and, in a `final`, of registers.
    fn question(&self, at: usize, question: &str, is_final: bool) -> Result<Question> {
        let statement = if is_final { "final" } else { "ask" };
        let spaced = question.replace('=', " = ");
        let mut words = Words { at, words: spaced.split_whitespace() };
        let mut asked = Question { text: String::new(), registers: Vec::new(), values: Vec::new() };
        loop {
            let register = if is_final { words.named_register(&self.registers)? } else { None };
            let location = if register.is_none() { words.location(&self.locations)? } else { 0 };
            words.exactly("=")?;
            let value = words.number("a value")?;
            let (name, is_known) = match register {
                Some((thread, register)) => {
                    let known = asked.registers.iter().any(|&(t, r, _)| (t, r) == (thread, register));
                    asked.registers.push((thread, register, value));
                    (format!("{thread}:{}", self.registers[thread][register]), known)
                }
                None => {
                    let known = asked.values.iter().any(|&(other, _)| other == location);
                    asked.values.push((location, value));
                    (self.locations[location].name.clone(), known)
                }
            };
            if is_known {
                let what = if register.is_some() { "register" } else { "location" };
                let article = if is_final { "a" } else { "an" };
                let expected = format_args!("each {what} at most once in {article} `{statement}:`");
                return Err(malformed(at, expected, name));
            }
            let space = if asked.text.is_empty() { "" } else { " " };
            asked.text.push_str(&format!("{space}{name}={value}"));
            if words.words.clone().next().is_none() {
                return Ok(asked);
            }
        }
    }

    /// Parses the answer that the test's source gives to the last question.
    fn answer(&mut self, at: usize, answer: &str) -> Result<()> {
        self.end_thread()?;
        let verdict = match answer {
            "allowed" => Verdict::Allowed,
            "forbidden" => Verdict::Forbidden,
            other => return Err(malformed(at, "`allowed` or `forbidden` after `answer:`", other)),
        };
        let question = match self.last_is_final {
            Some(true) => self.finals.last_mut().map(|question| &mut question.published),
            Some(false) => self.asks.last_mut().map(|question| &mut question.published),
            None => None,
        };
        match question {
            Some(published @ None) => *published = Some(verdict),
            Some(Some(_)) => return Err(malformed(at, "one `answer:` for each question", answer)),
            None => return Err(malformed(at, "an `ask:` or a `final:` before `answer:`", answer)),
        }
        Ok(())
    }

    fn operation(&mut self, at: usize, code: &str) -> Result<()> {
        if !self.in_thread {
            return Err(malformed(at, "`thread:` before an operation", code));
        }
        let spaced = code.replace("==", " == ");
        let mut words = Words { at, words: spaced.split_whitespace() };
        let name = words.next("an operation")?;
        let operation = self.named_operation(name, &mut words)?;
        words.end()?;
        let Some(thread) = self.threads.last_mut() else { return Ok(()) };
        if let Operation::If { operations, .. } = operation {
            self.ifs.push((at, thread.len(), operations));
        }
        thread.push(operation);
        Ok(())
    }

    /// Parses the operation `name` with its operands, which are the next `words`.
    fn named_operation(&mut self, name: &str, words: &mut Words<'_>) -> Result<Operation> {
        let locations = &self.locations;
        let Some(registers) = self.registers.last_mut() else {
            return Err(malformed(words.at, "`thread:` before an operation", name));
        };
        let line = |location: usize| locations[location].line;
        Ok(match name {
            "store" | "store-nt" => Operation::Store {
                location: words.location(locations)?,
                value: words.operand(registers)?,
                non_temporal: name == "store-nt",
            },
            "load" => {
                Operation::Load { register: words.register(registers)?, location: words.location(locations)? }
            }
            "cas" => Operation::CompareExchange {
                register: words.register(registers)?,
                location: words.location(locations)?,
                expected: words.operand(registers)?,
                new: words.operand(registers)?,
            },
            "add" => Operation::FetchAdd {
                register: words.register(registers)?,
                location: words.location(locations)?,
                amount: words.operand(registers)?,
            },
            "clflush" => Operation::Clflush { line: line(words.location(locations)?) },
            "clflushopt" | "clwb" => Operation::WriteBack { line: line(words.location(locations)?) },
            "sfence" => Operation::Sfence,
            "mfence" => Operation::Mfence,
            "if" => {
                let register = words.register(registers)?;
                words.exactly("==")?;
                let equals = words.number("a number")?;
                words.exactly("then")?;
                let operations = words.number("a number of operations")?;
                Operation::If { register, equals, operations: operations.try_into().unwrap_or(usize::MAX) }
            }
            other => return Err(malformed(words.at, OPERATIONS, other)),
        })
    }

    /// Ends the current thread, if any.
    fn end_thread(&mut self) -> Result<()> {
        self.in_thread = false;
        let length = self.threads.last().map_or(0, Vec::len);
        for (at, index, operations) in self.ifs.drain(..) {
            let left = length - index - 1;
            if operations > left {
                let expected = format_args!("at most {left} after `then`, the operations left in the thread");
                return Err(malformed(at, expected, operations));
            }
        }
        Ok(())
    }

    fn end(mut self, last: usize) -> Result<Test> {
        self.end_thread()?;
        let missing = |what: &str| malformed(last, what, "");
        let name = self.name.ok_or_else(|| missing("`name:` in the file"))?;
        if self.locations.is_empty() {
            return Err(missing("at least one `line NAME:` with its locations"));
        }
        if self.threads.is_empty() {
            return Err(missing("at least one `thread:`"));
        }
        if self.asks.is_empty() && self.finals.is_empty() {
            return Err(missing("at least one `ask:` or `final:`"));
        }
        Ok(Test {
            name,
            source: self.source,
            lines: self.lines,
            locations: self.locations,
            threads: self.threads,
            registers: self.registers,
            asks: self.asks,
            finals: self.finals,
        })
    }
}

/// The values that a question names.
struct Question {
    text: String,
    registers: Vec<(usize, usize, u64)>,
    values: Vec<(usize, u64)>,
}

/// The words of a statement.
struct Words<'s> {
    at: usize,
    words: SplitWhitespace<'s>,
}

impl<'s> Words<'s> {
    fn next(&mut self, expected: impl Display) -> Result<&'s str> {
        self.words.next().ok_or_else(|| malformed(self.at, expected, ""))
    }

    fn exactly(&mut self, word: &str) -> Result<()> {
        let found = self.next(format_args!("`{word}`"))?;
        if found == word { Ok(()) } else { Err(malformed(self.at, format_args!("`{word}`"), found)) }
    }

    fn location(&mut self, locations: &[Location]) -> Result<usize> {
        let expected = "a location declared above by `line`";
        let name = self.next(expected)?;
        let known = locations.iter().position(|location| location.name == name);
        known.ok_or_else(|| malformed(self.at, expected, name))
    }

    /// Reads a thread's register such as `0:r1`, if the next word is one. Returns the thread, from 0, and the register.
    fn named_register(&mut self, registers: &[Vec<String>]) -> Result<Option<(usize, usize)>> {
        let mut words = self.words.clone();
        let Some(word) = words.next() else { return Ok(None) };
        let Some((thread, register)) = word.split_once(':') else { return Ok(None) };
        self.words = words;
        let known = parse_number(thread).and_then(|thread| {
            let thread = usize::try_from(thread).ok()?;
            let index = registers.get(thread)?.iter().position(|name| name == register)?;
            Some((thread, index))
        });
        let expected = "a register that the thread names, as in 0:r1 for r1 of the first thread";
        known.map(Some).ok_or_else(|| malformed(self.at, expected, word))
    }

    fn number(&mut self, what: &str) -> Result<u64> {
        let expected = format!("{what} from 0 to 2^64 - 1");
        let word = self.next(&expected)?;
        parse_number(word).ok_or_else(|| malformed(self.at, expected, word))
    }

    fn register(&mut self, registers: &mut Vec<String>) -> Result<usize> {
        let expected = "a register such as r1";
        let name = self.next(expected)?;
        if is_register(name) { Ok(index(registers, name)) } else { Err(malformed(self.at, expected, name)) }
    }

    fn operand(&mut self, registers: &mut Vec<String>) -> Result<Operand> {
        let expected = "a number from 0 to 2^64 - 1 or a register such as r1";
        let word = self.next(expected)?;
        if is_register(word) {
            return Ok(Operand::Register(index(registers, word)));
        }
        parse_number(word).map(Operand::Number).ok_or_else(|| malformed(self.at, expected, word))
    }

    fn end(&mut self) -> Result<()> {
        self.words.next().map_or(Ok(()), |more| Err(malformed(self.at, "the end of the line", more)))
    }
}

/// Returns the index of a register of the current thread; adds it if it is new.
fn index(registers: &mut Vec<String>, name: &str) -> usize {
    registers.iter().position(|other| other == name).unwrap_or_else(|| {
        registers.push(name.into());
        registers.len() - 1
    })
}

/// Parses a number of digits only. The standard library would also accept `+1`.
fn parse_number(word: &str) -> Option<u64> {
    if word.bytes().all(|byte| byte.is_ascii_digit()) { word.parse().ok() } else { None }
}

fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_alphanumeric() || "_'.-[]".contains(c))
}

fn is_register(word: &str) -> bool {
    word.strip_prefix('r')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Creates the error. `found` is a piece of the statement, or empty if the statement ends too early.
fn malformed(line: usize, expected: impl Display, found: impl Display) -> Malformed {
    let found = match found.to_string() {
        nothing if nothing.is_empty() => "nothing".into(),
        found => format!("`{found}`"),
    };
    Malformed { line, expected: format!("{expected}; found {found}") }
}
