//! File systems that are created in files and mounted, for the tests that run on each of them. Mounting needs root; if a file system is not
//! available, the tests report that and leave it out.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file system: its name, its size, the program that creates it with its flags, and the way in which it is mounted.
struct Kind {
    name: &'static str,
    megabytes: u64,
    make: &'static [&'static str],
    how: How,
}

enum How {
    /// Mounted from a loop device with sectors of this many bytes, and with these options.
    Loop(u32, &'static str, &'static str),
    Tmpfs,
    /// An overlay that writes to an ext4.
    Overlay,
    /// Mounted with FUSE, by a program that gets the image and the folder.
    Fuse(&'static str),
    /// Mounted with FUSE, over a folder of an ext4.
    Bindfs,
}

/// All file systems that the tests run on.
const KINDS: &[Kind] = &[
    Kind {
        name: "ext3",
        megabytes: 48,
        make: &["mkfs.ext3", "-b", "4096"],
        how: How::Loop(512, "ext3", "rw"),
    },
    // Has the block size of larger disks.
    Kind {
        name: "ext4",
        megabytes: 48,
        make: &["mkfs.ext4", "-b", "4096"],
        how: How::Loop(512, "ext4", "rw"),
    },
    Kind {
        name: "ext4-4k",
        megabytes: 48,
        make: &["mkfs.ext4", "-b", "4096"],
        how: How::Loop(4096, "ext4", "rw"),
    },
    Kind {
        name: "ext4-bigalloc",
        megabytes: 64,
        make: &["mkfs.ext4", "-b", "4096", "-O", "bigalloc", "-C", "65536"],
        how: How::Loop(512, "ext4", "rw"),
    },
    Kind {
        name: "ext4-journal",
        megabytes: 48,
        make: &["mkfs.ext4", "-b", "4096"],
        how: How::Loop(512, "ext4", "data=journal"),
    },
    Kind {
        name: "xfs",
        megabytes: 320,
        make: &["mkfs.xfs", "-m", "reflink=1"],
        how: How::Loop(512, "xfs", "rw"),
    },
    Kind { name: "btrfs", megabytes: 128, make: &["mkfs.btrfs"], how: How::Loop(512, "btrfs", "rw") },
    Kind { name: "tmpfs", megabytes: 32, make: &[], how: How::Tmpfs },
    Kind { name: "overlay", megabytes: 48, make: &[], how: How::Overlay },
    Kind { name: "fuse2fs", megabytes: 48, make: &["mkfs.ext4", "-b", "4096"], how: How::Fuse("fuse2fs") },
    Kind { name: "bindfs", megabytes: 48, make: &[], how: How::Bindfs },
];

/// Returns the names of all file systems that the tests run on.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// A mounted file system. It is unmounted when it is dropped.
pub struct Mounted {
    pub at: PathBuf,
    /// Its loop device, if it has one of its own.
    device: Option<String>,
    /// The folder with the mount point and the image.
    _folder: tempfile::TempDir,
    /// The file system to which an overlay or bindfs writes.
    _upper: Option<Box<Mounted>>,
}

/// Runs a program, and returns whether it succeeds.
pub fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    let status = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Creates a loop device for `image`.
fn attach(image: &str, sector: u32) -> Option<String> {
    let sector = sector.to_string();
    let output =
        Command::new("losetup").args(["--find", "--show", "--sector-size", &sector, image]).output().ok()?;
    let device = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !device.is_empty()).then_some(device)
}

impl Mounted {
    /// Creates and mounts one of [`kinds`]. If that is not possible, prints the reason and returns `None`.
    pub fn new(name: &str) -> Option<Self> {
        let mounted = Self::mount(name);
        if mounted.is_none() {
            println!("left out: {name} cannot be made and mounted here");
        }
        mounted
    }

