//! Creates all files: with the pool's permissions and owner, and complete before they have a name.
//!
//! A new file has a temporary name, `.NAME.XXXXXXXX.new`, in its final folder, and is locked before anything is written to it. When it is complete
//! and durable it gets its name, but never replaces an existing file. A process that can lock a file with such a temporary name has found what a
//! killed process has left, and may remove it. So no file is removed while another process works on it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::checksums::checksums_path;
use super::lock;
use super::open::{MOST_NAME_BYTES, log_path};
use crate::error::{Error, Result};
use crate::memory::{SharedFile, flush, system};

const SUFFIX: &str = ".new";
const RANDOM_CHARACTERS: usize = 8;
/// The number of attempts for an operation that only another process can make fail, by naming or removing files at the same time.
pub(super) const ATTEMPTS: usize = 100;

pub(super) fn cannot(what: &str, path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::io(format!("{what} {}", path.display()), source)
}

/// Returns the folder of `path`.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the folder of `path` durable, and with it the file's name.
pub(super) fn synchronize_folder(path: &Path) -> io::Result<()> {
    flush::folder(folder_of(path))
}

/// Returns whether `file` is the file at `path`.
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let file = file.metadata()?;
    Ok((file.dev(), file.ino()) == (found.dev(), found.ino()))
}

/// Returns the error that an open file is not the one at `path`.
pub(super) fn elsewhere(path: &Path) -> io::Error {
    std::fs::metadata(path).err().unwrap_or_else(|| system::error(libc::ESTALE))
}

/// Removes the file at `path` if it is `file`. The caller has locked it, so that no other process works with it.
pub(super) fn remove_locked(file: &File, path: &Path) -> io::Result<()> {
    if is_at(file, path)? { std::fs::remove_file(path) } else { Ok(()) }
}

