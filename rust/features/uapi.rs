// SPDX-License-Identifier: GPL-2.0

//! Names of `include/uapi/rdma/ib_user_ioctl_cmds.h` and `ib_user_ioctl_verbs.h` that only kernels with
//! a feature have. Elsewhere they stand for the same numbers, and no table of `ib_uverbs` that is in
//! use has them. Constants only.
//!
//! `tools/uverbs_abi.py` reads this file.

#![allow(
    non_upper_case_globals,
    reason = "the names of the bindings to the headers"
)]

/// Names with their numbers, which are checked where the headers have them.
macro_rules! names {
    ($feature:ident: $($name:ident = $number:literal;)*) => {
        $(
            #[cfg($feature)]
            pub use crate::bindings::$name;
            #[cfg($feature)]
            const _: () = assert!(crate::bindings::$name == $number);
            /// The number of the name in the header.
            #[cfg(not($feature))]
            pub const $name: u32 = $number;
        )*
    };
}

names! { rdma_has_comp_cntr:
    uverbs_default_objects_UVERBS_OBJECT_COMP_CNTR = 19;
    uverbs_methods_comp_cntr_UVERBS_METHOD_COMP_CNTR_CREATE = 0;
    uverbs_methods_comp_cntr_UVERBS_METHOD_COMP_CNTR_DESTROY = 1;
    uverbs_methods_comp_cntr_UVERBS_METHOD_COMP_CNTR_MODIFY = 2;
    uverbs_methods_comp_cntr_UVERBS_METHOD_COMP_CNTR_READ = 3;
    uverbs_attrs_create_comp_cntr_cmd_attr_ids_UVERBS_ATTR_CREATE_COMP_CNTR_HANDLE = 0;
    uverbs_attrs_destroy_comp_cntr_cmd_attr_ids_UVERBS_ATTR_DESTROY_COMP_CNTR_HANDLE = 0;
    uverbs_attrs_modify_comp_cntr_cmd_attr_ids_UVERBS_ATTR_MODIFY_COMP_CNTR_HANDLE = 0;
    uverbs_attrs_modify_comp_cntr_cmd_attr_ids_UVERBS_ATTR_MODIFY_COMP_CNTR_ENTRY = 1;
    uverbs_attrs_modify_comp_cntr_cmd_attr_ids_UVERBS_ATTR_MODIFY_COMP_CNTR_OP = 2;
    uverbs_attrs_modify_comp_cntr_cmd_attr_ids_UVERBS_ATTR_MODIFY_COMP_CNTR_VALUE = 3;
    uverbs_attrs_read_comp_cntr_cmd_attr_ids_UVERBS_ATTR_READ_COMP_CNTR_HANDLE = 0;
    uverbs_attrs_read_comp_cntr_cmd_attr_ids_UVERBS_ATTR_READ_COMP_CNTR_ENTRY = 1;
    uverbs_attrs_read_comp_cntr_cmd_attr_ids_UVERBS_ATTR_READ_COMP_CNTR_RESP_VALUE = 2;
    uverbs_methods_device_UVERBS_METHOD_QUERY_COMP_CNTR_CAPS = 8;
    uverbs_attrs_query_comp_cntr_caps_attr_ids_UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_COUNTERS = 0;
    uverbs_attrs_query_comp_cntr_caps_attr_ids_UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_MAX_VALUE = 1;
    uverbs_attrs_query_comp_cntr_caps_attr_ids_UVERBS_ATTR_QUERY_COMP_CNTR_CAPS_SUPPORTED_QP_ATTACH_OPS = 2;
    uverbs_methods_qp_UVERBS_METHOD_QP_ATTACH_COMP_CNTR = 2;
    uverbs_attrs_qp_attach_comp_cntr_cmd_attr_ids_UVERBS_ATTR_QP_ATTACH_COMP_CNTR_HANDLE = 0;
    uverbs_attrs_qp_attach_comp_cntr_cmd_attr_ids_UVERBS_ATTR_QP_ATTACH_COMP_CNTR_CNTR_HANDLE = 1;
    uverbs_attrs_qp_attach_comp_cntr_cmd_attr_ids_UVERBS_ATTR_QP_ATTACH_COMP_CNTR_OP_MASK = 2;
    ib_uverbs_qp_attach_comp_cntr_op_IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_SEND = 1;
    ib_uverbs_qp_attach_comp_cntr_op_IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RECV = 2;
    ib_uverbs_qp_attach_comp_cntr_op_IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_READ = 4;
    ib_uverbs_qp_attach_comp_cntr_op_IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ = 8;
    ib_uverbs_qp_attach_comp_cntr_op_IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE = 16;
    ib_uverbs_qp_attach_comp_cntr_op_IB_UVERBS_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE = 32;
}

names! { rdma_has_srq_buf_umem:
    uverbs_attrs_create_srq_cmd_attr_ids_UVERBS_ATTR_CREATE_SRQ_BUF_UMEM = 14;
}
