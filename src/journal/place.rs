//! Where the journal lives: which file systems can hold it, who may see it, how much room is left.

use super::{
    Options,
    error::{OpenError, StoreError, show},
    group::gid_of,
};
use rustix::{
    fs::{Access, Gid, Mode, OFlags},
    io::Errno,
};
use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Modes of what is created, by whether a group shares the journal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Modes {
    pub(super) gid: Option<Gid>,
}

impl Modes {
    pub(super) fn of(options: &Options) -> Result<Self, OpenError> {
        let gid = options.group.as_deref().map(gid_of).transpose()?;
        Ok(Self { gid })
    }

    const fn directory(self) -> u32 {
        if self.gid.is_some() { 0o2770 } else { 0o700 }
    }

    pub(super) const fn file(self) -> u32 {
        if self.gid.is_some() { 0o660 } else { 0o600 }
    }
}

/// Makes the directories and the file of a journal, with their modes whatever the umask is, and checks all that
/// can be wrong with the place. Gives the path with its directories resolved.
pub(super) fn prepare(path: &Path, options: &Options) -> Result<PathBuf, OpenError> {
    let parent = parent_of(path);
    refuse_file_system(path, nearest_existing(path))?;
    let modes = Modes::of(options)?;
    create_directories(path, &parent, modes, options)?;
    let path = resolved(path, &parent)?;
    if !exists(&path)? {
        create_file(&path, modes, options)?;
    }
    inspect_file(&path, modes, options)?;
    tighten(&path, modes, options)?;
    Ok(path)
}

/// The checks alone, for readers, which create and change nothing.
pub(super) fn inspect(path: &Path, options: &Options) -> Result<PathBuf, OpenError> {
    let parent = parent_of(path);
    let missing = || OpenError::Missing { path: show(path) };
    match parent.try_exists() {
        Ok(true) => {}
        Ok(false) => return Err(missing()),
        Err(e) => return Err(StoreError::io(path, "looking for its directory", &e).into()),
    }
    refuse_file_system(path, &parent)?;
    let path = resolved(path, &parent)?;
    if !exists(&path)? {
        return Err(missing());
    }
    inspect_file(&path, Modes::of(options)?, options)?;
    Ok(path)
}

/// Whether a journal could be made or written here, as far as that can be told without making anything.
pub(super) fn fit(path: &Path, options: &Options) -> Result<(), OpenError> {
    refuse_file_system(path, nearest_existing(path))?;
    Modes::of(options)?;
    writable(path).map_err(|e| StoreError::io(path, "making files there", &e).into())
}

/// Whether this user may make files beside the journal, or the directories that are missing on the way to it.
pub(super) fn writable(path: &Path) -> io::Result<()> {
    let near = nearest_existing(path);
    if !fs::metadata(near)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    rustix::fs::access(near, Access::WRITE_OK | Access::EXEC_OK).map_err(Into::into)
}

/// The directory of the journal, or the last of those above it that exists.
pub(super) fn nearest_existing(path: &Path) -> &Path {
    let above = path.ancestors().skip(1);
    let named = above.map(|p| {
        if p.as_os_str().is_empty() {
            Path::new(".")
        } else {
            p
        }
    });
    named.into_iter().find(|p| p.exists()).unwrap_or(Path::new("/"))
}

/// The directory of the journal; a bare file name lives in the current directory.
fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The path with every directory resolved and the file's own name untouched, so that a link in the file's place
/// is seen.
fn resolved(path: &Path, parent: &Path) -> Result<PathBuf, OpenError> {
    let name = path
        .file_name()
        .ok_or_else(|| OpenError::NotAFile { path: show(path) })?;
    let parent = fs::canonicalize(parent).map_err(|e| StoreError::io(path, "its directory", &e))?;
    refuse_file_system(path, &parent)?;
    let about = fs::metadata(&parent).map_err(|e| StoreError::io(path, "its directory", &e))?;
    // A sticky directory such as /tmp keeps others from replacing our file; a plain open one does not.
    if about.mode() & 0o1002 == 0o002 {
        return Err(OpenError::OpenDirectory { path: show(&parent) });
    }
    Ok(parent.join(name))
}

