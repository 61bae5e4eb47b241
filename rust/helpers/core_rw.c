// SPDX-License-Identifier: GPL-2.0
/* Helpers for ib_core: the RW API. */
#include <linux/bvec.h>
#include <linux/dma-mapping.h>
#include <linux/scatterlist.h>
#include <rdma/ib_verbs.h>
#include "helpers.h"

int rdma_helper_rw_map_sgtable(struct ib_device *dev, struct sg_table *sgt,
			       enum dma_data_direction dir)
{
	return ib_dma_map_sgtable_attrs(dev, sgt, dir, 0);
}

void rdma_helper_rw_unmap_sgtable(struct ib_device *dev, struct sg_table *sgt,
				  enum dma_data_direction dir)
{
	ib_dma_unmap_sgtable_attrs(dev, sgt, dir, 0);
}

u64 rdma_helper_rw_map_bvec(struct ib_device *dev, struct bio_vec *bvec,
			    enum dma_data_direction dir)
{
	return ib_dma_map_bvec(dev, bvec, dir);
}

bool rdma_helper_rw_mapping_error(struct ib_device *dev, u64 addr)
{
	return ib_dma_mapping_error(dev, addr);
}

void rdma_helper_rw_unmap_bvec(struct ib_device *dev, u64 addr, size_t size,
			       enum dma_data_direction dir)
{
	ib_dma_unmap_bvec(dev, addr, size, dir);
}

void rdma_helper_rw_sg_set_page(struct scatterlist *sg, struct page *page,
				unsigned int len, unsigned int offset)
{
	sg_set_page(sg, page, len, offset);
}

bool rdma_helper_rw_iova_try_alloc(struct ib_device *dev, struct dma_iova_state *state,
				   struct bio_vec *first, size_t size)
{
	return dma_iova_try_alloc(dev->dma_device, state, bvec_phys(first), size);
}

int rdma_helper_rw_iova_link(struct ib_device *dev, struct dma_iova_state *state,
			     struct bio_vec *bvec, size_t offset,
			     enum dma_data_direction dir)
{
	return dma_iova_link(dev->dma_device, state, bvec_phys(bvec), offset,
			     bvec->bv_len, dir, 0);
}

int rdma_helper_rw_iova_sync(struct ib_device *dev, struct dma_iova_state *state,
			     size_t size)
{
	return dma_iova_sync(dev->dma_device, state, 0, size);
}

void rdma_helper_rw_iova_destroy(struct ib_device *dev, struct dma_iova_state *state,
				 size_t mapped, enum dma_data_direction dir)
{
	dma_iova_destroy(dev->dma_device, state, mapped, dir, 0);
}
