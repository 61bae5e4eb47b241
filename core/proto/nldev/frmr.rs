// SPDX-License-Identifier: GPL-2.0

//! Answers about the pools of memory regions of a device.

use super::super::nla::Full;
use super::super::nla::Sink;
use super::super::nla::Writer;
use super::attr::PAD;
use super::Attr;

/// A pool: `RDMA_NLDEV_CMD_FRMR_POOLS_GET`.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Whether the device translates addresses itself.
    pub ats: bool,
    /// What may be done with a region (`IB_ACCESS_*`).
    pub access_flags: u32,
    /// The driver's own distinction.
    pub vendor_key: u64,
    /// The same for the kernel's regions; 0 for others.
    pub kernel_vendor_key: u64,
    /// Blocks of memory that a region can have.
    pub blocks: u64,
    /// How many regions wait.
    pub free: u32,
    /// How many were used at once at most.
    pub max_in_use: u64,
    /// How many are used.
    pub in_use: u64,
    /// How many are kept in any case.
    pub pinned: u32,
}

impl Pool {
    /// Writes it.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        w.nest(Attr::FrmrPoolKey.raw(), |w| {
            w.put_u8(Attr::FrmrPoolKeyAts.raw(), u8::from(self.ats))?;
            w.put_u32(Attr::FrmrPoolKeyAccessFlags.raw(), self.access_flags)?;
            w.put_u64(Attr::FrmrPoolKeyVendorKey.raw(), self.vendor_key, PAD)?;
            w.put_u64(Attr::FrmrPoolKeyNumDmaBlocks.raw(), self.blocks, PAD)?;
            match self.kernel_vendor_key {
                0 => Ok(()),
                key => w.put_u64(Attr::FrmrPoolKeyKernelVendorKey.raw(), key, PAD),
            }
        })?;
        w.put_u32(Attr::FrmrPoolQueueHandles.raw(), self.free)?;
        w.put_u64(Attr::FrmrPoolMaxInUse.raw(), self.max_in_use, PAD)?;
        w.put_u64(Attr::FrmrPoolInUse.raw(), self.in_use, PAD)?;
        w.put_u32(Attr::FrmrPoolPinnedHandles.raw(), self.pinned)
    }
}
