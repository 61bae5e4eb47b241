// SPDX-License-Identifier: GPL-2.0
/* Helpers for modules that access registered memory with the CPU. */
#include <linux/ioport.h>
#include <linux/libnvdimm.h>
#include <linux/mm.h>
#include "helpers.h"

void *rdma_helper_page_address(const struct page *page)
{
	return page_address(page);
}

bool rdma_helper_virt_addr_valid(const void *addr)
{
	return virt_addr_valid(addr);
}

bool rdma_helper_is_pmem(const struct page *page, size_t count)
{
	return region_intersects(page_to_phys(page), count << PAGE_SHIFT,
				 IORESOURCE_MEM, IORES_DESC_PERSISTENT_MEMORY) ==
	       REGION_INTERSECTS;
}

void rdma_helper_wb_cache_pmem(void *addr, size_t size)
{
	arch_wb_cache_pmem(addr, size);
}
