//! The stores. All have the same task: a put is durable, on any file system, when it returns.

use std::path::Path;

/// A store under measurement.
pub trait Engine: Sync {
    /// Creates the means by which one thread uses the store.
    fn worker(&self) -> Box<dyn Worker + '_>;
    /// Puts rows into the store, in durable transactions of `batch` rows each.
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, values: &Values, batch: usize);
    /// Fills the store, which is empty, with rows in the order of their keys, by the store's own method for that. The rows are durable at the end.
    /// Returns `false` if there is no such method.
    fn load_sorted(&self, _keys: &mut dyn Iterator<Item = u64>, _values: &Values) -> bool {
        false
    }
    /// Does work now that loading has left for later.
    fn settle(&self) {}
    /// Reads all rows in order and as of one moment, while puts go on, and returns their number. Returns `None` if the store cannot do that.
    fn scan(&self) -> Option<u64> {
        self.worker().range(0, usize::MAX)
    }
    /// Copies the store to a file of this name, while puts go on. Returns `false` if the store cannot do that.
    fn backup(&self, _to: &Path) -> bool {
        false
    }
}

/// The means by which one thread uses a store.
pub trait Worker {
    /// Runs one durable transaction.
    fn put(&mut self, key: u64, value: &[u8]);
    /// Reads the whole value of a key, and returns its length.
    fn get(&mut self, key: u64) -> Option<usize>;
    /// Reads up to `most` rows in order, from a key on, in one transaction, and returns their number. Returns `None` if the store cannot do that.
    fn range(&mut self, _from: u64, _most: usize) -> Option<u64> {
        None
    }
}

/// Bytes that no store can compress, from which the values of all keys are taken.
pub struct Values {
    noise: Vec<u8>,
    /// Number of bytes in a value.
    bytes: usize,
}

/// Values begin at one of 2 to the power of this number of places in the noise.
const PLACE_BITS: u32 = 20;

impl Values {
    /// Creates values of this number of bytes.
    pub fn new(bytes: usize) -> Self {
        let mut noise = vec![0; (1 << PLACE_BITS) + bytes];
        fastrand::Rng::with_seed(1).fill(&mut noise);
        Self { noise, bytes }
    }

    /// Returns the value of a key. The values of consecutive keys have no bytes in common.
    pub fn of(&self, key: u64) -> &[u8] {
        let mixed = (key ^ key >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let place = (mixed >> (64 - PLACE_BITS)) as usize;
        &self.noise[place..place + self.bytes]
    }
}

/// The size of a store.
#[derive(Clone, Copy)]
pub struct Size {
    /// Number of bytes in a value.
    pub value_bytes: usize,
    /// The largest number of bytes that the store may take, for stores that must know it.
    pub most_bytes: usize,
}

/// Opens the store in a folder, or creates it.
pub type Make = fn(&Path, Size) -> Box<dyn Engine>;

/// All engines by name.
pub const ENGINES: &[(&str, Make)] = &[
    ("strandline", |folder, size| Box::new(Strandline::new(folder, size))),
    ("sqlite", |folder, _| Box::new(Sqlite::new(folder))),
    ("lmdb", |folder, size| Box::new(Lmdb::new(folder, size))),
    ("redb", |folder, _| Box::new(Redb::new(folder))),
    ("fjall", |folder, size| Box::new(Fjall::new(folder, size))),
    #[cfg(feature = "rocksdb")]
    ("rocksdb", |folder, _| Box::new(crate::rocksdb::RocksDb::new(folder))),
    #[cfg(feature = "pmemobj")]
    ("pmemobj", |folder, _| Box::new(crate::pmemobj::PmemObj::new(folder))),
];

/// Number of keys that are loaded in one transaction.
pub const BATCH: usize = 1000;

/// Calls `put` with batches of keys.
pub fn in_batches(keys: &mut dyn Iterator<Item = u64>, batch: usize, mut put: impl FnMut(&[u64])) {
    loop {
        let batch: Vec<u64> = keys.take(batch).collect();
        if batch.is_empty() {
            return;
        }
        put(&batch);
    }
}

/// Reads the whole value, as a program that uses it would, and returns its length.
pub fn touch(value: &[u8]) -> usize {
    std::hint::black_box(value.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
    value.len()
}

/// Reads a row of a range, and returns 1.
fn row(key: u64, value: &[u8]) -> u64 {
    std::hint::black_box(key);
    touch(value);
    1
}

// ---- Strandline ----

use strandline::{Database, Table};

/// A table with the default options, except for the pool's size and its logs.
struct Strandline {
    database: Database,
    pairs: Table<u64, Vec<u8>>,
    /// True if values may be stored in several pieces.
    in_pieces: bool,
}

/// A writer that reads all bytes that are written to it, like [`touch`].
struct Touch;

impl std::io::Write for Touch {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
        Ok(touch(piece))
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Strandline {
    fn new(folder: &Path, size: Size) -> Self {
        let mut options = strandline::Options::default();
        options.geometry.size = size.most_bytes as u64;
        options.geometry.logs = 40;
        let database = Database::open_with(folder.join("pool"), &options).expect("make a database");
        let pairs = database.table("pairs").expect("make a table");
        Self { database, pairs, in_pieces: size.value_bytes > 16 << 10 }
    }
}

impl Engine for Strandline {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self)
    }
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, values: &Values, batch: usize) {
        in_batches(keys, batch, |batch| {
            let load = self.database.write(|tx| {
                batch.iter().try_for_each(|key| self.pairs.set(tx, key, values.of(*key)))
            });
            load.expect("load");
        });
    }
    fn load_sorted(&self, keys: &mut dyn Iterator<Item = u64>, values: &Values) -> bool {
        // The transaction may run more than once.
        let keys: Vec<u64> = keys.collect();
        let rows = || keys.iter().map(|&key| (key, values.of(key).to_vec()));
        self.database.write(|tx| self.pairs.load(tx, rows())).expect("load");
        true
    }
    fn settle(&self) {
        self.database.checkpoint().expect("a checkpoint");
    }
    fn scan(&self) -> Option<u64> {
        let snapshot = self.database.snapshot().expect("a snapshot");
        let tx = snapshot.read();
        let mut rows = self.pairs.iter(&tx).expect("scan");
        let mut count = 0;
        while let Some(read) = rows.next_with(row) {
            count += read.expect("a row");
        }
        Some(count)
    }
    fn backup(&self, to: &Path) -> bool {
        self.database.backup(to).expect("a backup");
        true
    }
}

