// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers for on-demand paging. Without CONFIG_INFINIBAND_ON_DEMAND_PAGING such memory cannot be
 * registered.
 */
#include <linux/cred.h>
#include <linux/hmm.h>
#include <linux/hugetlb.h>
#include <linux/math.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/mmu_notifier.h>
#include <linux/nodemask.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/topology.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include <rdma/ib_umem_odp.h>
#include "helpers.h"

#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING

/* On-demand memory may outlive its device, which it refers to: see rust/umem/odp/uses.rs. */
static struct ib_umem_odp *hold_device(struct ib_umem_odp *odp)
{
	if (!IS_ERR(odp))
		get_device(&odp->umem.ibdev->dev);
	return odp;
}

struct ib_umem_odp *rdma_helper_odp_get(struct ib_device *dev, unsigned long addr,
					size_t size, int access,
					const struct mmu_interval_notifier_ops *ops)
{
	return hold_device(ib_umem_odp_get(dev, addr, size, access, ops));
}

struct ib_umem_odp *rdma_helper_odp_alloc_implicit(struct ib_device *dev, int access)
{
	return hold_device(ib_umem_odp_alloc_implicit(dev, access));
}

struct ib_umem_odp *rdma_helper_odp_alloc_child(struct ib_umem_odp *root,
						unsigned long addr, size_t size,
						const struct mmu_interval_notifier_ops *ops)
{
	return hold_device(ib_umem_odp_alloc_child(root, addr, size, ops));
}

void rdma_helper_odp_release(struct ib_umem_odp *odp)
{
	struct ib_device *dev = odp->umem.ibdev;

	ib_umem_odp_release(odp);
	put_device(&dev->dev);
}

/*
 * Faults in pages of files, for the C ib_core. Unlike hmm_range_fault(), this does not hold the mmap
 * lock while the file system reads: otherwise, if that does not answer, a task that waits for the
 * lock as a writer waits for ever, and behind it all readers, among them the exit of the process.
 * Unlike hmm_range_fault_unlocked_timeout(), it ends when the file system answers with an error.
 *
 * That holds for the first read of a page. If it fails, fixup_user_fault() tries again with the lock
 * held, since only then does a fault report an error; and hmm_range_fault() reads a page with the
 * lock held that has gone since. So a file server that wants it can still have the lock held, by
 * answering the first read and not the second.
 *
 * What is not mapped, or may not be written, is left to ib_umem_odp_map_dma_and_lock().
 */
static int read_files(struct mm_struct *mm, unsigned long addr, unsigned long end, bool write)
{
	unsigned int flags = FAULT_FLAG_REMOTE | (write ? FAULT_FLAG_WRITE : 0);
	int ret = 0;

	if (!mmget_not_zero(mm))
		return 0;
	mmap_read_lock(mm);
	while (addr < end) {
		struct vm_area_struct *vma = find_vma(mm, addr);
		bool unlocked = false;

		if (!vma || vma->vm_start >= end)
			break;
		if (!vma->vm_file || is_vm_hugetlb_page(vma) ||
		    vma->vm_flags & (VM_IO | VM_PFNMAP | VM_MIXEDMAP) ||
		    !(vma->vm_flags & (write ? VM_WRITE : VM_READ))) {
			addr = vma->vm_end;
			continue;
		}
		addr = max(addr, vma->vm_start);
		ret = fixup_user_fault(mm, addr, flags, &unlocked);
		if (ret)
			break;
		addr = PAGE_ALIGN(addr + 1);
		cond_resched();
	}
	mmap_read_unlock(mm);
	/* The last user tears the address space down, which waits for notifiers. */
	mmput_async(mm);
	return ret;
}

int rdma_helper_odp_map_and_lock(struct ib_umem_odp *odp, u64 addr, u64 size,
				 bool write, bool fault)
{
	int ret = 0;

	/* The function that follows checks the range. */
	if (fault && addr + size > addr)
		ret = read_files(odp->umem.owning_mm, addr, addr + size, write);
	if (ret)
		return ret;
	return ib_umem_odp_map_dma_and_lock(odp, addr, size,
					    write ? HMM_PFN_WRITE : 0, fault);
}

void rdma_helper_odp_unmap(struct ib_umem_odp *odp, u64 addr, u64 end)
{
	ib_umem_odp_unmap_dma_pages(odp, addr, end);
}

void rdma_helper_odp_lock(struct ib_umem_odp *odp)
{
	mutex_lock(&odp->umem_mutex);
}

void rdma_helper_odp_unlock(struct ib_umem_odp *odp)
{
	mutex_unlock(&odp->umem_mutex);
}

u64 rdma_helper_odp_start(struct ib_umem_odp *odp)
{
	return ib_umem_start(odp);
}

u64 rdma_helper_odp_end(struct ib_umem_odp *odp)
{
	return ib_umem_end(odp);
}