fn exists(path: &Path) -> Result<bool, OpenError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StoreError::io(path, "looking at it", &e).into()),
    }
}

fn create_directories(path: &Path, parent: &Path, modes: Modes, options: &Options) -> Result<(), OpenError> {
    let mut missing: Vec<&Path> = parent
        .ancestors()
        .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
        .collect();
    missing.reverse();
    for directory in missing {
        let made = fs::DirBuilder::new().mode(0o700).create(directory);
        match made {
            Ok(()) => {
                own(directory, modes, options)?;
                fs::set_permissions(directory, fs::Permissions::from_mode(modes.directory()))
                    .and_then(|()| sync_directory(directory))
                    .map_err(|e| StoreError::io(path, "making its directory", &e))?;
            }
            // Another process was faster; it sets the mode.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(StoreError::io(path, "creating its directory", &e).into()),
        }
    }
    Ok(())
}

/// Hands a new file or directory to the shared group.
fn own(path: &Path, modes: Modes, options: &Options) -> Result<(), OpenError> {
    let Some(gid) = modes.gid else { return Ok(()) };
    rustix::fs::chown(path, None, Some(gid)).map_err(|e| OpenError::Group {
        group: options.group.clone().unwrap_or_default(),
        why: format!("cannot give {} to it ({e}): are you a member?", show(path)),
    })
}

fn create_file(path: &Path, modes: Modes, options: &Options) -> Result<(), OpenError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => file,
        // Another process was faster; what it made is inspected like any other file.
        Err(Errno::EXIST) => return Ok(()),
        Err(e) => return Err(StoreError::io(path, "creating it", &e.into()).into()),
    };
    own(path, modes, options)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(modes.file() as rustix::fs::RawMode))
        .map_err(|e| StoreError::io(path, "its mode", &e.into()))?;
    sync_directory(path).map_err(|e| StoreError::io(path, "syncing its directory", &e).into())
}

/// Device and inode of the file at a path.
pub(super) fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|about| (about.dev(), about.ino()))
}

/// A new file's entry must survive a power cut as its content does.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    fs::File::open(parent_of(path))?.sync_all()
}

/// The journal's file and the files that SQLite keeps beside it.
pub(super) fn family(path: &Path) -> [PathBuf; 4] {
    ["", "-wal", "-shm", "-ballast"].map(|tail| beside(path, tail))
}

/// A file beside the journal, by the end of its name.
pub(super) fn beside(path: &Path, tail: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(tail);
    PathBuf::from(name)
}

fn inspect_file(path: &Path, modes: Modes, options: &Options) -> Result<(), OpenError> {
    let me = rustix::process::geteuid().as_raw();
    for file in family(path) {
        let about = match fs::symlink_metadata(&file) {
            Ok(about) => about,
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(StoreError::io(&file, "looking at it", &e).into()),
        };
        if about.file_type().is_symlink() {
            return Err(OpenError::Symlink { path: show(&file) });
        }
        if !about.is_file() {
            return Err(OpenError::NotAFile { path: show(&file) });
        }
        let shared = modes.gid.is_some_and(|gid| gid.as_raw() == about.gid());
        if about.uid() != me && !shared {
            return Err(OpenError::Owner {
                path: show(&file),
                owner: about.uid(),
                me,
            });
        }
    }
    refuse_file_system(path, path)?;
    match (&options.group, modes.gid) {
        (Some(group), Some(gid)) => directory_is_shared(path, group, gid),
        _ => Ok(()),
    }
}

/// Members can only use a journal whose directory lets them make the files beside it.
fn directory_is_shared(path: &Path, group: &str, gid: Gid) -> Result<(), OpenError> {
    let parent = parent_of(path);
    let about = fs::metadata(&parent).map_err(|e| StoreError::io(path, "its directory", &e))?;
    if about.gid() == gid.as_raw() && about.mode() & 0o2070 == 0o2070 {
        return Ok(());
    }
    let directory = show(&parent);
    Err(OpenError::Group {
        group: group.to_owned(),
        why: format!(
            "{directory} is not open to it: chgrp {group} {directory} && chmod 2770 {directory}, or set journal.path \
             to a place that does not exist yet"
        ),
    })
}

