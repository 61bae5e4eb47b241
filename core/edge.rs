// SPDX-License-Identifier: GPL-2.0

//! Tables of C structures that several parts of the core use, and that no other module does.
//!
//! | file | structures |
//! |---|---|
//! | `class` | the class `infiniband`, memory of devices and their copies |
//! | `client` | clients, and handlers of events |
//! | `cm` | `struct rdma_id_private` |
//! | `device` | devices: the fields that the core writes, their ports, their driver's methods |
//! | `end` | the end of a device's registration |
//! | `mr_pool` | pools of regions of queue pairs |
//! | `ties` | ports by their network device |
//! | `uverbs` | what is tracked of contexts and DMA handles |
//!
//! Structures that other modules use as well are in [`rdma::edge`].

/// Gives views of tracked structures a way from the entry to the structure.
macro_rules! tracked {
    ($($name:ident as $kind:ident;)*) => { $(
        impl $name {
            /// The structure that an entry is a field of, if it is one of this kind.
            pub(crate) fn of_entry(entry: &crate::restrack::Entry) -> Option<&Self> {
                const RES: usize =
                    core::mem::offset_of!(<$name as rdma::edge::View>::C, res);
                if entry.kind() != Some(crate::restrack::Kind::$kind) {
                    return None;
                }
                let c = rdma::edge::View::raw(entry).wrapping_byte_sub(RES).cast();
                // SAFETY: The entry is the `res` field of a structure of the kind that it says
                // (`restrack::Entry`, invariants), which exists while the entry is borrowed.
                Some(unsafe { rdma::edge::View::view(c) })
            }
        }
    )* };
}

pub(crate) mod class;
pub(crate) mod client;
pub(crate) mod cm;
pub(crate) mod device;
pub(crate) mod end;
pub(crate) mod mr_pool;
pub(crate) mod ties;
pub(crate) mod uverbs;
