//! Snapshots as files: their format, and the handle through which openraft reads and writes them.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use tempfile::TempPath;
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

/// A snapshot's file, as openraft sends and receives it.
///
/// Reads and writes use the system's page cache and run on the caller's thread.
#[derive(Debug)]
pub struct SnapshotData {
    pub(crate) file: File,
    /// Set while the snapshot is received and not installed yet. The file is removed if it is never installed.
    pub(crate) temporary: Option<TempPath>,
}

impl AsyncRead for SnapshotData {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = self.file.read(into.initialize_unfilled())?;
        into.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SnapshotData {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.file.write(from))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for SnapshotData {
    fn start_seek(mut self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        self.file.seek(to).map(drop)
    }

    fn poll_complete(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(self.file.stream_position())
    }
}

/// The beginning of a file: a name, and the format's version.
const MAGIC: &[u8; 8] = b"STRDRFT1";

/// The kind of a frame of the file. A frame consists of the kind as one byte, the length of the content as four bytes, little-endian, and the
/// content.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// openraft's description of the snapshot, as CBOR. This is the first frame.
    Description = 1,
    /// A table's name. Its rows follow.
    Table = 2,
    /// A key and a value, as CBOR.
    Row = 3,
    /// The CRC-32C of everything before. This is the last frame.
    End = 4,
}

/// Writes frames and computes their checksum.
pub(crate) struct Writer<'f> {
    file: BufWriter<&'f File>,
    checksum: u32,
}

impl<'f> Writer<'f> {
    pub fn new(file: &'f File) -> io::Result<Self> {
        let mut writer = Self { file: BufWriter::with_capacity(1 << 20, file), checksum: 0 };
        writer.put(MAGIC)?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum = crc32c::crc32c_append(self.checksum, bytes);
        self.file.write_all(bytes)
    }

    pub fn frame(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        let length =
            u32::try_from(bytes.len()).map_err(|_| io::Error::other("a snapshot's row has 4 GiB or more"))?;
        self.put(&[kind as u8])?;
        self.put(&length.to_le_bytes())?;
        self.put(bytes)
    }

    /// Writes the last frame, and makes the file durable.
    pub fn end(mut self) -> io::Result<()> {
        let checksum = self.checksum;
        self.frame(Kind::End, &checksum.to_le_bytes())?;
        self.file.flush()?;
        self.file.get_ref().sync_all()
    }
}

/// Reads frames from the beginning.
pub(crate) struct Reader<'f> {
    file: BufReader<&'f File>,
    checksum: u32,
    left: u64,
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the snapshot's file is damaged: {what}"))
}

impl<'f> Reader<'f> {
    pub fn new(mut file: &'f File) -> io::Result<Self> {
        file.seek(SeekFrom::Start(0))?;
        let left = file.metadata()?.len();
        let mut reader = Self { file: BufReader::with_capacity(1 << 20, file), checksum: 0, left };
        let mut magic = [0; MAGIC.len()];
        reader.take(&mut magic)?;
        if &magic != MAGIC {
            return Err(damaged("it does not begin with the header of a snapshot"));
        }
        Ok(reader)
    }

    fn take(&mut self, into: &mut [u8]) -> io::Result<()> {
        let length = into.len() as u64;
        self.left = self.left.checked_sub(length).ok_or_else(|| damaged("it ends too early"))?;
        self.file.read_exact(into)?;
        self.checksum = crc32c::crc32c_append(self.checksum, into);
        Ok(())
    }

    /// Reads the next frame. Returns `None` after the last, whose checksum is compared.
    pub fn frame(&mut self, into: &mut Vec<u8>) -> io::Result<Option<Kind>> {
        let before = self.checksum;
        let mut head = [0; 5];
        self.take(&mut head)?;
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length);
        if u64::from(length) > self.left {
            return Err(damaged("it ends too early"));
        }
        into.resize(length as usize, 0);
        self.take(into)?;
        let kind = match kind {
            1 => Kind::Description,
            2 => Kind::Table,
            3 => Kind::Row,
            4 if into[..] == before.to_le_bytes() && self.left == 0 => return Ok(None),
            4 => return Err(damaged("its checksum does not match")),
            _ => return Err(damaged("it has a frame of an unknown kind")),
        };
        Ok(Some(kind))
    }
}

/// Reads the whole file and compares its checksum.
pub(crate) fn verify(file: &File) -> io::Result<()> {
    let (mut reader, mut bytes) = (Reader::new(file)?, Vec::new());
    while reader.frame(&mut bytes)?.is_some() {}
    Ok(())
}
