// SPDX-License-Identifier: GPL-2.0

//! Responses about the fast registration memory region (FRMR) pools of a device.

use super::super::nla::Full;
use super::super::nla::Sink;
use super::super::nla::Writer;
use super::attr::PAD;
use super::Attr;

/// A pool: `RDMA_NLDEV_CMD_FRMR_POOLS_GET`.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// Whether the regions use ATS (address translation services).
    pub ats: bool,
    /// Access flags of the regions (`IB_ACCESS_*`).
    pub access_flags: u32,
    /// Driver-specific part of the key.
    pub vendor_key: u64,
    /// Driver-specific key of kernel regions; 0 for others.
    pub kernel_vendor_key: u64,
    /// Maximum number of DMA blocks of a region.
    pub blocks: u64,
    /// Number of free regions in the pool.
    pub free: u32,
    /// Maximum number of regions in use at the same time so far.
    pub max_in_use: u64,
    /// Number of regions in use.
    pub in_use: u64,
    /// Number of regions that are always kept.
    pub pinned: u32,
}

impl Pool {
    /// Writes the attributes of the pool.
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
