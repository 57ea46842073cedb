//! Creates and opens pools for measuring.

use std::path::{Path, PathBuf};

use strandline_schemes::laboratory;

use strandline_core::engine::{Setup, SingleWriter, Stm};
use strandline_core::error::Error;
use strandline_core::file::Pool;
use strandline_core::memory::WriteBackInstruction;
use strandline_core::transaction::Concurrency;
use strandline_core::{Domain, Result};

use crate::{NewPool, PoolSetting, Product, SchemeName, Selection, System, runner};

/// An open pool that holds a workload's structure. Its file is removed when it is dropped.
pub struct Prepared {
    /// `None` only while it is reopened or dropped.
    pool: Option<Pool<Concurrency>>,
    path: PathBuf,
    setting: PoolSetting,
    /// True if it was opened since the last call of [`Prepared::take_fresh`].
    fresh: bool,
    /// True if the memory is really persistent, or only treated as if it were.
    pub assumed_persistent: bool,
}

impl Prepared {
    /// Creates a pool at `path` and fills it with the workload's structure.
    ///
    /// # Errors
    /// Returns the errors of [`Pool::create`], and one if the workload does not fit.
    pub fn new(path: &Path, selection: &Selection, setting: PoolSetting) -> Result<Self> {
        let size = setting.size(selection.heap_bytes())?;
        // Filling needs no durability, since the pool is closed cleanly afterwards.
        let filling = PoolSetting { domain: Domain::Process, instruction: None, ..setting };
        let pool = laboratory(filling.concurrency).create(path, &filling.options(size))?;
        let mut prepared = Self {
            pool: Some(pool),
            path: path.to_owned(),
            setting: filling,
            fresh: true,
            assumed_persistent: false,
        };
        let volatile = SchemeName { concurrency: setting.concurrency, ..SchemeName::VOLATILE };
        selection.prepare(&mut runner(prepared.pool(), volatile, 0)?)?;
        prepared.reopen(setting.domain, setting.instruction)?;
        Ok(prepared)
    }

    /// Closes the pool and opens it under another domain or with another instruction. Does nothing if it is already open in that way.
    ///
    /// # Errors
    /// As for [`Pool::close`] and [`Pool::open`].
    pub fn reopen(&mut self, domain: Domain, instruction: Option<WriteBackInstruction>) -> Result<()> {
        let setting = PoolSetting { domain, instruction, ..self.setting };
        if setting == self.setting && self.pool.is_some() {
            return Ok(());
        }
        if let Some(pool) = self.pool.take() {
            pool.close()?;
        }
        let mut options = setting.options(0);
        options.assume_persistent = self.assumed_persistent;
        let opened = match laboratory(self.setting.concurrency).open(&self.path, &options) {
            Err(Error::NotPersistentMemory { .. }) => {
                self.assumed_persistent = true;
                options.assume_persistent = true;
                laboratory(self.setting.concurrency).open(&self.path, &options)
            }
            opened => opened,
        };
        self.pool = Some(opened?);
        self.setting = setting;
        self.fresh = true;
        Ok(())
    }

    /// Leaves the pool as a killed process would, and opens it again, which recovers it. The worker that `work` returns keeps the pool from being
    /// closed.
    ///
    /// # Errors
    /// Returns the errors of `work` and of [`Pool::open`].
    pub fn crash<W>(&mut self, work: impl FnOnce(&Pool<Concurrency>) -> Result<W>) -> Result<()> {
        let worker = work(self.pool())?;
        drop(self.pool.take());
        drop(worker);
        self.reopen(self.setting.domain, self.setting.instruction)
    }

    /// Returns whether the pool was opened since the last call. Its pages are then not mapped yet, which slows down the first run.
    pub fn take_fresh(&mut self) -> bool {
        std::mem::take(&mut self.fresh)
    }

    /// Returns the pool.
    pub fn pool(&self) -> &Pool<Concurrency> {
        self.pool.as_ref().expect("the pool is there until drop")
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        drop(self.pool.take());
        // The folder is removed later, too; this frees the memory early.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// An open pool or store on the product's path that holds a workload's structure. Its file is removed when it is dropped.
pub struct PreparedProduct<'s> {
    /// `None` only while it is dropped.
    product: Option<Box<dyn Product + 's>>,
    path: PathBuf,
    /// True if the memory is really persistent, or only treated as if it were.
    pub assumed_persistent: bool,
}

impl<'s> PreparedProduct<'s> {
    /// Creates the pool or store of `system` at `path`, under its control, and fills it. Returns `None` if `system` is a scheme, or if the workload
    /// has no typed form.
    ///
    /// # Errors
    /// Returns the errors of [`Pool::create`], and one if the workload does not fit.
    pub fn new(
        path: &Path,
        selection: &'s Selection,
        system: System,
        setting: PoolSetting,
    ) -> Result<Option<Self>> {
        // Typed collections also have headers, tags and tables.
        let heap_bytes = selection.heap_bytes() * if system.is_typed() { 2 } else { 1 };
        let new = NewPool::new(path, setting, heap_bytes)?;
        let product = match system {
            System::Words => selection.create_inlined(
                (Setup::from(Stm), |workload, pool, seed| workload.inlined(pool, seed)),
                &new,
            )?,
            System::SingleWriter => selection.create_inlined(
                (Setup::from(SingleWriter), |workload, pool, seed| {
                    workload.inlined_single_writer(pool, seed)
                }),
                &new,
            )?,
            System::Types | System::TypesSingleWriter if selection.has_types() => {
                selection.create_typed(system.concurrency(), &new)?
            }
            System::Types | System::TypesSingleWriter | System::Scheme(_) => return Ok(None),
        };
        let assumed_persistent = new.assumed_persistent();
        Ok(Some(Self { product: Some(product), path: new.path, assumed_persistent }))
    }

    /// Returns the pool or store.
    pub fn product(&self) -> &(dyn Product + 's) {
        self.product.as_deref().expect("the product is there until drop")
    }
}

impl Drop for PreparedProduct<'_> {
    fn drop(&mut self) {
        drop(self.product.take());
        let _ = std::fs::remove_file(&self.path);
    }
}
