// SPDX-License-Identifier: GPL-2.0

//! A misc device whose files take commands by `write`, and that the `rdma` netlink family tells
//! programs of.
//!
//! The misc devices of the kernel crate have neither `write` nor `poll`, and their nodes have the
//! name of the device.
//!
//! ```text
//!   Misc::<F>::register(data, ..) -> /dev/NODE, /sys/class/misc/NAME/abi_version
//!     |  open: F::open(&data) -> Arc<F::Open>, owned by the open file
//!     +- Announced::register(misc) ----> `ib_client` NAME, by which programs find the node
//! ```
//!
//! Context: all functions may sleep unless they say otherwise.
//!
//! C headers: `include/linux/miscdevice.h`, `include/linux/fs.h`; `struct ib_client` in
//! `include/rdma/ib_verbs.h`.

use core::marker::PhantomData;
use core::ptr;

use crate::bindings;
use crate::chrdev::PollTable;
use crate::edge::FromC;
use crate::module::Resident;
use crate::provider::unsupported;
use crate::slot::StaticSlot;
use crate::sysfs::Page;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::fs::LocalFile;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::types::ForeignOwnable;
use kernel::types::Opaque;

/// A misc device and its files. Files have no position (`stream_open`).
///
/// The slot of its client is of `static_slot!(impl for Self: AnnouncedSlot)`.
pub trait MiscFiles: StaticSlot<AnnouncedSlot> + Sized + 'static {
    /// Data of the device.
    type Data: Send + Sync + 'static;
    /// Data of an open file.
    type Open: Send + Sync + 'static;
    /// The module that has the methods. The kernel keeps it loaded while a file is open.
    const OWNER: &'static ThisModule;
    /// Name of the device, and of the client.
    const NAME: &'static CStr;
    /// Name of the node in `/dev`.
    const NODE: &'static CStr;
    /// Permission bits of the node.
    const MODE: u16;
    /// The version in `abi_version`.
    const ABI_VERSION: u32;

    /// Opens the node.
    ///
    /// # Errors
    ///
    /// Returned to the program.
    fn open(data: &Self::Data) -> Result<Arc<Self::Open>>;

    /// Closes the file, after its last use.
    fn release(open: Arc<Self::Open>);

    /// Handles a write. Returns the number of bytes that were consumed.
    ///
    /// # Errors
    ///
    /// Returned to the program.
    fn write(open: ArcBorrow<'_, Self::Open>, call: &Call<'_, Self>) -> Result<usize>;

    /// Returns the operations that would not block (`EPOLL*`), and registers the wait queues.
    fn poll<'f>(open: &'f Self::Open, table: PollTable<'f>) -> u32;
}

/// A call of [`MiscFiles::write`].
pub struct Call<'a, F: MiscFiles> {
    file: *mut bindings::file,
    /// Address of the bytes that are written, at the program.
    pub from: usize,
    /// Number of them.
    pub len: usize,
    _of_call: PhantomData<&'a F>,
}

/// Why a file descriptor does not name a file of the device.
pub enum NoPeer {
    /// No file is open with it.
    Closed,
    /// It is another kind of file.
    Foreign,
}

/// An open file of the device, which stays open.
///
/// # Invariants
///
/// The file is one of `F`.
pub struct Peer<F: MiscFiles>(ARef<LocalFile>, PhantomData<F>);

impl<F: MiscFiles> Peer<F> {
    /// Returns the data of the file.
    pub fn open(&self) -> ArcBorrow<'_, F::Open> {
        // SAFETY: The file is one of `F` (type invariant), and is open as long as this.
        unsafe { Table::<F>::of(self.0.as_ptr()) }
    }
}

impl<F: MiscFiles> Call<'_, F> {
    /// Returns whether operations must not block (`O_NONBLOCK`).
    pub fn nonblock(&self) -> bool {
        // SAFETY: The file is open during the call. Other threads may change the flags, so the read
        // is volatile.
        let flags = unsafe { (&raw const (*self.file).f_flags).read_volatile() };
        flags & bindings::O_NONBLOCK != 0
    }

    /// Returns whether the credentials of the task differ from those of the opener.
    pub fn opener_changed(&self) -> bool {
        // SAFETY: The file is open during the call.
        unsafe { bindings::rdma_helper_opener_changed(self.file) }
    }

    /// Returns the file of the device that is open with a descriptor.
    ///
    /// # Errors
    ///
    /// See [`NoPeer`].
    pub fn peer(&self, fd: u32) -> Result<Peer<F>, NoPeer> {
        let other = LocalFile::fget(fd).map_err(|_| NoPeer::Closed)?;
        // SAFETY: Both files are open; the operations of a file do not change.
        let same = unsafe { ptr::eq((*other.as_ptr()).f_op, (*self.file).f_op) };
        // INVARIANT: It has the operations of this file, which is one of `F`.
        same.then_some(Peer(other, PhantomData))
            .ok_or(NoPeer::Foreign)
    }
}

