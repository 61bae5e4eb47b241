// SPDX-License-Identifier: GPL-2.0

//! Addresses of InfiniBand ports: local identifiers (LIDs; IBTA 4.1.3).

use super::AhAttr;
use crate::bindings;
use core::mem::ManuallyDrop;

impl AhAttr {
    /// Returns the destination LID; `None` for addresses of other link layers.
    #[inline]
    pub fn dlid(&self) -> Option<u16> {
        self.ib().map(|ib| ib.dlid)
    }

    /// Returns the source path bits: the low bits of the source LID, if the port has several (IBTA
    /// 3.5.10).
    #[inline]
    pub fn path_bits(&self) -> u8 {
        self.ib().map_or(0, |ib| ib.src_path_bits)
    }

    /// Sets the LIDs and the type, InfiniBand.
    pub fn set_lids(&mut self, dlid: u16, path_bits: u8) {
        self.0.type_ = bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB;
        self.0.__bindgen_anon_1.ib = ManuallyDrop::new(bindings::ib_ah_attr {
            dlid,
            src_path_bits: path_bits,
        });
    }

    fn ib(&self) -> Option<&bindings::ib_ah_attr> {
        if self.0.type_ != bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB {
            return None;
        }
        // SAFETY: The variant of this type is in use; it contains only integers.
        Some(unsafe { &self.0.__bindgen_anon_1.ib })
    }
}
