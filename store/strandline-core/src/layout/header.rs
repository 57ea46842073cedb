//! The static header: written once, when the pool is created.
//!
//! ```text
//! word  0       magic "STRANDLN"
//!       1       format version
//!       2..3    UUID
//!       4..7    layout name, UTF-8, padded with zeros
//!       8       the most bytes that the pool can have
//!       9       number of logs
//!       10      bytes in a log
//!       11      bytes in a chunk
//!       12      required features: a library that does not know one of them must not open the pool
//!       13      optional features: a library that does not know one of them may open it nevertheless
//!       14..510 zero
//!       511     CRC-32C of the 4088 bytes before it
//! ```

use std::path::Path;

use super::{Geometry, Layout, PAGE_BYTES, PoolId};
use crate::error::{Error, Result};

const MAGIC: [u8; 8] = *b"STRANDLN";
/// The format version that this library writes.
pub const FORMAT_VERSION: u64 = 8;
/// The oldest format that can be opened.
const OLDEST_VERSION: u64 = 8;
/// The required features that this library knows: none yet.
pub const REQUIRED_FEATURES: u64 = 0;
/// The longest layout name, in bytes.
pub const LAYOUT_NAME_BYTES: usize = 32;
const CHECKED: usize = PAGE_BYTES as usize - 8;

/// The contents of a pool's header.
///
/// ```
/// use strandline_core::Error;
/// use strandline_core::layout::{Geometry, Header};
///
/// let header = Header::new("orders", Geometry::default())?;
/// let mut page = header.encode();
/// let path = std::path::Path::new("orders.pool");
/// assert_eq!(Header::decode(&page, header.geometry.size, path)?, header);
/// page[100] ^= 1;
/// let damaged = Header::decode(&page, header.geometry.size, path);
/// assert!(matches!(damaged, Err(Error::DamagedHeader { .. })));
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of the pool format.
    pub version: u64,
    /// The pool's own number, which identifies its files.
    pub uuid: PoolId,
    /// The name that the program gave to the layout of its data.
    pub layout_name: String,
    /// The sizes that determine the layout.
    pub geometry: Geometry,
    /// Bits of the features that a library must know to read the pool.
    pub required_features: u64,
    /// Bits of features that may be ignored.
    pub optional_features: u64,
}

impl Header {
    /// Returns a header for a new pool.
    ///
    /// # Errors
    /// Returns an error if the name is too long or contains a NUL, if the geometry is impossible, or if the system has no random numbers.
    pub fn new(layout_name: &str, geometry: Geometry) -> Result<Self> {
        if layout_name.len() > LAYOUT_NAME_BYTES || layout_name.contains('\0') {
            return Err(Error::Parameter(format!(
                "a layout name has at most {LAYOUT_NAME_BYTES} bytes and no NUL: {layout_name:?}"
            )));
        }
        Layout::new(geometry)?;
        Ok(Self {
            version: FORMAT_VERSION,
            uuid: PoolId::random()?,
            layout_name: layout_name.to_owned(),
            geometry,
            required_features: 0,
            optional_features: 0,
        })
    }

    /// Encodes the header as the first 4096 bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES as usize];
        page[..8].copy_from_slice(&MAGIC);
        page[16..32].copy_from_slice(self.uuid.as_bytes());
        page[32..32 + self.layout_name.len()].copy_from_slice(self.layout_name.as_bytes());
        let Geometry { size, logs, log_bytes, chunk_bytes } = self.geometry;
        let features = [(12, self.required_features), (13, self.optional_features)];
        let sizes = [(1, self.version), (8, size), (9, logs), (10, log_bytes), (11, chunk_bytes)];
        for (word, value) in sizes.into_iter().chain(features) {
            page[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
        }
        let checksum = u64::from(crc32c::crc32c(&page[..CHECKED]));
        page[CHECKED..].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    /// Returns the page that `page` was before it was damaged, if this can be derived: the parts that are known from elsewhere are put in place
    /// (magic, version, zeros, the size, of which the pool has a copy, the UUID, which the pool's log has too), and the result is returned only if
    /// the checksum then matches. That of a wrong page would match once in 2^29 times.
    #[inline]
    pub(crate) fn repair(page: &[u8], size: Option<u64>, log_uuid: Option<[u8; 16]>) -> Option<Vec<u8>> {
        if page.len() < PAGE_BYTES as usize {
            return None;
        }
        let mut known = page.to_vec();
        known[..8].copy_from_slice(&MAGIC);
        known[112..CHECKED].fill(0);
        known[CHECKED + 4..].fill(0);
        let versions = std::iter::once(None).chain((OLDEST_VERSION..=FORMAT_VERSION).map(Some));
        let sources = versions.flat_map(|version| (0..4).map(move |choice| (version, choice))).map(
            |(version, choice)| {
                let mut page = known.clone();
                if let Some(version) = version {
                    page[8..16].copy_from_slice(&version.to_le_bytes());
                }
                if let Some(size) = size.filter(|_| choice & 2 != 0) {
                    page[64..72].copy_from_slice(&size.to_le_bytes());
                }
                if let Some(uuid) = log_uuid.filter(|_| choice & 1 != 0) {
                    page[16..32].copy_from_slice(&uuid);
                }
                page
            },
        );
        // The file's length does not count here: the repair checks it in a later step.
        let fits = |page: &Vec<u8>| Self::decode(page, u64::MAX, Path::new("")).is_ok();
        sources.into_iter().find(fits)
    }

    /// Reads the header of a file of `file_bytes` bytes that begins with `page` (as much of a page as the
    /// file has). `path` is for messages.
    ///
    /// # Errors
    /// Returns a distinct error if the file is foreign, truncated, newer, older or damaged.
    pub fn decode(page: &[u8], file_bytes: u64, path: &Path) -> Result<Self> {
        check_format(page, file_bytes, path)?;
        let damaged = |what: &str| damaged(path, what);
        let word = |number: usize| word(page, number);
        let geometry = Geometry { size: word(8), logs: word(9), log_bytes: word(10), chunk_bytes: word(11) };
        let layout = Layout::new(geometry).map_err(|_| damaged("its sizes are impossible"))?;
        let least = layout.chunks.offset();
        if file_bytes < least {
            return Err(Error::Truncated { path: path.to_owned(), expected: least, found: file_bytes });
        }
        let name = &page[32..32 + LAYOUT_NAME_BYTES];
        let length = name.iter().position(|&byte| byte == 0).unwrap_or(LAYOUT_NAME_BYTES);
        let layout_name = std::str::from_utf8(&name[..length]).map_err(|_| damaged("its layout name"))?;
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&page[16..32]);
        Ok(Self {
            version: word(1),
            uuid: PoolId::from_bytes(uuid),
            layout_name: layout_name.to_owned(),
            geometry,
            required_features: word(12),
            optional_features: word(13),
        })
    }
}

