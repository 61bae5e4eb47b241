// SPDX-License-Identifier: GPL-2.0
/* Helpers every module may need: locks, counts, bottom halves, work queues, memory. */
#include <linux/bottom_half.h>
#include <linux/build_bug.h>
#include <linux/crc32.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include "helpers.h"

void rdma_helper_cond_resched(void)
{
	cond_resched();
}

void rdma_helper_synchronize_rcu_tasks(void)
{
	/* Without it the kernel waits for less: not for tasks that were preempted. */
	BUILD_BUG_ON(IS_ENABLED(CONFIG_PREEMPTION) && !IS_ENABLED(CONFIG_TASKS_RCU));
	synchronize_rcu_tasks();
}

unsigned long rdma_helper_array_index_nospec(unsigned long index, unsigned long size)
{
	return array_index_nospec(index, size);
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

/*
 * Has the charged allocations of this task charged to the memory cgroup of mm's owner, which it
 * returns with a reference, until rdma_helper_charge_end().
 */
struct mem_cgroup *rdma_helper_charge_begin(struct mm_struct *mm,
					    struct mem_cgroup **before)
{
	struct mem_cgroup *group = get_mem_cgroup_from_mm(mm);

	*before = set_active_memcg(group);
	return group;
}

void rdma_helper_charge_end(struct mem_cgroup *group, struct mem_cgroup *before)
{
	set_active_memcg(before);
	mem_cgroup_put(group);
}

/*
 * Allocates pages and maps them contiguously, for vfree(). vmalloc() is not used because it removes
 * __GFP_NOWARN from the caller's flags and does not set VM_USERMAP for them.
 */
static void *vmap_accounted(unsigned long size, gfp_t gfp, unsigned long vm_flags)
{
	unsigned long count = PAGE_ALIGN(size) >> PAGE_SHIFT, made;
	struct page **pages;
	void *addr;

	if (!count || count > totalram_pages())
		return NULL;
	pages = kvmalloc_array(count, sizeof(*pages), gfp & ~__GFP_ZERO);
	if (!pages)
		return NULL;
	for (made = 0; made < count; made++) {
		if (fatal_signal_pending(current))
			goto undo;
		pages[made] = alloc_page(gfp);
		if (!pages[made])
			goto undo;
		cond_resched();
	}
	addr = vmap(pages, count, VM_MAP | VM_MAP_PUT_PAGES | vm_flags, PAGE_KERNEL);
	if (addr)
		return addr;
undo:
	while (made)
		__free_page(pages[--made]);
	kvfree(pages);
	return NULL;
}

/* Returns memory for kvfree(), not zeroed. */
void *rdma_helper_alloc_accounted(unsigned long size)
{
	gfp_t quick = (GFP_USERS & ~(__GFP_DIRECT_RECLAIM | __GFP_RETRY_MAYFAIL)) | __GFP_NORETRY;
	void *addr;

	if (size <= PAGE_SIZE)
		return kmalloc(size, GFP_USERS);
	/* Contiguous memory needs fewer TLB entries, but is not worth reclaim. */
	addr = size <= SZ_64K ? kmalloc(size, quick) : NULL;
	return addr ?: vmap_accounted(size, GFP_USERS, 0);
}

/* Returns zeroed, contiguous memory for kfree(). */
void *rdma_helper_zalloc_accounted(unsigned long size)
{
	return kzalloc(size, GFP_USERS);
}

/* Returns zeroed memory for rdma_helper_vfree_mapped() and remap_vmalloc_range(). */
void *rdma_helper_alloc_mappable(unsigned long size)
{
	return vmap_accounted(size, GFP_USERS | __GFP_ZERO, VM_USERMAP);
}

void rdma_helper_vfree_mapped(const void *addr)
{
	/* vfree() would store a list node in memory that users can write; leak it instead. */
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
	/* Order writes through removed mappings before accesses of the caller. */
	smp_mb();
	return true;
}

bool rdma_helper_refcount_inc_not_zero(refcount_t *count)
{
	return refcount_inc_not_zero(count);
}

u32 rdma_helper_crc32_le(u32 crc, const void *p, size_t len)
{
	return crc32_le(crc, p, len);
}

void rdma_helper_list_add_tail(struct list_head *entry, struct list_head *head)
{
	list_add_tail(entry, head);
}

void rdma_helper_list_del_init(struct list_head *entry)
{
	list_del_init(entry);
}

/* For fields of unnamed unions, whose names in the bindings depend on the configuration. */
struct cdev *rdma_helper_inode_cdev(struct inode *inode)
{
	return inode->i_cdev;
}

/*
 * xa_load(), for RCU readers: without the walk if the array is one node, as long as no index beyond
 * is in use.
 */
void *rdma_helper_xa_load(struct xarray *xa, unsigned long index)
{
	void *head = xa_head(xa);

	if (xa_is_node(head) && index < XA_CHUNK_SIZE && !xa_to_node(head)->shift) {
		void *entry = xa_entry(xa, xa_to_node(head),
				       array_index_nospec(index, XA_CHUNK_SIZE));

		if (!xa_is_internal(entry))
			return entry;
	}
	return xa_load(xa, index);
}
