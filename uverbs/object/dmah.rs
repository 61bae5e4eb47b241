// SPDX-License-Identifier: GPL-2.0

//! DMA handles: what programs know of the accesses of a device to memory, for regions
//! ([`super::mr`]). They become TLP processing hints (TPH) of PCI Express.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use crate::edge::call::Call;
use crate::edge::definitions::needs;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Id;
use crate::edge::handle::Kind;
use crate::edge::handle::NumberedType;
use crate::edge::handle::Object;
use crate::edge::object::dmah;
use crate::edge::object::dmah::Hints;
use crate::proto::spec::Access;
use crate::table::nothing;
use crate::table::Attribute;
use crate::table::Def;
use crate::table::Method;
use crate::table::Tree;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::uverbs_attrs_alloc_dmah_cmd_attr_ids_UVERBS_ATTR_ALLOC_DMAH_CPU_ID as CPU;
use rdma::bindings::uverbs_attrs_alloc_dmah_cmd_attr_ids_UVERBS_ATTR_ALLOC_DMAH_HANDLE as HANDLE;
use rdma::bindings::uverbs_attrs_alloc_dmah_cmd_attr_ids_UVERBS_ATTR_ALLOC_DMAH_PH as HINT;
use rdma::bindings::uverbs_attrs_alloc_dmah_cmd_attr_ids_UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE as MEMORY;

/// Handles of DMA handles.
pub(crate) struct Dmah;

impl Kind for Dmah {
    type Beside = ();

    fn beside() -> impl PinInit<()> {
        pin_init::init_zeroed()
    }
}

impl Object for Dmah {
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>> {
        dmah::free(object)
    }
}

static TYPE: NumberedType<Dmah> = NumberedType::new();

/// Types of memory: volatile, and persistent (`enum tph_mem_type`).
const MEMORY_TYPES: u8 = 2;
const _: () = assert!(bindings::tph_mem_type_TPH_MEM_TYPE_VM == 0);
const _: () = assert!(bindings::tph_mem_type_TPH_MEM_TYPE_PM == 1);

/// The bits of a processing hint (PCI Express 6.2, TLP processing hints).
const HINTS: u8 = 3;

/// The table of DMA handles.
pub(crate) const TABLE: &[Def] = &[
    Def::Tree(Tree {
        id: Dmah::ID,
        of: Some(TYPE.get()),
        methods: &[
            Method {
                id: bindings::uverbs_methods_dmah_UVERBS_METHOD_DMAH_ALLOC,
                run: alloc,
                attributes: &[&[
                    Attribute::handle(HANDLE, Dmah::ID, Access::New),
                    Attribute::input_of::<u32>(CPU),
                    Attribute::choice(MEMORY, MEMORY_TYPES),
                    Attribute::input_of::<u8>(HINT),
                ]],
            },
            Method {
                id: bindings::uverbs_methods_dmah_UVERBS_METHOD_DMAH_FREE,
                run: nothing,
                attributes: &[&[Attribute::handle(
                    bindings::uverbs_attrs_free_dmah_cmd_attr_ids_UVERBS_ATTR_FREE_DMA_HANDLE,
                    Dmah::ID,
                    Access::Destroy,
                )]],
            },
        ],
    }),
    Def::ObjectNeeds(needs!(dealloc_dmah)),
    Def::ObjectNeeds(needs!(alloc_dmah)),
];

fn alloc(call: &Call) -> Result {
    let mut hints = Hints::default();
    if call.has(CPU) {
        let cpu = call.input(CPU)?;
        if cpu >= kernel::cpu::nr_cpu_ids() {
            return Err(EINVAL);
        }
        if !dmah::may_run_on(cpu) {
            return Err(EPERM);
        }
        hints.cpu = Some(cpu);
    }
    if call.has(MEMORY) {
        hints.memory = Some(call.choice(MEMORY)?);
    }
    if call.has(HINT) {
        let hint = call.input(HINT)?;
        if hint & !HINTS != 0 {
            return Err(EINVAL);
        }
        hints.hint = Some(hint);
    }
    let new = call.take_new::<Dmah>(HANDLE)?;
    let made = dmah::alloc(&new, &hints)?;
    new.made(made);
    Ok(())
}
