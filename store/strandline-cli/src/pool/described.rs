//! Pools that say of which types they are: opened, and checked by that.

use std::path::Path;

use strandline::{Database, DynamicStore, LostMemory, SingleWriter, Store};
use strandline_command::Failure;
use strandline_command::progress::bar;
use strandline_core::Error;
use strandline_core::file::{CheckReport, Options};
use strandline_core::scheme::Schemes;

use super::{Check, options_of};

/// What a pool without a root that describes itself is opened with: one of a scheme of the laboratory, or with words for roots.
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

/// The pool at `path`, to be read by what it says of its types, if its root is one of the library's.
pub(super) fn read_described(path: &Path, options: &Options) -> Result<Option<DynamicStore>, Failure> {
    if_described(DynamicStore::open_read_only(path, options))
}

/// The same; a pool of another kind is none.
pub(super) fn described(path: &Path, options: &Options) -> Result<DynamicStore, Failure> {
    read_described(path, options)?.ok_or_else(|| {
        Failure::Usage(format!(
            "{} does not say of which types its roots are; without --json, `strandline pool dump` shows them as words",
            path.display()
        ))
    })
}

/// The database at `path`, to be read; a pool of another kind is none.
pub(super) fn database(path: &Path, options: &Options) -> Result<Database<SingleWriter>, Failure> {
    if_described(Store::open_read_only(path, options).map(Database::from))?.ok_or_else(|| {
        Failure::Usage(format!(
            "{} is no database with tables; `strandline pool backup` copies any pool, `strandline pool dump` shows it",
            path.display()
        ))
    })
}

/// What hangs from the root of a pool, beyond damage.
#[derive(Default)]
pub(super) struct Hanging {
    pub lost: Option<LostMemory>,
    /// Why it was not looked at, if it was not.
    pub unchecked: Option<String>,
}

/// Looks over what hangs from the root, by what the pool says of its types, and adds what is damaged to `report`.
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