/// Creates an empty file at `path`, which must not exist, with the permissions and the owner of `like`, or of any new file of this process if that is
/// `None`.
pub(super) fn create_like(path: &Path, like: Option<&Metadata>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    let Some(like) = like else { return system::open(&options, path) };
    // Only this user can access the file until it has its final owner.
    let file = system::open(options.mode(0o600), path)?;
    let own = || {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (like.uid(), like.gid()) {
            fchown(&file, Some(like.uid()), Some(like.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(like.mode() & 0o7777))
    };
    if let Err(error) = own() {
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(file)
}

/// Requests that a new, empty file is overwritten in place, if the file system supports that. It works without, too.
fn in_place(file: File) -> io::Result<File> {
    let _ = system::overwrite_in_place(&file);
    Ok(file)
}

/// Returns the part of temporary names that stands for `name`: the name itself or, if that leaves no room for the rest, its beginning and a hash of
/// all of it.
fn stem(name: &OsStr) -> Cow<'_, OsStr> {
    const HASH_CHARACTERS: usize = 16;
    let bytes = name.as_encoded_bytes();
    let most = MOST_NAME_BYTES - 2 - RANDOM_CHARACTERS - SUFFIX.len();
    if bytes.len() <= most {
        return Cow::Borrowed(name);
    }
    // This is FNV-1a. If two names had the same hash, a creation would also remove the other name's remains, which does no harm.
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let kept = most - 1 - HASH_CHARACTERS;
    // Does not cut within a character, because some file systems refuse that.
    let kept = (kept - 3..=kept).rev().find(|&at| bytes[at] & 0xc0 != 0x80).unwrap_or(kept);
    let mut stem = OsStr::from_bytes(&bytes[..kept]).to_owned();
    stem.push(format!("~{hash:016x}"));
    Cow::Owned(stem)
}

/// Returns a temporary name for a file that will be `name`. It is absolute, because the process may change its working directory.
fn temporary_name(name: &Path) -> io::Result<PathBuf> {
    const CHARACTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let own_name = name.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut number = u64::from_ne_bytes(system::random()?);
    let mut temporary = OsString::from(".");
    temporary.push(stem(own_name));
    temporary.push(".");
    for _ in 0..RANDOM_CHARACTERS {
        let character = char::from(CHARACTERS[(number % 62) as usize]);
        temporary.push(character.encode_utf8(&mut [0; 4]));
        number /= 62;
    }
    temporary.push(SUFFIX);
    Ok(std::path::absolute(folder_of(name))?.join(temporary))
}

/// A file that no other process can find yet. Dropping it unpublished removes it.
pub(super) struct NewFile {
    file: SharedFile,
    temporary: PathBuf,
    name: PathBuf,
    is_published: bool,
}

impl Drop for NewFile {
    /// Removes the file, which is still locked, unless it was published.
    fn drop(&mut self) {
        // A forked child must not remove the file.
        if !self.is_published && self.file.process().is_current() {
            // If this fails, the next process that creates `name` removes the file.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

impl NewFile {
    /// Creates an empty, locked file that will be `name`, as [`create_like`] does.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created, or not with this owner.
    pub fn create(name: &Path, like: Option<&Metadata>) -> Result<Self> {
        if name.file_name().is_none() {
            return Err(Error::Parameter(format!("{} is not the name of a file", name.display())));
        }
        let mut why = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..ATTEMPTS {
            let temporary = temporary_name(name).map_err(cannot("create", name))?;
            let file = match create_like(&temporary, like).and_then(in_place) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => SharedFile::from(made.map_err(cannot("create", name))?),
            };
            let new = Self { file, temporary, name: name.to_owned(), is_published: false };
            // Another process that looks for remains of killed processes may have locked it first.
            if !lock::try_lock(&new.file, false).map_err(lock::cannot_lock(name))? {
                why = system::error(libc::EWOULDBLOCK);
                continue;
            }
            if is_at(&new.file, &new.temporary).map_err(cannot("create", name))? {
                return Ok(new);
            }
            why = elsewhere(&new.temporary);
        }
        Err(cannot("create", name)(why))
    }

    /// Like [`NewFile::create`], with the permissions and the owner of `like` if this process may set them, and otherwise for this process's user
    /// only.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub fn create_copy(name: &Path, like: &Metadata) -> Result<Self> {
        let new = match Self::create(name, Some(like)) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                let private = Self::create(name, None)?;
                private.file.set_permissions(Permissions::from_mode(0o600)).map(|()| private)
            }
            Err(error) => return Err(error),
            // Its owner can write it, even if the original is read-only.
            Ok(new) => {
                let mode = like.mode() & 0o7777 | 0o600;
                new.file.set_permissions(Permissions::from_mode(mode)).map(|()| new)
            }
        };
        new.map_err(cannot("create", name))
    }

    /// Creates an empty file that never gets a name. `name` stands for it in messages, and in its temporary name if the file system does not support
    /// files without a name.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub fn create_unnamed(name: &Path) -> Result<Self> {
        if let Ok(file) = system::create_unnamed(folder_of(name)) {
            let (temporary, name) = (name.to_owned(), name.to_owned());
            return Ok(Self { file: file.into(), temporary, name, is_published: true });
        }
        let mut new = Self::create(name, None)?;
        std::fs::remove_file(&new.temporary).map_err(cannot("create", name))?;
        new.is_published = true;
        Ok(new)
    }

    /// Gives the file its name durably, replacing any file of that name.
    ///
    /// # Errors
    /// Returns an error if the file cannot be renamed.
    pub fn replace(mut self) -> Result<SharedFile> {
        self.file.process().check()?;
        std::fs::rename(&self.temporary, &self.name).map_err(cannot("name", &self.name))?;
        self.is_published = true;
        synchronize_folder(&self.name).map_err(cannot("name", &self.name))?;
        Ok(self.file.clone())
    }

    /// Returns the file. A clone of it holds its lock, too.
    pub fn file(&self) -> &SharedFile {
        &self.file
    }

    /// The temporary name.
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Gives the file its name durably. If the name exists already, it stays as it is, and this returns the new file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be renamed.
    pub fn publish(mut self) -> Result<Option<Self>> {
        self.file.process().check()?;
        self.is_published = rename_new(&self.temporary, &self.name)?;
        Ok(if self.is_published { None } else { Some(self) })
    }
}