impl Worker for &Strandline {
    fn put(&mut self, key: u64, value: &[u8]) {
        self.database.write(|tx| self.pairs.set(tx, &key, value)).expect("put");
    }
    fn get(&mut self, key: u64) -> Option<usize> {
        let get = |tx: &strandline::View<'_>| match self.in_pieces {
            true => Ok(match self.pairs.reader(tx, &key)? {
                Some(mut value) => Some(value.write_to(Touch)? as usize),
                None => None,
            }),
            false => self.pairs.read_with(tx, &key, touch),
        };
        self.database.read(get).expect("get")
    }
    fn range(&mut self, from: u64, most: usize) -> Option<u64> {
        let rows = self.database.read(|tx| {
            let (mut rows, mut count) = (self.pairs.range(tx, from..)?, 0);
            while count < most as u64
                && let Some(read) = rows.next_with(row)
            {
                count += read?;
            }
            Ok(count)
        });
        Some(rows.expect("a range"))
    }
}

// ---- SQLite: WAL, synchronous = FULL, a connection for each thread ----

struct Sqlite(std::path::PathBuf);

/// Converts a key to a signed integer, which SQLite needs, in the same order.
fn signed(key: u64) -> i64 {
    (key as i64) ^ i64::MIN
}

impl Sqlite {
    fn new(folder: &Path) -> Self {
        let engine = Self(folder.join("sqlite"));
        engine
            .connect()
            .execute_batch("CREATE TABLE IF NOT EXISTS pairs (key INTEGER PRIMARY KEY, value BLOB NOT NULL)")
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
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, values: &Values, batch: usize) {
        let mut connection = self.connect();
        in_batches(keys, batch, |batch| {
            let transaction = connection.transaction().expect("begin");
            for &key in batch {
                transaction
                    .execute("INSERT OR REPLACE INTO pairs VALUES (?1, ?2)", (signed(key), values.of(key)))
                    .expect("load");
            }
            transaction.commit().expect("commit");
        });
    }
    fn settle(&self) {
        self.connect().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("a checkpoint");
    }
    fn backup(&self, to: &Path) -> bool {
        self.connect().execute("VACUUM INTO ?1", [to.to_str().expect("a path in UTF-8")]).expect("a backup");
        true
    }
}

