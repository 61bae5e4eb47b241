// SPDX-License-Identifier: GPL-2.0

//! File operations of a node (`struct file_operations`).

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

/// Flags of an open file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Operations must not block (`O_NONBLOCK`).
    pub nonblock: bool,
}

/// File operations of a node. All of them may sleep. Files have no position (`stream_open`).
#[vtable]
pub trait Files: Sized + 'static {
    /// The class of the node.
    type Class: NodeClass;
    /// Data of an open file.
    type Open: Send + Sync + 'static;
    /// The module that has the methods. The kernel keeps it loaded while a file is open, until it
    /// has released both the node and the table of the methods.
    const OWNER: &'static ThisModule;

    /// Opens the node.
    ///
    /// # Errors
    ///
    /// Returned to the program.
    fn open(node: &<Self::Class as NodeClass>::Node, how: Opening) -> Result<Arc<Self::Open>>;

    /// Closes the file, after its last use.
    fn release(open: Arc<Self::Open>);

    /// Reads into `_to`. Returns the number of bytes.
    fn read(_open: &Self::Open, _to: UserSliceWriter, _how: Opening) -> Result<usize> {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Writes from `_from`. Returns the number of bytes that were consumed.
    fn write(_open: &Self::Open, _from: UserSliceReader) -> Result<usize> {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Returns the operations that would not block (`EPOLL*`), and registers the wait queues.
    fn poll<'f>(_open: &'f Self::Open, _table: PollTable<'f>) -> u32 {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Handles an ioctl; `compat` is set for a 32-bit program.
    ///
    /// # Errors
    ///
    /// `ENOIOCTLCMD` for an unknown number.
    fn ioctl(
        _open: ArcBorrow<'_, Self::Open>,
        _cmd: u32,
        _arg: usize,
        _compat: bool,
    ) -> Result<u32> {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Returns the table for C.
    #[doc(hidden)]
    fn operations() -> &'static bindings::file_operations {
        &Table::<Self>::OPERATIONS
    }
}

/// Poll table of a call of [`Files::poll`]. `'f` is any lifetime for which the open file can be
/// borrowed, so what is valid for `'f` is valid until the file is released.
pub struct PollTable<'f> {
    file: *mut bindings::file,
    table: *mut bindings::poll_table,
    _open: PhantomData<fn(&'f ()) -> &'f ()>,
}

impl<'f> PollTable<'f> {
    /// # Safety
    ///
    /// `file` and `table` are the arguments of a call of `poll` that has not returned, `table` may
    /// be null, and the open file can be borrowed for `'f`.
    pub(crate) unsafe fn new(file: *mut bindings::file, table: *mut bindings::poll_table) -> Self {
        Self {
            file,
            table,
            _open: PhantomData,
        }
    }

    /// Adds the poller to a wait queue.
    pub fn wait_at(&self, queue: &'f WaitQueue) {
        // SAFETY:
        // - `file` and `table` are arguments of the current call of `poll`.
        // - `queue` exists until the file is released: it is reached by shared references from the
        //   open file, for any lifetime `'f`. Pollers leave the queue before the file is released.
        unsafe { bindings::poll_wait(self.file, queue.raw(), self.table) };
    }
}

/// The C methods of `F`.
struct Table<F>(PhantomData<F>);

/// Converts a result to the return value of a C method.
fn answer(result: Result<usize>) -> isize {
    match result {
        // CAST: Reads and writes are limited to `MAX_RW_COUNT` bytes. An ioctl returns a `u32`, which
        // fits on 64-bit kernels.
        Ok(count) => count as isize,
        Err(e) => e.to_errno() as isize,
    }
}

impl<F: Files> Table<F> {
    const OPERATIONS: bindings::file_operations = bindings::file_operations {
        owner: F::OWNER.as_ptr(),
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

    /// Returns the data of an open file.
    ///
    /// # Safety
    ///
    /// `file` is a file of `F` that stays open for `'a`.
    unsafe fn of<'a>(file: *mut bindings::file) -> ArcBorrow<'a, F::Open> {
        // SAFETY: `open` stored the pointer, and `release` takes it back after `'a` (contract of
        // this function).
        unsafe { <Arc<F::Open> as ForeignOwnable>::borrow((*file).private_data) }
    }

    /// Reads the flags of a file.
    ///
    /// # Safety
    ///
    /// `file` is a file.
    unsafe fn how(file: *mut bindings::file) -> Opening {
        // SAFETY: `file` is a file (contract of this function). Other threads may change the flags,
        // so the read is volatile.
        let flags = unsafe { (&raw const (*file).f_flags).read_volatile() };
        Opening {
            nonblock: flags & bindings::O_NONBLOCK != 0,
        }
    }

    /// # Safety
    ///
    /// For C only, with the inode of a [`Node`](super::Node) with the operations of `F`, and a file
    /// that is being opened.
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: The arguments are those of this function's contract. The VFS holds a reference to
        // the `cdev`, which is embedded in the node, until the file is released.
        let (node, how) = unsafe {
            let cdev = bindings::rdma_helper_inode_cdev(inode).cast::<Opaque<bindings::cdev>>();
            (
                &*container_of!(cdev, Inner<F::Class>, cdev),
                Self::how(file),
            )
        };
        match F::open(&node.data, how) {
            Ok(open) => {
                // SAFETY: Until this function returns, only it uses the file.
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
    /// For C only, with a file of `F` that is no longer in use.
    unsafe extern "C" fn release(_: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: `open` stored the pointer, and no call borrows the data any more (contract of
        // this function).
        F::release(unsafe { ForeignOwnable::from_foreign((*file).private_data) });
        0
    }

    /// # Safety
    ///
    /// For C only, with an open file of `F`.
    unsafe extern "C" fn read(
        file: *mut bindings::file,
        to: *mut c_char,
        count: usize,
        _: *mut bindings::loff_t,
    ) -> isize {
        let to = UserSlice::new(UserPtr::from_ptr(to.cast()), count).writer();
        // SAFETY: `file` is open during the call (contract of this function).
        let (open, how) = unsafe { (Self::of(file), Self::how(file)) };
        answer(F::read(&open, to, how))
    }

    /// # Safety
    ///
    /// For C only, with an open file of `F`.
    unsafe extern "C" fn write(
        file: *mut bindings::file,
        from: *const c_char,
        count: usize,
        _: *mut bindings::loff_t,
    ) -> isize {
        let from = UserSlice::new(UserPtr::from_ptr(from.cast_mut().cast()), count).reader();
        // SAFETY: `file` is open during the call (contract of this function).
        let open = unsafe { Self::of(file) };
        answer(F::write(&open, from))
    }

    /// # Safety
    ///
    /// For C only, with an open file of `F`, and a poll table or null.
    unsafe extern "C" fn poll(
        file: *mut bindings::file,
        table: *mut bindings::poll_table,
    ) -> bindings::__poll_t {
        // SAFETY: `file` is open during the call (contract of this function).
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
    /// For C only, with an open file of `F`.
    unsafe extern "C" fn ioctl(file: *mut bindings::file, cmd: c_uint, arg: c_ulong) -> c_long {
        // SAFETY: `file` is open during the call (contract of this function).
        let open = unsafe { Self::of(file) };
        answer(F::ioctl(open, cmd, arg, false).map(|value| value as usize))
    }

    /// # Safety
    ///
    /// For C only, with an open file of `F`.
    #[cfg(CONFIG_COMPAT)]
    unsafe extern "C" fn compat_ioctl(
        file: *mut bindings::file,
        cmd: c_uint,
        arg: c_ulong,
    ) -> c_long {
        // SAFETY: `file` is open during the call (contract of this function).
        let open = unsafe { Self::of(file) };
        // CAST: Pointers of 32-bit programs have 32 bits (`compat_ptr`).
        let arg = arg as u32 as usize;
        answer(F::ioctl(open, cmd, arg, true).map(|value| value as usize))
    }
}
