//! A shop whose stock and invoices always agree, even if the program is killed or the power fails.
//!
//! ```text
//! cargo run --release -p strandline --example shop -- /tmp/shop.db deliver bolt 40
//! cargo run --release -p strandline --example shop -- /tmp/shop.db sell bolt 3
//! cargo run --release -p strandline --example shop -- /tmp/shop.db rush bolt
//! cargo run --release -p strandline --example shop -- /tmp/shop.db report
//! ```
//!
//! `rush` sells one piece after another with four threads until the stock is empty, and prints each invoice once it is on the disk. Kill it with
//! `kill -9`: `report` then finds every printed invoice, and perhaps a few that were stored but not printed.

use std::io::Write;
use std::path::Path;

use strandline::{Database, Error, Persist, Table};

#[derive(Default, Persist)]
struct Article {
    delivered: u64,
    left: u64,
}

#[derive(Persist)]
struct Invoice {
    article: String,
    count: u64,
}

/// The reason why the shop refuses an operation. `?` converts the database's own errors.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("only {left} of `{article}` are left")]
    NotEnough { article: String, left: u64 },
    #[error(transparent)]
    Database(#[from] Error),
}

/// The database and its tables. A clone is a second handle, for another thread.
#[derive(Clone)]
struct Shop {
    db: Database,
    articles: Table<String, Article>,
    invoices: Table<u64, Invoice>,
}

impl Shop {
    fn open(path: &Path) -> Result<Self, Error> {
        let db = Database::open(path)?; // creates the file on the first run
        let articles = db.table("articles")?;
        let invoices = db.table("invoices")?;
        Ok(Self { db, articles, invoices })
    }

    fn deliver(&self, name: &str, count: u64) -> Result<u64, Error> {
        self.db.write(|tx| {
            let mut article = self.articles.get(tx, name)?.unwrap_or_default();
            article.delivered += count;
            article.left += count;
            self.articles.insert(tx, name, &article)?;
            Ok(article.left)
        })
    }

    /// Takes `count` pieces from the stock and stores an invoice: both, or neither. Returns the invoice's number.
    fn sell(&self, name: &str, count: u64) -> Result<u64, Refusal> {
        self.db.write_with_error(|tx| {
            let mut article = self.articles.get(tx, name)?.unwrap_or_default();
            let Some(left) = article.left.checked_sub(count) else {
                // Returning an error rolls the transaction back.
                return Err(Refusal::NotEnough { article: name.to_owned(), left: article.left });
            };
            article.left = left;
            self.articles.insert(tx, name, &article)?;
            let number = self.invoices.last(tx)?.map_or(1, |(last, _)| last + 1);
            self.invoices.insert(tx, &number, &Invoice { article: name.to_owned(), count })?;
            Ok(number)
        })
    }

    fn rush(&self, name: &str) -> Result<(), Refusal> {
        std::thread::scope(|scope| {
            let sellers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            match self.sell(name, 1) {
                                Ok(number) if writeln!(std::io::stdout(), "invoice {number}").is_ok() => {}
                                // Nobody reads the output any more, or everything is sold.
                                Ok(_) | Err(Refusal::NotEnough { .. }) => return Ok(()),
                                Err(error) => return Err(error),
                            }
                        }
                    })
                })
                .collect();
            sellers.into_iter().try_for_each(|seller| seller.join().expect("a seller panicked"))
        })
    }

    /// Prints the articles. A snapshot is one moment of the database, and sales continue while it is read.
    fn report(&self) -> Result<(), Error> {
        let snapshot = self.db.snapshot()?;
        let tx = snapshot.read();
        for row in self.articles.iter(&tx)? {
            let (name, article) = row?;
            let mut sold = 0;
            for row in self.invoices.iter(&tx)? {
                let (_, invoice) = row?;
                sold += if invoice.article == name { invoice.count } else { 0 };
            }
            println!("{name}: {} delivered, {sold} sold, {} left", article.delivered, article.left);
            assert_eq!(article.delivered, sold + article.left, "stock and invoices disagree");
        }
        println!("{} invoices", self.invoices.len(&tx)?);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [path, command @ ..] = arguments.as_slice() else { return Err("usage: shop FILE COMMAND".into()) };
    let shop = Shop::open(Path::new(path))?;
    match command {
        ["deliver", name, count] => println!("{} of `{name}` in stock", shop.deliver(name, count.parse()?)?),
        ["sell", name, count] => println!("invoice {}", shop.sell(name, count.parse()?)?),
        ["rush", name] => shop.rush(name)?,
        ["report"] => shop.report()?,
        _ => return Err("the commands are: deliver NAME COUNT, sell NAME COUNT, rush NAME, report".into()),
    }
    shop.db.close()?; // reports errors, which dropping the last handle cannot
    Ok(())
}
