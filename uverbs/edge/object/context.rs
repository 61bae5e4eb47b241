// SPDX-License-Identifier: GPL-2.0

//! Contexts (`struct ib_ucontext`): a program's use of a device through an open file.

use crate::edge::call::Call;
use crate::edge::file::uncharge;
use crate::edge::handle::Kind;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::private;
use core::cell::Cell;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::View;

/// A context that was made in this call. Dropping it frees it, unless it was published. Handles that
/// are of it go before: they are borrowed from it ([`begin`](Self::begin)).
///
/// # Invariants
///
/// `c` is a context that was allocated, and is the `context` of `call`. If `published` is not set,
/// only this task uses it.
pub(crate) struct NewContext<'c> {
    c: NonNull<bindings::ib_ucontext>,
    call: &'c Call,
    published: Cell<bool>,
}

impl<'c> NewContext<'c> {
    /// Allocates a context, which handles of this call are of. May sleep.
    ///
    /// # Errors
    ///
    /// `EIO`: the device is gone; `ENOMEM`.
    pub(crate) fn alloc(call: &'c Call) -> Result<Self> {
        let device = call.device()?;
        // SAFETY: The device exists; the size is that of the driver's contexts.
        let memory = unsafe {
            bindings::rdma_helper_drv_zalloc(device.raw(), device.ops().size_ib_ucontext)
        };
        let c: NonNull<bindings::ib_ucontext> = NonNull::new(memory).ok_or(ENOMEM)?.cast();
        // SAFETY: The memory is new and zeroed, and begins with the structure, whatever the driver's
        // structure has behind it (`INIT_RDMA_OBJ_SIZE`).
        unsafe {
            let c = c.as_ptr();
            (*c).device = device.raw();
            (*c).ufile = call.file().raw();
            bindings::xa_init_flags(&raw mut (*c).mmap_xa, bindings::XA_FLAGS_ALLOC);
            private::rdma_restrack_new(
                &raw mut (*c).res,
                bindings::rdma_restrack_type_RDMA_RESTRACK_CTX,
            );
            private::rdma_restrack_set_name(&raw mut (*c).res, ptr::null());
        }
        call.set_context(c.as_ptr());
        // INVARIANT: Just allocated.
        Ok(Self {
            c,
            call,
            published: Cell::new(false),
        })
    }

    /// Begins a handle that is of this context. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`New::begin`].
    pub(crate) fn begin<K: Kind>(&self) -> Result<New<'_, K>> {
        New::begin_in_any(self.call)
    }

    /// Makes the context that of the open file. `rights` are files of user capabilities. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `EIO`: the file is being closed; `EINVAL`: it has a context; `EAGAIN` (cgroup); those of
    /// the capabilities and of the driver.
    pub(crate) fn publish(&self, rights: Option<&[i32]>) -> Result {
        let rights = match rights {
            Some(files) => Some((files.as_ptr().cast_mut(), i32::try_from(files.len())?)),
            None => None,
        };
        let file = self.call.file();
        let _held = file.hw_destroy_rwsem().try_read().ok_or(EIO)?;
        let _mutex = ContextMutex::lock(self.call);
        if file.has_ucontext() {
            return Err(EINVAL);
        }
        let c = self.c.as_ptr();
        // SAFETY: The context is ours until it is published, which the mutex makes happen once.
        unsafe {
            let ops = &(*(*c).device).ops;
            let alloc = ops.alloc_ucontext.ok_or_else(unsupported)?;
            to_result(private::ib_rdmacg_try_charge(
                &raw mut (*c).cg_obj,
                (*c).device,
                private::rdmacg_resource_type_RDMACG_RESOURCE_HCA_HANDLE,
            ))?;
            let result = match rights {
                None => Ok(()),
                Some((files, count)) => to_result(bindings::ib_get_ucaps(
                    files,
                    count,
                    &raw mut (*c).enabled_caps,
                )),
            }
            .and_then(|()| to_result(alloc(c, self.call.udata().raw())));
            if let Err(error) = result {
                uncharge(c);
                return Err(error);
            }
            private::rdma_restrack_add(&raw mut (*c).res);
            bindings::rdma_helper_ufile_set_ucontext(file.raw(), c);
        }
        self.published.set(true);
        Ok(())
    }
}

impl Drop for NewContext<'_> {
    fn drop(&mut self) {
        if self.published.get() {
            return;
        }
        let c = self.c.as_ptr();
        // SAFETY: Only this task uses the context (type invariant); its entry was not added.
        unsafe {
            bindings::rdma_restrack_put(&raw mut (*c).res);
            bindings::kfree(c.cast());
        }
        self.call.set_context(ptr::null_mut());
    }
}

/// The mutex of the context of an open file.
struct ContextMutex<'a>(&'a Call);

impl<'a> ContextMutex<'a> {
    fn lock(call: &'a Call) -> Self {
        // SAFETY: The mutex is initialised with the file.
        unsafe { bindings::mutex_lock(&raw mut (*call.file().raw()).ucontext_lock) };
        Self(call)
    }
}

impl Drop for ContextMutex<'_> {
    fn drop(&mut self) {
        // SAFETY: The mutex was locked in `lock`, by this task.
        unsafe { bindings::mutex_unlock(&raw mut (*self.0.file().raw()).ucontext_lock) };
    }
}
