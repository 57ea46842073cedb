//! Three versions of a program that keeps contacts, each of which reads what the earlier ones have stored.
//!
//! ```text
//! cargo run --release -p strandline --example migration -- /tmp/contacts.db 1
//! cargo run --release -p strandline --example migration -- /tmp/contacts.db 3
//! cargo run --release -p strandline --example migration -- /tmp/contacts.db 2
//! ```
//!
//! The argument says which version of the program runs. Versions 2 and 3 convert the table when they open it, and the earlier programs refuse it from
//! then on. A real program has only the latest version of `Contact`, and those earlier ones that a function of its own converts.

use strandline::{Database, Result};

/// The first version of the program.
mod v1 {
    use super::*;

    #[derive(Debug, strandline::Persist)]
    pub struct Contact {
        pub name: String,
        pub born: u16,
        pub fax: String,
    }

    pub fn run(db: &Database) -> Result<()> {
        let contacts = db.table("contacts")?;
        let ann = Contact { name: "Ann Bee".into(), born: 1970, fax: "12".into() };
        let bob = Contact { name: "Bob".into(), born: 0, fax: String::new() };
        db.write(|tx| {
            contacts.insert(tx, &1u64, &ann)?;
            contacts.insert(tx, &2, &bob)
        })?;
        print_all(db, &contacts)
    }
}

/// The second version. Attributes describe the changes of the fields, and opening the table converts it.
mod v2 {
    use super::*;

    #[derive(Debug, strandline::Persist)]
    #[persist(version = 2)]
    pub struct Contact {
        #[persist(was = "name")]
        pub full_name: String,
        /// Was a `u16`. The field `fax` was removed, which needs no attribute.
        pub born: u32,
        #[persist(default)]
        pub mail: Vec<String>,
    }

    pub fn run(db: &Database) -> Result<()> {
        print_all(db, &db.table::<u64, Contact>("contacts")?)
    }
}

/// The third version. Two names become one, which attributes cannot describe, so a function converts each row.
mod v3 {
    use super::*;

    #[derive(Debug, strandline::Persist)]
    #[persist(version = 3)]
    pub struct Contact {
        pub first_name: String,
        pub last_name: Option<String>,
        /// In version 2, 0 meant that the year is not known.
        pub born: Option<u32>,
        pub mail: Vec<String>,
    }

    fn convert(number: u64, old: v2::Contact) -> Result<Option<(u64, Contact)>> {
        let (first, last) = match old.full_name.split_once(' ') {
            Some((first, last)) => (first.to_owned(), Some(last.to_owned())),
            None => (old.full_name, None),
        };
        let born = Some(old.born).filter(|year| *year != 0);
        Ok(Some((number, Contact { first_name: first, last_name: last, born, mail: old.mail })))
    }

    pub fn run(db: &Database) -> Result<()> {
        // Contacts of version 1 are converted to version 2 first, by the attributes.
        let contacts = db.migrate("contacts", convert, |moved| eprintln!("{moved} contacts so far"))?;
        print_all(db, &contacts)
    }
}

fn print_all<V: strandline::Value + std::fmt::Debug>(
    db: &Database,
    contacts: &strandline::Table<u64, V>,
) -> Result<()> {
    let snapshot = db.snapshot()?;
    for row in snapshot.rows(contacts) {
        let (number, contact) = row?;
        println!("{number}: {contact:?}");
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(path), Some(version)) = (arguments.first(), arguments.get(1)) else {
        eprintln!("usage: migration FILE 1|2|3");
        std::process::exit(2);
    };
    let db = Database::open(path)?;
    let done = match version.as_str() {
        "1" => v1::run(&db),
        "2" => v2::run(&db),
        _ => v3::run(&db),
    };
    // `?` would print the error's fields. Its message says what differs, and what to do.
    if let Err(error) = done {
        println!("version {version} refuses: {error}");
    }
    db.close()
}
