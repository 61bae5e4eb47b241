// SPDX-License-Identifier: GPL-2.0
/* What Rust cannot express: symbol exports and imported namespaces. No logic. */
#include <linux/export.h>
#include <linux/module.h>
#include <rdma/ib_marshall.h>
#include <rdma/ib_verbs.h>

MODULE_IMPORT_NS("rdma_core");
MODULE_IMPORT_NS("DMA_BUF");

/* For rdma_ucm */
EXPORT_SYMBOL(ib_copy_ah_attr_to_user);
EXPORT_SYMBOL(ib_copy_path_rec_to_user);
EXPORT_SYMBOL(ib_copy_qp_attr_to_user);

/* For drivers */
EXPORT_SYMBOL(rdma_user_mmap_disassociate);
