// SPDX-License-Identifier: GPL-2.0
/* Helpers for consumers of queue pairs: DMA mappings of kernel memory, regions, posted requests. */
#include <rdma/ib_verbs.h>
#include "helpers.h"

u64 rdma_helper_ib_dma_map_single(struct ib_device *dev, void *addr, size_t size,
				  enum dma_data_direction direction)
{
	return ib_dma_map_single(dev, addr, size, direction);
}

int rdma_helper_ib_dma_mapping_error(struct ib_device *dev, u64 addr)
{
	return ib_dma_mapping_error(dev, addr);
}

void rdma_helper_ib_dma_unmap_single(struct ib_device *dev, u64 addr, size_t size,
				     enum dma_data_direction direction)
{
	ib_dma_unmap_single(dev, addr, size, direction);
}

int rdma_helper_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr)
{
	return ib_post_send(qp, wr, NULL);
}

int rdma_helper_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr)
{
	return ib_post_recv(qp, wr, NULL);
}

void rdma_helper_ib_dma_sync_for_cpu(struct ib_device *dev, u64 addr, size_t size)
{
	ib_dma_sync_single_for_cpu(dev, addr, size, DMA_BIDIRECTIONAL);
}

void rdma_helper_ib_dma_sync_for_device(struct ib_device *dev, u64 addr, size_t size)
{
	ib_dma_sync_single_for_device(dev, addr, size, DMA_BIDIRECTIONAL);
}

/* Maps memory that is mapped for DMA in one piece. Returns 1 if it fits into the region. */
int rdma_helper_map_mr_piece(struct ib_mr *mr, u64 addr, unsigned int len)
{
	struct scatterlist sg;

	sg_init_table(&sg, 1);
	sg.length = len;
	sg_dma_address(&sg) = addr;
	sg_dma_len(&sg) = len;
	return ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE);
}