/// Renames the complete and durable file at `from` to `to` on the same file system, durably. If `to` exists already, leaves it and returns false.
///
/// # Errors
/// Returns [`Error::Io`] if the file cannot be renamed or its folder cannot be flushed.
pub fn rename_new(from: &Path, to: &Path) -> Result<bool> {
    match system::rename_without_replacing(from, to) {
        Ok(()) => synchronize_folder(to).map(|()| true).map_err(cannot("name", to)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(cannot("name", to)(error)),
    }
}

/// Removes the temporary files that killed processes left when they created `name`, as far as possible.
pub(super) fn remove_leavings(name: &Path) {
    remove_leavings_of(folder_of(name), &[name]);
}

/// Removes the temporary files that killed processes left when they created the files of the pool at `path`.
pub(super) fn remove_leavings_of_pool(path: &Path) {
    remove_leavings_of(folder_of(path), &[path, &log_path(path), &checksums_path(path)]);
}

fn remove_leavings_of(folder: &Path, names: &[&Path]) {
    let stems: Vec<_> = names.iter().filter_map(|name| name.file_name()).map(stem).collect();
    let is_temporary = |found: &[u8]| {
        stems.iter().any(|stem| {
            let random = found
                .strip_prefix(b".")
                .and_then(|rest| rest.strip_prefix(stem.as_encoded_bytes()))
                .and_then(|rest| rest.strip_prefix(b"."))
                .and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
            random.is_some_and(|random| {
                random.len() == RANDOM_CHARACTERS && random.iter().all(u8::is_ascii_alphanumeric)
            })
        })
    };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if is_temporary(entry.file_name().as_encoded_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(file) = system::open_to_read(&entry.path()).map(SharedFile::from)
            && lock::try_lock(&file, false).unwrap_or(false)
        {
            let _ = remove_locked(&file, &entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_has_its_name_when_it_is_published_and_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("pool");
        let (first, second) = (NewFile::create(&name, None).unwrap(), NewFile::create(&name, None).unwrap());
        assert!(!name.exists() && names(folder.path()).len() == 2);
        // A file that is being created must not be removed.
        remove_leavings(&name);
        assert_eq!(names(folder.path()).len(), 2);
        assert!(first.publish().unwrap().is_none());
        let refused = second.publish().unwrap();
        assert!(refused.is_some());
        drop(refused);
        assert_eq!(names(folder.path()), ["pool"]);
    }

    #[test]
    fn what_killed_processes_left_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("pool");
        let others = [".pool.log.abcdefgh.new", ".pool.abc.new", "pool.abcdefgh.new", ".other.abcdefgh.new"];
        for name in others.iter().chain(&[".pool.abcdefgh.new"]) {
            std::fs::write(folder.path().join(name), b"left").unwrap();
        }
        remove_leavings(&name);
        let mut left = names(folder.path());
        left.sort();
        let mut expected = others.to_vec();
        expected.sort_unstable();
        assert_eq!(left, expected);
    }

    /// The names are so long that no temporary name has room for all of them.
    #[test]
    fn long_names_have_temporary_names_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        for length in 236..=255 {
            for letter in ["x", "ä", "€"] {
                let name = letter.repeat(length / letter.len());
                let path = folder.path().join(&name);
                let new = NewFile::create(&path, None).unwrap();
                let temporary =
                    new.path().file_name().unwrap().to_str().expect("whole characters").to_owned();
                assert!(temporary.len() <= 255);
                assert!(new.publish().unwrap().is_none() && path.exists());
                std::fs::remove_file(&path).unwrap();
                std::fs::write(folder.path().join(&temporary), b"left").unwrap();
                // Another name with the same beginning.
                remove_leavings(&folder.path().join(format!("{}y", &name[..name.len() - letter.len()])));
                assert_eq!(names(folder.path()), [temporary]);
                remove_leavings(&path);
                assert!(names(folder.path()).is_empty());
            }
        }
    }

    #[test]
    fn what_has_no_name_is_found_by_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let new = NewFile::create_unnamed(&folder.path().join("unnamed")).unwrap();
        assert!(names(folder.path()).is_empty());
        new.file().set_len(10).unwrap();
    }

    #[test]
    fn permissions_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("pool");
        let pool = create_like(&pool, None).unwrap();
        for mode in [0o600, 0o640, 0o666] {
            pool.set_permissions(Permissions::from_mode(mode)).unwrap();
            let log = NewFile::create(&folder.path().join("log"), Some(&pool.metadata().unwrap())).unwrap();
            assert_eq!(log.file().metadata().unwrap().mode() & 0o7777, mode);
        }
    }
}