/// Checks that `page` is an intact header of a format that this library knows.
///
/// # Errors
/// Returns a distinct error if the file is foreign, truncated, newer, older or damaged.
fn check_format(page: &[u8], file_bytes: u64, path: &Path) -> Result<()> {
    let path = || path.to_owned();
    if page.len() < 8 || page[..8] != MAGIC {
        return Err(Error::NotAPool { path: path() });
    }
    if page.len() < PAGE_BYTES as usize {
        return Err(Error::Truncated { path: path(), expected: PAGE_BYTES, found: file_bytes });
    }
    let version = word(page, 1);
    if version > FORMAT_VERSION {
        return Err(Error::NewerFormat {
            path: path(),
            found: format!("format version {version}"),
            supported: format!("version {FORMAT_VERSION}"),
        });
    }
    if word(page, 511) != u64::from(crc32c::crc32c(&page[..CHECKED])) {
        return Err(damaged(&path(), "its checksum does not match"));
    }
    // The checksum comes first, since a wrong version may also be damage.
    if version < OLDEST_VERSION {
        return Err(Error::OlderFormat { path: path(), found: version, supported: OLDEST_VERSION });
    }
    let required_features = word(page, 12);
    if required_features & !REQUIRED_FEATURES != 0 {
        return Err(Error::NewerFormat {
            path: path(),
            found: format!("the required features {required_features:#x}"),
            supported: format!("{REQUIRED_FEATURES:#x}"),
        });
    }
    Ok(())
}

/// Returns word number `number` of a header's page.
fn word(page: &[u8], number: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&page[8 * number..8 * number + 8]);
    u64::from_le_bytes(bytes)
}

fn damaged(path: &Path, problem: &str) -> Error {
    Error::DamagedHeader { path: path.to_owned(), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_that_are_known_otherwise_are_repaired() {
        let header = Header::new("bank", Geometry::default()).unwrap();
        let (size, uuid) = (Some(header.geometry.size), Some(*header.uuid.as_bytes()));
        let page = header.encode();
        for at in 0..page.len() {
            let mut damaged = page.clone();
            damaged[at] ^= 0x81;
            let is_known = match at / 8 {
                // The name, the logs, the chunks and the checksum are not stored elsewhere.
                4..=7 | 9..=13 => false,
                511 => at % 8 >= 4,
                _ => true,
            };
            let repaired = Header::repair(&damaged, size, uuid);
            assert_eq!(repaired.is_some_and(|repaired| repaired == page), is_known, "byte {at}");
        }
        let mut damaged = page.clone();
        damaged[20] ^= 1;
        assert!(Header::repair(&damaged, size, None).is_none(), "the UUID is not known without a log");
        assert!(Header::repair(&[0; 4096], size, uuid).is_none());
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let header = Header::new("bank", Geometry::default()).unwrap();
        let page = header.encode();
        let size = header.geometry.size;
        assert_eq!(Header::decode(&page, size, Path::new("bank")).unwrap(), header);
        for at in 0..page.len() {
            let mut damaged = page.clone();
            damaged[at] ^= 1;
            assert!(Header::decode(&damaged, size, Path::new("bank")).is_err(), "byte {at}");
        }
    }

    #[test]
    fn an_unknown_feature_counts_only_if_it_is_required() {
        let header = Header::new("bank", Geometry::default()).unwrap();
        let size = header.geometry.size;
        let decode = |header: &Header| Header::decode(&header.encode(), size, Path::new("bank"));
        let optional = Header { optional_features: 1 << 63, ..header.clone() };
        assert_eq!(decode(&optional).unwrap(), optional);
        let required = Header { required_features: 1 << 63, ..header.clone() };
        assert!(matches!(decode(&required), Err(Error::NewerFormat { .. })));
        let older = Header { version: OLDEST_VERSION - 1, ..header };
        let error = decode(&older).unwrap_err();
        assert!(matches!(error, Error::OlderFormat { .. }));
        let said = format!("the pool bank has format version {}", OLDEST_VERSION - 1);
        assert!(error.to_string().starts_with(&said), "{error}");
    }
}
