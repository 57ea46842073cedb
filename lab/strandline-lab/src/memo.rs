//! The numbers of deterministic runs that were made already: figures, and readings of a paper's text, share many runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;

/// The numbers of each run, by a text that names everything that they depend on. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memo(Arc<Mutex<HashMap<String, Vec<f64>>>>);

impl Memo {
    /// Returns the numbers of the run that `key` names. Calls `run` if the run was not made before.
    ///
    /// # Errors
    /// Returns the errors of `run`; nothing is kept then.
    pub fn get(&self, key: String, run: impl FnOnce() -> Result<Vec<f64>, Error>) -> Result<Vec<f64>, Error> {
        // The lock is not held during a run, since other runs happen in parallel.
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(numbers) = known().get(&key) {
            return Ok(numbers.clone());
        }
        let numbers = run()?;
        known().insert(key, numbers.clone());
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_made_once_and_again_if_it_failed() {
        let memo = Memo::default();
        let shared = memo.clone();
        assert_eq!(memo.get("a".into(), || Ok(vec![1.0])).unwrap(), [1.0]);
        assert_eq!(shared.get("a".into(), || panic!("it is known")).unwrap(), [1.0]);
        assert!(memo.get("b".into(), || Err(Error::Usage("no".into()))).is_err());
        assert_eq!(memo.get("b".into(), || Ok(vec![2.0])).unwrap(), [2.0]);
    }
}
