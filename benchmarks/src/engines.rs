//! The stores, all asked for the same: a put is durable, on any file system, when it returns.

use std::path::Path;

/// A store under measurement.
pub trait Engine: Sync {
    /// One thread's means to use it.
    fn worker(&self) -> Box<dyn Worker + '_>;
    /// Fills it, in large transactions.
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, value_bytes: usize);
    /// Does now what loading would have it do later.
    fn settle(&self) {}
    /// Reads all values as of one moment, while puts go on; how many there are. `None`: it cannot.
    fn scan(&self) -> Option<u64> {
        None
    }
    /// Copies itself to a file of this name, while puts go on; `false`: it cannot.
    fn backup(&self, _to: &Path) -> bool {
        false
    }
}

/// One thread's means to use a store.
pub trait Worker {
    /// One durable transaction.
    fn put(&mut self, key: u64, value: &[u8]);
    /// The length of a key's value, all of which has been read.
    fn get(&mut self, key: u64) -> Option<usize>;
}

type Make = fn(&Path, &u64) -> Box<dyn Engine>;

/// Every engine by name.
pub const ENGINES: &[(&str, Make)] = &[
    ("strandline", |folder, _| Box::new(Strandline::new(folder))),
    ("sqlite", |folder, _| Box::new(Sqlite::new(folder))),
    ("lmdb", |folder, _| Box::new(Lmdb::new(folder))),
    ("redb", |folder, _| Box::new(Redb::new(folder))),
    ("fjall", |folder, _| Box::new(Fjall::new(folder))),
    #[cfg(feature = "rocksdb")]
    ("rocksdb", |folder, _| Box::new(crate::rocksdb::RocksDb::new(folder))),
    #[cfg(feature = "pmemobj")]
    ("pmemobj", |folder, _| Box::new(crate::pmemobj::PmemObj::new(folder))),
];

/// Keys loaded in one transaction.
const BATCH: usize = 1000;

/// Calls `put` with batches of keys.
pub fn in_batches(keys: &mut dyn Iterator<Item = u64>, mut put: impl FnMut(&[u64])) {
    loop {
        let batch: Vec<u64> = keys.take(BATCH).collect();
        if batch.is_empty() {
            return;
        }
        put(&batch);
    }
}

/// Reads all of a value, as a program that uses it would.
pub fn touch(value: &[u8]) -> usize {
    std::hint::black_box(value.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
    value.len()
}

// ---- Strandline ----

use strandline::{HashMap, Persist, Session, Store};

#[derive(Persist)]
struct Root<'p> {
    map: HashMap<'p, u64, Vec<u8>>,
}

/// The typed API, with the default options but for the pool's size and its logs.
struct Strandline(Store<Root<'static>>);

impl Strandline {
    fn new(folder: &Path) -> Self {
        let mut options = strandline::Options::default();
        options.geometry.size = 1 << 30;
        options.geometry.logs = 40;
        let store = Store::create(folder.join("pool"), &options, |tx| {
            Ok(Root { map: HashMap::with_capacity(tx, 1 << 20)? })
        });
        Self(store.expect("create a pool"))
    }
}

impl Engine for Strandline {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self.0.session().expect("a worker"))
    }
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, value_bytes: usize) {
        let value = vec![7; value_bytes];
        in_batches(keys, |batch| {
            let put = self.0.update(|tx, root| {
                let map = root.get(tx)?.map;
                batch.iter().try_for_each(|key| map.insert(tx, key, &value).map(drop))
            });
            put.expect("load");
        });
    }
    fn settle(&self) {
        self.0.checkpoint().expect("a checkpoint");
    }
    fn scan(&self) -> Option<u64> {
        let mut snapshot = self.0.snapshot().expect("a snapshot");
        let (tx, root) = snapshot.read();
        let rows = root.get(&tx).expect("the root").map.iter(&tx);
        Some(rows.map(|row| touch(&row.expect("a row").1)).count() as u64)
    }
    fn backup(&self, to: &Path) -> bool {
        self.0.backup(to).expect("a backup");
        true
    }
}

