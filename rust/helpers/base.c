// SPDX-License-Identifier: GPL-2.0
/* Helpers every module may need: locks, bottom halves, work queues, memory. */
#include <linux/bottom_half.h>
#include <linux/crc32.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include "helpers.h"

void rdma_helper_cond_resched(void)
{
	cond_resched();
}

void rdma_helper_local_bh_disable(void)
{
	local_bh_disable();
}

void rdma_helper_local_bh_enable(void)
{
	local_bh_enable();
}

unsigned long rdma_helper_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

bool rdma_helper_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}

void rdma_helper_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

void rdma_helper_spin_lock_bh(spinlock_t *lock)
{
	spin_lock_bh(lock);
}

bool rdma_helper_spin_trylock_bh(spinlock_t *lock)
{
	return spin_trylock_bh(lock);
}

void rdma_helper_spin_unlock_bh(spinlock_t *lock)
{
	spin_unlock_bh(lock);
}

struct workqueue_struct *rdma_helper_alloc_workqueue(const char *name,
						     unsigned int flags,
						     int max_active)
{
	return alloc_workqueue("%s", flags, max_active, name);
}

void *rdma_helper_vmalloc_user(unsigned long size)
{
	return vmalloc_user(size);
}

void rdma_helper_vfree_mapped(const void *addr)
{
	/* A leak is better than a list through memory that users can write. */
	if (!WARN_ON_ONCE(in_interrupt()))
		vfree(addr);
}

int rdma_helper_remap_vmalloc_range(struct vm_area_struct *vma, void *addr,
				    unsigned long pgoff)
{
	return remap_vmalloc_range(vma, addr, pgoff);
}

bool rdma_helper_vmalloc_private(const void *addr, unsigned long size)
{
	unsigned long at;

	for (at = 0; at < size; at += PAGE_SIZE)
		if (page_count(vmalloc_to_page(addr + at)) != 1)
			return false;
	/* What was written through the mappings that are gone comes before what the caller does. */
	smp_mb();
	return true;
}

u32 rdma_helper_crc32_le(u32 crc, const void *p, size_t len)
{
	return crc32_le(crc, p, len);
}