impl Worker for rusqlite::Connection {
    fn put(&mut self, key: u64, value: &[u8]) {
        self.prepare_cached("INSERT OR REPLACE INTO pairs VALUES (?1, ?2)")
            .and_then(|mut statement| statement.execute((signed(key), value)))
            .expect("put");
    }
    fn get(&mut self, key: u64) -> Option<usize> {
        let mut statement = self.prepare_cached("SELECT value FROM pairs WHERE key = ?1").expect("prepare");
        let mut rows = statement.query([signed(key)]).expect("get");
        let row = rows.next().expect("get")?;
        Some(touch(row.get_ref(0).expect("a value").as_blob().expect("a blob")))
    }
    fn range(&mut self, from: u64, most: usize) -> Option<u64> {
        let mut statement = self
            .prepare_cached("SELECT key, value FROM pairs WHERE key >= ?1 ORDER BY key LIMIT ?2")
            .expect("prepare");
        // A negative limit means no limit.
        let mut rows = statement.query([signed(from), i64::try_from(most).unwrap_or(-1)]).expect("a range");
        let mut count = 0;
        while let Some(pair) = rows.next().expect("a row") {
            let key: i64 = pair.get(0).expect("a key");
            count += row(key as u64, pair.get_ref(1).expect("a value").as_blob().expect("a blob"));
        }
        Some(count)
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
    fn new(folder: &Path, size: Size) -> Self {
        let folder = folder.join("lmdb");
        std::fs::create_dir_all(&folder).expect("make a folder");
        let mut options = heed::EnvOpenOptions::new();
        options.map_size(size.most_bytes).max_readers(100);
        // SAFETY: read-ahead only affects the time.
        unsafe { options.flags(heed::EnvFlags::NO_READ_AHEAD) };
        // SAFETY: no other process opens or changes these files.
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
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, values: &Values, batch: usize) {
        in_batches(keys, batch, |batch| {
            let mut transaction = self.environment.write_txn().expect("begin");
            for key in batch {
                self.database.put(&mut transaction, key, values.of(*key)).expect("load");
            }
            transaction.commit().expect("commit");
        });
    }
    fn load_sorted(&self, keys: &mut dyn Iterator<Item = u64>, values: &Values) -> bool {
        let mut transaction = self.environment.write_txn().expect("begin");
        for key in keys {
            let (flags, value) = (heed::PutFlags::APPEND, values.of(key));
            self.database.put_with_flags(&mut transaction, flags, &key, value).expect("load");
        }
        transaction.commit().expect("commit");
        true
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
    fn range(&mut self, from: u64, most: usize) -> Option<u64> {
        let transaction = self.environment.read_txn().expect("begin");
        let rows = self.database.range(&transaction, &(from..)).expect("a range").take(most);
        Some(rows.map(|pair| pair.map(|(key, value)| row(key, value)).expect("a row")).sum())
    }
}

// ---- redb ----

use redb::{ReadableDatabase, TableDefinition};

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
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, values: &Values, batch: usize) {
        in_batches(keys, batch, |batch| {
            let transaction = self.0.begin_write().expect("begin");
            {
                let mut table = transaction.open_table(TABLE).expect("open the table");
                for key in batch {
                    table.insert(key, values.of(*key)).expect("load");
                }
            }
            transaction.commit().expect("commit");
        });
    }
}

impl Worker for &Redb {
    fn put(&mut self, key: u64, value: &[u8]) {
        // `Durability::Immediate` is the default.
        let transaction = self.0.begin_write().expect("begin");
        transaction.open_table(TABLE).expect("open the table").insert(key, value).expect("put");
        transaction.commit().expect("commit");
    }
    fn get(&mut self, key: u64) -> Option<usize> {
        let transaction = self.0.begin_read().expect("begin");
        let table = transaction.open_table(TABLE).expect("open the table");
        table.get(key).expect("get").map(|value| touch(value.value()))
    }
    fn range(&mut self, from: u64, most: usize) -> Option<u64> {
        let transaction = self.0.begin_read().expect("begin");
        let table = transaction.open_table(TABLE).expect("open the table");
        let rows = table.range(from..).expect("a range").take(most);
        Some(rows.map(|pair| pair.map(|(key, value)| row(key.value(), value.value())).expect("a row")).sum())
    }
}

// ---- fjall ----

struct Fjall {
    database: fjall::Database,
    pairs: fjall::Keyspace,
}

impl Fjall {
    fn new(folder: &Path, size: Size) -> Self {
        let database = fjall::Database::builder(folder.join("fjall")).open().expect("open fjall");
        let options = || {
            // Its documentation recommends this for large values.
            let apart = (size.value_bytes >= 10_000).then(fjall::KvSeparationOptions::default);
            fjall::KeyspaceCreateOptions::default().with_kv_separation(apart)
        };
        let pairs = database.keyspace("pairs", options).expect("make a keyspace");
        Self { database, pairs }
    }
}

impl Engine for Fjall {
    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(self)
    }
    fn load(&self, keys: &mut dyn Iterator<Item = u64>, values: &Values, batch: usize) {
        in_batches(keys, batch, |batch| {
            let mut writes = self.database.batch();
            for key in batch {
                writes.insert(&self.pairs, key.to_be_bytes(), values.of(*key));
            }
            writes.commit().expect("load");
            self.database.persist(fjall::PersistMode::SyncData).expect("flush");
        });
    }
    fn load_sorted(&self, keys: &mut dyn Iterator<Item = u64>, values: &Values) -> bool {
        let mut load = self.pairs.start_ingestion().expect("begin");
        for key in keys {
            load.write(key.to_be_bytes(), values.of(key)).expect("load");
        }
        load.finish().expect("end");
        true
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
    fn range(&mut self, from: u64, most: usize) -> Option<u64> {
        let snapshot = self.database.snapshot();
        let rows = fjall::Readable::range(&snapshot, &self.pairs, from.to_be_bytes()..).take(most);
        let count = rows.map(|pair| {
            let (key, value) = pair.into_inner().expect("a row");
            row(u64::from_be_bytes(key[..].try_into().expect("eight bytes")), &value)
        });
        Some(count.sum())
    }
}