/// The C methods of `F`.
struct Table<F>(PhantomData<F>);

impl<F: MiscFiles> Table<F> {
    const OPERATIONS: bindings::file_operations = bindings::file_operations {
        owner: F::OWNER.as_ptr(),
        open: Some(Self::open),
        release: Some(Self::release),
        write: Some(Self::write),
        poll: Some(Self::poll),
        ..pin_init::zeroed()
    };

    const ABI: bindings::device_attribute = {
        // SAFETY: A C structure of integers and pointers, for which zero is valid: nothing is set.
        let mut raw: bindings::device_attribute = unsafe { core::mem::zeroed() };
        raw.attr = crate::sysfs::constant(c"abi_version", 0o444);
        raw.__bindgen_anon_1.show = Some(Self::abi_version);
        raw
    };
    const LIST: [*const bindings::device_attribute; 2] = [&Self::ABI, ptr::null()];
    const GROUP: bindings::attribute_group = {
        // SAFETY: A C structure of integers and pointers, for which zero is valid: nothing is set.
        let mut raw: bindings::attribute_group = unsafe { core::mem::zeroed() };
        raw.__bindgen_anon_2.attrs = ptr::from_ref(&Self::LIST).cast_mut().cast();
        raw
    };
    const GROUPS: [*const bindings::attribute_group; 2] = [&Self::GROUP, ptr::null()];

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

    /// # Safety
    ///
    /// For C only, with a page of sysfs.
    unsafe extern "C" fn abi_version(
        _: *mut bindings::device,
        _: *mut bindings::device_attribute,
        page: *mut c_char,
    ) -> isize {
        // SAFETY: `page` is a page of sysfs (contract of this function).
        let page = unsafe { Page::from_c(page) };
        page.show(|page| page.text(fmt!("{}\n", F::ABI_VERSION)))
    }

