//! Opens and checks pools that describe their own types.

use std::path::Path;

use strandline::{Database, DynamicStore, LostMemory, SingleWriter, Store};
use strandline_command::Failure;
use strandline_command::progress::bar;
use strandline_core::Error;
use strandline_core::file::{CheckReport, Options};
use strandline_core::scheme::Schemes;

use super::{Check, options_of};

/// Turns the error that a pool does not describe itself into `None`: a pool of a laboratory's scheme, or one with words as roots.
pub(super) fn if_described<T>(opened: Result<T, Error>) -> Result<Option<T>, Failure> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(
            Error::RootLayout { .. }
            | Error::Missing { .. }
            | Error::WrongStructure { .. }
            | Error::OtherScheme { .. }
            | Error::Dangling { .. },
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Opens the pool at `path` for reading by its own description, or returns `None` if its root is not one of the library's.
pub(super) fn read_described(path: &Path, options: &Options) -> Result<Option<DynamicStore>, Failure> {
    if_described(DynamicStore::open_read_only(path, options))
}

/// Like [`read_described`], but returns a failure for a pool of another kind.
pub(super) fn described(path: &Path, options: &Options) -> Result<DynamicStore, Failure> {
    read_described(path, options)?.ok_or_else(|| {
        Failure::Usage(format!(
            "{} does not say of which types its roots are; without --json, `strandline pool dump` shows them as words",
            path.display()
        ))
    })
}

/// Opens the database at `path` for reading. Returns a failure for a pool of another kind.
pub(super) fn database(path: &Path, options: &Options) -> Result<Database<SingleWriter>, Failure> {
    if_described(Store::open_read_only(path, options).map(Database::from))?.ok_or_else(|| {
        Failure::Usage(format!(
            "{} is no database with tables; `strandline pool backup` copies any pool, `strandline pool dump` shows it",
            path.display()
        ))
    })
}

/// The values to which the root of a pool refers, apart from damaged ones.
#[derive(Default)]
pub(super) struct Hanging {
    pub lost: Option<LostMemory>,
    /// The reason, if it was not checked.
    pub unchecked: Option<String>,
}

/// Checks all that the root refers to, using the pool's description of its types, and adds damage to `report`.
pub(super) fn check_described(
    arguments: &Check,
    report: &mut CheckReport,
    schemes: Schemes,
) -> Result<Hanging, Failure> {
    let options = options_of(&arguments.path, arguments.opening, schemes)?;
    let Some(store) = read_described(&arguments.path, &options)? else { return Ok(Hanging::default()) };
    let blocks = report.info.as_ref().and_then(|info| info.usage.as_ref()).map_or(0, |usage| usage.objects);
    let bar = bar(blocks, "blocks");
    let checked = store.check_all(&|done| bar.set_position(done));
    bar.finish_and_clear();
    match checked {
        Ok((damage, lost)) => {
            report.damage.extend(damage);
            Ok(Hanging { lost, unchecked: None })
        }
        Err(Error::Unsupported(what)) => Ok(Hanging { lost: None, unchecked: Some(what) }),
        Err(error) => Err(error.into()),
    }
}
