// SPDX-License-Identifier: GPL-2.0

//! What open files of a node do.

use core::marker::PhantomData;

use super::Inner;
use super::NodeClass;
use crate::bindings;
use crate::sync::WaitQueue;
use kernel::container_of;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::ffi::c_uint;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::types::ForeignOwnable;
use kernel::types::Opaque;
use kernel::uaccess::UserPtr;
use kernel::uaccess::UserSlice;
use kernel::uaccess::UserSliceReader;
use kernel::uaccess::UserSliceWriter;

/// How a file is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// It is not waited for (`O_NONBLOCK`).
    pub nonblock: bool,
}

/// What open files of a node do. All may sleep. Reads and writes have no place in the file
/// (`stream_open`).
#[vtable]
pub trait Files: Sized + 'static {
    /// The class of the node.
    type Class: NodeClass;
    /// An open file.
    type Open: Send + Sync + 'static;

    /// The node is opened.
    ///
    /// # Errors
    ///
    /// What the program gets.
    fn open(node: &<Self::Class as NodeClass>::Node, how: Opening) -> Result<Arc<Self::Open>>;

    /// The last use of the file is gone.
    fn release(open: Arc<Self::Open>);

    /// The program reads; returns how many bytes.
    fn read(_open: &Self::Open, _to: UserSliceWriter, _how: Opening) -> Result<usize> {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// The program writes; returns how many bytes were taken.
    fn write(_open: &Self::Open, _from: UserSliceReader) -> Result<usize> {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// What the program could do without waiting (`EPOLL*`), and where to wait.
    fn poll<'f>(_open: &'f Self::Open, _table: PollTable<'f>) -> u32 {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// An ioctl, of a 32-bit program if `compat`.
    ///
    /// # Errors
    ///
    /// `ENOIOCTLCMD` if there is none of that number.
    fn ioctl(
        _open: ArcBorrow<'_, Self::Open>,
        _cmd: u32,
        _arg: usize,
        _compat: bool,
    ) -> Result<u32> {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// The table for C.
    #[doc(hidden)]
    fn operations() -> &'static bindings::file_operations {
        &Table::<Self>::OPERATIONS
    }
}

/// Where a poller is told what it waits for. `'f` is any time for which the open file may be
/// borrowed, so what lives for `'f` lives as long as the file.
pub struct PollTable<'f> {
    file: *mut bindings::file,
    table: *mut bindings::poll_table,
    _open: PhantomData<fn(&'f ()) -> &'f ()>,
}

impl<'f> PollTable<'f> {
    /// Has the poller wait at a queue, too.
    pub fn wait_at(&self, queue: &'f WaitQueue) {
        // SAFETY: Both are those of a call of `poll`. Pollers leave the queue before the file is
        // released; the queue is part of what only shared references to the open file lead to, for
        // whatever time, and that is not changed until then.
        unsafe { bindings::poll_wait(self.file, queue.raw(), self.table) };
    }
}

/// The methods that C has of `F`.
struct Table<F>(PhantomData<F>);

/// What a method returns to C.
fn answer(result: Result<usize>) -> isize {
    match result {
        // CAST: No more than was asked for, which is less than 2^31.
        Ok(count) => count as isize,
        Err(e) => e.to_errno() as isize,
    }
}

impl<F: Files> Table<F> {
    const OPERATIONS: bindings::file_operations = bindings::file_operations {
        open: Some(Self::open),
        release: Some(Self::release),
        read: if F::HAS_READ { Some(Self::read) } else { None },
        write: if F::HAS_WRITE {
            Some(Self::write)
        } else {
            None
        },
        poll: if F::HAS_POLL { Some(Self::poll) } else { None },
        unlocked_ioctl: if F::HAS_IOCTL {
            Some(Self::ioctl)
        } else {
            None
        },
        #[cfg(CONFIG_COMPAT)]
        compat_ioctl: if F::HAS_IOCTL {
            Some(Self::compat_ioctl)
        } else {
            None
        },
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `file` is an open one of `F`'s, for `'a`.
    unsafe fn of<'a>(file: *mut bindings::file) -> ArcBorrow<'a, F::Open> {
        // SAFETY: `open` has put it there, and `release` takes it out.
        unsafe { <Arc<F::Open> as ForeignOwnable>::borrow((*file).private_data) }
    }

    /// # Safety
    ///
    /// `file` is a file.
    unsafe fn how(file: *mut bindings::file) -> Opening {
        // SAFETY: This function's contract. Other threads may change the flags.
        let flags = unsafe { (&raw const (*file).f_flags).read_volatile() };
        Opening {
            nonblock: flags & bindings::O_NONBLOCK != 0,
        }
    }

    /// # Safety
    ///
    /// For C only: the inode of a [`Node`](super::Node) of `F`'s, and a file that is being opened.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: This function's contract. The VFS has a reference to the node's `cdev`, which is
        // embedded in it, until the file is released.
        let (node, how) = unsafe {
            let cdev = bindings::rdma_helper_inode_cdev(inode).cast::<Opaque<bindings::cdev>>();
            (
                &*container_of!(cdev, Inner<F::Class>, cdev),
                Self::how(file),
            )
        };
        match F::open(&node.data, how) {
            Ok(open) => {
                // SAFETY: The file is ours until it is open.
                unsafe {
                    (*file).private_data = open.into_foreign();
                    bindings::stream_open(inode, file)
                }
            }
            Err(e) => e.to_errno(),
        }
    }

    /// # Safety
    ///
    /// For C only: a file of `F`'s that nobody uses any more.
    unsafe extern "C" fn release(_: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `open` has put it there; nobody borrows it any more.
        F::release(unsafe { ForeignOwnable::from_foreign((*file).private_data) });
        0
    }

    /// # Safety
    ///
    /// For C only: a file of `F`'s.
    unsafe extern "C" fn read(
        file: *mut bindings::file,
        to: *mut c_char,
        count: usize,
        _: *mut bindings::loff_t,
    ) -> isize {
        let to = UserSlice::new(UserPtr::from_ptr(to.cast()), count).writer();
        // SAFETY: This function's contract.
        let (open, how) = unsafe { (Self::of(file), Self::how(file)) };
        answer(F::read(&open, to, how))
    }

    /// # Safety
    ///
    /// For C only: a file of `F`'s.
    unsafe extern "C" fn write(
        file: *mut bindings::file,
        from: *const c_char,
        count: usize,
        _: *mut bindings::loff_t,
    ) -> isize {
        let from = UserSlice::new(UserPtr::from_ptr(from.cast_mut().cast()), count).reader();
        // SAFETY: This function's contract.
        let open = unsafe { Self::of(file) };
        answer(F::write(&open, from))
    }

    /// # Safety
    ///
    /// For C only: a file of `F`'s, and a poll table or null.
    unsafe extern "C" fn poll(
        file: *mut bindings::file,
        table: *mut bindings::poll_table,
    ) -> bindings::__poll_t {
        // SAFETY: This function's contract.
        let open = unsafe { Self::of(file) };
        let table = PollTable {
            file,
            table,
            _open: PhantomData,
        };
        F::poll(&open, table)
    }

    /// # Safety
    ///
    /// For C only: a file of `F`'s.
    unsafe extern "C" fn ioctl(file: *mut bindings::file, cmd: c_uint, arg: c_ulong) -> c_long {
        // SAFETY: This function's contract.
        let open = unsafe { Self::of(file) };
        answer(F::ioctl(open, cmd, arg, false).map(|value| value as usize))
    }

    /// # Safety
    ///
    /// For C only: a file of `F`'s.
    #[cfg(CONFIG_COMPAT)]
    unsafe extern "C" fn compat_ioctl(
        file: *mut bindings::file,
        cmd: c_uint,
        arg: c_ulong,
    ) -> c_long {
        // SAFETY: This function's contract.
        let open = unsafe { Self::of(file) };
        // CAST: The pointers of such programs have 32 bits (`compat_ptr`).
        let arg = arg as u32 as usize;
        answer(F::ioctl(open, cmd, arg, true).map(|value| value as usize))
    }
}