impl Worker for Session<'_, Root<'static>> {
    fn put(&mut self, key: u64, value: &[u8]) {
        let value = value.to_vec();
        self.update(|tx, root| root.get(tx)?.map.insert(tx, &key, &value).map(drop)).expect("put");
    }
    fn get(&mut self, key: u64) -> Option<usize> {
        let value = self.view(|tx, root| root.get(tx)?.map.get(tx, &key)).expect("get");
        value.map(|value| touch(&value))
    }
}

// ---- SQLite: WAL, synchronous = FULL, a connection for each thread ----

struct Sqlite(std::path::PathBuf);

impl Sqlite {
    fn new(folder: &Path) -> Self {
        let engine = Self(folder.join("sqlite"));
        engine
            .connect()
            .execute_batch("CREATE TABLE pairs (key INTEGER PRIMARY KEY, value BLOB NOT NULL)")
            .expect("create a table");
        engine
    }

    fn connect(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(&self.0).expect("open SQLite");
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -262144;",
            )
            .expect("set pragmas");
        connection.busy_timeout(std::time::Duration::from_secs(60)).expect("set a timeout");
        connection
    }
}

impl Engine for Sqlite {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self.connect())
    }
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, value_bytes: usize) {
        let (value, mut connection) = (vec![7u8; value_bytes], self.connect());
        in_batches(keys, |batch| {
            let transaction = connection.transaction().expect("begin");
            for &key in batch {
                transaction
                    .execute("INSERT OR REPLACE INTO pairs VALUES (?1, ?2)", (key as i64, &value))
                    .expect("load");
            }
            transaction.commit().expect("commit");
        });
    }
    fn settle(&self) {
        self.connect().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("a checkpoint");
    }
    fn scan(&self) -> Option<u64> {
        let connection = self.connect();
        let mut statement = connection.prepare("SELECT value FROM pairs").expect("prepare");
        let mut rows = statement.query([]).expect("scan");
        let mut count = 0;
        while let Some(row) = rows.next().expect("a row") {
            touch(row.get_ref(0).expect("a value").as_blob().expect("a blob"));
            count += 1;
        }
        Some(count)
    }
    fn backup(&self, to: &Path) -> bool {
        self.connect().execute("VACUUM INTO ?1", [to.to_str().expect("a path in UTF-8")]).expect("a backup");
        true
    }
}

impl Worker for rusqlite::Connection {
    fn put(&mut self, key: u64, value: &[u8]) {
        self.prepare_cached("INSERT OR REPLACE INTO pairs VALUES (?1, ?2)")
            .and_then(|mut statement| statement.execute((key as i64, value)))
            .expect("put");
    }
    fn get(&mut self, key: u64) -> Option<usize> {
        let mut statement = self.prepare_cached("SELECT value FROM pairs WHERE key = ?1").expect("prepare");
        let mut rows = statement.query([key as i64]).expect("get");
        let row = rows.next().expect("get")?;
        Some(touch(row.get_ref(0).expect("a value").as_blob().expect("a blob")))
    }
}

// ---- LMDB ----

use heed::types::{Bytes, U64};

type LmdbDatabase = heed::Database<U64<heed::byteorder::BigEndian>, Bytes>;

struct Lmdb {
    environment: heed::Env,
    database: LmdbDatabase,
}

impl Lmdb {
    fn new(folder: &Path) -> Self {
        let folder = folder.join("lmdb");
        std::fs::create_dir(&folder).expect("make a folder");
        let mut options = heed::EnvOpenOptions::new();
        options.map_size(1 << 30).max_readers(100);
        // SAFETY: nobody else opens or changes these files.
        let environment = unsafe { options.open(&folder) }.expect("open LMDB");
        let mut transaction = environment.write_txn().expect("begin");
        let database = environment.create_database(&mut transaction, None).expect("create a database");
        transaction.commit().expect("commit");
        Self { environment, database }
    }
}