    /// # Safety
    ///
    /// For C only, with a file that is being opened, whose private data is the misc device of a
    /// [`Misc<F>`].
    unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: The arguments are those of this function's contract. The misc code calls this
        // under a lock that `misc_deregister` takes, so the device exists.
        let inner = unsafe {
            let raw = (*file).private_data.cast::<Opaque<bindings::miscdevice>>();
            &*container_of!(raw, Inner<F>, raw)
        };
        match F::open(&inner.data) {
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
    unsafe extern "C" fn write(
        file: *mut bindings::file,
        from: *const c_char,
        count: usize,
        _: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: `file` is open during the call (contract of this function).
        let open = unsafe { Self::of(file) };
        let call = Call {
            file,
            from: from.addr(),
            len: count,
            _of_call: PhantomData,
        };
        match F::write(open, &call) {
            // CAST: Writes are limited to `MAX_RW_COUNT` bytes.
            Ok(count) => count as isize,
            Err(e) => e.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// For C only, with an open file of `F`, and a poll table or null.
    unsafe extern "C" fn poll(
        file: *mut bindings::file,
        table: *mut bindings::poll_table,
    ) -> bindings::__poll_t {
        // SAFETY: `file` is open during the call, whose arguments these are (contract of this
        // function).
        unsafe { F::poll(&Self::of(file), PollTable::new(file, table)) }
    }
}

/// What C refers to.
#[repr(C)]
struct Inner<F: MiscFiles> {
    raw: Opaque<bindings::miscdevice>,
    data: F::Data,
    _resident: Resident,
}

/// A registered misc device. Drop removes the node, but does not wait for open files.
///
/// # Invariants
///
/// The device is registered.
pub struct Misc<F: MiscFiles>(Pin<KBox<Inner<F>>>);

// SAFETY: The misc code has its own lock; the data is `Send` and `Sync`.
unsafe impl<F: MiscFiles> Send for Misc<F> {}
// SAFETY: As for `Send`: the data is `Send` and `Sync`.
unsafe impl<F: MiscFiles> Sync for Misc<F> {}

impl<F: MiscFiles> Misc<F> {
    /// Registers the device. `resident` is [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is no free minor; `ENOMEM`; those of `misc_register`.
    pub fn register(data: F::Data, resident: Resident) -> Result<Self> {
        let raw = bindings::miscdevice {
            // CAST: A small number.
            minor: bindings::MISC_DYNAMIC_MINOR as c_int,
            name: F::NAME.as_char_ptr(),
            nodename: F::NODE.as_char_ptr(),
            mode: F::MODE,
            fops: &Table::<F>::OPERATIONS,
            groups: ptr::from_ref(&Table::<F>::GROUPS).cast_mut().cast(),
            ..Default::default()
        };
        let inner = KBox::pin(
            Inner {
                raw: Opaque::new(raw),
                data,
                _resident: resident,
            },
            GFP_KERNEL,
        )?;
        // SAFETY: The device is pinned, and deregistered before it is freed. Its tables and names
        // are static.
        to_result(unsafe { bindings::misc_register(inner.raw.get()) })?;
        // INVARIANT: Just registered.
        Ok(Self(inner))
    }

    /// Returns the device of the node.
    fn device(&self) -> *mut bindings::device {
        // SAFETY: The device is registered (type invariant), and the field does not change.
        unsafe { (*self.0.raw.get()).this_device }
    }
}

impl<F: MiscFiles> Drop for Misc<F> {
    fn drop(&mut self) {
        // SAFETY: The device is registered (type invariant). The function waits for `open`.
        unsafe { bindings::misc_deregister(self.0.raw.get()) };
    }
}

/// Registration state of a client, a static of its module.
///
/// # Invariants
///
/// From when `taken` is set until it is cleared, the slot belongs to one registration. While the core
/// knows `raw`, `device` is a device that exists.
pub struct AnnouncedSlot {
    raw: Opaque<bindings::ib_client>,
    device: Atomic<*mut bindings::device>,
    taken: Atomic<bool>,
}

// SAFETY: Its fields change only as the type invariant says.
unsafe impl Sync for AnnouncedSlot {}

impl AnnouncedSlot {
    /// Creates a free slot.
    #[allow(clippy::new_without_default, reason = "only for statics")]
    pub const fn new() -> Self {
        Self {
            raw: Opaque::zeroed(),
            device: Atomic::new(ptr::null_mut()),
            taken: Atomic::new(false),
        }
    }
}

/// A device that programs find by the name of its client. Drop unregisters client and device.
///
/// # Invariants
///
/// The slot of `F` is taken by this, and its client is registered.
pub struct Announced<F: MiscFiles> {
    _misc: Misc<F>,
}

impl<F: MiscFiles> Announced<F> {
    /// Registers the client.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the slot is taken; those of `ib_register_client`.
    pub fn register(misc: Misc<F>) -> Result<Self> {
        let slot = F::slot();
        if slot.taken.xchg(true, Full) {
            return Err(EBUSY);
        }
        slot.device.store(misc.device(), Release);
        let raw = bindings::ib_client {
            name: F::NAME.as_char_ptr(),
            get_global_nl_info: Some(nl_info::<F>),
            ..Default::default()
        };
        // SAFETY: This call has set `taken`, and the core does not know `raw` yet (type invariant of
        // `AnnouncedSlot`).
        let result = unsafe {
            slot.raw.get().write(raw);
            to_result(bindings::ib_register_client(slot.raw.get()))
        };
        if let Err(e) = result {
            slot.taken.store(false, Release);
            return Err(e);
        }
        // INVARIANT: The slot was taken and the client registered above.
        Ok(Self { _misc: misc })
    }
}

impl<F: MiscFiles> Drop for Announced<F> {
    fn drop(&mut self) {
        let slot = F::slot();
        // SAFETY: The client is registered (type invariant).
        unsafe { bindings::ib_unregister_client(slot.raw.get()) };
        slot.device.store(ptr::null_mut(), Relaxed);
        slot.taken.store(false, Release);
    }
}

/// The `get_global_nl_info` method of `struct ib_client`.
///
/// # Safety
///
/// For the core only, as a method of the client in the slot of `F`, with a request.
unsafe extern "C" fn nl_info<F: MiscFiles>(info: *mut bindings::ib_client_nl_info) -> c_int {
    let device = F::slot().device.load(Acquire);
    if device.is_null() {
        return unsupported().to_errno();
    }
    // SAFETY: `info` is valid (contract of this function). The core takes a reference to the device
    // before the client can be unregistered, and the device exists until then (invariant of
    // `AnnouncedSlot`).
    unsafe { bindings::rdma_helper_nl_info_global(info, F::ABI_VERSION.into(), device) };
    0
}
