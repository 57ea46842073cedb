//! A workload with its sizes.

use strandline_core::engine::{Control, Setup};
use strandline_core::error::Error;
use strandline_core::file::Pool;
use strandline_core::memory::Native;
use strandline_core::transaction::{AnyRunner, Runner, Statistics};
use strandline_core::{Concurrency, Domain, Result};

use crate::any::{ErasedClient, InlinedClientOf, Words};
use crate::names::System;
use crate::{
    AnyWorkload, Client, InlinedWorkload, Keys, Mix, NewPool, Parameter, Product, Row, Run, SchemeName,
    Sizes, WorkloadKind, runner,
};
use strandline_bench::{Aside, measure};

/// A workload with its sizes.
pub struct Selection {
    kind: WorkloadKind,
    sizes: Sizes,
    workload: Box<dyn InlinedWorkload>,
}

impl Selection {
    /// Selects the workload `kind` with these sizes.
    ///
    /// # Errors
    /// Returns an error if a size is impossible.
    pub fn new(kind: WorkloadKind, sizes: &Sizes) -> Result<Self> {
        kind.check(sizes)?;
        let takes = |parameter| kind.takes.contains(&parameter);
        let read_percent = if takes(Parameter::ReadShare) { sizes.read_percent } else { 0 };
        let keys = if takes(Parameter::Keys) { sizes.keys } else { Keys::Even };
        let sizes = Sizes { read_percent, keys, ..*sizes };
        Ok(Self { kind, sizes, workload: (kind.make)(&sizes)? })
    }

    /// Returns the workload's descriptor.
    pub fn kind(&self) -> WorkloadKind {
        self.kind
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.kind.name
    }

    /// Returns its sizes.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Returns the workload with these sizes.
    pub fn workload(&self) -> &dyn AnyWorkload {
        &*self.workload
    }

    /// Returns whether its operations also exist on typed collections, with these sizes.
    pub fn has_types(&self) -> bool {
        let Sizes { value_bytes, mix, keys, .. } = self.sizes;
        self.kind.by_types.is_some() && value_bytes == 8 && mix == Mix::Toggle && keys == Keys::Even
    }

    /// Like [`AnyWorkload::heap_bytes`].
    pub fn heap_bytes(&self) -> u64 {
        self.workload.heap_bytes()
    }

    /// Refuses more threads than the workload supports.
    ///
    /// # Errors
    /// Returns an error if there are more.
    pub fn allow(&self, threads: u64) -> Result<()> {
        let most = self.workload.most_threads();
        if threads <= most {
            return Ok(());
        }
        Err(Error::Parameter(format!(
            "{} is a workload of {most} thread, not of {threads}: choose --threads {most}",
            self.name()
        )))
    }

    /// Like [`AnyWorkload::prepare`].
    ///
    /// # Errors
    /// As for [`AnyWorkload::prepare`].
    pub fn prepare(&self, runner: &mut AnyRunner) -> Result<()> {
        self.workload.prepare(runner)
    }

    /// Like [`AnyWorkload::check`].
    ///
    /// # Errors
    /// As for [`AnyWorkload::check`].
    pub fn check(&self, runner: &mut AnyRunner) -> Result<()> {
        self.workload.check(runner)
    }

    /// Returns a client under a scheme, as thread `index` on a pool where [`Selection::prepare`] has run.
    ///
    /// # Errors
    /// As for [`runner`] and [`AnyWorkload::thread`].
    pub fn client(
        &self,
        pool: &Pool<Concurrency>,
        scheme: SchemeName,
        index: u64,
        seed: u64,
    ) -> Result<Box<dyn Client>> {
        Ok(Box::new(ErasedClient::new(self.workload(), runner(pool, scheme, index)?, seed)?))
    }

    /// Returns a client that is a plain program, alone on native memory. Its instructions are counted.
    ///
    /// # Errors
    /// Returns the errors of [`AnyWorkload::thread`] and [`Pool::unprotected_view`].
    #[cfg(feature = "calibration")]
    pub fn plain_client(&self, pool: &Pool<Concurrency>, seed: u64) -> Result<Box<dyn Client>> {
        self.workload.plain(pool, seed)
    }

    /// Creates a pool on the product's path, with a control and its clients.
    pub(crate) fn create_inlined<C: Control<Memory = Native> + 'static>(
        &self,
        control: (Setup<C>, InlinedClientOf<C>),
        new: &NewPool,
    ) -> Result<Box<dyn Product + '_>> {
        Ok(Box::new(Words::create(&*self.workload, control, new)?))
    }

    /// Creates a store; see [`Selection::has_types`].
    pub(crate) fn create_typed(&self, concurrency: Concurrency, new: &NewPool) -> Result<Box<dyn Product>> {
        let by_types =
            self.kind.by_types.ok_or_else(|| Error::Parameter(format!("{} has no types", self.name())))?;
        by_types(&self.sizes, concurrency, new)
    }

    /// Measures `scheme` on a pool where [`Selection::prepare`] has run. The pool was opened under `domain`, and in the mode of the scheme's name.
    ///
    /// # Errors
    /// Returns an error if the pool has fewer logs than there are threads, if the domain refuses the scheme, or if a transaction fails.
    pub fn measure(
        &self,
        pool: &Pool<Concurrency>,
        domain: Domain,
        scheme: SchemeName,
        run: &Run,
    ) -> Result<Row> {
        self.allow(run.threads)?;
        let aside = aside(scheme, domain);
        let threads = measure(run, aside, &|index, seed| self.client(pool, scheme, index, seed))?;
        Ok(Row::new(scheme.name(), self.name(), domain.name(), scheme.is_durable(), &threads))
    }

    /// Like [`Selection::measure`], on the product's path; `system` is the row's.
    ///
    /// # Errors
    /// As for [`Selection::measure`].
    pub fn measure_product(
        &self,
        product: &dyn Product,
        domain: Domain,
        system: System,
        run: &Run,
    ) -> Result<Row> {
        self.allow(run.threads)?;
        let threads = measure(run, Aside::of_store(domain), &|_, seed| product.client(seed))?;
        Ok(Row::new(system.name(), self.name(), domain.name(), true, &threads))
    }

    /// Runs transactions while `go_on` returns true, on a pool where [`Selection::prepare`] has run.
    ///
    /// # Errors
    /// As for [`Runner::run`].
    pub fn run_while(
        &self,
        runner: &mut AnyRunner,
        seed: u64,
        mut go_on: impl FnMut(&Statistics) -> bool,
    ) -> Result<()> {
        let mut thread = self.workload.thread(runner, seed)?;
        while go_on(&runner.statistics()) {
            thread.transaction(runner)?;
        }
        Ok(())
    }
}

/// Returns what a scheme does under a domain besides its transactions. Undo logs wrap around, and the shared log of the `Sync` domain has
/// checkpoints.
fn aside(scheme: SchemeName, domain: Domain) -> Aside {
    let Some(kind) = scheme.kind else { return Aside::default() };
    let helper = kind.scheme.has_helper();
    let restarts = scheme.concurrency != Concurrency::Locks && domain != Domain::Sync && !helper;
    Aside { helper, restarts }
}