/// Brings the modes of our own files to what the configuration says, in case they were made under another one.
fn tighten(path: &Path, modes: Modes, options: &Options) -> Result<(), OpenError> {
    let me = rustix::process::geteuid().as_raw();
    for file in family(path) {
        let Ok(about) = fs::symlink_metadata(&file) else {
            continue;
        };
        if about.uid() != me {
            continue;
        }
        if modes.gid.is_some_and(|gid| gid.as_raw() != about.gid()) {
            own(&file, modes, options)?;
        }
        if about.mode() & 0o777 != modes.file() {
            match fs::set_permissions(&file, fs::Permissions::from_mode(modes.file())) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io(&file, "its mode", &e).into());
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn refuse_file_system(path: &Path, at: &Path) -> Result<(), OpenError> {
    let about = rustix::fs::statfs(at).map_err(|e| StoreError::io(path, "its file system", &e.into()))?;
    match unfit(&about) {
        Some(filesystem) => Err(OpenError::FileSystem {
            path: show(path),
            filesystem,
        }),
        None => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn unfit(about: &rustix::fs::StatFs) -> Option<&'static str> {
    unfit_magic(about.f_type as u32)
}

/// File systems by their magic number on which locks, shared memory or fsync cannot be relied on between
/// processes or hosts.
#[cfg(target_os = "linux")]
const fn unfit_magic(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => "SMB (CIFS)",
        0x6573_5546 => "FUSE (sshfs, s3fs, GlusterFS, virtiofs and others)",
        0x0102_1997 => "9P",
        0x00c3_6400 => "Ceph",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0xaad7_aaea => "PanFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x786f_4256 => "a VirtualBox shared folder",
        0xbacb_acbc => "a VMware shared folder",
        _ => return None,
    })
}

/// macOS names its file systems.
#[cfg(target_vendor = "apple")]
fn unfit(about: &rustix::fs::StatFs) -> Option<&'static str> {
    let name: String = about
        .f_fstypename
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| char::from(*c as u8))
        .collect();
    match name.as_str() {
        "nfs" => Some("NFS"),
        "smbfs" => Some("SMB (CIFS)"),
        "afpfs" => Some("AFP"),
        "webdav" => Some("WebDAV"),
        "ftp" => Some("FTP"),
        fuse if fuse.contains("fuse") => Some("FUSE"),
        _ => None,
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn unfit(_: &rustix::fs::StatFs) -> Option<&'static str> {
    None
}

/// Bytes that an ordinary user may still write beside the journal at `path`; its directory must exist.
///
/// # Errors
/// The file system cannot be asked.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let about = rustix::fs::statvfs(parent_of(path))?;
    Ok(about.f_bavail.saturating_mul(about.f_frsize))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_other_hosts_and_of_user_programs_are_unfit() {
        for magic in [
            0x6969,
            0xff53_4d42,
            0xfe53_4d42,
            0x6573_5546,
            0x0102_1997,
            0x00c3_6400,
            0x5346_414f,
        ] {
            assert!(unfit_magic(magic).is_some(), "{magic:x}");
        }
    }

    #[test]
    fn local_file_systems_are_fit() {
        // ext4, xfs, btrfs, tmpfs, zfs, overlay, f2fs
        for magic in [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0x0102_1994,
            0x2fc1_2fc1,
            0x794c_7630,
            0xf2f5_2010,
        ] {
            assert_eq!(unfit_magic(magic), None, "{magic:x}");
        }
    }

    #[test]
    fn a_refused_file_system_names_the_setting_that_helps() {
        let error = OpenError::FileSystem {
            path: "/mnt/j".to_owned(),
            filesystem: "NFS",
        };
        assert!(error.to_string().contains("journal.path /mnt/j is on NFS"));
    }
}
