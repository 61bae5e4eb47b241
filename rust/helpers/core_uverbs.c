// SPDX-License-Identifier: GPL-2.0
/* Helpers for ib_core: what it shares with ib_uverbs, declared in a header of the core's. */
#include <linux/list.h>
#include "helpers.h"
#include "uverbs.h"

/*
 * Takes a DMA-buf out of its entry's list, revokes it, and waits until its mappings are gone, where
 * a lock protects the pointer to the buffer. The entry's dmabufs_lock is held.
 */
void rdma_helper_dmabuf_revoke(struct ib_uverbs_dmabuf_file *file)
{
#ifdef RDMA_HAS_DMABUF_RELEASE_LOCK
	list_del(&file->dmabufs_elm);
	ib_uverbs_dmabuf_revoke(file);
#endif
}
