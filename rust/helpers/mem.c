// SPDX-License-Identifier: GPL-2.0
/* Helpers for modules that touch registered memory by the CPU. */
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
