//! Closes a pool, or abandons one that cannot be closed when it is dropped.

use std::sync::PoisonError;

use super::{Pool, SyncPool};
use crate::engine::Control;
use crate::error::{Error, Result};
use crate::file::checkpointer::write_state;
use crate::file::shrink;
use crate::layout::{Layout, PoolState};
use crate::memory::{MappingKind, Memory, Native, Space, Step};
use crate::scheme;

impl<C: Control<Memory = Native>> Pool<C> {
    pub(super) fn close_once(&mut self) -> Result<()> {
        self.check_outside()?;
        self.idle.clear();
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let view = self.native_view()?;
        let memory = &view.memory;
        if self.shared.slots().any(|slot| memory.load(slot.leased()) != 0) {
            self.closed = false;
            return Err(Error::Parameter("the pool cannot be closed while a worker exists".into()));
        }
        self.stop_helper(memory);
        let compacted = *self.compacting();
        if let Some(sync) = &mut self.sync {
            if let Some(mut checkpointer) = sync.checkpointer.take() {
                checkpointer.stop(memory, &sync.log);
            }
            let report = self.observed.checkpoint(&self.path, || sync.log.checkpoint(&view));
            self.stop_flusher(report.is_ok());
            let report = report?;
            let Some(SyncPool { device, log, .. }) = &self.sync else { return Ok(()) };
            let bytes = shrink::lower_synced(&view, &**device, log, compacted)?;
            write_state(&**device, 0, Some(report.watermark))?;
            shrink::forget_end(&**device, bytes)?;
            return shrink::cut(&self.file, bytes, self.persistent.poison());
        }
        memory.check_file()?;
        scheme::drain(&view, scheme::current(&view, self.setup.schemes)?);
        // In any domain but those with MAP_SYNC, the contents of a clean pool must be in the file itself.
        let unprotected = PoolState::decode(memory.load(Layout::STATE)).unprotected;
        let synchronize = || {
            if unprotected && self.mapping == MappingKind::SharedSynchronous {
                // It is not known which words were stored to.
                let bytes = memory.size(Space::Persistent) - self.layout.data.offset();
                memory.write_back_range(self.layout.data, bytes, Step::MarkState);
                memory.fence(Step::MarkState);
            }
            self.synchronize()
        };
        synchronize()?;
        memory.store(Layout::STATE, 0);
        memory.write_back(Layout::STATE, Step::MarkState);
        memory.fence(Step::MarkState);
        synchronize()?;
        // The logs of a closed pool are not replayed.
        if compacted {
            shrink::release_logs(&view)?;
        }
        let bytes = shrink::lower_stored(&view, compacted);
        synchronize()?;
        shrink::cut(&self.file, bytes, self.persistent.poison())
    }
    fn stop_helper<M: Memory>(&self, memory: &M) {
        if let Some(helper) = self.helper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            helper.stop(memory);
        }
    }

    fn stop_flusher(&self, everything_is_durable: bool) {
        if let Some(sync) = &self.sync
            && let Some(flusher) = sync.flusher.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            flusher.stop(everything_is_durable);
        }
    }
}

impl<C: Control<Memory = Native>> Pool<C> {
    /// Abandons the pool inside a transaction of its own, by a worker that outlives it. The pool's threads may wait for that transaction,
    /// so this does not wait for them. The pool stays locked until they have ended too.
    fn abandon(&mut self) {
        let Ok(view) = self.native_view() else { return };
        let Some(SyncPool { log, checkpointer, flusher, .. }) = &mut self.sync else { return };
        if let Some(flusher) = flusher.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            flusher.ask_to_stop();
        }
        if let Some(checkpointer) = checkpointer.take() {
            checkpointer.ask_to_stop(&view.memory, log);
            log.abandon(&view.memory);
        }
    }

    /// Forgets the pool's threads in a forked child, where they do not exist, and where the locks that they share with it may be held for
    /// ever.
    fn forget_threads(&mut self) {
        std::mem::forget(self.helper.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(sync) = &mut self.sync {
            std::mem::forget(sync.checkpointer.take());
            std::mem::forget(sync.flusher.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

impl<C: Control<Memory = Native>> Drop for Pool<C> {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            return self.forget_threads();
        }
        if self.check_outside().is_err() {
            return self.abandon();
        }
        // If anything fails here, the pool stays marked as in use, and is recovered when it is next opened.
        let _ = self.close_once();
        let Ok(view) = self.native_view() else { return };
        self.stop_helper(&view.memory);
        self.stop_flusher(false);
        if let Some(SyncPool { log, checkpointer: Some(checkpointer), .. }) = &mut self.sync {
            checkpointer.stop(&view.memory, log);
            log.abandon(&view.memory);
        }
    }
}
