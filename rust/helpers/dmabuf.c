// SPDX-License-Identifier: GPL-2.0
/* Helpers for DMA-bufs. */
#include <linux/dma-buf.h>
#include <linux/iosys-map.h>
#include <linux/module.h>
#include "helpers.h"

#ifdef CONFIG_DMA_SHARED_BUFFER

MODULE_IMPORT_NS("DMA_BUF");

struct dma_buf *rdma_helper_dma_buf_get(int fd)
{
	return dma_buf_get(fd);
}

void rdma_helper_dma_buf_put(struct dma_buf *buf)
{
	dma_buf_put(buf);
}

bool rdma_helper_dma_buf_is_dynamic(struct dma_buf *buf)
{
	return dma_buf_is_dynamic(buf);
}

size_t rdma_helper_dma_buf_size(const struct dma_buf *buf)
{
	return buf->size;
}

int rdma_helper_dma_buf_begin(struct dma_buf *buf)
{
	return dma_buf_begin_cpu_access(buf, DMA_BIDIRECTIONAL);
}

int rdma_helper_dma_buf_end(struct dma_buf *buf)
{
	return dma_buf_end_cpu_access(buf, DMA_BIDIRECTIONAL);
}

int rdma_helper_dma_buf_vmap(struct dma_buf *buf, struct iosys_map *map)
{
	return dma_buf_vmap_unlocked(buf, map);
}

void rdma_helper_dma_buf_vunmap(struct dma_buf *buf, struct iosys_map *map)
{
	dma_buf_vunmap_unlocked(buf, map);
}

#else

struct dma_buf *rdma_helper_dma_buf_get(int fd) { return ERR_PTR(-EOPNOTSUPP); }
void rdma_helper_dma_buf_put(struct dma_buf *buf) { }
bool rdma_helper_dma_buf_is_dynamic(struct dma_buf *buf) { return true; }
size_t rdma_helper_dma_buf_size(const struct dma_buf *buf) { return 0; }
int rdma_helper_dma_buf_begin(struct dma_buf *buf) { return -EOPNOTSUPP; }
int rdma_helper_dma_buf_end(struct dma_buf *buf) { return -EOPNOTSUPP; }
int rdma_helper_dma_buf_vmap(struct dma_buf *buf, struct iosys_map *map) { return -EOPNOTSUPP; }
void rdma_helper_dma_buf_vunmap(struct dma_buf *buf, struct iosys_map *map) { }

#endif

void *rdma_helper_iosys_map_memory(const struct iosys_map *map)
{
	return map->is_iomem ? NULL : map->vaddr;
}
