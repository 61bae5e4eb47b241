// SPDX-License-Identifier: GPL-2.0
/* Helpers for modules that use ib_core: devices, registered memory. */
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include "helpers.h"

bool rdma_helper_ib_device_try_get(struct ib_device *dev)
{
	return ib_device_try_get(dev);
}

struct ib_umem *rdma_helper_ib_umem_get_va(struct ib_device *dev,
					   unsigned long addr, size_t size,
					   int access)
{
	return ib_umem_get_va(dev, addr, size, access);
}

struct page *rdma_helper_sg_page(struct scatterlist *sg)
{
	return sg_page(sg);
}

struct page *rdma_helper_nth_page(struct page *page, unsigned long n)
{
	return pfn_to_page(page_to_pfn(page) + n);
}