struct ib_umem_odp *rdma_helper_odp_of(struct mmu_interval_notifier *notifier)
{
	return container_of(notifier, struct ib_umem_odp, notifier);
}

void rdma_helper_interval_set_seq(struct mmu_interval_notifier *notifier,
				  unsigned long seq)
{
	mmu_interval_set_seq(notifier, seq);
}

bool rdma_helper_range_blockable(const struct mmu_notifier_range *range)
{
	return mmu_notifier_range_blockable(range);
}

u64 rdma_helper_range_start(const struct mmu_notifier_range *range)
{
	return range->start;
}

u64 rdma_helper_range_end(const struct mmu_notifier_range *range)
{
	return range->end;
}

bool rdma_helper_hmm_pfn_valid(unsigned long pfn)
{
	return pfn & HMM_PFN_VALID;
}

bool rdma_helper_hmm_pfn_writable(unsigned long pfn)
{
	return pfn & HMM_PFN_WRITE;
}

/* Returns NULL for a page that is not in the kernel's direct map. */
void *rdma_helper_hmm_pfn_address(unsigned long pfn)
{
	void *addr = page_address(hmm_pfn_to_page(pfn));
	char first;

	/*
	 * Pages of memfd_secret are not in the direct map, and there is no other way to detect
	 * them.
	 */
	if (IS_ENABLED(CONFIG_SECRETMEM) &&
	    copy_from_kernel_nofault(&first, addr, sizeof(first)))
		return NULL;
	return addr;
}

#else

struct ib_umem_odp *rdma_helper_odp_get(struct ib_device *dev, unsigned long addr,
					size_t size, int access,
					const struct mmu_interval_notifier_ops *ops)
{
	return ERR_PTR(-EOPNOTSUPP);
}

struct ib_umem_odp *rdma_helper_odp_alloc_implicit(struct ib_device *dev, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

struct ib_umem_odp *rdma_helper_odp_alloc_child(struct ib_umem_odp *root,
						unsigned long addr, size_t size,
						const struct mmu_interval_notifier_ops *ops)
{
	return ERR_PTR(-EOPNOTSUPP);
}

void rdma_helper_odp_release(struct ib_umem_odp *odp) { }
int rdma_helper_odp_map_and_lock(struct ib_umem_odp *odp, u64 addr, u64 size,
				 bool write, bool fault) { return -EOPNOTSUPP; }
void rdma_helper_odp_unmap(struct ib_umem_odp *odp, u64 addr, u64 end) { }
void rdma_helper_odp_lock(struct ib_umem_odp *odp) { }
void rdma_helper_odp_unlock(struct ib_umem_odp *odp) { }
u64 rdma_helper_odp_start(struct ib_umem_odp *odp) { return 0; }
u64 rdma_helper_odp_end(struct ib_umem_odp *odp) { return 0; }
struct ib_umem_odp *rdma_helper_odp_of(struct mmu_interval_notifier *n) { return NULL; }
void rdma_helper_interval_set_seq(struct mmu_interval_notifier *n, unsigned long seq) { }
bool rdma_helper_range_blockable(const struct mmu_notifier_range *range) { return true; }
u64 rdma_helper_range_start(const struct mmu_notifier_range *range) { return 0; }
u64 rdma_helper_range_end(const struct mmu_notifier_range *range) { return 0; }
bool rdma_helper_hmm_pfn_valid(unsigned long pfn) { return false; }
bool rdma_helper_hmm_pfn_writable(unsigned long pfn) { return false; }
void *rdma_helper_hmm_pfn_address(unsigned long pfn) { return NULL; }

#endif

void rdma_helper_set_page_dirty(const void *addr)
{
	set_page_dirty(virt_to_page(addr));
}

/*
 * The part of a number that belongs to the smallest node, if each has a part in proportion to its
 * CPUs: as max_active of an unbound workqueue is divided.
 */
unsigned int rdma_helper_smallest_node_part(unsigned int of)
{
	unsigned int all = num_online_cpus(), least = of;
	int node;

	for_each_online_node(node) {
		unsigned int cpus = cpumask_weight_and(cpumask_of_node(node), cpu_online_mask);

		if (cpus)
			least = min(least, mult_frac(of, cpus, all));
	}
	return least;
}

/*
 * The user that answers for what the current task does: whoever owns the outermost user namespace
 * that it is in and that was not made by root, since to map further user IDs there costs nothing;
 * otherwise the effective user.
 */
unsigned int rdma_helper_answerable_user(void)
{
	const struct cred *cred = current_cred();
	const struct user_namespace *ns;
	kuid_t user = cred->euid;

	for (ns = cred->user_ns; ns->parent; ns = ns->parent)
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			user = ns->owner;
	return __kuid_val(user);
}

bool rdma_helper_fatal_signal_pending(void)
{
	return fatal_signal_pending(current);
}

unsigned long rdma_helper_mm_task_size(const struct mm_struct *mm)
{
	return mm->task_size;
}
