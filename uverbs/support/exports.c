// SPDX-License-Identifier: GPL-2.0
/* What Rust cannot express: symbol exports. No logic. */
#include <linux/export.h>
#include <rdma/ib_ucaps.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>
#include <rdma/uverbs_types.h>
#include "uverbs.h"
#include "rdma_core.h"

/* For ib_uverbs */
EXPORT_SYMBOL_NS_GPL(__uobj_get_destroy, "rdma_core");
EXPORT_SYMBOL_NS_GPL(__uobj_perform_destroy, "rdma_core");
EXPORT_SYMBOL_NS_GPL(__uverbs_cleanup_ufile, "rdma_core");
EXPORT_SYMBOL_NS_GPL(ib_get_ucaps, "rdma_core");
EXPORT_SYMBOL_NS_GPL(ib_uverbs_release_file, "rdma_core");
EXPORT_SYMBOL_NS_GPL(rdma_alloc_abort_uobject, "rdma_core");
EXPORT_SYMBOL_NS_GPL(rdma_alloc_begin_uobject, "rdma_core");
EXPORT_SYMBOL_NS_GPL(rdma_alloc_commit_uobject, "rdma_core");
EXPORT_SYMBOL_NS_GPL(rdma_assign_uobject, "rdma_core");
EXPORT_SYMBOL_NS_GPL(rdma_lookup_get_uobject, "rdma_core");
EXPORT_SYMBOL_NS_GPL(rdma_lookup_put_uobject, "rdma_core");
EXPORT_SYMBOL_NS_GPL(setup_ufile_idr_uobject, "rdma_core");
EXPORT_SYMBOL_NS_GPL(uobj_destroy, "rdma_core");
EXPORT_SYMBOL_NS_GPL(uverbs_finalize_object, "rdma_core");
EXPORT_SYMBOL_NS_GPL(uverbs_get_uobject_from_file, "rdma_core");
EXPORT_SYMBOL_NS_GPL(uverbs_uobject_release, "rdma_core");

/* For drivers as well */
EXPORT_SYMBOL(flow_resources_add);
EXPORT_SYMBOL(flow_resources_alloc);
EXPORT_SYMBOL(ib_create_ucap);
EXPORT_SYMBOL(ib_remove_ucap);
EXPORT_SYMBOL(ib_uverbs_flow_resources_free);
EXPORT_SYMBOL(rdma_uattrs_has_raw_cap);
EXPORT_SYMBOL(uverbs_fd_class);
EXPORT_SYMBOL(uverbs_idr_class);
EXPORT_SYMBOL(uverbs_try_lock_object);
EXPORT_SYMBOL(uverbs_uobject_fd_release);
EXPORT_SYMBOL(uverbs_uobject_put);