    fn mount(name: &str) -> Option<Self> {
        let kind = KINDS.iter().find(|kind| kind.name == name).expect("it is in the list");
        let bytes = kind.megabytes << 20;
        let folder = tempfile::tempdir().unwrap();
        let (image, at) = (folder.path().join("image"), folder.path().join("mounted"));
        std::fs::create_dir(&at).unwrap();
        let (image_name, at_name) = (image.to_str().unwrap(), at.to_str().unwrap());
        let (mut device, mut upper) = (None, None);
        let has_image = || {
            File::create(&image).unwrap().set_len(bytes).unwrap();
            succeeds(kind.make[0], &[&kind.make[1..], &[image_name]].concat())
        };
        let mounted = match kind.how {
            How::Tmpfs => {
                succeeds("mount", &["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs", at_name])
            }
            How::Overlay => {
                let below = Self::mount("ext4")?;
                let folders = ["lowerdir", "upperdir", "workdir"].map(|name| {
                    let folder = below.at.join(name);
                    std::fs::create_dir(&folder).unwrap();
                    format!("{name}={}", folder.display())
                });
                upper = Some(Box::new(below));
                succeeds("mount", &["-t", "overlay", "-o", &folders.join(","), "overlay", at_name])
            }
            How::Bindfs => {
                let below = Self::mount("ext4")?;
                let from = below.at.display().to_string();
                upper = Some(Box::new(below));
                succeeds("bindfs", &[&from, at_name])
            }
            How::Loop(sector, system, options) => {
                has_image() && {
                    device = attach(image_name, sector);
                    let name = device.as_deref();
                    name.is_some_and(|name| succeeds("mount", &["-t", system, "-o", options, name, at_name]))
                }
            }
            How::Fuse(program) => has_image() && succeeds(program, &["-o", "rw", image_name, at_name]),
        };
        let made = Self { at, device, _folder: folder, _upper: upper };
        mounted.then_some(made)
    }

    /// Takes all the remaining space except `spare` bytes.
    pub fn fill_but(&self, spare: u64) {
        let mut file = File::create(self.filler()).unwrap();
        // The pieces become smaller and smaller.
        for piece in [1 << 20, 1 << 16, 1 << 12, 512] {
            let piece = vec![0x55; piece];
            while file.write_all(&piece).is_ok() {
                if piece.len() > 1 << 16 {
                    continue;
                }
                if file.sync_data().is_err() {
                    break;
                }
            }
        }
        // Writing may fail even if space was reserved.
        let _ = file.sync_data();
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(spare)).unwrap();
        let _ = file.sync_data();
    }

    /// Takes all the remaining space.
    pub fn fill(&self) {
        self.fill_but(0);
    }

    pub fn make_room(&self) {
        // A process that another test is starting may have the file open for a moment, so that its space would not be released.
        let _ = File::options().write(true).open(self.filler()).and_then(|file| file.set_len(0));
        std::fs::remove_file(self.filler()).unwrap();
        // This also reports errors of writing the filler.
        let _ = succeeds("sync", &["-f", self.at.to_str().unwrap()]);
    }

    fn filler(&self) -> PathBuf {
        self.at.join("filler")
    }

    /// Mounts a folder of the file system again for reading only, if that is possible.
    pub fn read_only(&self, folder: &Path) -> Option<ReadOnly> {
        let at = tempfile::tempdir().unwrap();
        let (from, to) = (folder.to_str().unwrap(), at.path().to_str().unwrap());
        let mounted = succeeds("mount", &["--bind", from, to]);
        let made = ReadOnly { at };
        (mounted && succeeds("mount", &["-o", "remount,bind,ro", made.at.path().to_str().unwrap()]))
            .then_some(made)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(&self.at);
        if let Some(device) = &self.device {
            succeeds("losetup", &["--detach", device]);
        }
    }
}

/// A folder that is mounted for reading only. It is unmounted when it is dropped.
pub struct ReadOnly {
    pub at: tempfile::TempDir,
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        unmount(self.at.path());
    }
}

fn unmount(at: &Path) {
    let name = at.to_str().unwrap();
    if !succeeds("umount", &[name]) {
        succeeds("umount", &["-l", name]);
    }
}
