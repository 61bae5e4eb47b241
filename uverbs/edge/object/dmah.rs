// SPDX-License-Identifier: GPL-2.0

//! DMA handles (`struct ib_dmah`).

use super::entry;
use super::make;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::dmah::Dmah;
use crate::private;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::verbs;
use rdma::edge::View;

/// What a program says of the accesses of a device to memory.
#[derive(Clone, Copy, Default)]
pub(crate) struct Hints {
    /// The CPU that uses the memory.
    pub(crate) cpu: Option<u32>,
    /// `enum tph_mem_type`.
    pub(crate) memory: Option<u8>,
    /// The processing hint.
    pub(crate) hint: Option<u8>,
}

/// Whether the current task may run on a CPU, of which there are [`kernel::cpu::nr_cpu_ids`].
pub(crate) fn may_run_on(cpu: u32) -> bool {
    // SAFETY: The number is less than `nr_cpu_ids`, so it is within the mask.
    cpu < kernel::cpu::nr_cpu_ids() && unsafe { bindings::rdma_helper_may_run_on(cpu) }
}

/// Makes a DMA handle. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver has none; `ENOMEM`; those of the driver.
pub(crate) fn alloc(new: &New<'_, Dmah>, hints: &Hints) -> Result<Owned<verbs::Dmah>> {
    let device = new.device()?;
    let ops = device.ops();
    let alloc = ops.alloc_dmah.ok_or_else(unsupported)?;
    let mut valid = 0;
    let mut given = |bit: u32, is: bool| valid |= u8::from(is).wrapping_shl(bit);
    given(bindings::IB_DMAH_CPU_ID_EXISTS, hints.cpu.is_some());
    given(bindings::IB_DMAH_MEM_TYPE_EXISTS, hints.memory.is_some());
    given(bindings::IB_DMAH_PH_EXISTS, hints.hint.is_some());
    // SAFETY: The size is that of the driver's DMA handles; the user's handle outlives them.
    unsafe {
        make(
            device,
            ops.size_ib_dmah,
            entry!(bindings::ib_dmah, rdma_restrack_type_RDMA_RESTRACK_DMAH),
            |dmah: *mut bindings::ib_dmah| {
                (*dmah).device = device.raw();
                (*dmah).uobject = new.handle().raw();
                (*dmah).cpu_id = hints.cpu.unwrap_or(0);
                (*dmah).mem_type = hints.memory.unwrap_or(0).into();
                (*dmah).ph = hints.hint.unwrap_or(0);
                (*dmah).valid_fields = valid;
            },
            |dmah| alloc(dmah, new.call().raw()),
        )
    }
}

/// Destroys a DMA handle that no region uses. May sleep.
///
/// # Errors
///
/// `EBUSY`: it is in use; those of the driver.
pub(crate) fn free(dmah: Dying<'_, Dmah>) -> Result<Dead<'_, Dmah>> {
    if dmah.object().usecnt().is_used() {
        return Err(EBUSY);
    }
    let free = dmah
        .object()
        .dev()
        .ops()
        .dealloc_dmah
        .ok_or_else(unsupported)?;
    let entry = dmah.object().res().raw();
    // SAFETY: Nobody else uses the DMA handle (`Dying`), but readers of its entry, which is taken
    // out before the driver is called, and put back if the driver fails. `make` has allocated the
    // memory.
    unsafe {
        private::rdma_restrack_begin_del(entry);
        if let Err(error) = to_result(free(dmah.raw(), dmah.call().raw())) {
            private::rdma_restrack_abort_del(entry);
            return Err(error);
        }
        private::rdma_restrack_commit_del(entry);
        bindings::kfree(dmah.raw().cast());
        Ok(dmah.gone())
    }
}