impl Engine for Lmdb {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self)
    }
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, value_bytes: usize) {
        let value = vec![7; value_bytes];
        in_batches(keys, |batch| {
            let mut transaction = self.environment.write_txn().expect("begin");
            for key in batch {
                self.database.put(&mut transaction, key, &value).expect("load");
            }
            transaction.commit().expect("commit");
        });
    }
    fn scan(&self) -> Option<u64> {
        let transaction = self.environment.read_txn().expect("begin");
        let rows = self.database.iter(&transaction).expect("scan");
        Some(rows.map(|row| touch(row.expect("a row").1)).count() as u64)
    }
    fn backup(&self, to: &Path) -> bool {
        let mut file = std::fs::File::create(to).expect("make a file");
        self.environment.copy_to_file(&mut file, heed::CompactionOption::Disabled).expect("a backup");
        true
    }
}

impl Worker for &Lmdb {
    fn put(&mut self, key: u64, value: &[u8]) {
        let mut transaction = self.environment.write_txn().expect("begin");
        self.database.put(&mut transaction, &key, value).expect("put");
        transaction.commit().expect("commit");
    }
    fn get(&mut self, key: u64) -> Option<usize> {
        let transaction = self.environment.read_txn().expect("begin");
        self.database.get(&transaction, &key).expect("get").map(touch)
    }
}

// ---- redb ----

use redb::{ReadableDatabase, ReadableTable, TableDefinition};

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("pairs");

struct Redb(redb::Database);

impl Redb {
    fn new(folder: &Path) -> Self {
        Self(redb::Database::create(folder.join("redb")).expect("open redb"))
    }
}

impl Engine for Redb {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self)
    }
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, value_bytes: usize) {
        let value = vec![7; value_bytes];
        in_batches(keys, |batch| {
            let transaction = self.0.begin_write().expect("begin");
            {
                let mut table = transaction.open_table(TABLE).expect("open the table");
                for key in batch {
                    table.insert(key, value.as_slice()).expect("load");
                }
            }
            transaction.commit().expect("commit");
        });
    }
    fn scan(&self) -> Option<u64> {
        let transaction = self.0.begin_read().expect("begin");
        let table = transaction.open_table(TABLE).expect("open the table");
        let rows = table.iter().expect("scan");
        Some(rows.map(|row| touch(row.expect("a row").1.value())).count() as u64)
    }
}

impl Worker for &Redb {
    fn put(&mut self, key: u64, value: &[u8]) {
        // Durability::Immediate is the default.
        let transaction = self.0.begin_write().expect("begin");
        transaction.open_table(TABLE).expect("open the table").insert(key, value).expect("put");
        transaction.commit().expect("commit");
    }
    fn get(&mut self, key: u64) -> Option<usize> {
        let transaction = self.0.begin_read().expect("begin");
        let table = transaction.open_table(TABLE).expect("open the table");
        table.get(key).expect("get").map(|value| touch(value.value()))
    }
}

// ---- fjall ----

struct Fjall {
    database: fjall::Database,
    pairs: fjall::Keyspace,
}

impl Fjall {
    fn new(folder: &Path) -> Self {
        let database = fjall::Database::builder(folder.join("fjall")).open().expect("open fjall");
        let pairs =
            database.keyspace("pairs", fjall::KeyspaceCreateOptions::default).expect("make a keyspace");
        Self { database, pairs }
    }
}

impl Engine for Fjall {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self)
    }
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, value_bytes: usize) {
        let value = vec![7u8; value_bytes];
        in_batches(keys, |batch| {
            let mut writes = self.database.batch();
            for key in batch {
                writes.insert(&self.pairs, key.to_be_bytes(), value.as_slice());
            }
            writes.commit().expect("load");
        });
        self.database.persist(fjall::PersistMode::SyncAll).expect("flush");
    }
    fn scan(&self) -> Option<u64> {
        let snapshot = self.database.snapshot();
        let rows = fjall::Readable::iter(&snapshot, &self.pairs);
        Some(rows.map(|row| touch(&row.value().expect("a row"))).count() as u64)
    }
}

impl Worker for &Fjall {
    fn put(&mut self, key: u64, value: &[u8]) {
        self.pairs.insert(key.to_be_bytes(), value).expect("put");
        self.database.persist(fjall::PersistMode::SyncData).expect("flush");
    }
    fn get(&mut self, key: u64) -> Option<usize> {
        self.pairs.get(key.to_be_bytes()).expect("get").map(|value| touch(&value))
    }
}
